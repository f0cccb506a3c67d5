//! The corpus, and some thousand inputs from fixed seeds, with every change of the core.

use std::alloc::System;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use cap::Cap;
use nereus_core::journal::frame::BLOCK;
use nereus_core::journal::segment::SegmentHeader;
use nereus_fuzz::run::{self, Verdict};
use nereus_fuzz::{corpus, targets};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// One test at a time allocates: the counter is that of the process.
static COUNTING: Mutex<()> = Mutex::new(());

fn allocated() -> usize {
    ALLOCATOR.total_allocated()
}

#[test]
fn every_input_of_the_corpus_is_judged_and_every_target_has_some() {
    let _counting = COUNTING.lock().unwrap_or_else(PoisonError::into_inner);
    let corpus = corpus::read(&corpus::directory()).unwrap();
    let bytes: usize = corpus.iter().map(|(_, _, bytes)| bytes.len()).sum();
    assert!(bytes < 200 << 10, "the corpus has {bytes} bytes");
    for (name, target, bytes) in &corpus {
        let verdict = run::judge(target, bytes, Some(allocated));
        assert!(!matches!(verdict, Verdict::Failed(_)), "{name}: {verdict:?}");
        // The name says what was seen when it was written: a decoder that changes its mind is noticed.
        assert_eq!(
            verdict == Verdict::Accepted,
            name.contains("-accepted-"),
            "{name}: {verdict:?}"
        );
    }
    for target in targets::ALL {
        assert!(
            corpus.iter().any(|(_, of, _)| of.name == target.name),
            "{}",
            target.name
        );
    }
}

#[test]
fn no_decoder_panics_allocates_without_bound_or_reads_what_it_cannot_write() {
    let _counting = COUNTING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut seen: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
    for seed in 0..6000 {
        let (input, verdict) = run::seed(seed, Some(allocated));
        match verdict {
            Verdict::Accepted => seen.entry(input.target.name).or_default()[0] += 1,
            Verdict::Refused => seen.entry(input.target.name).or_default()[1] += 1,
            Verdict::Failed(broken) => panic!("seed {seed}, target {}: {broken}", input.target.name),
        }
    }
    for target in targets::ALL {
        let [accepted, refused] = seen.get(target.name).copied().unwrap_or_default();
        assert!(
            accepted > 0 && refused > 0,
            "{}: {accepted} accepted, {refused} refused",
            target.name
        );
    }
}

/// Found by the scan target: each such block made a look ahead read and check all that it claims, so that the entries of a
/// hostile producer could make a start take hours.
#[test]
fn l17_entries_that_imitate_frames_do_not_make_a_look_ahead_read_the_segment_over_and_over() {
    let _counting = COUNTING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut imitation = vec![0u8; BLOCK];
    imitation[..8].copy_from_slice(b"NEREUSjf");
    imitation[8..10].copy_from_slice(&1u16.to_be_bytes());
    imitation[16..24].copy_from_slice(&9u64.to_be_bytes());
    let mut blocks = Vec::new();
    for left in (0..64u32).rev() {
        imitation[12..16].copy_from_slice(&(left * BLOCK as u32).to_be_bytes());
        blocks.extend_from_slice(&imitation);
    }
    let header = SegmentHeader {
        directory_id: 0xd1,
        sequence: 9,
        run: 0x1234_5678_9abc_def0,
        length: (BLOCK + blocks.len()) as u64,
        previous_length: 0,
    };
    let file = [header.encode(), blocks].concat();
    let scan = targets::ALL.iter().find(|target| target.name == "scan").unwrap();
    assert_eq!(run::judge(scan, &file, Some(allocated)), Verdict::Refused);
}

#[test]
fn same_seed_gives_the_same_input() {
    let _counting = COUNTING.lock().unwrap_or_else(PoisonError::into_inner);
    for seed in 0..300 {
        let (a, b) = (run::input(seed), run::input(seed));
        assert_eq!((a.target.name, a.kind, a.bytes), (b.target.name, b.kind, b.bytes));
    }
}
