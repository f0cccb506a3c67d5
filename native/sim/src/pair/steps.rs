//! What each step does, and how answers are judged.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use nereus_core::commit::AppendOutcome;
use nereus_core::cursor::CursorUpdate;
use nereus_core::stream::{ReadRequest, Stream};
use nereus_core::types::{Offset, ReadView};
use nereus_core::{Error, ErrorCode};

use super::program::Step;
use super::{Answer, Ask, Done, Op, World};
use crate::entry::Entry;
use crate::law::{broken, holds, Law};
use crate::model::cursor::apply;
use crate::model::{Ended, Wish};
use crate::world::errors::check;

/// Virtual time in which everything has to be settled once the store behaves, milliseconds.
const PATIENCE: u64 = 120_000;

impl World {
    pub(super) fn perform(&mut self, step: &Step) -> Done {
        match step {
            Step::Append { old, sizes, each } => self.append(self.owner(*old), sizes, *each),
            Step::Resume { old } => self.resume(self.owner(*old)),
            Step::Settle { millis } => self.settle(*millis).map(drop),
            Step::Pause { micros } => self.pause(*micros),
            Step::TakeOver => self.take_over(),
            Step::Read { old, permille } => self.read(self.owner(*old), *permille),
            Step::Trim { old, permille } => self.trim(self.owner(*old), *permille),
            Step::Terminate { old } => self.terminate(self.owner(*old)),
            Step::Persist { old, cursor } => self.persist(self.owner(*old), *cursor),
            Step::Fault { old, nth, fault } => {
                self.trouble.broker = true;
                self.owners[self.owner(*old)].faults.nth(*nth, *fault);
                Ok(())
            }
            Step::Reads { old, fail } => {
                self.trouble.broker = true;
                self.owners[self.owner(*old)].faults.fail_reads(*fail);
                Ok(())
            }
            Step::Arrive { old } => {
                let faults = self.owners[self.owner(*old)].faults.clone();
                self.drive("late writes", async move { faults.arrive().await })
            }
            Step::Die { writes } => {
                let owner = self.owner(false);
                self.owners[owner].faults.halt_after(Some(*writes));
                let pause = self.dice.below(20_000);
                self.append(owner, &[5, 60], false)?;
                self.pause(pause)?;
                self.owners[owner].dead = true;
                self.take_over()
            }
            Step::Delay { micros } => {
                self.delay.store(*micros, Ordering::Relaxed);
                Ok(())
            }
            Step::RefuseWal { refuse } => {
                self.trouble.space = true;
                let reason = Error::Unavailable {
                    what: "no space".into(),
                    retry: std::time::Duration::from_millis(1),
                };
                self.wal.refuse_writes(refuse.then_some(reason));
                Ok(())
            }
        }
    }

    /// The store behaves; everything is settled; a last owner reads everything.
    pub(super) fn finish(&mut self) -> Done {
        self.trace.line(|| "end".into());
        self.delay.store(0, Ordering::Relaxed);
        self.wal.refuse_writes(None);
        for at in 0..self.owners.len() {
            let faults = self.owners[at].faults.clone();
            faults.clear();
            faults.fail_reads(false);
            self.drive("late writes", async move { faults.arrive().await })?;
        }
        if !self.settle(PATIENCE)? {
            let open = self
                .ops
                .iter()
                .find(|(_, op)| !self.owners[op.owner].dead)
                .map(|(number, _)| *number);
            return broken(
                Law::Liveness,
                format!("request {open:?} is not settled, and the store behaves"),
            );
        }
        let quiet = self.trouble.clone();
        self.trouble = Default::default();
        self.take_over()?;
        self.trouble = quiet;
        let owner = self.owner(false);
        if self.model.terminated.is_none() {
            self.append(owner, &[40, 0, 9], true)?;
        }
        let stream = self.owners[owner].stream.clone();
        self.model.check_state(&stream.state())?;
        self.read_all(&stream)
    }

