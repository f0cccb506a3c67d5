//! Creation and deletion of topics, step by step.
//!
//! Creation: binding BINDING → stream head → registry node → binding ACTIVE. Deletion: binding DELETING → owners fenced and the
//! final end noted → registry node gone → stream gone → TOMBSTONE. Each step is durable before the next begins, and each can be
//! done again: whoever opens or deletes next goes on where the last one stopped. Several may do so at once; the conditional writes
//! of the binding decide, and the losers look again.
//!
//! Keeps: L13 (an ACTIVE binding without a head is damage, never an empty topic; a recreation is a new incarnation with a new
//! stream and ledger ids above all that were used), L14 (a stock topic is refused before anything is written).

use std::sync::Arc;
use std::time::Duration;

use super::grants::Grants;
use super::registry::{stock, Ensured, Node, Registry};
use super::truth::{Truth, Wrote};
use crate::env::{BoxFuture, Clock, Random};
use crate::error::{Error, Result};
use crate::metadata::pulsar::{BrokerStore, PulsarMetadata};
use crate::metadata::{Expected, Version};
use crate::mutant::{active, Mutant};
use crate::record::binding::MAX_TEXT_BYTES;
use crate::record::{Binding, BindingState, Key};
use crate::types::{Incarnation, Offset, Profile, Projection, SpanBits, StorageClass, StreamId, VirtualLedger};

/// Rounds of an open or delete that others keep changing the binding under.
const ROUNDS: u32 = 20;

/// The steps that belong to a stream. All are durable when they answer, and idempotent.
pub trait StreamSteps: Send + Sync {
    /// Makes the head (and the first properties) of a new stream; one that is there already is left as it is.
    fn create(&self, binding: Binding) -> BoxFuture<Result<()>>;
    /// The committed end, or an offset certainly not below it when the stream is damaged; `None` is proven absence of the head.
    /// Claims nothing.
    fn end(&self, stream: StreamId) -> BoxFuture<Result<Option<Offset>>>;
    /// Fences every owner, so that the end is final, and answers it as [`StreamSteps::end`] does.
    fn seal(&self, stream: StreamId) -> BoxFuture<Result<Option<Offset>>>;
    /// Removes the head and all that hangs on the stream.
    fn remove(&self, stream: StreamId) -> BoxFuture<Result<()>>;
}

/// What an open asks for.
#[derive(Debug, Clone)]
pub struct OpenBinding<'a> {
    /// Pulsar's ledger name.
    pub name: &'a str,
    /// Create when there is none; otherwise absence is `NotFound`. A name that has an empty registry node exists: an admin made it.
    pub create: bool,
    /// Profile of a new incarnation; an existing one keeps its own for life.
    pub profile: Profile,
}

/// An ACTIVE binding.
#[derive(Debug, Clone)]
pub struct Bound {
    /// The binding.
    pub binding: Binding,
    /// This open completed the creation.
    pub created: bool,
}

/// What the registry says of a name without a live binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unbound {
    /// Nothing: it exists only if the open creates it.
    Unknown,
    /// An admin has created the topic, which nobody has opened yet: for Pulsar it exists.
    Announced,
}

/// A deletion that has begun.
#[derive(Debug, Clone)]
pub struct Deleting {
    binding: Binding,
    version: Version,
}

/// The bindings of a cluster, as one engine works with them.
pub struct Bindings {
    truth: Truth,
    metadata: PulsarMetadata,
    registry: Registry,
    grants: Grants,
    random: Arc<dyn Random>,
    owner: String,
}

