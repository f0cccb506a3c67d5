//! The laws that are checked and the guards that keep them, by name.

/// A law of the architecture, as far as this model can break it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Law {
    /// An acknowledged append is durable, reachable from the head, and served by the current owner.
    L1,
    /// The head update is the only commit point: nothing is visible before it, nothing is rolled back after it.
    L2,
    /// A commit intent is durable no later than the head that names it.
    L3,
    /// Committed ranges are dense: no gap, no overlap.
    L4,
    /// Only the holder of the head's current owner epoch changes the stream.
    L5,
    /// Every append ends once, as what it is; an attempt in doubt is settled, never retried as a new append.
    L6,
}

impl Law {
    /// All of them.
    pub const ALL: [Law; 6] = [Law::L1, Law::L2, Law::L3, Law::L4, Law::L5, Law::L6];

    /// Number and claim, the name of the invariant.
    pub fn name(self) -> &'static str {
        match self {
            Law::L1 => "L1 acknowledged appends are durable and reachable",
            Law::L2 => "L2 the head update is the only commit point",
            Law::L3 => "L3 the intent is durable before the head that names it",
            Law::L4 => "L4 committed ranges are dense",
            Law::L5 => "L5 only the current owner epoch changes the stream",
            Law::L6 => "L6 every append ends once, as what it is",
        }
    }
}

/// A check of the protocol without which a law breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Guard {
    /// An append is admitted only under the owner epoch of the head that it is committed onto.
    OwnerEpoch,
    /// The slice with its intent is durable before the head that names it is sent.
    IntentFirst,
    /// An attempt in doubt suspends the stream instead of being retried as a new append.
    SuspendInDoubt,
    /// Settlement looks for the commit id in the ring of the head that it finds.
    SearchRing,
    /// Settlement looks for the commit id in the pages when the ring no longer reaches back to it.
    SearchPages,
    /// Nothing is concluded from a resend that was refused or not answered: the first copy may still be on its way.
    NothingFromSilence,
    /// The head update names the version of the head that it was built on.
    NamedVersion,
    /// An append is admitted only at the end of the head.
    DenseStart,
    /// `Committed` is answered after the verdict on the head update, not after the WAL write.
    VerdictFirst,
    /// A take-over fences before it reads the end.
    FenceFirst,
    /// Commits leave the ring only into a page that is durable already.
    PageFirst,
}

impl Guard {
    /// All of them.
    pub const ALL: [Guard; 11] = [
        Guard::OwnerEpoch,
        Guard::IntentFirst,
        Guard::SuspendInDoubt,
        Guard::SearchRing,
        Guard::SearchPages,
        Guard::NothingFromSilence,
        Guard::NamedVersion,
        Guard::DenseStart,
        Guard::VerdictFirst,
        Guard::FenceFirst,
        Guard::PageFirst,
    ];

    /// The name used on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Guard::OwnerEpoch => "owner-epoch",
            Guard::IntentFirst => "intent-first",
            Guard::SuspendInDoubt => "suspend-in-doubt",
            Guard::SearchRing => "search-ring",
            Guard::SearchPages => "search-pages",
            Guard::NothingFromSilence => "nothing-from-silence",
            Guard::NamedVersion => "named-version",
            Guard::DenseStart => "dense-start",
            Guard::VerdictFirst => "verdict-first",
            Guard::FenceFirst => "fence-first",
            Guard::PageFirst => "page-first",
        }
    }

    /// What it demands, in a line.
    pub fn demands(self) -> &'static str {
        match self {
            Guard::OwnerEpoch => "an append is admitted only under the owner epoch of the head",
            Guard::IntentFirst => "slice and intent are durable before the head names them",
            Guard::SuspendInDoubt => "an attempt in doubt suspends the stream, it is never retried as a new append",
            Guard::SearchRing => "settlement looks for the commit id in the ring",
            Guard::SearchPages => "settlement looks for the commit id in the pages",
            Guard::NothingFromSilence => "nothing is concluded from a resend that was refused or not answered",
            Guard::NamedVersion => "the head update names the version that it was built on",
            Guard::DenseStart => "an append is admitted only at the end of the head",
            Guard::VerdictFirst => "Committed is answered after the verdict on the head update",
            Guard::FenceFirst => "a take-over fences before it reads the end",
            Guard::PageFirst => "commits leave the ring only into a durable page",
        }
    }

    /// The law that breaks without it.
    pub fn protects(self) -> Law {
        match self {
            Guard::VerdictFirst | Guard::FenceFirst => Law::L1,
            Guard::NamedVersion => Law::L2,
            Guard::IntentFirst => Law::L3,
            Guard::DenseStart | Guard::PageFirst => Law::L4,
            Guard::OwnerEpoch => Law::L5,
            Guard::SuspendInDoubt | Guard::SearchRing | Guard::SearchPages | Guard::NothingFromSilence => Law::L6,
        }
    }
}
