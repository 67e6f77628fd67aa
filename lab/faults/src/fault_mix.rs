//! Kinds of faults of disks, SSDs and files, and their frequency in a plan.

use crate::fault::{CrashPoint, DiskFault, FileChange, RestartKind, SsdFault};
use crate::random_source::RandomSource;

/// Faults of a plan: of each kind the probability in percent, the maximum number, and the variants.
#[derive(Debug)]
pub(crate) struct FaultMix {
    pub(crate) of_disks: (u64, u64, &'static [DiskFaultFn]),
    pub(crate) of_ssds: (u64, u64, &'static [SsdFaultFn]),
    pub(crate) of_files: (u64, u64, &'static [FileChangeFn]),
    /// Restarts; half as frequent without a tier.
    pub(crate) ends: (u64, u64, &'static [RestartKind]),
    /// Moments of restarts; any moment if empty.
    pub(crate) moments: &'static [CrashPoint],
    /// Percentage of restarts that are followed by another one during startup.
    pub(crate) again: u64,
    pub(crate) clock: u64,
    pub(crate) settings: (u64, u64),
    /// Duration of faults of disks and SSDs in milliseconds, from and to.
    pub(crate) ill_ms: (u64, u64),
    pub(crate) ssd_ill_ms: (u64, u64),
}

/// Random parameters of a fault of a disk.
pub(crate) struct DiskDraw {
    from: u16,
    to: u16,
    share: u64,
}

/// Constructors of faults of a disk, of an SSD, and of changes of a file.
pub(crate) type DiskFaultFn = fn(&DiskDraw) -> DiskFault;
pub(crate) type SsdFaultFn = fn(u64, u8) -> SsdFault;
pub(crate) type FileChangeFn = fn(&mut RandomSource) -> FileChange;

pub(crate) fn disk_fault(draw: &mut RandomSource, of: &[DiskFaultFn]) -> DiskFault {
    let from = draw.0.below(65_536) as u16;
    let to = draw.between(from.into(), (u64::from(from) + 20_000).min(65_535)) as u16;
    let share = draw.pick(&[10, 50, 100]);
    draw.pick(of)(&DiskDraw { from, to, share })
}

pub(crate) const HANG: DiskFaultFn = |_| DiskFault::Hang;
pub(crate) const SLOW: DiskFaultFn = |of| DiskFault::Slow(of.share);
pub(crate) const NO_DESCRIPTORS: DiskFaultFn = |_| DiskFault::NoDescriptors;

pub(crate) const ALL_DISK_FAULTS: [DiskFaultFn; 7] = [
    |of| DiskFault::BadRange(of.from, of.to),
    |of| DiskFault::Errors(of.share),
    HANG,
    SLOW,
    NO_DESCRIPTORS,
    |_| DiskFault::Vanish,
    |_| DiskFault::VanishAndChange,
];

pub(crate) fn ssd_fault(draw: &mut RandomSource, of: &[SsdFaultFn]) -> SsdFault {
    let share = draw.pick(&[5, 30, 100]);
    let byte = draw.pick(&[0, 0xff, 0x5a]);
    draw.pick(of)(share, byte)
}

pub(crate) const READ_ERRORS: SsdFaultFn = |share, _| SsdFault::ReadErrors(share);
pub(crate) const WRITE_ERRORS: SsdFaultFn = |share, _| SsdFault::WriteErrors(share);
pub(crate) const AWAY: SsdFaultFn = |_, _| SsdFault::Vanish;
pub(crate) const LOST_WRITES: SsdFaultFn = |share, _| SsdFault::LostWrites(share);
pub(crate) const MISDIRECTED: SsdFaultFn = |share, _| SsdFault::Misdirected(share);
pub(crate) const TORN: SsdFaultFn = |share, _| SsdFault::Torn(share);
pub(crate) const FLIPS_READ: SsdFaultFn = |share, _| SsdFault::FlipsRead(share);
pub(crate) const STALE_READS: SsdFaultFn = |share, _| SsdFault::StaleReads(share);

pub(crate) const ALL_SSD_FAULTS: [SsdFaultFn; 16] = [
    READ_ERRORS,
    WRITE_ERRORS,
    |share, _| SsdFault::FlushErrors(share),
    LOST_WRITES,
    LOST_WRITES,
    MISDIRECTED,
    TORN,
    FLIPS_READ,
    |share, _| SsdFault::FlipsAtRest(share * 4),
    STALE_READS,
    STALE_READS,
    |_, byte| SsdFault::Wiped(byte),
    |_, _| SsdFault::Hang,
    |share, _| SsdFault::Slow(share * 10),
    AWAY,
    |_, _| SsdFault::OlderImage,
];

pub(crate) const ALL_FILE_CHANGES: [FileChangeFn; 8] = [
    |_| FileChange::InPlace,
    |_| FileChange::InPlace,
    |draw| FileChange::Truncate(draw.0.below(256) as u8),
    |draw| FileChange::Extend(draw.scaled(1, 40_000)),
    |draw| FileChange::Replace(draw.0.below(256) as u8),
    |_| FileChange::Replace(128),
    |_| FileChange::Remove,
    |_| FileChange::Restore,
];