impl Bindings {
    /// Bindings over the broker's store. `owner` says who, in records and messages.
    pub fn new(broker: Arc<dyn BrokerStore>, clock: Arc<dyn Clock>, random: Arc<dyn Random>, owner: &str) -> Self {
        let metadata = PulsarMetadata::new(broker.clone());
        let truth = Truth {
            store: Arc::new(metadata.clone()),
            clock: clock.clone(),
            random: random.clone(),
        };
        let owner = owner
            .char_indices()
            .take_while(|(at, c)| at + c.len_utf8() <= MAX_TEXT_BYTES)
            .map(|(_, c)| c);
        let owner: String = owner.collect();
        let grants = Grants::new(truth.clone(), &owner);
        Bindings {
            truth,
            metadata,
            registry: Registry::new(broker, clock),
            grants,
            random,
            owner,
        }
    }

    /// Opens a name: finishes a creation or deletion that was left half done, creates if asked to, checks head and registry node.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` for a stock topic; `Corrupt` for an ACTIVE binding without a head, or a registry node of ours without
    /// a binding; `Unavailable` when the broker's store does not answer: the next open resumes.
    pub async fn open(&self, request: &OpenBinding<'_>, steps: &dyn StreamSteps) -> Result<Bound> {
        let name = request.name;
        // What this open has written itself need not be read again.
        let mut known = None;
        for _ in 0..ROUNDS {
            let found = match known.take() {
                Some(written) => Some(written),
                None => self.read(name).await?,
            };
            let Some((binding, version)) = found else {
                let name_is = self.admit_unbound(name, None).await?;
                known = self.create(request, name_is, None).await?;
                continue;
            };
            match binding.state {
                BindingState::Binding => {
                    steps.create(binding.clone()).await?;
                    self.registry.ensure(name, binding.incarnation).await?;
                    let active = Binding {
                        state: BindingState::Active,
                        activated_millis: self.truth.clock.wall_millis().max(1),
                        ..binding
                    };
                    if let Some((binding, _)) = self.change(Expected::Version(version), active).await? {
                        return Ok(Bound { binding, created: true });
                    }
                }
                BindingState::Active => {
                    self.check_active(&binding, steps).await?;
                    return Ok(Bound {
                        binding,
                        created: false,
                    });
                }
                BindingState::Deleting => known = self.finish(binding, version, steps).await?,
                BindingState::Tombstone => {
                    let name_is = self.admit_unbound(name, Some(&binding)).await?;
                    known = self.create(request, name_is, Some((binding, version))).await?;
                }
            }
        }
        Err(contended(name))
    }

    /// The ACTIVE binding of a name, for readers: changes nothing. `NotFound` in every other state.
    pub async fn find(&self, name: &str) -> Result<Binding> {
        match self.read(name).await? {
            Some((binding, _)) if binding.state == BindingState::Active => Ok(binding),
            _ => Err(not_found(name)),
        }
    }

    /// Begins the deletion of a name; from here on no open answers its present incarnation. The caller closes what it has open of
    /// the stream and calls [`Bindings::finish_delete`]. `NotFound` when there is nothing to delete; `Corrupt` for an ACTIVE
    /// binding without a head: what ledger ids it used cannot be told.
    pub async fn begin_delete(&self, name: &str, steps: &dyn StreamSteps) -> Result<Deleting> {
        for _ in 0..ROUNDS {
            let Some((binding, version)) = self.read(name).await? else {
                return Err(not_found(name));
            };
            match binding.state {
                BindingState::Tombstone => return Err(not_found(name)),
                BindingState::Deleting => return Ok(Deleting { binding, version }),
                BindingState::Active if steps.end(binding.stream).await?.is_none() => return Err(headless(&binding)),
                BindingState::Binding | BindingState::Active => {
                    let deleting = Binding {
                        state: BindingState::Deleting,
                        deleted_millis: self.truth.clock.wall_millis().max(1),
                        ..binding
                    };
                    if let Some((binding, version)) = self.change(Expected::Version(version), deleting).await? {
                        return Ok(Deleting { binding, version });
                    }
                }
            }
        }
        Err(contended(name))
    }

