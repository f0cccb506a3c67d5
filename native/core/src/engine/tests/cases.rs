//! Reported faults of storage engines, restated for a whole engine. The numbers are those of the list of storage cases.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;

use super::*;
use crate::metadata::faults::Fault;
use crate::metadata::pulsar::BrokerStore;
use crate::metadata::{Expected, Verdict};
use crate::stream::suite::{read, request};
use crate::stream::ReadRequest;

/// Sizes at the limit are stored, one byte more is refused before it takes a place in the order, and nothing hangs behind it.
#[test]
fn an_entry_above_the_limit_takes_no_place_in_the_order_case_058() {
    let world = World::new();
    let engine = world.engine();
    let limit = usize::try_from(world.config(Path::new("any")).max_entry).unwrap();
    let stream = world.ledger(&engine).stream;
    let sizes = [0, 1, limit - 1, limit];
    for (n, size) in sizes.iter().enumerate() {
        assert_eq!(code(append(&stream, &vec![7; limit + 1]).map(drop)), ErrorCode::Invalid);
        assert_eq!(put(&stream, &vec![n as u8; *size]), Offset::new(n as u64));
    }
    assert!(!stream.state().suspended, "a refused entry suspends nothing");
    drop(stream);
    world.rt.block_on(engine.close()).unwrap();
    drop(engine);

    let engine = world.engine();
    let read: Vec<Vec<u8>> = read_all(&world.rt, &world.ledger(&engine).stream, 0);
    let expected: Vec<Vec<u8>> = sizes.iter().enumerate().map(|(n, size)| vec![n as u8; *size]).collect();
    assert!(read == expected, "every entry is whole after a restart");
}

/// Order of the calls = order of the offsets = order of the answers, from however many threads.
#[test]
fn l04_order_of_calls_is_order_of_offsets_and_answers_case_063() {
    const THREADS: u64 = 16;
    const EACH: u64 = 200;
    let world = World::new();
    let engine = world.engine();
    let stream = world.ledger(&engine).stream;
    let called = parking_lot::Mutex::new(Vec::new());
    let answered = Arc::new(parking_lot::Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (stream, called, answered) = (&stream, &called, &answered);
            scope.spawn(move || {
                for n in 0..EACH {
                    let id = thread * EACH + n;
                    let heard = answered.clone();
                    let mut called = called.lock();
                    let reply = move |outcome| match outcome {
                        AppendOutcome::Committed { offset, .. } => heard.lock().push(offset),
                        other => panic!("{other:?}"),
                    };
                    let entry = Bytes::copy_from_slice(&id.to_be_bytes());
                    let offset = stream.append(entry, 1, reply).unwrap();
                    called.push((offset, id));
                }
            });
        }
    });
    world.rt.block_on(stream.close()).unwrap();
    let all: Vec<Offset> = (0..THREADS * EACH).map(Offset::new).collect();
    let called = called.into_inner();
    assert_eq!(called.iter().map(|(offset, _)| *offset).collect::<Vec<_>>(), all);
    assert_eq!(*answered.lock(), all, "answers come once, in order");
    let stored: Vec<Vec<u8>> = called.iter().map(|(_, id)| id.to_be_bytes().to_vec()).collect();
    assert!(read_all(&world.rt, &world.ledger(&engine).stream, 0) == stored);
}

/// A name whose node somebody else made between our look and our creation opens like any other, with exactly one live owner.
#[test]
fn openers_that_race_with_a_node_made_by_another_party_succeed_case_069() {
    let world = World::new();
    let engine = world.engine();
    let opens: Vec<_> = (0..8)
        .map(|_| {
            let engine = engine.clone();
            world.rt.spawn(async move { engine.open_ledger(create(NAME)).await })
        })
        .collect();
    let put_node = world.broker.put(
        "/managed-ledgers/public/default/persistent/topic",
        Bytes::new(),
        Expected::Absent,
    );
    // Either we or the openers are first: both are right.
    let made = world.rt.block_on(put_node);
    assert!(matches!(made, Verdict::Applied(_) | Verdict::Conflict(_)), "{made:?}");
    let opened: Vec<Stream> = opens
        .into_iter()
        .map(|open| world.rt.block_on(open).unwrap().expect("no spurious error").stream)
        .collect();
    let live = opened.iter().filter(|stream| append(stream, b"x").is_ok()).count();
    assert_eq!(live, 1);
}

