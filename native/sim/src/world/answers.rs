//! Answers to requests that went on by themselves, each judged when it comes.

use nereus_core::commit::AppendOutcome;
use nereus_core::stream::{ReadBatch, ReadRequest};
use nereus_core::types::Offset;
use nereus_core::{Error, ErrorCode};

use super::errors::{check, Allowed};
use super::{Answer, Ask, Done, Op, World};
use crate::law::{broken, holds, Check, Law};
use crate::model::Ended;

impl World {
    pub(super) fn answered(&mut self, number: u64, answer: Answer) -> Done {
        let Some(op) = self.ops.remove(&number) else {
            broken(Law::L6, format!("request {number} was answered twice"))?;
            return Ok(());
        };
        let (topic, life, handle) = (op.topic, op.life, op.handle);
        let allowed = self.allowed(topic, life, handle);
        // What a machine without power answers says nothing.
        let dark = self.machine.disk.has_crashed();
        let what = format!("request {number} on topic {topic}");
        match (op.ask, answer) {
            (Ask::Append { offset, fenced }, Answer::Append(outcome)) => {
                self.append_answered(number, &op_of(topic, life, handle), offset, fenced, outcome, dark)
            }
            (Ask::Read { request, trim, end }, Answer::Read(result)) => {
                self.trace.line(|| match &result {
                    Ok(batch) => format!("  {what}: {} entries from {}", batch.entries.len(), request.start),
                    Err(error) => format!("  {what}: {:?}", error.code()),
                });
                match dark {
                    true => Ok(()),
                    false => self.read_answered(&what, topic, life, &request, (trim, end), &allowed, result),
                }
            }
            (Ask::Trim { asked, end, fenced }, Answer::Offset(result)) => {
                self.trace.line(|| format!("  {what}: trim {}", shown(&result)));
                let trouble = self.trouble.clone();
                let Some(model) = self.topics[topic].model(life) else {
                    return Ok(());
                };
                match result {
                    Ok(trim) if fenced => holds(trim.get() <= model.possible_trim(), Law::L5, || {
                        format!("{what}: a fenced owner trimmed to {trim}")
                    })?,
                    Ok(trim) => model.trimmed(asked, end, trim.get())?,
                    Err(_) if dark => {}
                    Err(error) => check(&trouble, &error, &allowed, &what)?,
                }
                Ok(())
            }
            (Ask::Terminate { fenced }, Answer::Offset(result)) => {
                self.trace.line(|| format!("  {what}: terminate {}", shown(&result)));
                let trouble = self.trouble.clone();
                let Some(model) = self.topics[topic].model(life) else {
                    return Ok(());
                };
                match result {
                    Ok(end) => {
                        holds(!fenced || model.may_be_terminated(), Law::L5, || {
                            format!("{what}: a fenced owner terminated the stream")
                        })?;
                        model.terminated(end.get())?;
                    }
                    Err(_) if dark => {}
                    Err(error) => check(&trouble, &error, &allowed, &what)?,
                }
                Ok(())
            }
            (Ask::Properties { all, fenced }, Answer::Unit(result)) => {
                self.trace.line(|| format!("  {what}: properties {}", shown(&result)));
                let trouble = self.trouble.clone();
                let Some(model) = self.topics[topic].model(life) else {
                    return Ok(());
                };
                match result {
                    Ok(()) => {
                        holds(!fenced, Law::L5, || {
                            format!("{what}: a fenced owner changed properties")
                        })?;
                        model.properties_stored(&all);
                    }
                    Err(_) if dark => {}
                    Err(error) => check(&trouble, &error, &allowed, &what)?,
                }
                Ok(())
            }
            (Ask::Cursor { name, fenced }, Answer::Unit(result)) => {
                self.trace
                    .line(|| format!("  {what}: cursor {name} {}", shown(&result)));
                self.cursor_answered(
                    number,
                    &op_of(topic, life, handle),
                    &name,
                    fenced,
                    result,
                    dark,
                    &allowed,
                )
            }
            (Ask::WaitPast { .. }, Answer::Waited) => Ok(()),
            _ => {
                broken(Law::L6, format!("{what} got the answer of another request"))?;
                Ok(())
            }
        }
    }

