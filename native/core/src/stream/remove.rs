//! Removal of what hangs on a stream, after its head no longer needs it. Each call can be done again.

use crate::error::{Error, Result};
use crate::metadata::{Expected, MetadataStore, Verdict, Write};
use crate::record::key::STREAM_KINDS;
use crate::record::{Key, RecordType};
use crate::types::{Offset, StreamId};

/// Keys per batch.
const BATCH: usize = 256;

/// Removes everything but the head of a stream whose head is gone.
pub async fn remove_remains(store: &dyn MetadataStore, stream: StreamId) -> Result<()> {
    for kind in STREAM_KINDS.iter().filter(|kind| **kind != RecordType::StreamHead) {
        let (from, to) = Key::stream_range(*kind, stream);
        remove_range(store, from, to, 0).await?;
    }
    Ok(())
}

/// Removes the commit pages that lie wholly below `trim`, the present trim offset of the head.
pub(super) async fn remove_trimmed_pages(store: &dyn MetadataStore, stream: StreamId, trim: Offset) -> Result<()> {
    let from = Key::commit_page(stream, Offset::ZERO);
    let to = Key::commit_page(stream, Offset::new(trim.get().saturating_add(1)));
    // The last page that starts at or below the trim offset may reach past it.
    remove_range(store, from, to, 1).await
}

/// Removes the trim marks up to `trim`, the present trim offset of the head: what they end is gone.
pub(super) async fn remove_trimmed_marks(store: &dyn MetadataStore, stream: StreamId, trim: Offset) -> Result<()> {
    let from = Key::trim_mark(stream, Offset::ZERO);
    let to = Key::trim_mark(stream, Offset::new(trim.get().saturating_add(1)));
    remove_range(store, from, to, 0).await
}

/// Removes the keys of a range except its last `keep`.
async fn remove_range(store: &dyn MetadataStore, from: Key, to: Key, keep: usize) -> Result<()> {
    loop {
        let found = store.scan(from.clone(), to.clone(), BATCH).await?;
        let last = found.len() < BATCH;
        let removable = found.len().saturating_sub(keep);
        let batch: Vec<Write> = found
            .into_iter()
            .take(removable)
            .map(|(key, there)| Write {
                key,
                expected: Expected::Version(there.version),
                value: None,
            })
            .collect();
        if batch.is_empty() {
            return Ok(());
        }
        for verdict in store.write(batch).await {
            match verdict {
                Verdict::Applied(_) | Verdict::Conflict(None) => {}
                Verdict::Conflict(Some(_)) => {
                    return Err(Error::Conflict {
                        what: format!("what hangs below {from}"),
                    })
                }
                Verdict::Refused(error) | Verdict::Unknown(error) => return Err(error),
            }
        }
        if last {
            return Ok(());
        }
    }
}
