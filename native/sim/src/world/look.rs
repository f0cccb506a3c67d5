//! Looks at everything: after a start, after an open, at the end.

use std::collections::BTreeMap;

use nereus_core::commit::Log;
use nereus_core::cursor::CursorState;
use nereus_core::engine::LedgerDescription;
use nereus_core::record::{Key, RecordType};
use nereus_core::stream::{ReadRequest, Stream};
use nereus_core::types::{Offset, ReadView, StreamId};
use nereus_core::Error;

use super::errors::{check, Allowed};
use super::topic::Presence;
use super::{Ask, Done, World};
use crate::law::{broken, holds, Law};

impl World {
    /// Looks at every topic with a handle that claims nothing.
    pub(super) fn look_all(&mut self) -> Done {
        for topic in 0..self.topics.len() {
            self.look(topic)?;
            self.check_dead(topic)?;
        }
        Ok(())
    }

    /// Looks at one topic with a handle that claims nothing.
    pub(super) fn look(&mut self, topic: usize) -> Done {
        let Some(engine) = self.engine.clone() else {
            return Ok(());
        };
        let name = self.topics[topic].name.clone();
        self.drain()?;
        let model = self.topics[topic].life.as_ref().map(|life| &life.model);
        let moving = model.map_or_else(Vec::new, |model| {
            let open = model.cursors.iter().filter(|(_, cursor)| cursor.open() > 0);
            open.map(|(name, _)| name.clone()).collect()
        });
        let opened = self.drive("a look", async { engine.open_read_only(&name).await })?;
        let what = format!("look at topic {topic}");
        self.trace.line(|| match &opened {
            Ok(opened) => format!("  {what}: {}", brief(&opened.description)),
            Err(error) => format!("  {what}: {:?}", error.code()),
        });
        let presence = self.topics[topic].presence;
        match (opened, presence) {
            (Ok(opened), Presence::Live) => {
                if self.is_new(topic, &opened.description) && self.topics[topic].maybe_gone {
                    // Deleted after all, and another one was made by a request that nobody heard of.
                    self.born(topic, opened.stream.id(), &opened.description)?;
                }
                self.check_life(topic, &opened.stream, &opened.description, &moving)
            }
            (Ok(opened), Presence::Absent) => {
                holds(!self.topics[topic].maybe_created.is_empty(), Law::L13, || {
                    format!("{what}: a topic that was deleted or never created is there")
                })?;
                self.born(topic, opened.stream.id(), &opened.description)?;
                self.check_life(topic, &opened.stream, &opened.description, &moving)
            }
            (Ok(_), Presence::Headless) => {
                broken(
                    Law::L13,
                    format!("{what}: an ACTIVE binding without a head is shown as a topic"),
                )?;
                Ok(())
            }
            (Err(Error::NotFound { .. }), Presence::Absent) => Ok(()),
            (Err(Error::NotFound { .. }), _) if self.topics[topic].maybe_gone => Ok(()),
            (Err(Error::NotFound { .. }), _) => {
                broken(Law::L13, format!("{what}: it is said not to exist"))?;
                Ok(())
            }
            (Err(Error::Corrupt { .. }), Presence::Headless) => Ok(()),
            (Err(Error::Corrupt { .. }), _) if self.topics[topic].maybe_gone => Ok(()),
            (Err(error), _) => {
                let allowed = Allowed {
                    stream: self.topics[topic].life.as_ref().map(|life| life.stream),
                    ..Allowed::default()
                };
                self.topics[topic].refused |= matches!(error, Error::Corrupt { .. });
                Ok(check(&self.trouble, &error, &allowed, &what)?)
            }
        }
    }

    /// Compares a life with its model, every entry included. `description` is as of the open that gave `stream`; cursors that were
    /// `moving` meanwhile are left out.
    pub(super) fn check_life(
        &mut self,
        topic: usize,
        stream: &Stream,
        description: &LedgerDescription,
        moving: &[String],
    ) -> Done {
        let what = format!("topic {topic}");
        let Some(number) = self.topics[topic].life.as_ref().map(|life| life.number) else {
            return Ok(());
        };
        let busy = self
            .ops
            .values()
            .any(|op| op.of(topic, number) && !matches!(op.ask, Ask::WaitPast { .. } | Ask::Read { .. }));
        self.drain()?;
        let Some(life) = self.topics[topic].life.as_ref() else {
            return Ok(());
        };
        holds(
            life.stream == stream.id() && life.incarnation == description.incarnation,
            Law::L13,
            || {
                format!(
                    "{what}: incarnation {} of stream {}, now it is {} of {}",
                    life.incarnation,
                    life.stream,
                    description.incarnation,
                    stream.id()
                )
            },
        )?;
        holds(life.projection == description.projection, Law::L7, || {
            format!(
                "{what}: ledgers {:?}, now {:?}",
                life.projection, description.projection
            )
        })?;
        life.model.check_state(&description.state)?;
        life.model.check_properties(&description.properties)?;
        let spans: u64 = description.spans.iter().map(|span| span.entries).sum();
        let state = &description.state;
        // The parts of a description are of different moments.
        holds(busy || spans == state.end.get() - state.trim.get(), Law::L11, || {
            format!("{what}: {spans} entries in spans, {} in all", state.entries)
        })?;
        self.check_cursors(topic, number, &description.cursors, moving)?;
        self.read_all(topic, stream)?;
        let refused = self.trouble.damage.is_some();
        if let Some(model) = self.topics[topic].model(number).filter(|_| !busy && !refused) {
            // Read after the description: nothing moved meanwhile.
            if stream.state() == description.state {
                model.settle(&description.state, &description.properties);
            }
        }
        Ok(())
    }

