//! The simulator is checked first: what it loses, what it keeps, and that a seed repeats a run.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::env::{AlignedBuffer, DiskFile, OpenMode};

const FILE: &str = "/d/file";

fn file(disk: &SimDisk) -> Arc<dyn DiskFile> {
    disk.open(Path::new(FILE), OpenMode::CreateNew).unwrap()
}

fn synced(disk: &SimDisk) -> Arc<dyn DiskFile> {
    let file = file(disk);
    file.write_all_at(&[1; 8 * 4096], 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_dir(Path::new("/d")).unwrap();
    file
}

#[test]
fn a_direct_file_takes_whole_blocks_of_aligned_memory_only() {
    let disk = SimDisk::new(1 << 20);
    let file = disk.open(Path::new(FILE), OpenMode::CreateDirect).unwrap();
    let mut block = AlignedBuffer::with_capacity(4096);
    block.resize(4096);
    file.write_durably_at(&block, 4096).unwrap();
    assert!(file.write_durably_at(&block, 100).is_err());
    assert!(file.write_durably_at(&block[..100], 0).is_err());
    assert!(file.write_durably_at(&[&block[..], &[1]].concat()[1..], 0).is_err());
    let left = disk.after_kill();
    assert_eq!(left.content(Path::new(FILE)).map(|content| content.len()), Some(8192));
}

#[test]
fn synced_bytes_survive_and_unsynced_sectors_survive_by_chance() {
    let mut mixed = 0;
    for seed in 0..20 {
        let disk = SimDisk::new(1 << 20);
        synced(&disk).write_all_at(&[2; 4 * 4096], 4096).unwrap();
        let left = disk
            .after_crash(&SimRandom::new(seed))
            .content(Path::new(FILE))
            .unwrap();
        assert_eq!(left.len(), 8 * 4096);
        assert!(
            left[..4096].iter().chain(&left[5 * 4096..]).all(|byte| *byte == 1),
            "seed {seed}"
        );
        let new = left.iter().filter(|byte| **byte == 2).count();
        mixed += usize::from(new > 0 && new < 4 * 4096);
    }
    assert!(mixed > 10, "torn in {mixed} of 20 crashes");
}

#[test]
fn bytes_of_a_failed_sync_are_read_but_lost_also_after_a_later_sync() {
    let disk = SimDisk::new(1 << 20);
    let file = synced(&disk);
    disk.fail(Fault {
        operation: Operation::Sync,
        path_contains: "file".into(),
        after: 0,
        times: 1,
        kind: std::io::ErrorKind::Other,
    });
    file.write_all_at(&[2; 4096], 0).unwrap();
    assert!(file.sync_data().is_err());
    file.sync_data().unwrap();
    assert_eq!(disk.content(Path::new(FILE)).unwrap()[0], 2);
    for seed in 0..10 {
        assert_eq!(
            disk.after_crash(&SimRandom::new(seed))
                .content(Path::new(FILE))
                .unwrap()[0],
            1
        );
    }
    file.write_all_at(&[2; 4096], 0).unwrap();
    file.sync_data().unwrap();
    assert_eq!(
        disk.after_crash(&SimRandom::new(1)).content(Path::new(FILE)).unwrap()[0],
        2
    );
}

#[test]
fn unsynced_names_survive_by_chance() {
    let disk = SimDisk::new(1 << 20);
    file(&disk).sync_data().unwrap();
    let there = (0..40)
        .filter(|seed| !disk.after_crash(&SimRandom::new(*seed)).paths().is_empty())
        .count();
    assert!((5..35).contains(&there), "{there} of 40");
    disk.sync_dir(Path::new("/d")).unwrap();
    assert!((0..40).all(|seed| !disk.after_crash(&SimRandom::new(seed)).paths().is_empty()));
}

#[test]
fn power_is_gone_from_the_chosen_mutation_on() {
    let disk = SimDisk::new(1 << 20);
    let file = synced(&disk);
    disk.crash_in(2);
    file.write_all_at(&[2; 4096], 0).unwrap();
    assert!(file.sync_data().is_err(), "the power fails in this sync");
    assert!(disk.has_crashed());
    assert!(file.write_all_at(&[3; 10], 0).is_err());
    assert!(file.read_exact_at(&mut [0; 10], 0).is_err());
}

#[test]
fn a_full_disk_refuses_to_grow_files_but_not_to_overwrite_them() {
    let disk = SimDisk::new(10 * 4096);
    let file = synced(&disk);
    assert_eq!(disk.free_bytes(Path::new("/d")).unwrap(), 2 * 4096);
    assert_eq!(
        file.allocate(11 * 4096).unwrap_err().kind(),
        std::io::ErrorKind::StorageFull
    );
    assert_eq!(
        file.write_all_at(&[0; 4096], 10 * 4096).unwrap_err().kind(),
        std::io::ErrorKind::StorageFull
    );
    file.write_all_at(&[0; 4096], 0).unwrap();
    disk.set_capacity(20 * 4096);
    file.allocate(11 * 4096).unwrap();
}

fn trace(seed: u64) -> Vec<(u64, u32)> {
    let mut executor = Executor::new(seed);
    let (clock, spawner) = (executor.clock(), executor.spawner());
    let seen = Arc::new(parking_lot::Mutex::new(Vec::new()));
    for task in 0..5u32 {
        let (clock, seen) = (clock.clone(), seen.clone());
        spawner.spawn(
            "t",
            Box::pin(async move {
                for round in 0..3 {
                    seen.lock()
                        .push((u64::try_from(clock.monotonic().as_micros()).unwrap(), task * 10 + round));
                    clock.sleep(Duration::from_millis(1)).await;
                }
            }),
        );
    }
    executor.run_for(Duration::from_millis(20));
    let seen = seen.lock().clone();
    seen
}

#[test]
fn same_seed_same_trace_and_another_seed_another() {
    assert_eq!(trace(7), trace(7));
    assert_eq!(trace(7).len(), 15);
    assert!((0..5).any(|seed| trace(seed) != trace(7)));
}

#[test]
#[should_panic(expected = "an answer was lost")]
fn a_future_that_nobody_wakes_is_found_out() {
    Executor::new(1).run(std::future::pending::<()>());
}
