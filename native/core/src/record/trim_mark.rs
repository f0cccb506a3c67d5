//! `TrimMark`: a place where Pulsar's rollover settings would have closed a ledger. Retention moves only from mark to mark.

use prost::Message;

use super::{wire, Key, Record, RecordType};
use crate::error::Result;
use crate::types::{Offset, StreamId};

/// The setting that would have closed the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TrimReason {
    /// The most entries of a ledger.
    Entries,
    /// The largest size of a ledger.
    Size,
    /// The longest time of a ledger.
    Time,
}

/// Everything in `[previous mark, offset)` is kept or let go together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrimMark {
    /// The stream.
    pub stream: StreamId,
    /// One past the last offset of the part that ends here; never 0.
    pub offset: Offset,
    /// Bytes of all entries below `offset`, since the stream began.
    pub bytes_below: u64,
    /// Broker clock of the first append of the part, milliseconds.
    pub first_append_millis: u64,
    /// Broker clock of its last append: retention time counts from here.
    pub last_append_millis: u64,
    /// What closed it.
    pub reason: TrimReason,
}

#[derive(Clone, PartialEq, Message)]
struct Body {
    #[prost(bytes = "vec", tag = "1")]
    stream: Vec<u8>,
    #[prost(uint64, tag = "2")]
    offset: u64,
    #[prost(uint64, tag = "3")]
    bytes_below: u64,
    #[prost(uint64, tag = "4")]
    first_append_millis: u64,
    #[prost(uint64, tag = "5")]
    last_append_millis: u64,
    #[prost(uint32, tag = "6")]
    reason: u32,
}

impl Record for TrimMark {
    const TYPE: RecordType = RecordType::TrimMark;
    const VERSION: u16 = 1;
    const MAX_BYTES: usize = 256;

    fn key(&self) -> Result<Key> {
        Ok(Key::trim_mark(self.stream, self.offset))
    }

    fn check(&self) -> std::result::Result<(), String> {
        wire::check_offset(self.offset, "the mark")?;
        if self.offset == Offset::ZERO {
            return Err("a mark at offset 0 ends nothing".into());
        }
        Ok(())
    }

    fn to_body(&self) -> Vec<u8> {
        let reason = match self.reason {
            TrimReason::Entries => 1,
            TrimReason::Size => 2,
            TrimReason::Time => 3,
        };
        Body {
            stream: self.stream.to_bytes().to_vec(),
            offset: self.offset.get(),
            bytes_below: self.bytes_below,
            first_append_millis: self.first_append_millis,
            last_append_millis: self.last_append_millis,
            reason,
        }
        .encode_to_vec()
    }

    fn from_body(_version: u16, body: &[u8]) -> std::result::Result<Self, String> {
        let body: Body = wire::body(body)?;
        let reason = match body.reason {
            1 => TrimReason::Entries,
            2 => TrimReason::Size,
            3 => TrimReason::Time,
            other => return Err(format!("no reason has number {other}")),
        };
        Ok(TrimMark {
            stream: wire::stream(&body.stream)?,
            offset: Offset::new(body.offset),
            bytes_below: body.bytes_below,
            first_append_millis: body.first_append_millis,
            last_append_millis: body.last_append_millis,
            reason,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{record_suite, streams};
    use super::*;

    record_suite!(
        TrimMark,
        (
            streams(),
            1..=Offset::MAX.get(),
            any::<u64>(),
            any::<u64>(),
            any::<u64>(),
            0..3usize
        )
            .prop_map(
                |(stream, offset, bytes_below, first_append_millis, last_append_millis, reason)| TrimMark {
                    stream,
                    offset: Offset::new(offset),
                    bytes_below,
                    first_append_millis,
                    last_append_millis,
                    reason: [TrimReason::Entries, TrimReason::Size, TrimReason::Time][reason],
                }
            )
    );
}
