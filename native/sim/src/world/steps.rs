//! What each step of a program does.

use std::collections::BTreeMap;

use bytes::Bytes;
use nereus_core::commit::{Append, AppendOutcome, AppendReply, HeadChange, Log};
use nereus_core::cursor::{AckPage, CursorUpdate};
use nereus_core::env::sim::{Fault, SimRandom};
use nereus_core::error::Result as Answered;
use nereus_core::stream::ReadRequest;
use nereus_core::types::{Offset, OwnerEpoch, ReadView};
use nereus_core::Error;
use roaring::RoaringBitmap;

use super::errors::check;
use super::power::End;
use super::topic::Presence;
use super::{Answer, Armed, Ask, Done, Op, Stop, World};
use crate::law::{broken, holds, Law};
use crate::model::Wish;
use crate::program::{Item, Step};

/// Persists of one cursor under way at once: the model keeps every combination.
const PERSISTS: usize = 3;

impl World {
    /// Starts the first engine.
    pub fn begin(&mut self) -> Done {
        self.boot(None, true)
    }

    /// One step, and the end of the process if that is where it leads.
    pub fn step(&mut self, item: &Item) -> Done {
        self.dice = SimRandom::new(item.salt);
        self.trace.line(|| format!("{} {:?}", item.number, item.step));
        let mut done = self.perform(&item.step).and_then(|()| self.drain());
        if self.machine.disk.has_crashed() && matches!(done, Ok(()) | Err(Stop::Crashed)) {
            done = self.reboot();
        }
        while let Err(Stop::Crashed) = done {
            done = self.reboot();
        }
        done?;
        if self.check_poison()? && self.dice.chance(60) {
            self.trace.line(|| "  the journal has stopped: the process ends".into());
            self.die(if self.dice.chance(50) { End::Kill } else { End::Power })?;
            self.boot(None, true)?;
        }
        Ok(())
    }

    /// Everything is healed, everything arrives; then all of it must be there.
    pub fn finish(&mut self) -> Done {
        self.trace.line(|| "end".into());
        self.heal();
        self.armed = None;
        let mut done = self.conclude();
        while let Err(Stop::Crashed) = done {
            done = self.reboot().and_then(|()| self.conclude());
        }
        done
    }

    fn conclude(&mut self) -> Done {
        if !self.check_poison()? {
            self.settle_all()?;
            self.pause(20_000)?;
            self.check_waits()?;
        }
        let late = self.machine.broker.faults();
        self.drive("late writes", async move { late.arrive().await })?;
        match self.dice.chance(40) {
            true => self.restart()?,
            false => {
                self.die(if self.dice.chance(70) { End::Power } else { End::Kill })?;
                self.boot(None, true)?;
            }
        }
        for topic in 0..self.topics.len() {
            self.open(topic, true, 0)?;
        }
        self.look_all()
    }

