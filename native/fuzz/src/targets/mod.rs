//! What is decoded. A target says how its inputs are made and what must hold of them.

mod cursor;
mod frame;
mod journal;
mod key;
mod names;
mod record;
mod segment;
mod slice;
mod stored;

use nereus_core::types::StreamId;

use crate::random::Random;

/// One decoder, or a family of them.
pub struct Target {
    /// Its name, also of its files in the corpus. No `-` in it.
    pub name: &'static str,
    /// How often it is chosen, among the sum of all.
    pub weight: u64,
    /// An encoding that must be accepted.
    pub valid: fn(&mut Random) -> Vec<u8>,
    /// Damage of the kind that reaches its inner parts.
    pub twist: fn(&mut Vec<u8>, &mut Random),
    /// Makes lengths and checksums right, as far as there are any.
    pub mend: fn(&mut Vec<u8>),
    /// Decodes: `Ok(true)` accepted, `Ok(false)` refused, `Err` what does not hold. A panic is a failure too.
    pub check: fn(&[u8]) -> Result<bool, String>,
    /// Bytes that may be allocated per byte of input ...
    pub factor: usize,
    /// ... and besides, decoding and all checks together.
    pub constant: usize,
}

/// Every target.
pub const ALL: &[&Target] = &[
    &record::TARGET,
    &key::TARGET,
    &frame::TARGET,
    &frame::CHANGE,
    &slice::TARGET,
    &segment::HEADER,
    &segment::SCAN,
    &stored::TARGET,
    &names::TARGET,
    &names::IDENTITY,
    &cursor::TARGET,
    &journal::TARGET,
];

fn nothing(_: &mut Vec<u8>) {}

/// What must hold, or else the text.
fn demand(holds: bool, text: impl FnOnce() -> String) -> Result<(), String> {
    if holds {
        Ok(())
    } else {
        Err(text())
    }
}

fn stream(random: &mut Random) -> StreamId {
    StreamId::new(u128::from(random.edge()).max(1) << random.below(64))
}
