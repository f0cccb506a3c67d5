//! The published state: what the synced frames of the journal add up to.
//!
//! Owns: the heads in memory, the overlay of everything newer than the backend, known damage, and the position of the frames
//! covered.
//! Promises: readers see synced frames only (L2); a folded commit page shows no later than the head without it; every flushed
//! state of the backend is the sum of an exact prefix of the frames, because an overlay goes down in one batch with its position.
//! Does not: judge a change (`group`), know files, or write by itself (`checkpoint`).

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;

use super::backend::{BackendBatch, StateBackend};
use super::by_stream::ByStream;
use super::frame::Scope;
use super::layout::{self, Damage, Meta, Position};
use crate::commit::{Commit, HeadCell, StreamHead};
use crate::error::{Error, Result};
use crate::metadata::{Version, Versioned};
use crate::mutant::{active, Mutant};
use crate::record::{Key, Record, RecordType};
use crate::types::{Incarnation, Offset, StreamId};

/// What one frame does to the state. Published as a whole.
#[derive(Default)]
pub struct Update {
    /// What becomes of heads; each stream at most once.
    pub heads: Vec<(StreamId, HeadUpdate)>,
    /// Keys after the frame, folded commit pages included.
    pub keys: Vec<(Key, Option<Versioned>)>,
    /// Ends of the commits in the frame: segment, stream, end offset.
    pub uses: Vec<(u64, StreamId, Offset)>,
    /// Streams whose damage ends with their deletion.
    pub healed: Vec<StreamId>,
}

/// What a frame does to one head.
pub enum HeadUpdate {
    /// The head after the frame; `None` removes it.
    Set(Option<Box<StreamHead>>),
    /// The head that this cell publishes takes its next commit, which [fits](StreamHead::fits).
    Commit(Arc<HeadCell>, Commit),
}

impl HeadUpdate {
    /// [`HeadUpdate::Set`].
    pub fn set(head: Option<StreamHead>) -> HeadUpdate {
        HeadUpdate::Set(head.map(Box::new))
    }

    pub(super) fn apply(self, head: &mut Option<StreamHead>) {
        match self {
            HeadUpdate::Set(next) => *head = next.map(|next| *next),
            // What it gives up went into the update when the frame was made.
            HeadUpdate::Commit(_, commit) => drop(head.as_mut().map(|head| head.commit(commit))),
        }
    }
}

/// Heads and keys above the backend.
#[derive(Default)]
struct Overlay {
    heads: ByStream<Arc<HeadCell>>,
    keys: BTreeMap<Key, Option<Versioned>>,
    /// By segment. `None` = the segment is gone.
    uses: BTreeMap<u64, ByStream<Option<Offset>>>,
    damages: BTreeMap<Option<Scope>, Option<Damage>>,
}

/// An overlay on its way down.
struct Frozen {
    overlay: Arc<Overlay>,
    /// Heads as of the freeze: their cells move on.
    heads: Arc<Vec<(StreamId, Option<StreamHead>)>>,
    position: Position,
}

struct Inner {
    /// Every head that somebody holds, or that is newer than the backend.
    cells: ByStream<Weak<HeadCell>>,
    current: Overlay,
    frozen: Option<Frozen>,
    damages: BTreeMap<Option<Scope>, Damage>,
    position: Position,
    checkpoint: Position,
    /// Rises when heads may leave memory: a backend read that began before is then stale.
    generation: u64,
}

/// The state of one journal.
pub struct StateTable {
    backend: Arc<dyn StateBackend>,
    directory_id: u128,
    /// The backend's directory, for messages.
    place: String,
    inner: Mutex<Inner>,
}

impl StateTable {
    /// The state that the backend holds; `None` when it holds none yet.
    ///
    /// # Errors
    /// `Corrupt` when the store belongs to another data directory or makes no sense.
    pub fn load(backend: Arc<dyn StateBackend>, directory_id: u128, place: &str) -> Result<Option<StateTable>> {
        let Some(stored) = backend.get(layout::META)? else {
            return Ok(None);
        };
        let meta = layout::meta_of(&stored, place)?;
        if meta.directory_id != directory_id {
            return Err(Error::Corrupt {
                what: "the embedded metadata store".into(),
                place: place.into(),
                detail: format!(
                    "it belongs to data directory {:032x}, this is {directory_id:032x}: restore both from the same copy",
                    meta.directory_id
                ),
            });
        }
        let (from, to) = layout::damage_range();
        let stored = backend.scan(&from, &to, usize::MAX)?;
        let damages = stored
            .iter()
            .filter_map(|(key, value)| layout::damage_of(key, value))
            .collect();
        Ok(Some(Self::at(backend, directory_id, place, meta.position, damages)))
    }