    fn perform(&mut self, step: &Step) -> Done {
        match step {
            Step::Open {
                topic,
                create,
                properties,
            } => self.open(*topic, *create, *properties),
            Step::Look { topic } => self.look(*topic),
            Step::Append { topic, sizes } => self.append(*topic, sizes),
            Step::Resume { topic } => self.resume(*topic),
            Step::Settle => {
                self.settle_all()?;
                self.pause(1000)?;
                self.check_waits()
            }
            Step::Pause { micros } => self.pause(*micros),
            Step::Read {
                topic,
                permille,
                entries,
                bytes,
                wait,
            } => self.read(*topic, *permille, *entries, *bytes, *wait),
            Step::ReadAll { topic } => match self.handle(*topic).map(|(handle, _)| handle.stream.clone()) {
                Some(stream) => self.read_all(*topic, &stream),
                None => Ok(()),
            },
            Step::WaitPast { topic, more } => self.wait_past(*topic, *more),
            Step::Persist { topic, cursor, wait } => self.persist(*topic, *cursor, *wait),
            Step::DeleteCursor { topic, cursor } => self.cursor(*topic, &format!("c{cursor}"), None, true),
            Step::Trim { topic, permille, wait } => self.trim(*topic, Some(*permille), *wait),
            Step::Truncate { topic } => self.trim(*topic, None, true),
            Step::Terminate { topic } => self.terminate(*topic),
            Step::SetProperties { topic } => self.set_properties(*topic),
            Step::Close { topic } => self.close(*topic),
            Step::Delete { topic } => self.delete(*topic),
            Step::Stale { topic } => self.stale(*topic),
            Step::Behead { topic } => self.behead(*topic),
            Step::Checkpoint => {
                let Some(engine) = self.engine.clone() else {
                    return Ok(());
                };
                let done = self.drive("a checkpoint", engine.journal().checkpoint())?;
                self.trace
                    .line(|| format!("  checkpoint: {:?}", done.as_ref().err().map(Error::code)));
                match done {
                    Err(error) => Ok(check(&self.trouble, &error, &Default::default(), "a checkpoint")?),
                    Ok(()) => Ok(()),
                }
            }
            Step::Crash { after, again, look } => {
                self.machine.disk.crash_in(*after);
                self.armed = Some(Armed {
                    again: *again,
                    look: *look,
                });
                Ok(())
            }
            Step::Kill { look } => {
                self.die(End::Kill)?;
                self.boot(None, *look)
            }
            Step::Restart => self.restart(),
            Step::DiskFault {
                operation,
                after,
                times,
                kind,
            } => {
                self.trouble.disk = true;
                self.machine.disk.fail(Fault {
                    operation: *operation,
                    path_contains: String::new(),
                    after: *after,
                    times: *times,
                    kind: *kind,
                });
                Ok(())
            }
            Step::BrokerFault { nth, fault } => {
                self.trouble.broker = true;
                self.machine.broker.faults().nth(*nth, *fault);
                Ok(())
            }
            Step::BrokerReads { fail } => {
                self.trouble.broker = true;
                self.machine.broker.faults().fail_reads(*fail);
                Ok(())
            }
            Step::BrokerDelay { micros } => {
                self.machine.broker_delay = *micros;
                Ok(())
            }
            Step::Arrive => {
                let late = self.machine.broker.faults();
                self.drive("late writes", async move { late.arrive().await })
            }
            Step::Shrink { free } => {
                (self.trouble.space, self.grown) = (true, false);
                let used = self.machine.disk.used();
                self.machine.disk.set_capacity(used + free);
                Ok(())
            }
            Step::Grow => {
                self.grown = true;
                self.machine.disk.set_capacity(super::CAPACITY);
                Ok(())
            }
            Step::Flip => self.flip(),
        }
    }

    /// A handle to work with: the present one, or a fresh one.
    fn ensure(&mut self, topic: usize) -> Done<bool> {
        let known = &self.topics[topic];
        if known.handle.as_ref().is_some_and(|handle| !handle.closed) {
            return Ok(true);
        }
        if known.presence == Presence::Headless || known.refused {
            return Ok(false);
        }
        let create = self.dice.chance(70);
        self.open(topic, create, 0)?;
        Ok(self.topics[topic].handle.is_some())
    }

    fn append(&mut self, topic: usize, sizes: &[u32]) -> Done {
        let old = !self.topics[topic].old.is_empty() && self.dice.chance(12);
        if !old {
            if !self.ensure(topic)? {
                return Ok(());
            }
            if self.handle(topic).is_some_and(|(handle, _)| handle.failed) && self.dice.chance(70) {
                self.resume(topic)?;
            }
        }
        for length in sizes {
            let (entry, bytes) = self.entry(*length);
            let known = &mut self.topics[topic];
            let handle = if old {
                known.old.last_mut()
            } else {
                known.handle.as_mut()
            };
            let Some(handle) = handle else {
                return Ok(());
            };
            let life = handle.life;
            let (id, fenced, stream, expected) = (handle.id, handle.fenced, handle.stream.clone(), handle.next);
            let number = self.number();
            let inbox = self.inbox.clone();
            let reply = move |outcome| inbox.push(number, Answer::Append(outcome));
            let what = format!("append {number} on topic {topic}");
            match stream.append(bytes, 1, reply) {
                Ok(offset) => {
                    let offset = offset.get();
                    self.trace
                        .line(|| format!("  {what}: {length} bytes get offset {offset}"));
                    let ask = Ask::Append { offset, fenced };
                    self.ops.insert(
                        number,
                        Op {
                            topic,
                            life,
                            handle: id,
                            ask,
                        },
                    );
                    if let Some(model) = self.topics[topic].model(life) {
                        model.asked(number, offset, entry);
                    }
                    if let Some(handle) = self.topics[topic].handle(id) {
                        handle.queue.push_back(number);
                        handle.next = offset + 1;
                    }
                    holds(offset == expected || fenced, Law::L4, || {
                        format!("{what}: offset {offset}, {expected} is the next")
                    })?;
                }
                Err(error) => {
                    self.trace.line(|| format!("  {what}: refused, {:?}", error.code()));
                    // A failure whose answer has not been heard yet refuses as well.
                    self.drain()?;
                    let allowed = self.allowed(topic, life, id);
                    return Ok(check(&self.trouble, &error, &allowed, &what)?);
                }
            }
        }
        Ok(())
    }

