//! Keys: ordered bytes, the same for every provider.
//!
//! Layout: record type (1 byte), for records of a stream its id (16), then the suffix. Integers are 8 bytes big-endian. A name is
//! its UTF-8 with 0x00 written as `00 ff`, ended by `00 01`, so that byte order is name order and no name is a prefix of another.
//! Promises: the byte order of keys of one kind and stream is the order of their suffixes; decoding never panics and says what
//! is wrong; a key has at most [`MAX_KEY_BYTES`].

use std::fmt;

use bytes::Bytes;

use super::target::{PhysicalId, TargetId};
use super::task::TaskId;
use super::RecordType;
use crate::error::{Error, Result};
use crate::types::{Generation, Offset, ReadView, StreamId};

/// Longest topic, cursor or object name in a key, in bytes of UTF-8.
pub const MAX_NAME_BYTES: usize = 4096;

/// Longest key in bytes: fixed parts and one name, every byte of it escaped.
pub const MAX_KEY_BYTES: usize = 2 * MAX_NAME_BYTES + 64;

/// The key of one record, or a bound of a range of keys ([`Key::parse`] tells them apart). Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Bytes);

/// What a key says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "named like the record each stands for; fields are explained at the constructors of `Key`"
)]
pub enum KeyParts {
    Cluster,
    Binding {
        name: String,
    },
    LedgerGrant,
    StreamHead {
        stream: StreamId,
    },
    StreamProperties {
        stream: StreamId,
    },
    CommitPage {
        stream: StreamId,
        first: Offset,
    },
    TrimMark {
        stream: StreamId,
        offset: Offset,
    },
    GenerationIndex {
        stream: StreamId,
        view: ReadView,
        end: Offset,
        generation: Generation,
    },
    GenerationCounter {
        stream: StreamId,
        view: ReadView,
    },
    Quarantine {
        stream: StreamId,
        target: TargetId,
    },
    CursorRoot {
        stream: StreamId,
        name: String,
    },
    CursorPage {
        stream: StreamId,
        name: String,
        page: u64,
        chunk: u16,
        version: u64,
    },
    CursorIndex {
        stream: StreamId,
        name: String,
        page: u64,
        chunk: u16,
        version: u64,
    },
    Task {
        task: TaskId,
    },
    PhysicalRoot {
        root: PhysicalId,
    },
}

/// The kinds whose keys begin with a stream id: everything that hangs on a stream.
pub const STREAM_KINDS: &[RecordType] = &[
    RecordType::StreamHead,
    RecordType::StreamProperties,
    RecordType::CommitPage,
    RecordType::TrimMark,
    RecordType::GenerationIndex,
    RecordType::GenerationCounter,
    RecordType::Quarantine,
    RecordType::CursorRoot,
    RecordType::CursorPage,
    RecordType::CursorIndex,
];

impl Key {
    /// The one cluster record.
    pub fn cluster() -> Key {
        Builder::of(RecordType::Cluster).key()
    }

    /// The binding of a topic's ledger name. `Invalid` for an empty or over-long name.
    pub fn binding(name: &str) -> Result<Key> {
        Ok(Builder::of(RecordType::Binding).name("ledger", name)?.key())
    }

    /// The one counter of virtual ledger ids.
    pub fn ledger_grant() -> Key {
        Builder::of(RecordType::LedgerGrant).key()
    }

    /// The head of a stream. Changed only through `commit::Log`.
    pub fn stream_head(stream: StreamId) -> Key {
        Builder::of_stream(RecordType::StreamHead, stream).key()
    }

    /// The properties of a stream.
    pub fn stream_properties(stream: StreamId) -> Key {
        Builder::of_stream(RecordType::StreamProperties, stream).key()
    }

    /// The page of folded commits that starts at `first`. Changed only through `commit::Log`.
    pub fn commit_page(stream: StreamId, first: Offset) -> Key {
        Builder::of_stream(RecordType::CommitPage, stream)
            .number(first.get())
            .key()
    }

    /// The mark at which retention may stop: everything below `offset` goes together.
    pub fn trim_mark(stream: StreamId, offset: Offset) -> Key {
        Builder::of_stream(RecordType::TrimMark, stream)
            .number(offset.get())
            .key()
    }

    /// One generation of the range that ends before `end`. Ordered by end, so that the first key at or past
    /// `(offset + 1, 0)` is the first candidate for an offset.
    pub fn generation_index(stream: StreamId, view: ReadView, end: Offset, generation: Generation) -> Key {
        let key = Builder::of_stream(RecordType::GenerationIndex, stream).byte(view.number());
        key.number(end.get()).number(generation.get()).key()
    }

