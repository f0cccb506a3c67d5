//! One operation of Java on its way: whatever happens to it, it is answered exactly once.
//!
//! Owns: the operation id until it is answered. Promises: an operation that is dropped, because its task panicked or its runtime died,
//! is answered as `INTERNAL` from the drop. Does not: guard appends; the engine's own reply answers a dropped one as `UNKNOWN` (L6).

use std::sync::Arc;

use bytes::Bytes;
use nereus_core::stream::Held;
use nereus_core::{Error, ErrorCode};

use crate::blobs::{BlobRef, Owner, BLOBS};
use crate::completions::{Completions, KIND_COMPLETION};
use crate::guard::truncated;

/// Longest error message that travels to Java, bytes.
const MAX_ERROR_TEXT: usize = 64 * 1024;

/// Where the answers of one engine go.
#[derive(Clone)]
pub struct Outbox {
    /// Number of the engine, owner of the blobs.
    pub owner: Owner,
    /// Its queue.
    pub completions: Arc<Completions>,
}

impl Outbox {
    /// Stores bytes for Java.
    pub fn store(&self, parts: Vec<Bytes>) -> BlobRef {
        self.store_held(parts, Held::default())
    }

    /// Stores the bytes of a read for Java, which stay on their account until Java has them.
    pub fn store_held(&self, parts: Vec<Bytes>, held: Held) -> BlobRef {
        BLOBS.store(self.owner, parts, held)
    }

    /// Answers operation `op` with success.
    pub fn succeed(&self, op: i64, values: [i64; 3]) {
        let [a, b, c] = values;
        // A closed queue means that Java has already swept every operation; blobs go with the engine.
        let _seen = self.completions.push([KIND_COMPLETION, op, 0, a, b, c]);
    }

    /// Answers operation `op` with a failure.
    pub fn fail(&self, op: i64, error: &Error) {
        self.fail_with(op, error.code(), &error.to_string());
    }

    fn fail_with(&self, op: i64, code: ErrorCode, text: &str) {
        let text = Bytes::copy_from_slice(truncated(text, MAX_ERROR_TEXT).as_bytes());
        let blob = self.store(vec![text]);
        if !self
            .completions
            .push([KIND_COMPLETION, op, i64::from(code as i32), blob.handle, blob.length, 0])
        {
            BLOBS.free(blob.handle);
        }
    }
}

/// An operation that still has to be answered.
#[must_use = "an operation that is dropped is answered as failed"]
pub struct Operation {
    outbox: Outbox,
    op: i64,
    what: &'static str,
    answered: bool,
}

impl Operation {
    /// Takes the duty to answer `op`; `what` names the call in messages.
    pub fn new(outbox: Outbox, op: i64, what: &'static str) -> Self {
        Operation {
            outbox,
            op,
            what,
            answered: false,
        }
    }

    /// Answers.
    pub fn answer(mut self, result: Result<[i64; 3], Error>) {
        self.answered = true;
        match result {
            Ok(values) => self.outbox.succeed(self.op, values),
            Err(error) => self.outbox.fail(self.op, &error),
        }
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        if !self.answered {
            let text = format!(
                "{} ended without an answer; the log of the native side says why",
                self.what
            );
            self.outbox.fail_with(self.op, ErrorCode::Internal, &text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::completions::Record;
    use std::time::Duration;

    fn outbox(owner: Owner) -> Outbox {
        Outbox {
            owner,
            completions: Arc::new(Completions::default()),
        }
    }

    fn drain(outbox: &Outbox) -> Vec<Record> {
        let mut seen = Vec::new();
        outbox
            .completions
            .poll(16, Duration::ZERO, |_, record| seen.push(record));
        seen
    }

    fn text(record: &Record) -> String {
        let blob = BLOBS.take(record[3], usize::MAX).ok().unwrap();
        String::from_utf8(blob.parts().concat()).unwrap()
    }

    #[test]
    fn an_answered_operation_is_answered_once() {
        let outbox = outbox(9001);
        Operation::new(outbox.clone(), 1, "test").answer(Ok([1, 2, 3]));
        Operation::new(outbox.clone(), 2, "test").answer(Err(Error::NotFound { what: "it".into() }));
        let seen = drain(&outbox);
        assert_eq!(seen.len(), 2);
        assert_eq!(seen[0], [KIND_COMPLETION, 1, 0, 1, 2, 3]);
        assert_eq!(seen[1][..3], [KIND_COMPLETION, 2, 3]);
        assert_eq!(text(&seen[1]), "it does not exist");
    }

    #[test]
    fn a_panicking_operation_is_answered_as_internal() {
        let outbox = outbox(9002);
        let operation = Operation::new(outbox.clone(), 4, "trim");
        let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _held = operation;
            panic!("on purpose");
        }));
        assert!(died.is_err());
        let seen = drain(&outbox);
        assert_eq!(seen[0][..3], [KIND_COMPLETION, 4, 12]);
        assert!(text(&seen[0]).starts_with("trim ended without an answer"));
    }

    #[test]
    fn an_answer_to_a_closed_queue_leaves_no_blob() {
        let outbox = outbox(9003);
        outbox.completions.close();
        Operation::new(outbox.clone(), 5, "test").answer(Err(Error::Closed { what: "it".into() }));
        drop(Operation::new(outbox, 6, "test"));
        assert_eq!(BLOBS.live_of(9003), 0);
    }
}
