//! What a checkpoint holds around the records: position, uses of segments, damage, versions. Input: length of the key (1 byte), key,
//! value.

use nereus_core::journal::fuzzing;

use super::{nothing, Target};
use crate::mutate;
use crate::random::Random;

pub const TARGET: Target = Target {
    name: "stored",
    weight: 400,
    valid: |random| samples(random).swap_remove(random.index(7)),
    twist,
    mend: nothing,
    check,
    factor: 64,
    constant: 16 << 10,
};

fn samples(random: &mut Random) -> Vec<Vec<u8>> {
    let numbers = [
        random.edge(),
        random.edge(),
        random.edge(),
        random.edge(),
        random.edge(),
    ];
    let samples = fuzzing::samples(numbers, &random.text(40));
    let join = |(key, value): (bytes::Bytes, bytes::Bytes)| [&[key.len() as u8], &key[..], &value].concat();
    samples.into_iter().map(join).collect()
}

fn twist(input: &mut Vec<u8>, random: &mut Random) {
    // The length of the key stays mostly.
    if random.chance(80) && !input.is_empty() {
        let mut rest = input.split_off(1);
        mutate::bytes(&mut rest, random);
        input.append(&mut rest);
    } else {
        mutate::bytes(input, random);
    }
}

fn check(input: &[u8]) -> Result<bool, String> {
    let Some((length, rest)) = input.split_first() else {
        return Ok(false);
    };
    match rest.split_at_checked(usize::from(*length)) {
        Some((key, value)) => fuzzing::stored(key, value),
        None => Ok(false),
    }
}
