//! Whole engines: real files, RocksDB, and a broker's metadata store in memory.

use std::collections::BTreeMap;
use std::path::Path;

use tokio::runtime::Runtime;

use super::*;
use crate::commit::{AppendOutcome, HeadChange};
use crate::cursor::CursorUpdate;
use crate::env::real;
use crate::error::ErrorCode;
use crate::journal::Holder;
use crate::metadata::broker_memory::MemoryBroker;
use crate::record::{Key, RecordType};
use crate::stream::suite::{acked, append, outcome, put, read_all, update};
use crate::stream::takeover_suite::{furnish, refuse_all, stored, use_all, OPERATIONS};
use crate::stream::{Retention, Rollover};
use crate::types::Offset;

mod cases;
mod damage;
mod follow;

pub(super) const NAME: &str = "public/default/persistent/topic";

pub(super) struct World {
    pub rt: Runtime,
    pub env: Env,
    pub directory: tempfile::TempDir,
    broker: MemoryBroker,
}

impl World {
    pub fn new() -> World {
        let rt = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_time()
            .build()
            .unwrap();
        let env = real::env(rt.handle().clone()).unwrap();
        World {
            rt,
            env,
            directory: tempfile::tempdir().unwrap(),
            broker: MemoryBroker::new(),
        }
    }

    fn config(&self, directory: &Path) -> Config {
        Config {
            data_directory: directory.to_path_buf(),
            cluster_name: "cluster".into(),
            owner: "broker-1".into(),
            memory_limit: 64 << 20,
            publish_buffer: 16 << 20,
            segment_bytes: 16 << 20,
            max_entry: 1 << 20,
            accept_older_copy: false,
        }
    }

    fn start(&self) -> Result<Engine> {
        let config = self.config(self.directory.path());
        self.rt
            .block_on(Engine::open(self.env.clone(), config, Arc::new(self.broker.clone())))
    }

    pub fn engine(&self) -> Engine {
        self.start().unwrap()
    }

    fn open(&self, engine: &Engine) -> Result<OpenedLedger> {
        self.rt.block_on(engine.open_ledger(create(NAME)))
    }

    pub fn ledger(&self, engine: &Engine) -> OpenedLedger {
        self.open(engine).unwrap()
    }
}

pub(super) fn create(name: &str) -> OpenLedger {
    OpenLedger {
        name: name.into(),
        create_if_missing: true,
        ..OpenLedger::default()
    }
}

fn refused<T>(result: Result<T>) -> Error {
    result.err().expect("must be refused")
}

fn code<T>(result: Result<T>) -> ErrorCode {
    refused(result).code()
}

#[test]
fn l01_everything_acknowledged_is_there_after_a_restart() {
    let world = World::new();
    let engine = world.engine();
    let properties = BTreeMap::from([("owner".to_owned(), "me".to_owned())]);
    let request = OpenLedger {
        properties: properties.clone(),
        ..create(NAME)
    };
    let opened = world.rt.block_on(engine.open_ledger(request)).unwrap();
    assert_eq!(opened.description.properties, properties);
    assert_eq!(opened.description.owner_epoch, OwnerEpoch::new(1));
    for n in 0..70u8 {
        put(&opened.stream, &[n; 20]);
    }
    let page = acked(0, [60, 61]);
    world
        .rt
        .block_on(opened.stream.persist_cursor(update("s", true, 5, vec![page.clone()])))
        .unwrap();
    let projection = opened.description.projection;
    drop(opened);
    world.rt.block_on(engine.close()).unwrap();
    world.rt.block_on(engine.close()).unwrap();
    assert_eq!(code(world.open(&engine)), ErrorCode::Closed);
    drop(engine);

    let engine = world.engine();
    let description = world.rt.block_on(engine.describe_ledger(NAME)).unwrap();
    assert_eq!(description.owner_epoch, OwnerEpoch::new(1), "describing claims nothing");
    let opened = world.ledger(&engine);
    assert_eq!(opened.description.owner_epoch, OwnerEpoch::new(2));
    assert_eq!(
        (opened.description.projection, &opened.description.properties),
        (projection, &properties)
    );
    assert_eq!(opened.description.cursors, description.cursors);
    assert_eq!(opened.description.cursors[0].pages, [page]);
    assert_eq!(
        (opened.description.state.end, opened.description.spans.len()),
        (Offset::new(70), 1)
    );
    assert_eq!(
        (opened.description.spans[0].entries, opened.description.spans[0].bytes),
        (70, 1400)
    );
    assert_eq!(
        read_all(&world.rt, &opened.stream, 0),
        (0..70u8).map(|n| vec![n; 20]).collect::<Vec<_>>()
    );
    world.rt.block_on(engine.close()).unwrap();
}

