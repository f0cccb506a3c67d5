//! Who owns what: the cluster's data directory, a topic name's incarnation, the virtual ledger ids.
//!
//! Owns: [`lock`] and [`identity`] (files of the data directory), [`cluster`] (the directory against the cluster's record),
//! [`grants`] (virtual ledger ids), [`registry`] (Pulsar's node of a topic), [`bindings`] (creation and deletion, step by step).
//! Promises: every step is durable before the next one begins and can be resumed by any later open; who is in the way is named.
//! Keeps: L13 (one binding for life, a tombstone after it, never a second empty store), L14 (refusals come before any effect).
//! Does not: know heads or journals; the steps of a stream are the engine's ([`bindings::StreamSteps`]).

pub mod bindings;
pub mod cluster;
pub mod grants;
pub mod identity;
pub mod lock;
pub mod registry;
mod truth;

#[cfg(test)]
mod testing;

pub use bindings::{Bindings, Bound, OpenBinding, StreamSteps};
pub use cluster::{claim, Claim};
pub use identity::DirectoryId;
pub use lock::DirectoryLock;
