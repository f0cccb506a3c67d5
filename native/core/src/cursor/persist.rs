//! One change of a cursor from wish to commit: pages and index records first, then the root.

use bytes::Bytes;
use tokio::sync::oneshot;

use super::draft::{self, Change, Draft};
use super::load::{self, Found, Known, Left, Stored};
use super::names::{index_key, page_key};
use super::types::CursorUpdate;
use super::{answer, Cursors};
use crate::commit::StreamHead;
use crate::error::{Error, Result};
use crate::metadata::settle::write_settled;
use crate::metadata::{Expected, Verdict, Version, Write};
use crate::mutant::{active, Mutant};
use crate::record::{CursorRoot, Key, Record};
use crate::types::OwnerEpoch;

/// Bytes of pages sent in one batch.
const BATCH_BYTES: usize = 4 << 20;
/// How often a root is judged anew after a conflict before somebody else is blamed.
const MAX_TRIES: u32 = 4;

enum Committed {
    At(Box<Stored>),
    /// There was nothing to commit.
    Nothing,
    /// The root is not the one that was built on.
    Lost,
}

/// What [`Mutant::PersistUnwritten`] leaves out.
fn only_moves(update: &CursorUpdate) -> bool {
    !update.create
        && update.pages.is_empty()
        && update.position_properties.is_none()
        && update.cursor_properties.is_none()
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
            let before = match self.settle(name, known).await {
                Ok(before) => before,
                Err(error) => {
                    run.into_iter().for_each(|(_, reply)| answer(reply, Err(error.clone())));
                    return Known::Unsure;
                }
            };
            let mut draft = Draft::of(self.stream, self.epoch, &before);
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
            let (expected, bytes) = match &before {
                Found::Nothing => (Expected::Absent, 0),
                Found::Left(left) => (Expected::Version(left.version), 0),
                Found::Cursor(stored) => (Expected::Version(stored.version), stored.names.bytes()),
            };
            let unchanged = Known::from(before);
            let unwritten = active(Mutant::PersistUnwritten) && judged.iter().all(|(update, ..)| only_moves(update));
            let committed = match changes && !unwritten {
                true => self.commit(draft, expected, bytes).await,
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
                Ok(Committed::At(stored)) => (Known::At(stored), None),
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
    async fn settle(&self, name: &str, known: Known) -> Result<Found> {
        if let (Known::Absent | Known::Left(_) | Known::Unsure, Some(log)) = (&known, self.log.get()) {
            log.load(self.stream).await?;
        }
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
            Known::Absent => Ok(Found::Nothing),
            Known::Left(left) => Ok(Found::Left(left)),
            Known::At(stored) => Ok(Found::Cursor(stored)),
            Known::Unsure => {
                let found = load::find(&*self.store, self.stream, name, self.epoch).await?;
                match found.owner_epoch().filter(|owner| *owner > self.epoch) {
                    Some(by_epoch) => Err(self.fenced(name, by_epoch)),
                    None => Ok(found),
                }
            }
        }
    }

    fn check(&self, update: &CursorUpdate) -> Result<()> {
        let bound = self.other.get().unwrap_or(&self.cell);
        let end = bound.with(|head| head.map(|head| head.end));
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

    /// A root that was just created has no version that a newer owner's claim would have moved, so the stored head decides: seen
    /// in our epoch after the creation, it is claimed after that, and its claim finds the root. Otherwise the root is taken back.
    async fn confirm(&self, root: &CursorRoot, version: Version, parts: Vec<Key>) -> Result<()> {
        let key = Key::stream_head(self.stream);
        let head = match self.store.get(key.clone()).await {
            Ok(Some(stored)) => StreamHead::decode(&key, &stored.value),
            Ok(None) => return Ok(()),
            Err(error) => Err(error),
        };
        match head {
            Ok(head) if head.owner_epoch <= self.epoch => Ok(()),
            Ok(head) => {
                let withdraw = self.removal(root, version)?;
                let withdrawn = write_settled(&*self.store, &*self.env.clock, vec![withdraw])
                    .await
                    .pop();
                if let Some(Verdict::Applied(_)) = withdrawn {
                    self.reclaim(parts);
                }
                Err(self.fenced(&root.name, head.owner_epoch))
            }
            Err(error) => Err(Error::Unknown {
                what: format!("creation of cursor {} of stream {}: {error}", root.name, self.stream),
            }),
        }
    }

    /// Pages and index records first, then the root: its conditional update is the commit.
    async fn commit(&self, draft: Draft, expected: Expected, before_bytes: u64) -> Result<Committed> {
        let Change {
            root,
            names,
            creates,
            parts,
            replaced,
        } = draft.finish(&*self.env.random)?;
        let root_write = Write {
            key: root.key()?,
            expected,
            value: Some(root.encode()?),
        };
        let bytes = names.bytes();
        self.held.check(before_bytes, bytes, &root.name, self.stream)?;
        let new_parts: Vec<Key> = parts.iter().map(|(key, _)| key.clone()).collect();
        let (parts, late) = match active(Mutant::RootBeforePages) {
            true => (Vec::new(), parts),
            false => (parts, Vec::new()),
        };
        if let Err(error) = self.write_parts(parts).await {
            self.reclaim(new_parts);
            return Err(error);
        }
        let verdict = write_settled(&*self.store, &*self.env.clock, vec![root_write])
            .await
            .pop();
        match verdict {
            Some(Verdict::Applied(version)) => {
                self.write_parts(late).await?;
                if creates {
                    self.confirm(&root, version, new_parts).await?;
                }
                self.reclaim(replaced);
                self.held.replace(before_bytes, bytes);
                Ok(Committed::At(Box::new(Stored::new(root, version, names))))
            }
            Some(Verdict::Conflict(_)) => {
                self.reclaim(new_parts);
                Ok(Committed::Lost)
            }
            Some(Verdict::Refused(error)) => {
                self.reclaim(new_parts);
                Err(error)
            }
            // The root may still arrive and names the parts: they stay.
            Some(Verdict::Unknown(error)) => Err(Error::Unknown {
                what: format!("persist of cursor {} of stream {}: {error}", root.name, self.stream),
            }),
            None => Err(Error::Internal {
                what: "a metadata store gave no verdict".into(),
            }),
        }
    }

    async fn write_parts(&self, parts: Vec<(Key, Bytes)>) -> Result<()> {
        let mut parts = parts.into_iter().peekable();
        while parts.peek().is_some() {
            let mut batch = Vec::new();
            let mut bytes = 0;
            while let Some((key, value)) = parts.next_if(|_| bytes < BATCH_BYTES) {
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
                            what: "the version of a part of a cursor is used".into(),
                        })
                    }
                    // No root leads to the part, so a copy that arrives later changes nothing: certainly not persisted.
                    Verdict::Refused(error) | Verdict::Unknown(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Removes versions that no root leads to, without delaying an answer. What fails is found again by the next claim.
    fn reclaim(&self, parts: Vec<Key>) {
        if parts.is_empty() {
            return;
        }
        let batch = parts
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
                    tracing::debug!(%stream, %error, "an old part of a cursor stays until the next open");
                }
            }
        };
        self.env.spawner.spawn("reclaim parts of cursors", Box::pin(task));
    }

    pub(super) async fn remove(&self, name: &str, known: Known) -> (Known, Result<()>) {
        let mut known = known;
        for _ in 0..MAX_TRIES {
            let stored = match self.settle(name, known).await {
                Ok(Found::Cursor(stored)) => stored,
                Ok(nothing) => return (nothing.into(), Err(draft::missing(name, self.stream))),
                Err(error) => return (Known::Unsure, Err(error)),
            };
            let write = match self.removal(&stored.root, stored.version) {
                Ok(write) => write,
                Err(error) => return (Known::Unsure, Err(error)),
            };
            let buried = write.value.is_some();
            match write_settled(&*self.store, &*self.env.clock, vec![write]).await.pop() {
                Some(verdict @ (Verdict::Applied(_) | Verdict::Conflict(None))) => {
                    let after = match verdict {
                        Verdict::Applied(version) if buried => Known::Left(Left {
                            version,
                            owner_epoch: self.epoch,
                            ack_epoch: stored.root.ack_epoch.saturating_add(1),
                        }),
                        _ => Known::Absent,
                    };
                    let Stored { root, names, .. } = *stored;
                    self.held.replace(names.bytes(), 0);
                    let pages = names.iter().filter_map(|part| page_key(&root, &part.name).ok());
                    let indexes = names.stored().filter_map(|index| index_key(&root, index).ok());
                    self.reclaim(pages.chain(indexes).collect());
                    return (after, Ok(()));
                }
                Some(Verdict::Conflict(Some(_))) => known = Known::Unsure,
                Some(Verdict::Refused(error)) => return (Known::At(stored), Err(error)),
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

    /// What takes a root away: a tombstone, where a copy of its creation may still arrive.
    fn removal(&self, root: &CursorRoot, version: Version) -> Result<Write> {
        let value = match self.store.capabilities().late_writes {
            true => Some(root.tombstone(self.epoch).encode()?),
            false => None,
        };
        Ok(Write {
            key: root.key()?,
            expected: Expected::Version(version),
            value,
        })
    }

    fn fenced(&self, name: &str, by_epoch: OwnerEpoch) -> Error {
        Error::Fenced {
            what: format!("cursor {name} of stream {}", self.stream),
            by_epoch,
        }
    }
}
