//! Entry points of streams.

use std::sync::Arc;

use bytes::Bytes;
use jni::objects::{JByteArray, JClass};
use jni::sys::{jint, jlong};
use jni::EnvUnowned;
use nereus_core::commit::AppendOutcome;
use nereus_core::env::BoxFuture;
use nereus_core::stream::{ReadBatch, ReadRequest, Retention, Rollover, Stream};
use nereus_core::types::{Offset, ReadView};
use nereus_core::{Error, Result};

use super::{accept, bytes_of};
use crate::host::{Host, OpenStream, STREAMS};
use crate::operation::Outbox;
use crate::{memory, messages};

fn open_stream(stream: jlong) -> Result<Arc<OpenStream>> {
    STREAMS.get(stream).ok_or_else(|| Error::Closed {
        what: "the stream".into(),
    })
}

#[no_mangle]
pub extern "system" fn Java_io_nereus_pulsar_bridge_NativeCalls_append<'l>(
    _env: EnvUnowned<'l>,
    _class: JClass<'l>,
    stream: jlong,
    op: jlong,
    address: jlong,
    length: jint,
    messages: jint,
) -> jint {
    accept("append", || {
        let open = open_stream(stream)?;
        // SAFETY: Java lends `length` bytes at `address` for this call and holds a reference to their buffer.
        append(&open, op, unsafe { memory::copy_in(address, length) }?, messages)
    })
}

#[no_mangle]
pub extern "system" fn Java_io_nereus_pulsar_bridge_NativeCalls_appendParts<'l>(
    _env: EnvUnowned<'l>,
    _class: JClass<'l>,
    stream: jlong,
    op: jlong,
    table: jlong,
    parts: jint,
    messages: jint,
) -> jint {
    accept("appendParts", || {
        let open = open_stream(stream)?;
        // SAFETY: Java lends an aligned table of `parts` pairs for this call and holds a reference to what they name.
        append(&open, op, unsafe { memory::gather(table, parts) }?, messages)
    })
}

fn append(open: &OpenStream, op: jlong, entry: Bytes, messages: jint) -> Result<()> {
    let messages = u32::try_from(messages).ok().filter(|messages| *messages > 0);
    let messages = messages.ok_or_else(|| Error::Invalid {
        what: "an entry has at least one message".into(),
    })?;
    let outbox = open.outbox.clone();
    open.stream
        .append(entry, messages, move |outcome| settle(&outbox, op, outcome))
        .map(|_reserved| ())
}

/// Called by whatever thread settles the append: only hands over.
fn settle(outbox: &Outbox, op: jlong, outcome: AppendOutcome) {
    match outcome {
        AppendOutcome::Committed { offset, append_millis } => match (number(offset.get()), number(append_millis)) {
            (Ok(offset), Ok(millis)) => outbox.succeed(op, [offset, millis, 0]),
            // Committed but not expressible: saying "failed" would invite a retry (L6).
            (Err(error), _) | (_, Err(error)) => outbox.fail(
                op,
                &Error::Unknown {
                    what: error.to_string(),
                },
            ),
        },
        AppendOutcome::NotCommitted(error) => outbox.fail(op, &error),
        AppendOutcome::Unknown(error @ Error::Unknown { .. }) => outbox.fail(op, &error),
        AppendOutcome::Unknown(error) => outbox.fail(
            op,
            &Error::Unknown {
                what: error.to_string(),
            },
        ),
    }
}

#[no_mangle]
pub extern "system" fn Java_io_nereus_pulsar_bridge_NativeCalls_read<'l>(
    _env: EnvUnowned<'l>,
    _class: JClass<'l>,
    stream: jlong,
    op: jlong,
    start: jlong,
    max_entries: jint,
    max_bytes: jlong,
    up_to: jlong,
) -> jint {
    accept("read", || {
        let open = open_stream(stream)?;
        let request = ReadRequest {
            view: ReadView::Committed,
            start: offset(start)?,
            max_entries: u32::try_from(max_entries)
                .map_err(|_| bound("a negative number of entries"))?
                .max(1),
            max_bytes: u64::try_from(max_bytes).map_err(|_| bound("a negative number of bytes"))?,
            up_to: offset(up_to)?,
        };
        let outbox = open.host.outbox.clone();
        // What is cached is answered on this thread: no task, no switch.
        if let Some(cached) = open.stream.try_read_cached(&request) {
            match cached.and_then(|batch| batch_values(&outbox, batch)) {
                Ok(values) => outbox.succeed(op, values),
                Err(error) => outbox.fail(op, &error),
            }
            return Ok(());
        }
        let stream = open.stream.clone();
        open.host.spawn(
            op,
            "read",
            async move { batch_values(&outbox, stream.read(request).await?) },
        )
    })
}

