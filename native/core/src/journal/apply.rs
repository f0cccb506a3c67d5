//! What a frame's deltas do to heads and keys: the same code when a group is committed and when its frame is replayed, so both
//! give the same state, folded pages included.

use std::collections::HashMap;
use std::sync::Arc;

use super::by_stream::ByStream;
use super::frame::{Descriptor, Header, Placed};
use super::state::{HeadUpdate, Update};
use crate::commit::{Changed, Commit, Fold, HeadCell, HeadChange, ReadTarget, StreamHead};
use crate::error::{Error, Result};
use crate::metadata::{Version, Versioned};
use crate::record::{CommitPage, Key, Record};
use crate::types::{CommitVersion, StreamId};

/// The commit that a slice descriptor stands for, in a frame at `frame_position` of its segment; `None` for another descriptor.
pub fn commit_of(descriptor: &Descriptor, placed: &Placed, header: &Header, frame_position: u64) -> Option<Commit> {
    let Descriptor::Slice {
        start,
        count,
        bytes,
        messages,
        id,
        ..
    } = descriptor
    else {
        return None;
    };
    Some(Commit {
        id: *id,
        start: *start,
        count: *count,
        bytes: *bytes,
        messages: *messages,
        append_millis: header.time_millis,
        target: ReadTarget::Journal {
            segment: header.segment,
            position: frame_position.saturating_add(u64::from(placed.position)),
            length: u64::from(placed.length),
        },
        crc32c: placed.crc32c,
    })
}

/// Collects the update of one frame.
#[derive(Default)]
pub struct Applied {
    /// Copies of heads, and the order in which the frame first touched them.
    heads: ByStream<Option<StreamHead>>,
    order: Vec<StreamId>,
    written: HashMap<Key, Option<Version>>,
    update: Update,
}

impl Applied {
    /// The head of a stream after what was applied so far, if the frame touched it.
    pub fn head(&self, stream: StreamId) -> Option<&Option<StreamHead>> {
        self.heads.get(&stream)
    }

    /// Puts a head in place, as found or as changed.
    pub fn set_head(&mut self, stream: StreamId, head: Option<StreamHead>) {
        if self.heads.insert(stream, head).is_none() {
            self.order.push(stream);
        }
    }

    /// The deletion in this frame ends the damage of its stream.
    pub fn heal(&mut self, stream: StreamId) {
        self.update.healed.push(stream);
    }

    /// Applies a commit that fits. A full ring gives up its oldest commits to a page in the same frame.
    ///
    /// # Errors
    /// `Corrupt` when it does not fit onto the head; the head is as before then.
    pub fn commit(&mut self, stream: StreamId, commit: Commit) -> Result<()> {
        let Some(Some(head)) = self.heads.get_mut(&stream) else {
            return Err(misfit(stream, "the stream has no head"));
        };
        head.fits(&commit).map_err(|why| misfit(stream, &why))?;
        let fold = head.commit(commit);
        let version = head.version;
        self.committed(stream, &commit, fold, version)
    }

    /// [`Applied::commit`] onto a published head, which moves when the update is published, without a copy of it. At most once for a
    /// stream, and only where nothing else of this frame touches its head.
    ///
    /// # Errors
    /// As [`Applied::commit`].
    pub fn commit_in_place(&mut self, stream: StreamId, cell: Arc<HeadCell>, commit: Commit) -> Result<()> {
        let (fold, version) = cell.with(|head| {
            let head = head.ok_or_else(|| misfit(stream, "the stream has no head"))?;
            head.fits(&commit).map_err(|why| misfit(stream, &why))?;
            Ok((head.due_fold(), head.version.next().unwrap_or(head.version)))
        })?;
        self.update.heads.push((stream, HeadUpdate::Commit(cell, commit)));
        self.committed(stream, &commit, fold, version)
    }

    fn committed(
        &mut self,
        stream: StreamId,
        commit: &Commit,
        fold: Option<Fold>,
        version: CommitVersion,
    ) -> Result<()> {
        if let Some(fold) = fold {
            self.fold(stream, fold, version)?;
        }
        if let (ReadTarget::Journal { segment, .. }, Some(end)) = (commit.target, commit.end()) {
            self.update.uses.push((segment, stream, end));
        }
        Ok(())
    }

