//! Cursors read from the store, claimed or not.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::draft::page_key;
use super::pages;
use super::types::{AckPage, CursorState};
use crate::env::Env;
use crate::error::{Error, Result};
use crate::metadata::settle::write_settled;
use crate::metadata::{Expected, MetadataStore, Verdict, Version, Versioned, Write};
use crate::record::{CursorPage, CursorRoot, Key, Record, RecordType};
use crate::types::{OwnerEpoch, StreamId};

/// Keys per scan.
const SCAN: usize = 512;
/// How often a claim or a read is tried again when somebody changes the cursor meanwhile.
const MAX_TRIES: u32 = 8;

/// What is known of a stored cursor.
pub(super) enum Known {
    Absent,
    At(Box<CursorRoot>, Version),
    /// An outcome was lost: read before the next change.
    Unsure,
}

pub(super) struct Claimed {
    pub known: HashMap<String, Known>,
    pub states: Vec<CursorState>,
}

/// Takes every root for `epoch`, then loads the pages: an older owner's persist that comes later fails on the root's version.
pub(super) async fn claim(
    env: &Env,
    store: &dyn MetadataStore,
    stream: StreamId,
    epoch: OwnerEpoch,
) -> Result<Claimed> {
    let mut claimed: Vec<(CursorRoot, Version)> = Vec::new();
    let mut open: Vec<(Key, Versioned)> = scan_all(store, RecordType::CursorRoot, stream).await?;
    let mut tries = 0;
    while !open.is_empty() {
        let mut roots = Vec::new();
        let mut batch = Vec::new();
        for (key, stored) in open.drain(..) {
            let mut root = CursorRoot::decode(&key, &stored.value)?;
            if root.owner_epoch > epoch {
                return Err(Error::Fenced {
                    what: format!("cursor {} of stream {stream}", root.name),
                    by_epoch: root.owner_epoch,
                });
            }
            if root.owner_epoch == epoch {
                claimed.push((root, stored.version));
                continue;
            }
            root.owner_epoch = epoch;
            batch.push(Write {
                key: key.clone(),
                expected: Expected::Version(stored.version),
                value: Some(root.encode()?),
            });
            roots.push((key, root));
        }
        if batch.is_empty() {
            break;
        }
        for ((key, root), verdict) in roots.into_iter().zip(write_settled(store, &*env.clock, batch).await) {
            match verdict {
                Verdict::Applied(version) => claimed.push((root, version)),
                // The old owner persisted once more before it was fenced: claim what it wrote.
                Verdict::Conflict(Some(newer)) => open.push((key, newer)),
                Verdict::Conflict(None) => {}
                Verdict::Refused(error) | Verdict::Unknown(error) => return Err(error),
            }
        }
        tries += 1;
        if tries > MAX_TRIES {
            return Err(Error::Conflict {
                what: format!("the cursors of stream {stream}"),
            });
        }
    }
    claimed.sort_unstable_by(|(a, _), (b, _)| a.name.cmp(&b.name));

    let mut named: HashSet<Key> = HashSet::new();
    for (root, _) in &claimed {
        for page in &root.pages {
            named.insert(page_key(root, page)?);
        }
    }
    let mut pages = HashMap::new();
    let mut orphans = Vec::new();
    for (key, stored) in scan_all(store, RecordType::CursorPage, stream).await? {
        match named.contains(&key) {
            true => drop(pages.insert(key, stored)),
            false => orphans.push(Write {
                key,
                expected: Expected::Version(stored.version),
                value: None,
            }),
        }
    }
    let states = claimed
        .iter()
        .map(|(root, _)| state(root, |key| pages.get(key).cloned()))
        .collect::<Result<_>>()?;
    if !orphans.is_empty() {
        tracing::debug!(%stream, count = orphans.len(), "removing cursor pages that no root names");
        // What stays is found again by the next claim.
        drop(store.write(orphans).await);
    }
    let known = claimed
        .into_iter()
        .map(|(root, version)| (root.name.clone(), Known::At(Box::new(root), version)))
        .collect();
    Ok(Claimed { known, states })
}

/// Every cursor of a stream, by name, without claiming any.
///
/// # Errors
/// `Corrupt` when one cannot be read, `Unavailable` when its owner changes it faster than it can be read.
pub async fn read_all(store: &dyn MetadataStore, stream: StreamId) -> Result<Vec<CursorState>> {
    let mut states = Vec::new();
    for (key, stored) in scan_all(store, RecordType::CursorRoot, stream).await? {
        states.extend(read_one(store, key, stored).await?);
    }
    Ok(states)
}

/// One cursor; `None` when it was deleted meanwhile.
async fn read_one(store: &dyn MetadataStore, key: Key, mut stored: Versioned) -> Result<Option<CursorState>> {
    for _ in 0..MAX_TRIES {
        let root = CursorRoot::decode(&key, &stored.value)?;
        let mut pages = HashMap::new();
        for name in &root.pages {
            let page = page_key(&root, name)?;
            if let Some(there) = store.get(page.clone()).await? {
                pages.insert(page, there);
            }
        }
        let result = state(&root, |key| pages.get(key).cloned());
        if result.is_ok() {
            return result.map(Some);
        }
        // A page may be gone because a newer root replaced it: only a root that stayed proves damage.
        match store.get(key.clone()).await? {
            None => return Ok(None),
            Some(now) if now.version == stored.version => return result.map(Some),
            Some(now) => stored = now,
        }
    }
    Err(Error::Unavailable {
        what: format!("{key} changes faster than it can be read"),
        retry: std::time::Duration::from_millis(100),
    })
}

fn state(root: &CursorRoot, find: impl Fn(&Key) -> Option<Versioned>) -> Result<CursorState> {
    let mut parts: BTreeMap<u64, Vec<CursorPage>> = BTreeMap::new();
    for name in &root.pages {
        let key = page_key(root, name)?;
        let corrupt = |detail: String| Error::Corrupt {
            what: format!("cursor {} of stream {}", root.name, root.stream),
            place: format!("key {key}"),
            detail,
        };
        let Some(stored) = find(&key) else {
            return Err(corrupt("a page that the cursor's root names is missing".into()));
        };
        if stored.value.len() as u64 != u64::from(name.bytes) || crc32c::crc32c(&stored.value) != name.crc32c {
            return Err(corrupt("a page is not the one that the cursor's root names".into()));
        }
        parts
            .entry(name.page)
            .or_default()
            .push(CursorPage::decode(&key, &stored.value)?);
    }
    let pages: Vec<AckPage> = parts
        .into_iter()
        .map(|(page, parts)| pages::join(page, parts))
        .collect::<Result<_>>()?;
    Ok(CursorState {
        name: root.name.clone(),
        mark_delete_end: root.mark_delete_end,
        position_properties: root.position_properties.clone(),
        cursor_properties: root.cursor_properties.clone(),
        pages,
    })
}

/// Every record of one kind in one stream, ascending.
async fn scan_all(store: &dyn MetadataStore, kind: RecordType, stream: StreamId) -> Result<Vec<(Key, Versioned)>> {
    let (mut from, to) = Key::stream_range(kind, stream);
    let mut all = Vec::new();
    loop {
        let found = store.scan(from, to.clone(), SCAN).await?;
        let more = found.len() == SCAN;
        all.extend(found);
        match all.last() {
            Some((last, _)) if more => from = last.after(),
            _ => return Ok(all),
        }
    }
}
