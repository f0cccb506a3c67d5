//! Measurements on the real disk, by hand:
//! `CARGO_PROFILE_DEV_OPT_LEVEL=3 cargo test -p nereus-core --lib measure -- --ignored --nocapture`

use std::sync::mpsc;

use bytes::Bytes;
use rustix::fs::Advice;

use super::tests::{create, World, NAME};
use super::*;
use crate::stream::{ReadBatch, ReadRequest};
use crate::types::{Offset, ReadView};

const ENTRY: usize = 1024;
const MIB: u64 = 1 << 20;

/// Bytes and calls of reads, and bytes from the device, of this process so far.
fn io() -> [u64; 3] {
    let text = std::fs::read_to_string("/proc/self/io").unwrap();
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.trim().parse().unwrap()
    };
    [value("rchar:"), value("syscr:"), value("read_bytes:")]
}

/// Appends `count` entries with `outstanding` on their way.
fn fill(stream: &Stream, count: u64, outstanding: u64) {
    let (send, receive) = mpsc::channel();
    for n in 0..count {
        let mut entry = vec![n as u8; ENTRY];
        entry[..8].copy_from_slice(&n.to_be_bytes());
        let send = send.clone();
        stream
            .append(Bytes::from(entry), 1, move |outcome| drop(send.send(outcome)))
            .unwrap();
        if n >= outstanding {
            receive.recv().unwrap();
        }
    }
    (0..outstanding.min(count)).for_each(|_| drop(receive.recv().unwrap()));
}

fn request(start: u64) -> ReadRequest {
    ReadRequest {
        view: ReadView::Committed,
        start: Offset::new(start),
        max_entries: 100,
        max_bytes: 5 * MIB,
        up_to: Offset::MAX,
    }
}

fn check(batch: &ReadBatch, mut next: u64) -> u64 {
    for found in &batch.entries {
        assert_eq!(found.entry[..8], next.to_be_bytes());
        next += 1;
    }
    next
}

fn sequential_cold_read(total: u64, outstanding: u64) {
    let world = World::new();
    let count = total / ENTRY as u64;
    let engine = world.engine();
    fill(&world.ledger(&engine).stream, count, outstanding);
    world.rt.block_on(engine.close()).unwrap();
    drop(engine);
    for file in std::fs::read_dir(world.directory.path().join("journal")).unwrap() {
        let file = std::fs::File::open(file.unwrap().path()).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    }
    let engine = world.engine();
    let stream = world.rt.block_on(engine.open_read_only(NAME)).unwrap().stream;
    let (before, began) = (io(), world.env.clock.monotonic());
    let (mut next, mut calls) = (0, 0u64);
    world.rt.block_on(async {
        while next < count {
            let asked = request(next);
            let batch = match stream.try_read_cached(&asked) {
                Some(cached) => cached.unwrap(),
                None => stream.read(asked).await.unwrap(),
            };
            next = check(&batch, next);
            calls += 1;
        }
    });
    let took = (world.env.clock.monotonic() - began).as_secs_f64();
    let after = io();
    let [chars, reads, device] = [0, 1, 2].map(|n| after[n] - before[n]);
    println!(
        "cold, {outstanding} outstanding: {:.0} MiB/s, {calls} calls, {reads} read calls of the system, {:.3} bytes read and {:.3} \
         from the device per byte delivered",
        (total / MIB) as f64 / took,
        chars as f64 / total as f64,
        device as f64 / total as f64,
    );
    world.rt.block_on(engine.close()).unwrap();
}

#[test]
#[ignore = "measures; run by hand"]
fn measure_sequential_cold_reads() {
    sequential_cold_read(512 * MIB, 1000);
    sequential_cold_read(128 * MIB, 64);
    sequential_cold_read(16 * MIB, 8);
}

#[test]
#[ignore = "measures; run by hand"]
fn measure_tail_reads() {
    let world = World::new();
    let engine = world.engine();
    let stream = world.rt.block_on(engine.open_ledger(create(NAME))).unwrap().stream;
    fill(&stream, 1000, 100);
    let began = world.env.clock.monotonic();
    let rounds = 200_000u64;
    for round in 0..rounds {
        let batch = stream.try_read_cached(&request(round % 900)).unwrap().unwrap();
        assert_eq!(batch.entries.len(), 100);
    }
    let took = world.env.clock.monotonic() - began;
    println!(
        "tail: {} ns per read of 100 entries",
        took.as_nanos() / u128::from(rounds)
    );
    world.rt.block_on(engine.close()).unwrap();
}
