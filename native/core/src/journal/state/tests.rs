//! The state against plain maps: whatever is published, frozen, brought down or crashed in between, readers see the sum.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::journal::backend::ModelBackend;
use crate::record::Key;
use crate::types::CommitVersion;

const STREAM: StreamId = StreamId::new(9);
const START: Position = Position {
    segment: 1,
    offset: 4096,
    sequence: 1,
    versions: 0,
};

fn table(backend: &ModelBackend) -> StateTable {
    match StateTable::load(Arc::new(backend.clone()), 7, "here").unwrap() {
        Some(table) => table,
        None => StateTable::create(Arc::new(backend.clone()), 7, "here", START).unwrap(),
    }
}

fn key(n: u64) -> Key {
    Key::trim_mark(STREAM, Offset::new(n))
}

fn head(version: u64) -> StreamHead {
    let mut head = StreamHead::new(STREAM, Incarnation::new(1), 5);
    head.version = CommitVersion::new(version);
    head
}

fn put(n: u64, version: u64) -> (Key, Option<Versioned>) {
    (
        key(n),
        Some(Versioned {
            value: Bytes::from(format!("{n}/{version}")),
            version: Version(version),
        }),
    )
}

/// One step of a run.
#[derive(Debug, Clone)]
enum Step {
    Put(u64),
    Remove(u64),
    Head,
    DropHead,
    Freeze,
    WriteFrozen,
    FailWrite,
    Crash(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u64..8).prop_map(Step::Put),
        3 => (0u64..8).prop_map(Step::Remove),
        2 => Just(Step::Head),
        1 => Just(Step::DropHead),
        2 => Just(Step::Freeze),
        2 => Just(Step::WriteFrozen),
        1 => Just(Step::FailWrite),
        1 => (0usize..4).prop_map(Step::Crash),
    ]
}

type Model = (BTreeMap<Key, Versioned>, Option<u64>);