    /// An empty state in an empty backend; durable when it returns.
    pub fn create(
        backend: Arc<dyn StateBackend>,
        directory_id: u128,
        place: &str,
        position: Position,
    ) -> Result<StateTable> {
        let meta = layout::meta_value(&Meta { directory_id, position });
        backend.write(vec![(Bytes::from_static(layout::META), Some(meta))])?;
        backend.flush()?;
        Ok(Self::at(backend, directory_id, place, position, BTreeMap::new()))
    }

    fn at(
        backend: Arc<dyn StateBackend>,
        directory_id: u128,
        place: &str,
        position: Position,
        damages: BTreeMap<Option<Scope>, Damage>,
    ) -> StateTable {
        let inner = Inner {
            cells: ByStream::default(),
            current: Overlay::default(),
            frozen: None,
            damages,
            position,
            checkpoint: position,
            generation: 0,
        };
        StateTable {
            backend,
            directory_id,
            place: place.into(),
            inner: Mutex::new(inner),
        }
    }

    /// Up to where the published state reaches.
    pub fn position(&self) -> Position {
        self.inner.lock().position
    }

    /// Up to where the backend is known to be durable.
    pub fn checkpoint_position(&self) -> Position {
        self.inner.lock().checkpoint
    }

    /// The head of a stream; the same cell for everybody while one of them lives. Reads the backend when it is not in memory:
    /// blocking. Damaged streams are `Corrupt`.
    pub fn head(&self, stream: StreamId) -> Result<Option<Arc<HeadCell>>> {
        self.check(Some(stream))?;
        let cell = self.cell(stream)?;
        Ok(cell.filter(|cell| cell.with(|head| head.is_some())))
    }

    /// [`StateTable::head`] as far as memory answers it; `None` = the backend has to be asked. Never blocks.
    pub fn head_in_memory(&self, stream: StreamId) -> Option<Result<Option<Arc<HeadCell>>>> {
        if let Err(damaged) = self.check(Some(stream)) {
            return Some(Err(damaged));
        }
        let cell = self.inner.lock().cells.get(&stream).and_then(Weak::upgrade)?;
        Some(Ok(Some(cell).filter(|cell| cell.with(|head| head.is_some()))))
    }

    /// [`StateTable::get`] as far as memory answers it; `None` = the backend has to be asked. Never blocks.
    pub fn get_in_memory(&self, key: &Key) -> Option<Result<Option<Versioned>>> {
        if let Err(damaged) = self.check(key.stream()) {
            return Some(Err(damaged));
        }
        if key.kind() == Some(RecordType::StreamHead) {
            let cell = match self.head_in_memory(key.stream()?)? {
                Ok(Some(cell)) => cell,
                Ok(None) => return Some(Ok(None)),
                Err(error) => return Some(Err(error)),
            };
            return Some(cell.with(|head| head.map(encoded)).transpose());
        }
        self.above(key).map(Ok)
    }

    /// What is newer than the backend: `Some(None)` = removed.
    fn above(&self, key: &Key) -> Option<Option<Versioned>> {
        let inner = self.inner.lock();
        let frozen = || inner.frozen.as_ref().and_then(|frozen| frozen.overlay.keys.get(key));
        inner.current.keys.get(key).or_else(frozen).cloned()
    }

    /// The cell of a stream, without asking for damage; it may be empty after a deletion.
    pub fn cell(&self, stream: StreamId) -> Result<Option<Arc<HeadCell>>> {
        let key = Key::stream_head(stream);
        loop {
            let generation = {
                let inner = self.inner.lock();
                if let Some(cell) = inner.cells.get(&stream).and_then(Weak::upgrade) {
                    return Ok(Some(cell));
                }
                inner.generation
            };
            let Some(stored) = self.backend.get(&layout::record_key(&key))? else {
                // Absent below; a creation meanwhile would have been answered after this read began.
                let inner = self.inner.lock();
                return Ok(inner.cells.get(&stream).and_then(Weak::upgrade));
            };
            let head = StreamHead::decode(&key, &layout::versioned(&key, &stored)?.value)?;
            let mut inner = self.inner.lock();
            if let Some(cell) = inner.cells.get(&stream).and_then(Weak::upgrade) {
                return Ok(Some(cell));
            }
            if inner.generation == generation {
                let cell = Arc::new(HeadCell::new(head));
                inner.cells.insert(stream, Arc::downgrade(&cell));
                return Ok(Some(cell));
            }
        }
    }