/// Many topics of one namespace are deleted at once while the broker's store refuses, loses and delays writes: all of them end
/// deleted by doing the same again, and nothing of them is left.
#[test]
fn mass_deletion_with_conflicts_ends_complete_case_073() {
    const TOPICS: usize = 64;
    let world = World::new();
    let engine = world.engine();
    let names: Vec<String> = (0..TOPICS)
        .map(|n| format!("public/default/persistent/t-{n}"))
        .collect();
    let mut streams = Vec::new();
    for name in &names {
        let opened = world.rt.block_on(engine.open_ledger(create(name))).unwrap();
        put(&opened.stream, b"1");
        streams.push(opened.stream.id());
    }
    let kinds = [Fault::Refuse, Fault::LoseAnswer, Fault::Late];
    let faults = world.broker.faults();
    for nth in 1..200u64 {
        faults.nth(nth * 3, kinds[(nth % 3) as usize]);
    }
    let deletions: Vec<_> = names
        .iter()
        .map(|name| {
            let (engine, name) = (engine.clone(), name.clone());
            world.rt.spawn(async move {
                for _ in 0..50 {
                    match engine.delete_ledger(&name).await {
                        Ok(()) | Err(Error::NotFound { .. }) => return Ok(()),
                        Err(Error::Unavailable { .. } | Error::Conflict { .. } | Error::Unknown { .. }) => {}
                        Err(other) => return Err(other),
                    }
                }
                Err(Error::Internal {
                    what: format!("{name} is still there after 50 tries"),
                })
            })
        })
        .collect();
    for deletion in deletions {
        world.rt.block_on(deletion).unwrap().unwrap();
    }
    faults.clear();
    world.rt.block_on(faults.arrive());
    for name in &names {
        assert_eq!(
            code(world.rt.block_on(engine.describe_ledger(name))),
            ErrorCode::NotFound
        );
        let node = world.broker.peek(&format!("/managed-ledgers/{name}"));
        assert!(node.is_none_or(|value| value.is_empty()), "{name} is listed no more");
    }
    for stream in streams {
        let cell = world.rt.block_on(engine.log().load(stream)).unwrap();
        assert!(
            cell.is_none_or(|cell| cell.with(|head| head.is_none())),
            "no head is left"
        );
    }
}

/// Caches that evict all the time under readers of the same range never hand out bytes of another place.
#[test]
fn bytes_match_their_position_under_eviction_case_078() {
    const ENTRIES: u64 = 16_000;
    let world = World::new();
    let config = Config {
        // Little more than the open groups: caches hold a small part of what is read.
        memory_limit: 56 << 20,
        ..world.config(world.directory.path())
    };
    let engine = world
        .rt
        .block_on(Engine::open(world.env.clone(), config, Arc::new(world.broker.clone())))
        .unwrap();
    let stream = world.ledger(&engine).stream;
    let entry = |offset: u64| {
        let size = 1_000 + usize::try_from(offset % 7).unwrap() * 1_000;
        let mut bytes = vec![(offset % 251) as u8; size];
        bytes[..8].copy_from_slice(&offset.to_be_bytes());
        bytes
    };
    let (written, done) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for reader in 0..4u64 {
            let (world, stream, written, done) = (&world, &stream, &written, &done);
            scope.spawn(move || {
                let mut at = 0;
                while !done.load(Ordering::Acquire) {
                    let end = written.load(Ordering::Acquire);
                    if end == 0 {
                        std::thread::yield_now();
                        continue;
                    }
                    at = (at + 97 * (reader + 1)) % end;
                    let few = ReadRequest {
                        max_entries: 20,
                        ..request(at)
                    };
                    let batch = read(&world.rt, stream, few).unwrap();
                    assert!(!batch.is_empty());
                    for (n, (offset, bytes)) in batch.into_iter().enumerate() {
                        assert_eq!(offset, at + n as u64);
                        assert!(bytes == entry(offset), "wrong bytes at {offset}");
                    }
                }
            });
        }
        for offset in 0..ENTRIES {
            let reply = |outcome| assert!(matches!(outcome, AppendOutcome::Committed { .. }), "{outcome:?}");
            let mut tries = 0;
            while let Err(error) = stream.append(entry(offset).into(), 1, reply) {
                assert!(matches!(error, Error::Unavailable { .. }) && tries < 10_000, "{error}");
                tries += 1;
                world.rt.block_on(world.env.clock.sleep(Duration::from_millis(1)));
            }
            written.store(stream.state().end.get(), Ordering::Release);
        }
        done.store(true, Ordering::Release);
    });
    world.rt.block_on(stream.close()).unwrap();
}

/// Opening a ledger with many cursors full of holes shows every one of them as it was persisted, and takes no rewrite.
#[test]
fn l15_many_cursors_with_holes_are_there_after_a_restart_case_082() {
    const CURSORS: u64 = 200;
    let world = World::new();
    let engine = world.engine();
    let stream = world.ledger(&engine).stream;
    put(&stream, b"1");
    let pages = |cursor: u64| {
        vec![
            acked(0, (0..5_000).map(|n| n * 2 + (cursor % 2) as u32)),
            acked(1, [cursor as u32]),
        ]
    };
    let persists: Vec<_> = (0..CURSORS)
        .map(|cursor| stream.persist_cursor(update(&format!("s-{cursor:03}"), true, 0, pages(cursor))))
        .collect();
    for persist in persists {
        world.rt.block_on(persist).unwrap();
    }
    drop(stream);
    world.rt.block_on(engine.close()).unwrap();
    drop(engine);

    let engine = world.engine();
    let opened = world.ledger(&engine);
    let names: BTreeSet<&str> = opened
        .description
        .cursors
        .iter()
        .map(|cursor| cursor.name.as_str())
        .collect();
    assert_eq!(names.len() as u64, CURSORS);
    for (cursor, state) in (0..CURSORS).zip(&opened.description.cursors) {
        assert_eq!(state.pages, pages(cursor), "{}", state.name);
    }
}
