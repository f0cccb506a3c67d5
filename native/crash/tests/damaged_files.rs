//! Damage in the files around the journal's frames, on a real disk: whatever byte is flipped, an engine serves what was stored, or
//! refuses with an error that says what is damaged and where. Frames byte by byte are the journal's own tests.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test ends at the first thing that is not as it should be"
)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use nereus_core::commit::AppendOutcome;
use nereus_core::cursor::{CursorState, CursorUpdate};
use nereus_core::engine::{Engine, OpenLedger};
use nereus_core::env::real;
use nereus_core::stream::Stream;
use nereus_core::types::Offset;
use nereus_core::{Error, ErrorCode};
use nereus_crash::acks::Acks;
use nereus_crash::broker::FileBroker;
use nereus_crash::child::config;
use nereus_crash::content;
use nereus_crash::report::read;
use tokio::runtime::Runtime;

const TOPICS: u64 = 4;
/// They mostly wait for syncs.
const THREADS: usize = 4;

/// What a topic holds.
#[derive(Debug, PartialEq, Eq)]
struct Content {
    trim: u64,
    ids: Vec<u64>,
    properties: BTreeMap<String, String>,
    cursors: Vec<CursorState>,
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .unwrap()
}

fn open(runtime: &Runtime, directory: &Path) -> Result<Engine, Error> {
    let env = real::env(runtime.handle().clone()).unwrap();
    let broker = FileBroker::open(&directory.join("broker")).unwrap();
    let opening = Engine::open_tuned(env, config(directory), Arc::new(broker), |options| {
        options.reserve_bytes = 0
    });
    runtime.block_on(opening)
}

fn name(topic: u64) -> String {
    format!("public/default/persistent/damage-{topic}")
}

fn put(stream: &Stream, entry: Bytes) {
    let (send, receive) = std::sync::mpsc::channel();
    stream
        .append(entry, 1, move |outcome| {
            let _ = send.send(outcome);
        })
        .unwrap();
    assert!(matches!(receive.recv().unwrap(), AppendOutcome::Committed { .. }));
}

/// A directory as a kill leaves it: some of it behind a checkpoint, some not.
fn fill(runtime: &Runtime, directory: &Path) {
    for round in 0..3u64 {
        let engine = open(runtime, directory).unwrap();
        for topic in 0..TOPICS {
            let request = OpenLedger {
                name: name(topic),
                create_if_missing: true,
                properties: BTreeMap::from([("topic".to_owned(), topic.to_string())]),
                ..OpenLedger::default()
            };
            let stream = runtime.block_on(engine.open_ledger(request)).unwrap().stream;
            for number in 0..60 {
                put(&stream, content::entry((round << 32) + (topic << 16) + number));
            }
            let mut acks = Acks {
                mark: 10 * round,
                ..Acks::default()
            };
            (1..20).for_each(|n| acks.ack(acks.mark + 2 * n));
            let update = CursorUpdate {
                name: "c".into(),
                create: round == 0,
                full: true,
                mark_delete_end: Offset::new(acks.mark),
                position_properties: None,
                cursor_properties: None,
                pages: vec![acks.page(0)],
            };
            runtime.block_on(stream.persist_cursor(update)).unwrap();
            runtime.block_on(stream.trim(Offset::new(5 * round))).unwrap();
        }
        if round < 2 {
            runtime.block_on(engine.close()).unwrap();
        }
    }
}

fn look(runtime: &Runtime, engine: &Engine, topic: u64) -> Result<Content, Error> {
    runtime.block_on(async {
        let opened = engine.open_read_only(&name(topic)).await?;
        let (state, mut ids) = (opened.description.state, Vec::new());
        while state.trim.get() + (ids.len() as u64) < state.end.get() {
            let more = read(&opened.stream, state.trim.get() + ids.len() as u64, 1000).await?;
            assert!(!more.is_empty(), "a stream that is shorter than its end says");
            ids.extend(more);
        }
        Ok(Content {
            trim: state.trim.get(),
            ids,
            properties: opened.description.properties.clone(),
            cursors: opened.description.cursors.clone(),
        })
    })
}

/// Copies a directory; zeros at the end of a file become a hole.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for found in fs::read_dir(from).unwrap() {
        let path = found.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        fs::write(&target, &bytes[..used]).unwrap();
        File::options()
            .write(true)
            .open(&target)
            .unwrap()
            .set_len(bytes.len() as u64)
            .unwrap();
    }
}

/// How damage in a file may show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// Nobody needs what it says.
    Harmless,
    /// Harmless, or refused by name.
    HarmlessOrRefused,
    /// The start is refused, always.
    Refused,
}

/// A file with the places that are damaged, and how that may show.
struct Target {
    file: PathBuf,
    places: Vec<u64>,
    rule: Rule,
}