fn batch_values(outbox: &Outbox, batch: ReadBatch) -> Result<[i64; 3]> {
    if batch.entries.is_empty() {
        return Ok([0; 3]);
    }
    let count = number(batch.entries.len() as u64)?;
    let held = batch.held.clone();
    let blob = outbox.store_held(messages::batch(batch)?, held);
    Ok([blob.handle, blob.length, count])
}

/// Ten numbers: trim, end, entries, bytes, terminated, last append, owner epoch, suspended, two reserved ones.
#[no_mangle]
pub extern "system" fn Java_io_nereus_pulsar_bridge_NativeCalls_state<'l>(
    _env: EnvUnowned<'l>,
    _class: JClass<'l>,
    stream: jlong,
    address: jlong,
) -> jint {
    accept("state", || {
        let state = open_stream(stream)?.stream.state();
        let words = [
            number(state.trim.get())?,
            number(state.end.get())?,
            number(state.entries)?,
            number(state.bytes)?,
            i64::from(state.terminated),
            number(state.last_append_millis)?,
            number(state.owner_epoch.get())?,
            i64::from(state.suspended),
            0,
            0,
        ];
        // SAFETY: Java lends aligned room for ten numbers at `address` for this call.
        unsafe { memory::put_words(address, words) }
    })
}

#[no_mangle]
pub extern "system" fn Java_io_nereus_pulsar_bridge_NativeCalls_terminate<'l>(
    _env: EnvUnowned<'l>,
    _class: JClass<'l>,
    stream: jlong,
    op: jlong,
) -> jint {
    accept("terminate", || {
        start_offset(stream, op, "terminate", |stream| Ok(stream.terminate()))
    })
}

#[no_mangle]
pub extern "system" fn Java_io_nereus_pulsar_bridge_NativeCalls_trim<'l>(
    _env: EnvUnowned<'l>,
    _class: JClass<'l>,
    stream: jlong,
    op: jlong,
    before: jlong,
) -> jint {
    accept("trim", || {
        start_offset(stream, op, "trim", |stream| Ok(stream.trim(offset(before)?)))
    })
}

#[no_mangle]
pub extern "system" fn Java_io_nereus_pulsar_bridge_NativeCalls_truncate<'l>(
    _env: EnvUnowned<'l>,
    _class: JClass<'l>,
    stream: jlong,
    op: jlong,
) -> jint {
    accept("truncate", || {
        start_offset(stream, op, "truncate", |stream| Ok(stream.truncate()))
    })
}

/// Closes what is due, then trims what retention lets go; a bound below 0 lets nothing go.
#[no_mangle]
pub extern "system" fn Java_io_nereus_pulsar_bridge_NativeCalls_retain<'l>(
    _env: EnvUnowned<'l>,
    _class: JClass<'l>,
    stream: jlong,
    op: jlong,
    consumed: jlong,
    max_age_millis: jlong,
    max_bytes: jlong,
    now_millis: jlong,
) -> jint {
    accept("retain", || {
        let retention = Retention {
            consumed: offset(consumed)?,
            max_age_millis: u64::try_from(max_age_millis).ok(),
            max_bytes: u64::try_from(max_bytes).ok(),
            now_millis: u64::try_from(now_millis).unwrap_or(0),
        };
        start_offset(stream, op, "retention", |stream| Ok(stream.retain(retention)))
    })
}

/// When a part is closed; a bound of 0 or less is none.
#[no_mangle]
pub extern "system" fn Java_io_nereus_pulsar_bridge_NativeCalls_setRollover<'l>(
    _env: EnvUnowned<'l>,
    _class: JClass<'l>,
    stream: jlong,
    max_entries: jlong,
    max_bytes: jlong,
    min_millis: jlong,
    max_millis: jlong,
    idle_millis: jlong,
) -> jint {
    let limit = |value: jlong| u64::try_from(value).unwrap_or(0);
    accept("setRollover", || {
        open_stream(stream)?.stream.set_rollover(Rollover {
            max_entries: limit(max_entries),
            max_bytes: limit(max_bytes),
            min_millis: limit(min_millis),
            max_millis: limit(max_millis),
            idle_millis: limit(idle_millis),
        })
    })
}

