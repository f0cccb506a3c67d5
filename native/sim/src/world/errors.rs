//! Which errors are an excuse: each needs a cause that the program made.

use std::collections::BTreeSet;

use nereus_core::types::StreamId;
use nereus_core::Error;

use crate::law::{broken, holds, Check, Law};

/// Whom damage may concern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Concern {
    /// These streams only.
    Streams(BTreeSet<StreamId>),
    /// Anything.
    Everything,
}

impl Concern {
    /// Whether `stream` may be concerned.
    pub fn includes(&self, stream: StreamId) -> bool {
        match self {
            Concern::Everything => true,
            Concern::Streams(streams) => streams.contains(&stream),
        }
    }
}

/// The trouble that a program has made so far.
#[derive(Debug, Clone, Default)]
pub struct Trouble {
    /// Faults of the disk were planned in this process.
    pub disk: bool,
    /// Faults of the broker's store were planned.
    pub broker: bool,
    /// The disk is small.
    pub space: bool,
    /// Bits were flipped.
    pub damage: Option<Concern>,
}

/// What else explains an error at the place where it is met.
#[derive(Debug, Clone, Copy, Default)]
pub struct Allowed {
    /// A newer owner.
    pub fenced: bool,
    /// The handle was closed.
    pub closed: bool,
    /// The topic may be deleted.
    pub gone: bool,
    /// The stream may be terminated.
    pub terminated: bool,
    /// An append failed before.
    pub suspended: bool,
    /// The stream that is asked.
    pub stream: Option<StreamId>,
}

/// Whether `error` has a cause.
pub fn check(trouble: &Trouble, error: &Error, allowed: &Allowed, what: &str) -> Check {
    let unexpected = |law: Law| broken(law, format!("{what}: {error}"));
    let explained = match error {
        Error::Corrupt { place, .. } => {
            let concerned = trouble
                .damage
                .as_ref()
                .is_some_and(|concern| allowed.stream.is_none_or(|stream| concern.includes(stream)));
            if !concerned {
                return unexpected(Law::L1);
            }
            return holds(place.contains("journal") || place.contains("/data"), Law::L17, || {
                format!("{what}: damage is told without file or segment: {error}")
            });
        }
        Error::Io { .. } => trouble.disk || trouble.space,
        Error::Unavailable { .. } => trouble.disk || trouble.space || trouble.broker,
        Error::Unknown { .. } => trouble.disk || trouble.broker,
        Error::Conflict { .. } => trouble.broker,
        Error::Fenced { .. } => allowed.fenced || allowed.gone,
        Error::Closed { .. } => allowed.closed || allowed.gone,
        Error::NotFound { .. } => allowed.gone,
        Error::Terminated { .. } => allowed.terminated || allowed.gone,
        Error::Suspended { .. } => allowed.suspended,
        Error::AlreadyExists { .. }
        | Error::OffsetTrimmed { .. }
        | Error::Unsupported { .. }
        | Error::Invalid { .. }
        | Error::Internal { .. } => false,
    };
    match explained {
        true => Ok(()),
        false => unexpected(Law::L17),
    }
}
