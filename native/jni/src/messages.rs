//! The messages of the border, field by field. The Java side has the same order in its own file of that name.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bytes::Bytes;
use nereus_core::cursor::{AckPage, CursorState, CursorUpdate};
use nereus_core::engine::{Config, EngineState, LedgerDescription, OpenLedger};
use nereus_core::journal::{Holder, Oldest};
use nereus_core::stream::{ReadBatch, SpanInfo};
use nereus_core::types::Offset;
use nereus_core::{Error, ErrorCode, Result};

use crate::wire::{Reader, Writer};

/// Flags of a cursor update.
const FLAG_CREATE: u8 = 1;
const FLAG_POSITION_PROPERTIES: u8 = 2;
const FLAG_CURSOR_PROPERTIES: u8 = 4;
const FLAG_FULL: u8 = 8;

/// Who keeps the oldest segment of the journal.
const HELD_BY_NOBODY: u8 = 0;
const HELD_BY_LEDGER: u8 = 1;
const HELD_BY_READER: u8 = 2;
const HELD_BY_DAMAGE: u8 = 3;
const HELD_BY_CHECKPOINT: u8 = 4;

/// Least bytes of a page, a batch, a word: bounds for counts.
const LEAST_PAGE: usize = 16;
const LEAST_BATCH: usize = 8;
const LEAST_WORD: usize = 8;

/// The error table: list of (code, name), success included.
pub fn error_table() -> Result<Bytes> {
    let mut out = Writer::default();
    out.count(ErrorCode::ALL.len() + 1);
    out.i32(0);
    out.string("OK");
    for (code, name) in ErrorCode::ALL {
        out.i32(*code as i32);
        out.string(name);
    }
    out.finish("the error table")
}

/// Settings of an engine.
pub fn config(message: Vec<u8>) -> Result<Config> {
    let mut reader = Reader::new("engine settings", message);
    let mut values = reader.string_map()?;
    reader.finish()?;
    let config = Config {
        data_directory: PathBuf::from(take(&mut values, "dataDirectory")?),
        cluster_name: take(&mut values, "clusterName")?,
        owner: take(&mut values, "brokerId")?,
        memory_limit: number(&mut values, "memoryLimitBytes")?,
        publish_buffer: number(&mut values, "publishBufferBytes")?,
        segment_bytes: number(&mut values, "segmentBytes")?,
        max_entry: number(&mut values, "maxEntryBytes")?,
        accept_older_copy: switch(&mut values, "acceptOlderCopy")?,
    };
    match values.keys().next() {
        None => Ok(config),
        Some(key) => Err(Error::Invalid {
            what: format!("engine setting {key} is not known to the native side"),
        }),
    }
}

fn take(values: &mut BTreeMap<String, String>, key: &str) -> Result<String> {
    match values.remove(key) {
        Some(value) if !value.is_empty() => Ok(value),
        _ => Err(Error::Invalid {
            what: format!("engine setting {key} is missing or empty"),
        }),
    }
}

fn number<T: TryFrom<u64>>(values: &mut BTreeMap<String, String>, key: &str) -> Result<T> {
    let text = take(values, key)?;
    let value = text.parse::<u64>().ok().and_then(|value| T::try_from(value).ok());
    value.ok_or_else(|| Error::Invalid {
        what: format!("engine setting {key}={text} is not a number in its range"),
    })
}

fn switch(values: &mut BTreeMap<String, String>, key: &str) -> Result<bool> {
    match take(values, key)?.as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        other => Err(Error::Invalid {
            what: format!("engine setting {key}={other}: allowed are true and false"),
        }),
    }
}

/// A request to open a ledger.
pub fn open_ledger(message: Vec<u8>) -> Result<OpenLedger> {
    let mut reader = Reader::new("request to open a ledger", message);
    let request = OpenLedger {
        name: reader.string()?,
        create_if_missing: reader.boolean()?,
        properties: reader.string_map()?,
        profile: reader.string()?,
    };
    reader.finish()?;
    Ok(request)
}

/// A map of properties.
pub fn properties(message: Vec<u8>) -> Result<BTreeMap<String, String>> {
    let mut reader = Reader::new("map of properties", message);
    let map = reader.string_map()?;
    reader.finish()?;
    Ok(map)
}