    /// Finishes the deletion of the incarnation that [`Bindings::begin_delete`] answered. Idempotent.
    pub async fn finish_delete(&self, deleting: &Deleting, steps: &dyn StreamSteps) -> Result<()> {
        let Deleting { binding, version } = deleting;
        let (name, incarnation) = (&binding.name, binding.incarnation);
        let mut known = Some((binding.clone(), *version));
        for _ in 0..ROUNDS {
            let found = match known.take() {
                Some(written) => Some(written),
                None => self.read(name).await?,
            };
            match found {
                Some((binding, version))
                    if binding.incarnation == incarnation && binding.state == BindingState::Deleting =>
                {
                    known = self.finish(binding, version, steps).await?;
                }
                _ => return Ok(()),
            }
        }
        Err(contended(name))
    }

    /// Names that have a binding in any state, in no order.
    pub async fn names(&self) -> Result<Vec<String>> {
        self.metadata.bound_names().await
    }

    async fn read(&self, name: &str) -> Result<Option<(Binding, Version)>> {
        super::registry::path_of(name)?;
        let found = self.truth.read::<Binding>(Key::binding(name)?).await?;
        match found {
            Some((binding, _)) if binding.class != StorageClass::Nereus => Err(Error::Invalid {
                what: format!("{name} is bound to storage class {} for life", binding.class),
            }),
            found => Ok(found),
        }
    }

    /// Takes back a name that was announced by an empty registry node and never opened. Answers whether it was one.
    pub async fn withdraw(&self, name: &str) -> Result<bool> {
        if !matches!(self.registry.read(name).await?, Node::Empty(_)) {
            return Ok(false);
        }
        self.registry.remove(name, Incarnation::new(0)).await?;
        Ok(true)
    }

    /// Checks the registry node of a name without a live binding, before anything is written.
    async fn admit_unbound(&self, name: &str, tombstone: Option<&Binding>) -> Result<Unbound> {
        match (self.registry.read(name).await?, tombstone) {
            (Node::Stock, _) => Err(stock(name)),
            (Node::Absent, _) => Ok(Unbound::Unknown),
            (Node::Empty(_), _) => Ok(Unbound::Announced),
            // Left by a creation that somebody else finished and deleted meanwhile; it stands for nothing.
            (Node::Ours(there, _), Some(tombstone)) if there <= tombstone.incarnation => {
                self.registry.remove(name, tombstone.incarnation).await.map(|()| Unbound::Unknown)
            }
            (Node::Ours(there, _), _) => Err(Error::Corrupt {
                what: format!("topic {name}"),
                place: super::registry::path_of(name)?,
                detail: format!(
                    "the registry node names incarnation {there}, but there is no binding of it: the records below /nereus were lost; \
                     restore the metadata store"
                ),
            }),
        }
    }

    /// Writes a new incarnation in state BINDING. Whoever comes first decides: `None` when that was somebody else.
    async fn create(
        &self,
        request: &OpenBinding<'_>,
        name_is: Unbound,
        before: Option<(Binding, Version)>,
    ) -> Result<Option<(Binding, Version)>> {
        if !request.create && name_is == Unbound::Unknown {
            return Err(not_found(request.name));
        }
        let used_up = || Error::Internal {
            what: format!("the incarnations or ledger ids of {} are used up", request.name),
        };
        let former = before.as_ref().map(|(old, _)| old.projection.first);
        let reused = former.filter(|_| active(Mutant::ReuseLedgerIds));
        let (incarnation, highest, expected) = match before {
            Some((_, version)) if active(Mutant::ForgetTombstone) => {
                (Incarnation::new(1), 0, Expected::Version(version))
            }
            Some((old, version)) => (
                old.incarnation.next().ok_or_else(used_up)?,
                old.highest_ledger,
                Expected::Version(version),
            ),
            None => (Incarnation::new(1), 0, Expected::Absent),
        };
        let granted = self.grants.take().await?;
        let above = VirtualLedger::new(highest).checked_add(1).ok_or_else(used_up)?;
        let binding = Binding {
            name: request.name.to_owned(),
            incarnation,
            state: BindingState::Binding,
            class: StorageClass::Nereus,
            // 0 stands for "none".
            stream: StreamId::new(self.random.next_u128().max(1)),
            projection: Projection {
                first: reused.unwrap_or_else(|| granted.max(above)),
                span_bits: SpanBits::DEFAULT,
            },
            highest_ledger: highest,
            profile: request.profile,
            capabilities: Vec::new(),
            created_millis: self.truth.clock.wall_millis(),
            activated_millis: 0,
            deleted_millis: 0,
            changed_by: self.owner.clone(),
            attempt: self.random.next_u128(),
        };
        self.change(expected, binding).await
    }

