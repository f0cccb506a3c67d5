//! What large cursors cost: bytes per persist, records, and that it all comes back.

use super::*;
use crate::record::cursor_index::MAX_NAMES;
use crate::record::Record;

/// Counts the bytes of what is written.
struct Counting {
    store: MemoryStore,
    bytes: Mutex<u64>,
}

impl Counting {
    fn on(world: &World) -> Arc<Counting> {
        Arc::new(Counting {
            store: world.store.clone(),
            bytes: Mutex::new(0),
        })
    }

    fn taken(&self) -> u64 {
        std::mem::take(&mut *self.bytes.lock())
    }
}

impl MetadataStore for Counting {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }
    fn get(&self, key: Key) -> BoxFuture<Result<Option<Versioned>>> {
        self.store.get(key)
    }
    fn write(&self, batch: Vec<Write>) -> BoxFuture<Vec<Verdict>> {
        let bytes: usize = batch
            .iter()
            .filter_map(|write| write.value.as_ref())
            .map(bytes::Bytes::len)
            .sum();
        *self.bytes.lock() += bytes as u64;
        self.store.write(batch)
    }
    fn scan(&self, from: Key, to: Key, limit: usize) -> BoxFuture<Result<Vec<(Key, Versioned)>>> {
        self.store.scan(from, to, limit)
    }
    fn last(&self, from: Key, to: Key) -> BoxFuture<Result<Option<(Key, Versioned)>>> {
        self.store.last(from, to)
    }
}

fn bitmap_page(page_no: u64, bitmap: RoaringBitmap) -> AckPage {
    let mut bitmap = bitmap;
    bitmap.optimize();
    let mut bytes = Vec::new();
    bitmap.serialize_into(&mut bytes).unwrap();
    AckPage {
        page_no,
        acked: bytes.into(),
        batches: BTreeMap::new(),
    }
}

/// Every offset acknowledged but each `nth`.
fn all_but_each(nth: usize, page_no: u64) -> AckPage {
    let mut bitmap = RoaringBitmap::new();
    bitmap.insert_range(0..1 << 16);
    for low in (0..1u32 << 16).step_by(nth) {
        bitmap.remove(low);
    }
    bitmap_page(page_no, bitmap)
}

/// Persists the whole state, then changes of one page each; gives the bytes of both.
fn costs(world: &mut World, pages: Vec<AckPage>, changes: Vec<AckPage>) -> (u64, Vec<u64>, Vec<CursorState>) {
    let store = Counting::on(world);
    let (cursors, _) = world.open_on(store.clone()).unwrap();
    world.rt.block_on(cursors.persist(update("a", true, 0, pages))).unwrap();
    let whole = store.taken();
    let each = changes
        .into_iter()
        .map(|page| {
            world
                .rt
                .block_on(cursors.persist(update("a", false, 0, vec![page])))
                .unwrap();
            store.taken()
        })
        .collect();
    let (_, states) = world.open().unwrap();
    (whole, each, states)
}

#[test]
fn l15_a_million_holes_cost_what_changes_case_008() {
    let mut world = World::new();
    // Every second of two million offsets.
    let pages: Vec<AckPage> = (0..31).map(|no| all_but_each(2, no)).collect();
    let changes = (0..31)
        .map(|no| {
            let mut bits = bits(&pages[no]);
            bits.insert(2);
            bitmap_page(no as u64, bits)
        })
        .collect::<Vec<_>>();
    let (whole, each, states) = costs(&mut world, pages, changes.clone());
    println!("a million holes: {whole} bytes, then {each:?} bytes per persist");
    assert!(whole < 31 * 9000, "{whole} bytes");
    assert!(each.iter().all(|bytes| *bytes < 10_000), "{each:?}");
    assert_eq!(states[0].pages.len(), 31);
    for (page, changed) in states[0].pages.iter().zip(&changes) {
        assert_eq!(bits(page), bits(changed));
    }
}

