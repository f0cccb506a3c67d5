//! The model in the bounds in which every guard is missed: seconds, where `nereus-model` takes a minute for the larger ones.

use nereus_model::check::{self, SMALL};
use nereus_model::guard::{Guard, Law};

#[test]
fn l01_l02_l03_l04_l05_l06_no_law_breaks_with_all_guards() {
    let seen = check::whole(SMALL, 1);
    assert!(seen.violations.is_empty(), "{:#?}", seen.violations);
    assert!(
        seen.states > 50_000,
        "only {} states: something no longer happens",
        seen.states
    );
}

#[test]
fn model_gets_into_every_situation_that_it_is_meant_to_judge() {
    let seen = check::situations(SMALL, 1);
    assert_eq!(seen.missing, Vec::<&str>::new());
    assert!(seen.violations.is_empty(), "{:#?}", seen.violations);
}

#[test]
fn every_law_has_a_guard() {
    for law in Law::ALL {
        assert!(Guard::ALL.iter().any(|guard| guard.protects() == law), "{}", law.name());
    }
}

macro_rules! without {
    ($($test:ident: $guard:ident breaks $law:ident;)*) => {$(
        #[test]
        fn $test() {
            assert_eq!(Guard::$guard.protects(), Law::$law);
            let seen = check::without(Guard::$guard, SMALL);
            let broken: Vec<_> = seen.violations.iter().map(|violation| violation.law).collect();
            assert_eq!(broken, [Law::$law.name()], "without {} nothing was found in {} states", Guard::$guard.name(), seen.states);
            assert!(!seen.violations[0].trace.is_empty());
        }
    )*

    #[test]
    fn every_guard_has_a_test() {
        assert_eq!([$(Guard::$guard),*], Guard::ALL);
    }};
}

without! {
    l05_breaks_when_an_old_epoch_is_admitted: OwnerEpoch breaks L5;
    l03_breaks_when_the_head_goes_out_before_the_intent_is_durable: IntentFirst breaks L3;
    l06_breaks_when_an_unknown_is_retried_as_a_new_append: SuspendInDoubt breaks L6;
    l06_breaks_when_the_ring_is_not_searched: SearchRing breaks L6;
    l06_breaks_when_the_pages_are_not_searched: SearchPages breaks L6;
    l06_breaks_when_silence_is_taken_for_a_verdict: NothingFromSilence breaks L6;
    l02_breaks_when_the_update_names_no_version: NamedVersion breaks L2;
    l04_breaks_when_an_append_need_not_start_at_the_end: DenseStart breaks L4;
    l01_breaks_when_the_wal_write_is_the_acknowledgement: VerdictFirst breaks L1;
    l01_breaks_when_the_end_is_read_before_the_fence: FenceFirst breaks L1;
    l04_breaks_when_a_commit_leaves_the_ring_before_its_page_is_durable: PageFirst breaks L4;
}
