//! Identities of physical things: what a quarantine, an index record and a physical root point at.

use std::fmt;

use super::wire;

/// A file of bytes with a life of its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PhysicalId {
    /// A segment of the embedded journal, by sequence number.
    Segment(u64),
    /// An object in the object store, by name.
    Object(String),
}

impl PhysicalId {
    pub(super) const SEGMENT: u8 = 1;
    pub(super) const OBJECT: u8 = 2;
}

impl fmt::Display for PhysicalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PhysicalId::Segment(number) => write!(f, "segment:{number}"),
            PhysicalId::Object(name) => write!(f, "object:{name}"),
        }
    }
}

/// Exact physical place of a range: a slice of a segment or object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TargetId {
    /// The segment or object.
    pub physical: PhysicalId,
    /// First byte.
    pub position: u64,
    /// Bytes, at least 1.
    pub length: u64,
}

impl fmt::Display for TargetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}+{}", self.physical, self.position, self.length)
    }
}

impl TargetId {
    pub(super) fn check(&self) -> Result<(), String> {
        if self.length == 0 || self.position.checked_add(self.length).is_none() {
            return Err(format!("target {self} has no bytes or no end"));
        }
        Ok(())
    }

    pub(super) fn to_wire(&self) -> wire::TargetId {
        wire::TargetId {
            physical: Some(self.physical.to_wire()),
            position: self.position,
            length: self.length,
        }
    }

    pub(super) fn from_wire(target: Option<wire::TargetId>) -> Result<Self, String> {
        let target = target.ok_or("no target")?;
        let physical = PhysicalId::from_wire(target.physical)?;
        Ok(TargetId {
            physical,
            position: target.position,
            length: target.length,
        })
    }
}

impl PhysicalId {
    pub(super) fn to_wire(&self) -> wire::PhysicalId {
        let kind = match self {
            PhysicalId::Segment(number) => wire::PhysicalKind::Segment(*number),
            PhysicalId::Object(name) => wire::PhysicalKind::Object(name.clone()),
        };
        wire::PhysicalId { kind: Some(kind) }
    }

    pub(super) fn from_wire(physical: Option<wire::PhysicalId>) -> Result<Self, String> {
        match physical.and_then(|p| p.kind) {
            Some(wire::PhysicalKind::Segment(number)) => Ok(PhysicalId::Segment(number)),
            Some(wire::PhysicalKind::Object(name)) => Ok(PhysicalId::Object(name)),
            None => Err("a target of no known kind".into()),
        }
    }
}
