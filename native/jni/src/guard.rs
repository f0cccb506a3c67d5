//! The guard around every entry point: a panic ends here, never in the JVM.
//!
//! Promises: the panic's message is logged with the place it came from and handed to the caller, who answers `INTERNAL`.

use std::any::Any;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Once;

/// Longest part of a panic's message that is passed on, bytes.
const MAX_MESSAGE: usize = 4096;

/// Runs `body`; a panic becomes its message.
///
/// Unwind safety: entry points share state only through locks that do not poison and tables that are whole after every step, so
/// what a panic leaves behind can be used.
pub fn guard<T>(entry: &'static str, body: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(body)).map_err(|payload| {
        let message = text_of(payload.as_ref());
        tracing::error!(entry, panic = %message, "a native entry point panicked; this is a defect of Nereus, please report it");
        message
    })
}

/// Logs every panic of this library with its place, instead of writing to the process's standard error.
pub fn install_panic_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|info| {
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            let thread = std::thread::current();
            let message = text_of(info.payload());
            tracing::error!(thread = thread.name().unwrap_or(""), place, panic = %message, "native code panicked");
        }));
    });
}

fn text_of(payload: &(dyn Any + Send)) -> String {
    let text = match (payload.downcast_ref::<&'static str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text.as_str(),
        (None, None) => "panic without a message",
    };
    truncated(text, MAX_MESSAGE).to_owned()
}

/// The longest prefix of `text` that has at most `limit` bytes.
pub fn truncated(text: &str, limit: usize) -> &str {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_its_message_and_a_result_passes() {
        assert_eq!(guard("test", || 7), Ok(7));
        assert_eq!(guard("test", || -> u8 { panic!("plain") }), Err("plain".to_owned()));
        assert_eq!(
            guard("test", || -> u8 { panic!("formatted {}", 1) }),
            Err("formatted 1".to_owned())
        );
        assert_eq!(
            guard("test", || -> u8 { std::panic::panic_any(5) }),
            Err("panic without a message".to_owned())
        );
    }

    #[test]
    fn truncation_keeps_whole_characters() {
        assert_eq!(truncated("aé", 2), "a");
        assert_eq!(truncated("aé", 3), "aé");
        assert_eq!(truncated("aé", 0), "");
    }
}
