//! Which page versions a cursor names, in the groups that are stored as index records. Pure.
//!
//! Owns: the grouping. Promises: changing one page touches one group, or a few beside it; a cursor with few pages needs no index
//! record at all. Groups split and merge like the leaves of a tree, so that their number stays in proportion to the names.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::env::Random;
use crate::error::{Error, Result};
use crate::record::cursor_index::MAX_NAMES;
use crate::record::{CursorIndex, CursorRoot, Key, PageName, Record};
use crate::types::StreamId;

/// Up to so many names a root names its pages itself: about 4 KiB.
const DIRECT: usize = MAX_NAMES;
/// Neighbours that together have no more names become one.
const MERGED: usize = MAX_NAMES / 2;

/// Where a part of a page starts: page and low 16 bits of the offset.
pub(super) type Place = (u64, u16);

/// A named part of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Named {
    pub name: PageName,
    /// Tells contents apart while the cursor is open; `None` when this owner has not seen the content.
    pub digest: Option<u64>,
}

#[derive(Clone, Default)]
struct Group {
    /// Ascending.
    names: Vec<Named>,
    /// The index record that holds exactly these names.
    stored: Option<PageName>,
}

/// All names of one cursor. Cloning shares the groups.
#[derive(Clone, Default)]
pub(super) struct Names {
    /// By the first place in the group. No place of a group lies at or past the key of the next one.
    groups: BTreeMap<Place, Arc<Group>>,
    /// Index records that hold what is not true any more.
    gone: Vec<PageName>,
}

/// Names in the form in which they are stored.
pub(super) struct Sealed {
    /// What the root names itself.
    pub pages: Vec<PageName>,
    /// The index records that the root names.
    pub indexes: Vec<PageName>,
    /// Index records to write before the root.
    pub written: Vec<(Key, Bytes)>,
    /// Index records that the root no longer names.
    pub gone: Vec<PageName>,
}

impl Names {
    /// The names of a root; `indexes` are the records that it names, in its order.
    pub fn of(root: &CursorRoot, indexes: Vec<CursorIndex>, digest: impl Fn(&PageName) -> Option<u64>) -> Names {
        let named = |names: &[PageName]| -> Vec<Named> {
            names
                .iter()
                .map(|name| Named {
                    name: *name,
                    digest: digest(name),
                })
                .collect()
        };
        let mut groups = BTreeMap::new();
        if let Some(first) = root.pages.first() {
            let group = Group {
                names: named(&root.pages),
                stored: None,
            };
            groups.insert(first.place(), Arc::new(group));
        }
        for (stored, index) in root.indexes.iter().zip(indexes) {
            let group = Group {
                names: named(&index.names),
                stored: Some(*stored),
            };
            groups.insert(stored.place(), Arc::new(group));
        }
        Names {
            groups,
            gone: Vec::new(),
        }
    }

    /// Every name, ascending.
    pub fn iter(&self) -> impl Iterator<Item = &Named> {
        self.groups.values().flat_map(|group| &group.names)
    }

    /// Bytes of everything that is named.
    pub fn bytes(&self) -> u64 {
        self.iter().map(|named| u64::from(named.name.bytes)).sum()
    }

    /// The index records that hold these names now.
    pub fn stored(&self) -> impl Iterator<Item = &PageName> {
        self.groups.values().filter_map(|group| group.stored.as_ref())
    }

    /// The parts of one page, ascending.
    pub fn page(&self, page: u64) -> Vec<Named> {
        self.around(page)
            .flat_map(|(_, group)| &group.names)
            .filter(|named| named.name.page == page)
            .copied()
            .collect()
    }

    /// Forgets every page below `page`; gives what was named there.
    pub fn remove_below(&mut self, page: u64) -> Vec<Named> {
        let mut removed = Vec::new();
        while let Some((place, group)) = self.groups.first_key_value() {
            let (place, below) = (*place, group.names.partition_point(|named| named.name.page < page));
            if below == 0 {
                break;
            }
            let mut names = self.take(place);
            removed.extend(names.drain(..below));
            self.put(names);
        }
        removed
    }

    /// Names these parts of a page, ascending, instead of those it had.
    pub fn replace(&mut self, page: u64, parts: &[Named]) {
        let holding: Vec<Place> = self
            .around(page)
            .filter(|(_, group)| group.names.iter().any(|named| named.name.page == page))
            .map(|(place, _)| *place)
            .collect();
        if holding.is_empty() && parts.is_empty() {
            return;
        }
        for place in holding.iter().skip(1) {
            let mut names = self.take(*place);
            names.retain(|named| named.name.page != page);
            self.put(names);
        }
        // Where the page was; else in the group in whose range it lies; else, before all of them, in the first one.
        let home = holding.first().or_else(|| {
            let before = self.groups.range(..=(page, u16::MAX)).next_back();
            before.or_else(|| self.groups.first_key_value()).map(|(place, _)| place)
        });
        let mut names = home.copied().map_or_else(Vec::new, |place| self.take(place));
        names.retain(|named| named.name.page != page);
        let at = names.partition_point(|named| named.name.page < page);
        names.splice(at..at, parts.iter().copied());
        self.put(names);
    }