    fn append(&mut self, at: usize, sizes: &[u32], each: bool) -> Done {
        if self.owners[at].dead {
            return Ok(());
        }
        if self.owners[at].failed && self.dice.chance(70) {
            self.resume(at)?;
        }
        for length in sizes {
            let entry = Entry {
                id: self.number(),
                length: *length,
            };
            let number = self.number();
            let inbox = self.inbox.clone();
            let reply = move |outcome| inbox.push(number, Answer::Append(outcome));
            let what = format!("append {number} of owner {at}");
            let appended = self.owners[at].stream.append(entry.bytes(), 1, reply);
            match appended {
                Ok(offset) => {
                    let offset = offset.get();
                    self.trace
                        .line(|| format!("  {what}: {length} bytes get offset {offset}"));
                    let owner = &mut self.owners[at];
                    let expected = owner.next;
                    owner.next = offset + 1;
                    owner.queue.push_back(number);
                    let ask = Ask::Append { offset };
                    let op = Op::new(at, owner.fenced, ask);
                    self.ops.insert(number, op);
                    self.model.asked(number, offset, entry);
                    holds(offset == expected, Law::L4, || {
                        format!("{what}: offset {offset}, {expected} is the next")
                    })?;
                }
                Err(error) => {
                    self.trace.line(|| format!("  {what}: refused, {:?}", error.code()));
                    self.drain()?;
                    return check(&self.trouble, &error, &self.allowed(at), &what);
                }
            }
            if each {
                self.pause(3000)?;
            }
        }
        Ok(())
    }

    fn resume(&mut self, at: usize) -> Done {
        self.drain()?;
        let owner = &mut self.owners[at];
        let resumed = owner.stream.resume();
        self.trace
            .line(|| format!("  resume of owner {at}: {:?}", resumed.as_ref().err().map(Error::code)));
        match resumed {
            Ok(()) if owner.failed => {
                owner.failed = false;
                owner.next = owner.stream.state().end.get();
                Ok(())
            }
            Ok(()) => Ok(()),
            Err(error) => {
                let mut allowed = self.allowed(at);
                allowed.suspended |= !self.owners[at].queue.is_empty();
                check(&self.trouble, &error, &allowed, "a resume")
            }
        }
    }

    fn read(&mut self, at: usize, permille: u64) -> Done {
        if self.owners[at].dead {
            return Ok(());
        }
        let (trim, end) = (self.model.trim, self.model.known_end());
        let from = trim.saturating_sub(2);
        let start = from + (end + 2 - from) * permille / 1000;
        let request = ReadRequest {
            view: ReadView::Committed,
            start: Offset::new(start),
            max_entries: 1 + u32::try_from(self.dice.below(12)).unwrap_or(0),
            max_bytes: 1 << self.dice.below(14),
            up_to: Offset::MAX,
        };
        let stream = self.owners[at].stream.clone();
        let op = Op::new(at, self.owners[at].fenced, Ask::Read { request, trim, end });
        self.start(op, Box::pin(async move { stream.read(request).await }), Answer::Read);
        Ok(())
    }

    fn trim(&mut self, at: usize, permille: u64) -> Done {
        if self.owners[at].dead {
            return Ok(());
        }
        let (end, possible, fenced) = (
            self.model.known_end(),
            self.model.possible_end(),
            self.owners[at].fenced,
        );
        let asked = ((end + 1) * permille / 1000).min(possible);
        if !fenced {
            self.model.trim_asked(asked);
        }
        let future = self.owners[at].stream.trim(Offset::new(asked));
        let number = self.start(Op::new(at, fenced, Ask::Trim { asked, end }), future, Answer::Offset);
        self.trace
            .line(|| format!("  request {number}: trim to {asked} of {end}"));
        Ok(())
    }

    fn terminate(&mut self, at: usize) -> Done {
        if self.owners[at].dead {
            return Ok(());
        }
        let fenced = self.owners[at].fenced;
        if !fenced {
            self.model.terminate_asked();
        }
        let future = self.owners[at].stream.terminate();
        self.start(Op::new(at, fenced, Ask::Terminate), future, Answer::Offset);
        Ok(())
    }

