//! Cases of the stream suite about trim marks and retention.

use super::suite::{append, outcome, plenty, put, read, read_all, request, update, Fixture, World, STREAM};
use super::{Retention, Rollover, Stream};
use crate::commit::HeadChange;
use crate::error::ErrorCode;
use crate::types::Offset;

const NOON: u64 = 1_700_000_000_000;

pub(super) fn entries(max_entries: u64) -> Rollover {
    Rollover {
        max_entries,
        ..Rollover::default()
    }
}

/// Keeps nothing that is consumed.
pub(super) fn none_above(consumed: u64, now_millis: u64) -> Retention {
    Retention {
        consumed: Offset::new(consumed),
        max_age_millis: Some(0),
        max_bytes: Some(0),
        now_millis,
    }
}

/// One entry of `bytes` bytes for each number, each its own commit.
pub(super) fn fill(stream: &Stream, numbers: std::ops::Range<u8>, bytes: usize) {
    for n in numbers {
        put(stream, &vec![n; bytes]);
    }
}

/// Cuts what is due, and lets nothing go.
pub(super) fn cut<F: Fixture>(world: &World<F>, stream: &Stream) {
    let nothing = Retention {
        max_age_millis: None,
        max_bytes: None,
        ..none_above(0, world.env.clock.wall_millis())
    };
    let trim = world.rt.block_on(stream.retain(nothing)).unwrap();
    assert_eq!(trim, stream.state().trim);
}

pub(super) fn marks<F: Fixture>(world: &World<F>, stream: &Stream) -> Vec<u64> {
    let marks = world.rt.block_on(stream.marks_above(Offset::ZERO, 1000)).unwrap();
    marks.iter().map(|mark| mark.offset.get()).collect()
}

pub(crate) fn l16_retention_moves_from_mark_to_mark_and_never_past_what_is_consumed<F: Fixture>(fixture: F) {
    let mut world = World::new(fixture);
    world.clock.set(NOON);
    let stream = world.stream();
    let rollover = Rollover {
        max_millis: 60_000,
        ..entries(10)
    };
    stream.set_rollover(rollover).unwrap();
    fill(&stream, 0..35, 10);
    cut(&world, &stream);
    assert_eq!(marks(&world, &stream), [10, 20, 30]);
    let retain = |stream: &Stream, retention| world.rt.block_on(stream.retain(retention)).unwrap().get();
    assert_eq!(retain(&stream, none_above(9, NOON + 1)), 0, "not past what is consumed");
    assert_eq!(retain(&stream, none_above(25, NOON + 1)), 20);
    assert_eq!(stream.state().bytes, 150);
    assert_eq!(read_all(&world.rt, &stream, 20).len(), 15);
    let for_its_size = Retention {
        max_age_millis: None,
        max_bytes: Some(51),
        ..none_above(35, NOON + 1)
    };
    assert_eq!(
        retain(&stream, for_its_size),
        20,
        "without this part 50 bytes would be left"
    );
    let young = Retention {
        max_age_millis: Some(1),
        max_bytes: None,
        ..none_above(35, NOON + 1)
    };
    assert_eq!(retain(&stream, young), 20);
    assert_eq!(retain(&stream, none_above(35, NOON + 1)), 30, "the open part stays");
    // Nothing is appended any more: the longest time of a part closes it.
    assert_eq!(retain(&stream, none_above(34, NOON + 60_000)), 30);
    assert_eq!(marks(&world, &stream), [35], "marks of trimmed parts are removed");
    assert_eq!(retain(&stream, none_above(35, NOON + 60_000)), 35);
    let state = stream.state();
    assert_eq!((state.entries, state.bytes), (0, 0));
    world.reopen();
    let stream = world.uncached();
    assert_eq!(
        read(&world.rt, &stream, request(34)).unwrap(),
        [(34, vec![34; 10])],
        "the last entry is kept"
    );
    assert_eq!(
        read(&world.rt, &stream, request(33)).unwrap_err().code(),
        ErrorCode::OffsetTrimmed
    );
    assert_eq!(put(&stream, b"next"), Offset::new(35));
}

pub(crate) fn marks_go_on_from_the_last_durable_one_after_reopen<F: Fixture>(fixture: F) {
    let mut world = World::new(fixture);
    let stream = world.stream();
    stream.set_rollover(entries(10)).unwrap();
    fill(&stream, 0..25, 1);
    cut(&world, &stream);
    world.reopen();
    let stream = world.stream();
    stream.set_rollover(entries(10)).unwrap();
    fill(&stream, 25..38, 1);
    cut(&world, &stream);
    assert_eq!(marks(&world, &stream), [10, 20, 30]);
    world.rt.block_on(stream.trim(Offset::new(33))).unwrap();
    cut(&world, &stream);
    assert_eq!(marks(&world, &stream), Vec::<u64>::new());
    world.reopen();
    let stream = world.stream();
    stream.set_rollover(entries(10)).unwrap();
    fill(&stream, 0..10, 1);
    cut(&world, &stream);
    assert_eq!(
        marks(&world, &stream),
        [43],
        "a part begins at the trim offset when that lies further"
    );
}

