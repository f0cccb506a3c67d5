//! `CommitPage`: commits folded out of a head's ring, in offset order. Written only through `commit::Log`.

use prost::Message;

use super::wire::{self, WireCommit};
use super::{commit_deltas, Key, Record, RecordType};
use crate::commit::Commit;
use crate::error::Result;
use crate::types::{Offset, StreamId};

/// Most commits of one page.
pub const MAX_COMMITS: usize = 512;

/// At least one commit, contiguous. The page that covers an offset is the last one whose first offset is not past it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitPage {
    /// The stream.
    pub stream: StreamId,
    /// Bytes of all entries of the stream before the first commit: sizes are answered by subtraction, without a walk.
    pub bytes_before: u64,
    /// Latest append time of all commits before the first one (broker clock, milliseconds): times are searched by it, because the
    /// clock may have gone back.
    pub latest_before: u64,
    /// 1 to [`MAX_COMMITS`] commits, each starting where the one before ends.
    pub commits: Vec<Commit>,
}

impl CommitPage {
    /// The first offset, under which the page is stored.
    pub fn first(&self) -> Offset {
        self.commits.first().map_or(Offset::ZERO, |commit| commit.start)
    }

    /// One past the last offset.
    pub fn end(&self) -> Offset {
        self.commits.last().and_then(Commit::end).unwrap_or(Offset::ZERO)
    }

    /// Smallest and largest append time (broker clock, milliseconds); the clock may have gone back in between.
    pub fn append_millis(&self) -> (u64, u64) {
        let times = self.commits.iter().map(|commit| commit.append_millis);
        (times.clone().min().unwrap_or(0), times.max().unwrap_or(0))
    }
}

/// Version 1 has whole commits in field 2; since version 2 they are [differences](super::commit_deltas).
#[derive(Clone, PartialEq, Message)]
struct Body {
    #[prost(bytes = "vec", tag = "1")]
    stream: Vec<u8>,
    #[prost(message, repeated, tag = "2")]
    whole: Vec<WireCommit>,
    #[prost(uint64, tag = "3")]
    bytes_before: u64,
    #[prost(uint64, tag = "4")]
    latest_before: u64,
    #[prost(uint64, tag = "5")]
    first: u64,
    #[prost(uint32, tag = "6")]
    count: u32,
    #[prost(bytes = "vec", tag = "7")]
    deltas: Vec<u8>,
}

impl Record for CommitPage {
    const TYPE: RecordType = RecordType::CommitPage;
    const VERSION: u16 = 2;
    const MAX_BYTES: usize = 64 * 1024;

    fn key(&self) -> Result<Key> {
        Ok(Key::commit_page(self.stream, self.first()))
    }

    fn check(&self) -> std::result::Result<(), String> {
        if self.commits.is_empty() || self.commits.len() > MAX_COMMITS {
            return Err(format!(
                "{} commits; 1 to {MAX_COMMITS} are allowed",
                self.commits.len()
            ));
        }
        wire::check_commits_touch(&self.commits)?;
        let bytes = self
            .commits
            .iter()
            .try_fold(self.bytes_before, |sum, commit| sum.checked_add(commit.bytes));
        bytes.map(drop).ok_or_else(|| "its bytes do not add up".into())
    }

    fn to_body(&self) -> Vec<u8> {
        Body {
            stream: self.stream.to_bytes().to_vec(),
            whole: Vec::new(),
            bytes_before: self.bytes_before,
            latest_before: self.latest_before,
            first: self.first().get(),
            // Bounded by `check`.
            count: u32::try_from(self.commits.len()).unwrap_or(u32::MAX),
            deltas: commit_deltas::encode(&self.commits),
        }
        .encode_to_vec()
    }

    fn from_body(version: u16, body: &[u8]) -> std::result::Result<Self, String> {
        let body: Body = wire::body(body)?;
        let commits = match version {
            1 => body.whole.into_iter().map(WireCommit::into_commit).collect(),
            _ => {
                let count = usize::try_from(body.count).unwrap_or(usize::MAX);
                commit_deltas::decode(&body.deltas, Offset::new(body.first), count)
            }
        };
        Ok(CommitPage {
            stream: wire::stream(&body.stream)?,
            bytes_before: body.bytes_before,
            latest_before: body.latest_before,
            commits: commits?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{commits, record_suite, streams};
    use super::*;

    record_suite!(
        CommitPage,
        (streams(), 0..=u64::MAX / 2, any::<u64>(), commits(1..=40)).prop_map(
            |(stream, bytes_before, latest_before, commits)| CommitPage {
                stream,
                bytes_before,
                latest_before,
                commits
            }
        )
    );

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn a_full_page_fits_its_bound(commits in commits(MAX_COMMITS..=MAX_COMMITS), stream in streams()) {
            let page = CommitPage { stream, bytes_before: u64::MAX / 2, latest_before: u64::MAX, commits };
            prop_assert!(page.encode().unwrap().len() <= CommitPage::MAX_BYTES);
            let (first, last) = page.append_millis();
            prop_assert!(page.commits.iter().all(|c| (first..=last).contains(&c.append_millis)));
        }
    }

    proptest! {
        #[test]
        fn l04_commits_that_do_not_touch_are_refused(mut commits in commits(2..=9), stream in streams()) {
            commits.remove(1);
            prop_assume!(commits.len() > 1);
            let page = CommitPage { stream, bytes_before: 0, latest_before: 0, commits };
            prop_assert!(page.encode().is_err());
        }
    }

    #[test]
    fn an_empty_page_is_refused() {
        let page = CommitPage {
            stream: StreamId::new(1),
            bytes_before: 0,
            latest_before: 0,
            commits: Vec::new(),
        };
        assert!(page.encode().is_err());
    }
}