    fn check_cursors(&mut self, topic: usize, life: u64, found: &[CursorState], moving: &[String]) -> Done {
        let Some(model) = self.topics[topic].model(life) else {
            return Ok(());
        };
        let found: BTreeMap<&str, &CursorState> = found.iter().map(|state| (state.name.as_str(), state)).collect();
        for name in found.keys() {
            holds(model.cursors.contains_key(*name), Law::L15, || {
                format!("cursor {name} was never created")
            })?;
        }
        for (name, cursor) in &mut model.cursors {
            if cursor.open() == 0 && !moving.contains(name) {
                cursor.observe(name, found.get(name.as_str()).copied())?;
            }
        }
        Ok(())
    }

    /// Reads every entry that is not trimmed.
    pub(super) fn read_all(&mut self, topic: usize, stream: &Stream) -> Done {
        let Some((life, trim)) = self.topics[topic]
            .life
            .as_ref()
            .map(|life| (life.number, life.model.trim))
        else {
            return Ok(());
        };
        let state = stream.state();
        let mut next = state.trim.get();
        let last = state.end.get().saturating_sub(1);
        // Also what is trimmed leaves its last entry.
        if state.end.get() > 0 && next > last {
            next = last;
        }
        while next < state.end.get() {
            let sharp = self.trouble.damage.is_some();
            let request = ReadRequest {
                view: ReadView::Committed,
                start: Offset::new(next),
                max_entries: if sharp {
                    1
                } else {
                    1 + u32::try_from(self.dice.below(40)).unwrap_or(0)
                },
                max_bytes: 1 << self.dice.below(19),
                up_to: Offset::MAX,
            };
            let read = self.drive("a read of everything", stream.read(request))?;
            self.drain()?;
            let what = format!("topic {topic} at {next}");
            let allowed = Allowed {
                gone: self.topics[topic].maybe_gone
                    || self.topics[topic].life.as_ref().is_none_or(|now| now.number != life),
                stream: Some(stream.id()),
                ..Allowed::default()
            };
            match read {
                Ok(batch) => {
                    let count = batch.entries.len() as u64;
                    let end = state.end.get();
                    self.read_answered(&what, topic, life, &request, (trim, end), &allowed, Ok(batch))?;
                    if count == 0 {
                        let moved = stream.state().trim.get() > next || allowed.gone;
                        holds(moved, Law::L11, || format!("{what}: nothing, the stream ends at {end}"))?;
                        return Ok(());
                    }
                    next += count;
                }
                Err(error @ Error::Corrupt { .. }) if sharp => {
                    check(&self.trouble, &error, &allowed, &what)?;
                    next += 1;
                }
                Err(Error::OffsetTrimmed { trim, .. }) if trim.get() > next => {
                    self.read_answered(
                        &what,
                        topic,
                        life,
                        &request,
                        (0, 0),
                        &allowed,
                        Err(Error::OffsetTrimmed {
                            stream: stream.id(),
                            wanted: request.start,
                            trim,
                        }),
                    )?;
                    next = trim.get();
                }
                Err(error) => {
                    check(&self.trouble, &error, &allowed, &what)?;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Nothing of a deleted life is left in the journal's state.
    fn check_dead(&mut self, topic: usize) -> Done {
        let Some(engine) = self.engine.clone() else {
            return Ok(());
        };
        if self.trouble.damage.is_some() {
            return Ok(());
        }
        let dead: Vec<StreamId> = self.topics[topic].dead.iter().rev().take(2).copied().collect();
        for stream in dead {
            let journal = engine.journal();
            let left = self.drive("a look at a deleted stream", async move {
                if journal.load(stream).await?.is_some() {
                    return Ok(Some("its head"));
                }
                for (kind, name) in [
                    (RecordType::CursorRoot, "a cursor"),
                    (RecordType::CursorPage, "a cursor page"),
                    (RecordType::StreamProperties, "its properties"),
                    (RecordType::CommitPage, "a commit page"),
                ] {
                    let (from, to) = Key::stream_range(kind, stream);
                    if !journal.store().scan(from, to, 1).await?.is_empty() {
                        return Ok(Some(name));
                    }
                }
                Ok::<_, Error>(None)
            })?;
            match left {
                Ok(None) => {}
                Ok(Some(name)) => broken(
                    Law::L13,
                    format!("topic {topic} was deleted, and {name} of stream {stream} is there"),
                )?,
                Err(error) => check(&self.trouble, &error, &Allowed::default(), "a look at a deleted stream")?,
            }
        }
        Ok(())
    }
}

/// A description in one line.
pub(super) fn brief(description: &LedgerDescription) -> String {
    let state = &description.state;
    let cursors: Vec<String> = description
        .cursors
        .iter()
        .map(|cursor| format!("{}@{}+{}", cursor.name, cursor.mark_delete_end, cursor.pages.len()))
        .collect();
    format!(
        "incarnation {} epoch {} offsets {}..{}{} ledgers from {} {} cursors [{}]",
        description.incarnation,
        description.owner_epoch,
        state.trim,
        state.end,
        if state.terminated { " terminated" } else { "" },
        description.projection.first,
        description.properties.len(),
        cursors.join(" ")
    )
}
