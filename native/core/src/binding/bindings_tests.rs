use futures::executor::block_on;
use futures::FutureExt;
use proptest::prelude::*;

use super::super::testing::World;
use super::*;
use crate::error::ErrorCode;
use crate::metadata::faults::Fault;

const NAME: &str = "public/default/persistent/orders";
const NODE: &str = "/managed-ledgers/public/default/persistent/orders";

fn request(create: bool) -> OpenBinding<'static> {
    OpenBinding {
        name: NAME,
        create,
        profile: Profile::LocalWalAsyncObject,
    }
}

fn open(world: &World, create: bool) -> Result<Bound> {
    block_on(world.bindings().open(&request(create), &world.streams))
}

fn delete(world: &World) -> Result<()> {
    block_on(async {
        let bindings = world.bindings();
        let deleting = bindings.begin_delete(NAME, &world.streams).await?;
        bindings.finish_delete(&deleting, &world.streams).await
    })
}

fn stored(world: &World) -> Option<Binding> {
    block_on(world.bindings().read(NAME))
        .unwrap()
        .map(|(binding, _)| binding)
}

fn set_node(world: &World, value: &'static [u8]) {
    let put = BrokerStore::put(&world.broker, NODE, bytes::Bytes::from_static(value), Expected::Any);
    assert!(matches!(block_on(put), crate::metadata::Verdict::Applied(_)));
}

/// What holds whenever a creation is complete.
#[track_caller]
fn check_complete(world: &World, bound: &Bound) {
    let binding = stored(world).unwrap();
    assert_eq!(binding, bound.binding);
    assert_eq!(binding.state, BindingState::Active);
    assert!(
        world.streams.end_of(binding.stream).is_some(),
        "an active binding has a head"
    );
    let node = world.broker.peek(NODE).unwrap();
    assert_eq!(node, format!("nereus/1 {}", binding.incarnation));
}

/// What holds whenever a deletion is complete.
#[track_caller]
fn check_gone(world: &World) {
    let binding = stored(world).unwrap();
    assert_eq!(binding.state, BindingState::Tombstone);
    assert_eq!(world.streams.end_of(binding.stream), None);
    assert_eq!(world.broker.peek(NODE), None);
    assert_eq!(open(world, false).unwrap_err().code(), ErrorCode::NotFound);
    assert_eq!(
        block_on(world.bindings().find(NAME)).unwrap_err().code(),
        ErrorCode::NotFound
    );
}

#[test]
fn a_topic_is_created_once_and_found_again() {
    let world = World::new();
    assert_eq!(open(&world, false).unwrap_err().code(), ErrorCode::NotFound);
    assert_eq!(world.broker.faults().writes(), 0, "asking creates nothing");
    let bound = open(&world, true).unwrap();
    assert!(bound.created);
    check_complete(&world, &bound);
    assert_eq!(bound.binding.incarnation, Incarnation::new(1));
    assert_eq!(bound.binding.projection.first, VirtualLedger::FIRST);
    let again = open(&world, true).unwrap();
    assert!(!again.created);
    assert_eq!(again.binding, bound.binding);
    assert_eq!(block_on(world.bindings().find(NAME)).unwrap(), bound.binding);
    assert_eq!(block_on(world.bindings().names()).unwrap(), [NAME]);
}

#[test]
fn l13_a_profile_is_kept_for_life() {
    let world = World::new();
    open(&world, true).unwrap();
    let other = OpenBinding {
        profile: Profile::ObjectWalAsyncObject,
        ..request(true)
    };
    let bound = block_on(world.bindings().open(&other, &world.streams)).unwrap();
    assert_eq!(bound.binding.profile, Profile::LocalWalAsyncObject);
}

