//! Requests to the broker's metadata store, answered by Java.
//!
//! Owns: the table of requests that wait. Promises: a request ends once, by its answer, by its time-out or with the engine; an answer
//! that comes late, twice or to nobody is ignored. Keeps: L6 (a write without an answer is an unknown outcome, never a failure).
//! Does not: retry.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::blobs::BLOBS;
use crate::completions::KIND_METADATA;
use crate::messages;
use crate::operation::Outbox;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Value and version of one path.
    Get = 1,
    /// A conditional write.
    Put = 2,
    /// A conditional delete.
    Delete = 3,
    /// Names directly below a path.
    Children = 4,
}

/// What a conditional request expects: this version, absence, or anything.
pub mod expected {
    /// Must be absent.
    pub const ABSENT: i64 = -1;
    /// Whatever is there.
    pub const ANY: i64 = -2;
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Done; version and value where the request has them.
    Done {
        /// Version found or made.
        version: i64,
        /// Value found.
        value: Bytes,
    },
    /// The path does not exist.
    NotFound,
    /// The path is not as expected; nothing was done.
    BadVersion,
    /// The store failed or did not answer in time; a write may have been applied or may be later.
    Unknown(String),
    /// Certainly nothing was done.
    Refused(String),
}

/// The requests of one engine.
pub struct Requests {
    outbox: Outbox,
    patience: Duration,
    last: AtomicI64,
    waiting: Mutex<Option<HashMap<i64, oneshot::Sender<Answer>>>>,
}

impl Requests {
    /// Requests that travel through `outbox` and wait at most `patience` for their answer.
    pub fn new(outbox: Outbox, patience: Duration) -> Self {
        Requests {
            outbox,
            patience,
            last: AtomicI64::new(0),
            waiting: Mutex::new(Some(HashMap::new())),
        }
    }

    /// Asks. The request is on its way when this returns; the future only waits. Dropping it abandons the answer, not the request.
    pub fn ask(
        self: &Arc<Self>,
        request: Request,
        path: &str,
        expected: i64,
        value: &[u8],
    ) -> impl std::future::Future<Output = Answer> + Send + 'static {
        let sent = self.send(request, path, expected, value);
        let path = path.to_owned();
        async move {
            let (waiting, answer) = match sent {
                Ok(sent) => sent,
                Err(reason) => return Answer::Refused(reason),
            };
            let patience = waiting.requests.patience;
            match tokio::time::timeout(patience, answer).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) => Answer::Unknown(format!("the engine was closed before the metadata store answered for {path}")),
                Err(_) => Answer::Unknown(format!(
                    "the metadata store did not answer for {path} within {patience:?}; check the broker's metadata store"
                )),
            }
        }
    }

    /// Takes an answer of Java: statuses 0 done, 1 not found, 2 bad version, 3 failed, 4 refused.
    pub fn answer(&self, id: i64, status: i32, version: i64, value: Bytes) {
        let Some(waiter) = self.waiting.lock().as_mut().and_then(|waiting| waiting.remove(&id)) else {
            tracing::debug!(
                id,
                status,
                "an answer of the metadata store came when nobody waited for it any more"
            );
            return;
        };
        let answer = match status {
            0 => Answer::Done { version, value },
            1 => Answer::NotFound,
            2 => Answer::BadVersion,
            4 => Answer::Refused(text(&value)),
            3 => Answer::Unknown(text(&value)),
            other => Answer::Unknown(format!("the metadata store answered with the unknown status {other}")),
        };
        // Whoever waited may have left in this moment; then the answer is late and nobody needs it.
        let _taken = waiter.send(answer);
    }

    /// Ends every request and refuses later ones: the engine is going away.
    pub fn close(&self) {
        let waiting = self.waiting.lock().take();
        drop(waiting);
    }

    fn send(self: &Arc<Self>, request: Request, path: &str, expected: i64, value: &[u8]) -> Result<Sent, String> {
        let message = messages::metadata_request(request as u8, path, expected, value).map_err(|e| e.to_string())?;
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, receiver) = oneshot::channel();
        match self.waiting.lock().as_mut() {
            Some(waiting) => waiting.insert(id, sender),
            None => return Err("the engine is closed".to_owned()),
        };
        let waiting = Waiting {
            requests: Arc::clone(self),
            id,
        };
        let blob = self.outbox.store(vec![message]);
        if !self
            .outbox
            .completions
            .push([KIND_METADATA, id, 0, blob.handle, blob.length, 0])
        {
            BLOBS.free(blob.handle);
            return Err("the engine is closed".to_owned());
        }
        Ok((waiting, receiver))
    }

    #[cfg(test)]
    fn waiting(&self) -> usize {
        self.waiting.lock().as_ref().map_or(0, HashMap::len)
    }
}

