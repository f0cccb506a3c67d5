//! `Binding`: fixes one incarnation of a topic's ledger name to a storage class and a stream, for life (L13). In the broker's own
//! metadata store.

use prost::Message;

use super::{wire, Key, Record, RecordType};
use crate::error::Result;
use crate::types::{Incarnation, Profile, Projection, SpanBits, StorageClass, StreamId, VirtualLedger};

/// Most capabilities of a binding.
pub const MAX_CAPABILITIES: usize = 64;
/// Longest capability name or owner text, in bytes.
pub const MAX_TEXT_BYTES: usize = 1024;

/// Where an incarnation stands between creation and deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BindingState {
    /// Being created: any open resumes it.
    Binding,
    /// In use: without a head it is damaged, never empty.
    Active,
    /// Being deleted: any open or delete resumes it.
    Deleting,
    /// Deleted; remembers what a recreation has to stay above.
    Tombstone,
}

impl BindingState {
    fn number(self) -> u32 {
        match self {
            BindingState::Binding => 1,
            BindingState::Active => 2,
            BindingState::Deleting => 3,
            BindingState::Tombstone => 4,
        }
    }

    fn from_number(number: u32) -> Option<Self> {
        match number {
            1 => Some(BindingState::Binding),
            2 => Some(BindingState::Active),
            3 => Some(BindingState::Deleting),
            4 => Some(BindingState::Tombstone),
            _ => None,
        }
    }
}

/// The binding of one ledger name: its newest incarnation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// Pulsar's ledger name, opaque.
    pub name: String,
    /// Rises by one with every recreation, from 1.
    pub incarnation: Incarnation,
    /// Where it stands.
    pub state: BindingState,
    /// Which store has the topic.
    pub class: StorageClass,
    /// The stream; 0 for a topic of another store.
    pub stream: StreamId,
    /// Positions; the ledger id is 0 for a topic of another store.
    pub projection: Projection,
    /// Highest virtual ledger id that this or an earlier incarnation used. Of a live incarnation only what earlier ones used; its
    /// own part is added while it is being deleted, once its end is final.
    pub highest_ledger: u64,
    /// Kept for life.
    pub profile: Profile,
    /// What was admitted at creation, by name, ascending.
    pub capabilities: Vec<String>,
    /// Broker clock at creation, milliseconds.
    pub created_millis: u64,
    /// Broker clock when the creation was complete, milliseconds; 0 = never. From then on it has a head.
    pub activated_millis: u64,
    /// Broker clock at deletion, milliseconds; 0 = not deleted.
    pub deleted_millis: u64,
    /// Who made the newest change, for messages.
    pub changed_by: String,
    /// Identity of the write that made this value: settles a lost answer.
    pub attempt: u128,
}

impl Binding {
    /// Whether the ledger ids that this incarnation used are accounted for in `highest_ledger`.
    pub fn is_sealed(&self) -> bool {
        self.highest_ledger >= self.projection.first.get()
    }
}

#[derive(Clone, PartialEq, Message)]
struct Body {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(uint64, tag = "2")]
    incarnation: u64,
    #[prost(uint32, tag = "3")]
    state: u32,
    #[prost(uint32, tag = "4")]
    class: u32,
    #[prost(bytes = "vec", tag = "5")]
    stream: Vec<u8>,
    #[prost(uint64, tag = "6")]
    first_ledger: u64,
    #[prost(uint32, tag = "7")]
    span_bits: u32,
    #[prost(uint64, tag = "8")]
    highest_ledger: u64,
    #[prost(uint32, tag = "9")]
    profile: u32,
    #[prost(string, repeated, tag = "10")]
    capabilities: Vec<String>,
    #[prost(uint64, tag = "11")]
    created_millis: u64,
    #[prost(uint64, tag = "12")]
    deleted_millis: u64,
    #[prost(string, tag = "13")]
    changed_by: String,
    #[prost(bytes = "vec", tag = "14")]
    attempt: Vec<u8>,
    #[prost(uint64, tag = "15")]
    activated_millis: u64,
}

impl Record for Binding {
    const TYPE: RecordType = RecordType::Binding;
    const VERSION: u16 = 1;
    const MAX_BYTES: usize = 128 * 1024;

    fn key(&self) -> Result<Key> {
        Key::binding(&self.name)
    }

    fn check(&self) -> std::result::Result<(), String> {
        wire::check_text(&self.changed_by, "the changer", MAX_TEXT_BYTES)?;
        if self.incarnation.get() == 0 {
            return Err("incarnation 0; the first one is 1".into());
        }
        let first = self.projection.first;
        match self.class {
            StorageClass::Nereus => {
                if self.stream == StreamId::new(0) {
                    return Err("no stream".into());
                }
                if first < VirtualLedger::FIRST || first.checked_add(0).is_none() {
                    return Err(format!("virtual ledger {first} is outside the range of granted ids"));
                }
                let fits = match self.state {
                    BindingState::Binding | BindingState::Active => !self.is_sealed(),
                    BindingState::Deleting => true,
                    BindingState::Tombstone => self.is_sealed(),
                };
                if !fits {
                    return Err(format!(
                        "highest ledger {} does not fit first ledger {first} in state {:?}",
                        self.highest_ledger, self.state
                    ));
                }
            }
            StorageClass::Bookkeeper => {
                if self.stream != StreamId::new(0) || first.get() != 0 {
                    return Err("a topic of another store with a stream or a virtual ledger".into());
                }
            }
        }
        if (self.state == BindingState::Active && self.activated_millis == 0)
            || (self.state == BindingState::Binding && self.activated_millis != 0)
        {
            return Err(format!(
                "state {:?} with activation time {}",
                self.state, self.activated_millis
            ));
        }
        if self.highest_ledger > i64::MAX as u64 {
            return Err(format!("highest ledger {} is out of range", self.highest_ledger));
        }
        if self.capabilities.len() > MAX_CAPABILITIES || !self.capabilities.windows(2).all(|p| p[0] < p[1]) {
            return Err(format!(
                "{} capabilities, too many or out of order",
                self.capabilities.len()
            ));
        }
        self.capabilities
            .iter()
            .try_for_each(|c| wire::check_text(c, "a capability", MAX_TEXT_BYTES))
    }