#[test]
fn l13_a_recreation_is_a_new_incarnation_with_ids_above_all_that_were_used() {
    let world = World::new();
    let first = open(&world, true).unwrap().binding;
    // Far past the range of ids that was granted with it.
    let end = (1000 << 16) + 5;
    world.streams.append_to(first.stream, end);
    delete(&world).unwrap();
    check_gone(&world);
    let tombstone = stored(&world).unwrap();
    assert_eq!(tombstone.highest_ledger, first.projection.first.get() + 1000);
    let second = open(&world, true).unwrap();
    check_complete(&world, &second);
    let second = second.binding;
    assert_eq!(second.incarnation, Incarnation::new(2));
    assert_ne!(second.stream, first.stream);
    assert_eq!(second.projection.first.get(), tombstone.highest_ledger + 1);
    assert_eq!(
        world.streams.end_of(second.stream),
        Some(0),
        "nothing of the first life shows"
    );
    delete(&world).unwrap();
    let third = open(&world, true).unwrap().binding;
    assert!(third.projection.first > second.projection.first);
    assert_eq!(third.incarnation, Incarnation::new(3));
}

#[test]
fn l13_an_active_binding_without_a_head_is_damage_never_an_empty_topic() {
    let world = World::new();
    let bound = open(&world, true).unwrap();
    world.streams.append_to(bound.binding.stream, 7);
    world.streams.lose(bound.binding.stream);
    for result in [
        open(&world, true).map(drop),
        open(&world, false).map(drop),
        delete(&world),
    ] {
        let error = result.unwrap_err();
        assert_eq!(error.code(), ErrorCode::Corrupt);
        assert!(error.to_string().contains(NAME), "{error}");
    }
    assert_eq!(world.streams.count(), 0, "no second, empty store was opened");
    assert_eq!(stored(&world).unwrap(), bound.binding);
}

#[test]
fn l13_a_head_lost_in_the_middle_of_a_deletion_is_damage_too() {
    let world = World::new();
    let bound = open(&world, true).unwrap();
    let deleting = block_on(world.bindings().begin_delete(NAME, &world.streams)).unwrap();
    world.streams.lose(bound.binding.stream);
    let error = block_on(world.bindings().finish_delete(&deleting, &world.streams)).unwrap_err();
    assert_eq!(
        error.code(),
        ErrorCode::Corrupt,
        "its ledger ids cannot be told any more"
    );
}

#[test]
fn l14_a_stock_topic_is_refused_before_anything_is_written() {
    let world = World::new();
    set_node(&world, b"\x08\x01stock");
    let before = world.broker.faults().writes();
    let error = open(&world, true).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Invalid);
    assert!(
        error.to_string().contains(NAME) && error.to_string().contains("stock"),
        "{error}"
    );
    assert_eq!(world.broker.faults().writes(), before);
    assert_eq!(stored(&world), None);
    assert_eq!(world.streams.count(), 0);
}

#[test]
fn l13_a_stock_value_under_a_tombstone_or_an_active_binding_is_refused_too() {
    let world = World::new();
    open(&world, true).unwrap();
    set_node(&world, b"stock");
    assert_eq!(open(&world, true).unwrap_err().code(), ErrorCode::Invalid);
    delete(&world).unwrap();
    assert_eq!(
        world.broker.peek(NODE).unwrap(),
        "stock",
        "a stock node is never taken away"
    );
    assert_eq!(open(&world, true).unwrap_err().code(), ErrorCode::Invalid);
    assert_eq!(stored(&world).unwrap().state, BindingState::Tombstone);
}

#[test]
fn an_empty_registry_node_is_adopted_by_an_open_and_left_alone_by_a_reader() {
    let world = World::new();
    set_node(&world, b"");
    let missing = block_on(world.bindings().find(NAME)).unwrap_err();
    assert_eq!(missing.code(), ErrorCode::NotFound);
    assert_eq!(world.broker.peek(NODE).unwrap(), "");
    check_complete(&world, &open(&world, true).unwrap());
}

