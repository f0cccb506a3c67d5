//! Cursors read from the store, claimed or not.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;

use super::names::{check, corrupt, index_key, page_key, Names, Place};
use super::pages;
use super::types::{AckPage, CursorState};
use crate::env::Env;
use crate::error::{Error, Result};
use crate::metadata::settle::write_settled;
use crate::metadata::{Expected, MetadataStore, Verdict, Version, Versioned, Write};
use crate::mutant::{active, Mutant};
use crate::record::{CursorIndex, CursorPage, CursorRoot, Key, PageName, Record, RecordType};
use crate::types::{OwnerEpoch, StreamId};

/// Keys per scan.
const SCAN: usize = 512;
/// How often a claim or a read is tried again when somebody changes the cursor meanwhile.
const MAX_TRIES: u32 = 8;

/// What is known of a stored cursor.
pub(super) enum Known {
    Absent,
    /// There is no cursor; its key is taken nevertheless.
    Left(Left),
    At(Box<Stored>),
    /// An outcome was lost: read before the next change.
    Unsure,
}

impl From<Found> for Known {
    fn from(found: Found) -> Known {
        match found {
            Found::Nothing => Known::Absent,
            Found::Left(left) => Known::Left(left),
            Found::Cursor(stored) => Known::At(stored),
        }
    }
}

/// What an owner finds at the key of a cursor.
pub(super) enum Found {
    Nothing,
    Left(Left),
    Cursor(Box<Stored>),
}

impl Found {
    /// Whose it is.
    pub fn owner_epoch(&self) -> Option<OwnerEpoch> {
        match self {
            Found::Nothing => None,
            Found::Left(left) => Some(left.owner_epoch),
            Found::Cursor(stored) => Some(stored.root.owner_epoch),
        }
    }
}

/// What stands for no cursor: a tombstone; or a root of an older owner that came after this owner's claim, which means that its
/// creation was never confirmed to anybody.
#[derive(Debug, Clone, Copy)]
pub(super) struct Left {
    pub version: Version,
    pub owner_epoch: OwnerEpoch,
    pub ack_epoch: u64,
}

/// A stored cursor without its acks.
pub(super) struct Stored {
    /// Without names: they are in `names`.
    pub root: CursorRoot,
    pub version: Version,
    pub names: Names,
}

