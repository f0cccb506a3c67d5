//! What a child does with one topic: everything an owner does, in random order, with much under way at the same time.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use nereus_core::commit::AppendOutcome;
use nereus_core::cursor::CursorUpdate;
use nereus_core::engine::{Engine, OpenLedger};
use nereus_core::stream::Stream;
use nereus_core::types::Offset;
use nereus_core::{Error, Result};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::acks::{page_of, Acks};
use crate::child::Pipe;
use crate::content;
use crate::event::{Ask, Done, Event, Topic};
use crate::random::Random;
use crate::report::{name, read, FoundLife};

/// Appends of one topic that may wait for their answer.
const APPENDS: usize = 256;
/// Other changes of one topic that may wait for theirs.
const CHANGES: usize = 12;
/// Entries a topic keeps, about.
const KEPT: u64 = 600;
/// Cursors of a topic.
const CURSORS: u64 = 3;
/// Messages of a batch that is acknowledged in parts.
const BATCH: u32 = 10;

/// Works on one topic.
pub struct Worker {
    engine: Engine,
    pipe: Pipe,
    topic: Topic,
    random: Random,
    ids: Arc<AtomicU64>,
    life: Option<Life>,
    appends: Arc<Semaphore>,
    changes: Arc<Semaphore>,
}

/// One life of the topic, as its owner knows it.
struct Life {
    stream: Stream,
    /// Numbers of what was asked for.
    trims: u64,
    sets: u64,
    properties: u64,
    /// The highest trim offset asked for.
    trimmed: u64,
    cursors: BTreeMap<String, Cursor>,
}

#[derive(Default)]
struct Cursor {
    /// `None` = deleted, or not created yet.
    acks: Option<Acks>,
    number: u64,
    /// The next update lists every page: it is not known how far the ones before came.
    whole: bool,
}

impl Life {
    fn new(stream: Stream) -> Life {
        Life {
            stream,
            trims: 0,
            sets: 0,
            properties: 0,
            trimmed: 0,
            cursors: BTreeMap::new(),
        }
    }
}

impl Worker {
    /// A worker that goes on with what was found.
    pub fn new(
        engine: Engine,
        pipe: Pipe,
        topic: Topic,
        random: Random,
        ids: Arc<AtomicU64>,
        found: Option<FoundLife>,
    ) -> Worker {
        let life = found.map(|found| {
            let as_cursor = |(name, acks)| {
                let cursor = Cursor {
                    acks: Some(acks),
                    ..Cursor::default()
                };
                (name, cursor)
            };
            Life {
                properties: found.properties,
                trimmed: found.stream.state().trim.get(),
                cursors: found.cursors.into_iter().map(as_cursor).collect(),
                ..Life::new(found.stream)
            }
        });
        Worker {
            engine,
            pipe,
            topic,
            random,
            ids,
            life,
            appends: Arc::new(Semaphore::new(APPENDS)),
            changes: Arc::new(Semaphore::new(CHANGES)),
        }
    }