#[test]
fn a_missing_registry_node_of_an_active_binding_is_made_again_and_data_kept() {
    let world = World::new();
    let bound = open(&world, true).unwrap();
    world.streams.append_to(bound.binding.stream, 9);
    drop(block_on(BrokerStore::delete(&world.broker, NODE, Expected::Any)));
    check_complete(&world, &open(&world, false).unwrap());
    assert_eq!(world.streams.end_of(bound.binding.stream), Some(9));
}

#[test]
fn l13_a_marker_without_a_binding_is_damage_never_an_empty_topic() {
    let world = World::new();
    set_node(&world, b"nereus/1 4");
    assert_eq!(open(&world, true).unwrap_err().code(), ErrorCode::Corrupt);
    assert_eq!(stored(&world), None);
}

#[test]
fn a_marker_left_behind_by_a_finished_life_is_taken_away() {
    let world = World::new();
    open(&world, true).unwrap();
    delete(&world).unwrap();
    set_node(&world, b"nereus/1 1");
    assert_eq!(open(&world, false).unwrap_err().code(), ErrorCode::NotFound);
    check_gone(&world);
}

#[test]
fn a_topic_of_another_storage_class_is_refused_for_life() {
    let world = World::new();
    let mut binding = open(&world, true).unwrap().binding;
    binding.class = StorageClass::Bookkeeper;
    binding.stream = StreamId::new(0);
    binding.projection.first = VirtualLedger::new(0);
    let wrote = block_on(world.truth().write(Expected::Any, &binding)).unwrap();
    assert!(matches!(wrote, Wrote::Done(_)));
    for result in [
        open(&world, true).map(drop),
        delete(&world),
        block_on(world.bindings().find(NAME)).map(drop),
    ] {
        let error = result.unwrap_err();
        assert_eq!(error.code(), ErrorCode::Invalid);
        assert!(error.to_string().contains("bookkeeper"), "{error}");
    }
}

#[test]
fn a_deletion_happens_once() {
    let world = World::new();
    assert_eq!(delete(&world).unwrap_err().code(), ErrorCode::NotFound);
    open(&world, true).unwrap();
    let bindings = world.bindings();
    let deleting = block_on(bindings.begin_delete(NAME, &world.streams)).unwrap();
    assert_eq!(
        block_on(bindings.find(NAME)).unwrap_err().code(),
        ErrorCode::NotFound,
        "no reader finds it any more"
    );
    block_on(bindings.finish_delete(&deleting, &world.streams)).unwrap();
    check_gone(&world);
    let recreated = open(&world, true).unwrap();
    // A deleter that comes back late finds another incarnation and leaves it alone.
    block_on(bindings.finish_delete(&deleting, &world.streams)).unwrap();
    check_complete(&world, &recreated);
    delete(&world).unwrap();
    assert_eq!(delete(&world).unwrap_err().code(), ErrorCode::NotFound);
}

/// Runs `action` with a crash after each number of steps until one passes unharmed; `check` sees the world after each crash.
fn crash_at_every_step(prepare: impl Fn(&World), action: impl Fn(&World) -> Option<()>, check: impl Fn(&World, u64)) {
    let mut crashes = 0;
    for steps in 0.. {
        let world = World::new();
        prepare(&world);
        world.broker.faults().halt_after(Some(steps));
        let passed = action(&world).is_some();
        world.broker.faults().halt_after(None);
        check(&world, steps);
        if passed {
            break;
        }
        crashes += 1;
    }
    assert!(crashes >= 4, "{crashes} steps are too few: the steps are not counted");
}

fn create_or_crash(world: &World) -> Option<()> {
    world
        .bindings()
        .open(&request(true), &world.streams)
        .now_or_never()
        .map(|bound| drop(bound.unwrap()))
}

fn delete_or_crash(world: &World) -> Option<()> {
    let bindings = world.bindings();
    let deletion = async {
        let deleting = bindings.begin_delete(NAME, &world.streams).await.unwrap();
        bindings.finish_delete(&deleting, &world.streams).await.unwrap();
    };
    deletion.now_or_never()
}

