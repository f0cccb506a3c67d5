//! A WAL in memory: for tests, and the plainest example of the contract.

use std::collections::HashMap;

use bytes::Bytes;
use parking_lot::Mutex;

use super::{SliceDescriptor, Wal, WalSlice};
use crate::commit::ReadTarget;
use crate::env::BoxFuture;
use crate::error::{Error, Result};

/// Slices by number, for as long as it lives.
#[derive(Default)]
pub struct MemoryWal {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    slices: HashMap<u64, (SliceDescriptor, Bytes)>,
    refuse: Option<Error>,
}

impl MemoryWal {
    /// An empty WAL.
    pub fn new() -> Self {
        Self::default()
    }

    /// Every write fails with `reason` from now on; `None` ends that.
    pub fn refuse_writes(&self, reason: Option<Error>) {
        self.state.lock().refuse = reason;
    }

    /// Flips one bit of a stored slice. False when there is no such slice or bit.
    pub fn flip_bit(&self, slice: u64, bit: usize) -> bool {
        let mut state = self.state.lock();
        let Some((_, body)) = state.slices.get_mut(&slice) else {
            return false;
        };
        let mut bytes = body.to_vec();
        let Some(byte) = bytes.get_mut(bit / 8) else {
            return false;
        };
        *byte ^= 1 << (bit % 8);
        *body = bytes.into();
        true
    }

    /// The descriptors of all slices, by number.
    pub fn descriptors(&self) -> Vec<(u64, SliceDescriptor)> {
        let mut all: Vec<_> = self.state.lock().slices.iter().map(|(n, (d, _))| (*n, *d)).collect();
        all.sort_unstable_by_key(|(n, _)| *n);
        all
    }
}

impl Wal for MemoryWal {
    fn append(&self, group: Vec<WalSlice>) -> BoxFuture<Vec<Result<ReadTarget>>> {
        let mut state = self.state.lock();
        let write = |slice: WalSlice| match &state.refuse {
            Some(reason) => Err(reason.clone()),
            None => {
                let number = state.next;
                state.next += 1;
                state.slices.insert(number, (slice.descriptor, slice.body));
                Ok(ReadTarget::Memory { slice: number })
            }
        };
        let answers = group.into_iter().map(write).collect();
        Box::pin(std::future::ready(answers))
    }

    fn read(&self, target: ReadTarget) -> BoxFuture<Result<Bytes>> {
        let found = match target {
            ReadTarget::Memory { slice } => self.state.lock().slices.get(&slice).map(|(_, body)| body.clone()),
            _ => None,
        };
        let result = found.ok_or_else(|| Error::Corrupt {
            what: "the memory WAL".into(),
            place: format!("{target:?}"),
            detail: "it holds no such slice".into(),
        });
        Box::pin(std::future::ready(result))
    }
}
