//! What is durable before a head is sent: the slice with its intent (L3), and the page of the commits that leave the ring.

use super::attempt::Attempt;
use super::Wal;
use crate::commit::Commit;
use crate::error::{Error, Result};
use crate::metadata::{Expected, MetadataStore, Verdict, Write};
use crate::mutant::{active, Mutant};
use crate::record::{CommitPage, Record};
use crate::wal::WalSlice;

/// How often a commit page is sent again before the appends that need it are refused.
const PAGE_SENDS: u32 = 4;

/// An attempt, with the slice that it commits.
pub(super) struct Draft {
    pub attempt: Attempt,
    pub slice: Option<(WalSlice, Commit)>,
}

/// First step: bytes and intent become durable (L3). Gives the attempts whose head may now be sent.
pub(super) async fn write_slices(wal: &dyn Wal, drafts: Vec<Draft>) -> Vec<Attempt> {
    let slices: Vec<WalSlice> = drafts
        .iter()
        .filter_map(|d| d.slice.as_ref().map(|(s, _)| s.clone()))
        .collect();
    let mut answers = match slices.is_empty() {
        true => Vec::new(),
        false => wal.append(slices).await,
    }
    .into_iter();
    let mut ready = Vec::new();
    for Draft { mut attempt, slice } in drafts {
        let Some((_, mut commit)) = slice else {
            ready.push(attempt);
            continue;
        };
        match answers.next() {
            Some(Ok(target)) => {
                commit.target = target;
                attempt.fold = attempt.next.as_mut().and_then(|head| head.commit(commit));
                ready.push(attempt);
            }
            Some(Err(error)) => attempt.refused(error),
            None => attempt.refused(Error::Internal {
                what: "the WAL answered fewer slices than it was given".into(),
            }),
        }
    }
    ready
}

/// Commits leave the ring only into a durable page. A page is the same whoever writes it, so sending it again is harmless.
pub(super) async fn write_pages(store: &dyn MetadataStore, attempts: Vec<Attempt>) -> Vec<Attempt> {
    let mut ready = Vec::new();
    for attempt in attempts {
        let Some(fold) = attempt.fold.as_ref().filter(|_| !active(Mutant::SkipCommitPage)) else {
            ready.push(attempt);
            continue;
        };
        let page = CommitPage {
            stream: attempt.stream,
            bytes_before: fold.bytes_before,
            latest_before: fold.latest_before,
            commits: fold.commits.clone(),
        };
        match write_page(store, &page).await {
            Ok(()) => ready.push(attempt),
            Err(error) => attempt.refused(error),
        }
    }
    ready
}

async fn write_page(store: &dyn MetadataStore, page: &CommitPage) -> Result<()> {
    let write = Write {
        key: page.key()?,
        expected: Expected::Absent,
        value: Some(page.encode()?),
    };
    let mut last = None;
    for _ in 0..PAGE_SENDS {
        match store.write(vec![write.clone()]).await.pop() {
            Some(Verdict::Applied(_)) => return Ok(()),
            Some(Verdict::Conflict(Some(there))) if Some(&there.value) == write.value.as_ref() => return Ok(()),
            Some(Verdict::Conflict(_)) => {
                return Err(Error::Corrupt {
                    what: format!("stream {}", page.stream),
                    place: format!("key {}", write.key),
                    detail: "another page is stored under the key of the commits that leave the ring".into(),
                });
            }
            Some(Verdict::Refused(error)) => return Err(error),
            Some(Verdict::Unknown(error)) => last = Some(error),
            None => {}
        }
    }
    Err(last.unwrap_or_else(|| Error::Internal {
        what: "a metadata store gave no verdict".into(),
    }))
}
