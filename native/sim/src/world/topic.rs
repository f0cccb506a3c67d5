//! One name with its lives, as the world remembers it.

use std::collections::VecDeque;

use nereus_core::stream::Stream;
use nereus_core::types::{Incarnation, Projection, StreamId};

use crate::model::stream::Properties;
use crate::model::StreamModel;

/// What is known of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Never created, or deleted for certain.
    Absent,
    /// It has a life.
    Live,
    /// Its head was taken away behind the engine's back.
    Headless,
}

/// One incarnation.
pub struct Life {
    /// Counts lives of the name in this run.
    pub number: u64,
    /// The engine's count.
    pub incarnation: Incarnation,
    /// Its stream.
    pub stream: StreamId,
    /// Its ledger ids.
    pub projection: Projection,
    /// What may be seen of it.
    pub model: StreamModel,
}

/// A writable handle.
pub struct Handle {
    /// Number in this run.
    pub id: u64,
    /// The life it was opened on.
    pub life: u64,
    /// The handle.
    pub stream: Stream,
    /// The offset that the next append gets.
    pub next: u64,
    /// Appends under way, in call order.
    pub queue: VecDeque<u64>,
    /// An append failed, and nobody resumed.
    pub failed: bool,
    /// A newer handle was opened.
    pub fenced: bool,
    /// A newer open failed: it may have come as far as the claim.
    pub maybe_fenced: bool,
    /// It was closed.
    pub closed: bool,
}

/// One name.
pub struct Topic {
    /// The ledger name.
    pub name: String,
    /// What is known.
    pub presence: Presence,
    /// A creation that nobody knows the outcome of was asked for, with these properties.
    pub maybe_created: Vec<Properties>,
    /// A deletion that nobody knows the outcome of was asked for.
    pub maybe_gone: bool,
    /// Damage was found that concerns it.
    pub refused: bool,
    /// The present life.
    pub life: Option<Life>,
    /// Lives so far.
    pub lives: u64,
    /// The newest incarnation seen.
    pub last_incarnation: u64,
    /// The highest ledger id that any life used.
    pub highest_ledger: u64,
    /// Streams of lives that were deleted for certain.
    pub dead: Vec<StreamId>,
    /// The newest writable handle.
    pub handle: Option<Handle>,
    /// Handles before it.
    pub old: Vec<Handle>,
}

impl Topic {
    /// A name that nobody has used.
    pub fn new(number: usize) -> Topic {
        Topic {
            name: format!("public/default/persistent/t{number}"),
            presence: Presence::Absent,
            maybe_created: Vec::new(),
            maybe_gone: false,
            refused: false,
            life: None,
            lives: 0,
            last_incarnation: 0,
            highest_ledger: 0,
            dead: Vec::new(),
            handle: None,
            old: Vec::new(),
        }
    }

    /// The handle with this number.
    pub fn handle(&mut self, id: u64) -> Option<&mut Handle> {
        self.handle
            .iter_mut()
            .chain(&mut self.old)
            .find(|handle| handle.id == id)
    }

    /// The model of life `number`, while that is the present one.
    pub fn model(&mut self, number: u64) -> Option<&mut StreamModel> {
        self.life
            .as_mut()
            .filter(|life| life.number == number)
            .map(|life| &mut life.model)
    }

    /// The present life, unless it may have ended.
    pub fn certain_life(&self) -> Option<&Life> {
        self.life
            .as_ref()
            .filter(|_| self.presence == Presence::Live && !self.maybe_gone)
    }

    /// A deletion closes every handle.
    pub fn close_all(&mut self) {
        for handle in self.handle.iter_mut().chain(&mut self.old) {
            handle.closed = true;
        }
    }

    /// The present handle is none any more.
    pub fn retire(&mut self) {
        if let Some(mut handle) = self.handle.take() {
            handle.fenced = true;
            self.old.push(handle);
            if self.old.len() > 2 {
                self.old.remove(0);
            }
        }
    }

    /// The present life ended for certain.
    pub fn buried(&mut self) {
        if let Some(life) = self.life.take() {
            self.dead.push(life.stream);
            let end = nereus_core::types::Offset::new(life.model.known_end());
            let last = life
                .projection
                .position(end)
                .map_or(u64::MAX, |(ledger, _)| ledger.get());
            self.highest_ledger = self.highest_ledger.max(last);
        }
        self.presence = Presence::Absent;
        self.maybe_gone = false;
        self.refused = false;
    }
}