#[test]
fn l13_a_creation_crashed_at_any_step_is_completed_by_the_next_open() {
    crash_at_every_step(
        |_| {},
        create_or_crash,
        |world, _| {
            // A topic that was begun is completed also by an open that would not create.
            let begun = stored(world).is_some();
            match open(world, false) {
                Ok(bound) => check_complete(world, &bound),
                Err(error) => {
                    assert!(!begun, "{error}");
                    assert_eq!(error.code(), ErrorCode::NotFound);
                }
            }
            let bound = open(world, true).unwrap();
            check_complete(world, &bound);
            assert_eq!(bound.binding.incarnation, Incarnation::new(1));
            assert_eq!(world.streams.count(), 1);
        },
    );
}

#[test]
fn l13_a_deletion_crashed_at_any_step_is_completed_by_the_next_delete() {
    crash_at_every_step(
        |world| {
            world
                .streams
                .append_to(open(world, true).unwrap().binding.stream, 70_000)
        },
        delete_or_crash,
        |world, _| {
            if stored(world).unwrap().state != BindingState::Tombstone {
                delete(world).unwrap();
            }
            check_gone(world);
            assert_eq!(stored(world).unwrap().highest_ledger, VirtualLedger::FIRST.get() + 1);
            assert_eq!(world.streams.count(), 0);
        },
    );
}

#[test]
fn l13_an_open_after_a_crashed_deletion_never_shows_the_old_life_half_dead() {
    crash_at_every_step(
        |world| {
            world
                .streams
                .append_to(open(world, true).unwrap().binding.stream, 70_000)
        },
        delete_or_crash,
        |world, steps| {
            let before = stored(world).unwrap();
            if before.state == BindingState::Active {
                assert_eq!(steps, 0);
                assert_eq!(
                    world.streams.end_of(before.stream),
                    Some(70_000),
                    "untouched as long as it is active"
                );
                return;
            }
            assert_eq!(open(world, false).unwrap_err().code(), ErrorCode::NotFound);
            check_gone(world);
            let second = open(world, true).unwrap();
            check_complete(world, &second);
            assert_eq!(second.binding.incarnation, Incarnation::new(2));
            assert!(second.binding.projection.first.get() > VirtualLedger::FIRST.get() + 1);
            assert_eq!(world.streams.count(), 1);
        },
    );
}

#[test]
fn a_creation_crashed_at_any_step_can_be_deleted() {
    crash_at_every_step(
        |_| {},
        create_or_crash,
        |world, _| {
            if stored(world).is_some() {
                delete(world).unwrap();
                check_gone(world);
                assert_eq!(world.streams.count(), 0);
                let again = open(world, true).unwrap();
                check_complete(world, &again);
                assert_eq!(again.binding.incarnation, Incarnation::new(2));
                assert!(again.binding.projection.first > VirtualLedger::FIRST);
            }
        },
    );
}

#[test]
fn l06_lost_late_and_refused_answers_at_every_step_end_complete() {
    for fault in [Fault::LoseAnswer, Fault::Late, Fault::Refuse] {
        for nth in 1..20 {
            let world = World::new();
            let faults = world.broker.faults();
            faults.nth(nth, fault);
            // A step that was refused ends the open; the next one goes on.
            let bound = open(&world, true).or_else(|_| open(&world, true)).unwrap();
            block_on(faults.arrive());
            check_complete(&world, &bound);
            assert_eq!(bound.binding.incarnation, Incarnation::new(1), "{fault:?} at {nth}");
            world.streams.append_to(bound.binding.stream, 3);

            faults.clear();
            faults.nth(nth, fault);
            let deleted = delete(&world).or_else(|_| delete(&world));
            block_on(faults.arrive());
            assert!(deleted.is_ok(), "{fault:?} at {nth}: {deleted:?}");
            check_gone(&world);
        }
    }
}

