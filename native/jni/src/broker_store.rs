//! The broker's metadata store, as the engine sees it.
//!
//! Owns nothing; translates between the engine's words and the requests that Java answers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nereus_core::env::BoxFuture;
use nereus_core::metadata::pulsar::BrokerStore;
use nereus_core::metadata::{Expected, Verdict, Version, Versioned};
use nereus_core::{Error, Result};

use crate::messages;
use crate::metadata::{expected, Answer, Request, Requests};

/// Pause that a caller should make before it reads again.
const RETRY: Duration = Duration::from_millis(500);

/// The store behind the requests of one engine.
pub struct JavaStore {
    requests: Arc<Requests>,
}

impl JavaStore {
    /// A store that asks through `requests`.
    pub fn new(requests: Arc<Requests>) -> Self {
        JavaStore { requests }
    }

    fn write(&self, request: Request, path: &str, expected: Expected, value: &[u8]) -> BoxFuture<Verdict> {
        let version = match expected {
            Expected::Absent => expected::ABSENT,
            Expected::Any => expected::ANY,
            Expected::Version(version) => i64::try_from(version.0).unwrap_or(i64::MAX),
        };
        let asked = self.requests.ask(request, path, version, value);
        let path = path.to_owned();
        Box::pin(async move {
            match asked.await {
                Answer::Done { version, .. } => Verdict::Applied(Version(u64::try_from(version).unwrap_or(0))),
                Answer::NotFound | Answer::BadVersion => Verdict::Conflict(None),
                Answer::Unknown(reason) => Verdict::Unknown(Error::Unknown {
                    what: format!("write of {path}: {reason}"),
                }),
                Answer::Refused(reason) => Verdict::Refused(unavailable(&path, &reason)),
            }
        })
    }
}

impl BrokerStore for JavaStore {
    fn get(&self, path: &str) -> BoxFuture<Result<Option<Versioned>>> {
        let asked = self.requests.ask(Request::Get, path, expected::ANY, &[]);
        let path = path.to_owned();
        Box::pin(async move {
            match asked.await {
                Answer::Done { version, value } => Ok(Some(Versioned {
                    value,
                    version: Version(u64::try_from(version).unwrap_or(0)),
                })),
                Answer::NotFound => Ok(None),
                Answer::BadVersion => Err(unavailable(&path, "it answered a read with a version conflict")),
                Answer::Unknown(reason) | Answer::Refused(reason) => Err(unavailable(&path, &reason)),
            }
        })
    }

    fn put(&self, path: &str, value: Bytes, expected: Expected) -> BoxFuture<Verdict> {
        self.write(Request::Put, path, expected, &value)
    }

    fn delete(&self, path: &str, expected: Expected) -> BoxFuture<Verdict> {
        self.write(Request::Delete, path, expected, &[])
    }

    fn children(&self, path: &str) -> BoxFuture<Result<Vec<String>>> {
        let asked = self.requests.ask(Request::Children, path, expected::ANY, &[]);
        let path = path.to_owned();
        Box::pin(async move {
            match asked.await {
                Answer::Done { value, .. } => messages::children(value),
                Answer::NotFound => Ok(Vec::new()),
                Answer::BadVersion => Err(unavailable(&path, "it answered a listing with a version conflict")),
                Answer::Unknown(reason) | Answer::Refused(reason) => Err(unavailable(&path, &reason)),
            }
        })
    }
}

fn unavailable(path: &str, reason: &str) -> Error {
    Error::Unavailable {
        what: format!("the broker's metadata store does not answer for {path}: {reason}"),
        retry: RETRY,
    }
}
