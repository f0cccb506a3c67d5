//! One suite for every commit log: what a [`Stream`] promises, checked from outside.
//!
//! `stream_suite!(fixture)` expands every case in the module that calls it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Runtime;

pub(crate) use super::marks_suite::*;
use super::{Common, Parts, ReadBatch, ReadRequest, Stream};
use crate::cache::{Budget, Caches};
use crate::commit::{AppendOutcome, Commit, HeadChange, Log, RING};
use crate::cursor::{AckPage, CursorState, CursorUpdate};
use crate::env::{real, BoxFuture, Clock, Env};
use crate::error::{Error, ErrorCode, Result};
use crate::types::{Incarnation, Offset, OwnerEpoch, ReadView, StreamId};

pub(crate) const STREAM: StreamId = StreamId::new(0x5eed);
pub(crate) const MAX_ENTRY: u32 = 1 << 20;

/// A commit log under test.
pub(crate) trait Fixture {
    /// Opens the log on what is durable.
    fn open(&mut self, rt: &Runtime, env: &Env) -> Arc<dyn Log>;
    /// Closes the log that was opened last.
    fn close(&mut self, rt: &Runtime);
    /// Flips one bit of a commit's stored bytes; reads after it come from the store, not from a cache of the log.
    fn damage(&mut self, commit: Commit);
}

/// The clock of the operating system, until a test sets the time of day.
pub(crate) struct TestClock {
    real: Arc<dyn Clock>,
    wall: AtomicU64,
}