/// A bare name.
pub fn name(message: Vec<u8>) -> Result<String> {
    String::from_utf8(message).map_err(|e| Error::Invalid {
        what: format!("the name from Java is not UTF-8: {e}"),
    })
}

/// A change of a cursor.
pub fn cursor_update(message: Vec<u8>) -> Result<CursorUpdate> {
    let mut reader = Reader::new("cursor update", message);
    let name = reader.string()?;
    let flags = reader.u8()?;
    if flags & !(FLAG_CREATE | FLAG_POSITION_PROPERTIES | FLAG_CURSOR_PROPERTIES | FLAG_FULL) != 0 {
        return Err(reader.malformed(format!("it has unknown flags {flags:#x}")));
    }
    let given = |flag: u8| flags & flag != 0;
    let mark_delete_end = Offset::new(reader.u63()?);
    let position_properties = given(FLAG_POSITION_PROPERTIES)
        .then(|| reader.number_map())
        .transpose()?;
    let cursor_properties = given(FLAG_CURSOR_PROPERTIES).then(|| reader.string_map()).transpose()?;
    let count = reader.count(LEAST_PAGE)?;
    let mut pages = Vec::with_capacity(count);
    for _ in 0..count {
        pages.push(read_page(&mut reader)?);
    }
    reader.finish()?;
    Ok(CursorUpdate {
        name,
        create: given(FLAG_CREATE),
        full: given(FLAG_FULL),
        mark_delete_end,
        position_properties,
        cursor_properties,
        pages,
    })
}

fn read_page(reader: &mut Reader) -> Result<AckPage> {
    let mut page = AckPage {
        page_no: reader.u63()?,
        acked: reader.bytes()?,
        ..AckPage::default()
    };
    for _ in 0..reader.count(LEAST_BATCH)? {
        let low = reader.i32()?;
        let low = u16::try_from(low).map_err(|_| reader.malformed(format!("{low} is no low half of an offset")))?;
        let count = reader.count(LEAST_WORD)?;
        let mut words = Vec::with_capacity(count);
        for _ in 0..count {
            words.push(reader.i64()?);
        }
        page.batches.insert(low, words);
    }
    Ok(page)
}

/// What is known of a ledger.
pub fn description(ledger: &LedgerDescription) -> Result<Bytes> {
    let mut out = Writer::default();
    out.u63(ledger.projection.first.get());
    out.u31(ledger.projection.span_bits.get());
    out.u63(ledger.incarnation.get());
    out.u63(ledger.owner_epoch.get());
    out.u63(ledger.created_millis);
    out.u63(ledger.state.trim.get());
    out.u63(ledger.state.end.get());
    out.u63(ledger.state.entries);
    out.u63(ledger.state.bytes);
    out.boolean(ledger.state.terminated);
    out.u63(ledger.state.last_append_millis);
    out.string_map(&ledger.properties);
    out.count(ledger.spans.len());
    for span in &ledger.spans {
        write_span(&mut out, span);
    }
    out.count(ledger.cursors.len());
    for cursor in &ledger.cursors {
        write_cursor(&mut out, cursor);
    }
    out.finish("the description of a ledger")
}

fn write_span(out: &mut Writer, span: &SpanInfo) {
    out.u63(span.first_offset.get());
    out.u63(span.entries);
    out.u63(span.bytes);
    out.u63(span.first_append_millis);
    out.u63(span.last_append_millis);
}

fn write_cursor(out: &mut Writer, cursor: &CursorState) {
    out.string(&cursor.name);
    out.u63(cursor.mark_delete_end.get());
    out.number_map(&cursor.position_properties);
    out.string_map(&cursor.cursor_properties);
    out.count(cursor.pages.len());
    for page in &cursor.pages {
        write_page(out, page);
    }
}

fn write_page(out: &mut Writer, page: &AckPage) {
    out.u63(page.page_no);
    out.bytes(&page.acked);
    out.count(page.batches.len());
    for (low, words) in &page.batches {
        out.i32(i32::from(*low));
        out.count(words.len());
        for word in words {
            out.i64(*word);
        }
    }
}

