//! The commit point: what a stream's head is, how it may change, and what commits for it.
//!
//! Owns: [`StreamHead`] and its legal moves (pure: [`Tail`] admits appends, [`StreamHead::commit`] and [`HeadChange::judge`] move
//! it), [`HeadCell`] (the published head of an open stream), [`Log`] (the trait that the journal and the two-step path implement).
//! Keeps: L2 (a head change is the only commit point), L4 (commits touch), L5 (fence and change are one step).

mod append;
mod apply;
mod cell;
mod change;
mod head;
mod log;
mod tail;

#[cfg(test)]
mod tests;

pub use append::{Append, AppendOutcome, AppendReply};
pub use apply::{Changed, Fold, FOLD};
pub use cell::HeadCell;
pub use change::HeadChange;
pub use head::{Commit, ReadTarget, StreamHead, RING};
pub use log::{Log, Slice, SliceEntry};
pub use tail::Tail;