impl TestClock {
    /// It stays so late until it is set again.
    pub fn set(&self, wall_millis: u64) {
        self.wall.store(wall_millis, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn wall_millis(&self) -> u64 {
        match self.wall.load(Ordering::SeqCst) {
            0 => self.real.wall_millis(),
            set => set,
        }
    }

    fn monotonic(&self) -> Duration {
        self.real.monotonic()
    }

    fn sleep(&self, pause: Duration) -> BoxFuture<()> {
        self.real.sleep(pause)
    }
}

/// One log opened over and over.
pub(crate) struct World<F: Fixture> {
    pub fixture: F,
    pub rt: Runtime,
    pub env: Env,
    pub clock: Arc<TestClock>,
    pub log: Arc<dyn Log>,
    owners: u32,
}

impl<F: Fixture> World<F> {
    pub fn new(mut fixture: F) -> Self {
        let rt = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_time()
            .build()
            .unwrap();
        let real = real::env(rt.handle().clone()).unwrap();
        let clock = Arc::new(TestClock {
            real: real.clock.clone(),
            wall: AtomicU64::new(0),
        });
        let env = Env {
            clock: clock.clone(),
            ..real
        };
        let log = fixture.open(&rt, &env);
        let world = World {
            fixture,
            rt,
            env,
            clock,
            log,
            owners: 0,
        };
        let create = HeadChange::Create {
            stream: STREAM,
            incarnation: Incarnation::new(1),
            created_millis: 7,
        };
        world.rt.block_on(world.log.change(STREAM, create)).unwrap();
        world
    }

    /// Closes the log and opens it again.
    pub fn reopen(&mut self) {
        self.fixture.close(&self.rt);
        self.log = self.fixture.open(&self.rt, &self.env);
    }

    pub fn parts(&self, caches: Caches) -> Parts {
        self.parts_on(self.log.clone(), caches)
    }

    pub fn parts_on(&self, log: Arc<dyn Log>, caches: Caches) -> Parts {
        let cell = self.rt.block_on(log.load(STREAM)).unwrap().expect("the stream exists");
        let name = "public/default/persistent/t".into();
        Parts {
            name,
            stream: STREAM,
            cell,
            common: Arc::new(Common {
                log,
                env: Arc::new(self.env.clone()),
                caches,
                max_entry: MAX_ENTRY,
            }),
        }
    }

    pub fn take_over(&mut self, caches: Caches) -> Result<(Stream, Vec<CursorState>)> {
        self.owners += 1;
        let owner = format!("owner {}", self.owners);
        self.rt.block_on(Stream::take_over(self.parts(caches), owner.into()))
    }

    pub fn stream(&mut self) -> Stream {
        self.take_over(plenty()).unwrap().0
    }

    /// A stream whose every read goes to the log.
    pub fn uncached(&mut self) -> Stream {
        self.take_over(Caches::new(Budget::uncached())).unwrap().0
    }
}

pub(crate) fn plenty() -> Caches {
    Caches::new(Budget::new(256 << 20, 64 << 20, MAX_ENTRY).unwrap())
}

/// The outcome of one append, by a channel.
pub(crate) fn append(stream: &Stream, entry: &[u8]) -> Result<(Offset, mpsc::Receiver<AppendOutcome>)> {
    let (sender, receiver) = mpsc::channel();
    let entry = Bytes::copy_from_slice(entry);
    // A test that does not look at the outcome drops the receiver.
    let offset = stream.append(entry, 1, move |outcome| drop(sender.send(outcome)))?;
    Ok((offset, receiver))
}

pub(crate) fn outcome(receiver: &mpsc::Receiver<AppendOutcome>) -> AppendOutcome {
    receiver
        .recv_timeout(std::time::Duration::from_secs(20))
        .expect("every append is answered")
}

/// Appends and waits for the commit.
pub(crate) fn put(stream: &Stream, entry: &[u8]) -> Offset {
    let (reserved, receiver) = append(stream, entry).unwrap();
    match outcome(&receiver) {
        AppendOutcome::Committed { offset, .. } => {
            assert_eq!(offset, reserved);
            offset
        }
        other => panic!("append at {reserved} ended as {other:?}"),
    }
}

pub(crate) fn request(start: u64) -> ReadRequest {
    let (start, up_to) = (Offset::new(start), Offset::MAX);
    ReadRequest {
        view: ReadView::Committed,
        start,
        max_entries: 1000,
        max_bytes: 1 << 30,
        up_to,
    }
}

pub(crate) fn read(rt: &Runtime, stream: &Stream, request: ReadRequest) -> Result<Vec<(u64, Vec<u8>)>> {
    let flat = |batch: ReadBatch| {
        batch
            .entries
            .iter()
            .map(|e| (e.offset.get(), e.entry.to_vec()))
            .collect()
    };
    rt.block_on(stream.read(request)).map(flat)
}

/// Everything from `start` to the end, however many reads that takes.
pub(crate) fn read_all(rt: &Runtime, stream: &Stream, start: u64) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let batch = read(rt, stream, request(start + all.len() as u64)).unwrap();
        if batch.is_empty() {
            return all;
        }
        for (offset, entry) in batch {
            assert_eq!(offset, start + all.len() as u64, "reads are dense");
            all.push(entry);
        }
    }
}

fn code<T: std::fmt::Debug>(result: Result<T>) -> ErrorCode {
    result.expect_err("must be refused").code()
}

pub(crate) fn update(name: &str, create: bool, mark_delete_end: u64, pages: Vec<AckPage>) -> CursorUpdate {
    CursorUpdate {
        name: name.into(),
        create,
        full: false,
        mark_delete_end: Offset::new(mark_delete_end),
        position_properties: None,
        cursor_properties: None,
        pages,
    }
}

pub(crate) fn acked(page_no: u64, lows: impl IntoIterator<Item = u32>) -> AckPage {
    let bitmap: roaring::RoaringBitmap = lows.into_iter().collect();
    let mut bytes = Vec::new();
    bitmap.serialize_into(&mut bytes).unwrap();
    AckPage {
        page_no,
        acked: bytes.into(),
        batches: BTreeMap::new(),
    }
}

pub(crate) fn l01_acknowledged_entries_survive_reopen<F: Fixture>(fixture: F) {
    let mut world = World::new(fixture);
    let mut expected = Vec::new();
    for round in 0..3u8 {
        let stream = world.stream();
        assert_eq!(stream.state().end, Offset::new(expected.len() as u64));
        for n in 0..50u8 {
            let entry = vec![round; usize::from(n) + 1];
            put(&stream, &entry);
            expected.push(entry);
        }
        world.reopen();
        let stream = world.stream();
        assert_eq!(read_all(&world.rt, &stream, 0), expected);
        assert_eq!(
            stream.state().bytes,
            expected.iter().map(|e| e.len() as u64).sum::<u64>()
        );
    }
}

