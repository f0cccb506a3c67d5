//! One change of a cursor from wish to commit: pages first, then the root.

use bytes::Bytes;
use tokio::sync::oneshot;

use super::draft::{self, Draft};
use super::load::Known;
use super::types::CursorUpdate;
use super::{answer, Cursors};
use crate::commit::StreamHead;
use crate::error::{Error, Result};
use crate::metadata::settle::write_settled;
use crate::metadata::{Expected, Verdict, Version, Versioned, Write};
use crate::record::{CursorRoot, Key, Record};
use crate::types::OwnerEpoch;

/// Bytes of pages sent in one batch.
const BATCH_BYTES: usize = 4 << 20;
/// How often a root is judged anew after a conflict before somebody else is blamed.
const MAX_TRIES: u32 = 4;

enum Committed {
    At(Box<CursorRoot>, Version),
    /// There was nothing to commit.
    Nothing,
    /// The root is not the one that was built on.
    Lost,
}

impl Cursors {
    /// Persists a run of updates as one change and answers each; gives what is known of the cursor then.
    pub(super) async fn update(
        &self,
        name: &str,
        known: Known,
        run: Vec<(CursorUpdate, oneshot::Sender<Result<()>>)>,
    ) -> Known {
        if run.is_empty() {
            return known;
        }
        let (mut known, mut run) = (known, run);
        for _ in 0..MAX_TRIES {
            let (before, version) = match self.settle(name, known).await {
                Ok(before) => before,
                Err(error) => {
                    run.into_iter().for_each(|(_, reply)| answer(reply, Err(error.clone())));
                    return Known::Unsure;
                }
            };
            let mut draft = Draft::of(self.stream, self.epoch, before.as_ref());
            let mut changes = false;
            let mut judged = Vec::new();
            for (update, reply) in run {
                match self
                    .check(&update)
                    .and_then(|()| draft.apply(&update, self.env.clock.wall_millis()))
                {
                    // Bad input is bad whatever becomes of the others.
                    Err(error @ Error::Invalid { .. }) => answer(reply, Err(error)),
                    verdict => {
                        changes |= verdict.is_ok();
                        judged.push((update, reply, verdict));
                    }
                }
            }
            let unchanged = match (before, version) {
                (Some(root), Some(version)) => Known::At(Box::new(root), version),
                _ => Known::Absent,
            };
            let committed = match changes {
                true => self.commit(draft, version).await,
                false => Ok(Committed::Nothing),
            };
            // A verdict may rest on the updates before it, so it is given only with theirs.
            let (after, error) = match committed {
                Ok(Committed::Lost) => {
                    // Either a newer owner's root, or an earlier attempt of ours that arrived late: the next look tells.
                    known = Known::Unsure;
                    run = judged.into_iter().map(|(update, reply, _)| (update, reply)).collect();
                    continue;
                }
                Ok(Committed::At(root, version)) => (Known::At(root, version), None),
                Ok(Committed::Nothing) => (unchanged, None),
                Err(error @ Error::Unknown { .. }) => (Known::Unsure, Some(error)),
                Err(error) => (unchanged, Some(error)),
            };
            for (_, reply, verdict) in judged {
                answer(reply, error.clone().map_or(verdict, Err));
            }
            return after;
        }
        let error = Error::Conflict {
            what: format!("cursor {name} of stream {}", self.stream),
        };
        run.into_iter().for_each(|(_, reply)| answer(reply, Err(error.clone())));
        Known::Unsure
    }

