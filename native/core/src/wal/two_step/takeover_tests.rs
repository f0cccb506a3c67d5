//! Two engines over one store and one WAL: the second takes the stream over while the first still runs and knows nothing of it.

use std::sync::Arc;

use super::tests::Memory;
use super::TwoStep;
use crate::commit::{HeadChange, Log};
use crate::error::ErrorCode;
use crate::metadata::faults::Fault;
use crate::stream::suite::{append, outcome, plenty, put, World, STREAM};
use crate::stream::takeover_suite::{furnish, refuse_all, stored, use_all, OPERATIONS};
use crate::stream::{Parts, Retention, Rollover, Stream};
use crate::types::Offset;

/// A second engine, without the faults of the first.
fn second_engine(world: &World<Memory>) -> Arc<dyn Log> {
    let store = Arc::new(world.fixture.store());
    Arc::new(TwoStep::start(world.env.clone(), world.fixture.wal(), store))
}

fn take_over(world: &World<Memory>, log: &Arc<dyn Log>) -> Stream {
    let parts: Parts = world.parts_on(log.clone(), plenty());
    world
        .rt
        .block_on(Stream::take_over(parts, "second engine".into()))
        .unwrap()
        .0
}

#[test]
fn l05_old_owner_on_another_engine_changes_nothing_case_004() {
    for (first, (began_with, _)) in OPERATIONS.iter().enumerate() {
        let mut world = World::new(Memory::default());
        let old = world.stream();
        furnish(&world.rt, &old);
        let log = second_engine(&world);
        let new = take_over(&world, &log);
        let before = stored(&world.rt, &world.fixture.store(), STREAM);
        refuse_all(&world.rt, &old, &new, first);
        world.rt.block_on(old.close()).unwrap();
        let after = stored(&world.rt, &world.fixture.store(), STREAM);
        assert_eq!(after, before, "the old owner began with {began_with}");
        use_all(&world.rt, &new);
    }
}

#[test]
fn l05_late_close_of_the_old_owner_does_not_spoil_the_new_ones_versions_case_066() {
    let mut world = World::new(Memory::default());
    let old = world.stream();
    furnish(&world.rt, &old);
    // What the old owner sent last is still on its way when the new one opens.
    world.fixture.faults().next(Fault::Late);
    let lost = append(&old, b"on its way").unwrap().1;
    let closing = old.close();
    let log = second_engine(&world);
    let new = take_over(&world, &log);
    world.rt.block_on(world.fixture.faults().arrive());
    drop(outcome(&lost));
    world.rt.block_on(closing).unwrap();
    for n in 0..40u8 {
        put(&new, &[n]);
    }
    use_all(&world.rt, &new);
}

#[test]
fn deletion_by_another_engine_is_found_out_and_nothing_comes_back_case_101() {
    let mut world = World::new(Memory::default());
    let old = world.stream();
    furnish(&world.rt, &old);
    let log = second_engine(&world);
    let other = world.rt.block_on(log.load(STREAM)).unwrap().unwrap();
    assert_eq!(other.with(|head| head.unwrap().end), Offset::new(60));
    let delete = HeadChange::Delete { epoch: None };
    world.rt.block_on(log.change(STREAM, delete)).unwrap();
    let store = world.fixture.store();
    world
        .rt
        .block_on(crate::stream::remove_remains(&store, STREAM))
        .unwrap();
    for (name, operation) in OPERATIONS.iter().filter(|(name, _)| *name != "resume") {
        let refused = operation(&world.rt, &old);
        let code = refused.map_err(|error| error.code());
        assert!(
            matches!(code, Err(ErrorCode::NotFound | ErrorCode::Conflict)),
            "{name}: {code:?}"
        );
    }
    assert_eq!(stored(&world.rt, &store, STREAM), []);
}

#[test]
fn marks_are_cut_through_refused_and_lost_answers_and_cost_one_write_each() {
    let mut world = World::new(Memory::default());
    let stream = world.stream();
    let faults = world.fixture.faults();
    let keep_all = |now_millis| Retention {
        consumed: Offset::ZERO,
        max_age_millis: None,
        max_bytes: None,
        now_millis,
    };
    for n in 0..20u8 {
        put(&stream, &[n]);
    }
    let rollover = Rollover {
        max_entries: 10,
        ..Rollover::default()
    };
    stream.set_rollover(rollover).unwrap();
    faults.next(Fault::Refuse);
    let refused = world.rt.block_on(stream.retain(keep_all(1)));
    assert_eq!(refused.unwrap_err().code(), ErrorCode::Unavailable);
    for fault in [Fault::LoseAnswer, Fault::Late] {
        faults.next(fault);
    }
    world.rt.block_on(stream.retain(keep_all(1))).unwrap();
    let marks = |stream: &Stream| {
        let marks = world.rt.block_on(stream.marks_above(Offset::ZERO, 10)).unwrap();
        marks.iter().map(|mark| mark.offset.get()).collect::<Vec<_>>()
    };
    let found = marks(&stream);
    world.rt.block_on(faults.arrive());
    assert_eq!((found.as_slice(), marks(&stream)), (&[10, 20][..], vec![10, 20]));

    let before = faults.writes();
    for _ in 0..5 {
        world.rt.block_on(stream.retain(keep_all(1))).unwrap();
    }
    assert_eq!(faults.writes(), before, "asking again writes nothing");
    // Five entries are not enough for a mark: one write for each, and at most two for a page.
    for n in 0..5u8 {
        put(&stream, &[n]);
    }
    world.rt.block_on(stream.retain(keep_all(1))).unwrap();
    assert!(faults.writes() <= before + 7, "{} writes", faults.writes() - before);
}