pub(crate) fn l02_reader_sees_an_entry_only_with_its_commit<F: Fixture>(fixture: F) {
    let mut world = World::new(fixture);
    let writer = world.stream();
    let reader = Stream::read_only(world.parts(plenty()));
    assert_eq!(read(&world.rt, &reader, request(0)).unwrap(), vec![]);
    for n in 0..40u64 {
        put(&writer, &n.to_be_bytes());
        assert_eq!(
            reader.state().end.get(),
            n + 1,
            "the head is published before the answer"
        );
        assert_eq!(
            read(&world.rt, &reader, request(n)).unwrap(),
            vec![(n, n.to_be_bytes().to_vec())]
        );
        assert_eq!(read(&world.rt, &reader, request(n + 1)).unwrap(), vec![]);
    }
    assert_eq!(code(reader.append(Bytes::new(), 1, |_| {})), ErrorCode::Invalid);
}

pub(crate) fn l04_dense_offsets_in_call_order_under_concurrency<F: Fixture>(fixture: F) {
    let mut world = World::new(fixture);
    let stream = world.stream();
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let (stream, sender) = (stream.clone(), sender.clone());
            scope.spawn(move || {
                for n in 0..250u8 {
                    let sender = sender.clone();
                    let entry = Bytes::from(vec![thread, n]);
                    stream
                        .append(entry, 1, move |outcome| sender.send((thread, n, outcome)).unwrap())
                        .unwrap();
                }
            });
        }
    });
    drop(sender);
    let mut expected = Vec::new();
    let mut next_of = [0u8; 4];
    for (thread, n, outcome) in receiver {
        let AppendOutcome::Committed { offset, .. } = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!(offset.get(), expected.len() as u64, "completions come in offset order");
        assert_eq!(
            n,
            next_of[usize::from(thread)],
            "offsets follow the calls of one thread"
        );
        next_of[usize::from(thread)] += 1;
        expected.push(vec![thread, n]);
    }
    assert_eq!(expected.len(), 1000);
    world.reopen();
    let stream = world.uncached();
    assert_eq!(read_all(&world.rt, &stream, 0), expected);
}

pub(crate) fn l05_fenced_owner_cannot_move_the_head<F: Fixture>(fixture: F) {
    let mut world = World::new(fixture);
    let old = world.stream();
    put(&old, b"old");
    world
        .rt
        .block_on(old.persist_cursor(update("c", true, 0, vec![])))
        .unwrap();
    let new = world.stream();
    assert!(new.owner_epoch() > old.owner_epoch());

    let (_, receiver) = append(&old, b"late").unwrap();
    let fenced = outcome(&receiver);
    assert!(
        matches!(&fenced, AppendOutcome::NotCommitted(Error::Fenced { by_epoch, .. }) if Some(*by_epoch) == new.owner_epoch()),
        "{fenced:?}"
    );
    assert_eq!(code(append(&old, b"later").map(drop)), ErrorCode::Fenced);
    assert_eq!(code(old.resume()), ErrorCode::Fenced);
    assert_eq!(code(world.rt.block_on(old.trim(Offset::new(1)))), ErrorCode::Fenced);
    assert_eq!(code(world.rt.block_on(old.terminate())), ErrorCode::Fenced);
    assert_eq!(
        code(world.rt.block_on(old.set_properties(BTreeMap::new()))),
        ErrorCode::Fenced
    );
    assert_eq!(
        code(world.rt.block_on(old.persist_cursor(update("c", false, 1, vec![])))),
        ErrorCode::Fenced
    );
    assert_eq!(
        code(world.rt.block_on(old.persist_cursor(update("d", true, 1, vec![])))),
        ErrorCode::Fenced
    );
    assert_eq!(code(world.rt.block_on(old.delete_cursor("c"))), ErrorCode::Fenced);

    assert_eq!(put(&new, b"new"), Offset::new(1));
    assert_eq!(read_all(&world.rt, &new, 0), [b"old".to_vec(), b"new".to_vec()]);
    let cursors = world.rt.block_on(new.list_cursors()).unwrap();
    assert_eq!(
        cursors
            .iter()
            .map(|c| (c.name.as_str(), c.mark_delete_end.get()))
            .collect::<Vec<_>>(),
        [("c", 0)]
    );
}

