use futures::executor::block_on;
use futures::FutureExt;

use super::super::testing::World;
use super::*;
use crate::env::real::OsDisk;
use crate::env::Spawner;
use crate::error::ErrorCode;
use crate::metadata::faults::Fault;
use crate::metadata::pulsar::PulsarMetadata;
use crate::record::Record;

/// A claim starts no task.
struct NoTasks;

impl Spawner for NoTasks {
    fn spawn(&self, name: &'static str, _task: crate::env::BoxFuture<()>) {
        panic!("a claim started the task {name}");
    }

    fn spawn_dedicated(&self, name: &'static str, _task: crate::env::BoxFuture<()>) {
        panic!("a claim started the task {name}");
    }

    fn run_blocking(&self, _work: Box<dyn FnOnce() + Send>) {
        panic!("a claim started work");
    }
}

struct Start {
    world: World,
    scratch: tempfile::TempDir,
}

impl Start {
    fn new() -> Self {
        Start {
            world: World::new(),
            scratch: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, directory: &str) -> std::path::PathBuf {
        let path = self.scratch.path().join(directory);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    fn env(&self) -> Env {
        let truth = self.world.truth();
        Env {
            clock: truth.clock,
            random: truth.random,
            spawner: Arc::new(NoTasks),
            disk: Arc::new(OsDisk),
        }
    }

    fn store(&self) -> Arc<dyn MetadataStore> {
        Arc::new(PulsarMetadata::new(Arc::new(self.world.broker.clone())))
    }

    /// A start that stops where the broker's store was told to halt; the store goes on afterwards.
    fn crash(&self, directory: &Path) {
        let wanted = Claim {
            directory,
            cluster: "c",
            holder: "broker-1",
            accept_older_copy: false,
        };
        let crashed = claim(&self.env(), self.store(), &wanted).now_or_never();
        assert!(crashed.is_none(), "the start was to stop half-way");
        self.world.broker.faults().halt_after(None);
    }

    fn claim(&self, directory: &str, cluster: &str, accept_older_copy: bool) -> Result<DirectoryId> {
        let directory = self.path(directory);
        let wanted = Claim {
            directory: &directory,
            cluster,
            holder: "broker-1",
            accept_older_copy,
        };
        block_on(claim(&self.env(), self.store(), &wanted))
    }

    fn start(&self, directory: &str) -> Result<DirectoryId> {
        self.claim(directory, "c", false)
    }

    fn copy(&self, from: &str, to: &str) {
        let (from, to) = (self.path(from), self.path(to));
        std::fs::copy(from.join("nereus.id"), to.join("nereus.id")).unwrap();
    }

    /// Everything durable: what a refusal must not change.
    fn durable(&self, directory: &str) -> (Option<DirectoryId>, Option<bytes::Bytes>) {
        (
            DirectoryId::read(&OsDisk, &self.path(directory)).unwrap(),
            self.world.broker.peek("/nereus/cluster"),
        )
    }

    #[track_caller]
    fn refused(&self, directory: &str, cluster: &str, says: &[&str]) {
        let before = self.durable(directory);
        let error = self.claim(directory, cluster, false).unwrap_err();
        assert_eq!(error.code(), ErrorCode::Invalid, "{error}");
        for words in says {
            assert!(error.to_string().contains(words), "{error} does not say {words}");
        }
        assert_eq!(self.durable(directory), before, "a refusal changes nothing");
    }
}

#[test]
fn every_start_raises_the_epoch_on_both_sides() {
    let start = Start::new();
    let first = start.start("d").unwrap();
    assert_eq!((first.epoch, first.pending, first.cluster.as_str()), (1, 0, "c"));
    let second = start.start("d").unwrap();
    assert_eq!((second.epoch, second.uuid), (2, first.uuid));
    let raw = start.world.broker.peek("/nereus/cluster").unwrap();
    let record = Cluster::decode(&Key::cluster(), &raw).unwrap();
    assert_eq!(
        (record.journal_epoch, record.directory, record.holder.as_str()),
        (2, first.uuid, "broker-1")
    );
}

#[test]
fn a_second_directory_of_the_cluster_is_refused_naming_the_holder() {
    let start = Start::new();
    let first = start.start("d").unwrap();
    start.refused(
        "other",
        "c",
        &[&format!("{:032x} of broker-1", first.uuid), "other", "new"],
    );
    // The same once the other directory has an identity of its own.
    let own = DirectoryId {
        cluster: "c".into(),
        uuid: 77,
        epoch: 1,
        pending: 0,
    };
    own.write(&OsDisk, &start.path("other")).unwrap();
    start.refused("other", "c", &["broker-1", &format!("{:032x}", 77)]);
    assert_eq!(
        start.claim("other", "c", true).unwrap_err().code(),
        ErrorCode::Invalid,
        "no copy at all"
    );
}

#[test]
fn a_directory_of_another_cluster_is_refused_by_name() {
    let start = Start::new();
    start.start("d").unwrap();
    start.refused("d", "elsewhere", &["belongs to cluster c, not to elsewhere"]);
    let fresh = Start {
        world: start.world.clone(),
        scratch: tempfile::tempdir().unwrap(),
    };
    fresh.refused("d", "elsewhere", &["metadata store belongs to cluster c"]);
}

#[test]
fn an_older_copy_is_refused_unless_accepted() {
    let start = Start::new();
    start.start("d").unwrap();
    start.copy("d", "backup");
    start.start("d").unwrap();
    start.copy("backup", "d");
    start.refused("d", "c", &["older copy", "knows start 1, cluster c has seen 2"]);
    assert_eq!(start.claim("d", "c", true).unwrap().epoch, 3);
    assert_eq!(start.start("d").unwrap().epoch, 4, "accepted once, it is the newest");
}

#[test]
fn an_older_copy_of_the_metadata_store_is_refused_unless_accepted() {
    let start = Start::new();
    start.start("d").unwrap();
    let older = start.world.broker.peek("/nereus/cluster").unwrap();
    start.start("d").unwrap();
    let broker: &dyn crate::metadata::pulsar::BrokerStore = &start.world.broker;
    drop(block_on(broker.put("/nereus/cluster", older, Expected::Any)));
    start.refused("d", "c", &["metadata store of cluster c is an older copy"]);
    drop(block_on(broker.delete("/nereus/cluster", Expected::Any)));
    start.refused("d", "c", &["has no record of it"]);
    assert_eq!(start.claim("d", "c", true).unwrap().epoch, 3);
}

#[test]
fn content_without_identity_is_refused() {
    let start = Start::new();
    std::fs::write(start.path("d").join("segment-1"), "x").unwrap();
    start.refused("d", "c", &["segment-1"]);
}

#[test]
fn a_newer_format_level_is_unsupported() {
    let start = Start::new();
    start.start("d").unwrap();
    let raw = start.world.broker.peek("/nereus/cluster").unwrap();
    let newer = Cluster {
        format_level: FORMAT_LEVEL + 1,
        ..Cluster::decode(&Key::cluster(), &raw).unwrap()
    };
    let broker: &dyn crate::metadata::pulsar::BrokerStore = &start.world.broker;
    drop(block_on(broker.put(
        "/nereus/cluster",
        newer.encode().unwrap(),
        Expected::Any,
    )));
    assert_eq!(start.start("d").unwrap_err().code(), ErrorCode::Unsupported);
}

#[test]
fn a_crash_at_any_step_of_a_start_is_not_taken_for_an_older_copy() {
    for starts_before in 0..2 {
        // The only write of a start to the broker's store: not sent, or applied with the answer lost for ever.
        for applied in [false, true] {
            let start = Start::new();
            for _ in 0..starts_before {
                start.start("d").unwrap();
            }
            let faults = start.world.broker.faults();
            if applied {
                faults.next(Fault::LoseAnswer);
                faults.halt_after(Some(1));
            } else {
                faults.halt_after(Some(0));
            }
            let directory = start.path("d");
            start.crash(&directory);
            let pending = DirectoryId::read(&OsDisk, &directory).unwrap().unwrap();
            assert_eq!((pending.epoch, pending.pending), (starts_before, starts_before + 1));
            let again = start.start("d").unwrap();
            assert_eq!(
                again.epoch,
                starts_before + 1 + u64::from(applied),
                "{starts_before} {applied}"
            );
            assert_eq!(again.uuid, pending.uuid);
        }
    }
}

#[test]
fn a_start_that_fails_behind_one_that_crashed_is_not_taken_for_an_older_copy() {
    let start = Start::new();
    start.start("d").unwrap();
    let faults = start.world.broker.faults();
    // The second start raises the record and dies before it notes so.
    faults.next(Fault::LoseAnswer);
    faults.halt_after(Some(1));
    let directory = start.path("d");
    start.crash(&directory);
    // The third cannot raise it.
    faults.next(Fault::Refuse);
    assert_eq!(start.start("d").unwrap_err().code(), ErrorCode::Unavailable);
    assert_eq!(start.start("d").unwrap().epoch, 3);
}

#[test]
fn l06_a_lost_or_late_answer_of_the_claim_is_settled() {
    for fault in [Fault::LoseAnswer, Fault::Late] {
        let start = Start::new();
        start.world.broker.faults().next(fault);
        assert_eq!(start.start("d").unwrap().epoch, 1);
        block_on(start.world.broker.faults().arrive());
        assert_eq!(start.start("d").unwrap().epoch, 2, "{fault:?}");
    }
}

#[test]
fn two_running_copies_of_a_directory_do_not_both_start() {
    let start = Start::new();
    start.start("d").unwrap();
    start.copy("d", "copy");
    // The copy's write is on its way while the original starts, and loses.
    start.world.broker.faults().next(Fault::Late);
    (2..40).for_each(|nth| start.world.broker.faults().nth(nth, Fault::Refuse));
    assert_eq!(start.start("copy").unwrap_err().code(), ErrorCode::Unavailable);
    start.world.broker.faults().clear();
    assert_eq!(start.start("d").unwrap().epoch, 2);
    block_on(start.world.broker.faults().arrive());
    assert_eq!(start.start("d").unwrap().epoch, 3, "the late write changed nothing");
}

#[test]
fn a_claim_that_loses_names_the_winner() {
    let start = Start::new();
    start.start("d").unwrap();
    let raw = start.world.broker.peek("/nereus/cluster").unwrap();
    let theirs = Cluster {
        holder: "broker-2".into(),
        journal_epoch: 2,
        attempt: 9,
        ..Cluster::decode(&Key::cluster(), &raw).unwrap()
    };
    // Their write comes in between ours and its arrival.
    let store = Interfering {
        inner: start.store(),
        theirs: theirs.encode().unwrap(),
    };
    let directory = start.path("d");
    let wanted = Claim {
        directory: &directory,
        cluster: "c",
        holder: "broker-1",
        accept_older_copy: false,
    };
    let error = block_on(claim(&start.env(), Arc::new(store), &wanted)).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Conflict);
    assert!(error.to_string().contains("broker-2"), "{error}");
}

/// A store in which somebody else changes the record just before each write.
struct Interfering {
    inner: Arc<dyn MetadataStore>,
    theirs: bytes::Bytes,
}

impl MetadataStore for Interfering {
    fn capabilities(&self) -> crate::metadata::Capabilities {
        self.inner.capabilities()
    }

    fn get(&self, key: Key) -> crate::env::BoxFuture<Result<Option<crate::metadata::Versioned>>> {
        self.inner.get(key)
    }

    fn write(&self, batch: Vec<crate::metadata::Write>) -> crate::env::BoxFuture<Vec<crate::metadata::Verdict>> {
        let theirs = crate::metadata::Write {
            key: Key::cluster(),
            expected: Expected::Any,
            value: Some(self.theirs.clone()),
        };
        drop(self.inner.write(vec![theirs]));
        self.inner.write(batch)
    }

    fn scan(
        &self,
        from: Key,
        to: Key,
        limit: usize,
    ) -> crate::env::BoxFuture<Result<Vec<(Key, crate::metadata::Versioned)>>> {
        self.inner.scan(from, to, limit)
    }

    fn last(&self, from: Key, to: Key) -> crate::env::BoxFuture<Result<Option<(Key, crate::metadata::Versioned)>>> {
        self.inner.last(from, to)
    }
}
