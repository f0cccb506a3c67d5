//! Entry points of engines.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jni::objects::{JByteArray, JClass};
use jni::sys::{jint, jlong};
use jni::EnvUnowned;
use nereus_core::engine::{Engine, LedgerDescription, OpenedLedger};
use nereus_core::{Error, Result};

use super::{accept, bytes_of};
use crate::blobs::{BlobRef, BLOBS};
use crate::completions::{Polled, Record, KIND_LOG};
use crate::guard::{guard, install_panic_hook};
use crate::host::{Host, ENGINES};
use crate::log::{self, LOG};
use crate::memory::RecordRoom;
use crate::messages;

/// Longest wait of one poll.
const MAX_PARK: Duration = Duration::from_secs(60);

fn host(engine: jlong) -> Result<Arc<Host>> {
    ENGINES.get(engine).ok_or_else(|| Error::Closed {
        what: "the engine".into(),
    })
}

#[no_mangle]
pub extern "system" fn Java_io_nereus_pulsar_bridge_NativeCalls_createEngine<'l>(
    mut env: EnvUnowned<'l>,
    _class: JClass<'l>,
    config: JByteArray<'l>,
) -> jlong {
    let created = guard("createEngine", || {
        log::install();
        install_panic_hook();
        let config = bytes_of(&mut env, &config).and_then(messages::config);
        match Host::start(config) {
            Ok(host) => ENGINES.insert(host),
            Err(reason) => {
                tracing::error!(%reason, "the threads of an engine could not be started");
                None
            }
        }
    });
    created.ok().flatten().unwrap_or(0)
}

#[no_mangle]
pub extern "system" fn Java_io_nereus_pulsar_bridge_NativeCalls_openEngine<'l>(
    _env: EnvUnowned<'l>,
    _class: JClass<'l>,
    engine: jlong,
    op: jlong,
) -> jint {
    accept("openEngine", || host(engine)?.open(op))
}

#[no_mangle]
pub extern "system" fn Java_io_nereus_pulsar_bridge_NativeCalls_closeEngine<'l>(
    _env: EnvUnowned<'l>,
    _class: JClass<'l>,
    engine: jlong,
    op: jlong,
) -> jint {
    accept("closeEngine", || host(engine)?.close(op))
}

#[no_mangle]
pub extern "system" fn Java_io_nereus_pulsar_bridge_NativeCalls_destroyEngine<'l>(
    _env: EnvUnowned<'l>,
    _class: JClass<'l>,
    engine: jlong,
) {
    accept("destroyEngine", || {
        if let Some(host) = ENGINES.remove(engine) {
            host.destroy();
        }
        Ok(())
    });
}

/// Records, then log events as far as there is room; 0 after the time-out, -1 once destroyed.
#[no_mangle]
pub extern "system" fn Java_io_nereus_pulsar_bridge_NativeCalls_poll<'l>(
    _env: EnvUnowned<'l>,
    _class: JClass<'l>,
    engine: jlong,
    address: jlong,
    capacity: jint,
    park_nanos: jlong,
) -> jint {
    guard("poll", || -> Result<jint> {
        let Some(host) = ENGINES.get(engine) else { return Ok(-1) };
        // SAFETY: Java lends room for `capacity` records at `address` for this call.
        let mut room = unsafe { RecordRoom::new(address, capacity) }?;
        let park = Duration::from_nanos(u64::try_from(park_nanos).unwrap_or(0)).min(MAX_PARK);
        let filled = host
            .outbox
            .completions
            .poll(room.capacity(), park, |index, record| room.put(index, record));
        let Polled::Records(mut count) = filled else {
            return Ok(-1);
        };
        while count < room.capacity() {
            let Some(record) = next_log_record(&host)? else { break };
            room.put(count, record);
            count += 1;
        }
        Ok(jint::try_from(count).unwrap_or(capacity))
    })
    .ok()
    .and_then(Result::ok)
    .unwrap_or(-1)
}

fn next_log_record(host: &Host) -> Result<Option<Record>> {
    let Some(event) = LOG.pop() else { return Ok(None) };
    let BlobRef { handle, length } = host
        .outbox
        .store(vec![messages::log_event(&event.target, &event.text)?]);
    Ok(Some([KIND_LOG, event.dropped, event.level, handle, length, 0]))
}

