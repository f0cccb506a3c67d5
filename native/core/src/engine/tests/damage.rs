//! Damage in the journal, as a whole engine shows it.

use std::path::Path;

use super::*;

const OTHER: &str = "public/default/persistent/other";
const MARK: &[u8] = b"an entry that no other looks like";

/// The files of `from` as they are now: what a killed process leaves.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        let target = to.join(file.file_name());
        match file.file_type().unwrap().is_dir() {
            true => copy(&file.path(), &target),
            false => drop(std::fs::copy(file.path(), target).unwrap()),
        }
    }
}

/// Flips a bit of [`MARK`] in the one journal segment that holds it.
fn damage(directory: &Path) {
    let mut found = 0;
    for file in std::fs::read_dir(directory.join("journal")).unwrap() {
        let path = file.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        if let Some(at) = bytes.windows(MARK.len()).position(|window| window == MARK) {
            bytes[at] ^= 1;
            std::fs::write(&path, bytes).unwrap();
            found += 1;
        }
    }
    assert_eq!(found, 1);
}

#[test]
fn l13_a_damaged_ledger_can_be_deleted_and_its_name_used_again() {
    let mut world = World::new();
    let killed = tempfile::tempdir().unwrap();
    let engine = world.engine();
    let (damaged, other) = (
        world.ledger(&engine),
        world.rt.block_on(engine.open_ledger(create(OTHER))).unwrap(),
    );
    put(&damaged.stream, b"before");
    put(&damaged.stream, MARK);
    put(&damaged.stream, b"after");
    put(&other.stream, b"another ledger's");
    copy(world.directory.path(), killed.path());
    damage(killed.path());
    world.rt.block_on(engine.close()).unwrap();

    world.directory = killed;
    let engine = world.engine();
    let reason = refused(world.open(&engine));
    assert_eq!(reason.code(), ErrorCode::Corrupt, "{reason}");
    world.rt.block_on(engine.delete_ledger(NAME)).unwrap();
    let again = world.ledger(&engine);
    let (old, new) = (&damaged.description, &again.description);
    assert!(new.incarnation > old.incarnation);
    assert!(
        new.projection.first > old.projection.position(Offset::new(3)).unwrap().0,
        "an old position means nothing"
    );
    assert_eq!(new.state.end, Offset::ZERO);
    put(&again.stream, b"anew");
    world.rt.block_on(engine.close()).unwrap();
    drop((engine, again));

    let engine = world.engine();
    assert_eq!(read_all(&world.rt, &world.ledger(&engine).stream, 0), [b"anew"]);
    let other = world.rt.block_on(engine.open_ledger(create(OTHER))).unwrap();
    assert_eq!(read_all(&world.rt, &other.stream, 0), [b"another ledger's"]);
    world.rt.block_on(engine.close()).unwrap();
}
