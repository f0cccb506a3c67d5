//! The next state of a cursor, built from the present one and a run of updates. Pure.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::pages;
use super::types::{AckPage, CursorUpdate};
use crate::env::Random;
use crate::error::{Error, Result};
use crate::record::{CursorRoot, Key, PageName, Record};
use crate::types::{OwnerEpoch, StreamId};

/// Low bits of an offset that a page covers.
const PAGE_BITS: u32 = 16;

pub(super) struct Draft {
    stream: StreamId,
    epoch: OwnerEpoch,
    root: Option<CursorRoot>,
    /// New contents by page number; they replace every named part of the page.
    changed: BTreeMap<u64, AckPage>,
    replaced: Vec<Key>,
}

/// What a draft asks to be written.
pub(super) struct Change {
    pub root: CursorRoot,
    /// New page versions, durable before the root.
    pub pages: Vec<(Key, Bytes)>,
    /// Page versions that the new root no longer names.
    pub replaced: Vec<Key>,
}

impl Draft {
    pub fn of(stream: StreamId, epoch: OwnerEpoch, root: Option<&CursorRoot>) -> Draft {
        Draft {
            stream,
            epoch,
            root: root.cloned(),
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
            ack_epoch: 0,
            mark_delete_end: update.mark_delete_end,
            position_properties: BTreeMap::new(),
            cursor_properties: BTreeMap::new(),
            created_millis: now_millis,
            pages: Vec::new(),
        });
        root.mark_delete_end = update.mark_delete_end;
        if let Some(properties) = &update.position_properties {
            root.position_properties.clone_from(properties);
        }
        if let Some(properties) = &update.cursor_properties {
            root.cursor_properties.clone_from(properties);
        }
        let first_live = update.mark_delete_end.get() >> PAGE_BITS;
        let listed: BTreeMap<u64, &AckPage> = update.pages.iter().map(|page| (page.page_no, page)).collect();
        let stays = |page: u64| page >= first_live && !update.full && !listed.contains_key(&page);
        let (kept, gone): (Vec<PageName>, Vec<PageName>) = root.pages.drain(..).partition(|name| stays(name.page));
        root.pages = kept;
        for name in gone {
            self.replaced.push(page_key(root, &name)?);
        }
        self.changed.retain(|page, _| stays(*page));
        for page in update
            .pages
            .iter()
            .filter(|page| page.page_no >= first_live && !page.is_empty())
        {
            self.changed.insert(page.page_no, page.clone());
        }
        Ok(())
    }

    /// The root and pages to write. `Invalid` when something is too large to be stored.
    pub fn finish(self, random: &dyn Random) -> Result<Change> {
        let Some(mut root) = self.root else {
            return Err(Error::Internal {
                what: "a cursor draft without an update".into(),
            });
        };
        let mut written = Vec::new();
        for page in self.changed.values() {
            for part in pages::cut(page)? {
                // Random, so that a copy which arrives late can never stand for another content.
                let record = part.record(self.stream, &root.name, page.page_no, random.next_u64());
                let value = record.encode()?;
                root.pages.push(PageName {
                    page: record.page,
                    chunk: record.chunk,
                    version: record.version,
                    bytes: u32::try_from(value.len()).unwrap_or(u32::MAX),
                    crc32c: crc32c::crc32c(&value),
                });
                written.push((record.key()?, value));
            }
        }
        root.pages.sort_unstable_by_key(|name| (name.page, name.chunk));
        root.owner_epoch = self.epoch;
        root.ack_epoch = root.ack_epoch.saturating_add(1);
        Ok(Change {
            root,
            pages: written,
            replaced: self.replaced,
        })
    }
}

pub(super) fn page_key(root: &CursorRoot, name: &PageName) -> Result<Key> {
    Key::cursor_page(root.stream, &root.name, name.page, name.chunk, name.version)
}

pub(super) fn missing(name: &str, stream: StreamId) -> Error {
    Error::NotFound {
        what: format!("cursor {name} of stream {stream}"),
    }
}
