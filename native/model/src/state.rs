//! What the world of one stream consists of: the stored records, the owners, and the writes on their way.

use std::sync::Arc;

/// Commits that the head itself names; 32 in the core.
pub const RING: usize = 2;
/// Commits that leave a full ring at once, into one page; 16 in the core.
pub const FOLD: usize = 1;
/// How often a claim is judged, the first time included, before its open fails; 17 times in the core.
pub const TRIES: u8 = 2;
/// Most owners and most appends of one of them.
pub const MOST: usize = 3;

/// One committed (or hoped for) slice: `[start, start + count)`, the appends `first..first + count` of its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Commit {
    /// Who wrote it; with `nth` this is the commit id.
    pub owner: u8,
    /// Which of its owner's attempts.
    pub nth: u8,
    /// The owner epoch of the appends.
    pub epoch: u8,
    /// The owner epoch of the head that it is committed onto.
    pub under: u8,
    /// First offset.
    pub start: u8,
    /// First append of its owner.
    pub first: u8,
    /// Entries.
    pub count: u8,
}

impl Commit {
    /// One past the last offset.
    pub fn end(&self) -> u8 {
        self.start + self.count
    }

    /// Whether two commits have one id.
    pub fn same_id(&self, other: &Commit) -> bool {
        (self.owner, self.nth) == (other.owner, other.nth)
    }

    /// The offset of one append, if it is part of this.
    pub fn offset_of(&self, owner: u8, append: u8) -> Option<u8> {
        (self.owner == owner && (self.first..self.first + self.count).contains(&append))
            .then(|| self.start + append - self.first)
    }
}

/// The stored head. Two heads are equal exactly when their records are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Head {
    /// Rises with every change; also the version that the store compares.
    pub version: u8,
    /// The only epoch that may change the stream.
    pub epoch: u8,
    /// Who holds it.
    pub owner: Option<u8>,
    /// The next offset.
    pub end: u8,
    /// Every commit behind this head, oldest first. The record names only the [ring](Head::ring); the rest is for the laws.
    pub all: Vec<Commit>,
    /// How many of them have left the ring.
    pub folded: usize,
}

impl Head {
    /// The head of a new stream.
    pub fn new() -> Head {
        Head {
            version: 1,
            epoch: 0,
            owner: None,
            end: 0,
            all: Vec::new(),
            folded: 0,
        }
    }

    /// The commits that the record names.
    pub fn ring(&self) -> &[Commit] {
        &self.all[self.folded..]
    }

    /// The commit that leaves the ring when another one comes.
    pub fn leaving(&self) -> Option<Commit> {
        (self.ring().len() >= RING).then(|| self.all[self.folded])
    }

    /// This head with its owner epoch raised.
    pub fn claimed(&self, owner: u8) -> Head {
        Head {
            version: self.version + 1,
            epoch: self.epoch + 1,
            owner: Some(owner),
            ..self.clone()
        }
    }

    /// This head with one commit more.
    pub fn committed(&self, commit: Commit) -> Head {
        let mut next = self.clone();
        if self.leaving().is_some() {
            next.folded += FOLD;
        }
        next.version += 1;
        next.end = commit.end();
        next.all.push(commit);
        next
    }
}

impl Default for Head {
    fn default() -> Self {
        Self::new()
    }
}

/// How one append ended for its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Not issued, or not answered yet.
    Pending,
    /// Answered `Committed` at this offset.
    Committed(u8),
    /// Answered `NotCommitted`.
    NotCommitted,
    /// Never answered: the owner is gone.
    Unknown,
}

/// What an attempt wants of the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The owner epoch raised.
    Claim,
    /// A slice committed.
    Append(Commit),
}

/// The one attempt that a lane has under way for the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Attempt {
    /// What it wants.
    pub cause: Cause,
    /// The slice is durable (or there is none).
    pub slice: bool,
    /// The page of what leaves the ring is durable (or nothing leaves).
    pub page: bool,
    /// The answer to a head update was lost.
    pub in_doubt: bool,
}

/// Where an owner is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Not started.
    Idle,
    /// Claiming.
    Opening,
    /// Serves the stream.
    Open,
    /// Gone, or refused at its open. Whoever comes back is another owner.
    Down,
}

/// Whether an owner takes appends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusing {
    /// It does.
    No,
    /// An append failed; until `Resume`.
    UntilResume,
    /// A newer owner is known.
    ForGood,
}

