//! What can be violated, and how a violation is told.

use std::fmt;

/// A law of the architecture, or that everything ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is the law of that number")]
pub enum Law {
    L1,
    L2,
    L4,
    L5,
    L6,
    L7,
    L11,
    L12,
    L13,
    L15,
    L16,
    L17,
    /// Every call ends.
    Liveness,
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Law::Liveness => f.write_str("liveness"),
            law => fmt::Debug::fmt(law, f),
        }
    }
}

/// One violation: the first one ends a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// What was broken.
    pub law: Law,
    /// What was seen, and what was allowed.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.law, self.what)
    }
}

/// The outcome of a comparison.
pub type Check = Result<(), Violation>;

/// A violation of `law`.
pub fn broken<T>(law: Law, what: impl Into<String>) -> Result<T, Violation> {
    Err(Violation { law, what: what.into() })
}

/// Holds, or is a violation of `law`.
pub fn holds(condition: bool, law: Law, what: impl FnOnce() -> String) -> Check {
    match condition {
        true => Ok(()),
        false => broken(law, what()),
    }
}
