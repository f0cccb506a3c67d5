//! Messages from Java by chance and by damage, from fixed seeds: no panic, nothing allocated beyond a multiple of the message, and
//! a cursor update that is accepted is written again as the same bytes.

use std::alloc::System;

use cap::Cap;
use nereus_fuzz::mutate;
use nereus_fuzz::random::Random;

use super::*;

/// Inputs of each kind of message.
const INPUTS: u64 = 4000;
/// Bytes that may be allocated per byte of a message, and besides. Other tests allocate at the same time: a wide margin.
const FACTOR: usize = 512;
const CONSTANT: usize = 64 << 20;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

fn update(random: &mut Random) -> Vec<u8> {
    let mut out = Writer::default();
    out.string(&random.text(9));
    let flags = random.below(16) as u8;
    out.u8(flags);
    out.u63(random.draw() >> 1);
    if flags & FLAG_POSITION_PROPERTIES != 0 {
        out.number_map(&BTreeMap::from([(random.text(5), random.draw() as i64)]));
    }
    if flags & FLAG_CURSOR_PROPERTIES != 0 {
        out.string_map(&BTreeMap::from([(random.text(5), random.text(5))]));
    }
    let pages = random.index(4);
    out.count(pages);
    for _ in 0..pages {
        let length = random.index(30);
        let words = |random: &mut Random| (0..random.below(5)).map(|_| random.draw() as i64).collect();
        let page = AckPage {
            page_no: random.draw() >> 1,
            acked: random.bytes(length).into(),
            batches: (0..random.below(4))
                .map(|_| (random.draw() as u16, words(random)))
                .collect(),
        };
        write_page(&mut out, &page);
    }
    out.finish("a cursor update").unwrap().to_vec()
}

fn write_update(update: &CursorUpdate) -> Vec<u8> {
    let mut out = Writer::default();
    out.string(&update.name);
    let flag = |given: bool, flag: u8| if given { flag } else { 0 };
    out.u8(flag(update.create, FLAG_CREATE)
        | flag(update.position_properties.is_some(), FLAG_POSITION_PROPERTIES)
        | flag(update.cursor_properties.is_some(), FLAG_CURSOR_PROPERTIES)
        | flag(update.full, FLAG_FULL));
    out.u63(update.mark_delete_end.get());
    update.position_properties.iter().for_each(|map| out.number_map(map));
    update.cursor_properties.iter().for_each(|map| out.string_map(map));
    out.count(update.pages.len());
    update.pages.iter().for_each(|page| write_page(&mut out, page));
    out.finish("a cursor update").unwrap().to_vec()
}

fn maps(random: &mut Random) -> Vec<u8> {
    let mut out = Writer::default();
    let map = (0..random.below(6)).map(|_| (random.text(9), random.text(9))).collect();
    out.string_map(&map);
    out.finish("a map").unwrap().to_vec()
}

fn request(random: &mut Random) -> Vec<u8> {
    let mut out = Writer::default();
    out.string(&random.text(12));
    out.boolean(random.chance(50));
    out.string_map(&BTreeMap::from([(random.text(4), random.text(4))]));
    out.string(&random.text(9));
    out.finish("a request").unwrap().to_vec()
}

fn names(random: &mut Random) -> Vec<u8> {
    let mut out = Writer::default();
    let count = random.index(6);
    out.count(count);
    (0..count).for_each(|_| out.string(&random.text(9)));
    out.finish("names").unwrap().to_vec()
}

/// Each input as it is made, damaged, and by chance. Answers how many were accepted.
fn judge(seed: u64, make: fn(&mut Random) -> Vec<u8>, accepts: fn(Vec<u8>) -> bool) -> u64 {
    (0..INPUTS)
        .filter(|nth| {
            let mut random = Random::new(seed + nth);
            let mut message = make(&mut random);
            match random.below(8) {
                0 => {}
                1 => message = random.bytes(60),
                _ => mutate::bytes(&mut message, &mut random),
            }
            let (length, before) = (message.len(), ALLOCATOR.total_allocated());
            let accepted = accepts(message);
            let used = ALLOCATOR.total_allocated().saturating_sub(before);
            assert!(
                used <= FACTOR * length + CONSTANT,
                "seed {}: {used} bytes for {length}",
                seed + nth
            );
            accepted
        })
        .count() as u64
}

#[test]
fn damaged_messages_never_panic_and_never_allocate_without_bound() {
    let updates = judge(1 << 32, update, |message| match cursor_update(message.clone()) {
        Ok(update) => {
            // A batch may be named twice or out of order; then fewer or other bytes say the same.
            let again = cursor_update(write_update(&update)).unwrap();
            assert_eq!(again, update);
            true
        }
        Err(_) => false,
    });
    let accepted = [
        updates,
        judge(2 << 32, maps, |message| properties(message).is_ok()),
        judge(3 << 32, request, |message| open_ledger(message).is_ok()),
        judge(4 << 32, names, |message| children(message.into()).is_ok()),
        judge(5 << 32, names, |message| name(message).is_ok()),
    ];
    for count in accepted {
        assert!(count > 0 && count < INPUTS, "{accepted:?}: one side is never reached");
    }
    judge(6 << 32, maps, |message| config(message).is_ok());
}