    /// The next generation number of a view.
    pub fn generation_counter(stream: StreamId, view: ReadView) -> Key {
        Builder::of_stream(RecordType::GenerationCounter, stream)
            .byte(view.number())
            .key()
    }

    /// The quarantine of one target of a stream. `Invalid` for a bad object name.
    pub fn quarantine(stream: StreamId, target: &TargetId) -> Result<Key> {
        let key = Builder::of_stream(RecordType::Quarantine, stream).physical(&target.physical)?;
        Ok(key.number(target.position).number(target.length).key())
    }

    /// The committed state of a cursor. `Invalid` for an empty or over-long name.
    pub fn cursor_root(stream: StreamId, name: &str) -> Result<Key> {
        Ok(Builder::of_stream(RecordType::CursorRoot, stream)
            .name("cursor", name)?
            .key())
    }

    /// One immutable version of a part of a cursor's acks: page number, low 16 bits of the first offset of the part, version.
    pub fn cursor_page(stream: StreamId, name: &str, page: u64, chunk: u16, version: u64) -> Result<Key> {
        let key = Builder::of_stream(RecordType::CursorPage, stream).name("cursor", name)?;
        Ok(key.number(page).bytes(&chunk.to_be_bytes()).number(version).key())
    }

    /// One immutable version of a part of the names of a cursor's pages: the first page and part it may name, version.
    pub fn cursor_index(stream: StreamId, name: &str, page: u64, chunk: u16, version: u64) -> Result<Key> {
        let key = Builder::of_stream(RecordType::CursorIndex, stream).name("cursor", name)?;
        Ok(key.number(page).bytes(&chunk.to_be_bytes()).number(version).key())
    }

    /// A materialization task.
    pub fn task(task: TaskId) -> Key {
        Builder::of(RecordType::Task).bytes(&task.to_bytes()).key()
    }

    /// The life of a segment or object. `Invalid` for a bad object name.
    pub fn physical_root(root: &PhysicalId) -> Result<Key> {
        Ok(Builder::of(RecordType::PhysicalRoot).physical(root)?.key())
    }

    /// All keys of one kind in one stream: `from <= key < to`. `kind` is one of [`STREAM_KINDS`]; of any other kind the range is
    /// empty of records.
    pub fn stream_range(kind: RecordType, stream: StreamId) -> (Key, Key) {
        Builder::of_stream(kind, stream).key().prefixed()
    }

    /// All keys of one kind, of all streams: `from <= key < to`.
    pub fn kind_range(kind: RecordType) -> (Key, Key) {
        Builder::of(kind).key().prefixed()
    }

    /// All index records of one view, ascending by end offset.
    pub fn generation_range(stream: StreamId, view: ReadView) -> (Key, Key) {
        Builder::of_stream(RecordType::GenerationIndex, stream)
            .byte(view.number())
            .key()
            .prefixed()
    }

    /// All page versions of one cursor.
    pub fn cursor_page_range(stream: StreamId, name: &str) -> Result<(Key, Key)> {
        Ok(Builder::of_stream(RecordType::CursorPage, stream)
            .name("cursor", name)?
            .key()
            .prefixed())
    }

    /// Whether a scan of `from..to` stays inside one `<kind>/<stream>` (or one kind without streams), as providers promise.
    pub fn check_range(from: &Key, to: &Key) -> Result<()> {
        let invalid = |why: &str| {
            Err(Error::Invalid {
                what: format!("scan from {from} to {to}: {why}"),
            })
        };
        let Some(kind) = from.kind() else {
            return invalid("the lower bound is of no known kind");
        };
        let width = if STREAM_KINDS.contains(&kind) { 17 } else { 1 };
        let Some(scope) = from.0.get(..width) else {
            return invalid("the lower bound names no stream");
        };
        if to < from {
            return invalid("the bounds are in the wrong order");
        }
        if to.0.starts_with(scope) || *to == Key(Bytes::copy_from_slice(scope)).successor() {
            Ok(())
        } else {
            invalid("the bounds are of different streams or kinds")
        }
    }