fn check(table: &StateTable, model: &Model) {
    let (keys, version) = model;
    for n in 0..8 {
        assert_eq!(table.get(&key(n)).unwrap().as_ref(), keys.get(&key(n)), "key {n}");
        if let Some(known) = table.get_in_memory(&key(n)) {
            assert_eq!(known.unwrap().as_ref(), keys.get(&key(n)), "key {n} in memory");
        }
    }
    let all: Vec<(Key, Versioned)> = keys.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    let (from, to) = Key::stream_range(RecordType::TrimMark, STREAM);
    assert_eq!(table.scan(&from, &to, 100).unwrap(), all);
    assert_eq!(table.scan(&from, &to, 3).unwrap(), all[..all.len().min(3)]);
    assert_eq!(table.last(&from, &to).unwrap().as_ref(), all.last());
    let inside: Vec<_> = all
        .iter()
        .filter(|(found, _)| *found >= key(2) && *found < key(6))
        .cloned()
        .collect();
    assert_eq!(table.scan(&key(2), &key(6), 100).unwrap(), inside);
    assert_eq!(table.last(&key(2), &key(6)).unwrap().as_ref(), inside.last());
    let found = table
        .head(STREAM)
        .unwrap()
        .map(|cell| cell.with(|head| head.unwrap().version.get()));
    assert_eq!(found, *version);
    let record = table
        .get(&Key::stream_head(STREAM))
        .unwrap()
        .map(|record| record.version.0);
    assert_eq!(record, *version);
    let (from, to) = Key::stream_range(RecordType::StreamHead, STREAM);
    assert_eq!(table.scan(&from, &to, 5).unwrap().len(), usize::from(version.is_some()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn readers_see_the_sum_of_all_updates_and_a_crash_leaves_the_sum_of_a_prefix(steps in proptest::collection::vec(step(), 1..60)) {
        let mut backend = ModelBackend::default();
        let mut state = table(&backend);
        let mut model: Model = Default::default();
        // What the state was at each position.
        let mut history: BTreeMap<u64, Model> = BTreeMap::from([(1, model.clone())]);
        for step in steps {
            let position = state.position();
            let next = Position { sequence: position.sequence + 1, versions: position.versions + 1, ..position };
            let mut update = Update::default();
            match step {
                Step::Put(n) => {
                    let (key, value) = put(n, next.versions);
                    model.0.insert(key.clone(), value.clone().unwrap());
                    update.keys.push((key, value));
                }
                Step::Remove(n) => {
                    model.0.remove(&key(n));
                    update.keys.push((key(n), None));
                }
                Step::Head => {
                    model.1 = Some(next.versions);
                    update.heads.push((STREAM, HeadUpdate::set(Some(head(next.versions)))));
                }
                Step::DropHead => {
                    model.1 = None;
                    update.heads.push((STREAM, HeadUpdate::set(None)));
                }
                Step::Freeze => {
                    state.freeze();
                }
                Step::WriteFrozen => state.write_frozen().unwrap(),
                Step::FailWrite => {
                    backend.fail_writes(Some("no"));
                    let _ = state.write_frozen();
                    backend.fail_writes(None);
                }
                Step::Crash(survivors) => {
                    backend = backend.after_crash(survivors);
                    state = table(&backend);
                    model = history[&state.position().sequence].clone();
                    history.retain(|sequence, _| *sequence <= state.position().sequence);
                }
            }
            if !(update.keys.is_empty() && update.heads.is_empty()) {
                state.publish(update, next);
                history.insert(next.sequence, model.clone());
            }
            check(&state, &model);
        }
    }
}

#[test]
fn a_head_read_while_it_moves_is_the_same_cell_for_both() {
    let backend = ModelBackend::default();
    let state = table(&backend);
    state.publish(
        Update {
            heads: vec![(STREAM, HeadUpdate::set(Some(head(1))))],
            ..Update::default()
        },
        START,
    );
    assert!(state.freeze());
    state.write_frozen().unwrap();
    assert_eq!(state.heads_in_memory(), 0);
    let first = state.head(STREAM).unwrap().unwrap();
    state.publish(
        Update {
            heads: vec![(STREAM, HeadUpdate::set(Some(head(2))))],
            ..Update::default()
        },
        START,
    );
    assert!(Arc::ptr_eq(&first, &state.cell(STREAM).unwrap().unwrap()));
    assert_eq!(first.with(|head| head.unwrap().version.get()), 2);
}

#[test]
fn damage_refuses_its_scope_and_everything_is_a_scope_too() {
    let backend = ModelBackend::default();
    let state = table(&backend);
    let damage = || Damage {
        segment: 3,
        position: 8192,
        detail: "gone".into(),
    };
    state.mark_damaged(Some(Some(STREAM)), damage());
    let error = state.head(STREAM).err().unwrap();
    assert!(matches!(error, Error::Corrupt { .. }));
    assert!(
        error.to_string().contains("0000000000000003") && error.to_string().contains("8192"),
        "{error}"
    );
    assert!(state.get(&key(1)).is_err());
    assert!(state.scan(&key(1), &key(2), 5).is_err());
    assert!(state.get(&Key::ledger_grant()).unwrap().is_none());
    assert!(state.needs(STREAM, Offset::ZERO), "a damaged stream keeps its bytes");
    assert!(state.freeze());
    state.write_frozen().unwrap();
    let state = table(&backend.after_crash(0));
    assert!(state.get(&key(1)).is_err(), "damage outlives its frames");
    state.mark_damaged(None, damage());
    assert!(state.head(StreamId::new(1)).is_err());
    assert!(state.get(&Key::ledger_grant()).is_err());
}

#[test]
fn uses_of_a_segment_are_merged_over_all_layers() {
    let backend = ModelBackend::default();
    let state = table(&backend);
    let stream = StreamId::new;
    let used = |segment, n, end| Update {
        uses: vec![(segment, stream(n), Offset::new(end))],
        ..Update::default()
    };
    state.publish(used(1, 1, 10), START);
    assert!(state.freeze());
    state.write_frozen().unwrap();
    state.publish(used(1, 1, 20), START);
    state.publish(used(1, 2, 5), START);
    assert!(state.freeze());
    state.publish(used(2, 3, 7), START);
    let found: Vec<_> = state.uses(1).unwrap().into_iter().collect();
    assert_eq!(found, [(stream(1), Offset::new(20)), (stream(2), Offset::new(5))]);
    state.forget_uses(1, [stream(1), stream(2)].into_iter());
    assert!(state.uses(1).unwrap().is_empty());
    state.write_frozen().unwrap();
    assert!(state.freeze());
    state.write_frozen().unwrap();
    assert!(state.uses(1).unwrap().is_empty());
    assert_eq!(state.uses(2).unwrap().len(), 1);
}
