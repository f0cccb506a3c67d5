//! Cursors against a model, with faults and reopens; and the claims of the module header one by one.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use roaring::RoaringBitmap;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

use super::*;
use crate::commit::StreamHead;
use crate::env::real;
use crate::error::ErrorCode;
use crate::metadata::faults::{Fault, Faults, Faulty};
use crate::metadata::memory::MemoryStore;
use crate::metadata::{Capabilities, Expected, Verdict, Versioned, Write};
use crate::record::{Key, RecordType};
use crate::stream::suite::{acked, update};
use crate::types::{Incarnation, Offset};

mod crash;
mod late;
mod scale;

const STREAM: StreamId = StreamId::new(0xc);

struct World {
    rt: Runtime,
    env: Env,
    store: MemoryStore,
    faults: Faults,
    cell: Arc<HeadCell>,
    epoch: u64,
}

impl World {
    fn new() -> World {
        let rt = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_time()
            .build()
            .unwrap();
        let env = real::env(rt.handle().clone()).unwrap();
        let mut head = StreamHead::new(STREAM, Incarnation::new(1), 1);
        head.end = Offset::new(1 << 40);
        let cell = Arc::new(HeadCell::new(head));
        World {
            rt,
            env,
            store: MemoryStore::new(),
            faults: Faults::default(),
            cell,
            epoch: 0,
        }
    }

    fn faulty(&self) -> Arc<dyn MetadataStore> {
        Arc::new(Faulty::new(self.store.clone(), self.faults.clone()))
    }

    /// A new owner's open: the head's epoch first, then the cursors.
    fn open(&mut self) -> Result<(Arc<Cursors>, Vec<CursorState>)> {
        self.open_on(self.faulty())
    }

    fn open_on(&mut self, store: Arc<dyn MetadataStore>) -> Result<(Arc<Cursors>, Vec<CursorState>)> {
        self.epoch += 1;
        let epoch = OwnerEpoch::new(self.epoch);
        self.cell.publish(|head| head.as_mut().unwrap().owner_epoch = epoch);
        self.claim(store, epoch)
    }

    fn claim(&self, store: Arc<dyn MetadataStore>, epoch: OwnerEpoch) -> Result<(Arc<Cursors>, Vec<CursorState>)> {
        self.rt.block_on(Cursors::claim(
            Arc::new(self.env.clone()),
            store,
            self.cell.clone(),
            STREAM,
            epoch,
        ))
    }

    fn keys(&self, kind: RecordType) -> Vec<Key> {
        let (from, to) = Key::stream_range(kind, STREAM);
        let found = self.rt.block_on(self.store.scan(from, to, 100_000)).unwrap();
        found.into_iter().map(|(key, _)| key).collect()
    }

    /// Waits until this many keys of a kind are left: old page versions go after the answer.
    fn shrinks_to(&self, kind: RecordType, count: usize) {
        let deadline = self.env.clock.monotonic() + std::time::Duration::from_secs(20);
        while self.keys(kind).len() != count {
            assert!(
                self.env.clock.monotonic() < deadline,
                "{:?} instead of {count}",
                self.keys(kind)
            );
            std::thread::yield_now();
        }
    }

    fn overwrite(&self, key: Key, value: Option<bytes::Bytes>) {
        drop(self.rt.block_on(self.store.write(vec![Write {
            key,
            expected: Expected::Any,
            value,
        }])));
    }
}

fn code<T>(result: Result<T>) -> ErrorCode {
    result.err().expect("must be refused").code()
}

/// A page whose batch bitmaps alone are larger than a record.
fn huge(page_no: u64, seed: i64) -> AckPage {
    let mut page = acked(page_no, (0..65_536).filter(|low| low % 3 == 0));
    page.batches = (0..600u16)
        .map(|n| (n * 100 + 1, vec![seed ^ i64::from(n); 64]))
        .collect();
    page
}

