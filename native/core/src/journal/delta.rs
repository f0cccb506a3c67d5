//! Head changes as they stand in a frame's body.
//!
//! Layout: format (1 byte, 1), kind (1), fields in the order of [`HeadChange`], integers big-endian. Kinds once used never change.
//! Promises: arbitrary bytes never panic; what `encode` wrote, `decode` returns for ever.

use bytes::{BufMut, Bytes, BytesMut};

use super::frame::Input;
use crate::commit::HeadChange;
use crate::types::{Incarnation, Offset, OwnerEpoch, StreamId};

/// Longest name of an owner in a claim, bytes of UTF-8.
pub const MAX_OWNER: usize = 1024;

const FORMAT: u8 = 1;
const CREATE: u8 = 1;
const CLAIM: u8 = 2;
const TRIM: u8 = 3;
const TERMINATE: u8 = 4;
const DELETE: u8 = 5;
const DELETE_BY: u8 = 6;

/// The bytes of a change. The owner's name is cut at [`MAX_OWNER`]: it serves messages only.
pub fn encode(change: &HeadChange) -> Bytes {
    let mut out = BytesMut::with_capacity(64);
    out.put_u8(FORMAT);
    match change {
        HeadChange::Create {
            stream,
            incarnation,
            created_millis,
        } => {
            out.put_u8(CREATE);
            out.put_slice(&stream.to_bytes());
            out.put_u64(incarnation.get());
            out.put_u64(*created_millis);
        }
        HeadChange::Claim { owner } => {
            out.put_u8(CLAIM);
            out.put_slice(cut(owner).as_bytes());
        }
        HeadChange::Trim {
            epoch,
            before,
            trimmed_bytes,
        } => {
            out.put_u8(TRIM);
            out.put_u64(epoch.get());
            out.put_u64(before.get());
            out.put_u64(*trimmed_bytes);
        }
        HeadChange::Terminate { epoch } => {
            out.put_u8(TERMINATE);
            out.put_u64(epoch.get());
        }
        HeadChange::Delete { epoch: None } => out.put_u8(DELETE),
        HeadChange::Delete { epoch: Some(epoch) } => {
            out.put_u8(DELETE_BY);
            out.put_u64(epoch.get());
        }
    }
    out.freeze()
}

/// The change written as these bytes.
pub fn decode(bytes: &[u8]) -> Option<HeadChange> {
    let mut input = Input(bytes);
    if input.u8()? != FORMAT {
        return None;
    }
    let change = match input.u8()? {
        CREATE => HeadChange::Create {
            stream: StreamId::from_bytes(input.array()?),
            incarnation: Incarnation::new(input.u64()?),
            created_millis: input.u64()?,
        },
        CLAIM => {
            let rest = input.0.len();
            if rest > MAX_OWNER {
                return None;
            }
            HeadChange::Claim {
                owner: std::str::from_utf8(input.take(rest)?).ok()?.into(),
            }
        }
        TRIM => HeadChange::Trim {
            epoch: OwnerEpoch::new(input.u64()?),
            before: Offset::new(input.u64()?),
            trimmed_bytes: input.u64()?,
        },
        TERMINATE => HeadChange::Terminate {
            epoch: OwnerEpoch::new(input.u64()?),
        },
        DELETE => HeadChange::Delete { epoch: None },
        DELETE_BY => HeadChange::Delete {
            epoch: Some(OwnerEpoch::new(input.u64()?)),
        },
        _ => return None,
    };
    input.0.is_empty().then_some(change)
}

/// The longest prefix of a name that fits, at a character boundary.
pub fn cut(owner: &str) -> &str {
    let end = (0..=MAX_OWNER.min(owner.len()))
        .rev()
        .find(|end| owner.is_char_boundary(*end));
    end.and_then(|end| owner.get(..end)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn changes() -> Vec<HeadChange> {
        vec![
            HeadChange::Create {
                stream: StreamId::new(7),
                incarnation: Incarnation::new(2),
                created_millis: 1234,
            },
            HeadChange::Claim {
                owner: "broker-1 (pid 7) é".into(),
            },
            HeadChange::Claim { owner: "".into() },
            HeadChange::Trim {
                epoch: OwnerEpoch::new(3),
                before: Offset::new(99),
                trimmed_bytes: 5,
            },
            HeadChange::Terminate {
                epoch: OwnerEpoch::new(4),
            },
            HeadChange::Delete { epoch: None },
            HeadChange::Delete {
                epoch: Some(OwnerEpoch::new(5)),
            },
        ]
    }

    #[test]
    fn every_change_is_read_back() {
        for change in changes() {
            assert_eq!(decode(&encode(&change)), Some(change));
        }
    }

    #[test]
    fn a_cut_or_lengthened_change_is_refused() {
        for change in changes()
            .into_iter()
            .filter(|change| !matches!(change, HeadChange::Claim { .. }))
        {
            let bytes = encode(&change);
            assert_eq!(decode(&bytes[..bytes.len() - 1]), None);
            assert_eq!(decode(&[&bytes[..], &[0]].concat()), None);
        }
    }

    #[test]
    fn an_over_long_owner_is_cut_at_a_character() {
        let name = "é".repeat(MAX_OWNER);
        assert_eq!(cut(&name).len(), MAX_OWNER);
        assert_eq!(cut(&format!("x{name}")).len(), MAX_OWNER - 1);
    }

    #[test]
    fn an_over_long_owner_is_refused_as_it_was_never_written() {
        let longest = encode(&HeadChange::Claim {
            owner: "o".repeat(MAX_OWNER).into(),
        });
        assert!(decode(&longest).is_some());
        assert_eq!(decode(&[&longest[..], b"o"].concat()), None);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = decode(&bytes);
        }
    }
}
