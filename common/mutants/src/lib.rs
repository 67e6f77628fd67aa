//! Mutants: wrong decisions in production code that the fault simulation must detect.
//!
//! A crate calls [`is_active`] where the decision is made, through a macro that is `false` unless
//! the crate's feature `mutants` is enabled. No release build has that feature. At most one mutant
//! is active in a thread.
#![forbid(unsafe_code)]

use std::cell::Cell;

headlong_units::names! {
    /// A mutant, documented with the file that contains it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Mutant {
        /// `device/read_job.rs`: the version is not checked after a read.
        VersionUnchecked => "version-unchecked",
        /// The same file: a read that ended early counts as complete.
        ShortReadTaken => "short-read-taken",
        /// The same file: a short read is continued one block too late.
        ContinuedTooFar => "continued-too-far",
        /// The same file: a failed read counts as successful.
        ErrorSwallowed => "error-swallowed",
        /// The same file: a rejected direct read counts as a device error.
        RefusalBlamed => "refusal-blamed",
        /// `device/io_failure.rs`: a lack of file descriptors counts as a device error.
        ResourcesBlamed => "resources-blamed",
        /// `device/reads.rs`: memory is filled in a different order from the one the engine
        /// specified.
        SlotsReversed => "slots-reversed",
        /// `device/files.rs`: a read that waits for an open operation in progress is forgotten.
        WaiterForgotten => "waiter-forgotten",
        /// `device/replies.rs`: a piece is delivered twice.
        PieceTwice => "piece-twice",
        /// The same file: a slot is returned before the socket has taken its bytes.
        SlotGivenBackEarly => "slot-given-back-early",
        /// The same file: some slots are never returned.
        SlotKept => "slot-kept",
        /// The same file: the engine is not told that a client disconnected.
        CancelLost => "cancel-lost",
        /// The same file: a failed reply is not removed.
        ReplyKept => "reply-kept",
        /// `device/device_core.rs`: time does not advance while reads are outstanding.
        TimeoutSwallowed => "timeout-swallowed",
        /// `device/flash/port.rs`: a record is listed in the summary but never written.
        RecordNotWritten => "record-not-written",
        /// The same file: a block is written again without being erased.
        EmptyLeftOut => "empty-left-out",
        /// The same file: two generations have the same number.
        FillingReused => "filling-reused",
        /// The same file: a block is sealed with the sequence number of the previous block.
        SequenceStale => "sequence-stale",
        /// `device/flash/jobs.rs`: records are not flushed before the summary.
        FlushLeftOut => "flush-left-out",
        /// The same file: a failed write counts as successful.
        WriteErrorSwallowed => "write-error-swallowed",
        /// The same file: a checkpoint is written without the blocks sealed since the previous
        /// checkpoint.
        CheckpointStale => "checkpoint-stale",
        /// `flash/checkpoints.rs`: the checkpoint of a group is not invalidated when one of the
        /// group's blocks is written again.
        CheckpointNotVoided => "checkpoint-not-voided",
        /// The same file: a group that cannot be read gets a checkpoint as if it were empty.
        UnreadableForgotten => "unreadable-forgotten",
        /// `flash/format/record.rs`: a record is accepted whatever key its header contains.
        RecordKeyUnchecked => "record-key-unchecked",
        /// The same file: the checksum of a record is not checked.
        ChecksumUnchecked => "checksum-unchecked",
        /// `flash/format/summary.rs`: a summary is accepted without checking its checksum.
        TornSummaryTaken => "torn-summary-taken",
        /// `flash/format/checkpoint.rs`: a checkpoint is accepted without checking its checksum, up
        /// to the first invalid summary.
        TornCheckpointTaken => "torn-checkpoint-taken",
        /// `flash/format/scan.rs`: a summary is accepted whatever generation the first record of
        /// its block belongs to.
        FrontUnchecked => "front-unchecked",
        /// The same file: a scan combines records of two generations.
        SearchMixesFillings => "search-mixes-fillings",
        /// `http/plan.rs`: a range is one byte shorter than requested.
        RangeOffByOne => "range-off-by-one",
        /// The same file: the last of several ranges is not sent.
        LastRangeLeftOut => "last-range-left-out",
        /// `http/conditional.rs`: `If-Range` is ignored.
        IfRangeIgnored => "if-range-ignored",
        /// `lab/faults/library.rs`, an imitation: the result of a lookup is used indefinitely.
        LookUpBelieved => "look-up-believed",
        /// The same file: all versions of a file have the same name on flash.
        KeyWithoutVersion => "key-without-version",
        /// `lab/faults/world`: a hanging disk blocks the other disks.
        HangShared => "hang-shared",
    }
}

thread_local! {
    static ACTIVE: Cell<Option<Mutant>> = const { Cell::new(None) };
}

/// Whether this mutant is active in this thread.
pub fn is_active(mutant: Mutant) -> bool {
    ACTIVE.get() == Some(mutant)
}

/// Keeps a mutant active in this thread until it is dropped.
#[derive(Debug)]
pub struct ActiveMutant(Option<Mutant>);

/// Activates a mutant, or none, in this thread.
pub fn activate(mutant: Option<Mutant>) -> ActiveMutant {
    ActiveMutant(ACTIVE.replace(mutant))
}

impl Drop for ActiveMutant {
    fn drop(&mut self) {
        ACTIVE.set(self.0);
    }
}
