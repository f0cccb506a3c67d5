//! The wire codec of the boundary: big-endian numbers, length-prefixed strings, bytes, lists and maps.
//!
//! Promises: a reader never trusts a length: each is checked against what is left, and a count against the least room that so many
//! items need, so that a damaged message cannot make it allocate. A writer never exceeds [`MAX_MESSAGE`].

use std::collections::BTreeMap;

use bytes::Bytes;
use nereus_core::{Error, Result};

/// Largest message in bytes. Cursors with many acknowledgement pages are the largest ones; entries do not travel this way.
pub const MAX_MESSAGE: usize = 256 * 1024 * 1024;

/// Reads one message from front to back.
pub struct Reader {
    what: &'static str,
    rest: Bytes,
}

impl Reader {
    /// A reader of `message`; `what` names it in errors.
    pub fn new(what: &'static str, message: impl Into<Bytes>) -> Self {
        Reader {
            what,
            rest: message.into(),
        }
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>("u8")?[0])
    }

    /// A boolean: 0 or 1.
    pub fn boolean(&mut self) -> Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(self.malformed(format!("{other} is not a boolean"))),
        }
    }

    /// A 32-bit number.
    pub fn i32(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(self.array("i32")?))
    }

    /// A 64-bit number.
    pub fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_be_bytes(self.array("i64")?))
    }

    /// A 64-bit number that must not be negative.
    pub fn u63(&mut self) -> Result<u64> {
        let value = self.i64()?;
        u64::try_from(value).map_err(|_| self.malformed(format!("{value} is negative")))
    }

    /// Length-prefixed bytes.
    pub fn bytes(&mut self) -> Result<Bytes> {
        let length = self.count(1)?;
        Ok(self.rest.split_to(length))
    }

    /// Length-prefixed UTF-8.
    pub fn string(&mut self) -> Result<String> {
        let bytes = self.bytes()?;
        String::from_utf8(bytes.to_vec()).map_err(|e| self.malformed(format!("a string is not UTF-8: {e}")))
    }

    /// The number of items that follow, each of at least `least` bytes.
    pub fn count(&mut self, least: usize) -> Result<usize> {
        let count = self.i32()?;
        let room = self.rest.len() / least.max(1);
        match usize::try_from(count) {
            Ok(count) if count <= room => Ok(count),
            _ => Err(self.malformed(format!("it announces {count} items and has room for {room}"))),
        }
    }

    /// A map from string to string; a repeated key is refused.
    pub fn string_map(&mut self) -> Result<BTreeMap<String, String>> {
        self.map(Reader::string, 8)
    }

    /// A map from string to number; a repeated key is refused.
    pub fn number_map(&mut self) -> Result<BTreeMap<String, i64>> {
        self.map(Reader::i64, 12)
    }

    /// The message must end here.
    pub fn finish(self) -> Result<()> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(self.malformed(format!("{} bytes follow its end", self.rest.len())))
        }
    }

    /// The error of a message that says something impossible.
    pub fn malformed(&self, detail: impl AsRef<str>) -> Error {
        Error::Invalid {
            what: format!("the {} from Java is malformed: {}", self.what, detail.as_ref()),
        }
    }

    fn map<V>(&mut self, value: fn(&mut Reader) -> Result<V>, least: usize) -> Result<BTreeMap<String, V>> {
        let count = self.count(least)?;
        let mut map = BTreeMap::new();
        for _ in 0..count {
            let key = self.string()?;
            let value = value(self)?;
            if map.contains_key(&key) {
                return Err(self.malformed(format!("key {key:?} appears twice")));
            }
            map.insert(key, value);
        }
        Ok(map)
    }

    fn array<const N: usize>(&mut self, kind: &str) -> Result<[u8; N]> {
        let mut array = [0; N];
        match self.rest.get(..N) {
            Some(head) => array.copy_from_slice(head),
            None => return Err(self.malformed(format!("it ends inside a {kind}"))),
        }
        self.rest = self.rest.slice(N..);
        Ok(array)
    }
}

/// Writes one message.
#[derive(Default)]
pub struct Writer {
    out: Vec<u8>,
    overflow: bool,
}

impl Writer {
    /// One byte.
    pub fn u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    /// A boolean.
    pub fn boolean(&mut self, value: bool) {
        self.u8(u8::from(value));
    }

    /// A 32-bit number.
    pub fn i32(&mut self, value: i32) {
        self.put(&value.to_be_bytes());
    }

    /// A 64-bit number.
    pub fn i64(&mut self, value: i64) {
        self.put(&value.to_be_bytes());
    }

