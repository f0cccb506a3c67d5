//! The slice cache over a log that answers when it is told to.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use tokio::sync::Semaphore;

use super::*;
use crate::cache::{Budget, Caches};
use crate::commit::{Append, HeadCell, HeadChange, ReadTarget, SliceEntry};
use crate::env::sim::Executor;
use crate::env::{real, BoxFuture};
use crate::error::ErrorCode;
use crate::metadata::MetadataStore;
use crate::types::Offset;

const STREAM: StreamId = StreamId::new(1);

/// A log whose reads wait for `open`, then take the next of `outcomes` (well, when there is none).
#[derive(Default)]
struct Scripted {
    reads: AtomicU64,
    open: Option<Semaphore>,
    outcomes: Mutex<VecDeque<Option<Error>>>,
    panics: AtomicBool,
}

fn commit(start: u64, bytes: u64) -> Commit {
    Commit {
        id: CommitId::new(u128::from(start) + 1),
        start: Offset::new(start),
        count: 1,
        bytes,
        messages: 1,
        append_millis: 0,
        target: ReadTarget::Memory { slice: start },
        crc32c: 0,
    }
}

impl Scripted {
    fn waiting() -> Arc<Scripted> {
        Arc::new(Scripted {
            open: Some(Semaphore::new(0)),
            ..Scripted::default()
        })
    }

    fn let_go(&self, reads: usize) {
        self.open.as_ref().unwrap().add_permits(reads);
    }

    fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }
}

struct Shared(Arc<Scripted>);

impl Log for Shared {
    fn load(&self, _: StreamId) -> BoxFuture<Result<Option<Arc<HeadCell>>>> {
        unreachable!("slices only")
    }

    fn append(&self, _: Append) {
        unreachable!("slices only")
    }

    fn change(&self, _: StreamId, _: HeadChange) -> BoxFuture<Result<Arc<HeadCell>>> {
        unreachable!("slices only")
    }

    fn read(&self, _: StreamId, _: Commit) -> BoxFuture<Result<Slice>> {
        unreachable!("runs only")
    }

    fn read_run(&self, _: StreamId, commits: Vec<Commit>) -> BoxFuture<Vec<Result<Slice>>> {
        let script = self.0.clone();
        script.reads.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            if let Some(open) = &script.open {
                open.acquire().await.unwrap().forget();
            }
            assert!(!script.panics.load(Ordering::Relaxed), "this read dies on purpose");
            let outcome = script.outcomes.lock().pop_front().flatten();
            let slice = |commit: &Commit| match &outcome {
                Some(error) => Err(error.clone()),
                None => Ok(Slice {
                    entries: Arc::new([SliceEntry {
                        entry: Bytes::from(vec![commit.start.get() as u8; commit.bytes as usize]),
                        crc32c: 0,
                    }]),
                }),
            };
            commits.iter().map(slice).collect()
        })
    }

    fn store(&self) -> Arc<dyn MetadataStore> {
        unreachable!("slices only")
    }
}

struct World {
    executor: Executor,
    spawner: Arc<dyn Spawner>,
    script: Arc<Scripted>,
    log: Arc<dyn Log>,
    cache: Arc<SliceCache>,
    accounts: [Arc<Account>; 2],
}

impl World {
    fn new(script: Arc<Scripted>, slices: u64, cold: u64) -> World {
        let executor = Executor::new(7);
        let accounts = [Account::new("slice cache", slices), Account::new("cold reads", cold)];
        World {
            spawner: executor.spawner(),
            executor,
            log: Arc::new(Shared(script.clone())),
            script,
            cache: Arc::new(SliceCache::new(accounts[0].clone(), accounts[1].clone())),
            accounts,
        }
    }

    fn fetch(&self, stream: StreamId, commits: &[Commit], patience: Patience) -> Vec<Wanted> {
        let source = Source {
            stream,
            log: &self.log,
            spawner: &*self.spawner,
        };
        self.cache.fetch(&source, commits, patience)
    }

    fn one(&self, commit: Commit) -> Wanted {
        self.fetch(STREAM, &[commit], Patience::Wait).pop().unwrap()
    }

    fn ahead(&self, commits: &[Commit]) -> bool {
        let source = Source {
            stream: STREAM,
            log: &self.log,
            spawner: &*self.spawner,
        };
        self.cache.read_ahead(&source, commits)
    }

