//! A data directory against its cluster's record: one directory per cluster, and never an older copy of it.
//!
//! A start notes the next epoch as pending in the directory, raises the epoch in the cluster record by conditional write, and
//! notes it as reached. So a directory that is one step behind the record with that step pending crashed in between; one that is
//! further behind was restored from an older copy.
//! Promises: [`claim`] answers only when both sides agree, or refuses naming the holder and what to do, having changed nothing.

use std::path::Path;
use std::sync::Arc;

use super::identity::DirectoryId;
use super::truth::{Truth, Wrote};
use crate::env::Env;
use crate::error::{Error, Result};
use crate::metadata::{Expected, MetadataStore};
use crate::record::{Cluster, Key};

/// The newest format in use that this build knows.
pub const FORMAT_LEVEL: u32 = 1;

/// Who claims what.
#[derive(Debug, Clone)]
pub struct Claim<'a> {
    /// The data directory, locked by the caller.
    pub directory: &'a Path,
    /// Pulsar's cluster name.
    pub cluster: &'a str,
    /// Who claims, for messages of others.
    pub holder: &'a str,
    /// The operator accepts a directory or a cluster record that is an older copy.
    pub accept_older_copy: bool,
}

/// Claims the cluster for a data directory and raises the journal epoch. Blocks on the directory's files: start-up only.
///
/// # Errors
/// `Invalid` when another directory, cluster or copy is in the way; `Conflict` when another process claims at this moment;
/// `Unsupported` for a newer format; `Unavailable` when the broker's store does not answer.
pub async fn claim(env: &Env, store: Arc<dyn MetadataStore>, claim: &Claim<'_>) -> Result<DirectoryId> {
    let truth = Truth {
        store,
        clock: env.clock.clone(),
        random: env.random.clone(),
    };
    let disk = &*env.disk;
    let known = DirectoryId::read(disk, claim.directory)?;
    if known.is_none() {
        DirectoryId::check_empty(disk, claim.directory)?;
    }
    let record = truth.read::<Cluster>(Key::cluster()).await?;
    let next = decide(known.as_ref(), record.as_ref().map(|(record, _)| record), claim)?;
    let uuid = match &known {
        Some(known) => known.uuid,
        // 0 stands for "none".
        None => truth.random.next_u128() | 1,
    };
    // Agreed with the record: a start that was noted as pending and raised it was reached, whatever the directory says.
    let reached = match &record {
        Some((record, _)) => record.journal_epoch,
        None => known.map_or(0, |known| known.epoch),
    };
    let cluster = claim.cluster.to_owned();
    DirectoryId {
        cluster: cluster.clone(),
        uuid,
        epoch: reached,
        pending: next,
    }
    .write(disk, claim.directory)?;

    let expected = record.map_or(Expected::Absent, |(_, version)| Expected::Version(version));
    let raised = Cluster {
        cluster: cluster.clone(),
        directory: uuid,
        journal_epoch: next,
        format_level: FORMAT_LEVEL,
        holder: claim.holder.to_owned(),
        attempt: truth.random.next_u128(),
        changed_millis: truth.clock.wall_millis(),
    };
    if truth.write(expected, &raised).await? == Wrote::Lost {
        let what = match truth.read::<Cluster>(Key::cluster()).await? {
            Some((now, _)) => format!(
                "cluster {} was claimed at this moment by {} with data directory {:032x}; only one broker may serve it",
                claim.cluster, now.holder, now.directory
            ),
            None => format!("the record of cluster {}", claim.cluster),
        };
        return Err(Error::Conflict { what });
    }
    let id = DirectoryId {
        cluster,
        uuid,
        epoch: next,
        pending: 0,
    };
    id.write(disk, claim.directory)?;
    Ok(id)
}

/// The epoch of this start, or why there is none.
fn decide(known: Option<&DirectoryId>, record: Option<&Cluster>, claim: &Claim<'_>) -> Result<u64> {
    let refuse = |what: String| Err(Error::Invalid { what });
    let directory = claim.directory.display();
    let cluster = claim.cluster;
    if let Some(other) = known.filter(|known| known.cluster != cluster) {
        return refuse(format!(
            "data directory {directory} belongs to cluster {}, not to {cluster}; name the directory of this cluster",
            other.cluster
        ));
    }
    let Some(record) = record else {
        return match known {
            None => Ok(1),
            // A first start that crashed before the record was there.
            Some(DirectoryId { epoch: 0, pending, .. }) => Ok((*pending).max(1)),
            Some(known) if claim.accept_older_copy => raise(known.epoch.max(known.pending)),
            Some(known) => refuse(format!(
                "data directory {directory} was started {} times, but the metadata store of cluster {cluster} has no record of it: \
                 the store was lost or replaced; restore it, or accept an older copy if its topics may be lost",
                known.epoch
            )),
        };
    };
    if record.format_level > FORMAT_LEVEL {
        let feature = format!(
            "format level {} of cluster {cluster}, this build knows {FORMAT_LEVEL}",
            record.format_level
        );
        return Err(Error::Unsupported { feature });
    }
    if record.cluster != cluster {
        return refuse(format!(
            "the metadata store belongs to cluster {}, not to {cluster}",
            record.cluster
        ));
    }
    let Some(known) = known.filter(|known| known.uuid == record.directory) else {
        let own = known.map_or_else(|| "new".to_owned(), |known| format!("{:032x}", known.uuid));
        return refuse(format!(
            "cluster {cluster} is served from data directory {:032x} of {}; {directory} is another one ({own}). One broker serves an \
             embedded store: use that directory, or remove the broker",
            record.directory, record.holder
        ));
    };
    let (reached, recorded) = (known.epoch, record.journal_epoch);
    if recorded == reached || recorded == known.pending || claim.accept_older_copy {
        if recorded != reached && recorded != known.pending {
            tracing::warn!(%directory, reached, recorded, "an older copy is accepted as the operator asked");
        }
        return raise(recorded.max(reached));
    }
    let older = if recorded > reached {
        format!("data directory {directory} is an older copy: it knows start {reached}, cluster {cluster} has seen {recorded}")
    } else {
        format!("the metadata store of cluster {cluster} is an older copy: it has seen start {recorded}, {directory} {reached}")
    };
    refuse(format!(
        "{older}. What was written since is missing; restore the newest copy, or accept an older copy explicitly"
    ))
}

fn raise(epoch: u64) -> Result<u64> {
    let used_up = || Error::Internal {
        what: "the journal epochs are used up".into(),
    };
    epoch.checked_add(1).ok_or_else(used_up)
}

#[cfg(test)]
#[path = "cluster_tests.rs"]
mod tests;
