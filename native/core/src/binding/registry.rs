//! Pulsar's registry node of a topic: `/managed-ledgers/<ledger name>`. It makes the topic show in listings; it holds no truth.
//!
//! Ours holds `nereus/1 <incarnation>`, which no stock broker takes for its own. An empty node (made by the admin tools before the
//! topic was first opened) is adopted; a stock value means a stock topic, which is never touched.
//! A broker's versions start again after a delete, so a delete that arrives very late can take a younger node of ours away: the
//! next open makes it again.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::env::Clock;
use crate::error::{Error, Result};
use crate::metadata::pulsar::BrokerStore;
use crate::metadata::{Expected, Verdict, Version};
use crate::types::Incarnation;

const ROOT: &str = "/managed-ledgers/";
const FAMILY: &[u8] = b"nereus/";
const MARKER: &str = "nereus/1 ";
const ROUNDS: u32 = 10;
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// What a node holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Node {
    /// There is none.
    Absent,
    /// No value yet.
    Empty(Version),
    /// An incarnation of ours.
    Ours(Incarnation, Version),
    /// A stock broker's topic.
    Stock,
}

/// What [`Registry::ensure`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ensured {
    /// The node was as it should be.
    Found,
    /// It was missing or empty, or named an earlier incarnation, and is right now.
    Written,
}

/// The registry nodes of all topics.
#[derive(Clone)]
pub struct Registry {
    broker: Arc<dyn BrokerStore>,
    clock: Arc<dyn Clock>,
}

impl Registry {
    /// The registry in a broker's store.
    pub fn new(broker: Arc<dyn BrokerStore>, clock: Arc<dyn Clock>) -> Self {
        Registry { broker, clock }
    }

    /// What the node of a ledger name holds. `Unsupported` for a marker of a newer Nereus.
    pub async fn read(&self, name: &str) -> Result<Node> {
        let path = path_of(name)?;
        let Some(there) = self.broker.get(&path).await? else {
            return Ok(Node::Absent);
        };
        if there.value.is_empty() {
            return Ok(Node::Empty(there.version));
        }
        match incarnation_of(&there.value) {
            Some(incarnation) => Ok(Node::Ours(incarnation, there.version)),
            None if there.value.starts_with(FAMILY) => Err(Error::Unsupported {
                feature: format!(
                    "the registry node {path}: it holds {}, which this Nereus does not know",
                    String::from_utf8_lossy(&there.value[..there.value.len().min(64)])
                ),
            }),
            None => Ok(Node::Stock),
        }
    }

    /// Makes the node name `incarnation`. Idempotent. `Invalid` for a stock topic, `Conflict` when a later incarnation is there.
    pub async fn ensure(&self, name: &str, incarnation: Incarnation) -> Result<Ensured> {
        let path = path_of(name)?;
        let marker = Bytes::from(format!("{MARKER}{incarnation}"));
        let mut ensured = Ensured::Found;
        let mut rounds = Rounds::new(&path);
        loop {
            let expected = match self.read(name).await? {
                Node::Ours(there, _) if there == incarnation => return Ok(ensured),
                Node::Ours(there, _) if there > incarnation => {
                    return Err(Error::Conflict {
                        what: format!("{path} (incarnation {there}, ours is {incarnation})"),
                    });
                }
                Node::Stock => return Err(stock(name)),
                Node::Absent => Expected::Absent,
                Node::Empty(version) | Node::Ours(_, version) => Expected::Version(version),
            };
            ensured = Ensured::Written;
            let verdict = self.broker.put(&path, marker.clone(), expected).await;
            if self.settled(&mut rounds, &path, verdict).await? {
                return Ok(ensured);
            }
        }
    }

    /// Takes the node away if it is empty or names `incarnation` or an earlier one. Idempotent; everything else stays.
    pub async fn remove(&self, name: &str, incarnation: Incarnation) -> Result<()> {
        let path = path_of(name)?;
        let mut rounds = Rounds::new(&path);
        loop {
            let version = match self.read(name).await? {
                Node::Absent => return Ok(()),
                Node::Empty(version) => version,
                Node::Ours(there, version) if there <= incarnation => version,
                Node::Ours(..) | Node::Stock => {
                    tracing::warn!(path, "the registry node is not of the deleted topic and stays");
                    return Ok(());
                }
            };
            let verdict = self.broker.delete(&path, Expected::Version(version)).await;
            if self.settled(&mut rounds, &path, verdict).await? {
                return Ok(());
            }
        }
    }

    /// Whether a change is done. If not it pauses, and the caller looks at the node again: a lost answer needs no other care.
    async fn settled(&self, rounds: &mut Rounds, path: &str, verdict: Verdict) -> Result<bool> {
        match verdict {
            Verdict::Applied(_) => return Ok(true),
            Verdict::Conflict(_) => {}
            Verdict::Refused(error) => rounds.last = error,
            Verdict::Unknown(error) => {
                let what = format!("the broker's metadata store does not say whether {path} was changed ({error})");
                rounds.last = Error::Unavailable {
                    what,
                    retry: Duration::from_secs(1),
                };
            }
        }
        self.clock.sleep(rounds.pause).await;
        rounds.pause = rounds.pause.saturating_mul(2);
        rounds.left = rounds.left.saturating_sub(1);
        if rounds.left == 0 {
            Err(rounds.last.clone())
        } else {
            Ok(false)
        }
    }
}

/// The tries of one change that are left.
struct Rounds {
    left: u32,
    pause: Duration,
    /// What the caller hears when none is left.
    last: Error,
}

