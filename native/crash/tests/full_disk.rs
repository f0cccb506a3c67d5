//! A data directory on a small file system of its own that fills up and is freed again. Needs the right to mount: without it the
//! test fails, unless NEREUS_MAY_NOT_MOUNT=1 says that this is known.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test waits for real threads, and ends at the first thing that is not as it should be"
)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nereus_core::commit::AppendOutcome;
use nereus_core::cursor::CursorUpdate;
use nereus_core::engine::{Engine, OpenLedger};
use nereus_core::env::real;
use nereus_core::stream::Stream;
use nereus_core::types::Offset;
use nereus_core::{Error, ErrorCode};
use nereus_crash::acks::Acks;
use nereus_crash::broker::FileBroker;
use nereus_crash::child::config;
use nereus_crash::content;
use nereus_crash::report::read;
use tokio::runtime::Runtime;

const DISK_MIB: u64 = 96;
const RESERVE: u64 = 16 << 20;
const PATIENCE: Duration = Duration::from_secs(30);
const EXCUSE: &str = "NEREUS_MAY_NOT_MOUNT";

/// A file system in memory, of a size of its own.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(place: &Path) -> Option<SmallDisk> {
        let size = format!("size={DISK_MIB}m");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(place)
            .output()
            .expect("the command mount");
        if mounted.status.success() {
            return Some(SmallDisk(place.to_owned()));
        }
        let why = String::from_utf8_lossy(&mounted.stderr).into_owned();
        assert!(
            std::env::var_os(EXCUSE).is_some_and(|excuse| excuse == "1"),
            "no file system can be mounted, so nothing is tested: {why}; run as root, or set {EXCUSE}=1 to go without this test"
        );
        eprintln!("NOT TESTED, as {EXCUSE}=1 allows: {why}");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazy, so that it goes also when a failed test left files open.
        let gone = Command::new("umount").arg("--lazy").arg(&self.0).status();
        assert!(gone.is_ok_and(|gone| gone.success()), "umount {}", self.0.display());
    }
}

struct World {
    runtime: Runtime,
    disk: SmallDisk,
}

/// A stream and what was acknowledged on it.
struct Topic {
    stream: Stream,
    acknowledged: Vec<u64>,
}

impl World {
    fn open(&self) -> Result<Engine, Error> {
        let env = real::env(self.runtime.handle().clone()).unwrap();
        let broker = FileBroker::open(&self.disk.0.join("broker")).unwrap();
        let opening = Engine::open_tuned(env, config(&self.disk.0), Arc::new(broker), |options| {
            options.reserve_bytes = RESERVE;
            options.checkpoint_bytes = 8 << 20;
        });
        self.runtime.block_on(opening)
    }