    /// Lets everything go on that can.
    fn settle(&mut self) {
        self.executor.run_for(Duration::from_millis(10));
    }

    fn used(&self) -> [u64; 2] {
        [self.accounts[0].used(), self.accounts[1].used()]
    }
}

fn unavailable() -> Error {
    Error::Unavailable {
        what: "disk".into(),
        retry: Duration::from_secs(1),
    }
}

#[test]
fn many_readers_cause_one_read_and_a_failure_is_kept_for_nobody() {
    let mut world = World::new(Scripted::waiting(), 1000, 1000);
    world.script.outcomes.lock().push_back(Some(unavailable()));
    let failed: Vec<_> = (0..3).map(|_| world.one(commit(0, 10))).collect();
    world.script.let_go(1);
    for wanted in failed {
        let answer = world.executor.run(wanted.get());
        assert_eq!(answer.err().unwrap().code(), ErrorCode::Unavailable);
    }
    world.script.let_go(1);
    for _ in 0..3 {
        let wanted = world.one(commit(0, 10));
        assert_eq!(world.executor.run(wanted.get()).unwrap().slice().entries.len(), 1);
    }
    assert_eq!(world.script.reads(), 2, "one that failed, one that is kept");
    assert_eq!(world.used(), [10 + ENTRY_OVERHEAD, 0]);
    drop(world.cache);
    assert_eq!(world.accounts[0].used(), 0);
}

#[test]
fn a_reader_does_not_hold_what_the_read_it_waits_for_needs() {
    let size = 100 + ENTRY_OVERHEAD;
    // No cache at all: a slice holds memory of cold reads for as long as somebody has it.
    let mut world = World::new(Scripted::waiting(), 0, 2 * size);
    let (far, near, behind) = (commit(10, 100), commit(0, 2 * 100 + ENTRY_OVERHEAD), commit(1, 100));
    let held = world.one(far);
    let second = world.one(behind);
    let first = world.one(near);
    world.settle();
    assert!(
        second.is_under_way() && !first.is_under_way(),
        "the large one waits for all of the memory"
    );
    let both = world.fetch(STREAM, &[near, behind], Patience::Wait);
    assert_eq!(both.len(), 1, "what lies behind the one that waits is not taken");
    world.script.let_go(3);
    drop(world.executor.run(held.get()).unwrap());
    drop(world.executor.run(second.get()).unwrap());
    for wanted in both.into_iter().chain([first]) {
        assert_eq!(world.executor.run(wanted.get()).unwrap().slice().entries.len(), 1);
    }
    assert_eq!(world.used(), [0, 0]);
}

#[test]
fn a_read_of_ones_own_that_waits_takes_its_whole_run_and_nothing_behind() {
    let size = 100 + ENTRY_OVERHEAD;
    let mut world = World::new(Scripted::waiting(), 0, 3 * size);
    let run: Vec<_> = (0..4).map(|n| commit(n, 100)).collect();
    let held = [world.one(run[2]), world.one(commit(10, 100))];
    world.settle();
    let wanted = world.fetch(STREAM, &run, Patience::Wait);
    assert_eq!(wanted.len(), 2, "the third is on its way already, by another read");
    world.script.let_go(3);
    for one in held.into_iter().chain(wanted) {
        assert_eq!(world.executor.run(one.get()).unwrap().slice().entries.len(), 1);
    }
    assert_eq!((world.script.reads(), world.used()), (3, [0, 0]));
}

#[test]
fn run_of_neighbours_is_one_read() {
    let mut world = World::new(Arc::default(), 10_000, 10_000);
    let run: Vec<_> = (0..5).map(|n| commit(n, 10)).collect();
    let middle = world.one(run[2]);
    world.executor.run(middle.get()).unwrap();
    for (n, wanted) in world.fetch(STREAM, &run, Patience::Wait).into_iter().enumerate() {
        let cached = world.executor.run(wanted.get()).unwrap();
        assert_eq!(cached.slice().entries[0].entry[0], n as u8);
    }
    assert_eq!(world.script.reads(), 2);
    let stats = world.cache.stats();
    assert_eq!((stats.reads, stats.bytes, stats.hits), (2, 50, 1));
}