fn bits(page: &AckPage) -> RoaringBitmap {
    match page.acked.is_empty() {
        true => RoaringBitmap::new(),
        false => RoaringBitmap::deserialize_from(&page.acked[..]).unwrap(),
    }
}

/// Equal in meaning: parts that were put together may be encoded in another form.
fn same(a: &CursorState, b: &CursorState) -> bool {
    let pages = |s: &CursorState| {
        s.pages
            .iter()
            .map(|p| (p.page_no, bits(p), p.batches.clone()))
            .collect::<Vec<_>>()
    };
    pages(a) == pages(b)
        && CursorState {
            pages: vec![],
            ..a.clone()
        } == CursorState {
            pages: vec![],
            ..b.clone()
        }
}

/// What a cursor must be after an update, by the words of the contract.
fn model(cursors: &mut BTreeMap<String, CursorState>, change: &CursorUpdate) -> std::result::Result<(), ErrorCode> {
    if change.create {
        if cursors.contains_key(&change.name) {
            return Err(ErrorCode::AlreadyExists);
        }
        let state = CursorState {
            name: change.name.clone(),
            mark_delete_end: Offset::ZERO,
            position_properties: BTreeMap::new(),
            cursor_properties: BTreeMap::new(),
            pages: Vec::new(),
        };
        cursors.insert(change.name.clone(), state);
    }
    let state = cursors.get_mut(&change.name).ok_or(ErrorCode::NotFound)?;
    state.mark_delete_end = change.mark_delete_end;
    if let Some(properties) = &change.position_properties {
        state.position_properties = properties.clone();
    }
    if let Some(properties) = &change.cursor_properties {
        state.cursor_properties = properties.clone();
    }
    let mut pages: BTreeMap<u64, AckPage> = match change.full {
        true => BTreeMap::new(),
        false => state.pages.drain(..).map(|page| (page.page_no, page)).collect(),
    };
    pages.extend(change.pages.iter().map(|page| (page.page_no, page.clone())));
    pages.retain(|no, page| *no >= change.mark_delete_end.get() >> 16 && !page.is_empty());
    state.pages = pages.into_values().collect();
    Ok(())
}

#[derive(Debug, Clone)]
enum Op {
    Update(CursorUpdate),
    Delete(String),
    /// Waits for everything asked for so far.
    Settle,
    Reopen,
    Fault(u64, Fault),
}

fn names() -> impl Strategy<Value = String> {
    prop_oneof![Just("a".to_owned()), Just("a/b".to_owned())]
}

fn page() -> impl Strategy<Value = AckPage> {
    let small = (
        0u64..5,
        prop::collection::btree_set(0u32..65_536, 0..20),
        prop::collection::btree_map(any::<u16>(), prop::collection::vec(any::<i64>(), 1..4), 0..3),
    )
        .prop_map(|(no, lows, batches)| match lows.is_empty() {
            true => AckPage {
                page_no: no,
                acked: bytes::Bytes::new(),
                batches,
            },
            false => AckPage {
                batches,
                ..acked(no, lows)
            },
        });
    prop_oneof![20 => small, 1 => (0u64..5, any::<i64>()).prop_map(|(no, seed)| huge(no, seed))]
}

