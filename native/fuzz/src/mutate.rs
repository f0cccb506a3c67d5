//! Damage: to bytes of any kind, and to protobuf bodies field by field.

use crate::random::Random;

/// Longest input that a mutation makes, bytes.
const LONGEST: usize = 256 * 1024;

/// One to four changes of bytes: flipped bits, numbers, cuts, insertions, splices, repetitions.
pub fn bytes(input: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        change(input, random);
        input.truncate(LONGEST);
    }
}

fn change(input: &mut Vec<u8>, random: &mut Random) {
    let at = random.index(input.len());
    match random.below(9) {
        0 | 1 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        2 => {
            if let Some(byte) = input.get_mut(at) {
                *byte = [0, 1, 0x7f, 0x80, 0xff][random.index(5)];
            }
        }
        // A number of 2, 4 or 8 bytes, where a length or a count may stand.
        3 | 4 => {
            let number = random.edge().to_be_bytes();
            let width = [2, 4, 8][random.index(3)];
            let end = at.saturating_add(width).min(input.len());
            let from = number.len() - (end - at);
            input[at..end].copy_from_slice(&number[from..]);
        }
        5 => input.truncate(at),
        6 => {
            let length = random.index(24);
            let more = random.bytes(length);
            input.splice(at..at, more);
        }
        7 => {
            let end = at.saturating_add(random.index(32)).min(input.len());
            input.drain(at..end);
        }
        _ => {
            let end = at.saturating_add(random.index(64)).min(input.len());
            let piece = input[at..end].to_vec();
            let to = random.index(input.len());
            let times = [1, 1, 2, 40][random.index(4)];
            input.splice(to..to, piece.repeat(times));
        }
    }
}

/// One to three changes of a protobuf body that leave it a protobuf body: fields removed, repeated, moved, renumbered, with other
/// numbers and other lengths.
pub fn protobuf(body: &mut Vec<u8>, random: &mut Random) {
    let mut fields = parse(body).unwrap_or_default();
    for _ in 0..=random.below(3) {
        field(&mut fields, random, 0);
    }
    let mut out = Vec::new();
    fields.iter().for_each(|field| field.write(&mut out));
    out.truncate(LONGEST);
    *body = out;
}

#[derive(Debug, Clone)]
enum Value {
    Varint(u64),
    Fixed64([u8; 8]),
    Bytes(Vec<u8>),
    Fixed32([u8; 4]),
}

#[derive(Debug, Clone)]
struct Field {
    tag: u64,
    value: Value,
}

impl Field {
    fn write(&self, out: &mut Vec<u8>) {
        let (wire, content): (u64, &[u8]) = match &self.value {
            Value::Varint(_) => (0, &[]),
            Value::Fixed64(bytes) => (1, bytes),
            Value::Bytes(bytes) => (2, bytes),
            Value::Fixed32(bytes) => (5, bytes),
        };
        varint((self.tag << 3) | wire, out);
        match &self.value {
            Value::Varint(number) => varint(*number, out),
            Value::Bytes(bytes) => varint(bytes.len() as u64, out),
            Value::Fixed64(_) | Value::Fixed32(_) => {}
        }
        out.extend_from_slice(content);
    }
}

fn field(fields: &mut Vec<Field>, random: &mut Random, depth: u8) {
    let at = random.index(fields.len());
    match random.below(8) {
        0 if !fields.is_empty() => drop(fields.remove(at)),
        1 if !fields.is_empty() => {
            let copy = fields[at].clone();
            let to = random.index(fields.len());
            let times = [1, 1, 1, 60][random.index(4)];
            fields.splice(to..to, std::iter::repeat_n(copy, times));
        }
        2 if !fields.is_empty() => {
            let other = random.index(fields.len());
            fields.swap(at, other);
        }
        3 => {
            let tag = random.below(16).max(1);
            let value = match random.below(3) {
                0 => Value::Varint(random.edge()),
                1 => {
                    let length = random.index(20);
                    Value::Bytes(random.bytes(length))
                }
                _ => Value::Fixed32(random.draw().to_be_bytes()[..4].try_into().unwrap_or_default()),
            };
            fields.insert(at.min(fields.len()), Field { tag, value });
        }
        _ => {
            if let Some(field) = fields.get_mut(at) {
                value(&mut field.value, random, depth);
            }
        }
    }
}

fn value(value: &mut Value, random: &mut Random, depth: u8) {
    match value {
        Value::Varint(number) => *number = random.edge(),
        Value::Fixed64(bytes) => *bytes = random.edge().to_le_bytes(),
        Value::Fixed32(bytes) => bytes.copy_from_slice(&random.draw().to_be_bytes()[..4]),
        Value::Bytes(inner) => match parse(inner) {
            Some(mut fields) if depth < 3 && random.chance(70) => {
                field(&mut fields, random, depth + 1);
                inner.clear();
                fields.iter().for_each(|field| field.write(inner));
            }
            _ => bytes(inner, random),
        },
    }
}

fn parse(mut input: &[u8]) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    while !input.is_empty() {
        let key = read_varint(&mut input)?;
        let mut take = |count: usize| {
            let (front, rest) = input.split_at_checked(count)?;
            input = rest;
            Some(front)
        };
        let value = match key & 7 {
            0 => Value::Varint(read_varint(&mut input)?),
            1 => Value::Fixed64(take(8)?.try_into().ok()?),
            2 => {
                let length = usize::try_from(read_varint(&mut input)?).ok()?;
                let (front, rest) = input.split_at_checked(length)?;
                input = rest;
                Value::Bytes(front.to_vec())
            }
            5 => Value::Fixed32(take(4)?.try_into().ok()?),
            _ => return None,
        };
        fields.push(Field { tag: key >> 3, value });
    }
    Some(fields)
}

fn read_varint(input: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = input.split_first()?;
        *input = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protobuf_that_is_taken_apart_is_put_together_again() {
        let body = [
            0x0a, 3, 0x08, 0x96, 0x01, 0x10, 0xac, 0x02, 0x1d, 1, 2, 3, 4, 0x21, 1, 2, 3, 4, 5, 6, 7, 8,
        ];
        let mut out = Vec::new();
        parse(&body).unwrap().iter().for_each(|field| field.write(&mut out));
        assert_eq!(out, body);
    }

    #[test]
    fn mutations_follow_from_the_seed_and_stay_bounded() {
        for seed in 0..500 {
            let make = || {
                let mut random = Random::new(seed);
                let mut input = random.bytes(100);
                bytes(&mut input, &mut random);
                protobuf(&mut input, &mut random);
                input
            };
            let input = make();
            assert_eq!(input, make());
            assert!(input.len() <= LONGEST);
        }
    }
}
