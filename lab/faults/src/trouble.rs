//! What goes wrong in a plan, and when.
//!
//! The one idea (swarm testing: Groce and others 2012): each seed has a few kinds of faults only, for
//! one kind often hides what another would show.

use headlong_random::Generator;
use headlong_units::{Duration, Instant};

use crate::draw::Draw;
use crate::fault::{DiskFault, FileChange, Moment, SsdFault};
use crate::machine::DiskPlan;
use crate::settings::SettingChange;
use crate::step::{Step, Timed};
use crate::theme::Trouble;

/// Adds the faults of a seed.
pub(crate) fn faults(
    chance: &Generator,
    length: Duration,
    disks: &[DiskPlan],
    ssds: usize,
    of: &Trouble,
    steps: &mut Vec<Timed>,
) {
    let mut draw = Draw(chance.fork("faults"));
    let shares = [
        of.of_disks.0,
        of.of_ssds.0,
        of.of_files.0,
        of.ends.0,
        of.clock,
        of.settings.0,
    ];
    let is_on = shares.map(|share| draw.percent(share));
    let files = [draw.pick(of.of_files.2), draw.pick(of.of_files.2)];
    let ssd_faults: Vec<SsdFault> = (0..2).map(|_| ssd_fault(&mut draw, of.of_ssds.2)).collect();
    let mut add = |draw: &mut Draw, step| {
        let at = Instant(draw.0.below(length.0));
        steps.push((at, step));
        at
    };
    let mut again = Vec::new();
    let count = |draw: &mut Draw, most| draw.between(1, most);
    if is_on[0] {
        for _ in 0..count(&mut draw, of.of_disks.1) {
            let disk = draw.between(0, disks.len() as u64 - 1) as usize;
            let fault = disk_fault(&mut draw, of.of_disks.2);
            let lasts = draw.millis(of.ill_ms.0, of.ill_ms.1);
            add(&mut draw, Step::Disk(disk, fault, lasts));
        }
    }
    if is_on[1] && ssds > 0 {
        for _ in 0..count(&mut draw, of.of_ssds.1) {
            let (ssd, lasts) = (
                draw.between(0, ssds as u64 - 1),
                draw.millis(of.ssd_ill_ms.0, of.ssd_ill_ms.1),
            );
            let fault = draw.pick(&ssd_faults);
            add(&mut draw, Step::Ssd(ssd as usize, fault, lasts));
        }
    }
    if is_on[2] {
        for _ in 0..count(&mut draw, of.of_files.1) {
            let disk = draw.between(0, disks.len() as u64 - 1) as usize;
            let title = draw.between(0, disks[disk].titles.len() as u64 - 1) as usize;
            let parts = disks[disk].titles[title].sizes.len() as u64;
            let (part, change) = (draw.between(0, parts - 1) as usize, draw.pick(&files));
            let change = change(&mut draw);
            add(&mut draw, Step::File(disk, title, part, change));
        }
    }
    // Ends are what a tier is most easily broken by.
    let (share, most, kinds) = of.ends;
    if is_on[3] || share > 0 && ssds > 0 && draw.percent(50) {
        for _ in 0..count(&mut draw, if ssds > 0 { most } else { most.div_ceil(2) }) {
            let restart = draw.pick(kinds);
            let moment = match of.moments {
                [] => Moment::Any,
                moments => draw.pick(moments),
            };
            let at = add(&mut draw, Step::Restart(restart, moment));
            // Some come while what is on SSDs is looked at.
            if draw.percent(of.again) {
                let restart = draw.pick(kinds);
                again.push((
                    at + draw.millis(1, 300),
                    Step::Restart(restart, Moment::Any),
                ));
            }
        }
    }
    if is_on[4] && draw.percent(40) {
        let by = draw.scaled(1, 40_000_000) as i64;
        let by = if draw.percent(50) { by } else { -by };
        add(&mut draw, Step::Clock(by));
    }
    if is_on[5] {
        for _ in 0..count(&mut draw, of.settings.1) {
            let disk = draw.between(0, disks.len() as u64 - 1) as usize;
            let change = SettingChange::draw(&mut draw, 6);
            add(&mut draw, Step::Settings(disk, change));
        }
    }
    steps.extend(again);
}

/// What is drawn for a fault of a disk.
pub(crate) struct DiskDraw {
    from: u16,
    to: u16,
    share: u64,
}

/// A kind of fault of a disk, of an SSD, and of a change of a file.
pub(crate) type OfDisk = fn(&DiskDraw) -> DiskFault;
pub(crate) type OfSsd = fn(u64, u8) -> SsdFault;
pub(crate) type OfFile = fn(&mut Draw) -> FileChange;

fn disk_fault(draw: &mut Draw, of: &[OfDisk]) -> DiskFault {
    let from = draw.0.below(65_536) as u16;
    let to = draw.between(from.into(), (u64::from(from) + 20_000).min(65_535)) as u16;
    let share = draw.pick(&[10, 50, 100]);
    draw.pick(of)(&DiskDraw { from, to, share })
}

pub(crate) const HANG: OfDisk = |_| DiskFault::Hang;
pub(crate) const SLOW: OfDisk = |of| DiskFault::Slow(of.share);
pub(crate) const NO_DESCRIPTORS: OfDisk = |_| DiskFault::NoDescriptors;

pub(crate) const ALL_DISK_FAULTS: [OfDisk; 7] = [
    |of| DiskFault::BadRange(of.from, of.to),
    |of| DiskFault::Errors(of.share),
    HANG,
    SLOW,
    NO_DESCRIPTORS,
    |_| DiskFault::Vanish,
    |_| DiskFault::VanishAndChange,
];

fn ssd_fault(draw: &mut Draw, of: &[OfSsd]) -> SsdFault {
    let share = draw.pick(&[5, 30, 100]);
    let byte = draw.pick(&[0, 0xff, 0x5a]);
    draw.pick(of)(share, byte)
}

pub(crate) const READ_ERRORS: OfSsd = |share, _| SsdFault::ReadErrors(share);
pub(crate) const WRITE_ERRORS: OfSsd = |share, _| SsdFault::WriteErrors(share);
pub(crate) const AWAY: OfSsd = |_, _| SsdFault::Vanish;
pub(crate) const LOST_WRITES: OfSsd = |share, _| SsdFault::LostWrites(share);
pub(crate) const MISDIRECTED: OfSsd = |share, _| SsdFault::Misdirected(share);
pub(crate) const TORN: OfSsd = |share, _| SsdFault::Torn(share);
pub(crate) const FLIPS_READ: OfSsd = |share, _| SsdFault::FlipsRead(share);
pub(crate) const STALE_READS: OfSsd = |share, _| SsdFault::StaleReads(share);

pub(crate) const ALL_SSD_FAULTS: [OfSsd; 16] = [
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

pub(crate) const ALL_FILE_CHANGES: [OfFile; 8] = [
    |_| FileChange::InPlace,
    |_| FileChange::InPlace,
    |draw| FileChange::Truncate(draw.0.below(256) as u8),
    |draw| FileChange::Extend(draw.scaled(1, 40_000)),
    |draw| FileChange::Replace(draw.0.below(256) as u8),
    |_| FileChange::Replace(128),
    |_| FileChange::Remove,
    |_| FileChange::Restore,
];
