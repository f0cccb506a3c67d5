//! What an old owner may still do: nothing. Shared by the tests of everything that can take a stream over.

use std::collections::BTreeMap;

use tokio::runtime::Runtime;

use super::marks_suite::{entries, none_above};
use super::suite::{acked, append, outcome, put, update};
use super::Stream;
use crate::commit::AppendOutcome;
use crate::error::{Error, Result};
use crate::metadata::{MetadataStore, Versioned};
use crate::record::key::STREAM_KINDS;
use crate::record::Key;
use crate::types::{Offset, StreamId};

/// Gives a stream something of every kind that an old owner could spoil.
pub(crate) fn furnish(rt: &Runtime, stream: &Stream) {
    stream.set_rollover(entries(8)).unwrap();
    for n in 0..60u8 {
        put(stream, &[n; 10]);
    }
    let keep_all = super::Retention {
        max_age_millis: None,
        max_bytes: None,
        ..none_above(0, 0)
    };
    rt.block_on(async {
        stream.retain(keep_all).await.unwrap();
        stream.trim(Offset::new(5)).await.unwrap();
        stream
            .persist_cursor(update("c", true, 6, vec![acked(0, [9])]))
            .await
            .unwrap();
        let properties = BTreeMap::from([("k".to_owned(), "v".to_owned())]);
        stream.set_properties(properties).await.unwrap();
    });
}

/// Everything an owner can ask for, by name, and how it ended.
type Operation = (&'static str, fn(&Runtime, &Stream) -> Result<()>);

pub(crate) const OPERATIONS: [Operation; 11] = [
    ("append", |_, stream| late_append(stream)),
    ("trim", |rt, stream| rt.block_on(stream.trim(Offset::new(20))).map(drop)),
    ("truncate", |rt, stream| rt.block_on(stream.truncate()).map(drop)),
    ("retain", |rt, stream| {
        rt.block_on(stream.retain(none_above(60, u64::MAX >> 1))).map(drop)
    }),
    ("terminate", |rt, stream| rt.block_on(stream.terminate()).map(drop)),
    ("set properties", |rt, stream| {
        rt.block_on(stream.set_properties(BTreeMap::from([("late".to_owned(), String::new())])))
    }),
    ("persist a cursor", |rt, stream| {
        rt.block_on(stream.persist_cursor(update("c", false, 30, vec![acked(0, [40])])))
    }),
    ("replace a cursor", |rt, stream| {
        let full = crate::cursor::CursorUpdate {
            full: true,
            ..update("c", false, 30, vec![])
        };
        rt.block_on(stream.persist_cursor(full))
    }),
    ("create a cursor", |rt, stream| {
        rt.block_on(stream.persist_cursor(update("d", true, 30, vec![])))
    }),
    ("delete a cursor", |rt, stream| rt.block_on(stream.delete_cursor("c"))),
    // An owner that has not heard of its successor has nothing to resume: the append behind it tells.
    ("resume", |_, stream| stream.resume().and_then(|()| late_append(stream))),
];

fn late_append(stream: &Stream) -> Result<()> {
    match outcome(&append(stream, b"late")?.1) {
        AppendOutcome::NotCommitted(error) => Err(error),
        other => panic!("{other:?}"),
    }
}

/// Everything stored of a stream.
pub(crate) fn stored(rt: &Runtime, store: &dyn MetadataStore, stream: StreamId) -> Vec<(Key, Versioned)> {
    let all = STREAM_KINDS.iter().flat_map(|kind| {
        let (from, to) = Key::stream_range(*kind, stream);
        rt.block_on(store.scan(from, to, 10_000)).unwrap()
    });
    all.collect()
}

/// Has the old owner try everything, beginning with operation `first`: each attempt is refused as fenced by the new owner.
pub(crate) fn refuse_all(rt: &Runtime, old: &Stream, new: &Stream, first: usize) {
    for (name, operation) in OPERATIONS.iter().cycle().skip(first).take(2 * OPERATIONS.len()) {
        match operation(rt, old) {
            Err(Error::Fenced { by_epoch, .. }) => assert_eq!(Some(by_epoch), new.owner_epoch(), "{name}"),
            other => panic!("{name} of the old owner ended as {other:?}"),
        }
    }
}

/// The new owner does all of it.
pub(crate) fn use_all(rt: &Runtime, new: &Stream) {
    let end = new.state().end;
    assert_eq!(put(new, b"new"), end);
    let undisturbed = [
        "retain",
        "set properties",
        "persist a cursor",
        "create a cursor",
        "delete a cursor",
        "trim",
        "truncate",
    ];
    for name in undisturbed {
        let (_, operation) = OPERATIONS.iter().find(|(known, _)| *known == name).expect(name);
        operation(rt, new).unwrap_or_else(|error| panic!("{name} of the new owner: {error}"));
    }
    assert_eq!(put(new, b"newer").get(), end.get() + 1);
    rt.block_on(new.terminate()).unwrap();
}