pub(crate) fn l12_damaged_entry_is_never_served<F: Fixture>(fixture: F) {
    let mut world = World::new(fixture);
    let stream = world.stream();
    for n in 0..3u8 {
        put(&stream, &[n; 100]);
    }
    let cell = world.rt.block_on(world.log.load(STREAM)).unwrap().unwrap();
    let middle = cell.with(|head| *head.unwrap().find(Offset::new(1)).unwrap());
    assert_eq!(middle.count, 1, "one commit per awaited append");
    world.fixture.damage(middle);
    let stream = world.uncached();
    assert_eq!(
        read(
            &world.rt,
            &stream,
            ReadRequest {
                max_entries: 1,
                ..request(0)
            }
        )
        .unwrap(),
        vec![(0, vec![0; 100])]
    );
    let error = read(&world.rt, &stream, request(1)).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Corrupt, "{error}");
    assert_eq!(read(&world.rt, &stream, request(2)).unwrap(), vec![(2, vec![2; 100])]);
}

pub(crate) fn read_starts_exactly_and_keeps_every_bound<F: Fixture>(fixture: F) {
    let mut world = World::new(fixture);
    let stream = world.stream();
    let entries: Vec<Vec<u8>> = (0..200usize).map(|n| vec![n as u8; (n * 37) % 300]).collect();
    let receivers: Vec<_> = entries.iter().map(|entry| append(&stream, entry).unwrap().1).collect();
    receivers
        .iter()
        .for_each(|r| assert!(matches!(outcome(r), AppendOutcome::Committed { .. })));
    let cold = world.uncached();
    for start in (0..200u64).step_by(7) {
        for (max_entries, max_bytes, up_to) in [
            (1, 1, u64::MAX),
            (5, 1 << 20, 1 << 62),
            (1000, 700, 1 << 62),
            (1000, 1 << 20, start + 3),
        ] {
            let up_to = Offset::new(up_to.min(Offset::MAX.get()));
            let wanted = ReadRequest {
                max_entries,
                max_bytes,
                up_to,
                ..request(start)
            };
            let got = read(&world.rt, &cold, wanted).unwrap();
            assert_eq!(got.first().map(|(offset, _)| *offset), Some(start));
            let mut bytes = 0;
            for (n, (offset, entry)) in got.iter().enumerate() {
                assert_eq!((*offset, entry), (start + n as u64, &entries[start as usize + n]));
                bytes += entry.len() as u64;
                assert!(n == 0 || bytes <= max_bytes);
                assert!(*offset < up_to.get());
            }
            assert!(got.len() <= max_entries as usize);
            if let Some(Ok(hot)) = stream.try_read_cached(&wanted) {
                let hot: Vec<_> = hot.entries.iter().map(|e| (e.offset.get(), e.entry.to_vec())).collect();
                assert_eq!(hot, got, "cached and cold reads agree");
            }
        }
    }
    assert!(
        stream.try_read_cached(&request(199)).is_some(),
        "a fresh append is cached"
    );
    assert!(stream
        .try_read_cached(&request(200))
        .unwrap()
        .unwrap()
        .entries
        .is_empty());
    let view = ReadRequest {
        view: ReadView::TopicCompacted,
        ..request(0)
    };
    assert_eq!(code(read(&world.rt, &stream, view)), ErrorCode::Unsupported);
    assert_eq!(code(stream.try_read_cached(&view).unwrap()), ErrorCode::Unsupported);
}

