//! Newtypes of the engine: no bare integer crosses a module border, no arithmetic wraps.

mod ids;
mod ledger;
mod offset;
mod profile;

pub use ids::{CommitId, CommitVersion, Generation, Incarnation, OwnerEpoch, StreamId};
pub use ledger::{Projection, SpanBits, VirtualLedger};
pub use offset::Offset;
pub use profile::{Profile, ReadView, StorageClass};