#[test]
fn l15_a_hundred_thousand_partly_acked_batches_cost_what_changes_case_021() {
    let mut world = World::new();
    let pages: Vec<AckPage> = (0..2)
        .map(|page_no| AckPage {
            page_no,
            acked: bytes::Bytes::new(),
            batches: (0..50_000).map(|low| (low, vec![!1, i64::from(low)])).collect(),
        })
        .collect();
    let mut now = pages.clone();
    let changes: Vec<AckPage> = (0..20u16)
        .map(|n| {
            let page = &mut now[usize::from(n % 2)];
            page.batches.insert(n * 2000, vec![!3, 5]);
            page.clone()
        })
        .collect();
    let (whole, each, states) = costs(&mut world, pages, changes);
    println!("100,000 partly acked batches: {whole} bytes, then {each:?} bytes per persist");
    assert!(
        each.iter().all(|bytes| *bytes < 32_000),
        "a part, an index record and the root: {each:?}"
    );
    assert_eq!(states[0].pages, now);
}

#[test]
fn l15_bytes_grow_with_the_holes_and_not_with_the_backlog_case_026() {
    let mut world = World::new();
    // 100 million offsets, all acknowledged but each thousandth.
    let count = 100_000_000u64 >> 16;
    let pages: Vec<AckPage> = (0..count).map(|no| all_but_each(1000, no)).collect();
    let changes: Vec<AckPage> = [0, count / 2, count - 1, count / 2 + 1]
        .map(|no| all_but_each(500, no))
        .to_vec();
    let (whole, each, states) = costs(&mut world, pages, changes);
    println!("100 million entries, 0.1 % of them holes: {whole} bytes, then {each:?} bytes per persist");
    let holes = count * 66;
    assert!(whole < holes * 7, "{whole} bytes for {holes} holes");
    assert!(each.iter().all(|bytes| *bytes < 8_000), "{each:?}");
    assert_eq!(states[0].pages.len() as u64, count);
    assert_eq!(bits(&states[0].pages[0]).len(), bits(&all_but_each(500, 0)).len());
}

#[test]
fn l15_a_root_stays_small_however_many_pages_there_are() {
    let mut world = World::new();
    let (cursors, _) = world.open().unwrap();
    let pages: Vec<AckPage> = (0..20_000).map(|no| acked(no, [1])).collect();
    world.rt.block_on(cursors.persist(update("a", true, 0, pages))).unwrap();
    let root = world.keys(RecordType::CursorRoot).remove(0);
    let stored = world.rt.block_on(world.store.get(root.clone())).unwrap().unwrap();
    assert!(stored.value.len() < 10_000, "{} bytes", stored.value.len());
    let indexes = crate::record::CursorRoot::decode(&root, &stored.value).unwrap().indexes;
    assert_eq!(indexes.len(), 20_000usize.div_ceil(MAX_NAMES));
    assert_eq!(world.keys(RecordType::CursorIndex).len(), indexes.len());

    // The prefix is acknowledged: what it took goes.
    world
        .rt
        .block_on(cursors.persist(update("a", false, 19_990 << 16, vec![])))
        .unwrap();
    world.shrinks_to(RecordType::CursorPage, 10);
    world.shrinks_to(RecordType::CursorIndex, 0);
    let (cursors, states) = world.open().unwrap();
    assert_eq!(states[0].pages.len(), 10);
    world.rt.block_on(cursors.delete("a")).unwrap();
    world.shrinks_to(RecordType::CursorPage, 0);
}

#[test]
fn deleting_a_large_cursor_removes_all_that_it_named() {
    let mut world = World::new();
    let (cursors, _) = world.open().unwrap();
    let pages: Vec<AckPage> = (0..500).map(|no| acked(no, [1])).collect();
    world.rt.block_on(cursors.persist(update("a", true, 0, pages))).unwrap();
    assert!(world.keys(RecordType::CursorIndex).len() > 1);
    world.rt.block_on(cursors.delete("a")).unwrap();
    world.shrinks_to(RecordType::CursorPage, 0);
    world.shrinks_to(RecordType::CursorIndex, 0);
}