    /// An unsigned number that fits Java's `long`; one that does not makes the message fail.
    pub fn u63(&mut self, value: u64) {
        match i64::try_from(value) {
            Ok(value) => self.i64(value),
            Err(_) => self.overflow = true,
        }
    }

    /// An unsigned number that fits Java's `int`; one that does not makes the message fail.
    pub fn u31(&mut self, value: u32) {
        match i32::try_from(value) {
            Ok(value) => self.i32(value),
            Err(_) => self.overflow = true,
        }
    }

    /// A number of items, or a length.
    pub fn count(&mut self, count: usize) {
        match i32::try_from(count) {
            Ok(count) => self.i32(count),
            Err(_) => self.overflow = true,
        }
    }

    /// Length-prefixed bytes.
    pub fn bytes(&mut self, value: &[u8]) {
        self.count(value.len());
        self.put(value);
    }

    /// Length-prefixed UTF-8.
    pub fn string(&mut self, value: &str) {
        self.bytes(value.as_bytes());
    }

    /// A map from string to string.
    pub fn string_map(&mut self, map: &BTreeMap<String, String>) {
        self.count(map.len());
        for (key, value) in map {
            self.string(key);
            self.string(value);
        }
    }

    /// A map from string to number.
    pub fn number_map(&mut self, map: &BTreeMap<String, i64>) {
        self.count(map.len());
        for (key, value) in map {
            self.string(key);
            self.i64(*value);
        }
    }

    /// The finished message; fails if anything did not fit. `what` names it in the error.
    pub fn finish(self, what: &str) -> Result<Bytes> {
        if self.overflow {
            return Err(Error::Internal {
                what: format!("{what} does not fit into a message of {MAX_MESSAGE} bytes"),
            });
        }
        Ok(Bytes::from(self.out))
    }

    fn put(&mut self, bytes: &[u8]) {
        if self.out.len().saturating_add(bytes.len()) > MAX_MESSAGE {
            self.overflow = true;
        }
        if !self.overflow {
            self.out.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_back() {
        let map = BTreeMap::from([("a".to_owned(), "é".to_owned()), (String::new(), "b".to_owned())]);
        let numbers = BTreeMap::from([("n".to_owned(), i64::MIN)]);
        let mut writer = Writer::default();
        writer.u8(7);
        writer.boolean(true);
        writer.i32(-5);
        writer.u63(i64::MAX as u64);
        writer.bytes(b"raw");
        writer.string("text");
        writer.string_map(&map);
        writer.number_map(&numbers);
        let mut reader = Reader::new("test", writer.finish("test").unwrap());
        assert_eq!(reader.u8().unwrap(), 7);
        assert!(reader.boolean().unwrap());
        assert_eq!(reader.i32().unwrap(), -5);
        assert_eq!(reader.u63().unwrap(), i64::MAX as u64);
        assert_eq!(reader.bytes().unwrap().as_ref(), b"raw");
        assert_eq!(reader.string().unwrap(), "text");
        assert_eq!(reader.string_map().unwrap(), map);
        assert_eq!(reader.number_map().unwrap(), numbers);
        reader.finish().unwrap();
    }

    #[test]
    fn every_truncation_and_every_false_length_is_refused() {
        let mut writer = Writer::default();
        writer.string_map(&BTreeMap::from([("key".to_owned(), "value".to_owned())]));
        let whole = writer.finish("test").unwrap();
        for end in 0..whole.len() {
            assert!(
                Reader::new("test", whole.slice(..end)).string_map().is_err(),
                "cut at {end}"
            );
        }
        for length in [-1, i32::MIN, i32::MAX, 1] {
            let message = Bytes::copy_from_slice(&length.to_be_bytes());
            assert!(Reader::new("test", message.clone()).bytes().is_err(), "length {length}");
            assert!(Reader::new("test", message).number_map().is_err(), "count {length}");
        }
        assert!(Reader::new("test", vec![2]).boolean().is_err());
        assert!(Reader::new("test", vec![0, 0, 0, 1, 0xFF]).string().is_err());
        assert!(Reader::new("test", vec![0]).finish().is_err());
        assert!(Reader::new("test", (-1i64).to_be_bytes().to_vec()).u63().is_err());
    }

    #[test]
    fn a_repeated_key_is_refused() {
        let mut writer = Writer::default();
        writer.count(2);
        for _ in 0..2 {
            writer.string("twice");
            writer.string("value");
        }
        assert!(Reader::new("test", writer.finish("test").unwrap())
            .string_map()
            .is_err());
    }

    #[test]
    fn a_number_beyond_java_makes_the_message_fail() {
        let mut writer = Writer::default();
        writer.u63(u64::MAX);
        assert!(writer.finish("test").is_err());
    }
}
