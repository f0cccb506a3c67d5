//! What was found wrong, counted and told.

use std::fmt;
use std::ops::AddAssign;

/// Notes that are kept; more of the same help nobody.
const NOTES: usize = 40;

/// Counts over one or more rounds. Everything but `acknowledged` must be nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict {
    /// Rounds that were run to their end.
    pub rounds: u64,
    /// Appends that were reported as acknowledged.
    pub acknowledged: u64,
    /// Acknowledged, and not there.
    pub lost: u64,
    /// There more than once, or again after its topic was deleted.
    pub duplicated: u64,
    /// Out of the order of the calls, at another offset than the answer said, or with a hole before it.
    pub reordered: u64,
    /// Messages whose acknowledgement was answered as durable, and that are not acknowledged.
    pub acked_again: u64,
    /// What was found wrong, in words, also what has no count of its own. The first of them.
    pub notes: Vec<String>,
}

impl Verdict {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        (self.lost, self.duplicated, self.reordered, self.acked_again) == (0, 0, 0, 0) && self.notes.is_empty()
    }

    /// Writes down what is wrong.
    pub fn note(&mut self, what: impl Into<String>) {
        if self.notes.len() < NOTES {
            self.notes.push(what.into());
        }
    }
}

impl AddAssign for Verdict {
    fn add_assign(&mut self, more: Verdict) {
        self.rounds = self.rounds.saturating_add(more.rounds);
        self.acknowledged = self.acknowledged.saturating_add(more.acknowledged);
        self.lost = self.lost.saturating_add(more.lost);
        self.duplicated = self.duplicated.saturating_add(more.duplicated);
        self.reordered = self.reordered.saturating_add(more.reordered);
        self.acked_again = self.acked_again.saturating_add(more.acked_again);
        more.notes.into_iter().for_each(|note| self.note(note));
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} rounds, {} acknowledged, lost={} duplicated={} reordered={} acked-again={}",
            self.rounds, self.acknowledged, self.lost, self.duplicated, self.reordered, self.acked_again
        )
    }
}
