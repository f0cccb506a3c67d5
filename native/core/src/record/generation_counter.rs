//! `GenerationCounter`: the next generation number of a view of a stream. Numbers rise and are never used twice (L9).

use prost::Message;

use super::{wire, Key, Record, RecordType};
use crate::error::Result;
use crate::types::{Generation, ReadView, StreamId};

/// The counter of one view; moved by conditional update only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GenerationCounter {
    /// The stream.
    pub stream: StreamId,
    /// The view.
    pub view: ReadView,
    /// The next number; at least 1, because 0 is the append-time form.
    pub next: Generation,
}

#[derive(Clone, PartialEq, Message)]
struct Body {
    #[prost(bytes = "vec", tag = "1")]
    stream: Vec<u8>,
    #[prost(uint32, tag = "2")]
    view: u32,
    #[prost(uint64, tag = "3")]
    next: u64,
}

impl Record for GenerationCounter {
    const TYPE: RecordType = RecordType::GenerationCounter;
    const VERSION: u16 = 1;
    const MAX_BYTES: usize = 128;

    fn key(&self) -> Result<Key> {
        Ok(Key::generation_counter(self.stream, self.view))
    }

    fn check(&self) -> std::result::Result<(), String> {
        if self.next.get() == 0 {
            return Err("generation 0 is never handed out".into());
        }
        Ok(())
    }

    fn to_body(&self) -> Vec<u8> {
        let stream = self.stream.to_bytes().to_vec();
        Body {
            stream,
            view: u32::from(self.view.number()),
            next: self.next.get(),
        }
        .encode_to_vec()
    }

    fn from_body(_version: u16, body: &[u8]) -> std::result::Result<Self, String> {
        let body: Body = wire::body(body)?;
        Ok(GenerationCounter {
            stream: wire::stream(&body.stream)?,
            view: wire::view(body.view)?,
            next: Generation::new(body.next),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{record_suite, streams, views};
    use super::*;

    record_suite!(
        GenerationCounter,
        (streams(), views(), 1..=u64::MAX).prop_map(|(stream, view, next)| GenerationCounter {
            stream,
            view,
            next: Generation::new(next)
        })
    );

    #[test]
    fn l09_generation_0_is_never_handed_out() {
        let counter = GenerationCounter {
            stream: StreamId::new(1),
            view: ReadView::Committed,
            next: Generation::new(0),
        };
        assert!(counter.encode().is_err());
    }
}