#[test]
fn l05_second_writable_open_fences_the_first_handle() {
    let world = World::new();
    let engine = world.engine();
    let first = world.ledger(&engine).stream;
    put(&first, b"1");
    world
        .rt
        .block_on(first.persist_cursor(update("s", true, 0, vec![])))
        .unwrap();
    let reader = world.rt.block_on(engine.open_read_only(NAME)).unwrap();
    let second = world.ledger(&engine);
    assert_eq!(code(append(&first, b"x").map(drop)), ErrorCode::Fenced);
    assert_eq!(code(world.rt.block_on(first.trim(Offset::new(1)))), ErrorCode::Fenced);
    assert_eq!(
        code(world.rt.block_on(first.set_properties(BTreeMap::new()))),
        ErrorCode::Fenced
    );
    assert_eq!(
        code(world.rt.block_on(first.persist_cursor(update("s", false, 1, vec![])))),
        ErrorCode::Fenced
    );
    assert_eq!(second.description.state.end, Offset::new(1));
    put(&second.stream, b"2");
    // Closing the fenced handle does not disturb its successor.
    world.rt.block_on(first.close()).unwrap();
    put(&second.stream, b"3");
    assert_eq!(read_all(&world.rt, &reader.stream, 0).len(), 3);
    assert_eq!(code(append(&reader.stream, b"x").map(drop)), ErrorCode::Invalid);
    world.rt.block_on(engine.close()).unwrap();
    assert_eq!(code(append(&second.stream, b"x").map(drop)), ErrorCode::Closed);
}

#[test]
fn l06_every_append_is_answered_when_the_engine_closes() {
    let world = World::new();
    let engine = world.engine();
    let stream = world.ledger(&engine).stream;
    let asked: Vec<_> = (0..500u32)
        .map(|n| append(&stream, &n.to_be_bytes()).unwrap().1)
        .collect();
    world.rt.block_on(engine.close()).unwrap();
    let committed = asked
        .iter()
        .filter(|r| matches!(outcome(r), AppendOutcome::Committed { .. }))
        .count() as u64;
    assert_eq!(stream.state().end, Offset::new(committed));
    drop((stream, engine));
    let engine = world.engine();
    assert_eq!(world.ledger(&engine).description.state.end, Offset::new(committed));
}

#[test]
fn l13_active_binding_without_head_is_corruption() {
    let world = World::new();
    let engine = world.engine();
    let opened = world.ledger(&engine);
    put(&opened.stream, b"1");
    let id = opened.stream.id();
    drop(opened);
    world
        .rt
        .block_on(engine.log().change(id, HeadChange::Delete { epoch: None }))
        .unwrap();
    for error in [
        refused(world.open(&engine)),
        refused(world.rt.block_on(engine.open_read_only(NAME))),
        refused(world.rt.block_on(engine.describe_ledger(NAME))),
        refused(world.rt.block_on(engine.delete_ledger(NAME))),
    ] {
        assert_eq!(error.code(), ErrorCode::Corrupt, "{error}");
        assert!(error.to_string().contains(NAME), "{error}");
    }
    // The rest goes on.
    let other = world
        .rt
        .block_on(engine.open_ledger(create("public/default/persistent/other")))
        .unwrap();
    put(&other.stream, b"1");
}