    /// Opens as soon as an engine that was dropped has let go of the directory.
    fn reopen(&self) -> Engine {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.open() {
                Err(Error::Unavailable { what, .. }) => assert!(Instant::now() < until, "{what}"),
                opened => return opened.unwrap(),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn topic(&self, engine: &Engine, name: &str) -> Topic {
        let request = OpenLedger {
            name: name.into(),
            create_if_missing: true,
            ..OpenLedger::default()
        };
        Topic {
            stream: self.runtime.block_on(engine.open_ledger(request)).unwrap().stream,
            acknowledged: Vec::new(),
        }
    }

    /// Persists acknowledgements over and over: none is refused.
    fn acknowledge(&self, topic: &Topic, first: bool, times: u64) -> Acks {
        let mut acks = Acks::default();
        for round in 0..times {
            acks.ack(round % 9 + 1);
            let update = CursorUpdate {
                name: "c".into(),
                create: first && round == 0,
                full: true,
                mark_delete_end: Offset::ZERO,
                position_properties: None,
                cursor_properties: None,
                pages: vec![acks.page(0)],
            };
            self.runtime.block_on(topic.stream.persist_cursor(update)).unwrap();
        }
        acks
    }

    fn trim(&self, topic: &Topic, before: u64) {
        self.runtime.block_on(topic.stream.trim(Offset::new(before))).unwrap();
    }

    fn ids(&self, stream: &Stream) -> Vec<u64> {
        let state = stream.state();
        let (mut ids, trim) = (Vec::new(), state.trim.get());
        while trim + (ids.len() as u64) < state.end.get() {
            ids.extend(
                self.runtime
                    .block_on(read(stream, trim + ids.len() as u64, 100))
                    .unwrap(),
            );
        }
        ids
    }
}

impl Topic {
    fn put(&mut self, id: u64) -> Result<(), Error> {
        let (send, receive) = channel();
        let reply = move |outcome| {
            let _ = send.send(outcome);
        };
        self.stream.append(large(id), 1, reply)?;
        match receive.recv_timeout(PATIENCE).expect("every append is answered") {
            AppendOutcome::Committed { .. } => self.acknowledged.push(id),
            AppendOutcome::NotCommitted(error) => return Err(error),
            AppendOutcome::Unknown(error) => panic!("a full disk leaves nothing unknown: {error}"),
        }
        Ok(())
    }

    /// Appends until the disk is full; the refusal.
    fn fill(&mut self) -> Error {
        let most = DISK_MIB << 20;
        let mut bytes = 0;
        for id in NextIds {
            match self.put(id) {
                Ok(()) => bytes += large(id).len() as u64,
                Err(error) => return error,
            }
            assert!(bytes < most, "{bytes} bytes were stored on a disk of {most}");
        }
        unreachable!("ids do not end")
    }

    /// Appends once it is possible again.
    fn put_when_there_is_room(&mut self) {
        let until = Instant::now() + PATIENCE;
        for id in NextIds {
            self.stream.resume().unwrap();
            match self.put(id) {
                Ok(()) => return,
                Err(error) => assert!(Instant::now() < until, "still refused: {error}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Ids that nobody else has.
struct NextIds;

impl Iterator for NextIds {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        // Only the larger entries: a full disk is to be reached soon.
        let next = || NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        std::iter::repeat_with(next).find(|id| content::entry(*id).len() > 8 << 10)
    }
}

fn large(id: u64) -> bytes::Bytes {
    content::entry(id)
}

/// The refusal says what is full and what helps.
fn names_the_disk(error: &Error, disk: &Path) {
    let text = error.to_string();
    assert_eq!(error.code(), ErrorCode::Unavailable, "{text}");
    assert!(
        text.contains(&disk.display().to_string()) && text.contains("free space"),
        "{text}"
    );
}

#[test]
fn l01_l17_a_full_disk_refuses_appends_by_name_while_acks_trims_and_deletions_go_on_and_free_it() {
    let place = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(place.path()) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap();
    let world = World { runtime, disk };
    let engine = world.open().unwrap();
    let (mut small, mut first) = (world.topic(&engine, "small"), world.topic(&engine, "first"));
    NextIds.take(10).for_each(|id| small.put(id).unwrap());
    world.acknowledge(&small, true, 1);

    // Full: nothing is stored any more, everything else goes on, for long.
    names_the_disk(&first.fill(), &world.disk.0);
    assert!(
        first.acknowledged.len() > 500,
        "only {} entries fitted",
        first.acknowledged.len()
    );
    names_the_disk(&small.put(1).unwrap_err(), &world.disk.0);
    world.acknowledge(&small, false, 300);
    world.trim(&small, 2);
    assert_eq!(world.ids(&small.stream), small.acknowledged[2..]);
    assert_eq!(world.ids(&first.stream), first.acknowledged);
    let mut second = world.topic(&engine, "second");

    // A trim frees it.
    let half = first.acknowledged.len() / 2;
    world.trim(&first, half as u64);
    small.put_when_there_is_room();
    second.put_when_there_is_room();
    first.put_when_there_is_room();
    names_the_disk(&second.fill(), &world.disk.0);

    // So does a deletion.
    drop(first.stream);
    world.runtime.block_on(engine.delete_ledger("first")).unwrap();
    small.put_when_there_is_room();
    second.put_when_there_is_room();
    let acks = world.acknowledge(&small, false, 20);
    assert!(engine.poisoned().is_none());

    // What was acknowledged is there after an end without and with an orderly close.
    let (small, second) = (ended(small), ended(second));
    drop(engine);
    for _ in 0..2 {
        let engine = world.reopen();
        let cursors = world.runtime.block_on(engine.describe_ledger("small")).unwrap().cursors;
        assert_eq!(Acks::read(&cursors[0]).unwrap(), acks);
        let ids = |name| world.ids(&world.topic(&engine, name).stream);
        assert_eq!(ids("small"), small[2..]);
        assert_eq!(ids("second"), second);
        world.runtime.block_on(engine.close()).unwrap();
    }
}

/// Lets go of a stream; what was acknowledged on it.
fn ended(topic: Topic) -> Vec<u64> {
    topic.acknowledged
}
