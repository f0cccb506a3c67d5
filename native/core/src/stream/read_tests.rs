//! Reads, permits and memory of streams, in a simulated world whose log can be held up.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use tokio::sync::Semaphore;

use super::suite::{acked, request, update, MAX_ENTRY, STREAM};
use super::*;
use crate::cache::{Budget, Caches, COLD_AT_ONCE};
use crate::commit::{Append, Commit, Log, Slice};
use crate::env::sim::{self, Executor, SimDisk};
use crate::env::Env;
use crate::error::ErrorCode;
use crate::metadata::memory::MemoryStore;
use crate::metadata::MetadataStore;
use crate::types::Incarnation;
use crate::wal::memory::MemoryWal;
use crate::wal::TwoStep;

/// A log whose reads are counted, and wait while it is held. Clones are the same one.
#[derive(Clone)]
struct Holdable {
    inner: Arc<TwoStep>,
    reads: Arc<AtomicU64>,
    open: Arc<Semaphore>,
}

impl Log for Holdable {
    fn load(&self, stream: StreamId) -> BoxFuture<Result<Option<Arc<HeadCell>>>> {
        self.inner.load(stream)
    }

    fn append(&self, append: Append) {
        self.inner.append(append);
    }

    fn change(&self, stream: StreamId, change: HeadChange) -> BoxFuture<Result<Arc<HeadCell>>> {
        self.inner.change(stream, change)
    }

    fn read(&self, stream: StreamId, commit: Commit) -> BoxFuture<Result<Slice>> {
        self.inner.read(stream, commit)
    }

    fn read_run(&self, stream: StreamId, commits: Vec<Commit>) -> BoxFuture<Vec<Result<Slice>>> {
        let log = self.clone();
        log.reads.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            drop(log.open.acquire().await);
            log.inner.read_run(stream, commits).await
        })
    }

    fn store(&self) -> Arc<dyn MetadataStore> {
        self.inner.store()
    }
}

struct World {
    executor: Executor,
    env: Env,
    log: Holdable,
    caches: Caches,
    owners: u32,
}

impl World {
    fn new(seed: u64, budget: Budget) -> World {
        let mut executor = Executor::new(seed);
        let env = sim::env(&executor, Arc::new(SimDisk::new(1 << 30)), seed);
        let inner = TwoStep::start(env.clone(), Arc::new(MemoryWal::new()), Arc::new(MemoryStore::new()));
        let log = Holdable {
            inner: Arc::new(inner),
            reads: Arc::default(),
            open: Arc::new(Semaphore::new(1)),
        };
        for stream in [STREAM, OTHER] {
            let create = HeadChange::Create {
                stream,
                incarnation: Incarnation::new(1),
                created_millis: 7,
            };
            executor.run(log.change(stream, create)).unwrap();
        }
        World {
            executor,
            env,
            log,
            caches: Caches::new(budget),
            owners: 0,
        }
    }

    fn parts(&mut self, stream: StreamId) -> Parts {
        let cell = self.executor.run(self.log.load(stream)).unwrap().expect("it exists");
        Parts {
            name: "t".into(),
            stream,
            cell,
            common: Arc::new(Common {
                log: Arc::new(self.log.clone()),
                env: Arc::new(self.env.clone()),
                caches: self.caches.clone(),
                max_entry: MAX_ENTRY,
            }),
        }
    }

    fn writer(&mut self, stream: StreamId) -> Stream {
        self.owners += 1;
        let (parts, owner) = (self.parts(stream), format!("owner {}", self.owners));
        self.executor.run(Stream::take_over(parts, owner.into())).unwrap().0
    }

    fn reader(&mut self, stream: StreamId) -> Stream {
        let parts = self.parts(stream);
        Stream::read_only(parts)
    }

    /// Appends `groups` commits of `entries` entries of `size` bytes, each saying its offset.
    fn fill(&mut self, writer: &Stream, groups: u64, entries: u64, size: usize) {
        for _ in 0..groups {
            let from = writer.state().end.get();
            for offset in from..from + entries {
                writer.append(entry(offset, size), 1, |_| {}).unwrap();
            }
            let end = Offset::new(from + entries - 1);
            self.executor.run(writer.wait_past(end));
        }
    }