    /// What a change may build on. An owner that was fenced finds out here or at the conditional update.
    async fn settle(&self, name: &str, known: Known) -> Result<(Option<CursorRoot>, Option<Version>)> {
        let by_epoch = self.cell.with(|head| head.map(|head| head.owner_epoch));
        match by_epoch {
            None => {
                return Err(Error::NotFound {
                    what: format!("stream {}", self.stream),
                })
            }
            Some(by_epoch) if by_epoch > self.epoch => return Err(self.fenced(name, by_epoch)),
            Some(_) => {}
        }
        match known {
            Known::Absent => Ok((None, None)),
            Known::At(root, version) => Ok((Some(*root), Some(version))),
            Known::Unsure => {
                let key = Key::cursor_root(self.stream, name)?;
                let Some(Versioned { value, version }) = self.store.get(key.clone()).await? else {
                    return Ok((None, None));
                };
                let root = CursorRoot::decode(&key, &value)?;
                if root.owner_epoch > self.epoch {
                    return Err(self.fenced(name, root.owner_epoch));
                }
                Ok((Some(root), Some(version)))
            }
        }
    }

    fn check(&self, update: &CursorUpdate) -> Result<()> {
        let end = self.cell.with(|head| head.map(|head| head.end));
        match end.filter(|end| update.mark_delete_end > *end) {
            Some(end) => Err(Error::Invalid {
                what: format!(
                    "cursor {}: mark-delete end {} lies past the committed end {end}",
                    update.name, update.mark_delete_end
                ),
            }),
            None => Ok(()),
        }
    }

    /// Whether the stored head has a newer owner. The published head may be behind where several engines share a store.
    async fn superseded(&self, name: &str) -> Result<Option<Error>> {
        let key = Key::stream_head(self.stream);
        let Some(stored) = self.store.get(key.clone()).await? else {
            return Ok(None);
        };
        let by_epoch = StreamHead::decode(&key, &stored.value)?.owner_epoch;
        Ok((by_epoch > self.epoch).then(|| self.fenced(name, by_epoch)))
    }

    /// A root that was just created has no version that a newer owner's claim would have moved, so the head decides: seen in our
    /// epoch after the creation, it is claimed after that, and its claim finds the root. Otherwise the root is taken back.
    async fn confirm(&self, name: &str, root: &CursorRoot, version: Version) -> Result<()> {
        match self.superseded(name).await {
            Ok(None) => Ok(()),
            Ok(Some(fenced)) => {
                let withdraw = Write {
                    key: root.key()?,
                    expected: Expected::Version(version),
                    value: None,
                };
                if let Some(Verdict::Applied(_)) = write_settled(&*self.store, &*self.env.clock, vec![withdraw]).await.pop() {
                    let named = root.pages.iter().filter_map(|page| draft::page_key(root, page).ok());
                    self.reclaim(named.collect());
                }
                Err(fenced)
            }
            Err(error) => Err(Error::Unknown {
                what: format!("creation of cursor {name} of stream {}: {error}", self.stream),
            }),
        }
    }

    /// Pages first, then the root: its conditional update is the commit.
    async fn commit(&self, draft: Draft, before: Option<Version>) -> Result<Committed> {
        let change = draft.finish(&*self.env.random)?;
        if before.is_none() {
            if let Some(fenced) = self.superseded(&change.root.name).await? {
                return Err(fenced);
            }
        }
        let root_write = Write {
            key: change.root.key()?,
            expected: before.map_or(Expected::Absent, Expected::Version),
            value: Some(change.root.encode()?),
        };
        let new_pages: Vec<Key> = change.pages.iter().map(|(key, _)| key.clone()).collect();
        if let Err(error) = self.write_pages(change.pages).await {
            self.reclaim(new_pages);
            return Err(error);
        }
        let verdict = write_settled(&*self.store, &*self.env.clock, vec![root_write])
            .await
            .pop();
        match verdict {
            Some(Verdict::Applied(version)) => {
                if before.is_none() {
                    self.confirm(&change.root.name, &change.root, version).await?;
                }
                self.reclaim(change.replaced);
                Ok(Committed::At(Box::new(change.root), version))
            }
            Some(Verdict::Conflict(_)) => {
                self.reclaim(new_pages);
                Ok(Committed::Lost)
            }
            Some(Verdict::Refused(error)) => {
                self.reclaim(new_pages);
                Err(error)
            }
            // The root may still arrive and names the pages: they stay.
            Some(Verdict::Unknown(error)) => Err(Error::Unknown {
                what: format!(
                    "persist of cursor {} of stream {}: {error}",
                    change.root.name, self.stream
                ),
            }),
            None => Err(Error::Internal {
                what: "a metadata store gave no verdict".into(),
            }),
        }
    }

