//! Changes of a stream besides appends: trim, retention, terminate, properties. One after the other, durable before they answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::remove::{remove_trimmed_marks, remove_trimmed_pages};
use super::rollover::Retention;
use super::Shared;
use crate::commit::HeadChange;
use crate::error::{Error, Result};
use crate::metadata::settle::write_settled;
use crate::metadata::{Expected, Verdict, Write};
use crate::record::{Key, Record, StreamProperties};
use crate::types::{Offset, OwnerEpoch};

impl Shared {
    /// Trims to `before`, or to the end if that lies past it; gives the trim offset then.
    pub(super) async fn trim(self: Arc<Self>, epoch: OwnerEpoch, before: Offset) -> Result<Offset> {
        let commits = &self.reader.trunk.commits;
        let (trim, end) = commits.head(|head| (head.trim, head.end))?;
        let before = before.min(end);
        if before <= trim {
            return Ok(trim);
        }
        let trimmed_bytes = commits.bytes_below(before).await?;
        let change = HeadChange::Trim {
            epoch,
            before,
            trimmed_bytes,
        };
        self.reader.trunk.common.log.change(commits.stream, change).await?;
        let trim = commits.head(|head| head.trim)?;
        let (store, stream) = (commits.store.clone(), commits.stream);
        // Nobody waits for this one; what it leaves goes with the next trim.
        drop(self.steps.run(async move {
            let removed = async {
                remove_trimmed_pages(&*store, stream, trim).await?;
                remove_trimmed_marks(&*store, stream, trim).await
            };
            removed.await.inspect_err(
                |error| tracing::debug!(%stream, %error, "trimmed commit pages and marks stay until the next trim"),
            )
        }));
        Ok(trim)
    }

    /// Closes what is due, then trims what `retention` lets go; gives the trim offset.
    pub(super) async fn retain(self: Arc<Self>, epoch: OwnerEpoch, retention: Retention) -> Result<Offset> {
        if let Some(marks) = &self.marks {
            self.confirm_owner(epoch).await?;
            marks.cut(Some(retention.now_millis)).await?;
            if let Some(before) = marks.let_go(&retention).await? {
                return self.trim(epoch, before).await;
            }
        }
        self.reader.trunk.commits.head(|head| head.trim)
    }

    /// Terminates; gives the end.
    pub(super) async fn terminate(self: Arc<Self>, epoch: OwnerEpoch) -> Result<Offset> {
        let stream = self.reader.trunk.commits.stream;
        self.reader
            .trunk
            .common
            .log
            .change(stream, HeadChange::Terminate { epoch })
            .await?;
        let end = self.reader.trunk.commits.head(|head| head.end)?;
        if let Some(appender) = &self.appender {
            appender.stop(Error::Terminated { stream, end });
        }
        Ok(end)
    }

    /// Replaces all properties.
    pub(super) async fn set_properties(
        self: Arc<Self>,
        epoch: OwnerEpoch,
        properties: BTreeMap<String, String>,
    ) -> Result<()> {
        let (stream, store) = (self.reader.trunk.commits.stream, &self.reader.trunk.commits.store);
        let key = Key::stream_properties(stream);
        for _ in 0..MAX_TRIES {
            self.confirm_owner(epoch).await?;
            let (expected, version, ledger) = match store.get(key.clone()).await? {
                None => (Expected::Absent, 1, self.name.to_string()),
                Some(there) => {
                    let record = StreamProperties::decode(&key, &there.value)?;
                    if record.properties == properties {
                        return Ok(());
                    }
                    let version = record.version.saturating_add(1);
                    (Expected::Version(there.version), version, record.ledger)
                }
            };
            let value = StreamProperties {
                stream,
                version,
                properties: properties.clone(),
                ledger,
            }
            .encode()?;
            let write = Write {
                key: key.clone(),
                expected,
                value: Some(value),
            };
            match write_settled(&**store, &*self.reader.trunk.common.env.clock, vec![write])
                .await
                .pop()
            {
                // Still the owner: whoever comes next finds the change.
                Some(Verdict::Applied(_)) => return self.confirm_owner(epoch).await,
                Some(Verdict::Conflict(_)) | None => {}
                Some(Verdict::Refused(error)) => return Err(error),
                Some(Verdict::Unknown(error)) => {
                    return Err(Error::Unknown {
                        what: format!("properties of {}: {error}", self.name),
                    })
                }
            }
        }
        Err(Error::Conflict {
            what: format!("the properties of {}", self.name),
        })
    }

    /// Looks at the head anew: another engine may own the stream by now. What is written besides the head is asked for before, and
    /// answered only after, such a look.
    async fn confirm_owner(&self, epoch: OwnerEpoch) -> Result<()> {
        self.reader
            .trunk
            .common
            .log
            .load(self.reader.trunk.commits.stream)
            .await?;
        let by_epoch = self.reader.trunk.commits.head(|head| head.owner_epoch)?;
        match by_epoch == epoch {
            true => Ok(()),
            false => Err(Error::Fenced {
                what: self.name.to_string(),
                by_epoch,
            }),
        }
    }

    /// The properties as stored.
    pub(super) async fn properties(&self) -> Result<BTreeMap<String, String>> {
        let key = Key::stream_properties(self.reader.trunk.commits.stream);
        match self.reader.trunk.commits.store.get(key.clone()).await? {
            None => Ok(BTreeMap::new()),
            Some(there) => Ok(StreamProperties::decode(&key, &there.value)?.properties),
        }
    }
}

const MAX_TRIES: u32 = 4;