#[test]
fn l13_deleted_name_is_recreated_as_a_new_incarnation() {
    let world = World::new();
    let engine = world.engine();
    assert_eq!(code(world.rt.block_on(engine.delete_ledger(NAME))), ErrorCode::NotFound);
    let absent = OpenLedger {
        create_if_missing: false,
        ..create(NAME)
    };
    assert_eq!(
        code(world.rt.block_on(engine.open_ledger(absent.clone()))),
        ErrorCode::NotFound
    );

    let first = world.ledger(&engine);
    for n in 0..50u8 {
        put(&first.stream, &[n]);
    }
    world
        .rt
        .block_on(first.stream.persist_cursor(update("s", true, 0, vec![acked(0, [3])])))
        .unwrap();
    world
        .rt
        .block_on(first.stream.set_properties(BTreeMap::from([("a".into(), "b".into())])))
        .unwrap();
    let waiter = first.stream.clone();
    let waiting = world.rt.spawn(async move { waiter.wait_past(Offset::new(1000)).await });
    world.rt.block_on(engine.delete_ledger(NAME)).unwrap();
    world.rt.block_on(waiting).unwrap();
    assert_eq!(code(append(&first.stream, b"x").map(drop)), ErrorCode::Closed);
    assert_eq!(code(world.rt.block_on(engine.delete_ledger(NAME))), ErrorCode::NotFound);
    assert_eq!(
        code(world.rt.block_on(engine.describe_ledger(NAME))),
        ErrorCode::NotFound
    );
    assert_eq!(code(world.rt.block_on(engine.open_ledger(absent))), ErrorCode::NotFound);
    for kind in [
        RecordType::CommitPage,
        RecordType::CursorRoot,
        RecordType::CursorPage,
        RecordType::CursorIndex,
        RecordType::StreamProperties,
    ] {
        let (from, to) = Key::stream_range(kind, first.stream.id());
        let left = world.rt.block_on(engine.log().store().scan(from, to, 10)).unwrap();
        assert!(left.is_empty(), "{kind:?}: {left:?}");
    }

    let second = world.ledger(&engine);
    assert_eq!(second.description.incarnation, Incarnation::new(2));
    assert_ne!(second.stream.id(), first.stream.id());
    assert!(second.description.projection.first > first.description.projection.first);
    assert_eq!(
        (second.description.state.end, second.description.cursors.len()),
        (Offset::ZERO, 0)
    );
    assert!(second.description.properties.is_empty());
}

#[test]
fn concurrent_opens_of_one_name_end_with_one_owner() {
    let world = World::new();
    let engine = world.engine();
    let opens: Vec<_> = (0..8)
        .map(|_| {
            let engine = engine.clone();
            world.rt.spawn(async move { engine.open_ledger(create(NAME)).await })
        })
        .collect();
    let opened: Vec<OpenedLedger> = opens
        .into_iter()
        .map(|open| world.rt.block_on(open).unwrap().unwrap())
        .collect();
    let newest = opened.iter().max_by_key(|o| o.description.owner_epoch).unwrap();
    assert_eq!(newest.description.owner_epoch, OwnerEpoch::new(8));
    for other in opened
        .iter()
        .filter(|o| o.description.owner_epoch != newest.description.owner_epoch)
    {
        assert_eq!(code(append(&other.stream, b"x").map(drop)), ErrorCode::Fenced);
    }
    put(&newest.stream, b"1");
}

#[test]
fn directory_is_held_by_one_engine_of_one_cluster() {
    let world = World::new();
    let engine = world.engine();
    let error = refused(world.start());
    assert_eq!(error.code(), ErrorCode::Unavailable);
    assert!(error.to_string().contains("broker-1"), "names the holder: {error}");

    let other = tempfile::tempdir().unwrap();
    let second = Engine::open(
        world.env.clone(),
        world.config(other.path()),
        Arc::new(world.broker.clone()),
    );
    let error = refused(world.rt.block_on(second));
    assert_eq!(error.code(), ErrorCode::Invalid);
    assert!(error.to_string().contains("another"), "{error}");

    world.rt.block_on(engine.close()).unwrap();
    drop(engine);
    let config = Config {
        cluster_name: "other".into(),
        ..world.config(world.directory.path())
    };
    let wrong = Engine::open(world.env.clone(), config, Arc::new(world.broker.clone()));
    assert_eq!(code(world.rt.block_on(wrong)), ErrorCode::Invalid);
    drop(world.engine());
}

