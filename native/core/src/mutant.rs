//! Deliberate bugs, switched at run time: whoever looks for faults has to find each of them.
//!
//! Promises: in a build without tests and simulation no mutant exists: [`active`] is a constant, and every site folds away.
//! Does not: belong into any other `if`: a site is one line beside the code that it spoils, and says nothing else.

macro_rules! mutants {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        /// One deliberate bug.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Mutant { $($(#[doc = $doc])+ $name,)* }

        impl Mutant {
            /// All of them, with name and what they do.
            pub const ALL: &'static [(Mutant, &'static str, &'static str)] =
                &[$((Mutant::$name, stringify!($name), concat!($($doc),+)),)*];
        }
    };
}

mutants! {
    /// The journal answers a group without syncing its frame.
    SkipFrameSync,
    /// The journal answers a group before its frame is synced.
    AnswerBeforeSync,
    /// A failed sync is called again, and success then is taken for success.
    RetryFailedSync,
    /// The name of a new segment is not made durable.
    ForgetDirectorySync,
    /// No marker proves the last frame when the journal goes idle.
    ForgetIdleMarker,
    /// Recovery accepts frames without checking their bodies.
    TrustUnverifiedFrame,
    /// Recovery takes a damaged frame in the middle for a torn tail.
    DamageIsTornTail,
    /// Recovery drops a whole last frame that nothing proves.
    DropUnprovenFrame,
    /// Recovery does not write the accepted tail again before it opens.
    SkipTailRewrite,
    /// A checkpoint carries the position of the one before, and replay does not look at versions.
    ReplayOntoWrongVersion,
    /// Replay skips deletions of streams.
    LoseDeleteOnReplay,
    /// Replay forgets terminations.
    LoseTerminateOnReplay,
    /// Segments are removed or recycled although a stream still needs them.
    RemovePinnedSegment,
    /// Segments are removed before the checkpoint that covers them is flushed.
    RemoveBeforeFlush,
    /// Recovery accepts frames that a recycled segment still holds of its former life.
    AcceptStaleFrame,
    /// Reads do not check checksums.
    ServeUnverifiedRead,
    /// An owner of an old epoch may append.
    AppendOfOldEpoch,
    /// An owner of an old epoch may trim, terminate and delete.
    ChangeOfOldEpoch,
    /// A trim goes one entry further than it was asked to.
    TrimTooFar,
    /// Whoever resumes after failed appends goes on behind their offsets instead of at the committed end.
    ResumeBehindGap,
    /// Two-step: appends whose answer was lost are appended again.
    RetryUnknownAsNew,
    /// Two-step: a lost answer is taken for "not committed".
    LostMeansNotCommitted,
    /// Two-step: a lost answer is taken for "committed".
    LostMeansCommitted,
    /// Two-step: a head that no longer names its oldest commits is sent without their page.
    SkipCommitPage,
    /// The newest changed page of a cursor is not written when there are several.
    DropDirtyPage,
    /// The root of a cursor is written before its pages.
    RootBeforePages,
    /// A persist that only moves the mark-delete position is answered without a write.
    PersistUnwritten,
    /// A take-over loads cursors without taking their epoch.
    LeaveCursorEpoch,
    /// An ACTIVE binding without a head is opened as an empty topic.
    HeadlessIsEmpty,
    /// A recreated topic gets the ledger ids of its former life.
    ReuseLedgerIds,
    /// A deleted topic leaves no tombstone: its next life counts incarnations from 1.
    ForgetTombstone,
}

/// Whether `mutant` is switched on in this thread.
#[cfg(any(test, feature = "sim"))]
pub fn active(mutant: Mutant) -> bool {
    SWITCHED.with(|switched| switched.get() == Some(mutant))
}

/// Whether `mutant` is switched on: never, in this build.
#[cfg(not(any(test, feature = "sim")))]
pub const fn active(_mutant: Mutant) -> bool {
    false
}

#[cfg(any(test, feature = "sim"))]
thread_local! {
    static SWITCHED: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Switches one mutant on in this thread, and every other off.
#[cfg(any(test, feature = "sim"))]
pub fn switch(mutant: Option<Mutant>) {
    SWITCHED.with(|switched| switched.set(mutant));
}
