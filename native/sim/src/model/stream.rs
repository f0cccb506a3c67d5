//! One incarnation of a stream: entries, trim offset, termination, properties, owner epoch.

use std::collections::BTreeMap;

use nereus_core::stream::StreamState;

use super::CursorModel;
use crate::entry::Entry;
use crate::law::{broken, holds, Check, Law};

/// Properties of a ledger.
pub type Properties = BTreeMap<String, String>;

/// An append whose outcome is not known.
#[derive(Debug, Clone, Copy)]
struct Attempt {
    offset: u64,
    entry: Entry,
}

/// What may be seen of one stream.
#[derive(Default)]
pub struct StreamModel {
    /// Entries that are committed for certain: acknowledged, or read once.
    known: BTreeMap<u64, Entry>,
    /// By number of the request.
    attempts: BTreeMap<u64, Attempt>,
    /// Trimmed at least up to here.
    pub trim: u64,
    /// Trims were asked for up to here.
    trim_asked: u64,
    /// The final end.
    pub terminated: Option<u64>,
    /// A termination was asked for.
    terminating: bool,
    /// The newest owner epoch seen.
    pub epoch: u64,
    properties: Properties,
    /// Asked for since, each may have happened.
    properties_asked: Vec<Properties>,
    /// Cursors by name.
    pub cursors: BTreeMap<String, CursorModel>,
}

impl StreamModel {
    /// A new stream with these properties.
    pub fn new(properties: Properties) -> StreamModel {
        StreamModel {
            properties,
            ..StreamModel::default()
        }
    }

    /// One past the last entry that is there for certain.
    pub fn known_end(&self) -> u64 {
        self.known.last_key_value().map_or(0, |(last, _)| last + 1)
    }

    /// The end if every open attempt were committed.
    pub fn possible_end(&self) -> u64 {
        let attempts = self.attempts.values().map(|attempt| attempt.offset + 1);
        attempts.max().unwrap_or(0).max(self.known_end())
    }

    /// How far trims may have gone.
    pub fn possible_trim(&self) -> u64 {
        self.trim.max(self.trim_asked)
    }

    /// Bytes of all entries, when all of them are known.
    fn bytes(&self) -> u64 {
        self.known.values().map(|entry| u64::from(entry.length)).sum()
    }

    /// An append was taken at `offset`.
    pub fn asked(&mut self, op: u64, offset: u64, entry: Entry) {
        self.attempts.insert(op, Attempt { offset, entry });
    }

    /// An append was acknowledged.
    pub fn committed(&mut self, op: u64, offset: u64) -> Check {
        let Some(attempt) = self.attempts.remove(&op) else {
            return broken(Law::L6, format!("request {op} was answered twice"));
        };
        holds(offset == attempt.offset, Law::L4, || {
            format!(
                "an append that was given offset {} was acknowledged at {offset}",
                attempt.offset
            )
        })?;
        match self.known.insert(offset, attempt.entry) {
            Some(other) if other != attempt.entry => broken(
                Law::L4,
                format!(
                    "offset {offset} was acknowledged for attempt {}, and holds attempt {}",
                    attempt.entry.id, other.id
                ),
            ),
            _ => Ok(()),
        }
    }

    /// An append was answered as not committed, for ever.
    pub fn not_committed(&mut self, op: u64) -> Check {
        let Some(attempt) = self.attempts.remove(&op) else {
            return broken(Law::L6, format!("request {op} was answered twice"));
        };
        let there = self.known.get(&attempt.offset) == Some(&attempt.entry) && attempt.entry.length >= 8;
        holds(!there, Law::L6, || {
            format!(
                "attempt {} at {} was read, and then answered as not committed",
                attempt.entry.id, attempt.offset
            )
        })
    }

    /// An entry was read.
    pub fn observe(&mut self, offset: u64, bytes: &[u8]) -> Check {
        if let Some(known) = self.known.get(&offset) {
            return holds(known.is(bytes), Law::L12, || {
                format!(
                    "offset {offset} holds attempt {} of {} bytes, {} other bytes were read",
                    known.id,
                    known.length,
                    bytes.len()
                )
            });
        }
        let open = self
            .attempts
            .values()
            .find(|open| open.offset == offset && open.entry.is(bytes));
        match open {
            Some(open) => {
                self.known.insert(offset, open.entry);
                Ok(())
            }
            None => broken(
                Law::L6,
                format!(
                    "{} bytes were read at offset {offset}, which no open attempt put there",
                    bytes.len()
                ),
            ),
        }
    }