#[no_mangle]
pub extern "system" fn Java_io_nereus_pulsar_bridge_NativeCalls_resume<'l>(
    _env: EnvUnowned<'l>,
    _class: JClass<'l>,
    stream: jlong,
) -> jint {
    accept("resume", || open_stream(stream)?.stream.resume())
}

#[no_mangle]
pub extern "system" fn Java_io_nereus_pulsar_bridge_NativeCalls_follow<'l>(
    _env: EnvUnowned<'l>,
    _class: JClass<'l>,
    stream: jlong,
    source: jlong,
) -> jint {
    accept("follow", || {
        let source = open_stream(source)?;
        open_stream(stream)?.stream.follow(&source.stream)
    })
}

#[no_mangle]
pub extern "system" fn Java_io_nereus_pulsar_bridge_NativeCalls_setProperties<'l>(
    mut env: EnvUnowned<'l>,
    _class: JClass<'l>,
    stream: jlong,
    op: jlong,
    properties: JByteArray<'l>,
) -> jint {
    accept("setProperties", || {
        let all = messages::properties(bytes_of(&mut env, &properties)?)?;
        start(stream, op, "change of properties", |stream| stream.set_properties(all))
    })
}

#[no_mangle]
pub extern "system" fn Java_io_nereus_pulsar_bridge_NativeCalls_persistCursor<'l>(
    mut env: EnvUnowned<'l>,
    _class: JClass<'l>,
    stream: jlong,
    op: jlong,
    update: JByteArray<'l>,
) -> jint {
    accept("persistCursor", || {
        let update = messages::cursor_update(bytes_of(&mut env, &update)?)?;
        start(stream, op, "change of a cursor", |stream| stream.persist_cursor(update))
    })
}

#[no_mangle]
pub extern "system" fn Java_io_nereus_pulsar_bridge_NativeCalls_deleteCursor<'l>(
    mut env: EnvUnowned<'l>,
    _class: JClass<'l>,
    stream: jlong,
    op: jlong,
    name: JByteArray<'l>,
) -> jint {
    accept("deleteCursor", || {
        let name = messages::name(bytes_of(&mut env, &name)?)?;
        start(stream, op, "deletion of a cursor", |stream| stream.delete_cursor(&name))
    })
}

/// The handle ends here and now; the completion comes when the stream is closed.
#[no_mangle]
pub extern "system" fn Java_io_nereus_pulsar_bridge_NativeCalls_closeStream<'l>(
    _env: EnvUnowned<'l>,
    _class: JClass<'l>,
    stream: jlong,
    op: jlong,
) -> jint {
    accept("closeStream", || {
        let open = Host::take_stream(stream)?;
        let closing = open.stream.close();
        open.host
            .spawn(op, "close of a stream", async move { closing.await.map(|()| [0; 3]) })
    })
}

/// Starts a step that takes its place in the stream's order now, and answers when it is durable.
fn start(
    stream: jlong,
    op: jlong,
    what: &'static str,
    call: impl FnOnce(&Stream) -> BoxFuture<Result<()>>,
) -> Result<()> {
    let open = open_stream(stream)?;
    let step = call(&open.stream);
    open.host.spawn(op, what, async move { step.await.map(|()| [0; 3]) })
}

/// As [`start`], for a step that answers an offset.
fn start_offset(
    stream: jlong,
    op: jlong,
    what: &'static str,
    call: impl FnOnce(&Stream) -> Result<BoxFuture<Result<Offset>>>,
) -> Result<()> {
    let open = open_stream(stream)?;
    let step = call(&open.stream)?;
    open.host
        .spawn(op, what, async move { Ok([number(step.await?.get())?, 0, 0]) })
}

fn offset(value: jlong) -> Result<Offset> {
    u64::try_from(value)
        .map(Offset::new)
        .map_err(|_| bound("a negative offset"))
}

fn number(value: u64) -> Result<i64> {
    i64::try_from(value).map_err(|_| Error::Internal {
        what: format!("{value} is beyond the numbers of Java"),
    })
}

fn bound(what: &str) -> Error {
    Error::Invalid {
        what: format!("the native call was given {what}"),
    }
}