pub(crate) fn marks_that_were_never_cut_are_made_up_for<F: Fixture>(fixture: F) {
    let mut world = World::new(fixture);
    let stream = world.stream();
    fill(&stream, 0..200, 3);
    assert_eq!(
        marks(&world, &stream),
        Vec::<u64>::new(),
        "without settings there are none"
    );
    world.reopen();
    let stream = world.stream();
    stream
        .set_rollover(Rollover {
            max_bytes: 6,
            ..Rollover::default()
        })
        .unwrap();
    // More than one batch of them: the rest follows by itself, each batch as a step.
    cut(&world, &stream);
    cut(&world, &stream);
    let expected: Vec<u64> = (1..=100).map(|n| 2 * n).collect();
    assert_eq!(marks(&world, &stream), expected);
    let all = world.rt.block_on(stream.marks_above(Offset::ZERO, 1000)).unwrap();
    assert!(all.iter().all(|mark| mark.bytes_below == 3 * mark.offset.get()));
    let trim = world
        .rt
        .block_on(stream.retain(none_above(199, u64::MAX >> 1)))
        .unwrap();
    assert_eq!(trim, Offset::new(198));
}

pub(crate) fn marks_are_cut_while_nobody_asks<F: Fixture>(fixture: F) {
    let mut world = World::new(fixture);
    let stream = world.stream();
    stream.set_rollover(entries(5)).unwrap();
    fill(&stream, 0..27, 1);
    // Steps come in order: one more waits for those that the commits asked for.
    world.rt.block_on(stream.set_properties(Default::default())).unwrap();
    let found = marks(&world, &stream);
    assert!(found.len() >= 4, "{found:?}");
    assert!(found.iter().all(|offset| offset % 5 == 0), "{found:?}");
}

pub(crate) fn new_settings_hold_at_once_case_114<F: Fixture>(fixture: F) {
    let mut world = World::new(fixture);
    let stream = world.stream();
    stream.set_rollover(entries(1000)).unwrap();
    fill(&stream, 0..20, 1);
    cut(&world, &stream);
    assert_eq!(marks(&world, &stream), Vec::<u64>::new());
    stream.set_rollover(entries(8)).unwrap();
    cut(&world, &stream);
    assert_eq!(
        marks(&world, &stream),
        [8, 16],
        "the open part is counted by the new settings"
    );
    stream.set_rollover(Rollover::default()).unwrap();
    fill(&stream, 0..20, 1);
    cut(&world, &stream);
    assert_eq!(marks(&world, &stream), [8, 16]);
    let reader = Stream::read_only(world.parts(plenty()));
    assert_eq!(reader.set_rollover(entries(1)).unwrap_err().code(), ErrorCode::Invalid);
}

pub(crate) fn l05_fenced_owner_cuts_no_mark_and_lets_nothing_go<F: Fixture>(fixture: F) {
    let mut world = World::new(fixture);
    let old = world.stream();
    fill(&old, 0..20, 1);
    let new = world.stream();
    old.set_rollover(entries(4)).unwrap();
    let (_, receiver) = append(&old, b"late").unwrap();
    drop(outcome(&receiver));
    let retained = world.rt.block_on(old.retain(none_above(20, u64::MAX >> 1)));
    assert_eq!(retained.unwrap_err().code(), ErrorCode::Fenced);
    assert_eq!(marks(&world, &new), Vec::<u64>::new());
    assert_eq!(new.state().trim, Offset::ZERO);
}

pub(crate) fn deleted_stream_leaves_no_mark<F: Fixture>(fixture: F) {
    let mut world = World::new(fixture);
    let stream = world.stream();
    stream.set_rollover(entries(2)).unwrap();
    fill(&stream, 0..50, 1);
    cut(&world, &stream);
    world.rt.block_on(stream.close()).unwrap();
    let delete = HeadChange::Delete { epoch: None };
    world.rt.block_on(world.log.change(STREAM, delete)).unwrap();
    let store = world.log.store();
    world.rt.block_on(super::remove_remains(&*store, STREAM)).unwrap();
    let (from, to) = crate::record::Key::stream_range(crate::record::RecordType::TrimMark, STREAM);
    assert!(world.rt.block_on(store.scan(from, to, 10)).unwrap().is_empty());
}

pub(crate) fn cursor_names_are_kept_as_they_are_or_refused_case_113<F: Fixture>(fixture: F) {
    let mut world = World::new(fixture);
    let stream = world.stream();
    let long = "n".repeat(1024);
    let mut legal = [
        "a/b",
        "a%2Fb",
        "..",
        "a",
        "\u{0}x",
        "\u{1}",
        "\u{1f512} kl\u{fc}gel",
        long.as_str(),
    ];
    for name in legal {
        let created = world.rt.block_on(stream.persist_cursor(update(name, true, 0, vec![])));
        created.unwrap_or_else(|error| panic!("{name:?}: {error}"));
    }
    let too_long = "n".repeat(1 << 20);
    for name in ["", too_long.as_str()] {
        let refused = world.rt.block_on(stream.persist_cursor(update(name, true, 0, vec![])));
        assert_eq!(refused.unwrap_err().code(), ErrorCode::Invalid, "{} bytes", name.len());
    }
    world.reopen();
    let (stream, cursors) = world.take_over(plenty()).unwrap();
    let mut names: Vec<&str> = cursors.iter().map(|cursor| cursor.name.as_str()).collect();
    names.sort_unstable();
    legal.sort_unstable();
    assert_eq!(names, legal, "unchanged, and nothing of the refused ones");
    for name in legal {
        world.rt.block_on(stream.delete_cursor(name)).unwrap();
    }
    assert!(world.rt.block_on(stream.list_cursors()).unwrap().is_empty());
}