/// What releases before index records have written: one root that names all pages itself.
#[test]
fn l15_a_root_that_names_many_pages_itself_is_read_and_rewritten_piece_by_piece() {
    let mut world = World::new();
    let (cursors, _) = world.open().unwrap();
    let pages: Vec<AckPage> = (0..1000).map(|no| acked(no, [1])).collect();
    world.rt.block_on(cursors.persist(update("a", true, 0, pages))).unwrap();
    let key = world.keys(RecordType::CursorRoot).remove(0);
    let stored = world.rt.block_on(world.store.get(key.clone())).unwrap().unwrap();
    let mut root = crate::record::CursorRoot::decode(&key, &stored.value).unwrap();
    for index in world.keys(RecordType::CursorIndex) {
        let value = world
            .rt
            .block_on(world.store.get(index.clone()))
            .unwrap()
            .unwrap()
            .value;
        let record = crate::record::CursorIndex::decode(&index, &value).unwrap();
        root.pages.extend(record.names);
        world.overwrite(index, None);
    }
    root.pages.sort_unstable_by_key(|name| name.place());
    root.indexes.clear();
    world.overwrite(key, Some(root.encode().unwrap()));

    let (cursors, states) = world.open().unwrap();
    assert_eq!(states[0].pages.len(), 1000);
    world
        .rt
        .block_on(cursors.persist(update("a", false, 0, vec![acked(500, [2])])))
        .unwrap();
    assert_eq!(world.keys(RecordType::CursorIndex).len(), 8);
    let read = world.rt.block_on(read_all(&world.store, STREAM)).unwrap();
    assert_eq!(read[0].pages.len(), 1000);
    assert_eq!(bits(&read[0].pages[500]), RoaringBitmap::from([2]));
    assert_eq!(world.open().unwrap().1, read);
}

#[test]
fn l15_what_cannot_be_stored_is_refused_by_name_and_nothing_is_lost() {
    let mut world = World::new();
    let (cursors, _) = world.open().unwrap();
    world
        .rt
        .block_on(cursors.persist(update("a", true, 0, vec![acked(0, [1])])))
        .unwrap();
    let large = CursorUpdate {
        cursor_properties: Some(BTreeMap::from([("k".into(), "v".repeat(200 << 10))])),
        ..update("a", false, 0, vec![acked(0, [2])])
    };
    let (bad, beside) = (
        cursors.persist(large),
        cursors.persist(update("a", false, 0, vec![acked(1, [3])])),
    );
    let error = world.rt.block_on(bad).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Invalid);
    assert!(error.to_string().contains("at most 196608"), "{error}");
    world.rt.block_on(beside).unwrap();
    let (_, states) = world.open().unwrap();
    assert_eq!(bits(&states[0].pages[0]), RoaringBitmap::from([1]));
    assert_eq!(bits(&states[0].pages[1]), RoaringBitmap::from([3]));
}

#[test]
fn l15_acks_that_could_not_be_loaded_again_are_refused_before_they_are_stored() {
    let mut world = World::new();
    let (cursors, _) = world.open().unwrap();
    let persist = |cursors: &Arc<Cursors>, change: CursorUpdate| world.rt.block_on(cursors.persist(change));
    persist(
        &cursors,
        update("a", true, 0, vec![all_but_each(2, 0), all_but_each(2, 1)]),
    )
    .unwrap();
    persist(&cursors, update("b", true, 0, vec![all_but_each(2, 0)])).unwrap();
    cursors.held.allow(25_000);
    let error = persist(&cursors, update("b", false, 0, vec![all_but_each(2, 1)])).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unavailable);
    assert!(error.to_string().contains("at most 25000"), "{error}");
    let held = cursors.held.bytes();
    // What makes room is taken, and then there is room.
    persist(&cursors, update("a", false, 1 << 16, vec![])).unwrap();
    persist(&cursors, update("b", false, 0, vec![all_but_each(2, 1)])).unwrap();
    assert!(cursors.held.bytes() <= 25_000);
    world.rt.block_on(cursors.delete("b")).unwrap();
    assert!(cursors.held.bytes() < held / 2);
    world.rt.block_on(cursors.delete("a")).unwrap();
    assert_eq!(cursors.held.bytes(), 0);
}

#[test]
fn l15_what_the_cursors_hold_is_counted_alike_after_an_open() {
    let mut world = World::new();
    let (cursors, _) = world.open().unwrap();
    let pages: Vec<AckPage> = (0..300).map(|no| acked(no, [1])).collect();
    for change in [
        update("a", true, 0, pages),
        update("a", false, 0, vec![all_but_each(2, 7)]),
        update("a", false, 9 << 16, vec![]),
    ] {
        world.rt.block_on(cursors.persist(change)).unwrap();
    }
    let (again, _) = world.open().unwrap();
    assert_eq!(again.held.bytes(), cursors.held.bytes());
    assert!(again.held.bytes() > 0);
}