    fn resume(&mut self, topic: usize) -> Done {
        self.drain()?;
        let Some((handle, life)) = self.handle(topic) else {
            return Ok(());
        };
        let (id, resumed) = (handle.id, handle.stream.resume());
        let end = handle.stream.state().end.get();
        let pending = !handle.queue.is_empty();
        if resumed.is_ok() && handle.failed {
            handle.failed = false;
            handle.next = end;
        }
        self.trace
            .line(|| format!("  resume: {:?}", resumed.as_ref().err().map(Error::code)));
        if let Err(error) = resumed {
            let mut allowed = self.allowed(topic, life, id);
            allowed.suspended = pending;
            check(&self.trouble, &error, &allowed, "a resume")?;
        }
        Ok(())
    }

    fn read(&mut self, topic: usize, permille: u64, entries: u32, bytes: u64, wait: bool) -> Done {
        self.drain()?;
        let Some((handle, life)) = self.handle(topic) else {
            return Ok(());
        };
        let (id, stream) = (handle.id, handle.stream.clone());
        let Some((trim, end)) = self.topics[topic]
            .model(life)
            .map(|model| (model.trim, model.known_end()))
        else {
            return Ok(());
        };
        // A little below the trim offset, and a little past the end.
        let from = trim.saturating_sub(2);
        let start = from + (end + 2 - from) * permille / 1000;
        let request = ReadRequest {
            view: ReadView::Committed,
            start: Offset::new(start),
            max_entries: entries,
            max_bytes: bytes,
            up_to: if self.dice.chance(20) {
                Offset::new(start + self.dice.below(6))
            } else {
                Offset::MAX
            },
        };
        let op = Op {
            topic,
            life,
            handle: id,
            ask: Ask::Read { request, trim, end },
        };
        let cached = if self.dice.chance(50) {
            stream.try_read_cached(&request)
        } else {
            None
        };
        let future: nereus_core::env::BoxFuture<_> = match cached {
            Some(answer) => Box::pin(std::future::ready(answer)),
            None => Box::pin(async move { stream.read(request).await }),
        };
        let number = self.start(op, future, Answer::Read);
        match wait {
            true => self.settle_one(number),
            false => Ok(()),
        }
    }

    fn wait_past(&mut self, topic: usize, more: u64) -> Done {
        let Some((handle, life)) = self.handle(topic) else {
            return Ok(());
        };
        let (id, stream) = (handle.id, handle.stream.clone());
        let end = self.topics[topic].model(life).map_or(0, |model| model.known_end());
        let offset = (end + more).saturating_sub(1);
        let op = Op {
            topic,
            life,
            handle: id,
            ask: Ask::WaitPast { offset },
        };
        self.start(
            op,
            Box::pin(async move { stream.wait_past(Offset::new(offset)).await }),
            |()| Answer::Waited,
        );
        Ok(())
    }