pub(crate) fn trimmed_is_refused_but_the_last_entry_stays<F: Fixture>(fixture: F) {
    let mut world = World::new(fixture);
    let stream = world.stream();
    for n in 0..60u8 {
        put(&stream, &[n; 10]);
    }
    assert_eq!(
        world.rt.block_on(stream.trim(Offset::new(45))).unwrap(),
        Offset::new(45)
    );
    assert_eq!(
        world.rt.block_on(stream.trim(Offset::new(20))).unwrap(),
        Offset::new(45),
        "never back"
    );
    assert_eq!(
        (stream.state().entries, stream.state().bytes),
        (15, 150),
        "exact: every commit is one entry"
    );
    assert_eq!(code(read(&world.rt, &stream, request(44))), ErrorCode::OffsetTrimmed);
    assert_eq!(read_all(&world.rt, &stream, 45).len(), 15);
    assert_eq!(
        world
            .rt
            .block_on(stream.size_between(Offset::ZERO, Offset::new(50)))
            .unwrap(),
        50
    );

    assert_eq!(world.rt.block_on(stream.truncate()).unwrap(), Offset::new(60));
    assert_eq!(world.rt.block_on(stream.truncate()).unwrap(), Offset::new(60));
    world.reopen();
    let stream = world.uncached();
    assert_eq!((stream.state().entries, stream.state().bytes), (0, 0));
    assert_eq!(code(read(&world.rt, &stream, request(58))), ErrorCode::OffsetTrimmed);
    assert_eq!(read(&world.rt, &stream, request(59)).unwrap(), vec![(59, vec![59; 10])]);
    assert_eq!(put(&stream, b"next"), Offset::new(60));
    assert_eq!(code(read(&world.rt, &stream, request(59))), ErrorCode::OffsetTrimmed);
}

pub(crate) fn terminated_stream_stays_so_and_wakes_its_waiters<F: Fixture>(fixture: F) {
    let mut world = World::new(fixture);
    let stream = world.stream();
    put(&stream, b"only");
    world.rt.block_on(stream.wait_past(Offset::ZERO));
    let waiter = stream.clone();
    let waiting = world.rt.spawn(async move { waiter.wait_past(Offset::new(1)).await });
    assert_eq!(world.rt.block_on(stream.terminate()).unwrap(), Offset::new(1));
    assert_eq!(world.rt.block_on(stream.terminate()).unwrap(), Offset::new(1));
    world.rt.block_on(waiting).unwrap();
    assert_eq!(code(append(&stream, b"x").map(drop)), ErrorCode::Terminated);
    world.reopen();
    let stream = world.stream();
    assert!(stream.state().terminated);
    let (_, receiver) = append(&stream, b"x").unwrap();
    assert!(matches!(
        outcome(&receiver),
        AppendOutcome::NotCommitted(Error::Terminated { .. })
    ));
    assert_eq!(code(append(&stream, b"x").map(drop)), ErrorCode::Terminated);
    assert_eq!(read_all(&world.rt, &stream, 0), [b"only".to_vec()]);
}

