//! The allocator of the native side.
//!
//! An entry is allocated on the thread of its producer and freed on whatever thread lets it go from the tail cache. An allocator that
//! locks the arena of the other thread for each of them costs a third of the CPU of a busy producer (note 0013); jemalloc gives them
//! back in batches. A thread of its own returns free pages to the system: by default the next allocations do, and a broker at rest
//! makes none. Only Rust allocates here: RocksDB and the JVM keep the system's allocator.

/// Tests count allocations with an allocator of their own.
#[cfg(not(test))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
