//! Real crashes: a child process works on an engine with real files and RocksDB, reports what it asks for and what it was
//! answered through a pipe, is killed with SIGKILL at a seeded moment, and the next child reports what it finds.
//!
//! Promises: what was reported as acknowledged is compared with what a later process reads from the files, byte by byte (an entry
//! follows from its id). Nothing of the verdict comes from the process that died.
//! Does not: drop what the page cache held (a kill keeps it); power cuts are the simulation's.
//!
//! Start at [`rounds`]; `work` is what the child does, `model` is what its pipe allows the next one to find.

pub mod acks;
pub mod broker;
pub mod child;
pub mod content;
pub mod event;
pub mod model;
pub mod random;
pub mod register;
pub mod report;
pub mod rounds;
pub mod topic;
pub mod verdict;
mod work;