impl Rounds {
    fn new(path: &str) -> Self {
        let what = format!("{path} is changed by others all the time");
        Rounds {
            left: ROUNDS,
            pause: FIRST_PAUSE,
            last: Error::Unavailable {
                what,
                retry: FIRST_PAUSE,
            },
        }
    }
}

/// The path of a ledger name's node. `Invalid` for a name that is no relative path.
pub fn path_of(name: &str) -> Result<String> {
    let bad = |element: &str| element.is_empty() || element == "." || element == "..";
    if name.split('/').any(bad) || name.chars().any(char::is_control) {
        return Err(Error::Invalid {
            what: format!("{name:?} is no ledger name: it cannot be a path below {ROOT}"),
        });
    }
    Ok(format!("{ROOT}{name}"))
}

/// The refusal of a stock topic.
pub(super) fn stock(name: &str) -> Error {
    Error::Invalid {
        what: format!(
            "{name} is a topic of stock Pulsar: its registry node {ROOT}{name} holds a stock value. Nereus does not touch it; \
             delete the topic with a stock broker, or use another name"
        ),
    }
}

fn incarnation_of(value: &[u8]) -> Option<Incarnation> {
    let digits = std::str::from_utf8(value).ok()?.strip_prefix(MARKER)?;
    let number: u64 = digits.parse().ok()?;
    (number > 0 && number.to_string() == digits).then_some(Incarnation::new(number))
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::super::testing::World;
    use super::*;
    use crate::error::ErrorCode;
    use crate::metadata::faults::Fault;

    const NAME: &str = "public/default/persistent/t";
    const PATH: &str = "/managed-ledgers/public/default/persistent/t";

    fn set(world: &World, value: &'static [u8]) {
        let put = world.broker.put(PATH, Bytes::from_static(value), Expected::Any);
        assert!(matches!(block_on(put), Verdict::Applied(_)));
    }

    fn ensure(world: &World, incarnation: u64) -> Result<Ensured> {
        block_on(world.registry().ensure(NAME, Incarnation::new(incarnation)))
    }

    fn remove(world: &World, incarnation: u64) {
        block_on(world.registry().remove(NAME, Incarnation::new(incarnation))).unwrap();
    }

    #[test]
    fn missing_empty_and_earlier_nodes_are_written_and_the_right_one_is_left() {
        let world = World::new();
        assert_eq!(ensure(&world, 1).unwrap(), Ensured::Written);
        assert_eq!(world.broker.peek(PATH).unwrap(), "nereus/1 1");
        assert_eq!(ensure(&world, 1).unwrap(), Ensured::Found);
        assert_eq!(ensure(&world, 2).unwrap(), Ensured::Written);
        assert_eq!(ensure(&world, 1).unwrap_err().code(), ErrorCode::Conflict);
        set(&world, b"");
        assert_eq!(ensure(&world, 3).unwrap(), Ensured::Written);
        assert_eq!(world.broker.peek(PATH).unwrap(), "nereus/1 3");
    }

    #[test]
    fn l13_a_stock_value_is_refused_by_name_and_left_alone() {
        let world = World::new();
        for value in [&b"\x0a\x05stock"[..], b"nereus", b"\xff\xff"] {
            set(&world, value);
            let error = ensure(&world, 1).unwrap_err();
            assert_eq!(error.code(), ErrorCode::Invalid);
            assert!(error.to_string().contains(NAME), "{error}");
            remove(&world, 9);
            assert_eq!(world.broker.peek(PATH).unwrap(), value);
        }
    }

    #[test]
    fn a_newer_marker_is_refused_by_name() {
        let world = World::new();
        for value in [&b"nereus/2 whatever"[..], b"nereus/1 0", b"nereus/1 01", b"nereus/1 1 "] {
            set(&world, value);
            assert_eq!(ensure(&world, 1).unwrap_err().code(), ErrorCode::Unsupported);
        }
    }

    #[test]
    fn only_own_and_empty_nodes_are_taken_away() {
        let world = World::new();
        ensure(&world, 2).unwrap();
        remove(&world, 1);
        assert_eq!(world.broker.peek(PATH).unwrap(), "nereus/1 2");
        remove(&world, 2);
        assert_eq!(world.broker.peek(PATH), None);
        remove(&world, 2);
        set(&world, b"");
        remove(&world, 2);
        assert_eq!(world.broker.peek(PATH), None);
    }

    #[test]
    fn l06_lost_and_late_answers_end_with_the_right_node() {
        for fault in [Fault::LoseAnswer, Fault::Late, Fault::Refuse] {
            let world = World::new();
            world.broker.faults().next(fault);
            ensure(&world, 1).unwrap();
            block_on(world.broker.faults().arrive());
            assert_eq!(world.broker.peek(PATH).unwrap(), "nereus/1 1", "{fault:?}");
            world.broker.faults().next(fault);
            remove(&world, 1);
            block_on(world.broker.faults().arrive());
            assert_eq!(world.broker.peek(PATH), None, "{fault:?}");
        }
    }

    #[test]
    fn a_store_that_never_decides_is_unavailable() {
        let world = World::new();
        (1..50).for_each(|nth| world.broker.faults().nth(nth, Fault::Late));
        assert_eq!(ensure(&world, 1).unwrap_err().code(), ErrorCode::Unavailable);
    }

    #[test]
    fn names_that_are_no_paths_are_refused() {
        for name in ["", "/a", "a/", "a//b", "a/../b", ".", "a\0b", "a\nb"] {
            assert_eq!(path_of(name).unwrap_err().code(), ErrorCode::Invalid, "{name:?}");
        }
        assert_eq!(path_of("a/b%20c").unwrap(), "/managed-ledgers/a/b%20c");
    }
}