    /// Works until the process ends, or something fails that must not.
    pub async fn run(mut self) {
        loop {
            if let Err(error) = self.step().await {
                // An engine that is being closed ends the work; anything else is wrong.
                if !matches!(error, Error::Closed { .. }) {
                    self.pipe.wrong(format!("topic {}: {error}", self.topic));
                }
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    async fn step(&mut self) -> Result<()> {
        if self.life.is_none() {
            return self.create().await;
        }
        match self.random.below(1000) {
            0..700 => self.append().await,
            700..850 => self.acknowledge().await,
            850..910 => self.look().await,
            910..960 => self.trim().await,
            960..980 => self.set().await,
            980..990 => self.drop_cursor().await,
            990..995 => self.take_over().await,
            _ => self.delete().await,
        }
    }

    fn ask(&self, ask: Ask) {
        self.pipe.send(&Event::Ask(self.topic, ask));
    }

    fn done(&self, done: Done) {
        self.pipe.send(&Event::Done(self.topic, done));
    }

    async fn create(&mut self) -> Result<()> {
        self.ask(Ask::Create);
        let opened = self
            .engine
            .open_ledger(OpenLedger {
                name: name(self.topic),
                create_if_missing: true,
                ..OpenLedger::default()
            })
            .await?;
        if opened.description.state.end != Offset::ZERO {
            self.pipe
                .wrong(format!("topic {}: a new life is not empty", self.topic));
        }
        let ledger = opened.description.projection.first.get();
        self.done(Done::Create { ledger });
        self.life = Some(Life::new(opened.stream));
        Ok(())
    }

    async fn delete(&mut self) -> Result<()> {
        // What is under way is not waited for: the deletion comes in between.
        self.life = None;
        self.ask(Ask::Delete);
        self.engine.delete_ledger(&name(self.topic)).await?;
        // Answers of the old life that are still on their way must not be taken for those of the next one.
        let _all = self.changes.acquire_many(CHANGES as u32).await;
        self.done(Done::Delete);
        Ok(())
    }

    async fn append(&mut self) -> Result<()> {
        let Some(life) = &self.life else { return Ok(()) };
        for _ in 0..self.random.magnitude(64) {
            let Ok(permit) = self.appends.clone().acquire_owned().await else {
                return Ok(());
            };
            let id = self.ids.fetch_add(1, Ordering::Relaxed);
            self.ask(Ask::Append { id });
            let (pipe, topic) = (self.pipe.clone(), self.topic);
            let reply = move |outcome| {
                match outcome {
                    AppendOutcome::Committed { offset, .. } => {
                        let offset = offset.get();
                        pipe.send(&Event::Done(topic, Done::Append { id, offset }));
                    }
                    AppendOutcome::NotCommitted(error) => {
                        pipe.send(&Event::Done(topic, Done::Refused { id }));
                        if !is_end(&error) {
                            pipe.wrong(format!("topic {topic}: entry {id} was refused: {error}"));
                        }
                    }
                    AppendOutcome::Unknown(error) => pipe.wrong(format!("topic {topic}: entry {id}: {error}")),
                }
                drop(permit);
            };
            if let Err(error) = life.stream.append(content::entry(id), 1, reply) {
                self.done(Done::Refused { id });
                return Err(error);
            }
        }
        Ok(())
    }

    /// Reads something that is there, while segments come and go.
    async fn look(&mut self) -> Result<()> {
        let Some(life) = &self.life else { return Ok(()) };
        let end = life.stream.state().end.get();
        let start = life
            .trimmed
            .saturating_add(self.random.below(end.saturating_sub(life.trimmed)));
        let most = u32::try_from(self.random.magnitude(200)).unwrap_or(1);
        let ids = match read(&life.stream, start, most).await {
            // A trim that was asked for after the bound was read.
            Err(Error::OffsetTrimmed { .. }) => return Ok(()),
            ids => ids?,
        };
        if !ids.is_sorted() || (ids.is_empty() && start < end) {
            let what = format!("topic {}: a read from {start}, end {end}, gave {ids:?}", self.topic);
            self.pipe.wrong(what);
        }
        Ok(())
    }

    async fn trim(&mut self) -> Result<()> {
        let Some(life) = &mut self.life else { return Ok(()) };
        let end = life.stream.state().end.get();
        let room = end.saturating_sub(KEPT).saturating_sub(life.trimmed);
        let some = self.random.below(KEPT / 4);
        let before = life.trimmed.saturating_add(room).saturating_add(some).min(end);
        if before <= life.trimmed {
            return Ok(());
        }
        life.trimmed = before;
        life.trims = life.trims.saturating_add(1);
        let (number, stream) = (life.trims, life.stream.clone());
        self.ask(Ask::Trim { number, before });
        let trimming = stream.trim(Offset::new(before));
        self.later(Done::Trim { number }, trimming).await;
        Ok(())
    }

    async fn set(&mut self) -> Result<()> {
        let Some(life) = &mut self.life else { return Ok(()) };
        life.properties = life.properties.saturating_add(1);
        life.sets = life.sets.saturating_add(1);
        let (number, value, stream) = (life.sets, life.properties, life.stream.clone());
        self.ask(Ask::Properties { number, value });
        let setting = stream.set_properties(BTreeMap::from([("n".to_owned(), value.to_string())]));
        self.later(Done::Properties { number }, setting).await;
        Ok(())
    }

    async fn acknowledge(&mut self) -> Result<()> {
        let Some(life) = &mut self.life else { return Ok(()) };
        let name = format!("c{}", self.random.below(CURSORS));
        let end = life.stream.state().end.get();
        let cursor = life.cursors.entry(name.clone()).or_default();
        let create = cursor.acks.is_none();
        let mut acks = cursor.acks.take().unwrap_or_default();
        let before = acks.pages();
        let mut changed = std::collections::BTreeSet::new();
        if self.random.chance(1, 3) {
            let some = self.random.below(end.saturating_sub(acks.mark).saturating_add(1));
            acks.move_mark(acks.mark.saturating_add(some));
        }
        for _ in 0..self.random.below(20) {
            let offset = acks
                .mark
                .saturating_add(self.random.below(end.saturating_sub(acks.mark)));
            if offset >= end {
                break;
            }
            match self.random.chance(1, 4) {
                true => acks.ack_in_batch(offset, BATCH, 1 << self.random.below(u64::from(BATCH))),
                false => acks.ack(offset),
            }
            changed.insert(page_of(offset));
        }
        // Holes are bounded, as a subscription's are.
        if acks.acked.len() > 300 {
            acks.move_mark(end);
        }
        let after = acks.pages();
        let whole = std::mem::take(&mut cursor.whole) || create;
        let listed: Vec<u64> = match whole {
            true => after.into_iter().collect(),
            false => changed
                .union(&before.difference(&after).copied().collect())
                .copied()
                .collect(),
        };
        cursor.number = cursor.number.saturating_add(1);
        let number = cursor.number;
        let update = CursorUpdate {
            name: name.clone(),
            create,
            full: whole,
            mark_delete_end: Offset::new(acks.mark),
            position_properties: None,
            cursor_properties: None,
            pages: listed.into_iter().map(|page| acks.page(page)).collect(),
        };
        cursor.acks = Some(acks.clone());
        let stream = life.stream.clone();
        let (cursor, acks) = (name, Some(acks));
        self.ask(Ask::Acks {
            cursor: cursor.clone(),
            number,
            acks,
        });
        let persisting = stream.persist_cursor(update);
        self.later(Done::Acks { cursor, number }, persisting).await;
        Ok(())
    }

    async fn drop_cursor(&mut self) -> Result<()> {
        let Some(life) = &mut self.life else { return Ok(()) };
        let name = format!("c{}", self.random.below(CURSORS));
        let Some(cursor) = life.cursors.get_mut(&name).filter(|cursor| cursor.acks.is_some()) else {
            return Ok(());
        };
        cursor.acks = None;
        cursor.number = cursor.number.saturating_add(1);
        let (number, stream) = (cursor.number, life.stream.clone());
        let cursor = name.clone();
        self.ask(Ask::Acks {
            cursor: cursor.clone(),
            number,
            acks: None,
        });
        let deleting = stream.delete_cursor(&name);
        self.later(Done::Acks { cursor, number }, deleting).await;
        Ok(())
    }

    /// Opens the topic once more, which fences the handle of before with everything under way.
    async fn take_over(&mut self) -> Result<()> {
        let request = OpenLedger {
            name: name(self.topic),
            ..OpenLedger::default()
        };
        let opened = self.engine.open_ledger(request).await?;
        // Who was fenced hears of it before anything else is asked for.
        let _all = self.changes.acquire_many(CHANGES as u32).await;
        if let Some(life) = &mut self.life {
            life.stream = opened.stream;
            life.trimmed = life.stream.state().trim.get();
            let there: BTreeMap<&str, Acks> = opened
                .description
                .cursors
                .iter()
                .filter_map(|state| Some((state.name.as_str(), Acks::read(state).ok()?)))
                .collect();
            for (name, cursor) in &mut life.cursors {
                cursor.acks = there.get(name.as_str()).cloned();
                cursor.whole = true;
            }
        }
        Ok(())
    }

    /// Reports the answer of a change when it comes.
    async fn later<T>(&self, done: Done, answer: impl Future<Output = Result<T>> + Send + 'static)
    where
        T: Send + 'static,
    {
        let Ok(permit) = self.changes.clone().acquire_owned().await else {
            return;
        };
        let (pipe, topic) = (self.pipe.clone(), self.topic);
        Handle::current().spawn(async move {
            match answer.await {
                Ok(_) => pipe.send(&Event::Done(topic, done)),
                Err(error) if is_end(&error) => {}
                Err(error) => pipe.wrong(format!("topic {topic}: {done:?}: {error}")),
            }
            drop(permit);
        });
    }
}

/// What a change may meet when its handle is fenced, closed or deleted meanwhile.
fn is_end(error: &Error) -> bool {
    matches!(
        error,
        Error::Fenced { .. } | Error::Closed { .. } | Error::NotFound { .. }
    )
}