    /// A page is written once, under the version of the head that left it behind.
    fn fold(&mut self, stream: StreamId, fold: Fold, version: CommitVersion) -> Result<()> {
        let page = CommitPage {
            stream,
            bytes_before: fold.bytes_before,
            latest_before: fold.latest_before,
            commits: fold.commits,
        };
        let value = Versioned {
            value: page.encode()?,
            version: Version(version.get()),
        };
        self.update.keys.push((page.key()?, Some(value)));
        Ok(())
    }

    /// Replays a change that makes version `makes`.
    ///
    /// # Errors
    /// `Corrupt` when it does not apply or makes another version.
    pub fn change(&mut self, stream: StreamId, change: &HeadChange, makes: CommitVersion) -> Result<()> {
        let head = self.heads.get(&stream).and_then(Option::as_ref);
        let before = head.map_or(CommitVersion::new(0), |head| head.version);
        if before.next() != Some(makes) {
            return Err(misfit(
                stream,
                &format!("a change that makes version {makes} onto version {before}"),
            ));
        }
        let next = match change.judge(stream, head).map_err(|e| misfit(stream, &e.to_string()))? {
            Changed::Head(next) => Some(*next),
            Changed::Deleted => None,
            Changed::Nothing => {
                return Err(misfit(
                    stream,
                    &format!("a change that makes version {makes} changes nothing"),
                ))
            }
        };
        self.set_head(stream, next);
        Ok(())
    }

    /// Sets or removes a key.
    pub fn key(&mut self, key: Key, value: Option<Versioned>) {
        self.written
            .insert(key.clone(), value.as_ref().map(|value| value.version));
        self.update.keys.push((key, value));
    }

    /// The version of a key after what was applied so far (`Some(None)` = removed), if the frame wrote it.
    pub fn written(&self, key: &Key) -> Option<Option<Version>> {
        self.written.get(key).copied()
    }

    /// The update.
    pub fn finish(mut self) -> Update {
        let mut heads = self.heads;
        let touched = self
            .order
            .iter()
            .filter_map(|stream| Some((*stream, HeadUpdate::set(heads.remove(stream)?))));
        self.update.heads.extend(touched);
        self.update
    }
}

/// A delta that does not follow from the state it is applied to.
fn misfit(stream: StreamId, why: &str) -> Error {
    Error::Corrupt {
        what: format!("stream {stream}"),
        place: "the journal".into(),
        detail: why.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{CommitId, Incarnation, Offset};

    const STREAM: StreamId = StreamId::new(7);

    fn commit(n: u64, start: Offset, millis: u64) -> Commit {
        Commit {
            id: CommitId::new(u128::from(n)),
            start,
            count: 1 + (n % 3) as u32,
            bytes: n * 10,
            messages: n,
            append_millis: millis,
            target: ReadTarget::Journal {
                segment: n / 20,
                position: n * 4096,
                length: 100,
            },
            crc32c: n as u32,
        }
    }

    /// What a frame is made of and what its replay makes of it must not differ, pages and uses included.
    #[test]
    fn l04_a_commit_in_place_gives_what_one_on_a_copy_gives() {
        let start = StreamHead::new(STREAM, Incarnation::new(1), 0);
        let cell = Arc::new(HeadCell::new(start.clone()));
        let mut copy = start;
        for n in 1..200 {
            // A clock that goes back now and then.
            let next = commit(n, copy.end, 1000 + n - n % 7 * 3);
            let (mut on_copy, mut in_place) = (Applied::default(), Applied::default());
            on_copy.set_head(STREAM, Some(copy));
            on_copy.commit(STREAM, next).unwrap();
            in_place.commit_in_place(STREAM, cell.clone(), next).unwrap();
            assert_eq!(
                cell.with(|head| head.unwrap().version.get()),
                n,
                "nothing moves before it is published"
            );
            let (on_copy, in_place) = (on_copy.finish(), in_place.finish());
            assert_eq!(on_copy.keys, in_place.keys);
            assert_eq!(on_copy.uses, in_place.uses);
            let mut copies = on_copy.heads.into_iter();
            let Some((_, HeadUpdate::Set(Some(head)))) = copies.next() else {
                panic!("no head")
            };
            copy = *head;
            for (_, update) in in_place.heads {
                cell.publish(|head| update.apply(head));
            }
            assert_eq!(cell.with(|head| head.cloned()).as_ref(), Some(&copy));
        }
        let gap = commit(500, Offset::new(9), 0);
        assert!(Applied::default().commit_in_place(STREAM, cell, gap).is_err());
        let nowhere = Arc::new(HeadCell::empty());
        assert!(Applied::default().commit_in_place(STREAM, nowhere, gap).is_err());
    }
}