#[no_mangle]
pub extern "system" fn Java_io_nereus_pulsar_bridge_NativeCalls_answer<'l>(
    mut env: EnvUnowned<'l>,
    _class: JClass<'l>,
    engine: jlong,
    request: jlong,
    status: jint,
    version: jlong,
    value: JByteArray<'l>,
) {
    accept("answer", || {
        let value = bytes_of(&mut env, &value).map(Bytes::from);
        if let Some(host) = ENGINES.get(engine) {
            match value {
                Ok(value) => host.requests.answer(request, status, version, value),
                // An answer that cannot be read is no answer: what it was about is not known.
                Err(error) => host.requests.answer(request, 3, 0, Bytes::from(error.to_string())),
            }
        }
        Ok(())
    });
}

#[no_mangle]
pub extern "system" fn Java_io_nereus_pulsar_bridge_NativeCalls_openLedger<'l>(
    mut env: EnvUnowned<'l>,
    _class: JClass<'l>,
    engine: jlong,
    op: jlong,
    request: JByteArray<'l>,
) -> jint {
    accept("openLedger", || {
        let request = messages::open_ledger(bytes_of(&mut env, &request)?)?;
        open(engine, op, "open of a ledger", |engine| async move {
            engine.open_ledger(request).await
        })
    })
}

#[no_mangle]
pub extern "system" fn Java_io_nereus_pulsar_bridge_NativeCalls_openReadOnly<'l>(
    mut env: EnvUnowned<'l>,
    _class: JClass<'l>,
    engine: jlong,
    op: jlong,
    name: JByteArray<'l>,
) -> jint {
    accept("openReadOnly", || {
        let name = messages::name(bytes_of(&mut env, &name)?)?;
        open(engine, op, "read-only open of a ledger", |engine| async move {
            engine.open_read_only(&name).await
        })
    })
}

#[no_mangle]
pub extern "system" fn Java_io_nereus_pulsar_bridge_NativeCalls_describeLedger<'l>(
    mut env: EnvUnowned<'l>,
    _class: JClass<'l>,
    engine: jlong,
    op: jlong,
    name: JByteArray<'l>,
) -> jint {
    accept("describeLedger", || {
        let name = messages::name(bytes_of(&mut env, &name)?)?;
        let host = host(engine)?;
        let engine = host.engine()?;
        let outbox = host.outbox.clone();
        host.spawn(op, "description of a ledger", async move {
            let description = engine.describe_ledger(&name).await?;
            let blob = outbox.store(vec![messages::description(&description)?]);
            Ok([0, blob.handle, blob.length])
        })
    })
}

#[no_mangle]
pub extern "system" fn Java_io_nereus_pulsar_bridge_NativeCalls_engineState<'l>(
    _env: EnvUnowned<'l>,
    _class: JClass<'l>,
    engine: jlong,
    op: jlong,
) -> jint {
    accept("engineState", || {
        let host = host(engine)?;
        let engine = host.engine()?;
        let outbox = host.outbox.clone();
        let (streams, blobs) = (host.open_streams(), BLOBS.live_of(outbox.owner));
        host.spawn(op, "state of the engine", async move {
            let message = messages::engine_state(&engine.state().await?, streams, blobs)?;
            let blob = outbox.store(vec![message]);
            Ok([0, blob.handle, blob.length])
        })
    })
}

#[no_mangle]
pub extern "system" fn Java_io_nereus_pulsar_bridge_NativeCalls_deleteLedger<'l>(
    mut env: EnvUnowned<'l>,
    _class: JClass<'l>,
    engine: jlong,
    op: jlong,
    name: JByteArray<'l>,
) -> jint {
    accept("deleteLedger", || {
        let name = messages::name(bytes_of(&mut env, &name)?)?;
        let host = host(engine)?;
        let engine = host.engine()?;
        host.spawn(op, "deletion of a ledger", async move {
            engine.delete_ledger(&name).await.map(|()| [0; 3])
        })
    })
}

fn open<F>(engine: jlong, op: jlong, what: &'static str, call: impl FnOnce(Engine) -> F) -> Result<()>
where
    F: std::future::Future<Output = Result<OpenedLedger>> + Send + 'static,
{
    let host = host(engine)?;
    let opening = call(host.engine()?);
    let keeper = Arc::clone(&host);
    host.spawn(op, what, async move {
        let opened = opening.await?;
        let message = messages::description(described(&opened))?;
        let handle = keeper.adopt(&opened)?;
        let blob = keeper.outbox.store(vec![message]);
        Ok([handle, blob.handle, blob.length])
    })
}

fn described(opened: &OpenedLedger) -> &LedgerDescription {
    &opened.description
}
