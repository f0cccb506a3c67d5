//! Creations that arrive after their cursor was deleted, withdrawn, or made by somebody else.

use super::*;
use crate::record::{CursorRoot, Record};

/// A creation whose first copy is late: the second one did it.
fn create_with_a_late_copy(world: &World, cursors: &Arc<Cursors>, pages: Vec<AckPage>) {
    world.faults.nth(1 + pages.len() as u64, Fault::Late);
    world.rt.block_on(cursors.persist(update("a", true, 1, pages))).unwrap();
}

fn read(world: &World) -> Vec<CursorState> {
    world.rt.block_on(read_all(&world.store, STREAM)).unwrap()
}

fn root(world: &World) -> CursorRoot {
    let key = world.keys(RecordType::CursorRoot).remove(0);
    let stored = world.rt.block_on(world.store.get(key.clone())).unwrap().unwrap();
    CursorRoot::decode(&key, &stored.value).unwrap()
}

#[test]
fn l15_late_copy_of_a_creation_never_revives_a_deleted_cursor() {
    for pages in [vec![], vec![acked(0, [5])]] {
        let mut world = World::new();
        let (cursors, _) = world.open().unwrap();
        create_with_a_late_copy(&world, &cursors, pages);
        world.rt.block_on(cursors.delete("a")).unwrap();
        world.rt.block_on(world.faults.arrive());
        assert_eq!(read(&world), []);
        assert_eq!(
            code(world.rt.block_on(cursors.persist(update("a", false, 2, vec![])))),
            ErrorCode::NotFound
        );
        assert_eq!(code(world.rt.block_on(cursors.delete("a"))), ErrorCode::NotFound);

        let (cursors, states) = world.open().unwrap();
        assert_eq!(states, []);
        world.shrinks_to(RecordType::CursorPage, 0);
        let tombstone = root(&world);
        assert!(tombstone.deleted);
        assert_eq!(tombstone.owner_epoch, OwnerEpoch::new(2), "claimed like any other root");

        world
            .rt
            .block_on(cursors.persist(update("a", true, 3, vec![])))
            .unwrap();
        assert!(root(&world).ack_epoch > tombstone.ack_epoch);
        assert_eq!(read(&world)[0].mark_delete_end, Offset::new(3));
        assert_eq!(
            code(world.rt.block_on(cursors.persist(update("a", true, 4, vec![])))),
            ErrorCode::AlreadyExists
        );
    }
}

#[test]
fn l15_late_creation_over_a_tombstone_never_revives_a_deleted_cursor() {
    let mut world = World::new();
    let (cursors, _) = world.open().unwrap();
    world
        .rt
        .block_on(cursors.persist(update("a", true, 1, vec![])))
        .unwrap();
    for _ in 0..3 {
        world.rt.block_on(cursors.delete("a")).unwrap();
        // Forgotten by the owner and found again as what keeps the key.
        world.faults.nth(2, Fault::Late);
        world
            .rt
            .block_on(cursors.persist(update("a", true, 1, vec![])))
            .unwrap();
    }
    world.faults.next(Fault::LoseAnswer);
    world.rt.block_on(cursors.delete("a")).unwrap();
    world.rt.block_on(world.faults.arrive());
    assert_eq!(read(&world), []);
    assert_eq!(world.open().unwrap().1, []);
}

/// The head as another engine left it.
fn store_head(world: &World, epoch: u64) {
    let mut head = StreamHead::new(STREAM, Incarnation::new(1), 1);
    head.owner_epoch = OwnerEpoch::new(epoch);
    world.overwrite(Key::stream_head(STREAM), Some(head.encode().unwrap()));
}

#[test]
fn l05_late_copy_of_a_withdrawn_creation_never_revives_the_cursor() {
    let mut world = World::new();
    let (old, _) = world.open().unwrap();
    store_head(&world, 2);
    let (new, _) = world.claim(world.faulty(), OwnerEpoch::new(2)).unwrap();
    world.faults.next(Fault::Late);
    assert_eq!(
        code(world.rt.block_on(old.persist(update("a", true, 1, vec![])))),
        ErrorCode::Fenced
    );
    assert!(root(&world).deleted, "withdrawn into a tombstone");
    world.rt.block_on(world.faults.arrive());
    assert_eq!(read(&world), []);

    // The old owner still believes itself in office: over the tombstone it creates nothing either.
    assert_eq!(
        code(world.rt.block_on(old.persist(update("a", true, 1, vec![])))),
        ErrorCode::Fenced
    );
    assert_eq!(read(&world), []);
    world
        .cell
        .publish(|head| head.as_mut().unwrap().owner_epoch = OwnerEpoch::new(2));
    world.rt.block_on(new.persist(update("a", true, 7, vec![]))).unwrap();
    assert_eq!(read(&world)[0].mark_delete_end, Offset::new(7));
}

#[test]
fn l05_creation_of_an_old_owner_that_arrives_after_the_claim_is_no_cursor() {
    for pages in [vec![], vec![acked(0, [5])]] {
        let mut world = World::new();
        let (old, _) = world.open().unwrap();
        // The first copy is held back, the others never leave: nothing is known of the creation.
        world.faults.nth(1 + pages.len() as u64, Fault::Late);
        (2..99).for_each(|nth| world.faults.nth(nth + pages.len() as u64, Fault::Refuse));
        assert_eq!(
            code(world.rt.block_on(old.persist(update("a", true, 1, pages)))),
            ErrorCode::Unknown
        );
        world.faults.clear();
        let (new, states) = world.open().unwrap();
        assert_eq!(states, []);
        world.rt.block_on(world.faults.arrive());
        assert_eq!(
            code(world.rt.block_on(new.persist(update("a", false, 3, vec![])))),
            ErrorCode::NotFound
        );
        world.rt.block_on(new.persist(update("a", true, 3, vec![]))).unwrap();
        let (_, states) = world.open().unwrap();
        assert_eq!(states[0].mark_delete_end, Offset::new(3));
        assert_eq!(states[0].pages, []);
    }
}

/// A store on which nothing arrives late.
struct Prompt(MemoryStore);

impl MetadataStore for Prompt {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            late_writes: false,
            ..self.0.capabilities()
        }
    }
    fn get(&self, key: Key) -> BoxFuture<Result<Option<Versioned>>> {
        self.0.get(key)
    }
    fn write(&self, batch: Vec<Write>) -> BoxFuture<Vec<Verdict>> {
        self.0.write(batch)
    }
    fn scan(&self, from: Key, to: Key, limit: usize) -> BoxFuture<Result<Vec<(Key, Versioned)>>> {
        self.0.scan(from, to, limit)
    }
    fn last(&self, from: Key, to: Key) -> BoxFuture<Result<Option<(Key, Versioned)>>> {
        self.0.last(from, to)
    }
}

#[test]
fn a_deletion_leaves_nothing_where_nothing_arrives_late() {
    let mut world = World::new();
    let (cursors, _) = world.open_on(Arc::new(Prompt(world.store.clone()))).unwrap();
    world
        .rt
        .block_on(cursors.persist(update("a", true, 1, vec![])))
        .unwrap();
    world.rt.block_on(cursors.delete("a")).unwrap();
    assert!(world.keys(RecordType::CursorRoot).is_empty());
}
