//! `PhysicalRoot`: the life of a segment or object, and who needs it. Each step of a deletion is a change of this record (L16).

use prost::Message;

use super::{wire, Key, PhysicalId, Record, RecordType};
use crate::error::Result;

/// Most needs of one root.
pub const MAX_NEEDS: usize = 4096;
/// Longest name of a holder, in bytes.
pub const MAX_HOLDER_BYTES: usize = 256;

/// Where a segment or object stands. States only move forward, except that a need found late unmarks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RootState {
    /// In use.
    Active,
    /// Nothing needs it; the grace period runs.
    Marked,
    /// Being deleted.
    Deleting,
    /// Gone, its absence verified.
    Deleted,
}

/// What kind of thing needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NeedKind {
    /// A stream's head or commit page.
    Stream,
    /// A generation record.
    Generation,
    /// A materialization task.
    Task,
    /// A live reader.
    Reader,
}

/// One need.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Need {
    /// The kind of the holder.
    pub kind: NeedKind,
    /// The holder, for messages and for taking the need back.
    pub holder: String,
}

/// The life of one segment or object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhysicalRoot {
    /// The segment or object.
    pub id: PhysicalId,
    /// Where it stands.
    pub state: RootState,
    /// Who needs it, ascending; empty unless ACTIVE.
    pub needs: Vec<Need>,
    /// Broker clock of the mark, milliseconds; 0 = not marked.
    pub marked_millis: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Body {
    #[prost(message, optional, tag = "1")]
    id: Option<wire::PhysicalId>,
    #[prost(uint32, tag = "2")]
    state: u32,
    #[prost(message, repeated, tag = "3")]
    needs: Vec<WireNeed>,
    #[prost(uint64, tag = "4")]
    marked_millis: u64,
}

#[derive(Clone, PartialEq, Message)]
struct WireNeed {
    #[prost(uint32, tag = "1")]
    kind: u32,
    #[prost(string, tag = "2")]
    holder: String,
}

impl Record for PhysicalRoot {
    const TYPE: RecordType = RecordType::PhysicalRoot;
    const VERSION: u16 = 1;
    const MAX_BYTES: usize = 768 * 1024;

    fn key(&self) -> Result<Key> {
        Key::physical_root(&self.id)
    }

    fn check(&self) -> std::result::Result<(), String> {
        if self.needs.len() > MAX_NEEDS || !self.needs.windows(2).all(|pair| pair[0] < pair[1]) {
            return Err(format!("{} needs, too many, twice or out of order", self.needs.len()));
        }
        if self.state != RootState::Active && !self.needs.is_empty() {
            return Err(format!("state {:?} with {} needs", self.state, self.needs.len()));
        }
        if (self.state == RootState::Active) != (self.marked_millis == 0) {
            return Err(format!("state {:?} with mark time {}", self.state, self.marked_millis));
        }
        self.needs
            .iter()
            .try_for_each(|need| wire::check_text(&need.holder, "a holder", MAX_HOLDER_BYTES))
    }

    fn to_body(&self) -> Vec<u8> {
        let state = match self.state {
            RootState::Active => 1,
            RootState::Marked => 2,
            RootState::Deleting => 3,
            RootState::Deleted => 4,
        };
        let wire_need = |need: &Need| {
            let kind = match need.kind {
                NeedKind::Stream => 1,
                NeedKind::Generation => 2,
                NeedKind::Task => 3,
                NeedKind::Reader => 4,
            };
            WireNeed {
                kind,
                holder: need.holder.clone(),
            }
        };
        let needs = self.needs.iter().map(wire_need).collect();
        Body {
            id: Some(self.id.to_wire()),
            state,
            needs,
            marked_millis: self.marked_millis,
        }
        .encode_to_vec()
    }

    fn from_body(_version: u16, body: &[u8]) -> std::result::Result<Self, String> {
        let body: Body = wire::body(body)?;
        let state = match body.state {
            1 => RootState::Active,
            2 => RootState::Marked,
            3 => RootState::Deleting,
            4 => RootState::Deleted,
            other => return Err(format!("no state has number {other}")),
        };
        let need = |need: WireNeed| {
            let kind = match need.kind {
                1 => NeedKind::Stream,
                2 => NeedKind::Generation,
                3 => NeedKind::Task,
                4 => NeedKind::Reader,
                other => return Err(format!("no need has number {other}")),
            };
            Ok(Need {
                kind,
                holder: need.holder,
            })
        };
        Ok(PhysicalRoot {
            id: PhysicalId::from_wire(body.id)?,
            state,
            needs: body
                .needs
                .into_iter()
                .map(need)
                .collect::<std::result::Result<_, String>>()?,
            marked_millis: body.marked_millis,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{physical_ids, record_suite};
    use super::*;

    fn roots() -> impl Strategy<Value = PhysicalRoot> {
        let kinds = prop_oneof![
            Just(NeedKind::Stream),
            Just(NeedKind::Generation),
            Just(NeedKind::Task),
            Just(NeedKind::Reader),
        ];
        let need = (kinds, "\\PC{0,20}").prop_map(|(kind, holder)| Need { kind, holder });
        let states = prop_oneof![
            Just(RootState::Active),
            Just(RootState::Marked),
            Just(RootState::Deleting),
            Just(RootState::Deleted),
        ];
        (
            physical_ids(),
            states,
            prop::collection::btree_set(need, 0..5),
            1..=u64::MAX,
        )
            .prop_map(|(id, state, needs, marked)| {
                let active = state == RootState::Active;
                PhysicalRoot {
                    id,
                    state,
                    needs: if active {
                        needs.into_iter().collect()
                    } else {
                        Vec::new()
                    },
                    marked_millis: if active { 0 } else { marked },
                }
            })
    }

    record_suite!(PhysicalRoot, roots());

    proptest! {
        #[test]
        fn l16_what_is_needed_is_not_marked(mut root in roots()) {
            root.needs = vec![Need { kind: NeedKind::Reader, holder: "r".into() }];
            prop_assert_eq!(root.encode().is_ok(), root.state == RootState::Active);
        }
    }
}