    /// A trim was asked for.
    pub fn trim_asked(&mut self, before: u64) {
        self.trim_asked = self.trim_asked.max(before);
    }

    /// A trim to `asked` answered `trim`; the stream ended at least at `end` when it was asked.
    pub fn trimmed(&mut self, asked: u64, end: u64, trim: u64) -> Check {
        holds(trim >= asked.min(end), Law::L1, || {
            format!("a trim to {asked} answered {trim}, with {end} entries")
        })?;
        // Answers may be heard in another order than they were given.
        self.check_trim(trim.max(self.trim))?;
        self.trim = self.trim.max(trim);
        Ok(())
    }

    fn check_trim(&self, trim: u64) -> Check {
        holds(trim >= self.trim, Law::L1, || {
            format!("the trim offset went back from {} to {trim}", self.trim)
        })?;
        holds(trim <= self.possible_trim(), Law::L16, || {
            format!(
                "the trim offset is {trim}, nobody asked for more than {}",
                self.possible_trim()
            )
        })
    }

    /// A termination was asked for.
    pub fn terminate_asked(&mut self) {
        self.terminating = true;
    }

    /// Whether appends may be refused as terminated.
    pub fn may_be_terminated(&self) -> bool {
        self.terminating || self.terminated.is_some()
    }

    /// A termination answered `end`.
    pub fn terminated(&mut self, end: u64) -> Check {
        holds(end >= self.known_end(), Law::L1, || {
            format!("terminated at {end}, {} entries were acknowledged", self.known_end())
        })?;
        let before = *self.terminated.get_or_insert(end);
        holds(before == end, Law::L4, || {
            format!("terminated at {before}, now at {end}")
        })
    }

    /// New properties were asked for.
    pub fn properties_asked(&mut self, all: Properties) {
        self.properties_asked.push(all);
    }

    /// They were stored: everything asked for before is overtaken.
    pub fn properties_stored(&mut self, all: &Properties) {
        if let Some(at) = self.properties_asked.iter().position(|asked| asked == all) {
            self.properties_asked.drain(..=at);
        }
        self.properties.clone_from(all);
    }

    /// Properties were read.
    pub fn check_properties(&self, found: &Properties) -> Check {
        let possible = *found == self.properties || self.properties_asked.contains(found);
        holds(possible, Law::L1, || {
            format!(
                "properties {found:?}; stored were {:?}, asked for since {:?}",
                self.properties, self.properties_asked
            )
        })
    }

    /// Bounds and counts were seen.
    pub fn check_state(&self, state: &StreamState) -> Check {
        let (trim, end) = (state.trim.get(), state.end.get());
        holds(end >= self.known_end(), Law::L1, || {
            format!(
                "the stream ends at {end}, {} entries were acknowledged or read",
                self.known_end()
            )
        })?;
        holds(end <= self.possible_end(), Law::L4, || {
            format!(
                "the stream ends at {end}, at most {} entries were appended",
                self.possible_end()
            )
        })?;
        self.check_trim(trim)?;
        holds(trim <= end && state.entries == end - trim, Law::L4, || {
            format!("{} entries from {trim} to {end}", state.entries)
        })?;
        holds(state.owner_epoch.get() >= self.epoch, Law::L5, || {
            format!("owner epoch {} after {}", state.owner_epoch, self.epoch)
        })?;
        match self.terminated {
            Some(at) => holds(state.terminated && end == at, Law::L1, || {
                format!("terminated at {at}; now terminated: {}, end {end}", state.terminated)
            })?,
            None => holds(!state.terminated || self.terminating, Law::L4, || {
                "terminated, and nobody asked for it".into()
            })?,
        }
        let all_known = self.known.len() as u64 == end && self.known_end() == end;
        holds(!all_known || trim > 0 || state.bytes == self.bytes(), Law::L4, || {
            format!("{} bytes of entries, {} were committed", state.bytes, self.bytes())
        })
    }

    /// Everything was read with a fresh handle, and nothing is under way: what was in doubt is decided.
    pub fn settle(&mut self, state: &StreamState, properties: &Properties) {
        self.attempts.clear();
        self.trim = state.trim.get();
        self.trim_asked = self.trim;
        self.terminated = state.terminated.then(|| state.end.get());
        self.terminating = false;
        self.epoch = self.epoch.max(state.owner_epoch.get());
        self.properties.clone_from(properties);
        self.properties_asked.clear();
    }
}
