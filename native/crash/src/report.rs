//! What a child finds after the open: every topic with every entry, read from the files.

use nereus_core::engine::{Engine, OpenLedger};
use nereus_core::stream::{ReadRequest, Stream};
use nereus_core::types::{Offset, ReadView};
use nereus_core::{Error, Result};

use crate::acks::Acks;
use crate::child::Pipe;
use crate::content;
use crate::event::{Event, Found, Topic};

/// Entries in one line.
const ENTRIES: u32 = 200;

/// A topic that is there, as it was found.
pub struct FoundLife {
    /// Its handle.
    pub stream: Stream,
    /// Number in its properties.
    pub properties: u64,
    /// Its cursors.
    pub cursors: Vec<(String, Acks)>,
}

/// The name of a topic.
pub fn name(topic: Topic) -> String {
    format!("public/default/persistent/crash-{topic}")
}

/// Opens a topic for writing and reports it wholly.
pub async fn report(engine: &Engine, topic: Topic, pipe: &Pipe) -> Result<Option<FoundLife>> {
    let tell = |found| pipe.send(&Event::Found(topic, found));
    let request = OpenLedger {
        name: name(topic),
        ..OpenLedger::default()
    };
    let opened = match engine.open_ledger(request).await {
        Err(Error::NotFound { .. }) => {
            tell(Found::Absent);
            tell(Found::Whole);
            return Ok(None);
        }
        opened => opened?,
    };
    let (stream, description) = (opened.stream, opened.description);
    let properties = description
        .properties
        .get("n")
        .and_then(|n| n.parse().ok())
        .unwrap_or(0);
    let (trim, end) = (description.state.trim.get(), description.state.end.get());
    tell(Found::Life {
        ledger: description.projection.first.get(),
        trim,
        end,
        properties,
    });
    let mut offset = trim;
    while offset < end {
        let ids = read(&stream, offset, ENTRIES).await?;
        let count = ids.len() as u64;
        if count == 0 {
            pipe.wrong(format!("topic {topic}: nothing is read at {offset}, the end is {end}"));
            break;
        }
        tell(Found::Entries { offset, ids });
        offset = offset.saturating_add(count);
    }
    let mut cursors = Vec::new();
    for state in &description.cursors {
        match Acks::read(state) {
            Ok(acks) => {
                tell(Found::Cursor {
                    name: state.name.clone(),
                    acks: acks.clone(),
                });
                cursors.push((state.name.clone(), acks));
            }
            Err(why) => pipe.wrong(format!("topic {topic}: cursor {} is unreadable: {why}", state.name)),
        }
    }
    tell(Found::Whole);
    Ok(Some(FoundLife {
        stream,
        properties,
        cursors,
    }))
}

/// The ids of the entries from `start` on.
///
/// # Errors
/// Those of the read, and `Corrupt` when an entry is not as it was written, or not where it was asked for.
pub async fn read(stream: &Stream, start: u64, most: u32) -> Result<Vec<u64>> {
    let batch = stream
        .read(ReadRequest {
            view: ReadView::Committed,
            start: Offset::new(start),
            max_entries: most,
            max_bytes: 4 << 20,
            up_to: Offset::MAX,
        })
        .await?;
    let corrupt = |offset: u64, detail: &str| Error::Corrupt {
        what: format!("stream {}", stream.id()),
        place: format!("offset {offset}"),
        detail: detail.into(),
    };
    let mut ids = Vec::with_capacity(batch.entries.len());
    for (read, expected) in batch.entries.iter().zip(start..) {
        if read.offset.get() != expected {
            return Err(corrupt(expected, "a read gave another offset"));
        }
        let id = content::id(&read.entry).ok_or_else(|| corrupt(expected, "a read gave wrong bytes"))?;
        ids.push(id);
    }
    Ok(ids)
}
