//! The cdylib that the JVM loads. Owns the border and nothing behind it: no storage logic lives here.
//!
//! Start at [`entry`] (one file per Java-visible concern); [`host`] is what an engine handle points to. Everything that native code
//! wants from Java (answers of the broker's metadata store, log events) travels as a record in the queue that Java polls, so there is
//! no call into the JVM, no attached thread and no reference to a Java object.

mod allocator;
mod blobs;
mod broker_store;
mod completions;
mod entry;
mod guard;
mod handles;
mod host;
mod log;
mod memory;
mod messages;
mod metadata;
mod operation;
mod wire;
