//! What can happen next, and what it does. One function per step, named as in the table of the crate's docs.

use std::sync::Arc;

use stateright::{Model, Property};

use crate::guard::Guard;
use crate::laws;
use crate::state::{Attempt, Cause, Commit, Event, Head, Late, Outcome, Owner, Phase, Refusing, State, MOST, TRIES};

/// How large a world is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Owners, one after the other or at once; at most [`MOST`].
    pub owners: usize,
    /// Appends of each; at most [`MOST`].
    pub appends: u8,
    /// Writes on their way at once.
    pub late: usize,
}

/// What becomes of one conditional write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Judged now, and the sender hears the verdict.
    Heard,
    /// Judged now, and the verdict is lost.
    Lost,
    /// Not judged yet, and the sender hears nothing any more.
    Late,
    /// Not applied, and the sender hears that.
    Refused,
    /// In conflict, but the pages that would say more cannot be read.
    Unread,
}

/// One step. Owners are numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// An owner reads the head and wants its epoch raised.
    Open(u8),
    /// A caller appends.
    Issue(u8),
    /// The lane makes one attempt of what is queued.
    Draft(u8),
    /// The slice is durable (`Heard`), or the WAL does not take it (`Refused`).
    Slice(u8, Answer),
    /// The page of the commit that leaves the ring is sent.
    Page(u8, Answer),
    /// The head update is sent, for the first time or again.
    Head(u8, Answer),
    /// A write that was given up is judged now.
    Arrive(usize),
    /// The caller of a failed append goes on.
    Resume(u8),
    /// An idle owner reads the head again.
    Reload(u8),
    /// An owner is gone.
    Crash(u8),
}

/// The protocol, whole or without one of its guards.
#[derive(Debug, Clone)]
pub struct Protocol {
    /// How large.
    pub bounds: Bounds,
    /// The guard that is missing.
    pub without: Option<Guard>,
    /// Record [events](Event), for the run that shows that all situations occur.
    pub watch: bool,
}

impl Protocol {
    fn keeps(&self, guard: Guard) -> bool {
        self.without != Some(guard)
    }

    fn note(&self, s: &mut State, event: Event) {
        if self.watch {
            s.event = Some(event);
        }
    }

    fn steps_of(&self, s: &State, o: u8, steps: &mut Vec<Step>) {
        let owner = &s.owners[usize::from(o)];
        // Which number an owner has means nothing, so they start in order.
        let turn = o == 0 || s.owners[usize::from(o) - 1].phase != Phase::Idle;
        match owner.phase {
            Phase::Idle if turn => steps.push(Step::Open(o)),
            Phase::Idle | Phase::Down => return,
            Phase::Opening | Phase::Open => steps.push(Step::Crash(o)),
        }
        if let Some(attempt) = owner.attempt {
            self.steps_of_attempt(s, o, attempt, steps);
        }
        if owner.phase != Phase::Open {
            return;
        }
        if owner.issued < self.bounds.appends && owner.refusing == Refusing::No {
            steps.push(Step::Issue(o));
        }
        if owner.attempt.is_none() {
            if owner.taken < owner.issued {
                // Eight slices of one owner are counted; only a protocol without guards drafts that many.
                if owner.attempts < 8 {
                    steps.push(Step::Draft(o));
                }
            } else if owner.stored != s.head && owner.refusing != Refusing::ForGood {
                steps.push(Step::Reload(o));
            }
            if owner.refusing == Refusing::UntilResume && !owner.unanswered() {
                steps.push(Step::Resume(o));
            }
        }
    }

    fn steps_of_attempt(&self, s: &State, o: u8, attempt: Attempt, steps: &mut Vec<Step>) {
        let room = s.late.len() < self.bounds.late;
        let intent_first = self.keeps(Guard::IntentFirst);
        let page_first = self.keeps(Guard::PageFirst);
        if !attempt.slice {
            steps.push(Step::Slice(o, Answer::Heard));
            if intent_first {
                steps.push(Step::Slice(o, Answer::Refused));
            }
        }
        if attempt.slice && !attempt.page {
            steps.push(Step::Page(o, Answer::Heard));
            if page_first {
                steps.push(Step::Page(o, Answer::Lost));
                steps.push(Step::Page(o, Answer::Refused));
                if room {
                    steps.push(Step::Page(o, Answer::Late));
                }
            }
        }
        if (attempt.slice || !intent_first) && (attempt.page || !page_first) {
            steps.push(Step::Head(o, Answer::Heard));
            steps.push(Step::Head(o, Answer::Lost));
            steps.push(Step::Head(o, Answer::Refused));
            if room {
                steps.push(Step::Head(o, Answer::Late));
            }
            if self.needs_pages(s, o, attempt) {
                steps.push(Step::Head(o, Answer::Unread));
            }
        }
    }