    /// One key with its version; heads too. Blocking.
    pub fn get(&self, key: &Key) -> Result<Option<Versioned>> {
        self.check(key.stream())?;
        if key.kind() == Some(RecordType::StreamHead) {
            return self.head_record(key);
        }
        match self.above(key) {
            Some(value) => Ok(value),
            None => self
                .backend
                .get(&layout::record_key(key))?
                .map(|stored| layout::versioned(key, &stored))
                .transpose(),
        }
    }

    fn head_record(&self, key: &Key) -> Result<Option<Versioned>> {
        let Some(cell) = key.stream().map(|stream| self.head(stream)).transpose()?.flatten() else {
            return Ok(None);
        };
        let encoded = cell.with(|head| head.map(encoded)).transpose()?;
        Ok(encoded)
    }

    /// Entries with `from <= key < to`, ascending, at most `limit`. Blocking.
    pub fn scan(&self, from: &Key, to: &Key, limit: usize) -> Result<Vec<(Key, Versioned)>> {
        self.merged(from, to, limit, Order::Ascending)
    }

    /// The last entry with `from <= key < to`. Blocking.
    pub fn last(&self, from: &Key, to: &Key) -> Result<Option<(Key, Versioned)>> {
        Ok(self.merged(from, to, 1, Order::Descending)?.pop())
    }

    fn merged(&self, from: &Key, to: &Key, limit: usize, order: Order) -> Result<Vec<(Key, Versioned)>> {
        Key::check_range(from, to)?;
        self.check(from.stream())?;
        if from.kind() == Some(RecordType::StreamHead) {
            let own = from
                .stream()
                .map(Key::stream_head)
                .filter(|own| from <= own && own < to && limit > 0);
            let found = own.map(|own| Ok((own.clone(), self.head_record(&own)?))).transpose()?;
            return Ok(found
                .into_iter()
                .filter_map(|(own, value)| Some((own, value?)))
                .collect());
        }
        // First what is newer, then the backend: an entry that goes down in between is seen twice, never missed.
        let mut above: BTreeMap<Key, Option<Versioned>> = BTreeMap::new();
        {
            let inner = self.inner.lock();
            let frozen = inner.frozen.as_ref().map(|frozen| &*frozen.overlay);
            for overlay in frozen.into_iter().chain(std::iter::once(&inner.current)) {
                let inside = overlay.keys.range(from.clone()..to.clone());
                above.extend(inside.map(|(key, value)| (key.clone(), value.clone())));
            }
        }
        let removed = above.values().filter(|value| value.is_none()).count();
        let wanted = limit.saturating_add(removed);
        let (lower, upper) = (layout::record_key(from), layout::record_key(to));
        let below = match order {
            Order::Ascending => self.backend.scan(&lower, &upper, wanted)?,
            Order::Descending => self.backend.scan_back(&lower, &upper, wanted)?,
        };
        for (stored_key, stored) in below {
            let key = layout::key_of(&stored_key)?;
            if let std::collections::btree_map::Entry::Vacant(free) = above.entry(key) {
                let value = layout::versioned(free.key(), &stored)?;
                free.insert(Some(value));
            }
        }
        let present = above.into_iter().filter_map(|(key, value)| Some((key, value?)));
        Ok(match order {
            Order::Ascending => present.take(limit).collect(),
            Order::Descending => present.rev().take(limit).collect(),
        })
    }