pub(crate) fn sizes_times_and_spans_come_from_commit_metadata<F: Fixture>(fixture: F) {
    let mut world = World::new(fixture);
    let stream = world.stream();
    let mut millis = Vec::new();
    let mut sizes = Vec::new();
    for n in 0..(3 * RING as u64 + 5) {
        let entry = vec![1; (n % 7) as usize + 1];
        let (_, receiver) = append(&stream, &entry).unwrap();
        let AppendOutcome::Committed { append_millis, .. } = outcome(&receiver) else {
            panic!("not committed")
        };
        millis.push(append_millis);
        sizes.push(entry.len() as u64);
    }
    world.reopen();
    let stream = world.stream();
    for (from, to) in [(0, 101), (0, 0), (3, 17), (15, 16), (16, 48), (50, 101), (99, 500)] {
        let expected: u64 = sizes.iter().take(to).skip(from).sum();
        let size = world
            .rt
            .block_on(stream.size_between(Offset::new(from as u64), Offset::new(to as u64)))
            .unwrap();
        assert_eq!(size, expected, "{from}..{to}");
    }
    assert_eq!(world.rt.block_on(stream.find_time(0)).unwrap(), Some(Offset::ZERO));
    assert_eq!(world.rt.block_on(stream.find_time(millis[100] + 1)).unwrap(), None);
    if millis.is_sorted() {
        for wanted in [millis[0], millis[10], millis[60], millis[100]] {
            let first = millis.iter().position(|m| *m >= wanted).unwrap() as u64;
            assert_eq!(
                world.rt.block_on(stream.find_time(wanted)).unwrap(),
                Some(Offset::new(first))
            );
        }
    }
    world.rt.block_on(stream.trim(Offset::new(2))).unwrap();
    let spans = world.rt.block_on(stream.spans()).unwrap();
    assert_eq!(spans.len(), 1);
    assert_eq!(
        (spans[0].first_offset, spans[0].entries),
        (Offset::ZERO, sizes.len() as u64 - 2)
    );
    assert_eq!(spans[0].bytes, sizes.iter().skip(2).sum::<u64>());
    assert_eq!(
        (spans[0].first_append_millis, spans[0].last_append_millis),
        (millis[2], millis[100])
    );
}

pub(crate) fn properties_and_closed_handles_behave<F: Fixture>(fixture: F) {
    let mut world = World::new(fixture);
    let stream = world.stream();
    assert_eq!(world.rt.block_on(stream.properties()).unwrap(), BTreeMap::new());
    let all = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
    // Queued in call order: the last one wins.
    let first = stream.set_properties(BTreeMap::from([("x".to_owned(), "y".to_owned())]));
    let second = stream.set_properties(all.clone());
    world
        .rt
        .block_on(async { (second.await.unwrap(), first.await.unwrap()) });
    world.rt.block_on(stream.close()).unwrap();
    world.rt.block_on(stream.close()).unwrap();
    assert_eq!(code(append(&stream, b"x").map(drop)), ErrorCode::Closed);
    assert_eq!(code(read(&world.rt, &stream, request(0))), ErrorCode::Closed);
    assert_eq!(code(world.rt.block_on(stream.trim(Offset::ZERO))), ErrorCode::Closed);
    world.rt.block_on(stream.wait_past(Offset::new(9)));
    world.reopen();
    let stream = world.stream();
    assert_eq!(world.rt.block_on(stream.properties()).unwrap(), all);
    let large = vec![0; MAX_ENTRY as usize + 1];
    assert_eq!(code(append(&stream, &large).map(drop)), ErrorCode::Invalid);
    assert_eq!(put(&stream, &large[1..]), Offset::ZERO);
    assert_eq!(put(&stream, b""), Offset::new(1));
    let stream = world.uncached();
    assert_eq!(read_all(&world.rt, &stream, 1), [b"".to_vec()]);
}

pub(crate) fn deleted_stream_is_gone_and_stays_so<F: Fixture>(fixture: F) {
    let mut world = World::new(fixture);
    let stream = world.stream();
    for n in 0..50u8 {
        put(&stream, &[n]);
    }
    world
        .rt
        .block_on(world.log.change(STREAM, HeadChange::Delete { epoch: None }))
        .unwrap();
    world
        .rt
        .block_on(world.log.change(STREAM, HeadChange::Delete { epoch: None }))
        .unwrap();
    world.rt.block_on(stream.wait_past(Offset::new(1000)));
    let (_, receiver) = append(&stream, b"x").unwrap();
    assert!(matches!(
        outcome(&receiver),
        AppendOutcome::NotCommitted(Error::NotFound { .. })
    ));
    assert_eq!(code(read(&world.rt, &stream, request(0))), ErrorCode::NotFound);
    world.reopen();
    assert!(world.rt.block_on(world.log.load(STREAM)).unwrap().is_none());
}

