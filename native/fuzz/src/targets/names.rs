//! Text that others may have touched: names in the broker's store and what its registry nodes hold; the identity file of a data
//! directory. Input: path element or node; the file.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures::executor::block_on;
use nereus_core::binding::identity::ID_FILE;
use nereus_core::binding::registry::{self, Node, Registry};
use nereus_core::binding::DirectoryId;
use nereus_core::env::sim::{Executor, SimDisk};
use nereus_core::env::{Disk, OpenMode};
use nereus_core::metadata::broker_memory::MemoryBroker;
use nereus_core::metadata::pulsar::{self, BrokerStore};
use nereus_core::metadata::{Expected, Verdict};

use super::{demand, nothing, Target};
use crate::mutate;
use crate::random::Random;

pub const TARGET: Target = Target {
    name: "names",
    weight: 500,
    valid,
    twist: mutate::bytes,
    mend: nothing,
    check,
    factor: 128,
    constant: 32 << 10,
};

pub const IDENTITY: Target = Target {
    name: "identity",
    weight: 300,
    valid: |random| text(random).into_bytes(),
    twist: mutate::bytes,
    mend: mend_identity,
    check: check_identity,
    factor: 128,
    constant: 64 << 10,
};

fn valid(random: &mut Random) -> Vec<u8> {
    match random.chance(50) {
        true => format!("nereus/1 {}", random.edge().max(1)).into_bytes(),
        false => pulsar::encode_name(&format!("n{}", random.text(20))).into_bytes(),
    }
}

fn check(input: &[u8]) -> Result<bool, String> {
    let node = node(input)?;
    let Ok(text) = std::str::from_utf8(input) else {
        return Ok(node);
    };
    // As a name, from outside.
    let encoded = pulsar::encode_name(text);
    let back = pulsar::decode_name(&encoded).map_err(|e| format!("{text:?} cannot be read back: {e}"))?;
    demand(back == text, || format!("{text:?} is written and read as {back:?}"))?;
    demand(encoded.is_ascii() && !encoded.contains('/'), || {
        format!("{encoded:?} is no path element")
    })?;
    drop(registry::path_of(text));
    // As a path element, from the store.
    let decoded = pulsar::decode_name(text);
    if let Ok(name) = &decoded {
        demand(pulsar::encode_name(name) == text, || {
            format!("{text:?} is read and written as another")
        })?;
    }
    Ok(node || decoded.is_ok())
}

/// What the registry says of a node; true for one of ours.
fn node(value: &[u8]) -> Result<bool, String> {
    const NAME: &str = "public/default/persistent/t";
    let broker = MemoryBroker::new();
    let path = registry::path_of(NAME).map_err(|e| e.to_string())?;
    let put = block_on(broker.put(&path, Bytes::copy_from_slice(value), Expected::Absent));
    demand(matches!(put, Verdict::Applied(_)), || {
        "the broker in memory refused a value".into()
    })?;
    let registry = Registry::new(Arc::new(broker), Executor::new(0).clock());
    match block_on(registry.read(NAME)) {
        Ok(Node::Ours(incarnation, _)) => {
            let written = format!("nereus/1 {incarnation}");
            demand(written.as_bytes() == value, || format!("a node is read as {written:?}"))?;
            Ok(true)
        }
        Ok(Node::Empty(_)) => {
            demand(value.is_empty(), || "a node with a value is read as empty".into()).map(|()| false)
        }
        Ok(Node::Absent) => Err("a node that is there is read as absent".into()),
        Ok(Node::Stock) | Err(_) => Ok(false),
    }
}

fn text(random: &mut Random) -> String {
    let cluster = pulsar::encode_name(&format!("c{}", random.text(12)));
    let text = format!(
        "nereus data directory, format 1\ncluster={cluster}\nuuid={:032x}\nepoch={}\npending={}\n",
        random.draw().max(1),
        random.edge(),
        random.edge()
    );
    sum(&text)
}

fn sum(text: &str) -> String {
    format!("{text}crc32c={:08x}\n", crc32c::crc32c(text.as_bytes()))
}

/// Makes the checksum in the last line right.
fn mend_identity(input: &mut Vec<u8>) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Some(at) = text.rfind("crc32c=") {
        *input = sum(&text[..at]).into_bytes();
    }
}

fn check_identity(input: &[u8]) -> Result<bool, String> {
    let disk = SimDisk::new(1 << 30);
    let (directory, copy) = (Path::new("/data"), Path::new("/copy"));
    let put = || {
        disk.create_dir_all(directory)?;
        disk.create_dir_all(copy)?;
        disk.open(&directory.join(ID_FILE), OpenMode::CreateNew)?
            .write_all_at(input, 0)
    };
    put().map_err(|e| format!("the simulated disk: {e}"))?;
    let id = match DirectoryId::read(&disk, directory) {
        Ok(Some(id)) => id,
        Ok(None) => return Err("an identity that is there is read as absent".into()),
        Err(_) => return Ok(false),
    };
    id.write(&disk, copy)
        .map_err(|e| format!("{id:?} cannot be written: {e}"))?;
    let same = disk.content(&copy.join(ID_FILE)).as_deref() == Some(input);
    demand(same, || format!("{id:?} is read and written as other bytes"))?;
    Ok(true)
}