/// One engine with the stream open: its lane's line and its appender.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Owner {
    /// Its life.
    pub phase: Phase,
    /// How often its claim has lost.
    pub tries: u8,
    /// The epoch that it appends under; 0 = none yet.
    pub epoch: u8,
    /// The head as its lane last learned it. Never changes while an attempt is under way.
    pub stored: Arc<Head>,
    /// The end that it serves readers.
    pub published: u8,
    /// The offset that the next append gets.
    pub next: u8,
    /// Appends given out so far.
    pub issued: u8,
    /// Of those, how many have left the queue.
    pub taken: u8,
    /// Attempts drafted so far; numbers the commit ids.
    pub attempts: u8,
    /// What is under way.
    pub attempt: Option<Attempt>,
    /// Whether it takes appends.
    pub refusing: Refusing,
    /// How its appends ended.
    pub outcomes: [Outcome; MOST],
}

impl Owner {
    /// An owner that has not started.
    pub fn new(head: Arc<Head>) -> Owner {
        Owner {
            phase: Phase::Idle,
            tries: 0,
            epoch: 0,
            published: head.end,
            stored: head,
            next: 0,
            issued: 0,
            taken: 0,
            attempts: 0,
            attempt: None,
            refusing: Refusing::No,
            outcomes: [Outcome::Pending; MOST],
        }
    }

    /// An owner that is gone.
    pub fn gone() -> Owner {
        Owner {
            phase: Phase::Down,
            ..Owner::new(Arc::new(Head::new()))
        }
    }

    /// Appends that were given out and not answered.
    pub fn unanswered(&self) -> bool {
        self.outcomes[..usize::from(self.issued)].contains(&Outcome::Pending)
    }

    /// The offset reserved for the oldest queued append.
    pub fn queue_start(&self) -> u8 {
        self.next - (self.issued - self.taken)
    }

    /// The head that the attempt under way wants stored.
    pub fn wanted(&self, owner: u8) -> Option<Head> {
        self.attempt.map(|attempt| match attempt.cause {
            Cause::Claim => self.stored.claimed(owner),
            Cause::Append(commit) => self.stored.committed(commit),
        })
    }
}

/// A write that its sender gave up and that may still be applied, with its condition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Late {
    /// A head onto this version.
    Head {
        /// The version that it names.
        before: u8,
        /// The head.
        next: Arc<Head>,
    },
    /// A page of one commit; its key must be absent.
    Page(Commit),
}

/// Something notable that the last step did. Recorded only by the run that shows that the model is not vacuous.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each is named by the property that asks for it")]
pub enum Event {
    Committed,
    CommittedTogether,
    Fenced,
    Resumed,
    Folded,
    CrashedInDoubt,
    LateApplied,
    LateTooLate,
    ClaimLostAndJudgedAnew,
    SettledAtHead,
    SettledInRing,
    SettledInPage,
    SettledAsLost,
    PagesUnreadable,
}

/// Everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    /// The stored head.
    pub head: Arc<Head>,
    /// The stored pages, by their first offset.
    pub pages: Vec<Commit>,
    /// Per owner, a bit for each of its slices that is durable.
    pub wal: [u8; MOST],
    /// The newest head that kept every commit before it, and the highest epoch ever stored. Nobody reads them but the laws.
    pub history: Arc<Head>,
    /// See `history`.
    pub top_epoch: u8,
    /// Writes on their way.
    pub late: Vec<Late>,
    /// The owners.
    pub owners: Vec<Owner>,
    /// What the last step did, in the run that asks for it.
    pub event: Option<Event>,
}

impl State {
    /// A new stream, and owners that have not started.
    pub fn new(owners: usize) -> State {
        let head = Arc::new(Head::new());
        State {
            pages: Vec::new(),
            wal: [0; MOST],
            history: head.clone(),
            top_epoch: head.epoch,
            late: Vec::new(),
            owners: vec![Owner::new(head.clone()); owners],
            head,
            event: None,
        }
    }

    /// Whether the slice of a commit is durable.
    pub fn slice_durable(&self, commit: &Commit) -> bool {
        self.wal[usize::from(commit.owner)] & (1 << commit.nth) != 0
    }

    /// The page that may hold an offset.
    pub fn page_below(&self, offset: u8) -> Option<&Commit> {
        self.pages.iter().rfind(|page| page.start <= offset)
    }

    /// The commit at an offset, as a reader finds it: in the ring, else in the pages.
    pub fn find(&self, offset: u8) -> Option<&Commit> {
        let in_ring = self.head.ring().iter().find(|c| (c.start..c.end()).contains(&offset));
        in_ring.or_else(|| self.page_below(offset).filter(|page| offset < page.end()))
    }
}