    /// Brings the groups into their stored form. Afterwards these names are what the root will name.
    pub fn seal(&mut self, stream: StreamId, cursor: &str, random: &dyn Random) -> Result<Sealed> {
        let count: usize = self.groups.values().map(|group| group.names.len()).sum();
        let mut sealed = Sealed {
            pages: Vec::new(),
            indexes: Vec::new(),
            written: Vec::new(),
            gone: Vec::new(),
        };
        if count <= DIRECT {
            let names: Vec<Named> = self.iter().copied().collect();
            self.gone.extend(self.groups.values().filter_map(|group| group.stored));
            self.groups.clear();
            sealed.pages = names.iter().map(|named| named.name).collect();
            self.put(names);
            sealed.gone = std::mem::take(&mut self.gone);
            return Ok(sealed);
        }
        self.merge();
        self.split();
        for (place, group) in &mut self.groups {
            let stored = match group.stored {
                Some(stored) => stored,
                None => {
                    let record = CursorIndex {
                        stream,
                        name: cursor.to_owned(),
                        page: place.0,
                        chunk: place.1,
                        // Random for the same reason as the version of a page.
                        version: random.next_u64(),
                        names: group.names.iter().map(|named| named.name).collect(),
                    };
                    let value = record.encode()?;
                    let name = name_of(*place, record.version, &value);
                    sealed.written.push((record.key()?, value));
                    Arc::make_mut(group).stored = Some(name);
                    name
                }
            };
            sealed.indexes.push(stored);
        }
        sealed.gone = std::mem::take(&mut self.gone);
        Ok(sealed)
    }

    /// Joins a changed group with its neighbour where both are small.
    fn merge(&mut self) {
        let mut merged: BTreeMap<Place, Arc<Group>> = BTreeMap::new();
        for (place, group) in std::mem::take(&mut self.groups) {
            if let Some(mut before) = merged.last_entry() {
                let changed = before.get().stored.is_none() || group.stored.is_none();
                if changed && before.get().names.len() + group.names.len() <= MERGED {
                    let joined = Arc::make_mut(before.get_mut());
                    self.gone.extend(joined.stored.take());
                    self.gone.extend(group.stored);
                    joined.names.extend_from_slice(&group.names);
                    continue;
                }
            }
            merged.insert(place, group);
        }
        self.groups = merged;
    }

    /// Cuts groups that hold too many names into even pieces.
    fn split(&mut self) {
        let large: Vec<Place> = self
            .groups
            .iter()
            .filter(|(_, group)| group.names.len() > MAX_NAMES)
            .map(|(place, _)| *place)
            .collect();
        for place in large {
            let names = self.take(place);
            let pieces = names.len().div_ceil(MAX_NAMES);
            for piece in names.chunks(names.len().div_ceil(pieces)) {
                self.put(piece.to_vec());
            }
        }
    }

    /// The groups that may name parts of a page.
    fn around(&self, page: u64) -> impl Iterator<Item = (&Place, &Arc<Group>)> {
        let before = self.groups.range(..=(page, 0)).next_back();
        let from = before.map_or((page, 0), |(place, _)| *place);
        self.groups.range(from..=(page, u16::MAX))
    }

    /// Takes the names of a group out to change them.
    fn take(&mut self, place: Place) -> Vec<Named> {
        let Some(group) = self.groups.remove(&place) else {
            return Vec::new();
        };
        let group = Arc::unwrap_or_clone(group);
        self.gone.extend(group.stored);
        group.names
    }

    /// Puts names back as a group that is not stored. No names, no group.
    fn put(&mut self, names: Vec<Named>) {
        if let Some(first) = names.first() {
            let place = first.name.place();
            self.groups.insert(place, Arc::new(Group { names, stored: None }));
        }
    }
}

/// The name of a stored value that starts at `place`.
pub(super) fn name_of(place: Place, version: u64, value: &Bytes) -> PageName {
    PageName {
        page: place.0,
        chunk: place.1,
        version,
        bytes: u32::try_from(value.len()).unwrap_or(u32::MAX),
        crc32c: crc32c::crc32c(value),
    }
}

/// Checks that a stored value is the one that was named; the text says what it is not.
pub(super) fn check(name: &PageName, value: &Bytes) -> std::result::Result<(), &'static str> {
    match value.len() as u64 == u64::from(name.bytes) && crc32c::crc32c(value) == name.crc32c {
        true => Ok(()),
        false => Err("it is not the version that is named"),
    }
}

pub(super) fn page_key(root: &CursorRoot, name: &PageName) -> Result<Key> {
    Key::cursor_page(root.stream, &root.name, name.page, name.chunk, name.version)
}

pub(super) fn index_key(root: &CursorRoot, name: &PageName) -> Result<Key> {
    Key::cursor_index(root.stream, &root.name, name.page, name.chunk, name.version)
}