    fn persist(&mut self, at: usize, cursor: usize) -> Done {
        let name = format!("c{cursor}");
        let busy = self
            .ops
            .values()
            .any(|op| matches!(&op.ask, Ask::Cursor { name: other } if *other == name));
        if self.owners[at].dead || busy {
            return Ok(());
        }
        let fenced = self.owners[at].fenced;
        let known = self.model.cursors.entry(name.clone()).or_default();
        let update = CursorUpdate {
            name: name.clone(),
            create: known.exists() != Some(true),
            full: false,
            mark_delete_end: Offset::new(self.dice.below(self.owners[at].stream.state().end.get() + 1)),
            position_properties: Some(BTreeMap::from([("n".to_owned(), self.next.cast_signed())])),
            cursor_properties: None,
            pages: Vec::new(),
        };
        let future = self.owners[at].stream.persist_cursor(update.clone());
        let number = self.start(
            Op::new(at, fenced, Ask::Cursor { name: name.clone() }),
            future,
            Answer::Unit,
        );
        self.trace
            .line(|| format!("  request {number} of owner {at}: {name} to {}", update.mark_delete_end));
        let wish = Wish::Update(update);
        self.ghosts.extend(apply(&wish, &None).ok().flatten());
        if !fenced {
            self.model.cursors.entry(name).or_default().asked(number, wish);
        }
        Ok(())
    }

    /// Reads every entry that is not trimmed, as the newest owner.
    pub(super) fn read_all(&mut self, stream: &Stream) -> Done {
        let state = stream.state();
        let mut next = state.trim.get();
        while next < state.end.get() {
            let request = ReadRequest {
                view: ReadView::Committed,
                start: Offset::new(next),
                max_entries: 30,
                max_bytes: 1 << 20,
                up_to: Offset::MAX,
            };
            match self.drive("a read of everything", stream.read(request))? {
                Ok(batch) => {
                    holds(!batch.entries.is_empty(), Law::L11, || {
                        format!("nothing at {next}, the end is {}", state.end)
                    })?;
                    for entry in &batch.entries {
                        holds(entry.offset.get() == next, Law::L4, || {
                            format!("{} after {next}", entry.offset)
                        })?;
                        self.model.observe(next, &entry.entry)?;
                        next += 1;
                    }
                }
                Err(Error::OffsetTrimmed { trim, .. }) if trim.get() > next => next = trim.get(),
                Err(error) => return check(&self.trouble, &error, &Default::default(), &format!("offset {next}")),
            }
        }
        Ok(())
    }

