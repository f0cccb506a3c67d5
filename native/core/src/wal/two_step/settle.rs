//! Settling an attempt whose answer was lost: the identical write again, until the store says what became of it (L6).

use std::sync::Arc;
use std::time::Duration;

use crate::commit::StreamHead;
use crate::env::Env;
use crate::error::Result;
use crate::metadata::{MetadataStore, Verdict, Version, Versioned, Write};
use crate::record::{CommitPage, Key, Record};
use crate::types::{CommitId, Offset, StreamId};

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What became of an attempt. Every variant is final: the version that the attempt names is gone, so no copy of it can arrive late.
#[derive(Debug)]
pub(super) enum Settled {
    /// The stored head is the attempt's.
    Applied(Version),
    /// It was applied, and the head has moved on since.
    Found(Versioned),
    /// The head moved on without it; `None` = it is gone.
    Lost(Option<Versioned>),
}

/// Resolves once the attempt is settled, however long that takes; the caller drops it to stop.
pub(super) async fn settle(
    env: Env,
    store: Arc<dyn MetadataStore>,
    stream: StreamId,
    write: Write,
    commit: Option<(CommitId, Offset)>,
) -> Settled {
    let mut pause = FIRST_PAUSE;
    loop {
        env.clock.sleep(pause).await;
        pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
        let settled = match store.write(vec![write.clone()]).await.pop() {
            Some(Verdict::Applied(version)) => Some(Settled::Applied(version)),
            Some(Verdict::Conflict(current)) => judge(&*store, stream, &write, commit, current).await.ok(),
            // Nothing follows from a refusal either: the first copy may still be on its way.
            Some(Verdict::Refused(_) | Verdict::Unknown(_)) | None => None,
        };
        match settled {
            Some(settled) => return settled,
            None => tracing::debug!(%stream, ?pause, "attempt is not settled yet; the stream stays suspended"),
        }
    }
}

/// Reads out of a conflict what became of the attempt. An error = cannot be read now.
pub(super) async fn judge(
    store: &dyn MetadataStore,
    stream: StreamId,
    write: &Write,
    commit: Option<(CommitId, Offset)>,
    current: Option<Versioned>,
) -> Result<Settled> {
    let Some(current) = current else {
        return Ok(match write.value {
            None => Settled::Applied(Version(0)),
            Some(_) => Settled::Lost(None),
        });
    };
    if write.value.as_ref() == Some(&current.value) {
        return Ok(Settled::Applied(current.version));
    }
    let Some((id, start)) = commit else {
        return Ok(Settled::Lost(Some(current)));
    };
    let head = StreamHead::decode(&Key::stream_head(stream), &current.value)?;
    let found = match head.find(start) {
        Some(at_start) => at_start.id == id,
        None if start >= head.end => false,
        None => paged(store, stream, start)
            .await?
            .is_some_and(|page| page.commits.iter().any(|c| c.id == id)),
    };
    Ok(if found {
        Settled::Found(current)
    } else {
        Settled::Lost(Some(current))
    })
}

async fn paged(store: &dyn MetadataStore, stream: StreamId, offset: Offset) -> Result<Option<CommitPage>> {
    let from = Key::commit_page(stream, Offset::ZERO);
    let to = Key::commit_page(stream, Offset::new(offset.get().saturating_add(1)));
    match store.last(from, to).await? {
        Some((key, page)) => CommitPage::decode(&key, &page.value).map(Some),
        None => Ok(None),
    }
}
