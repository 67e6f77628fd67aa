//! Mutations: wrong decisions in the code that ships, each of which the simulation of faults must
//! find.
//!
//! A crate asks [`is_active`] at the place of the decision, through a macro that is `false` unless its
//! feature `mutants` is on. Nothing that is shipped has that feature; a thread has at most one mutation.
#![forbid(unsafe_code)]

use std::cell::Cell;

headlong_units::names! {
    /// A mutation, and the file that it is in.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Mutant {
        /// `device/read_job.rs`: the version is not checked after a read.
        VersionUnchecked => "version-unchecked",
        /// The same: a read that ended early counts as whole.
        ShortReadTaken => "short-read-taken",
        /// The same: a short read is continued a block too far.
        ContinuedTooFar => "continued-too-far",
        /// The same: a read that failed counts as done.
        ErrorSwallowed => "error-swallowed",
        /// The same: a direct read that is refused counts as an error of the device.
        RefusalBlamed => "refusal-blamed",
        /// `device/io_failure.rs`: want of descriptors counts as an error of the device.
        ResourcesBlamed => "resources-blamed",
        /// `device/reads.rs`: memory is filled in another order than the engine said.
        SlotsReversed => "slots-reversed",
        /// `device/files.rs`: a read that waits for an open in flight is forgotten.
        WaiterForgotten => "waiter-forgotten",
        /// `device/replies.rs`: a piece is delivered twice.
        PieceTwice => "piece-twice",
        /// The same: a slot is given back before the socket took its bytes.
        SlotGivenBackEarly => "slot-given-back-early",
        /// The same: some slots are never given back.
        SlotKept => "slot-kept",
        /// The same: the engine does not learn that a viewer left.
        CancelLost => "cancel-lost",
        /// The same: a reply that failed stays.
        ReplyKept => "reply-kept",
        /// `device/device_core.rs`: time does not pass while reads are outstanding.
        TimeoutSwallowed => "timeout-swallowed",
        /// `device/flash/port.rs`: a record is in the summary and never written.
        RecordNotWritten => "record-not-written",
        /// The same: a block is filled anew without being emptied.
        EmptyLeftOut => "empty-left-out",
        /// The same: two fillings have one number.
        FillingReused => "filling-reused",
        /// The same: a block is sealed with the number of the one before.
        SequenceStale => "sequence-stale",
        /// `device/flash/jobs.rs`: records are not flushed before the summary.
        FlushLeftOut => "flush-left-out",
        /// The same: a write that failed counts as done.
        WriteErrorSwallowed => "write-error-swallowed",
        /// The same: a checkpoint is written without what was sealed since the one before.
        CheckpointStale => "checkpoint-stale",
        /// `flash/checkpoints.rs`: a group's checkpoint is not made void when one of its blocks is
        /// filled anew.
        CheckpointNotVoided => "checkpoint-not-voided",
        /// The same: of a group that cannot be read a checkpoint is written as if nothing were there.
        UnreadableForgotten => "unreadable-forgotten",
        /// `flash/format/record.rs`: a record is believed whatever its header names.
        RecordKeyUnchecked => "record-key-unchecked",
        /// The same: a record's checksum is not checked.
        ChecksumUnchecked => "checksum-unchecked",
        /// `flash/format/summary.rs`: a summary is taken without its checksum.
        TornSummaryTaken => "torn-summary-taken",
        /// `flash/format/checkpoint.rs`: a checkpoint is taken without its checksum, as far as its
        /// summaries are right.
        TornCheckpointTaken => "torn-checkpoint-taken",
        /// `flash/format/scan.rs`: a summary is believed whatever filling the record at the front of
        /// its block is of.
        FrontUnchecked => "front-unchecked",
        /// The same: a search takes records of two fillings for those of one.
        SearchMixesFillings => "search-mixes-fillings",
        /// `http/plan.rs`: a range has one byte less than was asked for.
        RangeOffByOne => "range-off-by-one",
        /// The same: of several ranges the last is not sent.
        LastRangeLeftOut => "last-range-left-out",
        /// `http/conditional.rs`: `If-Range` is ignored.
        IfRangeIgnored => "if-range-ignored",
        /// `lab/faults/library.rs`, an imitation: what a look-up found is believed indefinitely.
        LookUpBelieved => "look-up-believed",
        /// The same: a file has one name on flash in all its versions.
        KeyWithoutVersion => "key-without-version",
        /// `lab/faults/world`: one disk's hang holds up the others.
        HangShared => "hang-shared",
    }
}

thread_local! {
    static ACTIVE: Cell<Option<Mutant>> = const { Cell::new(None) };
}

/// Whether this thread has this mutation.
pub fn is_active(mutant: Mutant) -> bool {
    ACTIVE.get() == Some(mutant)
}

/// A mutation of this thread, until it is dropped.
#[derive(Debug)]
pub struct Activated(Option<Mutant>);

/// Gives this thread a mutation, or none.
pub fn activate(mutant: Option<Mutant>) -> Activated {
    Activated(ACTIVE.replace(mutant))
}

impl Drop for Activated {
    fn drop(&mut self) {
        ACTIVE.set(self.0);
    }
}