    fn append_answered(
        &mut self,
        number: u64,
        op: &(usize, u64, u64),
        offset: u64,
        asked_fenced: bool,
        outcome: AppendOutcome,
        dark: bool,
    ) -> Done {
        let (topic, life, handle) = *op;
        let mut allowed = self.allowed(topic, life, handle);
        let what = format!("append {number} on topic {topic} at {offset}");
        self.trace.line(|| match &outcome {
            AppendOutcome::Committed { offset, .. } => format!("  {what}: committed at {offset}"),
            AppendOutcome::NotCommitted(error) => format!("  {what}: not committed, {:?}", error.code()),
            AppendOutcome::Unknown(error) => format!("  {what}: unknown, {:?}", error.code()),
        });
        let trouble = self.trouble.clone();
        let committed = matches!(outcome, AppendOutcome::Committed { .. });
        if let Some(handle) = self.topics[topic].handle(handle) {
            let next = handle.queue.pop_front();
            holds(next == Some(number), Law::L4, || {
                format!("{what}: answered out of order, {next:?} was the next")
            })?;
            holds(!(committed && handle.failed), Law::L4, || {
                format!("{what}: committed behind an append that failed")
            })?;
            allowed.suspended = handle.failed;
            // Work that was taken is done before a handle closes.
            allowed.closed = false;
            handle.failed |= !committed;
        }
        let Some(model) = self.topics[topic].model(life) else {
            return Ok(());
        };
        match outcome {
            AppendOutcome::Committed { offset, .. } => {
                holds(!asked_fenced, Law::L5, || {
                    format!("{what}: a fenced owner's append was committed")
                })?;
                model.committed(number, offset.get())?;
            }
            _ if dark => {}
            AppendOutcome::NotCommitted(error) => {
                model.not_committed(number)?;
                check(&trouble, &error, &allowed, &what)?;
            }
            AppendOutcome::Unknown(error) => holds(trouble.disk, Law::L6, || {
                format!("{what}: the outcome is given up without need: {error}")
            })?,
        }
        Ok(())
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "one answer with what was true when it was asked for"
    )]
    pub(super) fn read_answered(
        &mut self,
        what: &str,
        topic: usize,
        life: u64,
        request: &ReadRequest,
        asked: (u64, u64),
        allowed: &Allowed,
        result: Result<ReadBatch, Error>,
    ) -> Done {
        let trouble = self.trouble.clone();
        let Some(model) = self.topics[topic].model(life) else {
            return Ok(());
        };
        let (trim, end) = asked;
        let start = request.start.get();
        match result {
            Ok(batch) => {
                check_shape(what, request, &batch)?;
                let wanted = start < end.min(request.up_to.get()) && start >= model.possible_trim();
                holds(!batch.entries.is_empty() || !wanted, Law::L11, || {
                    format!("{what}: nothing was read at {start}, the stream ends at {end} or later")
                })?;
                // The very last entry stays readable.
                let trimmed = start < trim && start + 1 < end;
                holds(!trimmed || batch.entries.is_empty(), Law::L11, || {
                    format!("{what}: offset {start} was read, everything below {trim} is trimmed")
                })?;
                for entry in &batch.entries {
                    model.observe(entry.offset.get(), &entry.entry)?;
                }
                Ok(())
            }
            Err(Error::OffsetTrimmed { .. }) => {
                holds(start < model.possible_trim(), Law::L1, || {
                    format!(
                        "{what}: offset {start} is said to be trimmed, nobody asked for more than {}",
                        model.possible_trim()
                    )
                })?;
                Ok(())
            }
            Err(error) => Ok(check(&trouble, &error, allowed, what)?),
        }
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "one answer with what was true when it was asked for"
    )]
    fn cursor_answered(
        &mut self,
        number: u64,
        op: &(usize, u64, u64),
        name: &str,
        asked_fenced: bool,
        result: Result<(), Error>,
        dark: bool,
        allowed: &Allowed,
    ) -> Done {
        let (topic, life, _) = *op;
        let trouble = self.trouble.clone();
        let Some(model) = self.topics[topic].model(life) else {
            return Ok(());
        };
        let cursor = model.cursors.entry(name.to_owned()).or_default();
        let what = format!("request {number} on cursor {name} of topic {topic}");
        match result {
            Ok(()) => {
                holds(!asked_fenced, Law::L5, || {
                    format!("{what}: a fenced owner changed a cursor")
                })?;
                cursor.ended(number, Ended::Done)?;
            }
            Err(_) if dark => cursor.ended(number, Ended::InDoubt)?,
            // A stream that is gone answers the same.
            Err(Error::NotFound { .. } | Error::Closed { .. }) if allowed.gone => {
                cursor.ended(number, Ended::InDoubt)?
            }
            Err(error @ (Error::NotFound { .. } | Error::AlreadyExists { .. })) => {
                cursor.ended(number, Ended::Refused(error.code()))?;
            }
            Err(error) => {
                let doubt = error.code() == ErrorCode::Unknown;
                cursor.ended(number, if doubt { Ended::InDoubt } else { Ended::Nothing })?;
                check(&trouble, &error, allowed, &what)?;
            }
        }
        Ok(())
    }
}

fn op_of(topic: usize, life: u64, handle: u64) -> (usize, u64, u64) {
    (topic, life, handle)
}

fn shown<T: std::fmt::Debug>(result: &Result<T, Error>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("{:?}", error.code()),
    }
}

/// Exact start, no gap, and no more than was asked for.
fn check_shape(what: &str, request: &ReadRequest, batch: &ReadBatch) -> Check {
    let mut next = request.start.get();
    let mut bytes = 0u64;
    for entry in &batch.entries {
        holds(entry.offset.get() == next, Law::L4, || {
            format!("{what}: {} after {next}", entry.offset)
        })?;
        next += 1;
        bytes += entry.entry.len() as u64;
    }
    let count = batch.entries.len() as u64;
    holds(count <= u64::from(request.max_entries), Law::L11, || {
        format!("{what}: {count} entries")
    })?;
    holds(count <= 1 || bytes <= request.max_bytes, Law::L11, || {
        format!("{what}: {bytes} bytes in {count} entries")
    })?;
    holds(count == 0 || Offset::new(next) <= request.up_to, Law::L11, || {
        format!("{what}: past the bound")
    })
}

impl Op {
    /// Whether it concerns this life of a topic.
    pub(super) fn of(&self, topic: usize, life: u64) -> bool {
        self.topic == topic && self.life == life
    }
}
