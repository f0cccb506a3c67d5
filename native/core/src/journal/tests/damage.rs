//! Torn tails are dropped, damage is named: what recovery and reads make of bytes that are not as they were written.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::support::*;
use crate::commit::{HeadChange, Log, ReadTarget};
use crate::env::Disk;
use crate::error::{Error, ErrorCode};
use crate::journal::frame::Frame;
use crate::journal::layout::{meta_of, meta_value, META};
use crate::journal::segment::{Segments, HEADER_BYTES};
use crate::journal::{Found, Journal, ModelBackend, Scan, StateBackend};
use crate::metadata::Expected;
use crate::record::Key;
use crate::types::Offset;

/// Every frame of a segment with its place.
fn frames(world: &World, sequence: u64) -> Vec<(u64, Frame)> {
    let disk: Arc<dyn Disk> = Arc::new(world.disk.clone());
    let segments = Arc::new(Segments::new(disk, "/data/journal".into()).unwrap());
    let mut scan = Scan::open(segments, &[sequence], DIRECTORY_ID).unwrap();
    let (mut found, mut position) = (Vec::new(), HEADER_BYTES);
    while let Found::Frame(frame) = scan.at(0, position).unwrap() {
        found.push((position, *frame.clone()));
        position += frame.total_bytes as u64;
    }
    found
}

/// Flips a bit at a place of a segment, as a bad disk does.
fn flip(world: &World, sequence: u64, position: u64) {
    world
        .disk
        .tamper(&segment_path(sequence), |bytes| bytes[position as usize] ^= 4);
}

/// The place of the first part of a frame.
fn first_part(frame: &(u64, Frame)) -> u64 {
    frame.0 + u64::from(frame.1.deltas[0].1.position)
}

/// Three streams with five entries each, and no marker behind the last frame.
fn filled(seed: u64) -> (World, Arc<Journal>) {
    let mut world = World::new(seed);
    let journal = world.open();
    for n in 1..=3 {
        world.create(&journal, stream(n));
    }
    for offset in 0..5 {
        for n in 1..=3 {
            world.fill(&journal, stream(n), offset, 1);
        }
    }
    (world, journal)
}

fn refused(world: &mut World, journal: &Journal, n: u128) -> Error {
    let error = world.try_head(journal, stream(n)).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Corrupt, "{error}");
    error
}

fn works(world: &mut World, journal: &Journal, n: u128, end: u64) {
    assert_eq!(
        world.head(journal, stream(n)).unwrap().end,
        Offset::new(end),
        "stream {n}"
    );
    world.fill(journal, stream(n), end, 2);
    let expected: Vec<Vec<u8>> = (0..end + 2).map(|offset| entry(stream(n), offset)).collect();
    assert_eq!(world.read_all(journal, stream(n)), expected);
}

#[test]
fn a_torn_tail_is_dropped_and_its_place_in_the_sequence_taken_again() {
    let (mut world, _journal) = filled(1);
    let last = frames(&world, 1).pop().unwrap();
    let torn = last.0;
    let mut world = world.after_kill();
    flip(&world, 1, first_part(&last));
    let journal = world.open();
    assert!(journal.damages().is_empty());
    works(&mut world, &journal, 3, 4);
    works(&mut world, &journal, 1, 5);
    let mut world = world.after_kill();
    assert_eq!(
        frames(&world, 1).pop().unwrap().0,
        torn,
        "what was torn can still be looked at"
    );
    let journal = world.open();
    assert!(
        journal.damages().is_empty(),
        "a torn tail of an earlier run proves nothing: {:?}",
        journal.damages()
    );
    assert_eq!(world.read_all(&journal, stream(3)).len(), 6);
    assert_eq!(world.read_all(&journal, stream(1)).len(), 7);
}

#[test]
fn a_torn_header_is_a_torn_tail_too() {
    let (mut world, _journal) = filled(2);
    let last = frames(&world, 1).pop().unwrap();
    let mut world = world.after_kill();
    flip(&world, 1, last.0 + 20);
    let journal = world.open();
    assert!(journal.damages().is_empty());
    works(&mut world, &journal, 3, 4);
}

