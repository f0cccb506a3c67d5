//! Log events of the native side on their way to Java's log.
//!
//! Owns: one bounded queue per process. Promises: logging never blocks and never grows without bound; when the queue is full the
//! newest event is dropped and the next one that is delivered says how many were. Does not: decide what Java shows.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Arc, LazyLock, Once, Weak};

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::Layer;

use crate::completions::Completions;
use crate::guard::truncated;

/// Events held for Java.
const CAPACITY: usize = 1024;
/// Longest text of one event, bytes.
const MAX_TEXT: usize = 8 * 1024;
/// What is collected: the events of Nereus's own crates down to this level.
const MAX_LEVEL: Level = Level::INFO;

/// One event.
#[derive(Debug, PartialEq, Eq)]
pub struct LogEvent {
    /// 1 error, 2 warn, 3 info, 4 debug, 5 trace.
    pub level: i64,
    /// Module path.
    pub target: String,
    /// Message, then the fields as `name=value`.
    pub text: String,
    /// Events that were dropped before this one.
    pub dropped: i64,
}

/// The queue of the process.
pub static LOG: LazyLock<LogQueue> = LazyLock::new(LogQueue::default);

/// A bounded queue of events and the pollers that want to hear of them.
#[derive(Default)]
pub struct LogQueue {
    events: Mutex<Events>,
    listeners: Mutex<Vec<Weak<Completions>>>,
}

#[derive(Default)]
struct Events {
    queue: VecDeque<LogEvent>,
    dropped: i64,
}

impl LogQueue {
    /// Adds an event, or counts it as dropped, and wakes one poller.
    pub fn push(&self, level: i64, target: String, text: String) {
        {
            let mut events = self.events.lock();
            if events.queue.len() >= CAPACITY {
                events.dropped = events.dropped.saturating_add(1);
                return;
            }
            let dropped = std::mem::take(&mut events.dropped);
            events.queue.push_back(LogEvent {
                level,
                target,
                text,
                dropped,
            });
        }
        let listener = self.listeners.lock().iter().find_map(Weak::upgrade);
        if let Some(listener) = listener {
            listener.poke();
        }
    }

    /// Takes the oldest event.
    pub fn pop(&self) -> Option<LogEvent> {
        self.events.lock().queue.pop_front()
    }

    /// From now on `completions` is woken when an event arrives.
    pub fn listen(&self, completions: &Arc<Completions>) {
        let mut listeners = self.listeners.lock();
        listeners.retain(|listener| listener.strong_count() > 0);
        listeners.push(Arc::downgrade(completions));
    }

    /// `completions` is no longer woken.
    pub fn ignore(&self, completions: &Arc<Completions>) {
        let gone = Arc::downgrade(completions);
        self.listeners.lock().retain(|listener| !listener.ptr_eq(&gone));
    }
}

/// Sends the events of this library to [`LOG`]; once per process.
pub fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let subscriber = tracing_subscriber::registry().with(ToJava);
        if tracing::subscriber::set_global_default(subscriber).is_err() {
            LOG.push(
                2,
                module_path!().to_owned(),
                "another receiver of log events was installed before; native events are lost".to_owned(),
            );
        }
    });
}

struct ToJava;

impl<S: Subscriber> Layer<S> for ToJava {
    fn enabled(&self, metadata: &tracing::Metadata<'_>, _: Context<'_, S>) -> bool {
        *metadata.level() <= MAX_LEVEL && metadata.target().starts_with("nereus")
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = Text::default();
        event.record(&mut text);
        let metadata = event.metadata();
        LOG.push(number(metadata.level()), metadata.target().to_owned(), text.finish());
    }
}

fn number(level: &Level) -> i64 {
    match *level {
        Level::ERROR => 1,
        Level::WARN => 2,
        Level::INFO => 3,
        Level::DEBUG => 4,
        Level::TRACE => 5,
    }
}

#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Text {
    fn finish(mut self) -> String {
        self.message.push_str(&self.fields);
        truncated(&self.message, MAX_TEXT).to_owned()
    }

    fn field(&mut self, field: &Field, value: std::fmt::Arguments<'_>) {
        // Writing into a String cannot fail.
        let _written = match field.name() {
            "message" => write!(self.message, "{value}"),
            name => write!(self.fields, " {name}={value}"),
        };
    }
}

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.field(field, format_args!("{value}"));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.field(field, format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.field(field, format_args!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::completions::Polled;
    use std::time::Duration;

    #[test]
    fn a_full_queue_drops_the_newest_and_says_how_many() {
        let queue = LogQueue::default();
        for n in 0..CAPACITY + 3 {
            queue.push(3, "t".into(), n.to_string());
        }
        for n in 0..CAPACITY {
            assert_eq!(queue.pop().unwrap().text, n.to_string());
        }
        assert_eq!(queue.pop(), None);
        queue.push(3, "t".into(), "after".into());
        queue.push(3, "t".into(), "later".into());
        assert_eq!(queue.pop().unwrap().dropped, 3);
        assert_eq!(queue.pop().unwrap().dropped, 0);
    }

    #[test]
    fn an_event_wakes_a_poller_that_listens() {
        let queue = LogQueue::default();
        let completions = Arc::new(Completions::default());
        queue.listen(&completions);
        queue.push(1, "t".into(), "x".into());
        // Already poked: this poll must not wait.
        assert_eq!(
            completions.poll(1, Duration::from_secs(60), |_, _| {}),
            Polled::Records(0)
        );
        queue.ignore(&completions);
        queue.push(1, "t".into(), "y".into());
        assert_eq!(
            completions.poll(1, Duration::from_millis(1), |_, _| {}),
            Polled::Records(0)
        );
    }

    #[test]
    fn events_carry_message_and_fields_and_stop_at_the_level() {
        let subscriber = tracing_subscriber::registry().with(ToJava);
        let mut seen = Vec::new();
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(target: "nereus_core::x", stream = 7, name = "n", "it {}", "happened");
            tracing::debug!(target: "nereus_core::x", "too fine");
            tracing::error!(target: "elsewhere", "not ours");
        });
        while let Some(event) = LOG.pop() {
            seen.push(event);
        }
        let ours: Vec<_> = seen.iter().filter(|e| e.target == "nereus_core::x").collect();
        assert_eq!(ours.len(), 1);
        assert_eq!(
            (ours[0].level, ours[0].text.as_str()),
            (2, "it happened stream=7 name=n")
        );
        assert!(seen.iter().all(|e| e.target != "elsewhere"));
    }
}