    pub(super) fn answered(&mut self, number: u64, answer: Answer) -> Done {
        let Some(op) = self.ops.remove(&number) else {
            return broken(Law::L6, format!("request {number} was answered twice"));
        };
        let at = op.owner;
        let mut allowed = self.allowed(at);
        let what = format!("request {number} of owner {at}");
        match (op.ask, answer) {
            (Ask::Append { offset, .. }, Answer::Append(outcome)) => {
                self.trace.line(|| match &outcome {
                    AppendOutcome::Committed { offset, .. } => format!("  {what}: committed at {offset}"),
                    AppendOutcome::NotCommitted(error) => {
                        format!("  {what} at {offset}: not committed, {:?}", error.code())
                    }
                    AppendOutcome::Unknown(error) => format!("  {what} at {offset}: unknown, {:?}", error.code()),
                });
                let owner = &mut self.owners[at];
                let committed = matches!(outcome, AppendOutcome::Committed { .. });
                let first = owner.queue.pop_front();
                holds(first == Some(number), Law::L4, || {
                    format!("{what}: answered out of order")
                })?;
                holds(!(committed && owner.failed), Law::L4, || {
                    format!("{what}: committed behind a failure")
                })?;
                allowed.suspended = owner.failed;
                owner.failed |= !committed;
                match outcome {
                    AppendOutcome::Committed { offset, .. } => {
                        holds(!op.fenced, Law::L5, || {
                            format!("{what}: a superseded owner's append was committed")
                        })?;
                        self.model.committed(number, offset.get())
                    }
                    AppendOutcome::NotCommitted(error) => {
                        self.model.not_committed(number)?;
                        check(&self.trouble, &error, &allowed, &what)
                    }
                    AppendOutcome::Unknown(error) => broken(Law::L6, format!("{what}: given up without need: {error}")),
                }
            }
            (Ask::Read { request, trim, end }, Answer::Read(result)) => {
                // A superseded owner may look at an old head.
                let newest = !op.fenced && !op.overtaken;
                let start = request.start.get();
                match result {
                    Ok(batch) => {
                        let nothing = newest && start < end && start >= self.model.possible_trim();
                        holds(!nothing || !batch.entries.is_empty(), Law::L11, || {
                            format!("{what}: nothing at {start}, {end} entries are there")
                        })?;
                        let trimmed = newest && start < trim && start + 1 < end && !batch.entries.is_empty();
                        holds(!trimmed, Law::L11, || {
                            format!("{what}: {start} was read, {trim} is trimmed")
                        })?;
                        for (next, entry) in (start..).zip(&batch.entries) {
                            holds(entry.offset.get() == next, Law::L4, || {
                                format!("{what}: {} at {next}", entry.offset)
                            })?;
                            self.model.observe(next, &entry.entry)?;
                        }
                        Ok(())
                    }
                    Err(Error::OffsetTrimmed { .. }) => holds(start < self.model.possible_trim(), Law::L1, || {
                        format!("{what}: {start} is said to be trimmed")
                    }),
                    Err(error) => check(&self.trouble, &error, &allowed, &what),
                }
            }
            (Ask::Trim { asked, end }, Answer::Offset(result)) => match result {
                Ok(trim) if op.fenced || op.overtaken => {
                    let law = if op.fenced { Law::L5 } else { Law::L16 };
                    holds(trim.get() <= self.model.possible_trim(), law, || {
                        format!("{what}: trimmed to {trim}")
                    })
                }
                Ok(trim) => self.model.trimmed(asked, end, trim.get()),
                Err(error) => check(&self.trouble, &error, &allowed, &what),
            },
            (Ask::Terminate, Answer::Offset(result)) => match result {
                Ok(end) => {
                    holds(!op.fenced || self.model.may_be_terminated(), Law::L5, || {
                        format!("{what}: a superseded owner terminated")
                    })?;
                    match op.fenced || op.overtaken {
                        true => Ok(()),
                        false => self.model.terminated(end.get()),
                    }
                }
                Err(error) => check(&self.trouble, &error, &allowed, &what),
            },
            (Ask::Cursor { name }, Answer::Unit(result)) => {
                self.trace
                    .line(|| format!("  {what}: {name} {:?}", result.as_ref().err().map(Error::code)));
                let cursor = self.model.cursors.entry(name.clone()).or_default();
                if op.fenced {
                    return match result {
                        Ok(()) => broken(Law::L5, format!("{what}: a superseded owner changed cursor {name}")),
                        Err(_) => Ok(()),
                    };
                }
                if op.overtaken {
                    return Ok(());
                }
                match result {
                    Ok(()) => cursor.ended(number, Ended::Done),
                    Err(error @ (Error::NotFound { .. } | Error::AlreadyExists { .. })) => {
                        cursor.ended(number, Ended::Refused(error.code()))
                    }
                    Err(error) => {
                        let doubt = error.code() == ErrorCode::Unknown;
                        cursor.ended(number, if doubt { Ended::InDoubt } else { Ended::Nothing })?;
                        check(&self.trouble, &error, &allowed, &what)
                    }
                }
            }
            _ => broken(Law::L6, format!("{what} got the answer of another request")),
        }
    }
}