/// A value that is named and missing, or another one.
pub(super) fn corrupt(root: &CursorRoot, key: &Key, detail: &str) -> Error {
    Error::Corrupt {
        what: format!("cursor {} of stream {}", root.name, root.stream),
        place: format!("key {key}"),
        detail: detail.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::types::{Offset, OwnerEpoch};

    const STREAM: StreamId = StreamId::new(7);

    #[derive(Debug, Clone)]
    enum Op {
        /// Page, parts of it by their chunks.
        Replace(u64, BTreeSet<u16>),
        Fill(u64, u64),
        Below(u64),
        Seal,
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            8 => (0u64..600, prop::collection::btree_set(0u16..500, 0..4)).prop_map(|(page, parts)| Op::Replace(page, parts)),
            1 => (0u64..600, prop::collection::btree_set(0u16..2000, 0..400)).prop_map(|(page, parts)| Op::Replace(page, parts)),
            1 => (0u64..500, 1u64..300).prop_map(|(from, count)| Op::Fill(from, count)),
            1 => (0u64..200).prop_map(Op::Below),
            4 => Just(Op::Seal),
        ]
    }

    struct Counter(std::sync::atomic::AtomicU64);

    impl Random for Counter {
        fn next_u64(&self) -> u64 {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
        }
    }

    fn root(sealed: &Sealed) -> CursorRoot {
        CursorRoot {
            stream: STREAM,
            name: "c".into(),
            owner_epoch: OwnerEpoch::new(1),
            ack_epoch: 1,
            mark_delete_end: Offset::ZERO,
            position_properties: BTreeMap::new(),
            cursor_properties: BTreeMap::new(),
            created_millis: 0,
            pages: sealed.pages.clone(),
            indexes: sealed.indexes.clone(),
            deleted: false,
        }
    }

    proptest! {
        #[test]
        fn names_agree_with_a_model_and_with_what_is_stored(ops in prop::collection::vec(op(), 1..60)) {
            let random = Counter(1.into());
            let mut names = Names::default();
            let mut model: BTreeMap<Place, Named> = BTreeMap::new();
            let mut disk: BTreeMap<Key, Bytes> = BTreeMap::new();
            let part = |page, chunk| Named {
                name: PageName { page, chunk, version: random.next_u64(), bytes: 1, crc32c: 1 },
                digest: None,
            };
            for op in ops.into_iter().chain([Op::Seal]) {
                match op {
                    Op::Replace(page, chunks) => {
                        let parts: Vec<Named> = chunks.into_iter().map(|chunk| part(page, chunk)).collect();
                        let before: Vec<Named> = model.range((page, 0)..=(page, u16::MAX)).map(|(_, n)| *n).collect();
                        prop_assert_eq!(names.page(page), before);
                        names.replace(page, &parts);
                        model.retain(|place, _| place.0 != page);
                        model.extend(parts.into_iter().map(|named| (named.name.place(), named)));
                    }
                    Op::Fill(from, count) => for page in from..from + count {
                        let parts = [part(page, 0)];
                        names.replace(page, &parts);
                        model.retain(|place, _| place.0 != page);
                        model.insert((page, 0), parts[0]);
                    },
                    Op::Below(page) => {
                        let kept = model.split_off(&(page, 0));
                        let gone: Vec<Named> = std::mem::replace(&mut model, kept).into_values().collect();
                        prop_assert_eq!(names.remove_below(page), gone);
                    }
                    Op::Seal => {
                        let sealed = names.seal(STREAM, "c", &random).unwrap();
                        for gone in &sealed.gone {
                            let key = Key::cursor_index(STREAM, "c", gone.page, gone.chunk, gone.version).unwrap();
                            prop_assert!(disk.remove(&key).is_some(), "what is reclaimed was stored, once");
                        }
                        for (key, value) in &sealed.written {
                            prop_assert!(disk.insert(key.clone(), value.clone()).is_none());
                        }
                        let root = root(&sealed);
                        root.encode().unwrap();
                        prop_assert_eq!(disk.len(), root.indexes.len(), "nothing but what the root names stays");
                        let indexes: Vec<CursorIndex> = root.indexes.iter().map(|name| {
                            let key = index_key(&root, name).unwrap();
                            check(name, &disk[&key]).unwrap();
                            CursorIndex::decode(&key, &disk[&key]).unwrap()
                        }).collect();
                        let most = model.len() * 2 / MERGED + 2;
                        prop_assert!(indexes.len() <= most.max(2), "{} records for {} names", indexes.len(), model.len());
                        let read = Names::of(&root, indexes, |_| None);
                        let all: Vec<Named> = model.values().copied().collect();
                        prop_assert_eq!(read.iter().copied().collect::<Vec<_>>(), all.clone());
                        prop_assert_eq!(names.iter().copied().collect::<Vec<_>>(), all);
                        prop_assert_eq!(read.stored().count(), root.indexes.len());
                        let again = names.seal(STREAM, "c", &random).unwrap();
                        prop_assert!(again.written.is_empty() && again.gone.is_empty(), "nothing changed");
                    }
                }
            }
        }
    }
}