fn change() -> impl Strategy<Value = CursorUpdate> {
    let pages = prop::collection::vec(page(), 0..4).prop_map(|pages| {
        let unique: BTreeMap<u64, AckPage> = pages.into_iter().map(|page| (page.page_no, page)).collect();
        unique.into_values().collect::<Vec<_>>()
    });
    let properties = prop::option::of(prop::collection::btree_map("[a-c]", any::<i64>(), 0..3));
    (
        names(),
        prop::bool::weighted(0.3),
        prop::bool::weighted(0.15),
        0u64..(5 << 16),
        properties,
        pages,
    )
        .prop_map(|(name, create, full, end, position_properties, pages)| CursorUpdate {
            full,
            position_properties,
            ..update(&name, create, end, pages)
        })
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => change().prop_map(Op::Update),
        2 => names().prop_map(Op::Delete),
        4 => Just(Op::Settle),
        2 => Just(Op::Reopen),
        3 => (1u64..6, prop_oneof![Just(Fault::Refuse), Just(Fault::LoseAnswer)])
            .prop_map(|(nth, fault)| Op::Fault(nth, fault)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn l15_cursors_agree_with_a_model_through_faults_and_reopens(ops in prop::collection::vec(op(), 1..40)) {
        let mut world = World::new();
        let (mut cursors, _) = world.open().unwrap();
        let mut expected: BTreeMap<String, CursorState> = BTreeMap::new();
        let mut asked: Vec<(Op, BoxFuture<Result<()>>)> = Vec::new();
        for op in ops.into_iter().chain([Op::Reopen]) {
            match op.clone() {
                Op::Update(change) => asked.push((op, cursors.persist(change))),
                Op::Delete(name) => asked.push((op, cursors.delete(&name))),
                Op::Fault(nth, fault) => world.faults.nth(nth, fault),
                Op::Settle | Op::Reopen => {
                    for (op, answer) in asked.drain(..) {
                        let answer = world.rt.block_on(answer);
                        let mut then = expected.clone();
                        let wanted = match &op {
                            Op::Update(change) => model(&mut then, change),
                            Op::Delete(name) => then.remove(name).map(drop).ok_or(ErrorCode::NotFound),
                            _ => unreachable!(),
                        };
                        match answer {
                            Ok(()) => {
                                prop_assert_eq!(wanted, Ok(()));
                                expected = then;
                            }
                            // The fault refused it: certainly nothing happened.
                            Err(Error::Unavailable { .. }) => {}
                            Err(error) => prop_assert_eq!(wanted, Err(error.code()), "{}", error),
                        }
                    }
                    if matches!(op, Op::Reopen) {
                        world.faults.clear();
                        let (reopened, states) = world.open().unwrap();
                        cursors = reopened;
                        prop_assert_eq!(states.len(), expected.len());
                        for state in &states {
                            prop_assert!(same(state, &expected[&state.name]), "{:?} instead of {:?}", state, expected[&state.name]);
                        }
                        let named: usize = world.keys(RecordType::CursorPage).len();
                        let least: usize = expected.values().map(|state| state.pages.len()).sum();
                        prop_assert!(named >= least && named <= least * 20, "{} page records for {} pages", named, least);
                        let read = world.rt.block_on(read_all(&world.store, STREAM)).unwrap();
                        prop_assert_eq!(read, states);
                    }
                }
            }
        }
    }
}

/// Holds every write until it is let through.
struct Gate {
    store: MemoryStore,
    open: Arc<Semaphore>,
    writes: Mutex<Vec<usize>>,
}

impl MetadataStore for Gate {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }
    fn get(&self, key: Key) -> BoxFuture<Result<Option<Versioned>>> {
        self.store.get(key)
    }
    fn write(&self, batch: Vec<Write>) -> BoxFuture<Vec<Verdict>> {
        self.writes.lock().push(batch.len());
        let (open, store) = (self.open.clone(), self.store.clone());
        Box::pin(async move {
            open.acquire().await.unwrap().forget();
            store.write(batch).await
        })
    }
    fn scan(&self, from: Key, to: Key, limit: usize) -> BoxFuture<Result<Vec<(Key, Versioned)>>> {
        self.store.scan(from, to, limit)
    }
    fn last(&self, from: Key, to: Key) -> BoxFuture<Result<Option<(Key, Versioned)>>> {
        self.store.last(from, to)
    }
}