    /// Nobody waits for an entry that is there.
    fn check_waits(&mut self) -> Done {
        self.drain()?;
        let waits: Vec<_> = self
            .ops
            .iter()
            .filter_map(|(number, op)| match op.ask {
                Ask::WaitPast { offset } => Some((*number, op.topic, op.life, op.handle, offset)),
                _ => None,
            })
            .collect();
        for (number, topic, life, handle, offset) in waits {
            let allowed = self.allowed(topic, life, handle);
            let Some(model) = self.topics[topic].model(life) else {
                continue;
            };
            let due = model.known_end() > offset || model.terminated.is_some() || (allowed.closed && !allowed.fenced);
            holds(!due || allowed.gone, Law::Liveness, || {
                format!(
                    "wait {number} for offset {offset} of topic {topic} goes on, {} entries are there",
                    model.known_end()
                )
            })?;
        }
        Ok(())
    }

    fn trim(&mut self, topic: usize, permille: Option<u64>, wait: bool) -> Done {
        if !self.ensure(topic)? {
            return Ok(());
        }
        let old = !self.topics[topic].old.is_empty() && self.dice.chance(10);
        let known = &mut self.topics[topic];
        let handle = if old { known.old.last() } else { known.handle.as_ref() };
        let Some(handle) = handle else {
            return Ok(());
        };
        let life = handle.life;
        let (id, fenced, stream) = (handle.id, handle.fenced, handle.stream.clone());
        let Some(model) = known.model(life) else {
            return Ok(());
        };
        let (end, possible) = (model.known_end(), model.possible_end());
        let asked = permille.map_or(possible, |permille| (end + 1) * permille / 1000);
        if !fenced {
            // It goes by the end when its turn comes, which may lie further than now.
            model.trim_asked(permille.map_or(u64::MAX, |_| asked));
        }
        let future = match permille {
            Some(_) => stream.trim(Offset::new(asked)),
            None => stream.truncate(),
        };
        let op = Op {
            topic,
            life,
            handle: id,
            ask: Ask::Trim { asked, end, fenced },
        };
        let number = self.start(op, future, Answer::Offset);
        self.trace
            .line(|| format!("  request {number}: trim to {asked} of {end}"));
        match wait {
            true => self.settle_one(number),
            false => Ok(()),
        }
    }

    fn terminate(&mut self, topic: usize) -> Done {
        let Some((handle, life)) = self.handle(topic) else {
            return Ok(());
        };
        let (id, fenced, stream) = (handle.id, handle.fenced, handle.stream.clone());
        if let Some(model) = self.topics[topic].model(life) {
            model.terminate_asked();
        }
        let op = Op {
            topic,
            life,
            handle: id,
            ask: Ask::Terminate { fenced },
        };
        let number = self.start(op, stream.terminate(), Answer::Offset);
        self.settle_one(number)
    }

    fn set_properties(&mut self, topic: usize) -> Done {
        let Some((handle, life)) = self.handle(topic) else {
            return Ok(());
        };
        let (id, fenced, stream) = (handle.id, handle.fenced, handle.stream.clone());
        let value = format!("{}", self.number());
        let all = BTreeMap::from([("p".to_owned(), value)]);
        if let Some(model) = self.topics[topic].model(life) {
            model.properties_asked(all.clone());
        }
        let op = Op {
            topic,
            life,
            handle: id,
            ask: Ask::Properties {
                all: all.clone(),
                fenced,
            },
        };
        let number = self.start(op, stream.set_properties(all), Answer::Unit);
        self.settle_one(number)
    }

    fn persist(&mut self, topic: usize, cursor: usize, wait: bool) -> Done {
        if !self.ensure(topic)? {
            return Ok(());
        }
        let name = format!("c{cursor}");
        let Some(life) = self.topics[topic].life.as_ref().map(|life| life.number) else {
            return Ok(());
        };
        let Some(model) = self.topics[topic].model(life) else {
            return Ok(());
        };
        let end = model.known_end();
        let exists = model.cursors.entry(name.clone()).or_default().exists();
        let create = match exists {
            Some(exists) => exists == self.dice.chance(4),
            None => self.dice.chance(30),
        };
        let update = CursorUpdate {
            name: name.clone(),
            create,
            full: self.dice.chance(25),
            mark_delete_end: Offset::new(self.dice.below(end + 1)),
            position_properties: self
                .dice
                .chance(30)
                .then(|| BTreeMap::from([("n".to_owned(), self.next.cast_signed())])),
            cursor_properties: self
                .dice
                .chance(15)
                .then(|| BTreeMap::from([("s".to_owned(), format!("{}", self.next))])),
            pages: self.pages(),
        };
        self.cursor(topic, &name, Some(update), wait)
    }

