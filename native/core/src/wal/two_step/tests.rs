//! The stream suite over memory providers, and what only the two-step path can get wrong: lost, late and refused answers.

use std::sync::Arc;

use tokio::runtime::Runtime;

use super::TwoStep;
use crate::commit::{AppendOutcome, Commit, HeadChange, Log, ReadTarget, StreamHead};
use crate::env::Env;
use crate::error::{Error, ErrorCode};
use crate::metadata::faults::{Fault, Faults, Faulty};
use crate::metadata::memory::MemoryStore;
use crate::metadata::MetadataStore;
use crate::record::{CommitPage, Key, Record};
use crate::stream::suite::{self, append, outcome, plenty, put, read_all, stream_suite, Fixture, World, STREAM};
use crate::stream::Stream;
use crate::types::{CommitId, Incarnation, Offset, StreamId};
use crate::wal::memory::MemoryWal;

#[derive(Default)]
pub(super) struct Memory {
    wal: Arc<MemoryWal>,
    store: MemoryStore,
    faults: Faults,
    open: Option<Arc<TwoStep>>,
}

impl Memory {
    pub(super) fn wal(&self) -> Arc<MemoryWal> {
        self.wal.clone()
    }

    pub(super) fn store(&self) -> MemoryStore {
        self.store.clone()
    }

    pub(super) fn faults(&self) -> Faults {
        self.faults.clone()
    }
}

impl Fixture for Memory {
    fn open(&mut self, _rt: &Runtime, env: &Env) -> Arc<dyn Log> {
        let store = Arc::new(Faulty::new(self.store.clone(), self.faults.clone()));
        let log = Arc::new(TwoStep::start(env.clone(), self.wal.clone(), store));
        self.open = Some(log.clone());
        log
    }

    fn close(&mut self, rt: &Runtime) {
        if let Some(log) = self.open.take() {
            rt.block_on(log.close());
        }
    }

    fn damage(&mut self, commit: Commit) {
        let ReadTarget::Memory { slice } = commit.target else {
            panic!("{:?}", commit.target)
        };
        assert!(self.wal.flip_bit(slice, 300));
    }
}

stream_suite!(Memory::default());

fn not_committed(outcome: AppendOutcome) -> Error {
    match outcome {
        AppendOutcome::NotCommitted(error) => error,
        other => panic!("expected NotCommitted, got {other:?}"),
    }
}

#[test]
fn l02_without_its_head_update_an_append_stays_invisible() {
    let mut world = World::new(Memory::default());
    let stream = world.stream();
    put(&stream, b"0");
    world.fixture.faults.next(Fault::Refuse);
    let (_, receiver) = append(&stream, b"never").unwrap();
    assert_eq!(not_committed(outcome(&receiver)).code(), ErrorCode::Unavailable);
    for _ in 0..2 {
        let reader = Stream::read_only(world.parts(plenty()));
        assert_eq!(reader.state().end, Offset::new(1));
        assert_eq!(read_all(&world.rt, &reader, 0), [b"0".to_vec()]);
        world.reopen();
    }
}

#[test]
fn l03_slice_is_durable_with_its_intent_before_the_head_names_it() {
    let mut world = World::new(Memory::default());
    let stream = world.stream();
    world.fixture.faults.next(Fault::Refuse);
    let (_, receiver) = append(&stream, b"refused head").unwrap();
    assert_eq!(not_committed(outcome(&receiver)).code(), ErrorCode::Unavailable);
    let slices = world.fixture.wal.descriptors();
    let (_, intent) = slices.last().expect("the slice was written first");
    assert_eq!(
        (intent.stream, intent.start, intent.count, intent.previous),
        (STREAM, Offset::ZERO, 1, CommitId::NONE)
    );
    assert_eq!(stream.state().end, Offset::ZERO);

    stream.resume().unwrap();
    assert_eq!(put(&stream, b"real"), Offset::ZERO);
    assert_eq!(
        read_all(&world.rt, &stream, 0),
        [b"real".to_vec()],
        "bytes without a head stay invisible"
    );
}