#[test]
fn a_store_that_cannot_be_read_is_unavailable_never_absent() {
    let world = World::new();
    open(&world, true).unwrap();
    world.broker.faults().fail_reads(true);
    for result in [
        open(&world, true).map(drop),
        delete(&world),
        block_on(world.bindings().find(NAME)).map(drop),
    ] {
        assert_eq!(result.unwrap_err().code(), ErrorCode::Unavailable);
    }
    world.broker.faults().fail_reads(false);
    check_complete(&world, &open(&world, false).unwrap());
}

type Interruption<'a> = Box<dyn FnOnce(&World) + Send + 'a>;

/// Where another opener or deleter acts in between two steps of ours: the steps of the stream call it.
struct Meanwhile<'a> {
    world: &'a World,
    action: parking_lot::Mutex<Option<Interruption<'a>>>,
}

impl StreamSteps for Meanwhile<'_> {
    fn create(&self, binding: Binding) -> BoxFuture<Result<()>> {
        let created = self.world.streams.create(binding);
        if let Some(action) = self.action.lock().take() {
            action(self.world);
        }
        created
    }

    fn end(&self, stream: StreamId) -> BoxFuture<Result<Option<Offset>>> {
        self.world.streams.end(stream)
    }

    fn seal(&self, stream: StreamId) -> BoxFuture<Result<Option<Offset>>> {
        self.world.streams.seal(stream)
    }

    fn remove(&self, stream: StreamId) -> BoxFuture<Result<()>> {
        self.world.streams.remove(stream)
    }
}

fn open_meanwhile(world: &World, create: bool, action: impl FnOnce(&World) + Send) -> Result<Bound> {
    let steps = Meanwhile {
        world,
        action: parking_lot::Mutex::new(Some(Box::new(action))),
    };
    // Not under `block_on`: the action has one of its own.
    world
        .bindings()
        .open(&request(create), &steps)
        .now_or_never()
        .expect("nothing waits in this world")
}

#[test]
fn l13_two_openers_at_once_end_with_exactly_one_topic() {
    let world = World::new();
    let theirs = parking_lot::Mutex::new(None);
    let ours = open_meanwhile(&world, true, |world| *theirs.lock() = Some(open(world, true).unwrap())).unwrap();
    let theirs = theirs.into_inner().unwrap();
    assert_eq!(ours.binding, theirs.binding);
    assert_ne!(ours.created, theirs.created, "one of them created it");
    check_complete(&world, &ours);
    assert_eq!(world.streams.count(), 1);
}

#[test]
fn l13_many_openers_racing_from_the_first_step_end_with_exactly_one_topic() {
    let world = World::new();
    let openers: Vec<Bindings> = (0..8).map(|_| world.bindings()).collect();
    let wanted = request(true);
    let opens = futures::future::join_all(openers.iter().map(|bindings| bindings.open(&wanted, &world.streams)));
    let bound: Vec<Bound> = block_on(opens).into_iter().map(|bound| bound.unwrap()).collect();
    assert!(bound.iter().all(|one| one.binding == bound[0].binding));
    assert_eq!(bound.iter().filter(|one| one.created).count(), 1);
    assert_eq!(world.streams.count(), 1);
}

#[test]
fn a_creator_overtaken_by_a_deletion_leaves_nothing_behind() {
    let world = World::new();
    open_meanwhile(&world, true, |_| {}).unwrap();
    delete(&world).unwrap();
    let second = open_meanwhile(&world, true, |world| {
        check_complete(world, &open(world, true).unwrap());
        delete(world).unwrap();
    });
    // Its own incarnation is gone; what it opens is the next one.
    let bound = second.unwrap();
    assert_eq!(bound.binding.incarnation, Incarnation::new(3));
    check_complete(&world, &bound);
}