pub(crate) fn l15_persisted_acks_survive_reopen<F: Fixture>(fixture: F) {
    let mut world = World::new(fixture);
    let stream = world.stream();
    for n in 0..20u8 {
        put(&stream, &[n]);
    }
    let mut page = acked(0, [5, 7, 8]);
    page.batches.insert(9, vec![0b101, -1]);
    let mut create = update("sub/a", true, 3, vec![page.clone()]);
    create.position_properties = Some(BTreeMap::from([("p".to_owned(), -4)]));
    create.cursor_properties = Some(BTreeMap::from([("q".to_owned(), "r".to_owned())]));
    world.rt.block_on(stream.persist_cursor(create)).unwrap();
    world
        .rt
        .block_on(stream.persist_cursor(update("b", true, 20, vec![])))
        .unwrap();
    assert_eq!(
        code(world.rt.block_on(stream.persist_cursor(update("b", true, 20, vec![])))),
        ErrorCode::AlreadyExists
    );
    assert_eq!(
        code(
            world
                .rt
                .block_on(stream.persist_cursor(update("none", false, 2, vec![])))
        ),
        ErrorCode::NotFound
    );
    assert_eq!(
        code(world.rt.block_on(stream.persist_cursor(update("b", false, 21, vec![])))),
        ErrorCode::Invalid
    );
    world
        .rt
        .block_on(stream.persist_cursor(update("sub/a", false, 4, vec![])))
        .unwrap();

    world.reopen();
    let (stream, cursors) = world.take_over(plenty()).unwrap();
    let expected = CursorState {
        name: "sub/a".into(),
        mark_delete_end: Offset::new(4),
        position_properties: BTreeMap::from([("p".to_owned(), -4)]),
        cursor_properties: BTreeMap::from([("q".to_owned(), "r".to_owned())]),
        pages: vec![page],
    };
    assert_eq!(
        cursors.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(),
        ["b", "sub/a"]
    );
    assert_eq!(cursors[1], expected);
    assert_eq!(world.rt.block_on(stream.list_cursors()).unwrap(), cursors);

    world.rt.block_on(stream.delete_cursor("b")).unwrap();
    assert_eq!(code(world.rt.block_on(stream.delete_cursor("b"))), ErrorCode::NotFound);
    world.reopen();
    let (_, cursors) = world.take_over(plenty()).unwrap();
    assert_eq!(cursors, [expected]);
}

pub(crate) fn l05_epoch_rises_with_every_open<F: Fixture>(fixture: F) {
    let mut world = World::new(fixture);
    for n in 1..4u64 {
        assert_eq!(world.stream().owner_epoch(), Some(OwnerEpoch::new(n)));
        world.reopen();
    }
}

/// Expands the suite for one commit log.
macro_rules! stream_suite {
    ($fixture:expr) => {
        $crate::stream::suite::stream_suite!(@cases $fixture;
            l01_acknowledged_entries_survive_reopen,
            l02_reader_sees_an_entry_only_with_its_commit,
            l04_dense_offsets_in_call_order_under_concurrency,
            l05_fenced_owner_cannot_move_the_head,
            l05_epoch_rises_with_every_open,
            l12_damaged_entry_is_never_served,
            l15_persisted_acks_survive_reopen,
            read_starts_exactly_and_keeps_every_bound,
            trimmed_is_refused_but_the_last_entry_stays,
            terminated_stream_stays_so_and_wakes_its_waiters,
            sizes_times_and_spans_come_from_commit_metadata,
            properties_and_closed_handles_behave,
            deleted_stream_is_gone_and_stays_so,
            l16_retention_moves_from_mark_to_mark_and_never_past_what_is_consumed,
            l05_fenced_owner_cuts_no_mark_and_lets_nothing_go,
            marks_go_on_from_the_last_durable_one_after_reopen,
            marks_that_were_never_cut_are_made_up_for,
            marks_are_cut_while_nobody_asks,
            new_settings_hold_at_once_case_114,
            deleted_stream_leaves_no_mark,
            cursor_names_are_kept_as_they_are_or_refused_case_113
        );
    };
    (@cases $fixture:expr; $($case:ident),*) => {
        $(#[test]
        fn $case() {
            $crate::stream::suite::$case($fixture);
        })*
    };
}
pub(crate) use stream_suite;
