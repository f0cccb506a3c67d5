//! The storage engine of Nereus.
//!
//! Start at [`engine::Engine`], the only module that knows every other. Dependencies point one way: `stream`, `cursor` and
//! `binding` use `commit`, `metadata` and `cache`; `journal` implements `commit` and `metadata`; `record` and `types` know nobody.

pub mod binding;
pub mod cache;
pub mod commit;
pub mod cursor;
pub mod engine;
pub mod env;
pub mod error;
pub mod journal;
pub mod metadata;
pub mod mutant;
pub mod record;
pub mod stream;
pub mod types;
pub mod wal;

pub use error::{Error, ErrorCode, Result};