impl Stored {
    /// A root, its version and what it leads to.
    pub fn new(mut root: CursorRoot, version: Version, names: Names) -> Stored {
        // The names are kept in one form only.
        (root.pages, root.indexes) = (Vec::new(), Vec::new());
        Stored { root, version, names }
    }
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
            if root.owner_epoch == epoch || active(Mutant::LeaveCursorEpoch) {
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

    // Nobody else moves a root from here on, so what is found now is what the roots lead to.
    // Sorted, so that orphans are removed in the same order whenever the same ones are found.
    let mut found: BTreeMap<Key, Versioned> = BTreeMap::new();
    for kind in [RecordType::CursorIndex, RecordType::CursorPage] {
        found.extend(scan_all(store, kind, stream).await?);
    }
    let mut used: HashSet<Key> = HashSet::new();
    let mut known = HashMap::new();
    let mut states = Vec::new();
    for (root, version) in claimed.into_iter().filter(|(root, _)| !root.deleted) {
        let mut find = |key: &Key| {
            used.insert(key.clone());
            found.get(key).cloned()
        };
        let indexes = indexes(&root, &mut find)?;
        let (state, digests) = state(&root, &indexes, &mut find)?;
        let names = Names::of(&root, indexes, |name| digests.get(&name.place()).copied());
        known.insert(
            root.name.clone(),
            Known::At(Box::new(Stored::new(root, version, names))),
        );
        states.push(state);
    }
    remove_orphans(store, stream, found, &used).await;
    Ok(Claimed { known, states })
}

/// Removes what no root leads to: what a crash left between the parts and the root, or between the root and the reclamation.
async fn remove_orphans(
    store: &dyn MetadataStore,
    stream: StreamId,
    found: BTreeMap<Key, Versioned>,
    used: &HashSet<Key>,
) {
    let orphans: Vec<Write> = found
        .into_iter()
        .filter(|(key, _)| !used.contains(key))
        .map(|(key, stored)| Write {
            key,
            expected: Expected::Version(stored.version),
            value: None,
        })
        .collect();
    if !orphans.is_empty() {
        tracing::debug!(%stream, count = orphans.len(), "removing parts of cursors that no root leads to");
        // What stays is found again by the next claim.
        drop(store.write(orphans).await);
    }
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

/// One cursor without its acks, for the owner of `epoch`, who has claimed the stream.
pub(super) async fn find(store: &dyn MetadataStore, stream: StreamId, name: &str, epoch: OwnerEpoch) -> Result<Found> {
    let key = Key::cursor_root(stream, name)?;
    let Some(there) = store.get(key.clone()).await? else {
        return Ok(Found::Nothing);
    };
    Ok(match read_stable(store, key, there, Depth::Names, epoch).await? {
        Read::Nothing => Found::Nothing,
        Read::Left(left) => Found::Left(left),
        Read::Root(root, version, indexes, _) => {
            let names = Names::of(&root, indexes, |_| None);
            Found::Cursor(Box::new(Stored::new(*root, version, names)))
        }
    })
}

/// One cursor; `None` when there is none, or none any more.
async fn read_one(store: &dyn MetadataStore, key: Key, there: Versioned) -> Result<Option<CursorState>> {
    match read_stable(store, key, there, Depth::Pages, OwnerEpoch::new(0)).await? {
        Read::Root(_, _, _, state) => Ok(state),
        Read::Nothing | Read::Left(_) => Ok(None),
    }
}

/// By the place of a part, what tells its content apart.
type Digests = HashMap<Place, u64>;

/// How far a read follows the names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    Names,
    Pages,
}

enum Read {
    Nothing,
    Left(Left),
    Root(Box<CursorRoot>, Version, Vec<CursorIndex>, Option<CursorState>),
}

/// Follows a root that its owner may change meanwhile. Roots of owners before `since` stand for nothing.
async fn read_stable(
    store: &dyn MetadataStore,
    key: Key,
    mut there: Versioned,
    depth: Depth,
    since: OwnerEpoch,
) -> Result<Read> {
    for _ in 0..MAX_TRIES {
        let root = CursorRoot::decode(&key, &there.value)?;
        if root.deleted || root.owner_epoch < since {
            return Ok(Read::Left(Left {
                version: there.version,
                owner_epoch: root.owner_epoch,
                ack_epoch: root.ack_epoch,
            }));
        }
        let result = follow(store, &root, depth).await;
        if let Ok((indexes, state)) = result {
            return Ok(Read::Root(Box::new(root), there.version, indexes, state));
        }
        // A part may be gone because a newer root replaced it: only a root that stayed proves damage.
        match store.get(key.clone()).await? {
            None => return Ok(Read::Nothing),
            Some(now) if now.version == there.version => return result.map(|_| Read::Nothing),
            Some(now) => there = now,
        }
    }
    Err(Error::Unavailable {
        what: format!("{key} changes faster than it can be read"),
        retry: std::time::Duration::from_millis(100),
    })
}

async fn follow(
    store: &dyn MetadataStore,
    root: &CursorRoot,
    depth: Depth,
) -> Result<(Vec<CursorIndex>, Option<CursorState>)> {
    let mut found = HashMap::new();
    for name in &root.indexes {
        fetch(store, index_key(root, name)?, &mut found).await?;
    }
    let indexes = indexes(root, &mut |key| found.get(key).cloned())?;
    if depth == Depth::Names {
        return Ok((indexes, None));
    }
    for name in page_names(root, &indexes) {
        fetch(store, page_key(root, name)?, &mut found).await?;
    }
    let (state, _) = state(root, &indexes, &mut |key| found.get(key).cloned())?;
    Ok((indexes, Some(state)))
}

async fn fetch(store: &dyn MetadataStore, key: Key, found: &mut HashMap<Key, Versioned>) -> Result<()> {
    if let Some(there) = store.get(key.clone()).await? {
        found.insert(key, there);
    }
    Ok(())
}

/// The index records that a root names, checked.
fn indexes(root: &CursorRoot, find: &mut dyn FnMut(&Key) -> Option<Versioned>) -> Result<Vec<CursorIndex>> {
    let mut indexes: Vec<CursorIndex> = Vec::with_capacity(root.indexes.len());
    for name in &root.indexes {
        let key = index_key(root, name)?;
        let index = CursorIndex::decode(&key, &named(root, name, &key, find)?)?;
        let before = indexes.last().and_then(|before| before.names.last());
        if before.is_some_and(|before| before.place() >= name.place()) {
            return Err(corrupt(
                root,
                &key,
                "it starts before the one that is named before it ends",
            ));
        }
        indexes.push(index);
    }
    Ok(indexes)
}

fn page_names<'a>(root: &'a CursorRoot, indexes: &'a [CursorIndex]) -> impl Iterator<Item = &'a PageName> {
    root.pages.iter().chain(indexes.iter().flat_map(|index| &index.names))
}

/// The value that is named, and no other.
fn named(
    root: &CursorRoot,
    name: &PageName,
    key: &Key,
    find: &mut dyn FnMut(&Key) -> Option<Versioned>,
) -> Result<Bytes> {
    let Some(stored) = find(key) else {
        return Err(corrupt(root, key, "a part that the cursor's root leads to is missing"));
    };
    check(name, &stored.value).map_err(|detail| corrupt(root, key, detail))?;
    Ok(stored.value)
}

/// The acks, and what tells the contents of their parts apart.
fn state(
    root: &CursorRoot,
    indexes: &[CursorIndex],
    find: &mut dyn FnMut(&Key) -> Option<Versioned>,
) -> Result<(CursorState, Digests)> {
    let mut parts: BTreeMap<u64, Vec<CursorPage>> = BTreeMap::new();
    let mut digests = HashMap::new();
    for name in page_names(root, indexes) {
        let key = page_key(root, name)?;
        let page = CursorPage::decode(&key, &named(root, name, &key, find)?)?;
        digests.insert(name.place(), pages::digest(&page.acked, &page.batches));
        parts.entry(name.page).or_default().push(page);
    }
    let pages: Vec<AckPage> = parts
        .into_iter()
        .map(|(page, parts)| pages::join(page, parts))
        .collect::<Result<_>>()?;
    let state = CursorState {
        name: root.name.clone(),
        mark_delete_end: root.mark_delete_end,
        position_properties: root.position_properties.clone(),
        cursor_properties: root.cursor_properties.clone(),
        pages,
    };
    Ok((state, digests))
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