#[test]
fn updates_coalesce_while_a_persist_is_in_flight() {
    let mut world = World::new();
    let gate = Arc::new(Gate {
        store: world.store.clone(),
        open: Arc::new(Semaphore::new(0)),
        writes: Mutex::default(),
    });
    let (cursors, _) = world.open_on(gate.clone()).unwrap();
    let first = cursors.persist(update("a", true, 0, vec![]));
    while gate.writes.lock().is_empty() {
        std::thread::yield_now();
    }
    let rest: Vec<_> = (1..100)
        .map(|end| cursors.persist(update("a", false, end, vec![])))
        .collect();
    gate.open.add_permits(1000);
    world.rt.block_on(async {
        first.await.unwrap();
        for answer in rest {
            answer.await.unwrap();
        }
    });
    assert_eq!(
        *gate.writes.lock(),
        [1, 1],
        "one write for the first, one for all that came meanwhile"
    );
    assert_eq!(world.open().unwrap().1[0].mark_delete_end, Offset::new(99));
}

#[test]
fn order_of_update_delete_and_create_is_kept() {
    let mut world = World::new();
    let (cursors, _) = world.open().unwrap();
    let answers = [
        cursors.persist(update("a", true, 1, vec![acked(0, [9])])),
        cursors.delete("a"),
        cursors.persist(update("a", false, 2, vec![])),
        cursors.persist(update("a", true, 3, vec![])),
        cursors.persist(update("a", true, 4, vec![])),
    ];
    let codes: Vec<_> = answers
        .into_iter()
        .map(|answer| world.rt.block_on(answer).err().map(|e| e.code()))
        .collect();
    assert_eq!(
        codes,
        [
            None,
            None,
            Some(ErrorCode::NotFound),
            None,
            Some(ErrorCode::AlreadyExists)
        ]
    );
    let (_, states) = world.open().unwrap();
    assert_eq!(
        (states.len(), states[0].mark_delete_end, states[0].pages.len()),
        (1, Offset::new(3), 0)
    );
    world.shrinks_to(RecordType::CursorPage, 0);
}

#[test]
fn l15_page_above_64_kib_is_cut_and_put_together() {
    let mut world = World::new();
    let (cursors, _) = world.open().unwrap();
    let page = huge(3, 77);
    world
        .rt
        .block_on(cursors.persist(update("a", true, 0, vec![page.clone()])))
        .unwrap();
    let stored = world.keys(RecordType::CursorPage);
    assert!(stored.len() > 1, "{} parts", stored.len());
    let (cursors, states) = world.open().unwrap();
    assert_eq!(bits(&states[0].pages[0]), bits(&page));
    assert_eq!(states[0].pages[0].batches, page.batches);
    world
        .rt
        .block_on(cursors.persist(update("a", false, 0, vec![acked(3, [1])])))
        .unwrap();
    assert_eq!(
        world.keys(RecordType::CursorPage).len(),
        1,
        "every part of the old version is reclaimed"
    );
}

#[test]
fn l15_acks_have_no_size_cliff() {
    let mut world = World::new();
    let (cursors, _) = world.open().unwrap();
    let pages: Vec<AckPage> = (0..3000).map(|no| acked(no, [1, 2, 4])).collect();
    world
        .rt
        .block_on(cursors.persist(update("a", true, 0, pages.clone())))
        .unwrap();
    let before = world.faults.writes();
    world
        .rt
        .block_on(cursors.persist(update("a", false, 0, vec![acked(1500, [9])])))
        .unwrap();
    assert_eq!(
        world.faults.writes() - before,
        5,
        "new page and index record, root, the old two: cost follows the change"
    );
    let (_, states) = world.open().unwrap();
    assert_eq!(states[0].pages.len(), 3000);
    assert_eq!(bits(&states[0].pages[1500]), RoaringBitmap::from([9]));
}

#[test]
fn l06_update_that_arrives_late_changes_nothing_newer() {
    let mut world = World::new();
    let (cursors, _) = world.open().unwrap();
    world
        .rt
        .block_on(cursors.persist(update("a", true, 1, vec![])))
        .unwrap();
    world.faults.next(Fault::Late);
    world
        .rt
        .block_on(cursors.persist(update("a", false, 2, vec![])))
        .unwrap();
    world
        .rt
        .block_on(cursors.persist(update("a", false, 3, vec![])))
        .unwrap();
    world.rt.block_on(world.faults.arrive());
    assert_eq!(world.open().unwrap().1[0].mark_delete_end, Offset::new(3));
}

