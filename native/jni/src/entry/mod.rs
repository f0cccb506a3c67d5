//! The functions that Java calls, one file per concern, and the rules they share.
//!
//! Promises: no panic leaves an entry point; a refusal is a code whose message the same thread can ask for; a code other than 0 means
//! that no completion will come. Keeps: nothing here blocks, except `poll` and `destroyEngine`.

mod engine;
mod library;
mod stream;

use std::cell::RefCell;

use jni::objects::JByteArray;
use jni::sys::jint;
use jni::{EnvUnowned, Outcome};
use nereus_core::{Error, Result};

use crate::guard::guard;
use crate::wire::MAX_MESSAGE;

thread_local! {
    /// The last refusal on this thread, until Java asks for it.
    static REFUSAL: RefCell<Option<(jint, String)>> = const { RefCell::new(None) };
}

/// Runs an entry point that answers a code: 0 = accepted.
fn accept(entry: &'static str, body: impl FnOnce() -> Result<()>) -> jint {
    match guard(entry, body) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => refuse(&error),
        Err(panic) => refuse(&panicked(entry, &panic)),
    }
}

/// Remembers why a call is refused and returns its code.
fn refuse(error: &Error) -> jint {
    let code = error.code() as jint;
    REFUSAL.with(|refusal| *refusal.borrow_mut() = Some((code, error.to_string())));
    code
}

/// Takes the message of this thread's last refusal, if that had this code.
fn refusal(code: jint) -> Option<String> {
    REFUSAL
        .with(|refusal| refusal.borrow_mut().take())
        .filter(|(last, _)| *last == code)
        .map(|(_, message)| message)
}

fn panicked(entry: &str, message: &str) -> Error {
    Error::Internal {
        what: format!("native entry point {entry} panicked: {message}"),
    }
}

/// Copies a byte array of Java.
fn bytes_of(env: &mut EnvUnowned<'_>, array: &JByteArray<'_>) -> Result<Vec<u8>> {
    let outcome = env.with_env(|env| -> jni::errors::Result<Option<Vec<u8>>> {
        if array.is_null() || array.len(env)? > MAX_MESSAGE {
            return Ok(None);
        }
        env.convert_byte_array(array).map(Some)
    });
    match outcome.into_outcome() {
        Outcome::Ok(Some(bytes)) => Ok(bytes),
        Outcome::Ok(None) => Err(Error::Invalid {
            what: "the native call was given no array, or one that is too long".into(),
        }),
        Outcome::Err(error) => Err(Error::Internal {
            what: format!("an array of Java cannot be read: {error}"),
        }),
        Outcome::Panic(_) => Err(Error::Internal {
            what: "reading an array of Java panicked".into(),
        }),
    }
}
