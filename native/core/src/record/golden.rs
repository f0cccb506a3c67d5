//! Golden files: one stored value of every record as each released version wrote it, kept and read for ever.
//!
//! `tests/golden/v<format>/<Record>.bin` holds key length (2 bytes, big-endian), key and value. To add the files of a new format
//! or record, extend [`samples`], for a field that was added to a format [`additions`], and run `NEREUS_WRITE_GOLDEN=1 cargo test -p nereus-core golden`; files that exist are never
//! overwritten, because they stand for what is on disks already.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use bytes::{BufMut, Bytes};

use super::*;
use crate::commit::{Commit, ReadTarget, StreamHead};
use crate::types::*;

fn directory(version: u16) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(format!("v{version}"))
}

fn commit(id: u128, start: u64, count: u32) -> Commit {
    Commit {
        id: CommitId::new(id),
        start: Offset::new(start),
        count,
        bytes: 1000 * u64::from(count),
        messages: 3 * u64::from(count),
        append_millis: 1_700_000_000_000 + start,
        target: ReadTarget::Journal {
            segment: 7,
            position: 4096 * (start + 1),
            length: 1024 * u64::from(count),
        },
        crc32c: 0xdead_0000 + count,
    }
}

const STREAM: StreamId = StreamId::new(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff);
const NAME: &str = "public/default/persistent/orders";

fn head() -> StreamHead {
    StreamHead {
        stream: STREAM,
        incarnation: Incarnation::new(2),
        owner_epoch: OwnerEpoch::new(5),
        owner: "broker-1.example:6650".into(),
        version: CommitVersion::new(17),
        end: Offset::new(70_005),
        trim: Offset::new(65_536),
        last_commit: CommitId::new(0x99),
        total_bytes: 70_005_000,
        trimmed_bytes: 65_536_000,
        terminated: true,
        migrated: false,
        created_millis: 1_690_000_000_000,
        last_append_millis: 1_700_000_070_000,
        folded_append_millis: 0,
        ring: [commit(0x98, 70_000, 2), commit(0x99, 70_002, 3)].into(),
    }
}

fn cursor_root() -> CursorRoot {
    CursorRoot {
        stream: STREAM,
        name: "billing/1".into(),
        owner_epoch: OwnerEpoch::new(5),
        ack_epoch: 12,
        mark_delete_end: Offset::new(65_600),
        position_properties: BTreeMap::from([("#pulsar.internal.key".to_owned(), -1i64)]),
        cursor_properties: BTreeMap::from([("team".to_owned(), "money".to_owned())]),
        created_millis: 1_690_000_000_001,
        pages: vec![],
        indexes: vec![page_name()],
        deleted: false,
    }
}

fn page_name() -> PageName {
    PageName {
        page: 1,
        chunk: 0,
        version: 12,
        bytes: 300,
        crc32c: 0x0102_0304,
    }
}

fn cursor_page() -> CursorPage {
    let mut acked = Vec::new();
    let bitmap: roaring::RoaringBitmap = [70, 71, 72, 4000].into_iter().collect();
    bitmap.serialize_into(&mut acked).expect("writing to a vector");
    CursorPage {
        stream: STREAM,
        name: "billing/1".into(),
        page: 1,
        chunk: 0,
        version: 12,
        acked: acked.into(),
        batches: BTreeMap::from([(80, vec![-1, 7]), (4001, vec![i64::MIN])]),
    }
}

fn binding() -> Binding {
    Binding {
        name: NAME.into(),
        incarnation: Incarnation::new(2),
        state: BindingState::Tombstone,
        class: StorageClass::Nereus,
        stream: STREAM,
        projection: Projection {
            first: VirtualLedger::new((1 << 32) + 9),
            span_bits: SpanBits::DEFAULT,
        },
        highest_ledger: (1 << 32) + 10,
        profile: Profile::LocalWalAsyncObject,
        capabilities: vec!["batch-index-ack".into()],
        created_millis: 1_690_000_000_000,
        activated_millis: 1_690_000_000_002,
        deleted_millis: 1_710_000_000_000,
        changed_by: "broker-1.example:6650".into(),
        attempt: 0x42,
    }
}

fn index() -> GenerationIndex {
    let source = SourceSnapshot {
        task: TaskId::new(0x77),
        first_commit: CommitId::new(0x98),
        last_commit: CommitId::new(0x99),
        commits: 2,
        crc32c: 0x0a0b_0c0d,
    };
    GenerationIndex {
        stream: STREAM,
        view: ReadView::Committed,
        start: Offset::new(70_000),
        end: Offset::new(70_005),
        generation: Generation::new(3),
        state: GenerationState::Committed,
        target: target(),
        digest: Some([0xab; 32]),
        source: Some(source),
    }
}

fn target() -> TargetId {
    TargetId {
        physical: PhysicalId::Object("00/task-77.parquet".into()),
        position: 4,
        length: 8192,
    }
}

fn task() -> Task {
    let sources = vec![commit(0x98, 70_000, 2), commit(0x99, 70_002, 3)];
    Task {
        id: TaskId::new(0x77),
        state: TaskState::Frozen,
        attempt: 1,
        target: "00/task-77.parquet".into(),
        parts: vec![TaskPart {
            stream: STREAM,
            view: ReadView::Committed,
            generation: Generation::new(3),
            sources,
        }],
        created_millis: 1_700_000_100_000,
    }
}

/// Reads a value and writes it again.
type Rewrite = fn(&Key, &[u8]) -> crate::Result<Bytes>;

struct Sample {
    record: RecordType,
    version: u16,
    key: Key,
    value: Bytes,
    rewrite: Rewrite,
}

