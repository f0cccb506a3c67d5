//! Reads of what is not in the tail cache: which slices a read takes, and which it reads ahead.
//!
//! The first run of slices waits for its turn at the device; what comes behind it in the same read is taken only if it is there or
//! can be had now. So a read waits while it holds nothing, and under pressure it gives fewer entries instead of waiting again.

use std::collections::VecDeque;

use super::locate::Located;
use super::reader::{Reader, Wanted};
use super::types::{ReadBatch, ReadEntry};
use crate::cache::{self, Ahead, Patience, Source, Window, RUN};
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
        stream: reader.commits.stream,
        log: &reader.log,
        spawner: &*reader.spawner,
    };
    let window = reader.ahead.lock().begin(wanted.start, reader.slices.most_ahead());
    let last = last(reader, wanted);
    let max_bytes = wanted.max_bytes.min(MOST);

    let first = run(reader, wanted.start, last, max_bytes.min(RUN)).await?;
    let mut asked = first.end;
    let mut bytes = first.bytes();
    let mut slices: VecDeque<_> = reader.slices.fetch(&source, &first.commits, Patience::Wait).into();
    while asked.offset < last && bytes < max_bytes {
        // What is wrong further on is told to the read that begins there.
        let Ok(next) = run(reader, asked.offset, last, (max_bytes - bytes).min(RUN)).await else {
            break;
        };
        let fetched = reader.slices.fetch(&source, &next.commits, Patience::Now);
        let all = fetched.len() == next.commits.len();
        slices.extend(fetched);
        if !all {
            break;
        }
        bytes = bytes.saturating_add(next.bytes());
        asked = next.end;
    }
    let (ahead, refused) = read_ahead(reader, &source, window, asked).await;
    let result = collect(slices, wanted, last, reader).await;
    if let Ok(batch) = &result {
        let next = wanted.start.get().saturating_add(batch.entries.len() as u64);
        reader
            .ahead
            .lock()
            .end(wanted.start, Offset::new(next), ahead, refused);
    }
    result
}

/// The end of what the request may give, in offsets. What the tail cache has is not read from the log.
fn last(reader: &Reader, wanted: &Wanted) -> Offset {
    let by_count = wanted.start.checked_add(u64::from(wanted.max_entries));
    let last = by_count.unwrap_or(Offset::MAX).min(wanted.up_to);
    match reader.cached.first() {
        Some(tail) if tail > wanted.start => last.min(tail),
        _ => last,
    }
}

/// Commits from the one that holds `start`: at least that one, then as many as begin before `last` and within `bytes`.
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
        let located = match reader.commits.locate(run.end.offset).await {
            Ok(located) => located,
            Err(error) if run.commits.is_empty() => return Err(error),
            Err(_) => break,
        };
        let Located { commit, bytes_before } = located;
        taken = taken.saturating_add(commit.bytes);
        run.commits.push(commit);
        run.end = Ahead {
            offset: commit.end().unwrap_or(Offset::MAX),
            bytes: bytes_before.saturating_add(commit.bytes),
        };
    }
    Ok(run)
}

impl Run {
    fn bytes(&self) -> u64 {
        self.commits
            .iter()
            .fold(0, |sum: u64, commit| sum.saturating_add(commit.bytes))
    }
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
    let Ok(end) = reader.commits.head(|head| head.end) else {
        return (ahead, false);
    };
    let end = match reader.cached.first() {
        Some(tail) if tail > asked.offset => end.min(tail),
        _ => end,
    };
    while ahead.offset < end && filled(ahead) < window.bytes {
        let left = window.bytes - filled(ahead);
        // What cannot be located is the concern of the read that gets there.
        let Ok(next) = run(reader, ahead.offset, end, left.min(RUN)).await else {
            break;
        };
        if !reader.slices.read_ahead(source, &next.commits) {
            return (ahead, true);
        }
        ahead = next.end;
    }
    (ahead, false)
}

/// Entries out of slices in order, as long as they come.
async fn collect(
    slices: VecDeque<cache::Wanted>,
    wanted: &Wanted,
    last: Offset,
    reader: &Reader,
) -> Result<ReadBatch> {
    let mut batch = ReadBatch::default();
    let mut bytes = 0u64;
    let mut next = wanted.start;
    for slice in slices {
        if !batch.entries.is_empty() && !slice.is_under_way() {
            break;
        }
        let commit = slice.commit;
        let cached = slice.get().await?;
        let skip = usize::try_from(next.get().saturating_sub(commit.start.get())).unwrap_or(usize::MAX);
        let mut full = false;
        for found in cached.slice().entries.iter().skip(skip) {
            let more = bytes.saturating_add(found.entry.len() as u64);
            if next >= last || (more > wanted.max_bytes && !batch.entries.is_empty()) {
                full = true;
                break;
            }
            bytes = more;
            batch.entries.push(ReadEntry {
                offset: next,
                entry: found.entry.clone(),
            });
            next = Offset::new(next.get() + 1);
        }
        batch.held.keep(cached);
        if full {
            break;
        }
        if commit.end() != Some(next) {
            return Err(Error::Corrupt {
                what: format!("stream {}", reader.commits.stream),
                place: format!("{:?}", commit.target),
                detail: format!(
                    "the entries read end at {next}, the commit at {} has {}",
                    commit.start, commit.count
                ),
            });
        }
    }
    Ok(batch)
}