    /// Whether a verdict on the attempt now would be a conflict that only the pages can explain.
    fn needs_pages(&self, s: &State, o: u8, attempt: Attempt) -> bool {
        let owner = &s.owners[usize::from(o)];
        let Cause::Append(commit) = attempt.cause else {
            return false;
        };
        let conflict = s.head.version != owner.stored.version && owner.wanted(o).as_ref() != Some(&*s.head);
        conflict && s.head.ring().first().is_some_and(|oldest| commit.start < oldest.start)
    }

    /// The store judges one conditional head update.
    fn store_head(&self, s: &mut State, before: u8, next: &Arc<Head>) -> bool {
        if self.keeps(Guard::NamedVersion) && s.head.version != before {
            return false;
        }
        s.head = next.clone();
        s.top_epoch = s.top_epoch.max(next.epoch);
        if next.all.starts_with(&s.history.all) {
            s.history = next.clone();
        }
        true
    }

    /// The store judges one page: its key must be absent, or hold the same already.
    fn store_page(s: &mut State, page: Commit) -> bool {
        match s.pages.iter().find(|there| there.start == page.start) {
            Some(there) => *there == page,
            None => {
                s.pages.push(page);
                s.pages.sort_unstable_by_key(|page| page.start);
                true
            }
        }
    }

    fn open(&self, s: &mut State, o: u8) {
        let head = s.head.clone();
        let owner = &mut s.owners[usize::from(o)];
        *owner = Owner {
            phase: Phase::Opening,
            attempt: Some(claim()),
            ..Owner::new(head)
        };
        // Read before the fence. The claim's head replaces it, unless that guard is missing.
        owner.next = owner.published;
    }

    fn issue(&self, s: &mut State, o: u8) {
        let owner = &mut s.owners[usize::from(o)];
        owner.issued += 1;
        owner.next += 1;
    }

    fn draft(&self, s: &mut State, o: u8) {
        let mut fenced = false;
        let owner = &mut s.owners[usize::from(o)];
        let stored = owner.stored.clone();
        let mut end = stored.end;
        let mut first = None;
        for (append, offset) in (owner.taken..owner.issued).zip(owner.queue_start()..) {
            let old = self.keeps(Guard::OwnerEpoch) && owner.epoch != stored.epoch;
            let apart = self.keeps(Guard::DenseStart) && offset != end;
            if old || apart {
                owner.outcomes[usize::from(append)] = Outcome::NotCommitted;
                refuse(owner, old);
                fenced |= old;
                continue;
            }
            first = first.or(Some((append, offset)));
            end = offset + 1;
        }
        owner.taken = owner.issued;
        if let Some((first, start)) = first {
            let commit = Commit {
                owner: o,
                nth: owner.attempts,
                epoch: owner.epoch,
                under: stored.epoch,
                start,
                first,
                count: owner.issued - first,
            };
            owner.attempts += 1;
            owner.attempt = Some(Attempt {
                cause: Cause::Append(commit),
                slice: false,
                page: stored.leaving().is_none(),
                in_doubt: false,
            });
        }
        if fenced {
            self.note(s, Event::Fenced);
        }
    }

    fn slice(&self, s: &mut State, o: u8, answer: Answer) {
        let owner = &mut s.owners[usize::from(o)];
        let Some(attempt) = owner.attempt.as_mut() else { return };
        let Cause::Append(commit) = attempt.cause else { return };
        if answer == Answer::Refused {
            return not_committed(owner, false);
        }
        attempt.slice = true;
        s.wal[usize::from(o)] |= 1 << commit.nth;
        if !self.keeps(Guard::VerdictFirst) {
            acknowledge(owner, &commit);
        }
    }

    fn page(&self, s: &mut State, o: u8, answer: Answer) {
        let owner = &s.owners[usize::from(o)];
        let Some(page) = owner.stored.leaving() else { return };
        let written = match answer {
            Answer::Heard | Answer::Lost => Self::store_page(s, page),
            Answer::Late => {
                s.late.push(Late::Page(page));
                false
            }
            Answer::Refused | Answer::Unread => false,
        };
        let owner = &mut s.owners[usize::from(o)];
        match owner.attempt.as_mut() {
            Some(attempt) if written && answer == Answer::Heard => attempt.page = true,
            // Sent as often as it may be, and no answer said that it is there.
            _ => not_committed(owner, false),
        }
    }