#[test]
fn read_that_dies_fails_its_waiters_and_the_next_reader_tries_again() {
    let rt = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap();
    let spawner = real::env(rt.handle().clone()).unwrap().spawner;
    let script: Arc<Scripted> = Arc::default();
    let world = World {
        spawner,
        ..World::new(script.clone(), 1000, 1000)
    };
    script.panics.store(true, Ordering::Relaxed);
    let died: Vec<_> = (0..2).map(|_| world.one(commit(0, 10))).collect();
    for wanted in died {
        assert_eq!(rt.block_on(wanted.get()).err().unwrap().code(), ErrorCode::Closed);
    }
    script.panics.store(false, Ordering::Relaxed);
    assert!(rt.block_on(world.one(commit(0, 10)).get()).is_ok());
    drop(rt);
    assert_eq!(world.accounts[1].used(), 0, "the dead read holds nothing");
}

#[test]
fn first_reader_that_leaves_does_not_take_the_read_from_the_others() {
    let mut world = World::new(Scripted::waiting(), 1000, 1000);
    let first = world.one(commit(0, 10));
    let second = world.one(commit(0, 10));
    drop(first);
    world.settle();
    world.script.let_go(1);
    assert!(world.executor.run(second.get()).is_ok());
    assert_eq!(world.script.reads(), 1);
}

#[test]
fn what_everybody_left_before_its_turn_is_not_read() {
    let mut world = World::new(Scripted::waiting(), 1000, 100);
    let at_work = world.one(commit(0, 10));
    world.settle();
    let (left, stayed) = (world.one(commit(1, 10)), world.one(commit(2, 10)));
    world.settle();
    assert_eq!(world.script.reads(), 1, "100 bytes are room for one at a time");
    assert_eq!((at_work.is_under_way(), stayed.is_under_way()), (true, false));
    drop(left);
    world.script.let_go(2);
    assert!(world.executor.run(at_work.get()).is_ok());
    assert!(world.executor.run(stayed.get()).is_ok());
    world.settle();
    assert_eq!((world.script.reads(), world.cache.stats().waiting), (2, 0));
    let again = world.one(commit(1, 10));
    world.script.let_go(1);
    assert!(
        world.executor.run(again.get()).is_ok(),
        "nothing of it is left in the way"
    );
}

#[test]
fn cached_slices_need_no_permit_while_a_replay_has_them_all() {
    let mut world = World::new(Scripted::waiting(), 1 << 20, 1 << 20);
    world.script.let_go(1);
    let cached = world.one(commit(0, 10));
    world.executor.run(cached.get()).unwrap();
    let replay: Vec<_> = (1..100u64)
        .map(|n| world.fetch(StreamId::new(2), &[commit(n, 10)], Patience::Wait))
        .collect();
    world.settle();
    assert_eq!(world.script.reads() as usize, 1 + COLD_AT_ONCE);
    assert!(world.one(commit(0, 10)).is_under_way());
    let impatient = world.fetch(STREAM, &[commit(0, 10), commit(200, 10)], Patience::Now);
    assert_eq!(impatient.len(), 1, "up to the first that would have to wait");
    assert!(!world.ahead(&[commit(201, 10)]));
    drop(replay);
    world.script.let_go(200);
    world.settle();
    assert_eq!(world.script.reads() as usize, 1 + COLD_AT_ONCE, "the replay is gone");
    assert_eq!(world.used()[1], 0);
}

#[test]
fn slice_larger_than_cache_and_account_is_read_alone_and_counted_while_held() {
    let mut world = World::new(Arc::default(), 100, 100);
    let (large, other) = (world.one(commit(0, 500)), world.one(commit(1, 10)));
    let large = world.executor.run(large.get()).unwrap();
    world.settle();
    assert_eq!(world.used(), [0, 500 + ENTRY_OVERHEAD]);
    assert!(!other.is_under_way(), "one larger than everything is alone");
    drop(large);
    world.settle();
    assert!(world.executor.run(other.get()).is_ok());
    assert_eq!(world.used(), [10 + ENTRY_OVERHEAD, 0]);
}

