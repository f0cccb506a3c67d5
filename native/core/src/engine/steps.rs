//! The steps of a stream inside the creation and deletion of a name. Durable when they answer, and idempotent.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::binding::StreamSteps;
use crate::commit::{HeadChange, Log};
use crate::env::{BoxFuture, Env};
use crate::error::{Error, Result};
use crate::metadata::settle::write_settled;
use crate::metadata::{Expected, Verdict, Write};
use crate::record::{Binding, Record, StreamProperties};
use crate::stream::remove_remains;
use crate::types::{Offset, StreamId};

/// The steps on one log, for one request.
pub(super) struct Steps {
    env: Env,
    log: Arc<dyn Log>,
    owner: String,
    /// First properties of a stream that is created.
    properties: BTreeMap<String, String>,
}

impl Steps {
    pub fn new(env: Env, log: Arc<dyn Log>, owner: String, properties: BTreeMap<String, String>) -> Steps {
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
            ..
        } = binding;
        let record = StreamProperties {
            stream,
            version: 1,
            properties: self.properties.clone(),
        };
        let (env, log) = (self.env.clone(), self.log.clone());
        Box::pin(async move {
            // Properties first: with the head the stream is complete.
            if !record.properties.is_empty() {
                let write = Write {
                    key: record.key()?,
                    expected: Expected::Absent,
                    value: Some(record.encode()?),
                };
                match write_settled(&*log.store(), &*env.clock, vec![write]).await.pop() {
                    Some(Verdict::Applied(_) | Verdict::Conflict(_)) => {}
                    Some(Verdict::Refused(error) | Verdict::Unknown(error)) => return Err(error),
                    None => {
                        return Err(Error::Internal {
                            what: "a metadata store gave no verdict".into(),
                        })
                    }
                }
            }
            match log
                .change(
                    stream,
                    HeadChange::Create {
                        stream,
                        incarnation,
                        created_millis,
                    },
                )
                .await
            {
                Ok(_) | Err(Error::AlreadyExists { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        })
    }

    fn end(&self, stream: StreamId) -> BoxFuture<Result<Option<Offset>>> {
        let head = self.log.load(stream);
        Box::pin(async move { Ok(head.await?.and_then(|cell| cell.with(|head| head.map(|head| head.end)))) })
    }

    fn seal(&self, stream: StreamId) -> BoxFuture<Result<Option<Offset>>> {
        let claimed = self.log.change(
            stream,
            HeadChange::Claim {
                owner: self.owner.clone(),
            },
        );
        Box::pin(async move {
            match claimed.await {
                Ok(cell) => Ok(cell.with(|head| head.map(|head| head.end))),
                Err(Error::NotFound { .. }) => Ok(None),
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