fn text(value: &Bytes) -> String {
    String::from_utf8_lossy(value).into_owned()
}

/// A request on its way, and where its answer will come from.
type Sent = (Waiting, oneshot::Receiver<Answer>);

/// Takes a request out of the table when its future ends, however it ends.
struct Waiting {
    requests: Arc<Requests>,
    id: i64,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(waiting) = self.requests.waiting.lock().as_mut() {
            waiting.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::completions::{Completions, Record};

    const OWNER: u64 = 7001;

    fn requests(patience: Duration) -> (Arc<Requests>, Arc<Completions>) {
        let completions = Arc::new(Completions::default());
        let outbox = Outbox {
            owner: OWNER,
            completions: Arc::clone(&completions),
        };
        (Arc::new(Requests::new(outbox, patience)), completions)
    }

    fn next(completions: &Completions) -> Record {
        let mut seen = None;
        completions.poll(1, Duration::ZERO, |_, record| seen = Some(record));
        let record = seen.expect("a request was sent");
        BLOBS.free(record[3]);
        record
    }

    fn block_on<T>(future: impl std::future::Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap()
            .block_on(future)
    }

    #[test]
    fn an_answer_reaches_its_request_and_a_second_one_nobody() {
        let (requests, completions) = requests(Duration::from_secs(60));
        let first = requests.ask(Request::Get, "/a", expected::ANY, b"");
        let second = requests.ask(Request::Put, "/b", expected::ABSENT, b"v");
        let (id1, id2) = (next(&completions)[1], next(&completions)[1]);
        requests.answer(id2, 2, 0, Bytes::new());
        requests.answer(id2, 0, 5, Bytes::new());
        requests.answer(id1, 0, 3, Bytes::from_static(b"value"));
        requests.answer(99, 0, 0, Bytes::new());
        assert_eq!(
            block_on(first),
            Answer::Done {
                version: 3,
                value: Bytes::from_static(b"value")
            }
        );
        assert_eq!(block_on(second), Answer::BadVersion);
        assert_eq!(requests.waiting(), 0);
    }

    #[test]
    fn l06_a_request_without_an_answer_is_unknown_and_a_late_answer_is_ignored() {
        let (requests, completions) = requests(Duration::from_millis(20));
        let asked = requests.ask(Request::Delete, "/never", 4, b"");
        let id = next(&completions)[1];
        let Answer::Unknown(reason) = block_on(asked) else {
            panic!("expected an unknown outcome")
        };
        assert!(reason.contains("/never"), "{reason}");
        assert_eq!(requests.waiting(), 0);
        requests.answer(id, 0, 1, Bytes::new());
    }

    #[test]
    fn a_dropped_request_leaves_nothing_behind() {
        let (requests, completions) = requests(Duration::from_secs(60));
        let asked = requests.ask(Request::Children, "/c", expected::ANY, b"");
        next(&completions);
        assert_eq!(requests.waiting(), 1);
        drop(asked);
        assert_eq!(requests.waiting(), 0);
    }

    #[test]
    fn closing_ends_what_waits_as_unknown_and_refuses_the_rest() {
        let (requests, completions) = requests(Duration::from_secs(60));
        let asked = requests.ask(Request::Put, "/p", expected::ANY, b"");
        next(&completions);
        requests.close();
        assert!(matches!(block_on(asked), Answer::Unknown(_)));
        assert!(matches!(
            block_on(requests.ask(Request::Get, "/q", 0, b"")),
            Answer::Refused(_)
        ));
    }

    #[test]
    fn every_status_of_java_has_its_meaning() {
        let meanings = [
            (1, Answer::NotFound),
            (2, Answer::BadVersion),
            (3, Answer::Unknown("why".into())),
            (4, Answer::Refused("why".into())),
        ];
        for (status, meaning) in meanings {
            let (requests, completions) = requests(Duration::from_secs(60));
            let asked = requests.ask(Request::Get, "/a", 0, b"");
            requests.answer(next(&completions)[1], status, 0, Bytes::from_static(b"why"));
            assert_eq!(block_on(asked), meaning);
        }
    }
}
