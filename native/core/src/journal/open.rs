//! Opening a journal: what must be there, recovery, and the segment to go on in.
//!
//! A first start makes the backend's files, then segment 1, then the position in the backend; so a directory with segments that
//! hold frames but no position has lost its metadata, and one with a position but no segments its journal. Neither is empty.

use std::sync::Arc;

use super::backend::StateBackend;
use super::checkpoint::{Checkpoints, Due};
use super::group::MAX_VALUE;
use super::lane::{largest_frame, Lane, Shared, Start, Tuning};
use super::layout::Position;
use super::options::Options;
use super::pool::Pool;
use super::queue::Queue;
use super::reclaim::Reclaim;
use super::recovery::{recover, Recovered};
use super::removal::Removal;
use super::rocks::{Presence, Rocks};
use super::roll::{Current, Roll};
use super::scan::{Found, Scan};
use super::segment::{SegmentHeader, Segments, HEADER_BYTES};
use super::space::Space;
use super::state::StateTable;
use super::stats::Counters;
use super::Journal;
use crate::env::Env;
use crate::error::{Error, Result};
use crate::metadata::embedded::Embedded;

/// Where the state lies.
pub enum Backend {
    /// RocksDB below the data directory.
    Rocks,
    /// This one.
    #[cfg(any(test, feature = "sim"))]
    Given(Arc<dyn StateBackend>),
}

/// Opens; the lane is to be started by the caller. Blocking.
pub fn open(env: Env, options: Options, backend: Backend) -> Result<(Journal, Lane)> {
    options.check()?;
    let began = env.clock.monotonic();
    let segments = Arc::new(Segments::with_pool(
        env.disk.clone(),
        options.directory.join("journal"),
        Pool::new(options.segment_bytes, options.checkpoint_bytes),
    )?);
    segments.clean(options.directory_id)?;
    let fresh = is_fresh(&segments, &options)?;
    let metadata = options.directory.join("metadata");
    let place = metadata.display().to_string();
    let backend: Arc<dyn StateBackend> = match backend {
        Backend::Rocks => {
            let presence = if fresh {
                Presence::CreateIfMissing
            } else {
                Presence::Required
            };
            Arc::new(Rocks::open(&metadata, presence, options.metadata_cache_bytes)?)
        }
        #[cfg(any(test, feature = "sim"))]
        Backend::Given(backend) => backend,
    };
    if fresh {
        // Both directories are there before anything in them counts.
        let failed = |e| Error::io("sync", options.directory.display().to_string(), e);
        env.disk.sync_dir(&options.directory).map_err(failed)?;
    }
    let run = env.random.next_u64();
    let state = StateTable::load(backend.clone(), options.directory_id, &place)?;
    let (state, recovered, current) = match state {
        Some(state) => {
            let recovered = recover(&segments, &state, options.directory_id)?;
            let current = go_on(&segments, &options, run, &recovered)?;
            (state, recovered, current)
        }
        None if fresh => begin(&segments, &options, run, backend, &place)?,
        None => {
            return Err(Error::Corrupt {
                what: "the embedded metadata store".into(),
                place,
                detail: "it is empty, but there are journal segments: restore the whole data directory from a copy"
                    .into(),
            })
        }
    };
    let position = Position {
        segment: current.header.sequence,
        offset: HEADER_BYTES,
        ..recovered.position
    };
    state.publish(super::state::Update::default(), position);
    let counters = Arc::new(Counters::default());
    let now = env.clock.monotonic();
    let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Counters::set(&counters.replayed_frames, recovered.frames);
    Counters::set(&counters.replay_bytes, recovered.bytes);
    Counters::set(&counters.recovery_millis, millis(now.saturating_sub(began)));
    Counters::set(&counters.checkpoint_millis, millis(now));
    Counters::set(&counters.oldest_segment, segments.list()?.first().copied().unwrap_or(0));
    tracing::info!(
        directory = %segments.directory().display(),
        frames = recovered.frames,
        bytes = recovered.bytes,
        millis = millis(now.saturating_sub(began)),
        "journal recovered"
    );
    let shared = Arc::new(Shared {
        queue: Queue::default(),
        state: Arc::new(state),
        counters,
        poison: Default::default(),
    });
    let tuning = Tuning {
        group_bytes: options.group_bytes,
        frame_bytes: largest_frame(options.segment_bytes),
        marker_delay: options.marker_delay,
    };
    let due = Due {
        bytes: options.checkpoint_bytes,
        dirty: options.checkpoint_dirty,
    };
    let removal = Removal::new(segments.clone(), env.clone(), options.reserve_bytes);
    // Left by the run before, or set free by this recovery: nobody waits for it.
    segments.put_aside()?.into_iter().for_each(|file| removal.take(file));
    let reclaim = Arc::new(Reclaim::new(
        segments.clone(),
        shared.state.clone(),
        removal.clone(),
        options.reserve_bytes,
    ));
    // So that a refusal before the first checkpoint names somebody, too.
    reclaim.oldest();
    let lane = Lane::new(
        env.clone(),
        shared.clone(),
        tuning,
        Roll::new(segments.clone(), reclaim.clone(), current),
        Space::new(segments.clone(), reclaim.clone(), options.reserve_bytes),
        Checkpoints::new(due, recovered.bytes, reclaim.clone()),
        Start {
            run,
            position,
            witnesses: recovered.witnesses,
        },
    );
    let store = Arc::new(Embedded::new(env.clone(), shared.clone(), MAX_VALUE));
    Ok((
        Journal {
            env,
            shared,
            segments,
            reclaim,
            removal,
            store,
            max_entry: options.max_entry,
        },
        lane,
    ))
}