#[test]
fn l14_unknown_and_unbuilt_profiles_are_refused_before_anything_is_written() {
    let world = World::new();
    let engine = world.engine();
    let with = |profile: &str| OpenLedger {
        profile: profile.into(),
        ..create(NAME)
    };
    let error = refused(world.rt.block_on(engine.open_ledger(with("BOOKKEEPER_WAL_ONLY"))));
    assert_eq!(error.code(), ErrorCode::Unsupported);
    assert!(error.to_string().contains("BOOKKEEPER_WAL_ONLY"), "{error}");
    assert_eq!(
        code(world.rt.block_on(engine.open_ledger(with("FAST")))),
        ErrorCode::Invalid
    );
    assert_eq!(
        code(world.rt.block_on(engine.describe_ledger(NAME))),
        ErrorCode::NotFound
    );
    world
        .rt
        .block_on(engine.open_ledger(with("LOCAL_WAL_ASYNC_OBJECT")))
        .unwrap();
}

#[test]
fn names_without_a_live_handle_are_forgotten() {
    let world = World::new();
    let engine = world.engine();
    for n in 0..FIRST_SWEEP {
        assert_eq!(
            code(world.rt.block_on(engine.open_read_only(&format!("none/{n}")))),
            ErrorCode::NotFound
        );
    }
    let opened = world.ledger(&engine);
    let known = |engine: &Engine| engine.0.ledgers.lock().by_name.len();
    assert_eq!(known(&engine), 1, "the sweep comes before the name that filled the map");
    drop(opened);
}

#[test]
fn memory_accounts_return_to_nothing() {
    let world = World::new();
    let engine = world.engine();
    let stream = world.ledger(&engine).stream;
    for n in 0..100u8 {
        put(&stream, &[n; 1000]);
    }
    let used = |name: &str| {
        engine
            .memory()
            .iter()
            .find(|(n, _, _)| *n == name)
            .map(|(_, used, _)| *used)
    };
    assert_eq!(used("open groups"), Some(0), "answered appends hold nothing");
    assert!(used("tail cache") > Some(100_000));
    world.rt.block_on(stream.close()).unwrap();
    assert!(used("tail cache") < Some(20_000), "only tickets are left");
}

#[test]
fn every_account_is_empty_once_the_engine_is_gone_and_their_limits_are_the_memory_limit() {
    let world = World::new();
    let engine = world.engine();
    let limits: u64 = engine.memory().iter().map(|(_, _, limit)| limit).sum();
    assert!(limits <= world.config(Path::new("")).memory_limit);
    let stream = world.ledger(&engine).stream;
    for n in 0..100u8 {
        put(&stream, &[n; 1000]);
    }
    let reader = world.rt.block_on(engine.open_read_only(NAME)).unwrap().stream;
    assert_eq!(read_all(&world.rt, &reader, 0).len(), 100);
    assert!(engine.reads().bytes == 100_000, "{:?}", engine.reads());
    let budget = engine.0.common.caches.budget.clone();
    assert!(budget.slices.used() > 100_000 && budget.metadata.used() == budget.metadata.limit());
    world.rt.block_on(engine.close()).unwrap();
    drop((stream, reader, engine));
    let left = || budget.accounts().iter().any(|account| account.used() > 0);
    // A read's task ends a moment after its answer.
    let clock = &world.env.clock;
    let patience = clock.monotonic() + Duration::from_secs(20);
    while left() && clock.monotonic() < patience {
        std::thread::yield_now();
    }
    assert!(!left(), "{:?}", budget);
}

#[test]
fn l17_memory_limit_below_the_least_stops_the_start_and_changes_nothing() {
    let world = World::new();
    let config = Config {
        memory_limit: 40 << 20,
        ..world.config(world.directory.path())
    };
    let opened = world
        .rt
        .block_on(Engine::open(world.env.clone(), config, Arc::new(world.broker.clone())));
    let error = refused(opened);
    assert_eq!(error.code(), ErrorCode::Invalid);
    assert!(
        error
            .to_string()
            .starts_with("nereusMemoryLimitMB=40: the least is 56 MiB"),
        "{error}"
    );
    assert_eq!(std::fs::read_dir(world.directory.path()).unwrap().count(), 0);
}