#[test]
fn l01_idle_marker_proves_the_last_frame() {
    let (mut world, _journal) = filled(3);
    world.executor.run_for(Duration::from_millis(100));
    let all = frames(&world, 1);
    let marker = &all[all.len() - 1];
    assert!(marker.1.deltas.is_empty());
    let last = all[all.len() - 2].clone();
    let mut world = world.after_kill();
    flip(&world, 1, first_part(&last));
    let journal = world.open();
    let error = refused(&mut world, &journal, 3);
    assert!(error.to_string().contains("0000000000000001"), "{error}");
    works(&mut world, &journal, 1, 5);
    works(&mut world, &journal, 2, 5);
}

#[test]
fn l12_damaged_body_in_the_middle_refuses_its_streams_only_and_names_the_place() {
    let (mut world, _journal) = filled(4);
    // The second entry of stream 2.
    let all = frames(&world, 1);
    let second = all
        .iter()
        .filter(|(_, frame)| frame.scopes() == [Some(stream(2))])
        .nth(3)
        .unwrap()
        .clone();
    let mut world = world.after_kill();
    flip(&world, 1, first_part(&second) + 9);
    let journal = world.open();
    let error = refused(&mut world, &journal, 2);
    let text = error.to_string();
    assert!(
        text.contains("segment 0000000000000001") && text.contains(&format!("byte {}", first_part(&second))),
        "{text}"
    );
    let refused_append = not_committed(world.append(&journal, stream(2), 5, b"x"));
    assert_eq!(refused_append.code(), ErrorCode::Corrupt);
    let claim = world.change(&journal, stream(2), HeadChange::Claim { owner: "x".into() });
    assert_eq!(claim.err().unwrap().code(), ErrorCode::Corrupt);
    let scan = Key::stream_range(crate::record::RecordType::CommitPage, stream(2));
    let scan = world.executor.run(journal.store().scan(scan.0, scan.1, 10));
    assert_eq!(
        scan.unwrap_err().code(),
        ErrorCode::Corrupt,
        "what hangs on the stream is in doubt as well"
    );
    works(&mut world, &journal, 1, 5);
    works(&mut world, &journal, 3, 5);
    // Damage does not heal by a checkpoint that makes its frame unnecessary.
    world.executor.run(journal.close()).unwrap();
    let mut world = world.after_kill();
    let journal = world.open();
    assert_eq!(journal.stats().replayed_frames, 0);
    refused(&mut world, &journal, 2);
    works(&mut world, &journal, 1, 7);
}

#[test]
fn a_damaged_stream_can_be_deleted_which_ends_its_damage_also_at_replay() {
    let (mut world, _journal) = filled(17);
    let all = frames(&world, 1);
    let second = all
        .iter()
        .filter(|(_, frame)| frame.scopes() == [Some(stream(2))])
        .nth(3)
        .unwrap()
        .clone();
    let mut world = world.after_kill();
    flip(&world, 1, first_part(&second));
    let journal = world.open();
    refused(&mut world, &journal, 2);
    let by_owner = HeadChange::Delete { epoch: Some(epoch(1)) };
    assert_eq!(
        world.change(&journal, stream(2), by_owner).err().unwrap().code(),
        ErrorCode::Corrupt
    );
    world
        .change(&journal, stream(2), HeadChange::Delete { epoch: None })
        .unwrap();
    assert!(world.head(&journal, stream(2)).is_none());
    assert!(journal.damages().is_empty());
    let mut world = world.after_kill();
    let journal = world.open();
    assert!(world.head(&journal, stream(2)).is_none());
    world.executor.run(journal.close()).unwrap();
    let mut world = world.after_kill();
    let journal = world.open();
    assert!(journal.damages().is_empty());
    works(&mut world, &journal, 1, 5);
}

#[test]
fn an_unreadable_table_is_told_apart_by_the_witnesses_of_the_next_frame() {
    let (mut world, _journal) = filled(5);
    let all = frames(&world, 1);
    // The last one of stream 2: no later frame of it would show by its version that one is missing.
    let last = all
        .iter()
        .rfind(|(_, frame)| frame.scopes() == [Some(stream(2))])
        .unwrap()
        .clone();
    let mut world = world.after_kill();
    flip(&world, 1, last.0 + 3);
    let journal = world.open();
    refused(&mut world, &journal, 2);
    works(&mut world, &journal, 1, 5);
    works(&mut world, &journal, 3, 5);
}