#[test]
fn l06_lost_reply_is_settled_before_the_next_append() {
    for fault in [Fault::LoseAnswer, Fault::Late] {
        let mut world = World::new(Memory::default());
        let stream = world.stream();
        put(&stream, b"0");
        world.fixture.faults.next(fault);
        let lost = append(&stream, b"1").unwrap().1;
        let behind: Vec<_> = (2..5u8).map(|n| append(&stream, &[b'0' + n]).unwrap().1).collect();
        assert!(
            matches!(outcome(&lost), AppendOutcome::Committed { offset, .. } if offset == Offset::new(1)),
            "{fault:?}"
        );
        for (n, receiver) in behind.iter().enumerate() {
            let AppendOutcome::Committed { offset, .. } = outcome(receiver) else {
                panic!("{fault:?}")
            };
            assert_eq!(offset, Offset::new(2 + n as u64));
        }
        // The copy that was held back arrives at last and must change nothing.
        world.rt.block_on(world.fixture.faults.arrive());
        put(&stream, b"5");
        world.reopen();
        let stream = world.uncached();
        let expected: Vec<Vec<u8>> = (0..6u8).map(|n| vec![b'0' + n]).collect();
        assert_eq!(read_all(&world.rt, &stream, 0), expected, "{fault:?}");
    }
}

#[test]
fn l06_unsettled_attempt_suspends_its_stream_and_no_other() {
    let mut world = World::new(Memory::default());
    let stream = world.stream();
    let other_id = StreamId::new(77);
    let create = HeadChange::Create {
        stream: other_id,
        incarnation: Incarnation::new(1),
        created_millis: 1,
    };
    let cell = world.rt.block_on(world.log.change(other_id, create)).unwrap();
    let parts = crate::stream::Parts {
        stream: other_id,
        cell,
        ..world.parts(plenty())
    };
    let (other, _) = world.rt.block_on(Stream::take_over(parts, "other".into())).unwrap();

    // Nothing that is sent for this head is answered or applied for a long time.
    for n in 1..200 {
        world.fixture.faults.nth(n, Fault::Late);
    }
    let sent = world.fixture.faults.writes();
    let lost = append(&stream, b"a").unwrap().1;
    let behind = append(&stream, b"b").unwrap().1;
    while world.fixture.faults.writes() < sent + 3 {
        std::thread::yield_now();
    }
    assert!(
        lost.try_recv().is_err(),
        "an attempt that is not settled is never answered"
    );
    assert!(behind.try_recv().is_err());
    assert!(
        stream.resume().is_ok(),
        "nothing has failed, so there is nothing to resume"
    );
    assert_eq!(stream.state().end, Offset::ZERO);
    world.fixture.faults.clear();
    assert_eq!(put(&other, b"other goes on"), Offset::ZERO);
    assert!(matches!(outcome(&lost), AppendOutcome::Committed { .. }));
    assert!(matches!(outcome(&behind), AppendOutcome::Committed { .. }));
}

#[test]
fn l06_failed_append_fails_everything_behind_it_and_gives_offsets_back() {
    let mut world = World::new(Memory::default());
    let stream = world.stream();
    put(&stream, b"0");
    let reason = Error::Unavailable {
        what: "disk full".into(),
        retry: std::time::Duration::from_secs(1),
    };
    world.fixture.wal.refuse_writes(Some(reason));
    let receivers: Vec<_> = (0..20)
        .filter_map(|_| append(&stream, b"x").ok())
        .map(|(_, receiver)| receiver)
        .collect();
    let errors: Vec<Error> = receivers
        .iter()
        .map(|receiver| not_committed(outcome(receiver)))
        .collect();
    assert_eq!(errors[0].code(), ErrorCode::Unavailable);
    for error in &errors[1..] {
        assert!(
            error.to_string().contains("disk full"),
            "every later one carries the reason: {error}"
        );
    }
    let refused = append(&stream, b"y").map(drop).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::Suspended);
    assert!(refused.to_string().contains("disk full"), "{refused}");
    assert!(stream.state().suspended);
    world.fixture.wal.refuse_writes(None);
    stream.resume().unwrap();
    assert_eq!(put(&stream, b"1"), Offset::new(1), "the offsets were given back");
    assert_eq!(read_all(&world.rt, &stream, 0), [b"0".to_vec(), b"1".to_vec()]);
}