/// A lost answer leaves nobody with a version that is behind for ever: what is there is read again and taken for what it is.
#[test]
fn l06_lost_answer_of_a_persist_does_not_disturb_the_next_ones_case_067() {
    let mut world = World::new();
    let (cursors, _) = world.open().unwrap();
    world
        .rt
        .block_on(cursors.persist(update("a", true, 1, vec![])))
        .unwrap();
    for lost in 1..=3 {
        world.faults.nth(lost, Fault::LoseAnswer);
        for n in 0..10 {
            let end = lost * 100 + n;
            let page = acked(lost, [u32::try_from(n).unwrap()]);
            world
                .rt
                .block_on(cursors.persist(update("a", false, end, vec![page])))
                .unwrap();
        }
    }
    let (_, states) = world.open().unwrap();
    assert_eq!(states[0].mark_delete_end, Offset::new(309));
    assert_eq!(states[0].pages, [1, 2, 3].map(|page| acked(page, [9])));
}

#[test]
fn l05_persist_of_an_old_owner_fails_after_the_claim() {
    let mut world = World::new();
    let (old, _) = world.open().unwrap();
    world.rt.block_on(old.persist(update("a", true, 1, vec![]))).unwrap();
    // Another engine claims: this one's published head does not know it yet.
    let (new, _) = world.claim(world.faulty(), OwnerEpoch::new(2)).unwrap();
    assert_eq!(
        code(
            world
                .rt
                .block_on(old.persist(update("a", false, 9, vec![acked(0, [3])])))
        ),
        ErrorCode::Fenced
    );
    assert_eq!(code(world.rt.block_on(old.delete("a"))), ErrorCode::Fenced);
    assert_eq!(code(world.claim(world.faulty(), OwnerEpoch::new(1))), ErrorCode::Fenced);
    assert!(
        world.keys(RecordType::CursorPage).is_empty(),
        "what the old owner wrote for it is reclaimed"
    );
    world
        .cell
        .publish(|head| head.as_mut().unwrap().owner_epoch = OwnerEpoch::new(2));
    world.rt.block_on(new.persist(update("a", false, 2, vec![]))).unwrap();
    world.epoch = 2;
    assert_eq!(world.open().unwrap().1[0].mark_delete_end, Offset::new(2));
}

#[test]
fn l15_crash_between_any_two_writes_leaves_the_old_or_the_new_state() {
    let (old, new) = (vec![acked(0, [1]), acked(1, [2])], vec![acked(0, [5]), huge(2, 1)]);
    let mut seen = Vec::new();
    for crash_after in 0..32 {
        let mut world = World::new();
        let (cursors, _) = world.open().unwrap();
        world
            .rt
            .block_on(cursors.persist(update("a", true, 0, old.clone())))
            .unwrap();
        world.faults.halt_after(Some(crash_after));
        let answer = cursors.persist(CursorUpdate {
            full: true,
            ..update("a", false, 0, new.clone())
        });
        let spawned = world.rt.spawn(answer);
        let deadline = world.env.clock.monotonic() + std::time::Duration::from_secs(20);
        while !spawned.is_finished() && !world.faults.halted() {
            assert!(world.env.clock.monotonic() < deadline, "neither done nor halted");
            std::thread::yield_now();
        }
        let answered = spawned.is_finished();
        world.faults = Faults::default();
        let (_, states) = world.open().unwrap();
        let numbers: Vec<u64> = states[0].pages.iter().map(|page| page.page_no).collect();
        assert!(numbers == [0, 1] || numbers == [0, 2], "{numbers:?}");
        if answered {
            assert_eq!(numbers, [0, 2], "answered, so it is there");
        }
        let parts = world.keys(RecordType::CursorPage).len();
        assert!(
            parts == if numbers == [0, 1] { 2 } else { 1 + 20 },
            "orphans are removed by the claim: {parts}"
        );
        seen.push(numbers[1]);
    }
    assert!(seen.contains(&1) && seen.contains(&2), "{seen:?}");
}

