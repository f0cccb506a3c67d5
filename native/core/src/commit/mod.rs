//! The commit point: what a stream's head is, how it may change, and what commits for it.
//!
//! Owns: [`StreamHead`] and its legal changes (pure), [`HeadCell`] (the published head of an open stream), [`Log`] (the trait
//! that the journal and the two-step path implement).
//! Keeps: L2 (a head change is the only commit point), L4 (commits touch), L5 (fence and change are one step).

mod append;
mod cell;
mod change;
mod head;
mod log;

pub use append::{Append, AppendOutcome, AppendReply};
pub use cell::HeadCell;
pub use change::HeadChange;
pub use head::{Commit, ReadTarget, StreamHead, RING};
pub use log::{Log, Slice, SliceEntry};
