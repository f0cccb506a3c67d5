//! Reads of what is not in the tail cache: which slices a read takes, and which it reads ahead.
//!
//! The first run of slices waits for its turn at the device; what comes behind it in the same read is taken only if it is there or
//! can be had now. So a read waits while it holds nothing, and under pressure it gives fewer entries instead of waiting again.

use std::collections::VecDeque;

use super::locate::Located;
use super::reader::{Reader, Wanted};
use super::types::{ReadBatch, ReadEntry};
use crate::cache::{self, Ahead, Cached, Patience, Source, Window};
use crate::commit::Commit;
use crate::error::{Error, Result};
use crate::types::Offset;

/// Most bytes that one read asks for, whatever its caller allows: no more than a dispatcher sends at once.
const MOST: u64 = 16 << 20;

/// Neighbouring commits.
struct Run {
    commits: Vec<Commit>,
    end: Ahead,
}

pub(super) async fn read(reader: &Reader, wanted: &Wanted) -> Result<ReadBatch> {
    let source = Source {
        stream: reader.trunk.commits.stream,
        log: &reader.trunk.common.log,
        spawner: &*reader.trunk.common.env.spawner,
    };
    let window = reader
        .ahead
        .lock()
        .begin(wanted.start, reader.caches().slices.most_ahead());
    let mut taking = Taking::new(reader, wanted);
    taking.ask(&source, Patience::Wait).await?;
    while taking.wants_more() && taking.ask(&source, Patience::Now).await.unwrap_or(false) {}
    let (ahead, refused) = read_ahead(reader, &source, window, taking.asked).await;
    loop {
        taking.collect().await?;
        // Entries before the start count as asked for, so there may be room for more.
        if !taking.wants_more() || !taking.ask(&source, Patience::Now).await.unwrap_or(false) {
            break;
        }
    }
    let next = taking.next;
    reader.ahead.lock().end(wanted.start, next, ahead, refused);
    Ok(taking.batch)
}

/// One read on its way.
struct Taking<'a> {
    reader: &'a Reader,
    /// The end of what the request may give, in offsets.
    last: Offset,
    max_bytes: u64,
    /// Slices that were asked for and not looked at, in order.
    slices: VecDeque<cache::Wanted>,
    asked: Ahead,
    /// Bytes of those slices.
    coming: u64,
    batch: ReadBatch,
    /// Bytes in the batch.
    bytes: u64,
    next: Offset,
    /// Nothing more goes into the batch.
    full: bool,
}

