//! What a crash or a take-over at a chosen moment leaves.

use super::*;
use crate::record::{CursorRoot, Record};

#[test]
fn l16_what_a_crash_leaves_between_root_and_reclaim_goes_with_the_next_open() {
    let pages: Vec<AckPage> = (0..300).map(|no| acked(no, [1])).collect();
    let mut seen = Vec::new();
    for crash_after in 0..8 {
        let mut world = World::new();
        let (cursors, _) = world.open().unwrap();
        world
            .rt
            .block_on(cursors.persist(update("a", true, 0, pages.clone())))
            .unwrap();
        let before = (
            world.keys(RecordType::CursorPage).len(),
            world.keys(RecordType::CursorIndex).len(),
        );
        // Page, index record, root, then the two old versions.
        world.faults.halt_after(Some(crash_after));
        let answer = world
            .rt
            .spawn(cursors.persist(update("a", false, 0, vec![acked(150, [2])])));
        let deadline = world.env.clock.monotonic() + std::time::Duration::from_secs(20);
        let all_written = crash_after >= 5;
        while !world.faults.halted() && (!all_written || !answer.is_finished()) {
            assert!(world.env.clock.monotonic() < deadline, "neither done nor halted");
            std::thread::yield_now();
        }
        let answered = answer.is_finished();
        world.faults = Faults::default();
        let (_, states) = world.open().unwrap();
        let new = bits(&states[0].pages[150]) == RoaringBitmap::from([2]);
        assert!(new || !answered, "answered, so it is there");
        assert_eq!(states[0].pages.len(), 300);
        let after = (
            world.keys(RecordType::CursorPage).len(),
            world.keys(RecordType::CursorIndex).len(),
        );
        assert_eq!(after, before, "crash after {crash_after} writes: nothing is left over");
        seen.push(new);
    }
    assert_eq!(seen, [false, false, false, true, true, true, true, true]);
}

/// What happens inside a store between two steps of somebody else.
type Hook = Box<dyn FnOnce() -> BoxFuture<()> + Send>;

/// Runs a hook before the first scan of a kind is answered, or after.
struct Between {
    store: MemoryStore,
    kind: RecordType,
    after: bool,
    hook: Mutex<Option<Hook>>,
}

impl MetadataStore for Between {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }
    fn get(&self, key: Key) -> BoxFuture<Result<Option<Versioned>>> {
        self.store.get(key)
    }
    fn write(&self, batch: Vec<Write>) -> BoxFuture<Vec<Verdict>> {
        self.store.write(batch)
    }
    fn scan(&self, from: Key, to: Key, limit: usize) -> BoxFuture<Result<Vec<(Key, Versioned)>>> {
        let hook = self.hook.lock().take_if(|_| from.kind() == Some(self.kind));
        let (store, after) = (self.store.clone(), self.after);
        Box::pin(async move {
            if after {
                let found = store.scan(from, to, limit).await;
                if let Some(hook) = hook {
                    hook().await;
                }
                return found;
            }
            if let Some(hook) = hook {
                hook().await;
            }
            store.scan(from, to, limit).await
        })
    }
    fn last(&self, from: Key, to: Key) -> BoxFuture<Result<Option<(Key, Versioned)>>> {
        self.store.last(from, to)
    }
}

/// An old owner persists while a new one opens; what it heard must be what the new one sees.
fn persist_while_claiming(kind: RecordType, after: bool) -> (Option<ErrorCode>, CursorState) {
    let mut world = World::new();
    let (old, _) = world.open().unwrap();
    world
        .rt
        .block_on(old.persist(update("a", true, 1, vec![acked(0, [5])])))
        .unwrap();
    let heard: Arc<Mutex<Option<Result<()>>>> = Arc::default();
    let told = heard.clone();
    let hook: Hook = Box::new(move || {
        Box::pin(async move {
            let answer = old.persist(update("a", false, 1, vec![acked(0, [5, 7])])).await;
            *told.lock() = Some(answer);
        })
    });
    let store = Arc::new(Between {
        store: world.store.clone(),
        kind,
        after,
        hook: Mutex::new(Some(hook)),
    });
    // The old owner's engine does not hear of the new epoch: only the roots can fence it.
    let (_, states) = world.claim(store, OwnerEpoch::new(2)).unwrap();
    let answer = heard.lock().take().expect("the old owner persisted meanwhile");
    (answer.err().map(|error| error.code()), states[0].clone())
}