    fn hold(&self) {
        self.log.open.forget_permits(1);
    }

    fn let_go(&self) {
        self.log.open.add_permits(1);
    }

    fn settle(&mut self) {
        self.executor.run_for(Duration::from_millis(50));
    }

    fn used(&self) -> Vec<(&'static str, u64)> {
        let accounts = self.caches.budget.accounts();
        accounts
            .iter()
            .map(|account| (account.name(), account.used()))
            .collect()
    }

    /// A read as a task of its own; its outcome shows in the answer.
    fn start(&self, stream: &Stream, request: ReadRequest) -> tokio::sync::oneshot::Receiver<Result<ReadBatch>> {
        let (send, receive) = tokio::sync::oneshot::channel();
        let stream = stream.clone();
        let read = async move { drop(send.send(stream.read(request).await)) };
        self.env.spawner.spawn("read", Box::pin(read));
        receive
    }
}

const OTHER: StreamId = StreamId::new(0x0713e);

fn plenty() -> Budget {
    Budget::new(256 << 20, 64 << 20, MAX_ENTRY).unwrap()
}

fn entry(offset: u64, size: usize) -> Bytes {
    let mut bytes = offset.to_be_bytes().to_vec();
    bytes.resize(size.max(8), offset as u8);
    bytes.into()
}

fn check(batch: &ReadBatch, from: u64) {
    for (found, offset) in batch.entries.iter().zip(from..) {
        assert_eq!(found.offset.get(), offset);
        assert_eq!(found.entry, entry(offset, found.entry.len()));
    }
}

fn up_to(start: u64, entries: u32) -> ReadRequest {
    ReadRequest {
        max_entries: entries,
        ..request(start)
    }
}

#[test]
fn each_byte_is_fetched_once_and_ahead_of_a_sequential_reader_case_097() {
    let mut world = World::new(1, plenty());
    let writer = world.writer(STREAM);
    world.fill(&writer, 200, 50, 1000);
    let reader = world.reader(STREAM);
    let (mut next, mut calls) = (0, 0);
    while next < 10_000 {
        let batch = world.executor.run(reader.read(up_to(next, 130))).unwrap();
        check(&batch, next);
        assert_eq!(
            batch.entries.len() as u64,
            130.min(10_000 - next),
            "memory is not short"
        );
        next += batch.entries.len() as u64;
        calls += 1;
        // The reader does something with them.
        world.settle();
    }
    let stats = world.caches.slices.stats();
    assert_eq!(stats.bytes, 10_000 * 1000, "every byte once");
    assert!(stats.ahead > stats.bytes * 9 / 10, "{stats:?}");
    assert!(
        stats.reads < calls,
        "{} reads for {calls} calls and 200 slices",
        stats.reads
    );
    assert_eq!((stats.ahead_wasted, stats.ahead_held), (0, 0));
}

#[test]
fn random_reads_read_nothing_ahead() {
    let mut world = World::new(2, plenty());
    let writer = world.writer(STREAM);
    world.fill(&writer, 100, 50, 1000);
    let reader = world.reader(STREAM);
    for n in 0..40u64 {
        let start = n * 1777 % 4990;
        check(&world.executor.run(reader.read(up_to(start, 1))).unwrap(), start);
    }
    assert_eq!(world.caches.slices.stats().ahead, 0);
}

#[test]
fn replay_that_has_every_cold_permit_delays_no_producer_and_no_tail_reader() {
    let mut world = World::new(3, plenty());
    let replayed = world.writer(OTHER);
    world.fill(&replayed, 60, 10, 20_000);
    let writer = world.writer(STREAM);
    world.fill(&writer, 2, 10, 1000);
    let cached = world.reader(STREAM);
    check(&world.executor.run(cached.read(request(0))).unwrap(), 0);

    world.hold();
    let reader = world.reader(OTHER);
    let replay: Vec<_> = (0..60).map(|n| world.start(&reader, up_to(n * 10, 10))).collect();
    world.settle();
    assert_eq!(world.log.reads.load(Ordering::Relaxed) as usize, 1 + COLD_AT_ONCE);
    assert!(world.caches.slices.stats().waiting > 0);

    world.fill(&writer, 1, 10, 1000);
    let tail = writer
        .try_read_cached(&request(20))
        .expect("in the tail cache")
        .unwrap();
    assert_eq!(tail.entries.len(), 10);
    let again = world.executor.run(cached.read(up_to(0, 20))).unwrap();
    assert_eq!(again.entries.len(), 20, "slices in the cache need no permit");

    // Among those that do wait, the other stream has its turn before the replay is through.
    let trimmed_tail = world.reader(STREAM);
    let cold = world.start(&trimmed_tail, up_to(20, 10));
    world.let_go();
    for (n, read) in replay.into_iter().enumerate() {
        check(&world.executor.run(read).unwrap().unwrap(), n as u64 * 10);
    }
    check(&world.executor.run(cold).unwrap().unwrap(), 20);
}

