//! The two-step path as a formal model: append, commit, crash, take-over and settlement of one stream, every interleaving.
//!
//! Owns: the [state](state), the [steps](step), the [laws](laws) L1 to L6 as invariants, the [guards](guard) that keep them, and the
//! [runs](check) that check both: with every guard no law is violated, without any one of them a law is.
//! Does not: share code with the core. The model says again, in as few words as possible, what the core does; the table below ties
//! the two together, and whoever changes one side changes the other.
//!
//! | step of the model | the core |
//! |---|---|
//! | `Open`: read the head, draft a claim | `stream/mod.rs` `Stream::take_over`; `wal/two_step/lane.rs` `load`, `draft`; `commit/apply.rs` `HeadChange::judge` |
//! | `Issue`: reserve the next offset, queue | `stream/appender.rs` `Appender::append` |
//! | `Draft`: what is queued becomes one attempt, or is refused | `wal/two_step/lane.rs` `Lane::draft`; `commit/tail.rs` `Tail::take` |
//! | `Slice`: bytes and intent into the WAL | `wal/two_step/before.rs` `write_slices` |
//! | `Page`: the commits that leave the ring | `wal/two_step/before.rs` `write_pages`; `commit/apply.rs` `StreamHead::commit` |
//! | `Head`: the conditional update, sent first or again, and what is read out of its verdict | `wal/two_step/lane.rs` `write_heads`, `suspend`, `settled`, `lost`; `wal/two_step/settle.rs` `settle`, `judge` |
//! | `Arrive`: a write that its sender gave up is applied | `metadata/mod.rs` `Verdict::Unknown`; `metadata/faults.rs` `Fault::Late` |
//! | `Resume`: take appends again from the committed end | `stream/appender.rs` `Appender::resume` |
//! | `Reload`: an idle head is read again | `wal/two_step/lane.rs` `Lane::take` (`Message::Load`) |
//! | `Crash`: an owner is gone, with everything that only it knew | the end of a process; `wal/two_step/mod.rs` `TwoStep::close` |
//!
//! What is left out, and why that loses nothing
//! - One stream: the lane's verdicts are independent per stream, so streams meet only in the order of the lane's work.
//! - Trim, terminate and delete: they are head changes like the claim (judged on the stored head, judged anew when they lost).
//! - The ring holds [`state::RING`] commits and folds [`state::FOLD`] at a time, instead of 32 and 16: enough to fold while in doubt.
//! - A write that is neither applied nor answered changes nothing but the sender's patience, which the model does not count.
//! - A late head update whose version is gone is dropped at once: its arrival could change nothing, since versions only rise.

pub mod check;
pub mod guard;
pub mod laws;
pub mod show;
pub mod state;
pub mod step;