#[test]
fn l05_an_old_owners_persist_before_the_claim_of_its_cursor_is_not_lost() {
    let (refused, state) = persist_while_claiming(RecordType::CursorRoot, true);
    assert_eq!(refused, None, "the root was not claimed yet");
    assert_eq!(bits(&state.pages[0]), RoaringBitmap::from([5, 7]));
}

#[test]
fn l05_an_old_owners_persist_between_claim_and_load_is_refused() {
    for kind in [RecordType::CursorIndex, RecordType::CursorPage] {
        let (refused, state) = persist_while_claiming(kind, false);
        assert_eq!(refused, Some(ErrorCode::Fenced), "{kind:?}");
        assert_eq!(bits(&state.pages[0]), RoaringBitmap::from([5]), "{kind:?}");
    }
}

#[test]
fn l15_a_missing_or_foreign_index_record_is_an_error_never_fewer_acks() {
    let mut world = World::new();
    let (cursors, _) = world.open().unwrap();
    let pages: Vec<AckPage> = (0..300).map(|no| acked(no, [1])).collect();
    world.rt.block_on(cursors.persist(update("a", true, 0, pages))).unwrap();
    let keys = world.keys(RecordType::CursorIndex);
    let value = |key: &Key| world.rt.block_on(world.store.get(key.clone())).unwrap().unwrap().value;
    let (first, second) = (value(&keys[0]), value(&keys[1]));
    world.overwrite(keys[1].clone(), None);
    assert_eq!(code(world.open()), ErrorCode::Corrupt);
    assert_eq!(
        code(world.rt.block_on(read_all(&world.store, STREAM))),
        ErrorCode::Corrupt
    );
    world.overwrite(keys[1].clone(), Some(first));
    assert_eq!(code(world.open()), ErrorCode::Corrupt);
    world.overwrite(keys[1].clone(), Some(second));
    assert_eq!(world.open().unwrap().1[0].pages.len(), 300);
}

#[test]
fn l15_a_store_that_cannot_be_read_fails_the_open_and_loses_nothing_case_014() {
    let mut world = World::new();
    let (cursors, _) = world.open().unwrap();
    // A thousand acks out of order, over more pages than a root names itself.
    for n in 0..10u32 {
        let pages = (0..200).map(|no| acked(no, (0..=n).map(|k| k * 7))).collect();
        world
            .rt
            .block_on(cursors.persist(update("a", n == 0, 0, pages)))
            .unwrap();
    }
    let (before, keys) = (world.faults.writes(), world.keys(RecordType::CursorPage));
    world.faults.fail_reads(true);
    for _ in 0..3 {
        assert_eq!(
            code(world.open()),
            ErrorCode::Unavailable,
            "not possible now; never an empty cursor"
        );
    }
    assert_eq!(world.faults.writes(), before, "nothing was overwritten");
    world.faults.fail_reads(false);
    let (_, states) = world.open().unwrap();
    assert_eq!(world.keys(RecordType::CursorPage), keys);
    let acks: u64 = states[0].pages.iter().map(|page| bits(page).len()).sum();
    assert_eq!(acks, 2000);
}

/// A page without acks: it is removed.
fn none(page_no: u64) -> AckPage {
    AckPage {
        page_no,
        ..AckPage::default()
    }
}

#[test]
fn l06_a_large_persist_whose_answer_was_lost_is_built_upon_correctly() {
    let mut world = World::new();
    let (cursors, _) = world.open().unwrap();
    let pages: Vec<AckPage> = (0..300).map(|no| acked(no, [1])).collect();
    world.rt.block_on(cursors.persist(update("a", true, 0, pages))).unwrap();
    // The next root meets one that this owner wrote and does not know of: it has to read the names again.
    let key = world.keys(RecordType::CursorRoot).remove(0);
    let stored = world.rt.block_on(world.store.get(key.clone())).unwrap().unwrap();
    let root = CursorRoot::decode(&key, &stored.value).unwrap();
    world.overwrite(key, Some(root.encode().unwrap()));
    world
        .rt
        .block_on(cursors.persist(update("a", false, 0, vec![acked(7, [1, 2]), none(299)])))
        .unwrap();
    let (_, states) = world.open().unwrap();
    assert_eq!(states[0].pages.len(), 299);
    assert_eq!(bits(&states[0].pages[7]), RoaringBitmap::from([1, 2]));
}