#[test]
fn closing_a_stream_ends_its_reads_that_wait_and_nobody_elses() {
    let mut world = World::new(4, plenty());
    let writer = world.writer(STREAM);
    world.fill(&writer, 5, 10, 1000);
    let (first, second) = (world.reader(STREAM), world.reader(STREAM));
    world.hold();
    let (ended, stays) = (world.start(&first, request(0)), world.start(&second, request(0)));
    world.settle();
    world.executor.run(first.close()).unwrap();
    let ended = world.executor.run(ended).unwrap();
    assert_eq!(ended.unwrap_err().code(), ErrorCode::Closed);
    world.let_go();
    assert_eq!(world.executor.run(stays).unwrap().unwrap().entries.len(), 50);
    assert_eq!(world.log.reads.load(Ordering::Relaxed), 1, "both waited for one read");
}

#[test]
fn more_reads_than_there_is_memory_for_waiting_are_refused_not_queued() {
    let mut world = World::new(5, Budget::new(104 << 20, 64 << 20, MAX_ENTRY).unwrap());
    let writer = world.writer(STREAM);
    world.fill(&writer, 2, 10, 1000);
    let reader = world.reader(STREAM);
    world.hold();
    let most = world.caches.budget.requests.limit() / (2 << 10);
    let waiting: Vec<_> = (0..most).map(|_| world.start(&reader, request(0))).collect();
    world.settle();
    world.settle();
    let refused = world.start(&reader, request(0));
    let refused = world.executor.run(refused).unwrap().unwrap_err();
    assert_eq!(refused.code(), ErrorCode::Unavailable, "{refused}");
    world.let_go();
    for read in waiting {
        assert!(world.executor.run(read).unwrap().is_ok());
    }
    assert!(world.executor.run(reader.read(request(0))).is_ok());
    assert_eq!(world.caches.budget.requests.used(), 0);
}