fn targets(directory: &Path) -> Vec<Target> {
    let mut targets = Vec::new();
    for folder in ["data", "data/metadata", "data/journal"] {
        let mut files: Vec<PathBuf> = fs::read_dir(directory.join(folder))
            .unwrap()
            .map(|found| found.unwrap().path())
            .filter(|path| path.is_file())
            .collect();
        files.sort();
        for file in files {
            let length = fs::metadata(&file).unwrap().len();
            let base = file.file_name().unwrap().to_string_lossy().into_owned();
            let (rule, count) = match base.as_str() {
                "nereus.id" => (Rule::Refused, 20),
                "CURRENT" => (Rule::Refused, 40),
                "nereus.lock" | "LOCK" | "LOG" | "IDENTITY" => (Rule::Harmless, 3),
                other if other.starts_with("OPTIONS-") || other.starts_with("LOG.old") => (Rule::Harmless, 3),
                // Without its own log nothing is in it.
                other if other.ends_with(".log") => (Rule::Harmless, 3),
                other if other.starts_with("MANIFEST-") => (Rule::HarmlessOrRefused, 30),
                other if other.ends_with(".sst") => (Rule::HarmlessOrRefused, 20),
                other if other.ends_with(".seg") => (Rule::HarmlessOrRefused, 12),
                other => panic!("{other} is a file that nobody knows"),
            };
            let places = (0..count).map(|n| n * length / count).filter(|at| *at < length);
            let mut places: Vec<u64> = places.chain(length.checked_sub(1)).collect();
            places.dedup();
            targets.push(Target { file, places, rule });
        }
    }
    targets
}

/// Flips a byte in a copy and says how it shows: the error, if there is one. `Err` = as it must not.
fn damage(
    whole: &Path,
    scratch: &Path,
    target: &Target,
    at: u64,
    expected: &[Content],
) -> Result<Option<Error>, String> {
    let runtime = runtime();
    let copied = scratch.join("copy");
    copy(whole, &copied);
    let path = copied.join(target.file.strip_prefix(whole).unwrap());
    let opened = File::options().read(true).write(true).open(&path).unwrap();
    let mut byte = [0];
    opened.read_exact_at(&mut byte, at).unwrap();
    opened.write_all_at(&[byte[0] ^ (1 << (at % 8))], at).unwrap();
    let mut refused = None;
    let mut wrong = None;
    match open(&runtime, &copied) {
        Err(error) => refused = Some(error),
        Ok(engine) => {
            for (topic, expected) in expected.iter().enumerate() {
                match look(&runtime, &engine, topic as u64) {
                    Ok(found) if &found == expected => {}
                    Ok(found) => wrong = Some(format!("topic {topic} holds {found:?} instead of {expected:?}")),
                    Err(error) => refused = Some(error),
                }
            }
            // What is damaged may show at the last checkpoint only.
            if let Err(error) = runtime.block_on(engine.close()) {
                refused.get_or_insert(error);
            }
        }
    }
    drop(runtime);
    fs::remove_dir_all(&copied).unwrap();
    let complaint = match (&refused, target.rule) {
        _ if wrong.is_some() => wrong,
        (Some(_), Rule::Harmless) => Some("is refused, though nobody needs it".to_owned()),
        (None, Rule::Refused) => Some("is not noticed".to_owned()),
        (Some(error), _) => {
            let text = error.to_string();
            let named = text.contains(&copied.display().to_string()) || text.contains("journal segment 0");
            let typed = error.code() == ErrorCode::Corrupt;
            (!named || !typed).then(|| "is refused without saying where, or as something else".to_owned())
        }
        (None, _) => None,
    };
    match complaint {
        Some(complaint) => Err(format!("byte {at} of {} {complaint}: {refused:?}", path.display())),
        None => Ok(refused),
    }
}

#[test]
fn l12_l17_any_flipped_byte_of_any_file_is_harmless_or_refused_by_name() {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (live, whole) = (scratch.path().join("live"), scratch.path().join("whole"));
    fs::create_dir_all(&live).unwrap();
    let runtime = runtime();
    fill(&runtime, &live);
    // The engine of the last round was dropped as it was: what lies there now is what a kill leaves.
    copy(&live, &whole);
    let expected: Vec<Content> = {
        let undamaged = scratch.path().join("undamaged");
        copy(&whole, &undamaged);
        let engine = open(&runtime, &undamaged).unwrap();
        (0..TOPICS)
            .map(|topic| look(&runtime, &engine, topic).unwrap())
            .collect()
    };
    assert!(expected.iter().all(|content| content.ids.len() == 170));

    let targets = targets(&whole);
    let kinds = |rule| targets.iter().filter(|target| target.rule == rule).count();
    assert!(kinds(Rule::Refused) == 2 && kinds(Rule::HarmlessOrRefused) >= 4 && kinds(Rule::Harmless) >= 4);
    let work: Vec<(&Target, u64)> = targets
        .iter()
        .flat_map(|target| target.places.iter().map(move |at| (target, *at)))
        .collect();
    let (mut noticed, mut wrong) = (0, Vec::new());
    std::thread::scope(|threads| {
        let parts: Vec<_> = work
            .chunks(work.len().div_ceil(THREADS))
            .enumerate()
            .map(|(number, part)| {
                let place = scratch.path().join(number.to_string());
                let (whole, expected) = (&whole, &expected);
                let one = move |(target, at): &(&Target, u64)| damage(whole, &place, target, *at, expected);
                threads.spawn(move || part.iter().map(one).collect::<Vec<_>>())
            })
            .collect();
        for outcome in parts.into_iter().flat_map(|part| part.join().unwrap()) {
            match outcome {
                Ok(refused) => noticed += usize::from(refused.is_some()),
                Err(complaint) => wrong.push(complaint),
            }
        }
    });
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        work.len(),
        wrong.join("\n")
    );
    assert!(noticed > 70, "{noticed} of {} damages were noticed", work.len());
}
