//! Random programs against the engine, in a world whose every turn follows from a seed, judged by a reference model.
//!
//! Start at [`runner::run`]. [`program`] makes programs for one engine ([`world`]), [`pair`] for two owners of one stream on the
//! two-step path; [`model`] says what may be seen; [`minimise`] shortens what failed; [`hunt`] proves that deliberate bugs are
//! found.
//! Promises: same seed, same trace. A panic in the engine, a call that never ends, and an error without a cause are violations.

pub mod entry;
pub mod hunt;
pub mod law;
mod machine;
pub mod minimise;
pub mod model;
pub mod pair;
pub mod program;
pub mod runner;
pub mod trace;
pub mod world;