#[test]
fn open_that_waits_takes_little_memory_and_more_than_there_is_room_for_are_refused() {
    let world = World::new();
    let engine = world.engine();
    let size = size_of_val(&engine.open_ledger(create(NAME)));
    assert!((size as u64) < WAITING_OPEN, "{size} bytes");
    let requests = engine.0.common.caches.budget.requests.clone();
    let others = requests.reserve(requests.limit() - WAITING_OPEN + 1).unwrap();
    assert_eq!(code(world.open(&engine)), ErrorCode::Unavailable);
    drop(others);
    world.ledger(&engine);
    assert_eq!(requests.used(), 0);
}

#[test]
fn full_update_replaces_every_page() {
    let world = World::new();
    let engine = world.engine();
    let stream = world.ledger(&engine).stream;
    put(&stream, b"1");
    world
        .rt
        .block_on(stream.persist_cursor(update("s", true, 0, vec![acked(0, [0]), acked(4, [1])])))
        .unwrap();
    let full = CursorUpdate {
        full: true,
        ..update("s", false, 0, vec![acked(2, [1])])
    };
    world.rt.block_on(stream.persist_cursor(full)).unwrap();
    drop(stream);
    let cursors = &world.ledger(&engine).description.cursors;
    assert_eq!(cursors[0].pages, [acked(2, [1])]);
}

#[test]
fn describing_during_deletion_finds_the_ledger_or_nothing() {
    let world = World::new();
    let engine = world.engine();
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (looking, stopped) = (engine.clone(), stop.clone());
    let looker = world.rt.spawn(async move {
        let mut seen = [0u32; 2];
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
            match looking.describe_ledger(NAME).await {
                Ok(_) => seen[0] += 1,
                Err(Error::NotFound { .. }) => seen[1] += 1,
                Err(error) => panic!("{error}"),
            }
        }
        seen
    });
    for _ in 0..12 {
        let stream = world.ledger(&engine).stream;
        for n in 0..40u8 {
            put(&stream, &[n]);
        }
        world
            .rt
            .block_on(stream.persist_cursor(update("s", true, 0, vec![acked(0, [3])])))
            .unwrap();
        drop(stream);
        world.rt.block_on(engine.delete_ledger(NAME)).unwrap();
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let seen = world.rt.block_on(looker).unwrap();
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}

/// What keeps the oldest segment of an engine on which nothing was opened.
fn holder(world: &World) -> Holder {
    // The checkpoint of one run is past the segment of the run before.
    let engine = world.engine();
    world.rt.block_on(engine.close()).unwrap();
    drop(engine);
    let engine = world.engine();
    let state = world.rt.block_on(engine.state()).unwrap();
    assert!(state.journal.segments >= 2, "{state:?}");
    assert!(state.journal.bytes > 0 && state.journal.poison.is_none());
    assert!(state
        .memory
        .iter()
        .any(|(name, used, limit)| !name.is_empty() && used <= limit));
    world.rt.block_on(engine.close()).unwrap();
    state.journal.oldest.unwrap().holder
}

#[test]
fn l16_what_keeps_the_oldest_segment_is_known_by_name_although_nobody_has_it_open() {
    let world = World::new();
    let engine = world.engine();
    put(&world.ledger(&engine).stream, b"a quiet topic");
    world.rt.block_on(engine.close()).unwrap();
    drop(engine);
    assert!(matches!(holder(&world), Holder::Stream { ledger: Some(name), .. } if name == NAME));
}

#[test]
fn a_stream_from_before_names_were_kept_gets_its_name_at_the_next_open() {
    let world = World::new();
    let engine = world.engine();
    let opened = world.ledger(&engine);
    put(&opened.stream, b"a quiet topic");
    let stream = world.rt.block_on(engine.0.bindings.find(NAME)).unwrap().stream;
    let store = engine.log().store();
    let write = crate::metadata::Write {
        key: Key::stream_properties(stream),
        expected: crate::metadata::Expected::Any,
        value: None,
    };
    let verdict = world.rt.block_on(store.write(vec![write])).pop().unwrap();
    assert!(matches!(verdict, crate::metadata::Verdict::Applied(_)));
    world.rt.block_on(engine.close()).unwrap();
    drop((opened, engine, store));
    assert!(matches!(holder(&world), Holder::Stream { ledger: None, stream: found } if found == stream));

    let engine = world.engine();
    let kept = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
    let opened = world.ledger(&engine);
    world.rt.block_on(opened.stream.set_properties(kept.clone())).unwrap();
    assert_eq!(world.rt.block_on(opened.stream.properties()).unwrap(), kept);
    world.rt.block_on(engine.close()).unwrap();
    drop((opened, engine));
    assert!(matches!(holder(&world), Holder::Stream { ledger: Some(name), .. } if name == NAME));
}

