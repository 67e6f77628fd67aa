//! Kinds of faults, with their numbers in docs/develop/faults.md.

/// A fault of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiskFault {
    /// Reads of these bytes of each file fail: first and last, in 65,536ths of the file.
    BadRange(u16, u16),
    /// This percentage of reads fails.
    Errors(u64),
    /// Operations do not complete.
    Hang,
    /// Slower by this factor.
    Slow(u64),
    /// Files cannot be opened because descriptors are exhausted.
    NoDescriptors,
    /// Everything fails; afterwards the same disk is back.
    Vanish,
    /// Everything fails; afterwards the same names lead to other files.
    VanishAndChange,
}

/// A fault of an SSD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SsdFault {
    /// This percentage of reads fails.
    ReadErrors(u64),
    /// This percentage of writes fails.
    WriteErrors(u64),
    /// This percentage of flushes fails; the unflushed data is never durable then, although it can
    /// be read.
    FlushErrors(u64),
    /// This percentage of writes is acknowledged and not made.
    LostWrites(u64),
    /// This percentage of writes is acknowledged and goes to another address.
    Misdirected(u64),
    /// This percentage of writes is acknowledged and only some sectors are written.
    Torn(u64),
    /// This percentage of reads has a flipped bit.
    FlipsRead(u64),
    /// This number of bits flips at rest, at once.
    FlipsAtRest(u64),
    /// This percentage of reads returns the previous content.
    StaleReads(u64),
    /// Everything reads as this byte, as after a reformat: at once.
    Wiped(u8),
    /// Operations do not complete.
    Hang,
    /// Slower by this factor.
    Slow(u64),
    /// Everything fails.
    Vanish,
    /// The next start finds the image from the start of this fault.
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

    /// The percentage of operations that it strikes.
    pub(crate) fn share(self) -> Option<u64> {
        match self {
            Self::ReadErrors(share)
            | Self::WriteErrors(share)
            | Self::FlushErrors(share)
            | Self::LostWrites(share)
            | Self::Misdirected(share)
            | Self::Torn(share)
            | Self::FlipsRead(share)
            | Self::StaleReads(share) => Some(share),
            _ => None,
        }
    }

    /// Whether durable data may be lost or changed by it.
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

/// A change of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileChange {
    /// Other bytes in place, same size.
    InPlace,
    /// Truncated to so many 256ths.
    Truncate(u8),
    /// Extended by so many bytes.
    Extend(u64),
    /// Replaced by another file, of so many 128ths of its size.
    Replace(u8),
    /// Removed.
    Remove,
    /// Created again, as another file.
    Restore,
}

/// How a server ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RestartKind {
    /// Graceful shutdown: it saves the checkpoints of flash.
    Clean,
    /// Killed; all writes stay.
    Kill,
    /// Power failure; any part of the unflushed writes may survive.
    PowerCut,
}

/// The write to an SSD during which a server ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CrashPoint {
    /// The next one, or none if there is none soon; a graceful shutdown mostly completes.
    Any,
    /// A checkpoint: when a block is prepared for reuse, or at a graceful shutdown.
    Checkpoint,
    /// Records.
    Records,
    /// Sealing of a block.
    Seal,
}