#[test]
fn burst_of_100_000_persists_is_bounded_and_every_one_is_answered() {
    let mut world = World::new(6, Budget::new(104 << 20, 64 << 20, MAX_ENTRY).unwrap());
    let stream = world.writer(STREAM);
    world.fill(&stream, 1, 10, 100);
    // Nothing runs while they come.
    let answers: Vec<_> = (0..100_000u32)
        .map(|n| stream.persist_cursor(update(&format!("c{}", n % 500), n < 500, 1, vec![acked(0, [n % 9])])))
        .collect();
    let requests = world.caches.budget.requests.clone();
    assert!(requests.used() <= requests.limit() && requests.used() > requests.limit() / 2);
    let mut refused = 0;
    for answer in answers {
        match world.executor.run(answer) {
            Ok(()) => {}
            Err(Error::Unavailable { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 90_000, "{refused}");
    assert_eq!(requests.used(), 0);
    assert_eq!(world.executor.run(stream.list_cursors()).unwrap().len(), 500);
}

#[test]
fn entry_larger_than_every_account_of_reads_is_read() {
    let mut budget = Budget::uncached();
    budget.cold_reads = crate::cache::Account::new("cold reads", 100);
    let mut world = World::new(7, budget);
    let writer = world.writer(STREAM);
    world.fill(&writer, 4, 1, 100_000);
    let reader = world.reader(STREAM);
    let account = world.caches.budget.cold_reads.clone();
    let all = (0..4).map(|n| {
        let (reader, account) = (reader.clone(), account.clone());
        async move {
            let batch = reader.read(up_to(n, 4)).await.unwrap();
            check(&batch, n);
            assert_eq!(batch.entries.len(), 1);
            let used = account.used();
            assert!(
                (100_000..200_000).contains(&used),
                "one at a time, counted while it is held: {used}"
            );
        }
    });
    world.executor.run(futures::future::join_all(all));
    world.settle();
    assert_eq!(world.caches.budget.cold_reads.used(), 0);
}

#[test]
fn recent_appends_handed_out_are_counted_until_they_are_dropped_and_waited_for() {
    let mut budget = plenty();
    budget.hot_reads = crate::cache::Account::new("tail reads", 5000);
    let mut world = World::new(8, budget);
    let writer = world.writer(STREAM);
    world.fill(&writer, 1, 10, 1000);
    let first = writer.try_read_cached(&up_to(0, 4)).unwrap().unwrap();
    assert!(world.caches.budget.hot_reads.used() >= 4000);
    assert!(writer.try_read_cached(&up_to(4, 4)).is_none(), "it has to wait");
    let waits = world.start(&writer, up_to(4, 4));
    world.settle();
    drop(first);
    let second = world.executor.run(waits).unwrap().unwrap();
    check(&second, 4);
    assert_eq!(world.log.reads.load(Ordering::Relaxed), 0, "no device was asked");
    drop(second);
    assert_eq!(world.caches.budget.hot_reads.used(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever readers, writers, closers and held batches do beside each other: right bytes, accounts within their limits, and
    /// nothing held when everybody is gone (apache/pulsar#10433, #10773).
    #[test]
    fn random_use_of_streams_keeps_to_the_budget_and_ends_at_nothing_case_077(
        seed in 0u64..1000,
        steps in prop::collection::vec((0u8..8, 0u64..400, 1u32..60), 20..80),
    ) {
        let mut budget = plenty();
        let small = |name, limit| crate::cache::Account::new(name, limit);
        budget.tail = small("tail cache", 60_000);
        budget.hot_reads = small("tail reads", 20_000);
        budget.slices = small("slice cache", 40_000);
        budget.cold_reads = small("cold reads", 20_000);
        budget.pages = small("commit pages", 4_000);
        let mut world = World::new(seed, budget);
        let mut writer = world.writer(STREAM);
        let mut readers = vec![world.reader(STREAM)];
        let (mut started, mut batches) = (Vec::new(), Vec::new());
        for (what, at, many) in steps {
            match what {
                0 => world.fill(&writer, 1, u64::from(many), 300),
                1 => started.push((at, world.start(&writer, up_to(at, many)))),
                2 | 3 => started.push((at, world.start(&readers[at as usize % readers.len()], up_to(at, many)))),
                4 if !batches.is_empty() => drop(batches.swap_remove(at as usize % batches.len())),
                5 if !started.is_empty() => drop(started.swap_remove(at as usize % started.len())),
                6 => {
                    let closed = std::mem::replace(&mut readers[0], world.reader(STREAM));
                    world.executor.run(closed.close()).unwrap();
                    readers.push(world.reader(STREAM));
                }
                7 if many % 10 == 0 => writer = world.writer(STREAM),
                _ => world.settle(),
            }
            started.retain_mut(|(start, read)| match read.try_recv() {
                Ok(Ok(batch)) => {
                    check(&batch, *start);
                    batches.push(batch);
                    false
                }
                Ok(Err(error)) => {
                    assert_eq!(error.code(), ErrorCode::Closed);
                    false
                }
                Err(_) => true,
            });
            for account in world.caches.budget.accounts() {
                let alone = account.name().ends_with("reads");
                let most = if alone { account.limit().max(100_000) } else { account.limit() };
                prop_assert!(account.used() <= most, "{} holds {}", account.name(), account.used());
            }
        }
        drop((batches, started));
        for stream in readers.iter().chain([&writer]) {
            world.executor.run(stream.close()).unwrap();
        }
        drop((readers, writer));
        world.settle();
        // What is left is what the caches keep for the next reader.
        let caches = ["slice cache", "commit pages"];
        for (name, used) in world.used() {
            prop_assert!(used == 0 || caches.contains(&name), "{name} holds {used}");
        }
        let budget = world.caches.budget.clone();
        drop(world);
        prop_assert!(budget.accounts().iter().all(|account| account.used() == 0));
    }
}
