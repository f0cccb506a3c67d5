//! What happened, line by line: the same seed gives the same bytes.

use std::fmt::Write as _;

/// The lines of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    text: String,
    /// Whether lines are kept. A run for speed keeps none.
    silent: bool,
}

impl Trace {
    /// A trace that keeps nothing.
    pub fn silent() -> Trace {
        Trace {
            text: String::new(),
            silent: true,
        }
    }

    /// Adds a line; `line` is asked only when lines are kept.
    pub fn line(&mut self, line: impl FnOnce() -> String) {
        if !self.silent {
            // Writing to a string cannot fail.
            let _ = writeln!(self.text, "{}", line());
        }
    }

    /// All lines.
    pub fn text(&self) -> &str {
        &self.text
    }
}