    /// Publishes what a synced frame did, keys before heads, and moves the position to `position`.
    pub fn publish(&self, update: Update, position: Position) {
        let mut moved = Vec::with_capacity(update.heads.len());
        {
            let mut inner = self.inner.lock();
            inner.current.keys.extend(update.keys);
            for (segment, stream, end) in update.uses {
                inner.current.uses.entry(segment).or_default().insert(stream, Some(end));
            }
            for stream in update.healed {
                let scope = Some(Some(stream));
                inner.damages.remove(&scope);
                inner.current.damages.insert(scope, None);
            }
            for (stream, head) in update.heads {
                let cell = match &head {
                    HeadUpdate::Commit(cell, _) => cell.clone(),
                    HeadUpdate::Set(_) => {
                        let known = inner.cells.get(&stream).and_then(Weak::upgrade);
                        let cell = known.unwrap_or_else(empty_cell);
                        inner.cells.insert(stream, Arc::downgrade(&cell));
                        cell
                    }
                };
                inner.current.heads.insert(stream, cell.clone());
                moved.push((cell, head));
            }
            inner.position = position;
        }
        for (cell, next) in moved {
            cell.publish(|head| next.apply(head));
        }
    }

    /// Refuses what is known to be damaged.
    pub fn check(&self, scope: Scope) -> Result<()> {
        let inner = self.inner.lock();
        let found = inner.damages.get(&None).or_else(|| inner.damages.get(&Some(scope)));
        found.map_or(Ok(()), |damage| {
            let what = scope.map_or_else(
                || "metadata without a stream".to_owned(),
                |stream| format!("stream {stream}"),
            );
            let place = format!("journal segment {:016x}, byte {}", damage.segment, damage.position);
            Err(Error::Corrupt {
                what,
                place,
                detail: damage.detail.clone(),
            })
        })
    }

    /// Whether this very stream is known to be damaged.
    pub fn is_damaged(&self, stream: StreamId) -> bool {
        self.inner.lock().damages.contains_key(&Some(Some(stream)))
    }

    /// Records damage; kept by the next checkpoint. `None` = everything is in doubt. The first damage of a scope stays.
    pub fn mark_damaged(&self, scope: Option<Scope>, damage: Damage) {
        let mut inner = self.inner.lock();
        if !inner.damages.contains_key(&scope) {
            tracing::error!(
                stream = scope.flatten().map(|stream| stream.to_string()),
                segment = damage.segment,
                position = damage.position,
                detail = damage.detail,
                "damage in the journal"
            );
            inner.current.damages.insert(scope, Some(damage.clone()));
            inner.damages.insert(scope, damage);
        }
    }

    /// Every known damage.
    pub fn damages(&self) -> Vec<(Option<Scope>, Damage)> {
        self.inner
            .lock()
            .damages
            .iter()
            .map(|(scope, damage)| (*scope, damage.clone()))
            .collect()
    }

    /// Heads and keys that the backend does not hold yet.
    pub fn dirty(&self) -> usize {
        let inner = self.inner.lock();
        inner.current.heads.len().saturating_add(inner.current.keys.len())
    }

    /// Heads in memory, for metrics and tests.
    pub fn heads_in_memory(&self) -> usize {
        self.inner
            .lock()
            .cells
            .values()
            .filter(|cell| cell.strong_count() > 0)
            .count()
    }

    /// Takes everything published so far out of the way of later updates, for [`StateTable::write_frozen`]. Only between two
    /// frames. While an earlier overlay has not gone down, nothing happens, and the answer is false.
    pub fn freeze(&self) -> bool {
        let mut inner = self.inner.lock();
        if inner.frozen.is_some() {
            return false;
        }
        let copy = |(stream, cell): (&StreamId, &Arc<HeadCell>)| (*stream, cell.with(|head| head.cloned()));
        let heads = Arc::new(inner.current.heads.iter().map(copy).collect());
        let overlay = Arc::new(std::mem::take(&mut inner.current));
        let position = inner.position;
        inner.frozen = Some(Frozen {
            overlay,
            heads,
            position,
        });
        true
    }

