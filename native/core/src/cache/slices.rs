//! Commits read back from the log. Many readers of one slice cause one read.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::lru::Lru;
use super::Account;
use crate::commit::Slice;
use crate::env::{BoxFuture, Spawner};
use crate::error::{Error, Result};
use crate::types::{CommitId, StreamId};

type Key = (StreamId, CommitId);

/// Slices of all streams of an engine.
pub struct SliceCache {
    state: Mutex<State>,
}

struct State {
    ready: Lru<Key, Slice>,
    loading: HashMap<Key, Vec<oneshot::Sender<Result<Slice>>>>,
}

/// What an entry costs besides its bytes.
const ENTRY_OVERHEAD: u64 = 64;

impl SliceCache {
    pub(super) fn new(account: Arc<Account>) -> Self {
        SliceCache {
            state: Mutex::new(State {
                ready: Lru::new(account),
                loading: HashMap::new(),
            }),
        }
    }

    /// The slice from the cache, from a read that is under way, or from `load`, which then runs as a task of its own: whoever
    /// leaves, the others get it. Failures are answered to everyone who waits and kept for nobody (L11).
    pub fn get(
        self: &Arc<Self>,
        key: (StreamId, CommitId),
        spawner: &dyn Spawner,
        load: impl FnOnce() -> BoxFuture<Result<Slice>>,
    ) -> BoxFuture<Result<Slice>> {
        let (sender, receiver) = oneshot::channel();
        let first = {
            let mut state = self.state.lock();
            if let Some(slice) = state.ready.get(key) {
                return Box::pin(std::future::ready(Ok(slice)));
            }
            let waiting = state.loading.entry(key).or_default();
            waiting.push(sender);
            waiting.len() == 1
        };
        if first {
            let flight = Flight {
                cache: self.clone(),
                key,
                landed: false,
            };
            let load = load();
            spawner.spawn("slice read", Box::pin(async move { flight.land(load.await) }));
        }
        Box::pin(async move { receiver.await.unwrap_or_else(|_| Err(gone())) })
    }

    fn finish(&self, key: Key, result: Result<Slice>) {
        let waiting = {
            let mut state = self.state.lock();
            if let Ok(slice) = &result {
                let bytes = slice
                    .entries
                    .iter()
                    .map(|e| e.entry.len() as u64 + ENTRY_OVERHEAD)
                    .sum();
                state.ready.insert(key, slice.clone(), bytes);
            }
            state.loading.remove(&key)
        };
        for waiter in waiting.into_iter().flatten() {
            // A reader that left needs no answer.
            let _ = waiter.send(result.clone());
        }
    }
}

/// A read under way. Dropped without landing (a panic, a stopped engine) it fails its waiters, so that the next reader tries again.
struct Flight {
    cache: Arc<SliceCache>,
    key: Key,
    landed: bool,
}

impl Flight {
    fn land(mut self, result: Result<Slice>) {
        self.landed = true;
        self.cache.finish(self.key, result);
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if !self.landed {
            self.cache.finish(self.key, Err(gone()));
        }
    }
}

fn gone() -> Error {
    Error::Closed {
        what: "the engine that was reading a slice".into(),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tokio::sync::Semaphore;

    use super::*;
    use crate::commit::SliceEntry;
    use crate::env::real;
    use crate::error::ErrorCode;

    const KEY: Key = (StreamId::new(1), CommitId::new(2));

    fn slice() -> Slice {
        Slice {
            entries: Arc::new([SliceEntry {
                entry: Bytes::from_static(b"entry"),
                crc32c: 0,
            }]),
        }
    }

    #[test]
    fn many_readers_cause_one_read_and_a_failure_is_kept_for_nobody() {
        let rt = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .build()
            .unwrap();
        let spawner = real::env(rt.handle().clone()).unwrap().spawner;
        let cache = Arc::new(SliceCache::new(Account::new("test", 1000)));
        let open = Arc::new(Semaphore::new(0));
        let mut loads = 0;
        let mut get = |result: Result<Slice>| {
            let open = open.clone();
            cache.get(KEY, &*spawner, || {
                loads += 1;
                Box::pin(async move {
                    drop(open.acquire().await);
                    result
                })
            })
        };
        let failure = Error::Unavailable {
            what: "disk".into(),
            retry: std::time::Duration::from_secs(1),
        };
        let failed: Vec<_> = (0..3).map(|_| get(Err(failure.clone()))).collect();
        open.add_permits(1);
        for answer in failed {
            assert_eq!(rt.block_on(answer).unwrap_err().code(), ErrorCode::Unavailable);
        }
        for _ in 0..3 {
            assert_eq!(rt.block_on(get(Ok(slice()))).unwrap().entries.len(), 1);
        }
        assert_eq!(loads, 2, "one that failed, one that is kept");
    }

    #[test]
    fn read_that_dies_fails_its_waiters_and_the_next_reader_tries_again() {
        let rt = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .unwrap();
        let spawner = real::env(rt.handle().clone()).unwrap().spawner;
        let cache = Arc::new(SliceCache::new(Account::new("test", 1000)));
        let died = cache.get(KEY, &*spawner, || {
            Box::pin(async { panic!("this read dies on purpose") })
        });
        assert_eq!(rt.block_on(died).unwrap_err().code(), ErrorCode::Closed);
        assert!(rt
            .block_on(cache.get(KEY, &*spawner, || Box::pin(async { Ok(slice()) })))
            .is_ok());
    }
}