    /// The key stored as these bytes; anything but a whole, canonical key is `Corrupt`.
    pub fn from_bytes(bytes: Bytes) -> Result<Key> {
        let key = Key(bytes);
        key.parse()?;
        Ok(key)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes, shared.
    pub fn to_bytes(&self) -> Bytes {
        self.0.clone()
    }

    /// The kind of record; `None` for bytes of no known kind.
    pub fn kind(&self) -> Option<RecordType> {
        self.0.first().copied().and_then(RecordType::from_number)
    }

    /// The stream that the record hangs on; `None` for a record without one.
    pub fn stream(&self) -> Option<StreamId> {
        if !STREAM_KINDS.contains(&self.kind()?) {
            return None;
        }
        let id = self.0.get(1..17)?;
        Some(StreamId::from_bytes(id.try_into().ok()?))
    }

    /// Takes the key apart. `Corrupt` says at which byte it stops making sense; so do bounds of ranges.
    pub fn parse(&self) -> Result<KeyParts> {
        let mut reader = Reader { bytes: &self.0, at: 0 };
        let parts = reader
            .parts()
            .and_then(|parts| match reader.bytes.len().saturating_sub(reader.at) {
                0 => Ok(parts),
                rest => Err(format!("{rest} bytes too many")),
            });
        parts.map_err(|detail| Error::Corrupt {
            what: "a key".into(),
            place: format!("byte {} of {}", reader.at, hex(&self.0)),
            detail,
        })
    }

    /// The smallest key greater than this one: where a scan goes on. A bound, not a whole key.
    pub fn after(&self) -> Key {
        let mut bytes = self.0.to_vec();
        bytes.push(0);
        Key(bytes.into())
    }

    fn prefixed(self) -> (Key, Key) {
        let to = self.successor();
        (self, to)
    }

    /// The smallest key greater than every key with this prefix. The first byte is a record number, never 0xff.
    fn successor(&self) -> Key {
        let mut bytes = self.0.to_vec();
        while let Some(last) = bytes.pop() {
            if let Some(next) = last.checked_add(1) {
                bytes.push(next);
                break;
            }
        }
        Key(bytes.into())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.kind().map_or("", RecordType::name);
        match self.parse() {
            Err(_) => write!(f, "{name}?{}", hex(&self.0)),
            Ok(KeyParts::Cluster | KeyParts::LedgerGrant) => f.write_str(name),
            Ok(KeyParts::Binding { name: ledger }) => write!(f, "{name}/{ledger}"),
            Ok(KeyParts::StreamHead { stream } | KeyParts::StreamProperties { stream }) => write!(f, "{name}/{stream}"),
            Ok(KeyParts::CommitPage { stream, first: offset } | KeyParts::TrimMark { stream, offset }) => {
                write!(f, "{name}/{stream}/{offset}")
            }
            Ok(KeyParts::GenerationIndex {
                stream,
                view,
                end,
                generation,
            }) => {
                write!(f, "{name}/{stream}/{view}/{end}/{generation}")
            }
            Ok(KeyParts::GenerationCounter { stream, view }) => write!(f, "{name}/{stream}/{view}"),
            Ok(KeyParts::Quarantine { stream, target }) => write!(f, "{name}/{stream}/{target}"),
            Ok(KeyParts::CursorRoot { stream, name: cursor }) => write!(f, "{name}/{stream}/{cursor}"),
            Ok(
                KeyParts::CursorPage {
                    stream,
                    name: cursor,
                    page,
                    chunk,
                    version,
                }
                | KeyParts::CursorIndex {
                    stream,
                    name: cursor,
                    page,
                    chunk,
                    version,
                },
            ) => {
                write!(f, "{name}/{stream}/{cursor}/{page}/{chunk}/{version}")
            }
            Ok(KeyParts::Task { task }) => write!(f, "{name}/{task}"),
            Ok(KeyParts::PhysicalRoot { root }) => write!(f, "{name}/{root}"),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().take(MAX_KEY_BYTES).map(|b| format!("{b:02x}")).collect()
}

struct Builder(Vec<u8>);

impl Builder {
    fn of(kind: RecordType) -> Self {
        Builder(vec![kind.number()])
    }

    fn of_stream(kind: RecordType, stream: StreamId) -> Self {
        Builder::of(kind).bytes(&stream.to_bytes())
    }

    fn byte(mut self, byte: u8) -> Self {
        self.0.push(byte);
        self
    }

    fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn number(self, number: u64) -> Self {
        self.bytes(&number.to_be_bytes())
    }

    fn name(mut self, what: &str, name: &str) -> Result<Self> {
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            return Err(Error::Invalid {
                what: format!("{what} name of {} bytes; 1 to {MAX_NAME_BYTES} are allowed", name.len()),
            });
        }
        for byte in name.bytes() {
            self.0.push(byte);
            if byte == 0 {
                self.0.push(0xff);
            }
        }
        Ok(self.bytes(&[0, 1]))
    }

    fn physical(self, id: &PhysicalId) -> Result<Self> {
        match id {
            PhysicalId::Segment(number) => Ok(self.byte(PhysicalId::SEGMENT).number(*number)),
            PhysicalId::Object(name) => self.byte(PhysicalId::OBJECT).name("object", name),
        }
    }

    fn key(self) -> Key {
        Key(self.0.into())
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn parts(&mut self) -> std::result::Result<KeyParts, String> {
        let kind = self.byte("record type")?;
        let Some(kind) = RecordType::from_number(kind) else {
            return Err(format!("no record has type {kind}"));
        };
        Ok(match kind {
            RecordType::Cluster => KeyParts::Cluster,
            RecordType::Binding => KeyParts::Binding { name: self.name()? },
            RecordType::LedgerGrant => KeyParts::LedgerGrant,
            RecordType::StreamHead => KeyParts::StreamHead { stream: self.stream()? },
            RecordType::StreamProperties => KeyParts::StreamProperties { stream: self.stream()? },
            RecordType::CommitPage => KeyParts::CommitPage {
                stream: self.stream()?,
                first: self.offset()?,
            },
            RecordType::TrimMark => KeyParts::TrimMark {
                stream: self.stream()?,
                offset: self.offset()?,
            },
            RecordType::GenerationIndex => KeyParts::GenerationIndex {
                stream: self.stream()?,
                view: self.view()?,
                end: self.offset()?,
                generation: Generation::new(self.number("generation")?),
            },
            RecordType::GenerationCounter => KeyParts::GenerationCounter {
                stream: self.stream()?,
                view: self.view()?,
            },
            RecordType::Quarantine => KeyParts::Quarantine {
                stream: self.stream()?,
                target: TargetId {
                    physical: self.physical()?,
                    position: self.number("position")?,
                    length: self.number("length")?,
                },
            },
            RecordType::CursorRoot => KeyParts::CursorRoot {
                stream: self.stream()?,
                name: self.name()?,
            },
            RecordType::CursorPage => KeyParts::CursorPage {
                stream: self.stream()?,
                name: self.name()?,
                page: self.number("page")?,
                chunk: u16::from_be_bytes(self.array("chunk")?),
                version: self.number("version")?,
            },
            RecordType::CursorIndex => KeyParts::CursorIndex {
                stream: self.stream()?,
                name: self.name()?,
                page: self.number("page")?,
                chunk: u16::from_be_bytes(self.array("chunk")?),
                version: self.number("version")?,
            },
            RecordType::Task => KeyParts::Task {
                task: TaskId::from_bytes(self.array("task id")?),
            },
            RecordType::PhysicalRoot => KeyParts::PhysicalRoot { root: self.physical()? },
        })
    }

    fn array<const N: usize>(&mut self, what: &str) -> std::result::Result<[u8; N], String> {
        let taken = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<N>());
        let taken = *taken.ok_or_else(|| format!("the {what} is cut off"))?;
        self.at += N;
        Ok(taken)
    }

    fn byte(&mut self, what: &str) -> std::result::Result<u8, String> {
        self.array::<1>(what).map(|[byte]| byte)
    }

    fn number(&mut self, what: &str) -> std::result::Result<u64, String> {
        self.array(what).map(u64::from_be_bytes)
    }

    fn offset(&mut self) -> std::result::Result<Offset, String> {
        let offset = Offset::new(self.number("offset")?);
        if offset > Offset::MAX {
            return Err(format!("offset {offset} is out of range"));
        }
        Ok(offset)
    }

    fn stream(&mut self) -> std::result::Result<StreamId, String> {
        self.array("stream id").map(StreamId::from_bytes)
    }

    fn view(&mut self) -> std::result::Result<ReadView, String> {
        let number = self.byte("read view")?;
        ReadView::from_number(number).ok_or_else(|| format!("no read view has number {number}"))
    }

    fn physical(&mut self) -> std::result::Result<PhysicalId, String> {
        match self.byte("kind of target")? {
            PhysicalId::SEGMENT => Ok(PhysicalId::Segment(self.number("segment")?)),
            PhysicalId::OBJECT => Ok(PhysicalId::Object(self.name()?)),
            other => Err(format!("no target is of kind {other}")),
        }
    }

    fn name(&mut self) -> std::result::Result<String, String> {
        let mut name = Vec::new();
        loop {
            match self.byte("name")? {
                0 => match self.byte("end of the name")? {
                    1 => break,
                    0xff => name.push(0),
                    other => return Err(format!("byte {other:#04x} after a zero in a name")),
                },
                byte => name.push(byte),
            }
            if name.len() > MAX_NAME_BYTES {
                return Err(format!("a name of more than {MAX_NAME_BYTES} bytes"));
            }
        }
        if name.is_empty() {
            return Err("an empty name".into());
        }
        String::from_utf8(name).map_err(|_| "a name that is not UTF-8".into())
    }
}

#[cfg(test)]
#[path = "key_tests.rs"]
mod tests;