/// An engine at one moment.
pub fn engine_state(state: &EngineState, streams: usize, blobs: usize) -> Result<Bytes> {
    let mut out = Writer::default();
    let EngineState { journal, memory, reads } = state;
    out.string(&journal.poison.as_ref().map(Error::to_string).unwrap_or_default());
    for number in [journal.segments, journal.free_segments] {
        out.u63(number as u64);
    }
    out.u63(journal.bytes);
    out.u63(journal.free_bytes);
    let (segment, kind, ledger) = match &journal.oldest {
        None => (0, HELD_BY_NOBODY, String::new()),
        Some(Oldest { segment, holder }) => match holder {
            Holder::Stream { stream, ledger } => {
                let name = ledger.clone().unwrap_or_else(|| stream.to_string());
                (*segment, HELD_BY_LEDGER, name)
            }
            Holder::Reader => (*segment, HELD_BY_READER, String::new()),
            Holder::Damage => (*segment, HELD_BY_DAMAGE, String::new()),
            Holder::Checkpoint => (*segment, HELD_BY_CHECKPOINT, String::new()),
        },
    };
    out.u63(segment);
    out.u8(kind);
    out.string(&ledger);
    out.u63(journal.checkpoint_age_millis);
    let stats = &journal.stats;
    for number in [
        stats.replay_bytes,
        stats.checkpoints,
        stats.failed_checkpoints,
        stats.frames,
        stats.syncs,
        stats.sync_nanos,
        stats.bytes,
        stats.removed_segments,
        stats.kept_segments,
        stats.replayed_frames,
        stats.recovery_millis,
    ] {
        out.u63(number);
    }
    out.count(memory.len());
    for (name, used, limit) in memory {
        out.string(name);
        out.u63(*used);
        out.u63(*limit);
    }
    for number in [
        reads.tail,
        reads.hits,
        reads.joined,
        reads.reads,
        reads.bytes,
        reads.ahead,
        reads.ahead_wasted,
        reads.ahead_held,
        reads.waiting,
        streams as u64,
        blobs as u64,
    ] {
        out.u63(number);
    }
    out.finish("the state of an engine")
}

/// A batch of entries: the header (offset and length of each), then the entries themselves, not copied here.
pub fn batch(batch: ReadBatch) -> Result<Vec<Bytes>> {
    let mut header = Writer::default();
    for entry in &batch.entries {
        header.u63(entry.offset.get());
        header.count(entry.entry.len());
    }
    let mut parts = Vec::with_capacity(batch.entries.len() + 1);
    parts.push(header.finish("the header of a read")?);
    parts.extend(batch.entries.into_iter().map(|entry| entry.entry));
    Ok(parts)
}

/// A request to the broker's metadata store.
pub fn metadata_request(op: u8, path: &str, expected: i64, value: &[u8]) -> Result<Bytes> {
    let mut out = Writer::default();
    out.u8(op);
    out.string(path);
    out.i64(expected);
    out.bytes(value);
    out.finish("a metadata request")
}

/// The names of a listing.
pub fn children(message: Bytes) -> Result<Vec<String>> {
    let mut reader = Reader::new("list of children", message);
    let count = reader.count(4)?;
    let mut names = Vec::with_capacity(count);
    for _ in 0..count {
        names.push(reader.string()?);
    }
    reader.finish()?;
    Ok(names)
}

/// A log event.
pub fn log_event(target: &str, text: &str) -> Result<Bytes> {
    let mut out = Writer::default();
    out.string(target);
    out.string(text);
    out.finish("a log event")
}

