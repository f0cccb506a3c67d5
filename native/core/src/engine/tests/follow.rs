//! Cursors that walk over another stream, as those of a shadow topic do.

use super::*;

const SHADOW: &str = "public/default/persistent/shadow";

fn open_shadow(world: &World, engine: &Engine) -> OpenedLedger {
    world.rt.block_on(engine.open_ledger(create(SHADOW))).unwrap()
}

/// What a shadow reads through: a handle for reading only, which sees the owner's commits.
fn source(world: &World, engine: &Engine) -> Stream {
    world.rt.block_on(engine.open_read_only(NAME)).unwrap().stream
}

fn persist(world: &World, stream: &Stream, name: &str, create: bool, end: u64) -> Result<()> {
    world
        .rt
        .block_on(stream.persist_cursor(update(name, create, end, vec![])))
}

#[test]
fn cursors_of_a_following_stream_go_as_far_as_its_source_and_survive_a_restart() {
    let world = World::new();
    let engine = world.engine();
    let owner = world.ledger(&engine).stream;
    put(&owner, b"one");
    let followed = source(&world, &engine);
    let shadow = open_shadow(&world, &engine).stream;
    assert_eq!(code(persist(&world, &shadow, "s", true, 1)), ErrorCode::Invalid);
    shadow.follow(&followed).unwrap();
    persist(&world, &shadow, "s", true, 1).unwrap();
    assert_eq!(code(persist(&world, &shadow, "s", false, 2)), ErrorCode::Invalid);
    put(&owner, b"two");
    persist(&world, &shadow, "s", false, 2).unwrap();
    assert_eq!(read_all(&world.rt, &followed, 0), [b"one".to_vec(), b"two".to_vec()]);
    drop((owner, followed, shadow));
    world.rt.block_on(engine.close()).unwrap();
    drop(engine);

    let engine = world.engine();
    let opened = open_shadow(&world, &engine);
    assert_eq!(opened.description.cursors[0].mark_delete_end, Offset::new(2));
    assert_eq!(opened.stream.state().end, Offset::ZERO, "nothing was stored in it");
    world.rt.block_on(engine.close()).unwrap();
}

#[test]
fn l14_a_stream_follows_one_other_and_a_reading_handle_follows_none() {
    let world = World::new();
    let engine = world.engine();
    let owner = world.ledger(&engine).stream;
    let followed = source(&world, &engine);
    let shadow = open_shadow(&world, &engine).stream;
    shadow.follow(&followed).unwrap();
    shadow.follow(&owner).unwrap();
    let third = world.rt.block_on(engine.open_ledger(create("a/third"))).unwrap().stream;
    assert_eq!(code(shadow.follow(&third)), ErrorCode::Invalid);
    assert_eq!(code(followed.follow(&third)), ErrorCode::Invalid);
    world.rt.block_on(engine.close()).unwrap();
}

#[test]
fn a_source_that_is_deleted_closes_the_handle_that_is_followed_and_leaves_the_cursors() {
    let world = World::new();
    let engine = world.engine();
    put(&world.ledger(&engine).stream, b"one");
    let followed = source(&world, &engine);
    let shadow = open_shadow(&world, &engine).stream;
    shadow.follow(&followed).unwrap();
    persist(&world, &shadow, "s", true, 1).unwrap();
    world.rt.block_on(engine.delete_ledger(NAME)).unwrap();
    let read = world.rt.block_on(followed.read(crate::stream::suite::request(0)));
    assert_eq!(code(read), ErrorCode::Closed);
    assert_eq!(world.rt.block_on(shadow.list_cursors()).unwrap().len(), 1);
    world.rt.block_on(engine.close()).unwrap();
}

#[test]
fn what_reads_and_syncs_cost_is_counted() {
    let world = World::new();
    let engine = world.engine();
    let stream = world.ledger(&engine).stream;
    put(&stream, b"one");
    let state = world.rt.block_on(engine.state()).unwrap();
    assert!(state.journal.stats.syncs > 0 && state.journal.stats.sync_nanos > 0);
    read_all(&world.rt, &stream, 0);
    let tail = engine.reads().tail;
    assert!(tail > 0, "the tail cache had it");
    read_all(&world.rt, &source(&world, &engine), 0);
    let reads = world.rt.block_on(engine.state()).unwrap().reads;
    assert_eq!((reads.tail, reads.reads), (tail, 1), "the log was asked, once");
    world.rt.block_on(engine.close()).unwrap();
}
