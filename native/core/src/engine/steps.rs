//! The steps of a stream inside the creation and deletion of a name. Durable when they answer, and idempotent.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join;

use crate::binding::StreamSteps;
use crate::commit::{HeadChange, Log};
use crate::env::{BoxFuture, Env};
use crate::error::{Error, Result};
use crate::metadata::settle::write_settled;
use crate::metadata::{Expected, MetadataStore, Verdict, Write};
use crate::record::{Binding, Key, Record, StreamProperties};
use crate::stream::remove_remains;
use crate::types::{Offset, StreamId};

/// The steps on one log, for one request.
pub(super) struct Steps {
    env: Env,
    log: Arc<dyn Log>,
    owner: Arc<str>,
    /// First properties of a stream that is created.
    properties: BTreeMap<String, String>,
}

impl Steps {
    pub fn new(env: Env, log: Arc<dyn Log>, owner: Arc<str>, properties: BTreeMap<String, String>) -> Steps {
        Steps {
            env,
            log,
            owner,
            properties,
        }
    }
}

impl StreamSteps for Steps {
    fn create(&self, binding: Binding) -> BoxFuture<Result<()>> {
        let Binding {
            stream,
            incarnation,
            created_millis,
            name,
            ..
        } = binding;
        let record = StreamProperties {
            stream,
            version: 1,
            properties: self.properties.clone(),
            ledger: name,
        };
        let (env, log) = (self.env.clone(), self.log.clone());
        Box::pin(async move {
            // Queued first, so that no crash leaves the head without them: with the head the stream is complete.
            let store = log.store();
            let properties = write_properties(&*store, &env, &record, Expected::Absent);
            let create = async {
                let change = HeadChange::Create {
                    stream,
                    incarnation,
                    created_millis,
                };
                match log.change(stream, change).await {
                    Ok(_) | Err(Error::AlreadyExists { .. }) => Ok(()),
                    Err(error) => Err(error),
                }
            };
            let (properties, created) = join(properties, create).await;
            properties.and(created)
        })
    }

    fn end(&self, stream: StreamId) -> BoxFuture<Result<Option<Offset>>> {
        self.log.bound(stream)
    }

    fn seal(&self, stream: StreamId) -> BoxFuture<Result<Option<Offset>>> {
        let claimed = self.log.change(
            stream,
            HeadChange::Claim {
                owner: self.owner.clone(),
            },
        );
        let log = self.log.clone();
        Box::pin(async move {
            match claimed.await {
                Ok(cell) => Ok(cell.with(|head| head.map(|head| head.end))),
                Err(Error::NotFound { .. }) => Ok(None),
                // Nothing is appended to a damaged stream, so that its bound is final.
                Err(Error::Corrupt { .. }) => log.bound(stream).await,
                Err(error) => Err(error),
            }
        })
    }

    fn remove(&self, stream: StreamId) -> BoxFuture<Result<()>> {
        let log = self.log.clone();
        Box::pin(async move {
            log.change(stream, HeadChange::Delete { epoch: None }).await?;
            remove_remains(&*log.store(), stream).await
        })
    }
}

/// Writes properties; a conflict means that somebody else has written some, which stay.
async fn write_properties(
    store: &dyn MetadataStore,
    env: &Env,
    record: &StreamProperties,
    expected: Expected,
) -> Result<()> {
    let write = Write {
        key: record.key()?,
        expected,
        value: Some(record.encode()?),
    };
    match write_settled(store, &*env.clock, vec![write]).await.pop() {
        Some(Verdict::Applied(_) | Verdict::Conflict(_)) => Ok(()),
        Some(Verdict::Refused(error) | Verdict::Unknown(error)) => Err(error),
        None => Err(Error::Internal {
            what: "a metadata store gave no verdict".into(),
        }),
    }
}

/// Records the ledger's name beside a stream that was created before names were kept there.
pub(super) async fn remember_name(store: &dyn MetadataStore, env: &Env, stream: StreamId, name: &str) -> Result<()> {
    let key = Key::stream_properties(stream);
    let (record, expected) = match store.get(key.clone()).await? {
        None => (
            StreamProperties {
                stream,
                version: 1,
                properties: BTreeMap::new(),
                ledger: name.to_owned(),
            },
            Expected::Absent,
        ),
        Some(there) => {
            let record = StreamProperties::decode(&key, &there.value)?;
            if !record.ledger.is_empty() {
                return Ok(());
            }
            let ledger = name.to_owned();
            (StreamProperties { ledger, ..record }, Expected::Version(there.version))
        }
    };
    write_properties(store, env, &record, expected).await
}
