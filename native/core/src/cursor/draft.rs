//! The next state of a cursor, built from the present one and a run of updates. Pure.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::load::Found;
use super::names::{index_key, name_of, page_key, Named, Names};
use super::pages;
use super::types::{AckPage, CursorUpdate};
use crate::env::Random;
use crate::error::{Error, Result};
use crate::mutant::{active, Mutant};
use crate::record::{CursorRoot, Key, Record};
use crate::types::{OwnerEpoch, StreamId};

/// Low bits of an offset that a page covers.
const PAGE_BITS: u32 = 16;

pub(super) struct Draft {
    stream: StreamId,
    epoch: OwnerEpoch,
    root: Option<CursorRoot>,
    /// Where the ack epochs of a new cursor start: past those of the ones of this name before it.
    ack_epoch: u64,
    creates: bool,
    names: Names,
    /// New contents by page number; they replace every named part of the page. Nothing acknowledged removes the page.
    changed: BTreeMap<u64, AckPage>,
    replaced: Vec<Named>,
}

/// What a draft asks to be written.
pub(super) struct Change {
    pub root: CursorRoot,
    pub names: Names,
    /// There was no such cursor.
    pub creates: bool,
    /// New versions of pages and index records, durable before the root.
    pub parts: Vec<(Key, Bytes)>,
    /// Versions that the new root no longer leads to.
    pub replaced: Vec<Key>,
}

impl Draft {
    pub fn of(stream: StreamId, epoch: OwnerEpoch, before: &Found) -> Draft {
        let (root, names, ack_epoch) = match before {
            Found::Nothing => (None, Names::default(), 0),
            Found::Left(left) => (None, Names::default(), left.ack_epoch),
            Found::Cursor(stored) => (Some(stored.root.clone()), stored.names.clone(), 0),
        };
        Draft {
            stream,
            epoch,
            creates: root.is_none(),
            root,
            ack_epoch,
            names,
            changed: BTreeMap::new(),
            replaced: Vec::new(),
        }
    }

    /// Applies one update. An error leaves the draft as it was.
    pub fn apply(&mut self, update: &CursorUpdate, now_millis: u64) -> Result<()> {
        pages::check(update)?;
        match (&self.root, update.create) {
            (None, false) => return Err(missing(&update.name, self.stream)),
            (Some(_), true) => {
                return Err(Error::AlreadyExists {
                    what: format!("cursor {} of stream {}", update.name, self.stream),
                });
            }
            _ => {}
        }
        // Refused here and not at the write, where it would take the other updates of the run with it.
        Key::cursor_root(self.stream, &update.name)?;
        let root = self.root.get_or_insert_with(|| CursorRoot {
            stream: self.stream,
            name: update.name.clone(),
            owner_epoch: self.epoch,
            ack_epoch: self.ack_epoch,
            mark_delete_end: update.mark_delete_end,
            position_properties: BTreeMap::new(),
            cursor_properties: BTreeMap::new(),
            created_millis: now_millis,
            pages: Vec::new(),
            indexes: Vec::new(),
            deleted: false,
        });
        root.mark_delete_end = update.mark_delete_end;
        if let Some(properties) = &update.position_properties {
            root.position_properties.clone_from(properties);
        }
        if let Some(properties) = &update.cursor_properties {
            root.cursor_properties.clone_from(properties);
        }
        let first_live = update.mark_delete_end.get() >> PAGE_BITS;
        self.replaced.extend(self.names.remove_below(first_live));
        self.changed.retain(|page, _| *page >= first_live);
        if update.full {
            let empty = |page_no| AckPage {
                page_no,
                ..AckPage::default()
            };
            let named = self.names.iter().map(|named| named.name.page);
            let all: BTreeSet<u64> = named.chain(self.changed.keys().copied()).collect();
            self.changed = all.into_iter().map(|page_no| (page_no, empty(page_no))).collect();
        }
        for page in update.pages.iter().filter(|page| page.page_no >= first_live) {
            self.changed.insert(page.page_no, page.clone());
        }
        Ok(())
    }

    /// The root and what it leads to. `Invalid` when something is too large to be stored.
    pub fn finish(mut self, random: &dyn Random) -> Result<Change> {
        let Some(mut root) = self.root else {
            return Err(Error::Internal {
                what: "a cursor draft without an update".into(),
            });
        };
        if active(Mutant::DropDirtyPage) && self.changed.len() > 1 {
            self.changed.pop_last();
        }
        let mut parts = Vec::new();
        for page in self.changed.values() {
            let before = self.names.page(page.page_no);
            let mut named = Vec::new();
            if !page.is_empty() {
                let chunks: Vec<u16> = before.iter().map(|part| part.name.chunk).collect();
                for part in pages::cut(page, &chunks)? {
                    let digest = Some(part.digest());
                    let same = |old: &&Named| old.name.chunk == part.chunk && old.digest == digest;
                    if let Some(same) = before.iter().find(same) {
                        named.push(*same);
                        continue;
                    }
                    // Random, so that a copy which arrives late can never stand for another content.
                    let record = part.record(self.stream, &root.name, page.page_no, random.next_u64());
                    let value = record.encode()?;
                    let name = name_of((record.page, record.chunk), record.version, &value);
                    named.push(Named { name, digest });
                    parts.push((record.key()?, value));
                }
            }
            self.replaced
                .extend(before.iter().filter(|old| !named.contains(old)).copied());
            if named != before {
                self.names.replace(page.page_no, &named);
            }
        }
        let sealed = self.names.seal(self.stream, &root.name, random)?;
        parts.extend(sealed.written);
        let mut replaced = Vec::new();
        for old in &self.replaced {
            replaced.push(page_key(&root, &old.name)?);
        }
        for old in &sealed.gone {
            replaced.push(index_key(&root, old)?);
        }
        root.pages = sealed.pages;
        root.indexes = sealed.indexes;
        root.owner_epoch = self.epoch;
        root.ack_epoch = root.ack_epoch.saturating_add(1);
        Ok(Change {
            root,
            names: self.names,
            creates: self.creates,
            parts,
            replaced,
        })
    }
}

pub(super) fn missing(name: &str, stream: StreamId) -> Error {
    Error::NotFound {
        what: format!("cursor {name} of stream {stream}"),
    }
}