    async fn write_pages(&self, pages: Vec<(Key, Bytes)>) -> Result<()> {
        let mut pages = pages.into_iter().peekable();
        while pages.peek().is_some() {
            let mut batch = Vec::new();
            let mut bytes = 0;
            while let Some((key, value)) = pages.next_if(|_| bytes < BATCH_BYTES) {
                bytes += value.len();
                batch.push(Write {
                    key,
                    expected: Expected::Absent,
                    value: Some(value),
                });
            }
            for verdict in write_settled(&*self.store, &*self.env.clock, batch).await {
                match verdict {
                    Verdict::Applied(_) => {}
                    Verdict::Conflict(_) => {
                        return Err(Error::Internal {
                            what: "the version of a cursor page is used".into(),
                        })
                    }
                    // No root names the page, so a copy that arrives later changes nothing: certainly not persisted.
                    Verdict::Refused(error) | Verdict::Unknown(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Removes page versions that no root names, without delaying an answer. What fails is found again by the next claim.
    fn reclaim(&self, pages: Vec<Key>) {
        if pages.is_empty() {
            return;
        }
        let batch = pages
            .into_iter()
            .map(|key| Write {
                key,
                expected: Expected::Any,
                value: None,
            })
            .collect();
        let (stream, written) = (self.stream, self.store.write(batch));
        let task = async move {
            for verdict in written.await {
                if let Verdict::Refused(error) | Verdict::Unknown(error) = verdict {
                    tracing::debug!(%stream, %error, "an old cursor page stays until the next open");
                }
            }
        };
        self.env.spawner.spawn("reclaim cursor pages", Box::pin(task));
    }

    pub(super) async fn remove(&self, name: &str, known: Known) -> (Known, Result<()>) {
        let mut known = known;
        for _ in 0..MAX_TRIES {
            let (root, version) = match self.settle(name, known).await {
                Ok((Some(root), Some(version))) => (root, version),
                Ok(_) => return (Known::Absent, Err(draft::missing(name, self.stream))),
                Err(error) => return (Known::Unsure, Err(error)),
            };
            let key = match root.key() {
                Ok(key) => key,
                Err(error) => return (Known::Unsure, Err(error)),
            };
            let write = Write {
                key,
                expected: Expected::Version(version),
                value: None,
            };
            match write_settled(&*self.store, &*self.env.clock, vec![write]).await.pop() {
                Some(Verdict::Applied(_)) | Some(Verdict::Conflict(None)) => {
                    let named = root.pages.iter().filter_map(|page| draft::page_key(&root, page).ok());
                    self.reclaim(named.collect());
                    return (Known::Absent, Ok(()));
                }
                Some(Verdict::Conflict(Some(_))) => known = Known::Unsure,
                Some(Verdict::Refused(error)) => return (Known::At(Box::new(root), version), Err(error)),
                Some(Verdict::Unknown(error)) => {
                    let what = format!("deletion of cursor {name} of stream {}: {error}", self.stream);
                    return (Known::Unsure, Err(Error::Unknown { what }));
                }
                None => {
                    return (
                        Known::Unsure,
                        Err(Error::Internal {
                            what: "a metadata store gave no verdict".into(),
                        }),
                    )
                }
            }
        }
        (
            Known::Unsure,
            Err(Error::Conflict {
                what: format!("cursor {name} of stream {}", self.stream),
            }),
        )
    }

    fn fenced(&self, name: &str, by_epoch: OwnerEpoch) -> Error {
        Error::Fenced {
            what: format!("cursor {name} of stream {}", self.stream),
            by_epoch,
        }
    }
}
