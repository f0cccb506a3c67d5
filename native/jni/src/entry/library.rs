//! Entry points that concern the library as a whole: handshake, blobs, refusals, test hooks.

use jni::objects::{JByteArray, JByteBuffer, JClass, JString};
use jni::sys::{jint, jlong};
use jni::{EnvUnowned, Outcome};
use nereus_core::{Error, ErrorCode};

use super::{accept, refusal, refuse};
use crate::blobs::{Refused, BLOBS};
use crate::guard::guard;
use crate::host::test_hooks;
use crate::{memory, messages};

/// Version of the border. Java refuses another one before it asks anything else.
const ABI_VERSION: jint = 2;

/// `NEREUS_BUILD_ID=<id>;`, found in the finished library by the build that packs it.
#[used]
static BUILD_MARKER: &str = concat!("NEREUS_BUILD_ID=", env!("NEREUS_BUILD_ID"), ";");

#[no_mangle]
pub extern "system" fn Java_io_nereus_pulsar_bridge_NativeCalls_abiVersion<'l>(
    _env: EnvUnowned<'l>,
    _class: JClass<'l>,
) -> jint {
    ABI_VERSION
}

#[no_mangle]
pub extern "system" fn Java_io_nereus_pulsar_bridge_NativeCalls_buildId<'l>(
    mut env: EnvUnowned<'l>,
    _class: JClass<'l>,
) -> JString<'l> {
    string(
        &mut env,
        BUILD_MARKER
            .trim_start_matches("NEREUS_BUILD_ID=")
            .trim_end_matches(';'),
    )
}

#[no_mangle]
pub extern "system" fn Java_io_nereus_pulsar_bridge_NativeCalls_errorTable<'l>(
    mut env: EnvUnowned<'l>,
    _class: JClass<'l>,
) -> JByteArray<'l> {
    let table = guard("errorTable", messages::error_table);
    let table = table.ok().and_then(Result::ok).unwrap_or_default();
    match env.with_env(|env| env.byte_array_from_slice(&table)).into_outcome() {
        Outcome::Ok(array) => array,
        Outcome::Err(_) | Outcome::Panic(_) => JByteArray::null(),
    }
}

/// The message of this thread's last refusal with this code, once; null if there is none.
#[no_mangle]
pub extern "system" fn Java_io_nereus_pulsar_bridge_NativeCalls_refusal<'l>(
    mut env: EnvUnowned<'l>,
    _class: JClass<'l>,
    code: jint,
) -> JString<'l> {
    match guard("refusal", || refusal(code)) {
        Ok(Some(message)) => string(&mut env, &message),
        Ok(None) | Err(_) => JString::null(),
    }
}

#[no_mangle]
pub extern "system" fn Java_io_nereus_pulsar_bridge_NativeCalls_addressOf<'l>(
    mut env: EnvUnowned<'l>,
    _class: JClass<'l>,
    direct: JByteBuffer<'l>,
) -> jlong {
    match env
        .with_env(|env| env.get_direct_buffer_address(&direct))
        .into_outcome()
    {
        Outcome::Ok(address) => address as jlong,
        Outcome::Err(_) | Outcome::Panic(_) => 0,
    }
}

#[no_mangle]
pub extern "system" fn Java_io_nereus_pulsar_bridge_NativeCalls_copyOut<'l>(
    _env: EnvUnowned<'l>,
    _class: JClass<'l>,
    blob: jlong,
    address: jlong,
    capacity: jint,
) -> jint {
    let mut length = 0;
    let code = accept("copyOut", || {
        let room = usize::try_from(capacity).unwrap_or(0);
        let blob = BLOBS.take(blob, room).map_err(|refused| match refused {
            Refused::Gone => Error::Closed {
                what: "the result, or its engine,".into(),
            },
            Refused::TooLarge => Error::Invalid {
                what: format!("the result does not fit into {room} bytes"),
            },
        })?;
        // SAFETY: Java lends `capacity` writable bytes at `address` for this call, and the blob fits into them.
        unsafe { memory::copy_out(&blob, address) }?;
        length = jint::try_from(blob.length()).unwrap_or(capacity);
        Ok(())
    });
    if code == 0 {
        length
    } else {
        -code
    }
}

#[no_mangle]
pub extern "system" fn Java_io_nereus_pulsar_bridge_NativeCalls_freeBlob<'l>(
    _env: EnvUnowned<'l>,
    _class: JClass<'l>,
    blob: jlong,
) {
    accept("freeBlob", || {
        BLOBS.free(blob);
        Ok(())
    });
}

#[no_mangle]
pub extern "system" fn Java_io_nereus_pulsar_bridge_NativeCalls_liveBlobs<'l>(
    _env: EnvUnowned<'l>,
    _class: JClass<'l>,
) -> jlong {
    guard("liveBlobs", || jlong::try_from(BLOBS.live()).unwrap_or(jlong::MAX)).unwrap_or(-1)
}

/// Kind 1 panics, so that a test sees the guard at work; the code tells what became of it.
#[no_mangle]
pub extern "system" fn Java_io_nereus_pulsar_bridge_NativeCalls_crashForTest<'l>(
    _env: EnvUnowned<'l>,
    _class: JClass<'l>,
    kind: jint,
) -> jint {
    if !test_hooks() {
        return refuse(&Error::Unsupported {
            feature: "test hooks outside tests".into(),
        });
    }
    accept("crashForTest", || match kind {
        1 => panic!("a panic on purpose"),
        _ => Err(Error::Unsupported {
            feature: format!("test hook {kind}"),
        }),
    })
}

fn string<'l>(env: &mut EnvUnowned<'l>, text: &str) -> JString<'l> {
    match env.with_env(|env| env.new_string(text)).into_outcome() {
        Outcome::Ok(string) => string,
        Outcome::Err(_) | Outcome::Panic(_) => JString::null(),
    }
}

/// Java negates the codes of `copyOut`; none of them may be confused with a length.
const _: () = assert!(ErrorCode::Fenced as i32 > 0);