    fn head(&self, s: &mut State, o: u8, answer: Answer) {
        let owner = &s.owners[usize::from(o)];
        let (Some(attempt), Some(next)) = (owner.attempt, owner.wanted(o)) else {
            return;
        };
        let (before, next) = (owner.stored.version, Arc::new(next));
        match answer {
            Answer::Heard if self.store_head(s, before, &next) => self.won(s, o, next, attempt),
            Answer::Heard => self.judge(s, o, next, attempt),
            Answer::Lost => {
                self.store_head(s, before, &next);
                self.doubt(s, o, attempt);
            }
            Answer::Late => {
                s.late.push(Late::Head { before, next });
                self.doubt(s, o, attempt);
            }
            Answer::Refused if attempt.in_doubt => self.silence(s, o, attempt),
            Answer::Refused => not_committed(&mut s.owners[usize::from(o)], false),
            Answer::Unread => {
                in_doubt(&mut s.owners[usize::from(o)]);
                self.note(s, Event::PagesUnreadable);
            }
        }
    }

    /// The answer was lost: the stream waits.
    fn doubt(&self, s: &mut State, o: u8, attempt: Attempt) {
        if attempt.in_doubt {
            return self.silence(s, o, attempt);
        }
        match attempt.cause {
            Cause::Append(commit) if !self.keeps(Guard::SuspendInDoubt) => {
                let head = s.head.clone();
                let owner = &mut s.owners[usize::from(o)];
                self.adopt(owner, head);
                owner.attempt = None;
                owner.taken -= commit.count;
                owner.next = owner.stored.end + (owner.issued - owner.taken);
            }
            _ => in_doubt(&mut s.owners[usize::from(o)]),
        }
    }

    /// A resend of an attempt in doubt was not applied as far as its sender knows, which proves nothing.
    fn silence(&self, s: &mut State, o: u8, attempt: Attempt) {
        let append = matches!(attempt.cause, Cause::Append(_));
        if append && !self.keeps(Guard::NothingFromSilence) {
            not_committed(&mut s.owners[usize::from(o)], false);
        }
    }

    /// The stored head is the attempt's.
    fn won(&self, s: &mut State, o: u8, head: Arc<Head>, attempt: Attempt) {
        let owner = &mut s.owners[usize::from(o)];
        let folds = owner.stored.leaving().is_some();
        match attempt.cause {
            Cause::Claim => {
                let read_before = owner.published;
                self.adopt(owner, head.clone());
                owner.phase = Phase::Open;
                owner.epoch = head.epoch;
                owner.attempt = None;
                if !self.keeps(Guard::FenceFirst) {
                    owner.published = read_before;
                }
                owner.next = owner.published;
            }
            Cause::Append(commit) => {
                self.adopt(owner, head);
                acknowledge(owner, &commit);
                owner.attempt = None;
                self.note(
                    s,
                    match (attempt.in_doubt, folds, commit.count) {
                        (true, _, _) => Event::SettledAtHead,
                        (false, true, _) => Event::Folded,
                        (false, false, 1) => Event::Committed,
                        (false, false, _) => Event::CommittedTogether,
                    },
                );
            }
        }
    }

    /// Reads out of a conflict what became of the attempt.
    fn judge(&self, s: &mut State, o: u8, next: Arc<Head>, attempt: Attempt) {
        let head = s.head.clone();
        if head == next {
            return self.won(s, o, next, attempt);
        }
        let Cause::Append(commit) = attempt.cause else {
            let owner = &mut s.owners[usize::from(o)];
            let read_before = owner.published;
            self.adopt(owner, head);
            if !self.keeps(Guard::FenceFirst) {
                owner.published = read_before;
            }
            owner.tries += 1;
            if owner.tries < TRIES {
                owner.attempt = Some(claim());
            } else {
                *owner = Owner::gone();
            }
            return self.note(s, Event::ClaimLostAndJudgedAnew);
        };
        let in_ring = head.ring().iter().find(|c| (c.start..c.end()).contains(&commit.start));
        let older = head.ring().first().is_some_and(|oldest| commit.start < oldest.start);
        let found = match in_ring {
            Some(at_start) => self.keeps(Guard::SearchRing) && at_start.same_id(&commit),
            None if older && self.keeps(Guard::SearchPages) => {
                s.page_below(commit.start).is_some_and(|page| page.same_id(&commit))
            }
            None => false,
        };
        let owner = &mut s.owners[usize::from(o)];
        let fenced = self.keeps(Guard::OwnerEpoch) && head.epoch != owner.epoch;
        self.adopt(owner, head);
        if found {
            acknowledge(owner, &commit);
            owner.attempt = None;
        } else {
            not_committed(owner, fenced);
        }
        let event = match (attempt.in_doubt, found, older) {
            (_, true, true) => Event::SettledInPage,
            (_, true, false) => Event::SettledInRing,
            (true, false, _) => Event::SettledAsLost,
            (false, false, _) => Event::Fenced,
        };
        self.note(s, event);
    }

    /// The lane takes over what is stored and publishes it.
    fn adopt(&self, owner: &mut Owner, head: Arc<Head>) {
        owner.published = head.end;
        owner.stored = head;
    }