#[test]
fn l05_old_handle_of_the_same_engine_changes_nothing_case_004() {
    for (first, (began_with, _)) in OPERATIONS.iter().enumerate() {
        let world = World::new();
        let engine = world.engine();
        let old = world.ledger(&engine).stream;
        furnish(&world.rt, &old);
        let new = world.ledger(&engine).stream;
        let store = engine.log().store();
        let before = stored(&world.rt, &*store, new.id());
        refuse_all(&world.rt, &old, &new, first);
        world.rt.block_on(old.close()).unwrap();
        let after = stored(&world.rt, &*store, new.id());
        assert_eq!(after, before, "the old owner began with {began_with}");
        use_all(&world.rt, &new);
        world.rt.block_on(engine.close()).unwrap();
    }
}

#[test]
fn l05_what_the_old_handle_asked_for_before_is_done_before_the_claim() {
    let world = World::new();
    let engine = world.engine();
    let old = world.ledger(&engine).stream;
    furnish(&world.rt, &old);
    // Asked for, and not waited for, when the second opener comes.
    let trimmed = old.trim(Offset::new(24));
    let persisted = old.persist_cursor(update("c", false, 50, vec![]));
    let appended: Vec<_> = (0..20u8).map(|n| append(&old, &[n]).unwrap().1).collect();
    let second = world.ledger(&engine);
    assert_eq!(world.rt.block_on(trimmed).unwrap(), Offset::new(24));
    world.rt.block_on(persisted).unwrap();
    let outcomes: Vec<_> = appended.iter().map(outcome).collect();
    let committed = outcomes
        .iter()
        .take_while(|o| matches!(o, AppendOutcome::Committed { .. }));
    let end = 60 + committed.count() as u64;
    let description = &second.description;
    assert_eq!(
        (description.state.trim, description.state.end),
        (Offset::new(24), Offset::new(end))
    );
    assert_eq!(description.cursors[0].mark_delete_end, Offset::new(50));
    assert_eq!(put(&second.stream, b"new"), Offset::new(end));
}

#[test]
fn marks_survive_a_restart_and_a_quiet_ledger_goes_away_by_the_longest_time_case_050() {
    let world = World::new();
    let engine = world.engine();
    let stream = world.ledger(&engine).stream;
    let rollover = Rollover {
        max_entries: 40,
        max_millis: 14_400_000,
        ..Rollover::default()
    };
    stream.set_rollover(rollover).unwrap();
    for n in 0..100u8 {
        put(&stream, &[n; 10]);
    }
    let last = stream.state().last_append_millis;
    let at = |now_millis| Retention {
        consumed: Offset::new(100),
        max_age_millis: Some(0),
        max_bytes: Some(0),
        now_millis,
    };
    assert_eq!(world.rt.block_on(stream.retain(at(last))).unwrap(), Offset::new(80));
    world.rt.block_on(engine.close()).unwrap();
    drop((stream, engine));

    let engine = world.engine();
    let stream = world.ledger(&engine).stream;
    stream.set_rollover(rollover).unwrap();
    assert_eq!(world.rt.block_on(stream.retain(at(last))).unwrap(), Offset::new(80));
    let trimmed = world.rt.block_on(stream.retain(at(last + 14_400_000))).unwrap();
    assert_eq!(trimmed, Offset::new(100), "without any new traffic");
    let state = stream.state();
    assert_eq!((state.entries, state.bytes, state.end), (0, 0, Offset::new(100)));
    assert_eq!(
        read_all(&world.rt, &stream, 99),
        [vec![99; 10]],
        "the last entry is kept"
    );
    assert_eq!(put(&stream, b"next"), Offset::new(100));
}
