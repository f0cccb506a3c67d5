//! Entry for the fuzzing of what is private here: the values of a checkpoint.
//!
//! Promises: nothing; it says whether a pair is accepted, and what does not hold when it is.

use bytes::Bytes;

use super::layout::{
    damage_key, damage_of, damage_value, key_of, meta_of, meta_value, record_key, record_value, use_key, use_of,
    use_value, versioned, Damage, Meta, Position, META,
};
use crate::metadata::{Version, Versioned};
use crate::record::Key;
use crate::types::{Offset, StreamId};

/// One pair of each kind, seven in all, of these numbers.
pub fn samples(numbers: [u64; 5], text: &str) -> Vec<(Bytes, Bytes)> {
    let [a, b, c, d, e] = numbers;
    let stream = StreamId::new(u128::from(a) << 64 | u128::from(b));
    let damage = Damage {
        segment: c,
        position: d,
        detail: text.into(),
    };
    let meta = Meta {
        directory_id: u128::from(e),
        position: Position {
            segment: a,
            offset: b,
            sequence: c,
            versions: d,
        },
    };
    let value = Versioned {
        value: Bytes::copy_from_slice(text.as_bytes()),
        version: Version(a.max(1)),
    };
    vec![
        (Bytes::from_static(META), meta_value(&meta)),
        (use_key(c, stream), use_value(Offset::new(d))),
        (damage_key(None), damage_value(&damage)),
        (damage_key(Some(None)), damage_value(&damage)),
        (damage_key(Some(Some(stream))), damage_value(&damage)),
        (record_key(&Key::stream_head(stream)), record_value(&value)),
        (
            record_key(&Key::trim_mark(stream, Offset::new(c >> 16))),
            record_value(&value),
        ),
    ]
}

/// Decodes a pair as what its key says it is.
pub fn stored(key: &[u8], value: &[u8]) -> Result<bool, String> {
    let same = |what: &str, holds: bool| match holds {
        true => Ok(true),
        false => Err(format!("{what} is read and written as another value")),
    };
    match key.first() {
        Some(b'm') => match meta_of(value, "here") {
            Ok(meta) => same("a position", meta_of(&meta_value(&meta), "here").ok() == Some(meta)),
            Err(_) => Ok(false),
        },
        Some(b's') => match use_of(key, value) {
            Some((segment, stream, end)) => {
                let again = use_of(&use_key(segment, stream), &use_value(end));
                same("a use", again == Some((segment, stream, end)))
            }
            None => Ok(false),
        },
        Some(b'd') => match damage_of(key, value) {
            Some((scope, damage)) => {
                let again = damage_of(&damage_key(scope), &damage_value(&damage));
                // A text that is no UTF-8, or too long, is shown as well as it can be.
                let known =
                    again.is_some_and(|(s, d)| (s, d.segment, d.position) == (scope, damage.segment, damage.position));
                same("a damage", known)
            }
            None => Ok(false),
        },
        Some(b'k') => {
            let Ok(key) = key_of(&Bytes::copy_from_slice(key)) else {
                return Ok(false);
            };
            match versioned(&key, &Bytes::copy_from_slice(value)) {
                Ok(read) => same("a version", record_value(&read) == value && read.version != Version(0)),
                Err(_) => Ok(false),
            }
        }
        _ => Ok(false),
    }
}