    fn arrive(&self, s: &mut State, nth: usize) {
        let event = match s.late.remove(nth) {
            Late::Head { before, next } => match self.store_head(s, before, &next) {
                true => Event::LateApplied,
                false => Event::LateTooLate,
            },
            Late::Page(page) => match Self::store_page(s, page) {
                true => Event::LateApplied,
                false => Event::LateTooLate,
            },
        };
        self.note(s, event);
    }

    fn resume(&self, s: &mut State, o: u8) {
        let owner = &mut s.owners[usize::from(o)];
        owner.next = owner.published;
        owner.refusing = Refusing::No;
        self.note(s, Event::Resumed);
    }

    fn reload(&self, s: &mut State, o: u8) {
        let head = s.head.clone();
        self.adopt(&mut s.owners[usize::from(o)], head);
    }

    fn crash(&self, s: &mut State, o: u8) {
        let owner = &mut s.owners[usize::from(o)];
        let in_doubt = owner.attempt.is_some_and(|a| a.in_doubt && a.cause != Cause::Claim);
        let mut outcomes = owner.outcomes;
        for outcome in &mut outcomes[..usize::from(owner.issued)] {
            if *outcome == Outcome::Pending {
                *outcome = Outcome::Unknown;
            }
        }
        *owner = Owner {
            issued: owner.issued,
            taken: owner.issued,
            outcomes,
            ..Owner::gone()
        };
        if in_doubt {
            self.note(s, Event::CrashedInDoubt);
        }
    }

    /// Drops what can change nothing any more, and puts the rest into one order.
    fn tidy(&self, s: &mut State) {
        let version = s.head.version;
        let mut dropped = false;
        if self.keeps(Guard::NamedVersion) {
            s.late.retain(|late| match late {
                Late::Head { before, .. } => {
                    dropped |= *before != version;
                    *before == version
                }
                Late::Page(_) => true,
            });
        }
        s.late.sort_unstable();
        if dropped && s.event.is_none() {
            self.note(s, Event::LateTooLate);
        }
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        assert!(self.bounds.owners <= MOST && usize::from(self.bounds.appends) <= MOST);
        vec![State::new(self.bounds.owners)]
    }

    fn actions(&self, s: &State, steps: &mut Vec<Step>) {
        for (_, o) in s.owners.iter().zip(0u8..) {
            self.steps_of(s, o, steps);
        }
        for nth in 0..s.late.len() {
            if nth == 0 || s.late[nth] != s.late[nth - 1] {
                steps.push(Step::Arrive(nth));
            }
        }
    }

    fn next_state(&self, before: &State, step: Step) -> Option<State> {
        let mut s = before.clone();
        s.event = None;
        match step {
            Step::Open(o) => self.open(&mut s, o),
            Step::Issue(o) => self.issue(&mut s, o),
            Step::Draft(o) => self.draft(&mut s, o),
            Step::Slice(o, answer) => self.slice(&mut s, o, answer),
            Step::Page(o, answer) => self.page(&mut s, o, answer),
            Step::Head(o, answer) => self.head(&mut s, o, answer),
            Step::Arrive(nth) => self.arrive(&mut s, nth),
            Step::Resume(o) => self.resume(&mut s, o),
            Step::Reload(o) => self.reload(&mut s, o),
            Step::Crash(o) => self.crash(&mut s, o),
        }
        self.tidy(&mut s);
        Some(s)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        laws::properties(self.watch)
    }
}

fn claim() -> Attempt {
    Attempt {
        cause: Cause::Claim,
        slice: true,
        page: true,
        in_doubt: false,
    }
}

fn in_doubt(owner: &mut Owner) {
    if let Some(attempt) = &mut owner.attempt {
        attempt.in_doubt = true;
    }
}

fn refuse(owner: &mut Owner, for_good: bool) {
    match (owner.refusing, for_good) {
        (_, true) => owner.refusing = Refusing::ForGood,
        (Refusing::No, false) => owner.refusing = Refusing::UntilResume,
        (_, false) => {}
    }
}

/// Answers `Committed` to the appends of a commit.
fn acknowledge(owner: &mut Owner, commit: &Commit) {
    for (append, offset) in (commit.first..commit.first + commit.count).zip(commit.start..) {
        owner.outcomes[usize::from(append)] = Outcome::Committed(offset);
    }
}

/// The attempt certainly did not happen. An open that fails leaves nothing behind; an append that was answered already stays so.
fn not_committed(owner: &mut Owner, fenced: bool) {
    let Some(attempt) = owner.attempt.take() else { return };
    let Cause::Append(commit) = attempt.cause else {
        *owner = Owner::gone();
        return;
    };
    for append in commit.first..commit.first + commit.count {
        let outcome = &mut owner.outcomes[usize::from(append)];
        if *outcome == Outcome::Pending {
            *outcome = Outcome::NotCommitted;
        }
    }
    refuse(owner, fenced);
}