#[test]
fn two_unreadable_tables_in_a_row_put_everything_in_doubt() {
    let (mut world, _journal) = filled(6);
    let all = frames(&world, 1);
    let mut world = world.after_kill();
    flip(&world, 1, all[9].0 + 3);
    flip(&world, 1, all[10].0 + 3);
    let journal = world.open();
    for n in 1..=3 {
        refused(&mut world, &journal, n);
    }
    let create = HeadChange::Create {
        stream: stream(9),
        incarnation: crate::types::Incarnation::new(1),
        created_millis: 0,
    };
    assert_eq!(
        world.change(&journal, stream(9), create).err().unwrap().code(),
        ErrorCode::Corrupt
    );
}

#[test]
fn damage_behind_an_earlier_torn_tail_is_not_mistaken_for_it() {
    let (mut world, _journal) = filled(7);
    let last = frames(&world, 1).pop().unwrap();
    assert_eq!(last.1.scopes(), [Some(stream(3))]);
    let mut world = world.after_kill();
    // Torn in the padding only: its part would pass its own checksum.
    world
        .disk
        .tamper(&segment_path(1), |bytes| bytes[last.0 as usize + 4095] = 1);
    let journal = world.open();
    world.fill(&journal, stream(1), 5, 3);
    let mut world = world.after_kill();
    // The frame that took the sequence number of the torn one.
    let again = frames(&world, 2)[0].clone();
    assert_eq!(again.1.header.sequence, last.1.header.sequence);
    flip(&world, 2, again.0 + 3);
    let journal = world.open();
    refused(&mut world, &journal, 1);
    assert_eq!(
        world.head(&journal, stream(3)).unwrap().end,
        Offset::new(4),
        "what was dropped once does not come back"
    );
}

#[test]
fn l12_flipped_byte_is_detected_at_the_read_and_names_segment_and_position() {
    let (mut world, journal) = filled(8);
    world.executor.run(journal.checkpoint()).unwrap();
    let commits = world.commits(&journal, stream(2));
    let ReadTarget::Journal {
        segment,
        position,
        length,
    } = commits[2].target
    else {
        panic!()
    };
    for at in [0, 5, 9, length - 1] {
        flip(&world, segment, position + at);
        let error = world.read(&journal, stream(2), commits[2]).unwrap_err();
        assert_eq!(error.code(), ErrorCode::Corrupt);
        let text = error.to_string();
        assert!(
            text.contains("0000000000000001.seg") && text.contains(&format!("byte {position}")),
            "{text}"
        );
        flip(&world, segment, position + at);
    }
    world.read(&journal, stream(2), commits[2]).unwrap();
    world
        .disk
        .tamper(&segment_path(1), |bytes| bytes.truncate(position as usize));
    assert_eq!(
        world.read(&journal, stream(2), commits[2]).unwrap_err().code(),
        ErrorCode::Corrupt
    );
    world.read(&journal, stream(2), commits[1]).unwrap();
}

#[test]
fn a_missing_segment_stops_the_start_by_name() {
    let mut world = World::new(9);
    let journal = world.open();
    world.create(&journal, stream(1));
    let large = vec![7; 60 << 10];
    for offset in 0..150 {
        committed(world.append(&journal, stream(1), offset, &large), offset);
    }
    let mut world = world.after_kill();
    assert!(world.disk.paths().contains(&segment_path(3)));
    world.disk.remove(&segment_path(2)).unwrap();
    let error = world.try_open().err().unwrap();
    assert_eq!(error.code(), ErrorCode::Corrupt);
    assert!(error.to_string().contains("0000000000000002.seg"), "{error}");
}

#[test]
fn a_cut_segment_stops_the_start_by_name_and_nothing_is_changed() {
    let (mut world, _journal) = filled(10);
    let last = frames(&world, 1).pop().unwrap();
    let mut world = world.after_kill();
    let whole = world.disk.content(&segment_path(1)).unwrap();
    for cut in [last.0 as usize, last.0 as usize + 100, last.0 as usize + 4096] {
        world.disk.tamper(&segment_path(1), |bytes| bytes.truncate(cut));
        let error = world.try_open().err().unwrap();
        assert_eq!(error.code(), ErrorCode::Corrupt);
        assert!(
            error.to_string().contains("0000000000000001.seg") && error.to_string().contains("cut"),
            "{error}"
        );
        world.disk.tamper(&segment_path(1), |bytes| bytes.clone_from(&whole));
    }
    // Zeros behind the last frame show that nothing was there.
    world
        .disk
        .tamper(&segment_path(1), |bytes| bytes.truncate(last.0 as usize + 3 * 4096));
    let journal = world.open();
    works(&mut world, &journal, 3, 5);
}

