//! Opens, wires and closes everything else; the only file that knows every module.
//!
//! Promises: `Engine::open` either holds the data directory alone, with the cluster's consent, or fails naming who or what is in
//! the way; `close` leaves nothing running and nothing unanswered.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::metadata::pulsar::BrokerStore;
use crate::cursor::CursorState;
use crate::env::Env;
use crate::error::Result;
use crate::stream::{SpanInfo, Stream, StreamState};
use crate::types::{Incarnation, OwnerEpoch, Projection};

/// Everything an engine is opened with.
#[derive(Debug, Clone)]
pub struct Config {
    /// Directory of journal and embedded metadata; one process at a time.
    pub data_directory: PathBuf,
    /// Pulsar's cluster name.
    pub cluster_name: String,
    /// Who opens, for the lock file, owner names and messages.
    pub owner: String,
    /// Native caches and buffers together, bytes.
    pub memory_limit: u64,
    /// The broker's own publish limit, bytes: open groups may always hold this much.
    pub publish_buffer: u64,
    /// Size of a journal segment, bytes.
    pub segment_bytes: u64,
    /// Largest entry, bytes.
    pub max_entry: u32,
    /// The operator accepts a data directory that is older than the cluster's record of it.
    pub accept_older_copy: bool,
}

/// What `open_ledger` is asked for.
#[derive(Debug, Clone, Default)]
pub struct OpenLedger {
    /// Pulsar's ledger name, opaque.
    pub name: String,
    /// Create when there is none; otherwise absence is `NotFound`.
    pub create_if_missing: bool,
    /// Properties of a new ledger.
    pub properties: BTreeMap<String, String>,
    /// Profile of a new ledger; empty = default.
    pub profile: String,
}

/// Everything the facade needs to know of a ledger, as of one moment.
#[derive(Debug, Clone)]
pub struct LedgerDescription {
    /// Positions.
    pub projection: Projection,
    /// The life of the name.
    pub incarnation: Incarnation,
    /// The owner epoch held (writable open) or seen.
    pub owner_epoch: OwnerEpoch,
    /// Broker clock at creation.
    pub created_millis: u64,
    /// Bounds and counts.
    pub state: StreamState,
    /// Ledger properties.
    pub properties: BTreeMap<String, String>,
    /// Live spans, ascending.
    pub spans: Vec<SpanInfo>,
    /// Durable cursors, by name.
    pub cursors: Vec<CursorState>,
}

/// An open ledger.
#[derive(Clone)]
pub struct OpenedLedger {
    /// The handle for appends, reads and cursors.
    pub stream: Stream,
    /// As of the open.
    pub description: Arc<LedgerDescription>,
}

/// A storage engine on one data directory. Cheap to clone.
#[derive(Clone)]
pub struct Engine {}

impl Engine {
    /// Opens the engine: locks the directory, checks it against the cluster's record, recovers the journal.
    pub async fn open(env: Env, config: Config, broker: Arc<dyn BrokerStore>) -> Result<Engine>;
    /// Opens a ledger for writing: resumes a half-done creation or deletion, claims the owner epoch, loads cursors.
    pub async fn open_ledger(&self, request: OpenLedger) -> Result<OpenedLedger>;
    /// Opens for reading only: never claims, never creates.
    pub async fn open_read_only(&self, name: &str) -> Result<OpenedLedger>;
    /// Describes a ledger without opening it. `NotFound` when there is none.
    pub async fn describe_ledger(&self, name: &str) -> Result<LedgerDescription>;
    /// Deletes a ledger; an open stream of it is closed first. `NotFound` when there is none.
    pub async fn delete_ledger(&self, name: &str) -> Result<()>;
    /// Closes every stream, checkpoints, stops the lane. Idempotent.
    pub async fn close(&self) -> Result<()>;
}
