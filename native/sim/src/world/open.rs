//! Opens and deletions of topics: which life answers, under which epoch, with which ledger ids.

use nereus_core::engine::{LedgerDescription, OpenLedger};
use nereus_core::types::{Offset, StreamId};
use nereus_core::Error;

use super::errors::{check, Allowed};
use super::look::brief;
use super::topic::{Handle, Life, Presence};
use super::{Ask, Done, World};
use crate::law::{broken, holds, Law};
use crate::model::stream::Properties;
use crate::model::StreamModel;

impl World {
    /// A writable open.
    pub(super) fn open(&mut self, topic: usize, create: bool, properties: u64) -> Done {
        let Some(engine) = self.engine.clone() else {
            return Ok(());
        };
        let name = self.topics[topic].name.clone();
        let properties: Properties = (0..properties).map(|n| (format!("p{n}"), format!("{topic}"))).collect();
        let request = OpenLedger {
            name,
            create_if_missing: create,
            properties: properties.clone(),
            profile: String::new(),
        };
        let known = &self.topics[topic];
        // An open that creates nothing resumes what another one began.
        let may_create = match create {
            true => known.presence == Presence::Absent || known.maybe_gone,
            false => !known.maybe_created.is_empty(),
        };
        if may_create {
            self.topics[topic].maybe_created.push(properties);
        }
        let opened = self.drive("an open", async { engine.open_ledger(request).await })?;
        let what = format!("open of topic {topic}");
        self.trace.line(|| match &opened {
            Ok(opened) => format!("  {what}: {}", brief(&opened.description)),
            Err(error) => format!("  {what}: {:?}", error.code()),
        });
        let presence = self.topics[topic].presence;
        match opened {
            Ok(opened) => {
                holds(presence != Presence::Headless, Law::L13, || {
                    format!("{what}: an ACTIVE binding without a head was opened")
                })?;
                // Whatever an older handle was asked for before is answered now.
                self.topics[topic].retire();
                self.settle("after a take-over", |op| {
                    op.topic == topic && !matches!(op.ask, Ask::Read { .. })
                })?;
                if self.is_new(topic, &opened.description) {
                    let free = presence == Presence::Absent || self.topics[topic].maybe_gone;
                    holds(free, Law::L13, || {
                        format!("{what}: a new incarnation, the old one was not deleted")
                    })?;
                    self.born(topic, opened.stream.id(), &opened.description)?;
                }
                let epoch = opened.description.owner_epoch.get();
                if let Some(life) = self.topics[topic].life.as_mut() {
                    holds(epoch > life.model.epoch, Law::L5, || {
                        format!("{what}: epoch {epoch}, {} was given out before", life.model.epoch)
                    })?;
                    life.model.epoch = epoch;
                }
                self.topics[topic].maybe_created.clear();
                self.topics[topic].refused = false;
                self.check_life(topic, &opened.stream, &opened.description, &[])?;
                let id = self.number();
                let life = self.topics[topic].lives;
                self.topics[topic].handle = Some(Handle {
                    id,
                    life,
                    next: opened.stream.state().end.get(),
                    stream: opened.stream,
                    queue: Default::default(),
                    failed: false,
                    fenced: false,
                    maybe_fenced: false,
                    closed: false,
                });
                Ok(())
            }
            Err(Error::NotFound { .. })
                if !create && (presence == Presence::Absent || self.topics[topic].maybe_gone) =>
            {
                Ok(())
            }
            Err(Error::Corrupt { .. }) if presence == Presence::Headless => Ok(()),
            Err(Error::Corrupt { .. }) if self.topics[topic].maybe_gone && self.trouble.broker => Ok(()),
            Err(error) => {
                // It may have come as far as the claim.
                if let Some(handle) = &mut self.topics[topic].handle {
                    handle.maybe_fenced = true;
                }
                self.topics[topic].refused |= matches!(error, Error::Corrupt { .. });
                let allowed = Allowed {
                    gone: self.topics[topic].maybe_gone,
                    stream: self.topics[topic].life.as_ref().map(|life| life.stream),
                    ..Allowed::default()
                };
                Ok(check(&self.trouble, &error, &allowed, &what)?)
            }
        }
    }

    /// Whether a description is of another life than the known one.
    pub(super) fn is_new(&self, topic: usize, description: &LedgerDescription) -> bool {
        let life = self.topics[topic].life.as_ref();
        life.is_none_or(|life| life.incarnation != description.incarnation)
    }

