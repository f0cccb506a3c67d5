//! Histories by hand: each thing that must not be is noticed, and each thing that may be passes.

use super::*;

/// A topic of ledger 100 with entries 1 to 6, of which 1 to 4 are acknowledged; trimmed to 1, maybe to 2; one cursor.
fn history() -> (Topic, Verdict) {
    let (mut topic, mut verdict) = (Topic::default(), Verdict::default());
    let mut ask = |ask| topic.ask(ask, &mut verdict);
    ask(Ask::Create);
    (1..=6).for_each(|id| ask(Ask::Append { id }));
    ask(Ask::Trim { number: 1, before: 1 });
    ask(Ask::Trim { number: 2, before: 2 });
    ask(Ask::Properties { number: 1, value: 7 });
    for (number, acks) in [(1, "0;2;"), (2, "1;2,3;"), (3, "3;3;")] {
        let (cursor, acks) = ("c".to_owned(), acks.parse().ok());
        ask(Ask::Acks { cursor, number, acks });
    }
    topic.done(Done::Create { ledger: 100 }, &mut verdict);
    for id in 1..=4 {
        topic.done(Done::Append { id, offset: id - 1 }, &mut verdict);
    }
    topic.done(Done::Trim { number: 1 }, &mut verdict);
    let cursor = "c".to_owned();
    topic.done(Done::Acks { cursor, number: 2 }, &mut verdict);
    assert!(verdict.is_clean() && verdict.acknowledged == 4, "{verdict:?}");
    (topic, Verdict::default())
}

struct Finding<'a> {
    ledger: u64,
    trim: u64,
    ids: &'a [u64],
    acks: Option<&'a str>,
    properties: u64,
}

const AS_ANSWERED: Finding<'static> = Finding {
    ledger: 100,
    trim: 1,
    ids: &[2, 3, 4],
    acks: Some("1;2,3;"),
    properties: 0,
};

fn report(topic: &mut Topic, found: &Finding<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    let mut lines = vec![Found::Life {
        ledger: found.ledger,
        trim: found.trim,
        end: found.trim + found.ids.len() as u64,
        properties: found.properties,
    }];
    for (at, id) in found.ids.iter().enumerate() {
        let (offset, ids) = (found.trim + at as u64, vec![*id]);
        lines.push(Found::Entries { offset, ids });
    }
    lines.extend(found.acks.map(|acks| Found::Cursor {
        name: "c".into(),
        acks: acks.parse().unwrap(),
    }));
    lines.push(Found::Whole);
    lines.into_iter().for_each(|line| topic.found(line, &mut verdict));
    verdict
}

fn absent(topic: &mut Topic) -> Verdict {
    let mut verdict = Verdict::default();
    topic.found(Found::Absent, &mut verdict);
    topic.found(Found::Whole, &mut verdict);
    verdict
}

#[test]
fn what_was_answered_and_any_dense_tail_of_what_was_asked_passes() {
    for ids in [&[2, 3, 4][..], &[2, 3, 4, 5], &[2, 3, 4, 5, 6]] {
        let (mut topic, _) = history();
        let found = Finding { ids, ..AS_ANSWERED };
        assert_eq!(report(&mut topic, &found), Verdict::default());
        assert_eq!(
            report(&mut topic, &found),
            Verdict::default(),
            "the next report finds the same"
        );
    }
    let (mut topic, _) = history();
    let asked = Finding {
        trim: 2,
        ids: &[3, 4],
        acks: Some("3;3;"),
        properties: 7,
        ..AS_ANSWERED
    };
    assert_eq!(report(&mut topic, &asked), Verdict::default());
}

#[test]
fn l01_an_acknowledged_entry_that_is_not_there_is_lost() {
    let (mut topic, _) = history();
    let verdict = report(
        &mut topic,
        &Finding {
            ids: &[2, 3],
            ..AS_ANSWERED
        },
    );
    assert_eq!(
        (verdict.lost, verdict.reordered, verdict.duplicated),
        (1, 0, 0),
        "{verdict:?}"
    );
}