#[test]
fn l06_close_ends_an_unsettled_attempt_as_unknown() {
    let mut world = World::new(Memory::default());
    let stream = world.stream();
    for n in 1..1000 {
        world.fixture.faults.nth(n, Fault::Late);
    }
    let sent = world.fixture.faults.writes();
    let lost = append(&stream, b"a").unwrap().1;
    while world.fixture.faults.writes() < sent + 2 {
        std::thread::yield_now();
    }
    let behind = append(&stream, b"b").unwrap().1;
    world.fixture.close(&world.rt);
    let ended = outcome(&lost);
    assert!(matches!(ended, AppendOutcome::Unknown(_)), "{ended:?}");
    // Never sent, so certain: refused by the close, or for the reason of the one before.
    assert!(matches!(
        not_committed(outcome(&behind)).code(),
        ErrorCode::Closed | ErrorCode::Unknown
    ));
    assert_eq!(append(&stream, b"c").map(drop).unwrap_err().code(), ErrorCode::Unknown);
    assert_eq!(
        stream.resume().unwrap_err().code(),
        ErrorCode::Unknown,
        "nobody can tell where the stream ends"
    );
}

#[test]
fn l05_second_engine_takes_over_and_the_first_cannot_commit() {
    let mut world = World::new(Memory::default());
    let old = world.stream();
    for n in 0..40u8 {
        put(&old, &[n]);
    }
    // Another engine on the same store and WAL, which the first one knows nothing of.
    let store = Arc::new(world.fixture.store.clone());
    let second: Arc<dyn Log> = Arc::new(TwoStep::start(world.env.clone(), world.fixture.wal.clone(), store));
    let cell = world.rt.block_on(second.load(STREAM)).unwrap().unwrap();
    let parts = crate::stream::Parts {
        cell,
        ..world.parts_on(second.clone(), plenty())
    };
    let (new, _) = world
        .rt
        .block_on(Stream::take_over(parts, "second engine".into()))
        .unwrap();
    put(&new, b"new");

    let receivers: Vec<_> = (0..3)
        .filter_map(|_| append(&old, b"late").ok())
        .map(|(_, receiver)| receiver)
        .collect();
    for receiver in &receivers {
        let error = not_committed(outcome(receiver));
        assert_eq!(error.code(), ErrorCode::Fenced, "{error}");
    }
    assert_eq!(
        old.state().owner_epoch,
        new.owner_epoch().unwrap(),
        "the fenced engine has seen the new owner"
    );
    let all = read_all(&world.rt, &new, 0);
    assert_eq!((all.len(), all[40].as_slice()), (41, &b"new"[..]));

    // The first engine may take the stream back, by claiming it.
    let back = world.stream();
    assert_eq!(put(&back, b"back"), Offset::new(41));
    let (_, receiver) = append(&new, b"fenced in turn").unwrap();
    assert_eq!(not_committed(outcome(&receiver)).code(), ErrorCode::Fenced);
}

#[test]
fn l06_lost_reply_then_take_over_is_found_in_ring_or_page() {
    for newer in [1u8, 100] {
        let mut world = World::new(Memory::default());
        let old = world.stream();
        put(&old, b"first");
        // The head is written and the answer lost; the copies sent to settle it are lost too, until the second engine was there.
        world.fixture.faults.next(Fault::LoseAnswer);
        for n in 2..6 {
            world.fixture.faults.nth(n, Fault::Late);
        }
        let lost = append(&old, b"second").unwrap().1;
        while world.fixture.faults.writes() == 0 || stored(&world).end != Offset::new(2) {
            std::thread::yield_now();
        }
        let store = Arc::new(world.fixture.store.clone());
        let second: Arc<dyn Log> = Arc::new(TwoStep::start(world.env.clone(), world.fixture.wal.clone(), store));
        let cell = world.rt.block_on(second.load(STREAM)).unwrap().unwrap();
        let parts = crate::stream::Parts {
            cell,
            ..world.parts_on(second.clone(), plenty())
        };
        let (new, _) = world
            .rt
            .block_on(Stream::take_over(parts, "second engine".into()))
            .unwrap();
        for n in 0..newer {
            put(&new, &[n]);
        }
        let ended = outcome(&lost);
        assert!(
            matches!(ended, AppendOutcome::Committed { offset, .. } if offset == Offset::new(1)),
            "{newer}: {ended:?}"
        );
        assert_eq!(read_all(&world.rt, &new, 0)[1], b"second");
    }
}