    async fn check_active(&self, binding: &Binding, steps: &dyn StreamSteps) -> Result<()> {
        if steps.end(binding.stream).await?.is_none() {
            match active(Mutant::HeadlessIsEmpty) {
                true => steps.create(binding.clone()).await?,
                false => return Err(headless(binding)),
            }
        }
        if self.registry.ensure(&binding.name, binding.incarnation).await? == Ensured::Written {
            tracing::warn!(
                topic = binding.name,
                "the registry node was missing and is there again; no data is concerned"
            );
        }
        Ok(())
    }

    /// The next steps of a deletion from where it stands, and what the binding is then; `None` when the caller has to read it.
    async fn finish(
        &self,
        binding: Binding,
        version: Version,
        steps: &dyn StreamSteps,
    ) -> Result<Option<(Binding, Version)>> {
        if !binding.is_sealed() {
            let end = match steps.seal(binding.stream).await? {
                Some(end) => end,
                // Never completed: nothing was ever appended.
                None if binding.activated_millis == 0 => Offset::ZERO,
                // Somebody else may have come further with this deletion.
                None => match self.read(&binding.name).await? {
                    Some((_, now)) if now == version => return Err(headless(&binding)),
                    _ => return Ok(None),
                },
            };
            // The id of the end itself counts as used: read positions point at it.
            let highest = binding
                .projection
                .position(end)
                .map_or(i64::MAX as u64, |(ledger, _)| ledger.get());
            let sealed = Binding {
                highest_ledger: highest,
                ..binding
            };
            return self.change(Expected::Version(version), sealed).await;
        }
        self.registry.remove(&binding.name, binding.incarnation).await?;
        steps.remove(binding.stream).await?;
        let tombstone = Binding {
            state: BindingState::Tombstone,
            ..binding
        };
        self.change(Expected::Version(version), tombstone).await
    }

    /// Writes a binding and answers it as it stands now; `None` when somebody else was faster.
    async fn change(&self, expected: Expected, binding: Binding) -> Result<Option<(Binding, Version)>> {
        let binding = Binding {
            changed_by: self.owner.clone(),
            attempt: self.random.next_u128(),
            ..binding
        };
        Ok(match self.truth.write(expected, &binding).await? {
            Wrote::Done(version) => Some((binding, version)),
            Wrote::Lost => None,
        })
    }
}

/// An ACTIVE binding whose head is not there (L13).
pub fn headless(binding: &Binding) -> Error {
    Error::Corrupt {
        what: format!("topic {}", binding.name),
        place: format!("stream {}", binding.stream),
        detail: format!(
            "the binding of incarnation {} is active but its stream has no head: the data directory lost it or is an older copy; \
             restore the newest copy of the directory",
            binding.incarnation
        ),
    }
}

fn not_found(name: &str) -> Error {
    Error::NotFound {
        what: format!("topic {name}"),
    }
}

fn contended(name: &str) -> Error {
    Error::Unavailable {
        what: format!("the binding of {name} is changed by others all the time"),
        retry: Duration::from_secs(1),
    }
}

#[cfg(test)]
#[path = "bindings_tests.rs"]
mod tests;
