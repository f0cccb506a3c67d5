//! Reads and conditional writes of the records in the broker's store, settled and decoded.

use std::sync::Arc;
use std::time::Duration;

use crate::env::{Clock, Random};
use crate::error::{Error, Result};
use crate::metadata::settle::write_settled;
use crate::metadata::{Expected, MetadataStore, Verdict, Version, Write};
use crate::record::{Key, Record};

const RETRY: Duration = Duration::from_secs(1);

/// What became of a conditional write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Wrote {
    /// It is stored, under this version.
    Done(Version),
    /// Somebody else changed the record, before or after it: read again and decide anew.
    Lost,
}

/// The records of bindings, with what a writer of them needs.
#[derive(Clone)]
pub(super) struct Truth {
    pub store: Arc<dyn MetadataStore>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
}

impl Truth {
    /// The record under `key` with its version; `None` is proven absence.
    pub async fn read<R: Record>(&self, key: Key) -> Result<Option<(R, Version)>> {
        match self.store.get(key.clone()).await? {
            Some(there) => Ok(Some((R::decode(&key, &there.value)?, there.version))),
            None => Ok(None),
        }
    }

    /// Writes a record, and sends it again while the answer stays away. Each value carries an attempt id of its own, so a value
    /// that reads back equal is this write's.
    pub async fn write<R: Record>(&self, expected: Expected, record: &R) -> Result<Wrote> {
        let key = record.key()?;
        let write = Write {
            key: key.clone(),
            expected,
            value: Some(record.encode()?),
        };
        match write_settled(&*self.store, &*self.clock, vec![write]).await.pop() {
            Some(Verdict::Applied(version)) => Ok(Wrote::Done(version)),
            Some(Verdict::Conflict(_)) => Ok(Wrote::Lost),
            Some(Verdict::Refused(error)) => Err(error),
            Some(Verdict::Unknown(error)) => Err(unsettled(&key, &error.to_string())),
            None => Err(unsettled(&key, "no verdict")),
        }
    }
}

/// Nobody can say yet whether a step happened. Every step can be resumed, so the caller may simply come again.
fn unsettled(key: &Key, why: &str) -> Error {
    let what =
        format!("the broker's metadata store does not say whether {key} was written ({why}); a later open resumes");
    Error::Unavailable { what, retry: RETRY }
}