fn sample<R: Record>(record: R) -> Sample {
    Sample {
        record: R::TYPE,
        version: R::VERSION,
        key: record.key().unwrap(),
        value: record.encode().unwrap(),
        rewrite: |key, raw| R::decode(key, raw)?.encode(),
    }
}

/// One fixed value of every record, as the present format writes it.
fn samples() -> Vec<Sample> {
    let grant = |first, end| Grant {
        first: VirtualLedger::new(first),
        end: VirtualLedger::new(end),
        holder: "broker-1.example:6650".into(),
        attempt: 0x43,
        granted_millis: 1_690_000_000_000,
    };
    let first = VirtualLedger::FIRST.get();
    let needs = vec![
        Need {
            kind: NeedKind::Stream,
            holder: STREAM.to_string(),
        },
        Need {
            kind: NeedKind::Task,
            holder: TaskId::new(0x77).to_string(),
        },
    ];
    vec![
        sample(Cluster {
            cluster: "standalone".into(),
            directory: 0x1234,
            journal_epoch: 3,
            format_level: 1,
            holder: "broker-1.example:6650".into(),
            attempt: 0x44,
            changed_millis: 1_690_000_000_000,
        }),
        sample(binding()),
        sample(LedgerGrant {
            next: VirtualLedger::new(first + 20),
            grants: vec![grant(first, first + 10), grant(first + 10, first + 20)],
        }),
        sample(head()),
        sample(StreamProperties {
            stream: STREAM,
            version: 4,
            properties: BTreeMap::from([("a".to_owned(), "1".to_owned()), ("b".to_owned(), String::new())]),
            ledger: String::new(),
        }),
        sample(CommitPage {
            stream: STREAM,
            bytes_before: 5000,
            latest_before: 0,
            commits: vec![commit(0x10, 5, 4), commit(0x11, 9, 6)],
        }),
        sample(TrimMark {
            stream: STREAM,
            offset: Offset::new(50_000),
            bytes_below: 50_000_000,
            first_append_millis: 1_690_000_000_000,
            last_append_millis: 1_690_000_600_000,
            reason: TrimReason::Entries,
        }),
        sample(index()),
        sample(GenerationCounter {
            stream: STREAM,
            view: ReadView::TopicCompacted,
            next: Generation::new(4),
        }),
        sample(Quarantine {
            stream: STREAM,
            target: target(),
            reason: "entry 70001: checksum".into(),
            at_millis: 1_700_000_200_000,
            by: "broker-1.example:6650".into(),
        }),
        sample(cursor_root()),
        sample(cursor_page()),
        sample(CursorIndex {
            stream: STREAM,
            name: "billing/1".into(),
            page: 1,
            chunk: 0,
            version: 13,
            names: vec![
                page_name(),
                PageName {
                    page: 3,
                    chunk: 500,
                    ..page_name()
                },
            ],
        }),
        sample(task()),
        sample(PhysicalRoot {
            id: PhysicalId::Segment(7),
            state: RootState::Active,
            needs,
            marked_millis: 0,
        }),
    ]
}

/// Values with fields that were added to a format later, and a word for the file's name: `<Record>.<word>.bin`.
fn additions() -> Vec<(&'static str, Sample)> {
    let named = StreamProperties {
        stream: STREAM,
        version: 1,
        properties: BTreeMap::new(),
        ledger: NAME.into(),
    };
    let tombstone = cursor_root().tombstone(OwnerEpoch::new(6));
    vec![("ledger", sample(named)), ("deleted", sample(tombstone))]
}

/// Key and value of a file.
fn golden(path: &std::path::Path) -> (Key, Bytes) {
    let file = Bytes::from(fs::read(path).unwrap_or_else(|e| panic!("{}: {e}; see the header", path.display())));
    let key_bytes = usize::from(u16::from_be_bytes([file[0], file[1]]));
    let key = Key::from_bytes(file.slice(2..2 + key_bytes)).unwrap();
    (key, file.slice(2 + key_bytes..))
}

#[test]
fn golden_file_of_a_root_before_index_records_names_its_pages() {
    let (key, value) = golden(&directory(1).join("CursorRoot.bin"));
    let old = CursorRoot {
        pages: vec![page_name()],
        indexes: vec![],
        ..cursor_root()
    };
    assert_eq!(CursorRoot::decode(&key, &value).unwrap(), old);
}

#[test]
fn golden_files_of_every_format_are_read_and_written_identically() {
    let samples = samples();
    let covered: Vec<RecordType> = samples.iter().map(|sample| sample.record).collect();
    let all: Vec<RecordType> = RecordType::ALL.iter().map(|(record, _)| *record).collect();
    assert_eq!(covered, all, "every record has a sample");
    let named = samples
        .iter()
        .map(|sample| (format!("{}.bin", sample.record.name()), sample));
    let additions = additions();
    let added = additions
        .iter()
        .map(|(word, sample)| (format!("{}.{word}.bin", sample.record.name()), sample));
    for (file, sample) in named.chain(added) {
        let path = directory(sample.version).join(file);
        if std::env::var_os("NEREUS_WRITE_GOLDEN").is_some() && !path.exists() {
            let mut file = Vec::new();
            file.put_u16(u16::try_from(sample.key.as_bytes().len()).unwrap());
            file.put_slice(sample.key.as_bytes());
            file.put_slice(&sample.value);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, file).unwrap();
        }
        let (key, value) = golden(&path);
        assert_eq!(key, sample.key, "{}", path.display());
        verify(&key, &value).unwrap();
        assert_eq!((sample.rewrite)(&key, &value).unwrap(), value, "{}", path.display());
        assert_eq!(
            sample.value,
            value,
            "{}: this format is on disks already; a change needs a new version",
            path.display()
        );
    }
}