#[test]
fn reading_ahead_keeps_to_half_of_the_cache_and_gets_room_back_as_slices_are_wanted() {
    let size = 100 - ENTRY_OVERHEAD;
    let mut world = World::new(Arc::default(), 1000, 10_000);
    let run: Vec<_> = (0..5).map(|n| commit(n, size)).collect();
    assert!(world.ahead(&run));
    world.settle();
    assert!(!world.ahead(&[commit(9, size)]));
    assert_eq!(world.cache.stats().ahead_held, 500);
    for wanted in world.fetch(STREAM, &run[..2], Patience::Now) {
        assert!(world.executor.run(wanted.get()).is_ok());
    }
    assert_eq!(world.cache.stats().ahead_held, 300);
    assert!(world.ahead(&[commit(9, size)]));
    world.settle();
    // Wanted slices push the others out: that was wasted.
    for n in 100..120 {
        let wanted = world.one(commit(n, size));
        world.executor.run(wanted.get()).unwrap();
    }
    let stats = world.cache.stats();
    assert_eq!((stats.ahead, stats.ahead_wasted, stats.ahead_held), (600, 400, 0));
}

#[test]
fn reader_that_comes_while_its_slice_is_read_ahead_joins() {
    let mut world = World::new(Scripted::waiting(), 1000, 10_000);
    assert!(world.ahead(&[commit(0, 10)]));
    world.settle();
    let wanted = world.fetch(STREAM, &[commit(0, 10)], Patience::Now).pop().unwrap();
    assert!(wanted.is_under_way());
    world.script.let_go(1);
    world.executor.run(wanted.get()).unwrap();
    let stats = world.cache.stats();
    assert_eq!((stats.reads, stats.joined, stats.ahead_held), (1, 1, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Bytes match their position whoever reads, evicts, leaves or fails beside it; no account passes its limit; everything goes
    /// back to nothing (apache/pulsar#10433, #10773).
    #[test]
    fn random_use_keeps_to_the_accounts_and_ends_at_nothing_case_078(
        steps in prop::collection::vec((0u8..6, 0u64..12, 1usize..4, any::<bool>()), 1..150),
    ) {
        let mut world = World::new(Scripted::waiting(), 1500, 700);
        let (mut waiting, mut held): (Vec<Wanted>, Vec<Arc<Cached>>) = (Vec::new(), Vec::new());
        for (what, at, many, flag) in steps {
            // Every fifth slice is larger than everything.
            let run: Vec<_> = (at..at + many as u64).map(|n| commit(n, if n % 5 == 4 { 2000 } else { n * 10 })).collect();
            match what {
                0 => waiting.extend(world.fetch(STREAM, &run, Patience::Wait)),
                1 => waiting.extend(world.fetch(STREAM, &run, Patience::Now)),
                2 => drop(world.ahead(&run)),
                3 => {
                    world.script.outcomes.lock().push_back(flag.then(unavailable));
                    world.script.let_go(1);
                }
                4 if !waiting.is_empty() => drop(waiting.remove(at as usize % waiting.len())),
                5 if !held.is_empty() => drop(held.remove(at as usize % held.len())),
                _ => {}
            }
            world.settle();
            for wanted in std::mem::take(&mut waiting) {
                let (commit, mut get) = (wanted.commit, Box::pin(wanted.get()));
                match futures::poll_now(&mut get) {
                    Some(Ok(cached)) => {
                        let byte = commit.start.get() as u8;
                        prop_assert!(cached.slice().entries[0].entry.iter().all(|found| *found == byte));
                        held.push(cached);
                    }
                    Some(Err(error)) => prop_assert_eq!(error.code(), ErrorCode::Unavailable),
                    None => waiting.extend(world.fetch(STREAM, &[commit], Patience::Wait)),
                }
            }
            let [slices, cold] = world.used();
            prop_assert!(slices <= 1500, "{} bytes of slices", slices);
            prop_assert!(cold <= 700 || (2000..2500).contains(&cold), "{} bytes of cold reads", cold);
        }
        drop(waiting);
        drop(held);
        world.script.let_go(1000);
        world.settle();
        prop_assert_eq!(world.used()[1], 0);
        prop_assert_eq!(world.cache.stats().waiting, 0);
        prop_assert!(world.cache.state.lock().loading.is_empty());
        drop(world.cache);
        prop_assert_eq!(world.accounts[0].used(), 0);
    }
}

#[test]
fn caches_of_an_engine_are_on_its_budget() {
    let caches = Caches::new(Budget::new(256 << 20, 16 << 20, 1 << 20).unwrap());
    assert!(caches.budget.accounts().iter().all(|account| account.used() == 0));
    assert!(caches.slices.most_ahead() <= caches.budget.slices.limit() / 4);
}

/// Looking at a future once.
mod futures {
    use std::future::Future;
    use std::task::{Context, Poll, Waker};

    pub fn poll_now<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
        match std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }
}