    /// Up to four pages of acks, some of them with partly acknowledged batches, some empty.
    fn pages(&mut self) -> Vec<AckPage> {
        let numbers = [0u64, 1, 2, 7];
        let mut pages = Vec::new();
        let most = self.dice.below(4);
        for number in numbers
            .iter()
            .filter(|_| self.dice.chance(50))
            .take(usize::try_from(most).unwrap_or(0))
        {
            let mut acked = RoaringBitmap::new();
            for _ in 0..self.dice.below(30) {
                acked.insert(u32::try_from(self.dice.below(1 << 16)).unwrap_or(0));
            }
            let batches = if self.dice.chance(3) { 600 } else { self.dice.below(4) };
            let batches = (0..batches)
                .map(|_| {
                    let words = (0..1 + self.dice.below(8)).map(|_| self.dice.below(u64::MAX).cast_signed());
                    (u16::try_from(self.dice.below(1 << 16)).unwrap_or(0), words.collect())
                })
                .collect();
            pages.push(AckPage {
                page_no: *number,
                acked: bitmap(&acked),
                batches,
            });
        }
        pages
    }

    /// A persist (`update`) or a deletion of a cursor.
    fn cursor(&mut self, topic: usize, name: &str, update: Option<CursorUpdate>, wait: bool) -> Done {
        let Some(life) = self.topics[topic].life.as_ref().map(|life| life.number) else {
            return Ok(());
        };
        let busy = self.topics[topic]
            .model(life)
            .is_some_and(|model| model.cursors.get(name).is_some_and(|cursor| cursor.open() >= PERSISTS));
        if busy {
            self.settle("a busy cursor", |op| {
                op.topic == topic && matches!(op.ask, Ask::Cursor { .. })
            })?;
        }
        let old = !self.topics[topic].old.is_empty() && self.dice.chance(10);
        let known = &mut self.topics[topic];
        let handle = if old { known.old.last() } else { known.handle.as_ref() };
        let Some(handle) = handle.filter(|handle| handle.life == life) else {
            return Ok(());
        };
        let (id, fenced, stream) = (handle.id, handle.fenced, handle.stream.clone());
        let (future, wish) = match update {
            Some(update) => (stream.persist_cursor(update.clone()), Wish::Update(update)),
            None => (stream.delete_cursor(name), Wish::Delete),
        };
        let op = Op {
            topic,
            life,
            handle: id,
            ask: Ask::Cursor {
                name: name.to_owned(),
                fenced,
            },
        };
        let number = self.start(op, future, Answer::Unit);
        self.trace
            .line(|| format!("  request {number}: {name} {}", short(&wish)));
        if let Some(model) = self.topics[topic].model(life) {
            model.cursors.entry(name.to_owned()).or_default().asked(number, wish);
        }
        match wait {
            true => self.settle_one(number),
            false => Ok(()),
        }
    }

    fn close(&mut self, topic: usize) -> Done {
        let Some((handle, _)) = self.handle(topic) else {
            return Ok(());
        };
        let (id, stream) = (handle.id, handle.stream.clone());
        if let Some(handle) = self.topics[topic].handle(id) {
            handle.closed = true;
        }
        let closed = self.drive("the close of a handle", stream.close())?;
        if let Err(error) = closed {
            broken(Law::L17, format!("the close of a handle failed: {error}"))?;
        }
        self.drain()?;
        let open = self.topics[topic].handle(id).map_or(0, |handle| handle.queue.len());
        holds(open == 0, Law::L6, || {
            format!("topic {topic} is closed, {open} appends are not answered")
        })?;
        self.settle("after a close", |op| op.handle == id)?;
        self.topics[topic].retire();
        Ok(())
    }