#[test]
fn unreadable_cursor_is_an_error_never_an_empty_cursor() {
    let mut world = World::new();
    let (cursors, _) = world.open().unwrap();
    world
        .rt
        .block_on(cursors.persist(update("a", true, 0, vec![acked(0, [1])])))
        .unwrap();
    let page = world.keys(RecordType::CursorPage).remove(0);
    let good = world.rt.block_on(world.store.get(page.clone())).unwrap().unwrap().value;

    world.overwrite(page.clone(), None);
    let error = world.open().err().expect("a missing page");
    assert_eq!(error.code(), ErrorCode::Corrupt);
    assert!(error.to_string().contains("cursor a"), "{error}");
    assert_eq!(
        code(world.rt.block_on(read_all(&world.store, STREAM))),
        ErrorCode::Corrupt
    );

    let mut bad = good.to_vec();
    bad[20] ^= 1;
    world.overwrite(page.clone(), Some(bad.into()));
    assert_eq!(code(world.open()), ErrorCode::Corrupt);
    world.overwrite(page, Some(good));
    assert_eq!(world.open().unwrap().1[0].pages.len(), 1);

    world.faults.fail_reads(true);
    assert_eq!(code(world.open()), ErrorCode::Unavailable);
    world.faults.fail_reads(false);
    let root = world.keys(RecordType::CursorRoot).remove(0);
    world.overwrite(root, Some("junk".into()));
    assert_eq!(code(world.open()), ErrorCode::Corrupt);
}

#[test]
fn bad_input_is_refused_before_anything_is_written() {
    let mut world = World::new();
    let (cursors, _) = world.open().unwrap();
    let page = |acked: &[u8]| AckPage {
        page_no: 0,
        acked: bytes::Bytes::copy_from_slice(acked),
        batches: BTreeMap::new(),
    };
    let with = |batches: BTreeMap<u16, Vec<i64>>| AckPage {
        page_no: 0,
        acked: bytes::Bytes::new(),
        batches,
    };
    let mut far = Vec::new();
    RoaringBitmap::from([70_000]).serialize_into(&mut far).unwrap();
    let mut trailing = acked(0, [1]).acked.to_vec();
    trailing.push(0);
    let good = acked(0, [1]);
    for pages in [
        vec![page(b"junk")],
        vec![page(&far)],
        vec![page(&trailing)],
        vec![good.clone(), good.clone()],
        vec![AckPage {
            page_no: u64::MAX,
            ..good.clone()
        }],
        vec![with(BTreeMap::from([(1, vec![])]))],
        vec![with(BTreeMap::from([(1, vec![0; 2000])]))],
    ] {
        let (bad, beside) = (
            cursors.persist(update("a", true, 0, pages)),
            cursors.persist(update("b", true, 0, vec![])),
        );
        assert_eq!(code(world.rt.block_on(bad)), ErrorCode::Invalid);
        world.rt.block_on(beside).unwrap();
        world.rt.block_on(cursors.delete("b")).unwrap();
    }
    for name in ["", "x".repeat(5000).as_str()] {
        assert_eq!(
            code(world.rt.block_on(cursors.persist(update(name, true, 0, vec![])))),
            ErrorCode::Invalid
        );
    }
    assert_eq!(
        code(
            world
                .rt
                .block_on(cursors.persist(update("a", true, u64::MAX >> 1, vec![])))
        ),
        ErrorCode::Invalid
    );
    let deleted = Key::cursor_root(STREAM, "b").unwrap();
    assert_eq!(world.keys(RecordType::CursorRoot), [deleted], "nothing of a");
    assert_eq!(world.rt.block_on(read_all(&world.store, STREAM)).unwrap(), []);
}
