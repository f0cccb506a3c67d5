//! All topics of a directory, and where a child's lines go.

use crate::event::Event;
use crate::topic::Topic;
use crate::verdict::Verdict;

/// Topics that a child works on.
pub const TOPICS: usize = 6;

/// What one directory must hold.
#[derive(Debug)]
pub struct Model {
    topics: Vec<Topic>,
}

impl Default for Model {
    fn default() -> Self {
        Model {
            topics: (0..TOPICS).map(|_| Topic::default()).collect(),
        }
    }
}

impl Model {
    /// Takes one line of a child.
    pub fn event(&mut self, event: Event, verdict: &mut Verdict) {
        let mut local = Verdict::default();
        let number = match &event {
            Event::Ask(topic, _) | Event::Done(topic, _) | Event::Found(topic, _) => Some(*topic),
            _ => None,
        };
        match (event, number.and_then(|number| self.topics.get_mut(number))) {
            (Event::Ask(_, ask), Some(topic)) => topic.ask(ask, &mut local),
            (Event::Done(_, done), Some(topic)) => topic.done(done, &mut local),
            (Event::Found(_, found), Some(topic)) => topic.found(found, &mut local),
            (Event::Ask(..) | Event::Done(..) | Event::Found(..), None) => local.note("no such topic"),
            (Event::Wrong(what), _) => local.note(what),
            (Event::Opened | Event::Ready | Event::Closed, _) => {}
        }
        if let Some(number) = number {
            let prefix = |note: &mut String| note.insert_str(0, &format!("topic {number}: "));
            local.notes.iter_mut().for_each(prefix);
        }
        *verdict += local;
    }

    /// The child is dead.
    pub fn killed(&mut self) {
        self.topics.iter_mut().for_each(Topic::killed);
    }
}