    /// An owner of an old epoch goes straight to the journal: every change is refused.
    fn stale(&mut self, topic: usize) -> Done {
        let Some(engine) = self.engine.clone() else {
            return Ok(());
        };
        let known = &self.topics[topic];
        let Some(life) = known.certain_life() else {
            return Ok(());
        };
        let (stream, current) = (life.stream, life.model.epoch);
        let (end, possible) = (life.model.known_end(), life.model.possible_end());
        if current == 0 || known.refused {
            return Ok(());
        }
        let epoch = OwnerEpoch::new(current - 1);
        let journal = engine.journal();
        let (send, heard) = futures::channel::oneshot::channel();
        let entry = Bytes::from_static(b"an entry of an old owner");
        journal.append(Append {
            stream,
            epoch,
            offset: Offset::new(possible),
            crc32c: crc32c::crc32c(&entry),
            entry,
            messages: 1,
            reply: AppendReply::new(move |outcome| drop(send.send(outcome))),
        });
        let outcome = self.drive("an append of an old owner", heard)?;
        match outcome {
            Ok(AppendOutcome::Committed { offset, .. }) => {
                broken(
                    Law::L5,
                    format!("an append of epoch {epoch} was committed at {offset}, the owner is {current}"),
                )?;
            }
            Ok(AppendOutcome::NotCommitted(Error::Fenced { .. })) => {}
            Ok(AppendOutcome::NotCommitted(error) | AppendOutcome::Unknown(error)) => {
                check(&self.trouble, &error, &Default::default(), "an append of an old owner")?;
            }
            Err(_) => broken(Law::L6, "an append of an old owner was not answered")?,
        }
        let changes = [
            HeadChange::Trim {
                epoch,
                before: Offset::new(end),
                trimmed_bytes: 0,
            },
            HeadChange::Terminate { epoch },
            HeadChange::Delete { epoch: Some(epoch) },
        ];
        for change in changes {
            let asked = format!("{change:?}");
            let result: Answered<_> = self.drive("a change of an old owner", journal.change(stream, change))?;
            match result {
                Ok(_) => broken(Law::L5, format!("{asked} was done, the owner is {current}"))?,
                Err(Error::Fenced { .. }) => {}
                Err(error) => check(&self.trouble, &error, &Default::default(), "a change of an old owner")?,
            }
        }
        Ok(())
    }

    /// Takes the head of a topic away, as a lost or older directory would: from now on it is damage, never an empty topic.
    fn behead(&mut self, topic: usize) -> Done {
        let Some(engine) = self.engine.clone() else {
            return Ok(());
        };
        let known = &self.topics[topic];
        let Some(life) = known.certain_life() else {
            return Ok(());
        };
        let stream = life.stream;
        self.settle("before a head is taken away", |op| {
            op.topic == topic && !matches!(op.ask, Ask::Read { .. })
        })?;
        // A crash or a failing disk in the middle would leave it open whether there is a head.
        if self.armed.is_some() || self.trouble.disk || self.trouble.space {
            return Ok(());
        }
        let journal = engine.journal();
        let gone = self.drive(
            "a head is taken away",
            journal.change(stream, HeadChange::Delete { epoch: None }),
        )?;
        if gone.is_ok() {
            let known = &mut self.topics[topic];
            known.presence = Presence::Headless;
            known.handle = None;
            known.old.clear();
            self.open(topic, true, 0)?;
            let known = &mut self.topics[topic];
            known.life = None;
        }
        Ok(())
    }
}

fn short(wish: &Wish) -> String {
    match wish {
        Wish::Delete => "is deleted".into(),
        Wish::Update(update) => format!(
            "{}to {} with {} pages{}",
            if update.create { "is created, " } else { "" },
            update.mark_delete_end,
            update.pages.len(),
            if update.full { ", all others dropped" } else { "" }
        ),
    }
}

fn bitmap(bits: &RoaringBitmap) -> Bytes {
    if bits.is_empty() {
        return Bytes::new();
    }
    let mut out = Vec::with_capacity(bits.serialized_size());
    match bits.serialize_into(&mut out) {
        Ok(()) => out.into(),
        Err(_) => Bytes::new(),
    }
}
