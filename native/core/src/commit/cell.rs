//! The published head of a stream: readers see committed state only, and wake once per commit.

use parking_lot::RwLock;
use tokio::sync::Notify;

use super::StreamHead;

/// Shared by the log (the only writer) and the stream's handles. The lock is held for copies only, never over I/O or a callback.
pub struct HeadCell {
    head: RwLock<Option<StreamHead>>,
    changed: Notify,
}

impl HeadCell {
    /// A cell that publishes `head`.
    pub fn new(head: StreamHead) -> Self {
        HeadCell {
            head: RwLock::new(Some(head)),
            changed: Notify::new(),
        }
    }

    /// A cell without a head: the stream does not exist, or not yet.
    pub fn empty() -> Self {
        HeadCell {
            head: RwLock::new(None),
            changed: Notify::new(),
        }
    }

    /// Looks at the head; `None` once the stream is deleted.
    pub fn with<T>(&self, look: impl FnOnce(Option<&StreamHead>) -> T) -> T {
        look(self.head.read().as_ref())
    }

    /// Applies a durable change and wakes every waiter. Only the log that owns the stream calls this.
    pub fn publish<T>(&self, change: impl FnOnce(&mut Option<StreamHead>) -> T) -> T {
        let result = change(&mut self.head.write());
        self.changed.notify_waiters();
        result
    }

    /// Resolves at the next publish after the future was created and polled once (or enabled).
    pub fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }

    /// Wakes every waiter without a change: the stream closes.
    pub fn wake_all(&self) {
        self.changed.notify_waiters();
    }
}