/// Whether nothing has ever been written here: no segment, or the first one without a frame. Dead segments were written.
fn is_fresh(segments: &Arc<Segments>, options: &Options) -> Result<bool> {
    if segments.free_files() != (0, 0) {
        return Ok(false);
    }
    match segments.list()?.as_slice() {
        [] => Ok(true),
        [1] => {
            let mut scan = Scan::open(segments.clone(), &[1], options.directory_id)?;
            Ok(
                matches!(scan.at(0, HEADER_BYTES)?, Found::Nothing)
                    && scan.behind(0, HEADER_BYTES)?.end == HEADER_BYTES,
            )
        }
        _ => Ok(false),
    }
}

fn begin(
    segments: &Segments,
    options: &Options,
    run: u64,
    backend: Arc<dyn StateBackend>,
    place: &str,
) -> Result<(StateTable, Recovered, Current)> {
    let current = make(segments, options, run, 1, 0)?;
    let position = Position {
        segment: 1,
        offset: HEADER_BYTES,
        sequence: 1,
        versions: 0,
    };
    let state = StateTable::create(backend, options.directory_id, place, position)?;
    let recovered = Recovered {
        position,
        witnesses: Vec::new(),
        frames: 0,
        bytes: 0,
        next_segment: 1,
        previous_length: 0,
        shorten: false,
    };
    Ok((state, recovered, current))
}

/// Makes the next segment first, which records how long the one before is to be; only then that one is shortened.
fn go_on(segments: &Segments, options: &Options, run: u64, recovered: &Recovered) -> Result<Current> {
    let next = recovered.next_segment;
    for stale in segments.list()?.into_iter().filter(|sequence| *sequence > next) {
        segments
            .retire(stale, true)
            .map_err(|e| Error::io("remove", segments.path(stale).display().to_string(), e))?;
    }
    let current = make(segments, options, run, next, recovered.previous_length)?;
    if recovered.shorten {
        let before = next.saturating_sub(1);
        let failed = |op| move |e| Error::io(op, segments.path(before).display().to_string(), e);
        let file = segments.writer(before).map_err(failed("open"))?;
        file.set_length(recovered.previous_length)
            .and_then(|()| file.sync_data())
            .map_err(failed("shorten"))?;
    }
    Ok(current)
}

fn make(segments: &Segments, options: &Options, run: u64, sequence: u64, previous_length: u64) -> Result<Current> {
    let header = SegmentHeader {
        directory_id: options.directory_id,
        sequence,
        run,
        length: options.segment_bytes,
        previous_length,
    };
    let file = segments
        .create(&header)
        .map_err(|e| Error::io("create", segments.path(sequence).display().to_string(), e))?;
    Ok(Current { file, header })
}