#[cfg(test)]
#[path = "messages_fuzz.rs"]
mod fuzz;

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(change: impl FnOnce(&mut BTreeMap<String, String>)) -> Result<Config> {
        let mut values: BTreeMap<String, String> = [
            ("dataDirectory", "/d"),
            ("clusterName", "c"),
            ("brokerId", "b"),
            ("memoryLimitBytes", "1"),
            ("publishBufferBytes", "2"),
            ("segmentBytes", "3"),
            ("maxEntryBytes", "4"),
            ("acceptOlderCopy", "true"),
        ]
        .into_iter()
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .collect();
        change(&mut values);
        let mut out = Writer::default();
        out.string_map(&values);
        config(out.finish("test")?.to_vec())
    }

    #[test]
    fn settings_are_taken_whole_or_refused_by_name() {
        let config = settings(|_| ()).unwrap();
        assert_eq!(
            (
                config.memory_limit,
                config.segment_bytes,
                config.max_entry,
                config.accept_older_copy
            ),
            (1, 3, 4, true)
        );
        let named = |key: &str, value: Option<&str>| {
            let error = settings(|values| {
                values.remove(key);
                if let Some(value) = value {
                    values.insert(key.to_owned(), value.to_owned());
                }
            });
            let text = error.err().unwrap().to_string();
            assert!(text.contains(key), "{text}");
        };
        named("dataDirectory", None);
        named("clusterName", Some(""));
        named("maxEntryBytes", Some("4294967296"));
        named("segmentBytes", Some("-1"));
        named("acceptOlderCopy", Some("yes"));
        named("surprise", Some("1"));
    }

    fn update_message(flags: u8, low: i32) -> Vec<u8> {
        let mut out = Writer::default();
        out.string("cursor");
        out.u8(flags);
        out.i64(70_000);
        if flags & FLAG_POSITION_PROPERTIES != 0 {
            out.number_map(&BTreeMap::from([("p".to_owned(), -1)]));
        }
        if flags & FLAG_CURSOR_PROPERTIES != 0 {
            out.string_map(&BTreeMap::new());
        }
        out.count(1);
        out.i64(1);
        out.bytes(b"bitmap");
        out.count(1);
        out.i32(low);
        out.count(2);
        out.i64(-1);
        out.i64(5);
        out.finish("test").unwrap().to_vec()
    }

    #[test]
    fn a_cursor_update_tells_unchanged_from_empty() {
        let update = cursor_update(update_message(FLAG_CREATE | FLAG_CURSOR_PROPERTIES, 9)).unwrap();
        assert!(update.create && !update.full);
        assert_eq!(update.position_properties, None);
        assert_eq!(update.cursor_properties, Some(BTreeMap::new()));
        assert_eq!(update.pages[0].batches, BTreeMap::from([(9, vec![-1, 5])]));
        let update = cursor_update(update_message(FLAG_FULL | FLAG_POSITION_PROPERTIES, 65_535)).unwrap();
        assert!(!update.create && update.full);
        assert_eq!(update.position_properties.unwrap().get("p"), Some(&-1));
    }

    #[test]
    fn a_damaged_cursor_update_is_refused_at_every_cut() {
        let whole = update_message(FLAG_FULL | FLAG_POSITION_PROPERTIES | FLAG_CURSOR_PROPERTIES, 9);
        for end in 0..whole.len() {
            assert!(cursor_update(whole[..end].to_vec()).is_err(), "cut at {end}");
        }
        assert!(cursor_update(update_message(16, 9)).is_err());
        assert!(cursor_update(update_message(0, 65_536)).is_err());
        assert!(cursor_update(update_message(0, -1)).is_err());
    }

    #[test]
    fn the_error_table_names_every_code_once() {
        let mut reader = Reader::new("test", error_table().unwrap());
        let count = reader.count(8).unwrap();
        for expected in 0..count {
            assert_eq!(usize::try_from(reader.i32().unwrap()).unwrap(), expected);
            assert!(!reader.string().unwrap().is_empty());
        }
        assert_eq!(count, 16);
    }

    #[test]
    fn a_batch_is_header_then_entries() {
        let entry = |offset: u64, bytes: &'static [u8]| nereus_core::stream::ReadEntry {
            offset: Offset::new(offset),
            entry: Bytes::from_static(bytes),
        };
        let parts = batch(ReadBatch {
            entries: vec![entry(7, b"ab"), entry(8, b"")],
            ..ReadBatch::default()
        })
        .unwrap();
        let expected = [
            &[0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 2][..],
            &[0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0][..],
            b"ab",
        ]
        .concat();
        assert_eq!(parts.concat(), expected);
    }
}
