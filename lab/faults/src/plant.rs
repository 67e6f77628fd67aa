//! Bugs that are planted on purpose, to see that they are found.
//!
//! All are in the part that stands for the shell, or between it and the real code: what is real is
//! not changed by them.

headlong_units::names! {
    /// A bug that can be planted.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Plant {
        /// The version is not looked at after a read.
        VersionUnchecked => "version-unchecked",
        /// A read that ended early counts as whole.
        ShortReadTaken => "short-read-taken",
        /// A read that failed counts as done.
        ErrorSwallowed => "error-swallowed",
        /// Memory is filled in another order than the engine said.
        SlotsReversed => "slots-reversed",
        /// A piece is passed on twice.
        PieceTwice => "piece-twice",
        /// A slot is given back before the socket took its bytes.
        SlotGivenBackEarly => "slot-given-back-early",
        /// Now and then a slot is not given back.
        SlotKept => "slot-kept",
        /// The engine is not told that a viewer left.
        CancelLost => "cancel-lost",
        /// Time that passes is not told while reads are outstanding.
        TimeoutSwallowed => "timeout-swallowed",
        /// Want of descriptors counts as an error of the device.
        ResourcesBlamed => "resources-blamed",
        /// A range is asked for with one byte less.
        RangeOffByOne => "range-off-by-one",
        /// Of several ranges the last is not sent.
        LastRangeLeftOut => "last-range-left-out",
        /// `If-Range` is not looked at.
        IfRangeIgnored => "if-range-ignored",
        /// What a look-up found is believed for ever.
        LookUpBelieved => "look-up-believed",
        /// A file has one name on flash in all its versions.
        KeyWithoutVersion => "key-without-version",
        /// A record is believed whatever its header names.
        RecordKeyUnchecked => "record-key-unchecked",
        /// A record's checksum is not looked at.
        ChecksumUnchecked => "checksum-unchecked",
        /// A record is copied when it is written, not when it leaves memory.
        StagedLate => "staged-late",
        /// A summary is taken without its checksum.
        TornSummaryTaken => "torn-summary-taken",
        /// The records are not flushed before the summary.
        FlushLeftOut => "flush-left-out",
        /// A summary is believed whatever filling the record at the front of its block is of.
        FrontUnchecked => "front-unchecked",
        /// A group's checkpoint is not made void when a block of the group is filled anew.
        CheckpointNotVoided => "checkpoint-not-voided",
        /// A checkpoint is written without what was sealed since the one before.
        CheckpointStale => "checkpoint-stale",
        /// A checkpoint is taken without its checksum, as far as its summaries are right.
        TornCheckpointTaken => "torn-checkpoint-taken",
        /// Of a group of blocks that cannot be read a checkpoint is written as if nothing were there.
        UnreadableForgotten => "unreadable-forgotten",
        /// A search takes records of two fillings for those of one.
        SearchMixesFillings => "search-mixes-fillings",
        /// A block is sealed with the number of the one before.
        SequenceStale => "sequence-stale",
        /// A write that failed counts as done.
        WriteErrorSwallowed => "write-error-swallowed",
        /// One disk's hang holds up the others.
        HangShared => "hang-shared",
    }
}