    /// A life that was not known begins.
    pub(super) fn born(&mut self, topic: usize, stream: StreamId, description: &LedgerDescription) -> Done {
        let what = format!("topic {topic}");
        if self.topics[topic].life.is_some() {
            self.topics[topic].buried();
        }
        let known = &self.topics[topic];
        let incarnation = description.incarnation.get();
        holds(incarnation > known.last_incarnation, Law::L13, || {
            format!("{what}: incarnation {incarnation} after {}", known.last_incarnation)
        })?;
        let first = description.projection.first.get();
        holds(first > known.highest_ledger, Law::L13, || {
            format!(
                "{what}: ledgers from {first}, a former life used them up to {}",
                known.highest_ledger
            )
        })?;
        let before = self.ledgers.range(..=first).next_back();
        holds(before.is_none_or(|(_, last)| *last < first), Law::L13, || {
            format!("{what}: ledger {first} is used by another topic")
        })?;
        self.ledgers.insert(first, first);
        holds(!known.dead.contains(&stream), Law::L13, || {
            format!("{what}: stream {stream} was deleted")
        })?;
        holds(
            description.state.end == Offset::ZERO && description.cursors.is_empty(),
            Law::L13,
            || format!("{what}: a new life begins with {} entries", description.state.end),
        )?;
        let asked = known.maybe_created.contains(&description.properties);
        holds(asked, Law::L13, || {
            format!("{what}: a new life with properties {:?}", description.properties)
        })?;
        let topic = &mut self.topics[topic];
        topic.lives += 1;
        topic.last_incarnation = incarnation;
        topic.presence = Presence::Live;
        topic.maybe_created.clear();
        topic.maybe_gone = false;
        topic.life = Some(Life {
            number: topic.lives,
            incarnation: description.incarnation,
            stream,
            projection: description.projection,
            model: StreamModel::new(description.properties.clone()),
        });
        Ok(())
    }

    /// A deletion.
    pub(super) fn delete(&mut self, topic: usize) -> Done {
        let Some(engine) = self.engine.clone() else {
            return Ok(());
        };
        let name = self.topics[topic].name.clone();
        let before = self.topics[topic].maybe_gone;
        self.topics[topic].maybe_gone = true;
        let deleted = self.drive("a deletion", async { engine.delete_ledger(&name).await })?;
        let what = format!("deletion of topic {topic}");
        self.trace.line(|| match &deleted {
            Ok(()) => format!("  {what}: done"),
            Err(error) => format!("  {what}: {:?}", error.code()),
        });
        let presence = self.topics[topic].presence;
        let refused = self.topics[topic].refused;
        match deleted {
            Ok(()) => {
                self.settle("after a deletion", |op| {
                    op.topic == topic && !matches!(op.ask, Ask::Read { .. })
                })?;
                self.topics[topic].close_all();
                self.topics[topic].retire();
                let uncertain = !self.topics[topic].maybe_created.is_empty();
                holds(presence == Presence::Live || uncertain || before, Law::L13, || {
                    format!("{what}: there was nothing to delete")
                })?;
                self.topics[topic].buried();
                if !self.trouble.broker {
                    self.topics[topic].maybe_created.clear();
                }
                Ok(())
            }
            Err(Error::NotFound { .. }) => {
                self.topics[topic].maybe_gone = before;
                let absent = presence == Presence::Absent || before;
                holds(absent, Law::L13, || format!("{what}: it is said not to exist"))?;
                Ok(())
            }
            Err(Error::Corrupt { .. })
                if presence == Presence::Headless || refused || (before && self.trouble.broker) =>
            {
                self.topics[topic].maybe_gone = before;
                Ok(())
            }
            Err(error) => {
                // Handles may be closed, and the owner fenced.
                if let Some(handle) = &mut self.topics[topic].handle {
                    (handle.closed, handle.maybe_fenced) = (true, true);
                }
                if let Error::Internal { what } = &error {
                    broken(Law::L17, what.clone())?;
                }
                let allowed = Allowed {
                    stream: self.topics[topic].life.as_ref().map(|life| life.stream),
                    ..Allowed::default()
                };
                self.topics[topic].refused |= matches!(error, Error::Corrupt { .. });
                Ok(check(&self.trouble, &error, &allowed, &what)?)
            }
        }
    }
}
