//! The one error type of the engine. Each variant is a decision of the caller; its numeric code crosses the JNI boundary.
//!
//! Keeps: L17 (every message says what, where and what to do).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::types::{Offset, OwnerEpoch, StreamId};

/// Shorthand for results of the engine.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, as the decision that the caller has to take.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Another owner took the stream: the caller closes for good.
    #[error("{what} now belongs to owner epoch {by_epoch}; this owner has been fenced and must close it")]
    Fenced {
        /// The object concerned.
        what: String,
        /// The epoch that holds it now.
        by_epoch: OwnerEpoch,
    },
    /// The stream ends for ever at `end`: no further appends.
    #[error("stream {stream} is terminated at offset {end}; nothing can be appended")]
    Terminated {
        /// The stream.
        stream: StreamId,
        /// Its final end.
        end: Offset,
    },
    /// Proven absence.
    #[error("{what} does not exist")]
    NotFound {
        /// The object concerned.
        what: String,
    },
    /// The object was to be created and is there already.
    #[error("{what} exists already")]
    AlreadyExists {
        /// The object concerned.
        what: String,
    },
    /// The wanted offset was trimmed: the caller moves forward.
    #[error("stream {stream}: offset {wanted} was trimmed, the first readable one is {trim}")]
    OffsetTrimmed {
        /// The stream.
        stream: StreamId,
        /// The offset asked for.
        wanted: Offset,
        /// The first readable offset.
        trim: Offset,
    },
    /// Stored data failed its checks: never served, never treated as empty.
    #[error("{what} is damaged at {place}: {detail}")]
    Corrupt {
        /// The object concerned.
        what: String,
        /// File and position, or key.
        place: String,
        /// What was found and what to do.
        detail: String,
    },
    /// Refused at admission, before any effect (L14).
    #[error("not supported by Nereus: {feature}")]
    Unsupported {
        /// The feature refused, by name.
        feature: String,
    },
    /// A passing condition: try again, and never cache it as absence (L11).
    #[error("{what}; try again in {retry:?}")]
    Unavailable {
        /// What cannot be had now, and why.
        what: String,
        /// A sensible pause before the next try.
        retry: Duration,
    },
    /// The handle, stream or engine was closed.
    #[error("{what} is closed")]
    Closed {
        /// The object concerned.
        what: String,
    },
    /// The caller's input is wrong; trying again is of no use.
    #[error("{what}")]
    Invalid {
        /// What is wrong and what is allowed.
        what: String,
    },
    /// The operating system refused an operation.
    #[error("{op} {what}: {source}")]
    Io {
        /// The operation, as a verb.
        op: &'static str,
        /// File or directory.
        what: String,
        /// The reason of the system.
        source: Arc<io::Error>,
    },
    /// A defect of Nereus itself.
    #[error("internal error of Nereus (please report): {what}")]
    Internal {
        /// What was violated.
        what: String,
    },
    /// The outcome of an append or commit cannot be settled any more by this engine (poisoned or shut down). Never "failed".
    #[error("outcome unknown: {what}")]
    Unknown {
        /// The attempt and the reason.
        what: String,
    },
    /// An earlier append failed: the stream refuses appends until `resume` (Pulsar: `readyToCreateNewLedger`).
    #[error("stream {stream} refuses appends after a failed one: {reason}")]
    Suspended {
        /// The stream.
        stream: StreamId,
        /// Why the first append failed.
        reason: String,
    },
    /// A conditional update lost: somebody else changed the object.
    #[error("{what} was changed by somebody else")]
    Conflict {
        /// The object concerned.
        what: String,
    },
}

macro_rules! error_codes {
    ($($variant:ident = $code:literal, $name:literal;)*) => {
        /// Stable numeric codes of [`Error`]; 0 is success. Numbers once used never change meaning.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(i32)]
        #[allow(missing_docs, reason = "each is named like the variant of `Error` it stands for")]
        pub enum ErrorCode { $($variant = $code,)* }

        impl ErrorCode {
            /// Every code with its name, for the comparison with the Java table.
            pub const ALL: &'static [(ErrorCode, &'static str)] = &[$((ErrorCode::$variant, $name),)*];
        }

        impl Error {
            /// The stable code of this error.
            pub fn code(&self) -> ErrorCode {
                match self { $(Error::$variant { .. } => ErrorCode::$variant,)* }
            }
        }
    };
}

error_codes! {
    Fenced = 1, "FENCED";
    Terminated = 2, "TERMINATED";
    NotFound = 3, "NOT_FOUND";
    AlreadyExists = 4, "ALREADY_EXISTS";
    OffsetTrimmed = 5, "OFFSET_TRIMMED";
    Corrupt = 6, "CORRUPT";
    Unsupported = 7, "UNSUPPORTED";
    Unavailable = 8, "UNAVAILABLE";
    Closed = 9, "CLOSED";
    Invalid = 10, "INVALID";
    Io = 11, "IO";
    Internal = 12, "INTERNAL";
    Unknown = 13, "UNKNOWN";
    Suspended = 14, "SUSPENDED";
    Conflict = 15, "CONFLICT";
}

impl Error {
    /// An I/O failure of `op` on `what`.
    pub fn io(op: &'static str, what: impl Into<String>, source: io::Error) -> Self {
        Error::Io {
            op,
            what: what.into(),
            source: Arc::new(source),
        }
    }
}