impl<'a> Taking<'a> {
    fn new(reader: &'a Reader, wanted: &Wanted) -> Taking<'a> {
        Taking {
            reader,
            last: last(reader, wanted),
            max_bytes: wanted.max_bytes.min(MOST),
            slices: VecDeque::new(),
            asked: Ahead {
                offset: wanted.start,
                bytes: 0,
            },
            coming: 0,
            batch: ReadBatch::default(),
            bytes: 0,
            next: wanted.start,
            full: false,
        }
    }

    fn wants_more(&self) -> bool {
        !self.full && self.asked.offset < self.last && self.bytes.saturating_add(self.coming) < self.max_bytes
    }

    /// Asks for the next run. False when a part of it cannot be had now, or would be held while a read in front of it waits for its
    /// turn.
    async fn ask(&mut self, source: &Source<'_>, patience: Patience) -> Result<bool> {
        if self.slices.back().is_some_and(|last| !last.is_under_way()) {
            return Ok(false);
        }
        let left = self.max_bytes.saturating_sub(self.bytes).saturating_sub(self.coming);
        // What is wrong further on is told to the read that begins there.
        let run = run(self.reader, self.asked.offset, self.last, left).await?;
        let fetched = self.reader.caches().slices.fetch(source, &run.commits, patience);
        let missing = run.commits.get(fetched.len()..).unwrap_or_default();
        self.asked = match missing.first() {
            Some(first) => Ahead {
                offset: first.start,
                bytes: run
                    .end
                    .bytes
                    .saturating_sub(missing.iter().map(|commit| commit.bytes).sum()),
            },
            None => run.end,
        };
        let all = missing.is_empty();
        for wanted in fetched {
            self.coming = self.coming.saturating_add(wanted.commit.bytes);
            self.slices.push_back(wanted);
        }
        Ok(all)
    }

    /// Takes entries out of the slices in order, as long as they come.
    async fn collect(&mut self) -> Result<()> {
        while let Some(wanted) = self.slices.pop_front() {
            if !self.batch.entries.is_empty() && !wanted.is_under_way() {
                self.full = true;
            }
            if self.full {
                break;
            }
            let commit = wanted.commit;
            let cached = wanted.get().await?;
            self.coming = self.coming.saturating_sub(commit.bytes);
            self.take(&commit, &cached)?;
            self.batch.held.keep(cached);
        }
        Ok(())
    }

    fn take(&mut self, commit: &Commit, cached: &Cached) -> Result<()> {
        let skip = usize::try_from(self.next.get().saturating_sub(commit.start.get())).unwrap_or(usize::MAX);
        for found in cached.slice().entries.iter().skip(skip) {
            let more = self.bytes.saturating_add(found.entry.len() as u64);
            if self.next >= self.last || (more > self.max_bytes && !self.batch.entries.is_empty()) {
                self.full = true;
                return Ok(());
            }
            self.bytes = more;
            self.batch.entries.push(ReadEntry {
                offset: self.next,
                entry: found.entry.clone(),
            });
            self.next = Offset::new(self.next.get() + 1);
        }
        if commit.end() == Some(self.next) {
            return Ok(());
        }
        Err(Error::Corrupt {
            what: format!("stream {}", self.reader.trunk.commits.stream),
            place: format!("{:?}", commit.target),
            detail: format!(
                "the entries read end at {}, the commit at {} has {}",
                self.next, commit.start, commit.count
            ),
        })
    }
}

/// The end of what the request may give, in offsets. What the tail cache has is not read from the log.
fn last(reader: &Reader, wanted: &Wanted) -> Offset {
    let by_count = wanted.start.checked_add(u64::from(wanted.max_entries));
    let last = by_count.unwrap_or(Offset::MAX).min(wanted.up_to);
    match reader.trunk.recent.first() {
        Some(tail) if tail > wanted.start => last.min(tail),
        _ => last,
    }
}

/// Commits from the one that holds `start`: at least that one, then as many as begin before `last` until there are `bytes`, and
/// no more than one read takes.
async fn run(reader: &Reader, start: Offset, last: Offset, bytes: u64) -> Result<Run> {
    let mut run = Run {
        commits: Vec::new(),
        end: Ahead {
            offset: start,
            bytes: 0,
        },
    };
    let mut taken = 0u64;
    while run.commits.is_empty() || (run.end.offset < last && taken < bytes) {
        let located = match reader.trunk.commits.locate(run.end.offset).await {
            Ok(located) => located,
            Err(error) if run.commits.is_empty() => return Err(error),
            Err(_) => break,
        };
        let Located {
            commit, bytes_before, ..
        } = located;
        taken = taken.saturating_add(commit.bytes);
        if !run.commits.is_empty() && taken > reader.caches().slices.run_bytes() {
            break;
        }
        run.commits.push(commit);
        run.end = Ahead {
            offset: commit.end().unwrap_or(Offset::MAX),
            bytes: bytes_before.saturating_add(commit.bytes),
        };
    }
    Ok(run)
}

/// Fills the window behind `asked` once half of it is used up. Gives up to where slices were asked for, and whether there was too
/// little memory or too few permits for more.
async fn read_ahead(reader: &Reader, source: &Source<'_>, window: Window, asked: Ahead) -> (Ahead, bool) {
    let mut ahead = match window.asked.offset > asked.offset {
        true => window.asked,
        false => asked,
    };
    let filled = |ahead: Ahead| ahead.bytes.saturating_sub(asked.bytes);
    if filled(ahead) * 2 >= window.bytes {
        return (ahead, false);
    }
    let Ok(end) = reader.trunk.commits.head(|head| head.end) else {
        return (ahead, false);
    };
    let end = match reader.trunk.recent.first() {
        Some(tail) if tail > asked.offset => end.min(tail),
        _ => end,
    };
    while ahead.offset < end && filled(ahead) < window.bytes {
        let left = window.bytes - filled(ahead);
        // What cannot be located is the concern of the read that gets there.
        let Ok(next) = run(reader, ahead.offset, end, left).await else {
            break;
        };
        if !reader.caches().slices.read_ahead(source, &next.commits) {
            return (ahead, true);
        }
        ahead = next.end;
    }
    (ahead, false)
}
