//! What can go wrong: kinds of faults, with the numbers by which documents name them.

/// How a disk is ill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiskFault {
    /// Reads of these bytes of each file fail: first and last, in 65,536ths of the file.
    BadRange(u16, u16),
    /// So many reads of a hundred fail.
    Errors(u64),
    /// Nothing comes back.
    Hang,
    /// So many times slower.
    Slow(u64),
    /// No file can be opened for want of descriptors.
    NoDescriptors,
    /// Everything fails; afterwards the same disk is there.
    Vanish,
    /// Everything fails; afterwards other files are there under the same names.
    VanishAndChange,
}

/// How an SSD is ill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SsdFault {
    /// So many of a hundred fail.
    ReadErrors(u64),
    /// The same of writes.
    WriteErrors(u64),
    /// The same of flushes; what was to be flushed is never durable then, although it can be read.
    FlushErrors(u64),
    /// So many writes of a hundred are told as done and not made.
    LostWrites(u64),
    /// The same, but some other place is written.
    Misdirected(u64),
    /// The same, but only some sectors are written.
    Torn(u64),
    /// So many reads of a hundred have a bit that is another.
    FlipsRead(u64),
    /// So many bits change where they lie, at once.
    FlipsAtRest(u64),
    /// So many reads of a hundred bring what lay there before.
    StaleReads(u64),
    /// All of it reads as this byte, as after a reformat: at once.
    Wiped(u8),
    /// Nothing comes back.
    Hang,
    /// So many times slower.
    Slow(u64),
    /// Everything fails.
    Vanish,
    /// The next start finds it as it was when this began.
    OlderImage,
}

impl DiskFault {
    /// Its numbers in docs/develop/faults.md.
    pub(crate) fn numbers(self) -> &'static [u8] {
        match self {
            Self::BadRange(..) | Self::Errors(_) => &[10],
            Self::Hang | Self::Slow(_) => &[15],
            Self::NoDescriptors => &[18],
            Self::Vanish | Self::VanishAndChange => &[14],
        }
    }
}

impl SsdFault {
    /// Its numbers in docs/develop/faults.md.
    pub(crate) fn numbers(self) -> &'static [u8] {
        match self {
            Self::ReadErrors(_) | Self::WriteErrors(_) => &[10],
            Self::FlushErrors(_) => &[10, 11],
            Self::LostWrites(_) => &[5],
            Self::Misdirected(_) => &[7],
            Self::Torn(_) => &[4],
            Self::FlipsRead(_) | Self::FlipsAtRest(_) => &[6],
            Self::StaleReads(_) => &[8],
            Self::Wiped(_) => &[9],
            Self::Hang | Self::Slow(_) => &[15],
            Self::Vanish => &[14],
            Self::OlderImage => &[16],
        }
    }

    /// Whether what was durable may be lost or other by this.
    pub(crate) fn is_dishonest(self) -> bool {
        !matches!(
            self,
            Self::ReadErrors(_)
                | Self::FlipsRead(_)
                | Self::StaleReads(_)
                | Self::WriteErrors(_)
                | Self::Hang
                | Self::Slow(_)
                | Self::Vanish
        )
    }
}

/// How a file changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileChange {
    /// Other bytes, as many, in place.
    InPlace,
    /// Cut to so many 256ths.
    Truncate(u8),
    /// So many bytes more.
    Extend(u64),
    /// Another file under its name, of so many 128ths of its length.
    Replace(u8),
    /// Away.
    Remove,
    /// Back, as another file.
    Restore,
}

/// How a server ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Restart {
    /// By order: it saves the checkpoints of flash.
    Clean,
    /// At once; what was written stays.
    Kill,
    /// With the machine's power; of what was not flushed any part may be there.
    PowerCut,
}

/// In the midst of which write to an SSD a server ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// The next, or none if that is long in coming; by order it mostly ends whole.
    Any,
    /// Checkpoints are written: when a block is made ready for something else, or by order.
    Checkpoint,
    /// Records.
    Records,
    /// A block is sealed.
    Seal,
}