fn stored(world: &World<Memory>) -> StreamHead {
    let key = Key::stream_head(STREAM);
    let value = world
        .rt
        .block_on(world.fixture.store.get(key.clone()))
        .unwrap()
        .unwrap()
        .value;
    StreamHead::decode(&key, &value).unwrap()
}

fn pages(world: &World<Memory>) -> Vec<CommitPage> {
    let (from, to) = Key::stream_range(crate::record::RecordType::CommitPage, STREAM);
    let found = world.rt.block_on(world.fixture.store.scan(from, to, 1000)).unwrap();
    found
        .iter()
        .map(|(key, page)| CommitPage::decode(key, &page.value).unwrap())
        .collect()
}

#[test]
fn commits_leave_the_ring_only_into_a_durable_page() {
    let mut world = World::new(Memory::default());
    let stream = world.stream();
    for n in 0..32u8 {
        put(&stream, &[n]);
    }
    assert!(pages(&world).is_empty());
    // The next commit needs a page: refuse that write, and nothing may be committed.
    world.fixture.faults.next(Fault::Refuse);
    let (_, receiver) = append(&stream, b"x").unwrap();
    assert_eq!(not_committed(outcome(&receiver)).code(), ErrorCode::Unavailable);
    assert_eq!(stored(&world).end, Offset::new(32));
    stream.resume().unwrap();
    world.fixture.faults.next(Fault::LoseAnswer);
    put(&stream, &[32]);
    let pages = pages(&world);
    assert_eq!(
        (pages.len(), pages[0].first(), pages[0].end()),
        (1, Offset::ZERO, Offset::new(16))
    );
    let uncached = world.uncached();
    assert_eq!(
        read_all(&world.rt, &uncached, 0),
        (0..33u8).map(|n| vec![n]).collect::<Vec<_>>()
    );
}

#[test]
fn commit_pages_of_a_trimmed_range_are_removed() {
    let mut world = World::new(Memory::default());
    let stream = world.stream();
    for n in 0..100u8 {
        put(&stream, &[n]);
    }
    let before = pages(&world).len();
    assert!(before >= 4, "{before}");
    world.rt.block_on(stream.trim(Offset::new(50))).unwrap();
    while pages(&world).first().is_none_or(|page| page.end() <= Offset::new(48)) {
        std::thread::yield_now();
    }
    let cold = world.uncached();
    assert_eq!(read_all(&world.rt, &cold, 50).len(), 50);
    assert_eq!(
        world
            .rt
            .block_on(cold.size_between(Offset::new(60), Offset::new(70)))
            .unwrap(),
        10
    );
    world
        .rt
        .block_on(world.log.change(STREAM, HeadChange::Delete { epoch: None }))
        .unwrap();
    world
        .rt
        .block_on(crate::stream::remove_remains(&world.fixture.store, STREAM))
        .unwrap();
    assert!(pages(&world).is_empty());
}

#[test]
fn unreadable_head_is_an_error_not_an_empty_stream() {
    let mut world = World::new(Memory::default());
    let stream = world.stream();
    put(&stream, b"0");
    world.reopen();
    world.fixture.faults.fail_reads(true);
    assert_eq!(
        world.rt.block_on(world.log.load(STREAM)).err().map(|e| e.code()),
        Some(ErrorCode::Unavailable)
    );
    world.fixture.faults.fail_reads(false);
    assert!(
        world.rt.block_on(world.log.load(STREAM)).unwrap().is_some(),
        "the failure is not remembered as absence"
    );
}

#[test]
fn lost_answers_of_changes_are_settled() {
    let mut world = World::new(Memory::default());
    for fault in [Fault::LoseAnswer, Fault::Late] {
        world.fixture.faults.next(fault);
        let stream = world.stream();
        put(&stream, b"x");
        let end = stream.state().end;
        world.fixture.faults.next(fault);
        assert_eq!(world.rt.block_on(stream.trim(end)).unwrap(), end);
        world.fixture.faults.next(fault);
        let all = std::collections::BTreeMap::from([("k".to_owned(), format!("{fault:?}"))]);
        world.rt.block_on(stream.set_properties(all.clone())).unwrap();
        assert_eq!(world.rt.block_on(stream.properties()).unwrap(), all);
        world.rt.block_on(world.fixture.faults.arrive());
        assert_eq!(
            suite::read(&world.rt, &stream, suite::request(end.get() - 1))
                .unwrap()
                .len(),
            1
        );
    }
}
