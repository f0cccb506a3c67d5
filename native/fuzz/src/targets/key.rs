//! Keys. Input: the bytes of one.

use bytes::Bytes;
use nereus_core::metadata::pulsar;
use nereus_core::record::{Key, KeyParts, PhysicalId, TargetId, TaskId};
use nereus_core::types::{Generation, Offset, ReadView};

use super::{demand, nothing, stream, Target};
use crate::mutate;
use crate::random::Random;

pub const TARGET: Target = Target {
    name: "key",
    weight: 1500,
    valid,
    twist: mutate::bytes,
    mend: nothing,
    check,
    factor: 256,
    constant: 64 << 10,
};

/// A key of any kind.
pub fn any(random: &mut Random) -> Key {
    let (s, name) = (stream(random), format!("n{}", random.text(12)));
    let offset = Offset::new(random.below(1 << 48));
    let view = [ReadView::Committed, ReadView::TopicCompacted][random.index(2)];
    let physical = match random.chance(50) {
        true => PhysicalId::Segment(random.draw()),
        false => PhysicalId::Object(name.clone()),
    };
    let target = TargetId {
        physical: physical.clone(),
        position: random.below(1 << 40),
        length: random.below(1 << 40).max(1),
    };
    let named = match random.below(6) {
        0 => Key::binding(&name),
        1 => Key::cursor_root(s, &name),
        2 => Key::cursor_page(s, &name, random.edge(), random.draw() as u16, random.edge()),
        3 => Key::cursor_index(s, &name, random.edge(), random.draw() as u16, random.edge()),
        4 => Key::quarantine(s, &target),
        _ => Key::physical_root(&physical),
    };
    match random.below(12) {
        0 => Key::cluster(),
        1 => Key::ledger_grant(),
        2 => Key::stream_head(s),
        3 => Key::stream_properties(s),
        4 => Key::commit_page(s, offset),
        5 => Key::trim_mark(s, offset),
        6 => Key::generation_index(s, view, offset, Generation::new(random.below(1 << 40))),
        7 => Key::generation_counter(s, view),
        8 => Key::task(TaskId::new(u128::from(random.draw()))),
        _ => named.unwrap_or_else(|_| Key::cluster()),
    }
}

fn valid(random: &mut Random) -> Vec<u8> {
    any(random).as_bytes().to_vec()
}

fn check(input: &[u8]) -> Result<bool, String> {
    let Ok(key) = Key::from_bytes(Bytes::copy_from_slice(input)) else {
        return Ok(false);
    };
    let parts = key.parse().map_err(|e| format!("accepted, and then: {e}"))?;
    let again = build(parts).map_err(|e| format!("{key} cannot be built from its parts: {e}"))?;
    demand(again == key, || format!("{key} is built from its parts as {again}"))?;
    demand(!key.to_string().is_empty(), || "a key without a text".into())?;
    if let Ok(path) = pulsar::path_of(&key) {
        let name = path.rsplit('/').next().unwrap_or_default();
        let read = pulsar::decode_name(name).map_err(|e| format!("path {path}: {e}"))?;
        demand(pulsar::encode_name(&read) == name, || {
            format!("path {path} is read as {read}")
        })?;
    }
    Ok(true)
}

fn build(parts: KeyParts) -> nereus_core::Result<Key> {
    Ok(match parts {
        KeyParts::Cluster => Key::cluster(),
        KeyParts::Binding { name } => Key::binding(&name)?,
        KeyParts::LedgerGrant => Key::ledger_grant(),
        KeyParts::StreamHead { stream } => Key::stream_head(stream),
        KeyParts::StreamProperties { stream } => Key::stream_properties(stream),
        KeyParts::CommitPage { stream, first } => Key::commit_page(stream, first),
        KeyParts::TrimMark { stream, offset } => Key::trim_mark(stream, offset),
        KeyParts::GenerationIndex {
            stream,
            view,
            end,
            generation,
        } => Key::generation_index(stream, view, end, generation),
        KeyParts::GenerationCounter { stream, view } => Key::generation_counter(stream, view),
        KeyParts::Quarantine { stream, target } => Key::quarantine(stream, &target)?,
        KeyParts::CursorRoot { stream, name } => Key::cursor_root(stream, &name)?,
        KeyParts::CursorIndex {
            stream,
            name,
            page,
            chunk,
            version,
        } => Key::cursor_index(stream, &name, page, chunk, version)?,
        KeyParts::CursorPage {
            stream,
            name,
            page,
            chunk,
            version,
        } => Key::cursor_page(stream, &name, page, chunk, version)?,
        KeyParts::Task { task } => Key::task(task),
        KeyParts::PhysicalRoot { root } => Key::physical_root(&root)?,
    })
}