#[test]
fn l04_a_hole_a_swap_and_a_repetition_are_noticed() {
    let cases: [(&[u64], (u64, u64)); 4] = [
        (&[2, 3, 4, 6], (0, 1)),
        (&[3, 2, 4], (0, 2)),
        (&[2, 3, 4, 4], (1, 1)),
        (&[2, 3, 4, 99], (0, 1)),
    ];
    for (ids, wanted) in cases {
        let (mut topic, _) = history();
        let verdict = report(&mut topic, &Finding { ids, ..AS_ANSWERED });
        assert_eq!((verdict.duplicated, verdict.reordered), wanted, "{ids:?}: {verdict:?}");
    }
}

#[test]
fn l06_a_refused_entry_that_is_there_and_one_that_comes_back_are_noticed() {
    let (mut topic, mut verdict) = history();
    topic.done(Done::Refused { id: 5 }, &mut verdict);
    let ids = &[2, 3, 4, 5];
    assert_eq!(report(&mut topic, &Finding { ids, ..AS_ANSWERED }).duplicated, 1);
    let (mut topic, _) = history();
    assert!(report(&mut topic, &AS_ANSWERED).is_clean());
    let verdict = report(&mut topic, &Finding { ids, ..AS_ANSWERED });
    assert!(!verdict.is_clean(), "in doubt, not there once, there later");
}

#[test]
fn l15_an_ack_that_was_answered_and_is_gone_is_counted() {
    for (acks, missing) in [(Some("0;2;"), 2), (None, 3)] {
        let (mut topic, _) = history();
        let verdict = report(&mut topic, &Finding { acks, ..AS_ANSWERED });
        assert_eq!((verdict.acked_again, verdict.notes.len()), (missing, 1), "{verdict:?}");
    }
    let (mut topic, _) = history();
    let acks = Some("2;2,3;");
    assert!(
        !report(&mut topic, &Finding { acks, ..AS_ANSWERED }).is_clean(),
        "never asked for"
    );
}

#[test]
fn trims_and_properties_do_not_go_back_or_ahead() {
    for wrong in [
        Finding {
            trim: 0,
            ids: &[1, 2, 3, 4],
            ..AS_ANSWERED
        },
        Finding {
            trim: 3,
            ids: &[4],
            ..AS_ANSWERED
        },
        Finding {
            properties: 8,
            ..AS_ANSWERED
        },
    ] {
        let (mut topic, _) = history();
        let verdict = report(&mut topic, &wrong);
        assert_eq!((verdict.lost, verdict.notes.len()), (0, 1), "{verdict:?}");
    }
}

#[test]
fn l13_lives_end_wholly_and_ledger_ids_rise() {
    let (mut topic, _) = history();
    assert_eq!(absent(&mut topic).lost, 4);

    let (mut topic, mut verdict) = history();
    topic.ask(Ask::Delete, &mut verdict);
    assert!(
        report(&mut topic, &AS_ANSWERED).is_clean(),
        "a deletion in doubt that did not happen"
    );

    let (mut topic, mut verdict) = history();
    topic.ask(Ask::Delete, &mut verdict);
    assert!(absent(&mut topic).is_clean(), "one that did");
    assert!(!report(&mut topic, &AS_ANSWERED).is_clean());

    let (mut topic, mut verdict) = history();
    topic.ask(Ask::Delete, &mut verdict);
    topic.done(Done::Delete, &mut verdict);
    topic.ask(Ask::Create, &mut verdict);
    let empty = |ledger| Finding {
        ledger,
        trim: 0,
        ids: &[],
        acks: None,
        properties: 0,
    };
    let verdict = report(&mut topic, &empty(100));
    assert_eq!(verdict.notes.len(), 1, "{verdict:?}");

    let (mut topic, mut verdict) = history();
    topic.ask(Ask::Delete, &mut verdict);
    topic.done(Done::Delete, &mut verdict);
    topic.ask(Ask::Create, &mut verdict);
    assert!(report(&mut topic, &empty(101)).is_clean());
    let verdict = report(
        &mut topic,
        &Finding {
            ids: &[2],
            ..empty(101)
        },
    );
    assert_eq!(verdict.duplicated, 1, "an entry of the deleted life: {verdict:?}");
}

#[test]
fn a_report_that_the_kill_cut_off_settles_nothing() {
    let (mut topic, mut verdict) = history();
    topic.found(
        Found::Entries {
            offset: 1,
            ids: vec![4],
        },
        &mut verdict,
    );
    topic.killed();
    assert!(report(&mut topic, &AS_ANSWERED).is_clean() && verdict.is_clean());
}