#[test]
fn a_segment_cut_below_the_checkpoint_refuses_the_streams_in_it() {
    let (mut world, journal) = filled(11);
    world.executor.run(journal.close()).unwrap();
    let mut world = world.after_kill();
    world.disk.tamper(&segment_path(1), |bytes| bytes.truncate(2 * 4096));
    let error = match world.try_open() {
        Ok(journal) => refused(&mut world, &journal, 1),
        Err(error) => error,
    };
    assert_eq!(error.code(), ErrorCode::Corrupt, "{error}");
    assert!(error.to_string().contains("0000000000000001"), "{error}");
}

#[test]
fn a_damaged_header_block_of_a_segment_costs_nothing() {
    let (mut world, _journal) = filled(12);
    let mut world = world.after_kill();
    flip(&world, 1, 30);
    let journal = world.open();
    assert!(journal.damages().is_empty());
    works(&mut world, &journal, 2, 5);
}

#[test]
fn a_segment_or_store_of_another_directory_is_refused() {
    let (mut world, journal) = filled(13);
    world.executor.run(journal.close()).unwrap();
    let mut world = world.after_kill();
    world.options.directory_id = 0xd2;
    let error = world.try_open().err().unwrap();
    assert_eq!(error.code(), ErrorCode::Corrupt);
    assert!(error.to_string().contains(&format!("{DIRECTORY_ID:032x}")), "{error}");
}

#[test]
fn lost_metadata_or_a_lost_journal_is_never_an_empty_store() {
    let (mut world, _journal) = filled(14);
    let mut world = world.after_kill();
    let backend = std::mem::take(&mut world.backend);
    let error = world.try_open().err().unwrap();
    assert_eq!(error.code(), ErrorCode::Corrupt);
    assert!(error.to_string().contains("/data/metadata"), "{error}");
    world.backend = backend;
    world.disk.remove(&segment_path(1)).unwrap();
    let error = world.try_open().err().unwrap();
    assert_eq!(error.code(), ErrorCode::Corrupt);
    assert!(error.to_string().contains("/data/journal"), "{error}");
}

#[test]
fn a_first_start_that_was_cut_short_begins_again() {
    let mut world = World::new(15);
    drop(world.open());
    let mut world = world.after_kill();
    // The segment is there, the position is not yet.
    world.backend = ModelBackend::default();
    let journal = world.open();
    world.create(&journal, stream(1));
    world.fill(&journal, stream(1), 0, 2);
}

#[test]
fn replay_onto_a_wrong_version_is_corrupt_for_that_stream_only() {
    let (mut world, journal) = filled(16);
    world.executor.run(journal.checkpoint()).unwrap();
    world.fill(&journal, stream(1), 5, 1);
    world.fill(&journal, stream(2), 5, 1);
    let key = Key::stream_properties(stream(3));
    let _ = world.write(&journal, key, Expected::Absent, b"v");
    let world = &mut world.after_kill();
    // The backend claims a head of stream 1 that the next frame does not follow.
    let head_of = |n| crate::journal::layout::record_key(&Key::stream_head(stream(n)));
    let stolen = world.backend.get(&head_of(1)).unwrap().unwrap();
    let head = {
        use crate::record::Record;
        let key = Key::stream_head(stream(1));
        let mut head = crate::commit::StreamHead::decode(&key, &stolen[8..]).unwrap();
        head.version = head.version.next().unwrap();
        [&head.version.get().to_be_bytes()[..], &head.encode().unwrap()].concat()
    };
    world.backend.write(vec![(head_of(1), Some(head.into()))]).unwrap();
    let journal = world.open();
    let error = refused(world, &journal, 1);
    assert!(error.to_string().contains("onto version"), "{error}");
    works(world, &journal, 2, 6);
}

#[test]
fn l17_a_checkpoint_that_names_the_last_segment_of_all_is_refused_and_nothing_panics() {
    let mut world = World::new(77);
    let journal = world.open();
    world.create(&journal, stream(1));
    world.executor.run(journal.close()).unwrap();
    drop(journal);
    let stored = world.backend.get(META).unwrap().unwrap();
    let mut meta = meta_of(&stored, "here").unwrap();
    meta.position.segment = u64::MAX;
    let batch = vec![(Bytes::from_static(META), Some(meta_value(&meta)))];
    world.backend.write(batch).unwrap();
    assert_eq!(world.try_open().err().unwrap().code(), ErrorCode::Corrupt);
}