#[derive(Debug, Clone)]
enum Action {
    Open { create: bool },
    Delete,
    Append(u64),
    Fault(u64, Fault),
    Halt(u64),
    Restart,
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let faults = prop_oneof![Just(Fault::LoseAnswer), Just(Fault::Late), Just(Fault::Refuse)];
    let action = prop_oneof![
        3 => any::<bool>().prop_map(|create| Action::Open { create }),
        2 => Just(Action::Delete),
        2 => (1u64..1 << 26).prop_map(Action::Append),
        1 => (1u64..6, faults).prop_map(|(nth, fault)| Action::Fault(nth, fault)),
        1 => (0u64..6).prop_map(Action::Halt),
        2 => Just(Action::Restart),
    ];
    prop::collection::vec(action, 1..30)
}

proptest! {
    /// Random histories with crashes and faults against the claim of L13: what is readable is whole, and nothing comes back.
    #[test]
    fn l13_no_history_shows_a_topic_that_is_silently_empty_or_reuses_ids(actions in actions()) {
        let world = World::new();
        let mut appended = 0u64;
        let mut seen: Option<Binding> = None;
        for action in actions {
            let bindings = world.bindings();
            match action {
                Action::Open { create } => {
                    if let Some(Ok(bound)) = bindings.open(&request(create), &world.streams).now_or_never() {
                        check_complete(&world, &bound);
                        let binding = bound.binding;
                        match &seen {
                            Some(old) if old.incarnation == binding.incarnation => {
                                prop_assert_eq!(old.stream, binding.stream);
                                prop_assert_eq!(old.projection, binding.projection);
                            }
                            Some(old) => {
                                prop_assert!(binding.incarnation > old.incarnation);
                                prop_assert_ne!(old.stream, binding.stream);
                                let used = old.projection.position(Offset::new(appended)).unwrap().0;
                                prop_assert!(binding.projection.first > used, "{:?} after {:?}", binding, old);
                                appended = 0;
                            }
                            None => {}
                        }
                        prop_assert_eq!(world.streams.end_of(binding.stream), Some(appended));
                        seen = Some(binding);
                    }
                }
                Action::Delete => {
                    if let Some(Ok(deleting)) = bindings.begin_delete(NAME, &world.streams).now_or_never() {
                        let _ = bindings.finish_delete(&deleting, &world.streams).now_or_never();
                    }
                }
                Action::Append(more) => {
                    // Only an owner of an active topic appends.
                    let live = stored(&world).filter(|binding| binding.state == BindingState::Active);
                    if let (Some(live), Some(known)) = (live, &seen) {
                        if live.stream == known.stream {
                            appended += more;
                            world.streams.append_to(live.stream, appended);
                        }
                    }
                }
                Action::Fault(nth, fault) => world.broker.faults().nth(nth, fault),
                Action::Halt(steps) => world.broker.faults().halt_after(Some(steps)),
                Action::Restart => {
                    world.broker.faults().halt_after(None);
                    block_on(world.broker.faults().arrive());
                }
            }
        }
        world.broker.faults().halt_after(None);
        block_on(world.broker.faults().arrive());
        let bound = (0..10).find_map(|_| open(&world, true).ok());
        check_complete(&world, &bound.expect("the faults are used up after a few opens"));
    }
}

#[test]
fn an_announced_name_exists_for_every_open() {
    let world = World::new();
    set_node(&world, b"");
    let bound = open(&world, false).unwrap();
    assert!(bound.created);
    check_complete(&world, &bound);
    delete(&world).unwrap();
    check_gone(&world);
    set_node(&world, b"");
    let again = open(&world, false).unwrap();
    check_complete(&world, &again);
    assert!(again.binding.incarnation > bound.binding.incarnation);
}

#[test]
fn an_announced_name_is_withdrawn_and_nothing_else_is() {
    let world = World::new();
    assert!(!block_on(world.bindings().withdraw(NAME)).unwrap());
    set_node(&world, b"");
    assert!(block_on(world.bindings().withdraw(NAME)).unwrap());
    assert_eq!(world.broker.peek(NODE), None);
    let bound = open(&world, true).unwrap();
    assert!(!block_on(world.bindings().withdraw(NAME)).unwrap());
    check_complete(&world, &bound);
}