    fn to_body(&self) -> Vec<u8> {
        Body {
            name: self.name.clone(),
            incarnation: self.incarnation.get(),
            state: self.state.number(),
            class: self.class.number(),
            stream: self.stream.to_bytes().to_vec(),
            first_ledger: self.projection.first.get(),
            span_bits: self.projection.span_bits.get(),
            highest_ledger: self.highest_ledger,
            profile: self.profile.number(),
            capabilities: self.capabilities.clone(),
            created_millis: self.created_millis,
            activated_millis: self.activated_millis,
            deleted_millis: self.deleted_millis,
            changed_by: self.changed_by.clone(),
            attempt: self.attempt.to_be_bytes().to_vec(),
        }
        .encode_to_vec()
    }

    fn from_body(_version: u16, body: &[u8]) -> std::result::Result<Self, String> {
        let body: Body = wire::body(body)?;
        let unknown = |what: &str, number: u32| format!("{what} {number} is not known");
        let span_bits = SpanBits::new(body.span_bits).ok_or_else(|| unknown("span bits", body.span_bits))?;
        Ok(Binding {
            name: body.name,
            incarnation: Incarnation::new(body.incarnation),
            state: BindingState::from_number(body.state).ok_or_else(|| unknown("state", body.state))?,
            class: StorageClass::from_number(body.class).ok_or_else(|| unknown("storage class", body.class))?,
            stream: wire::stream(&body.stream)?,
            projection: Projection {
                first: VirtualLedger::new(body.first_ledger),
                span_bits,
            },
            highest_ledger: body.highest_ledger,
            profile: Profile::from_number(body.profile).ok_or_else(|| unknown("profile", body.profile))?,
            capabilities: body.capabilities,
            created_millis: body.created_millis,
            activated_millis: body.activated_millis,
            deleted_millis: body.deleted_millis,
            changed_by: body.changed_by,
            attempt: u128::from_be_bytes(wire::id16(&body.attempt, "the attempt")?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{names, record_suite, streams};
    use super::*;

    fn bindings() -> impl Strategy<Value = Binding> {
        let states = prop_oneof![
            Just(BindingState::Binding),
            Just(BindingState::Active),
            Just(BindingState::Deleting),
            Just(BindingState::Tombstone),
        ];
        let first = VirtualLedger::FIRST.get();
        let ids = (streams(), first + 1..1 << 50, 1u32..=31, 0u64..1 << 20);
        let profile = (0..Profile::ALL.len()).prop_map(|index| Profile::ALL[index].0);
        let facts = (any::<u64>(), any::<u64>(), any::<u128>(), "\\PC{0,20}");
        let capabilities = prop::collection::btree_set("[a-z]{1,9}", 0..4);
        (names(), 1..=u64::MAX, states, ids, profile, facts, capabilities).prop_map(
            |(name, incarnation, state, (stream, first, span_bits, span), profile, facts, capabilities)| {
                let used = state == BindingState::Tombstone;
                Binding {
                    name,
                    incarnation: Incarnation::new(incarnation),
                    state,
                    class: StorageClass::Nereus,
                    stream: if stream == StreamId::new(0) {
                        StreamId::new(1)
                    } else {
                        stream
                    },
                    projection: Projection {
                        first: VirtualLedger::new(first),
                        span_bits: SpanBits::new(span_bits).unwrap(),
                    },
                    highest_ledger: if used { first + span } else { first - 1 },
                    profile,
                    capabilities: capabilities.into_iter().collect(),
                    created_millis: facts.0,
                    activated_millis: u64::from(state != BindingState::Binding),
                    deleted_millis: facts.1,
                    changed_by: facts.3,
                    attempt: facts.2,
                }
            },
        )
    }

    record_suite!(Binding, bindings());

    proptest! {
        #[test]
        fn l13_a_tombstone_knows_what_its_incarnation_used(mut binding in bindings()) {
            binding.state = BindingState::Tombstone;
            binding.highest_ledger = binding.projection.first.get() - 1;
            prop_assert!(binding.encode().is_err());
        }

        #[test]
        fn l13_a_live_binding_is_not_sealed(mut binding in bindings()) {
            binding.state = BindingState::Active;
            binding.activated_millis = 1;
            binding.highest_ledger = binding.projection.first.get();
            prop_assert!(binding.encode().is_err());
        }

        #[test]
        fn l13_a_topic_of_another_store_has_no_stream(mut binding in bindings()) {
            binding.class = StorageClass::Bookkeeper;
            prop_assert!(binding.encode().is_err());
            binding.stream = StreamId::new(0);
            binding.projection.first = VirtualLedger::new(0);
            prop_assert!(binding.encode().is_ok());
        }
    }
}
