//! Writes that are sent until the store says what became of them.
//!
//! Promises: [`write_settled`] answers `Applied`, `Conflict` or `Refused` only when it is certain; `Unknown` only after it tried for
//! some seconds. Resending is safe because every copy names the same expected version.
//! Keeps: L6 for records that hang on a stream. Does not: move heads (`wal::two_step`, `journal`).

use std::time::Duration;

use super::{MetadataStore, Verdict, Version, Write};
use crate::env::Clock;
use crate::error::Error;

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
const SENDS: u32 = 10;

/// Writes a batch and settles each write whose answer was lost. Verdicts in order, as from the store.
pub async fn write_settled(store: &dyn MetadataStore, clock: &dyn Clock, batch: Vec<Write>) -> Vec<Verdict> {
    let mut verdicts = store.write(batch.clone()).await;
    // A provider that answers too few has not said what became of the rest.
    verdicts.resize_with(batch.len(), || {
        Verdict::Unknown(Error::Internal {
            what: "a metadata store gave no verdict".into(),
        })
    });
    for (write, verdict) in batch.into_iter().zip(&mut verdicts) {
        if matches!(verdict, Verdict::Unknown(_)) {
            *verdict = settle(store, clock, write, verdict.clone()).await;
        }
    }
    verdicts
}

async fn settle(store: &dyn MetadataStore, clock: &dyn Clock, write: Write, mut last: Verdict) -> Verdict {
    let mut pause = FIRST_PAUSE;
    for _ in 1..SENDS {
        clock.sleep(pause).await;
        pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
        match store.write(vec![write.clone()]).await.pop() {
            Some(Verdict::Applied(version)) => return Verdict::Applied(version),
            // An earlier copy arrived.
            Some(Verdict::Conflict(Some(there))) if write.value.as_ref() == Some(&there.value) => {
                return Verdict::Applied(there.version);
            }
            Some(Verdict::Conflict(None)) if write.value.is_none() => return Verdict::Applied(Version(0)),
            Some(Verdict::Conflict(there)) => return Verdict::Conflict(there),
            // Nothing follows from a refusal: the first copy may still be on its way.
            Some(Verdict::Refused(error) | Verdict::Unknown(error)) => last = Verdict::Unknown(error),
            None => {}
        }
    }
    last
}