    /// Brings the frozen overlay down in one batch with its position, flushes, and forgets it. Blocking. When it fails the overlay
    /// stays for another try.
    pub fn write_frozen(&self) -> Result<()> {
        let Some((overlay, heads, position)) = ({
            let inner = self.inner.lock();
            let frozen = inner.frozen.as_ref();
            frozen.map(|frozen| (frozen.overlay.clone(), frozen.heads.clone(), frozen.position))
        }) else {
            return Ok(());
        };
        // At its size from the start: some megabytes that grow leave their smaller copies behind in the heap.
        let rows = [
            heads.len(),
            overlay.keys.len(),
            overlay.uses.values().map(ByStream::len).sum(),
            overlay.damages.len(),
            1,
        ];
        let mut batch = BackendBatch::with_capacity(rows.iter().sum());
        for (stream, head) in heads.iter() {
            let value = head.as_ref().map(encoded).transpose()?;
            let value = value.as_ref().map(layout::record_value);
            batch.push((layout::record_key(&Key::stream_head(*stream)), value));
        }
        batch.extend(
            overlay
                .keys
                .iter()
                .map(|(key, value)| (layout::record_key(key), value.as_ref().map(layout::record_value))),
        );
        for (segment, ends) in &overlay.uses {
            let ends = ends.iter();
            batch.extend(ends.map(|(stream, end)| (layout::use_key(*segment, *stream), end.map(layout::use_value))));
        }
        let damages = overlay.damages.iter();
        batch.extend(
            damages.map(|(scope, damage)| (layout::damage_key(*scope), damage.as_ref().map(layout::damage_value))),
        );
        let meta = layout::meta_value(&Meta {
            directory_id: self.directory_id,
            position: match active(Mutant::ReplayOntoWrongVersion) {
                true => self.checkpoint_position(),
                false => position,
            },
        });
        batch.push((Bytes::from_static(layout::META), Some(meta)));
        self.backend.write(batch)?;
        self.backend.flush()?;
        let thawed = {
            let mut inner = self.inner.lock();
            inner.generation = inner.generation.wrapping_add(1);
            inner.checkpoint = position;
            inner.frozen.take()
        };
        // Heads that nobody holds leave memory here, outside the lock.
        drop((thawed, overlay));
        self.inner.lock().cells.retain(|_, cell| cell.strong_count() > 0);
        Ok(())
    }

    /// Which streams have commits in a segment, and how far they reach.
    pub fn uses(&self, segment: u64) -> Result<BTreeMap<StreamId, Offset>> {
        let mut found = BTreeMap::new();
        let above: Vec<_> = {
            let inner = self.inner.lock();
            let frozen = inner.frozen.as_ref().map(|frozen| &*frozen.overlay);
            let layers = frozen.into_iter().chain(std::iter::once(&inner.current));
            layers
                .filter_map(|overlay| overlay.uses.get(&segment))
                .flat_map(|ends| ends.iter().map(|(stream, end)| (*stream, *end)))
                .collect()
        };
        let (from, to) = layout::use_range(segment, segment.saturating_add(1));
        for (key, value) in self.backend.scan(&from, &to, usize::MAX)? {
            let (_, stream, end) = layout::use_of(&key, &value).ok_or_else(|| Error::Corrupt {
                what: format!("the list of streams in segment {segment:016x}"),
                place: self.place.clone(),
                detail: "an entry makes no sense; restore the data directory from a copy".into(),
            })?;
            found.insert(stream, end);
        }
        for (stream, end) in above {
            match end {
                Some(end) => drop(found.insert(stream, end)),
                None => drop(found.remove(&stream)),
            }
        }
        Ok(found)
    }

    /// The next checkpoint drops the uses of a segment that is gone.
    pub fn forget_uses(&self, segment: u64, streams: impl Iterator<Item = StreamId>) {
        let mut inner = self.inner.lock();
        let ends = inner.current.uses.entry(segment).or_default();
        ends.extend(streams.map(|stream| (stream, None)));
    }

    /// Whether a stream still needs its bytes up to `end` in some segment: they are not all trimmed, or hold the last committed
    /// entry, which is never dropped. A damaged or unreadable stream needs everything.
    pub fn needs(&self, stream: StreamId, end: Offset) -> bool {
        match self.head(stream) {
            Ok(None) => false,
            Ok(Some(cell)) => cell.with(|head| head.is_some_and(|head| head.trim < end || head.end == end)),
            Err(_) => true,
        }
    }
}

#[derive(Clone, Copy)]
enum Order {
    Ascending,
    Descending,
}

/// A head as a record; its commit version is the record's version.
fn encoded(head: &StreamHead) -> Result<Versioned> {
    Ok(Versioned {
        value: head.encode()?,
        version: Version(head.version.get()),
    })
}

/// A cell for a head that is published right after, or for one that never was.
pub(super) fn empty_cell() -> Arc<HeadCell> {
    let cell = HeadCell::new(StreamHead::new(StreamId::new(0), Incarnation::new(1), 0));
    cell.publish(|head| *head = None);
    Arc::new(cell)
}

#[cfg(test)]
mod tests;
