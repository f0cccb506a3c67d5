//! The reference model: what may be seen of streams and cursors, given what was asked and what was answered.
//!
//! Promises: pure data, no engine in here. What was acknowledged has one value; what is in doubt has several, and the first look
//! at it decides. Every refusal names the law.

pub mod cursor;
pub mod stream;

pub use cursor::{CursorModel, Ended, Wish};
pub use stream::StreamModel;
