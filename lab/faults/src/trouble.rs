//! What goes wrong in a plan, and when.
//!
//! The one idea (swarm testing: Groce and others 2012): each seed has a few kinds of faults only, for
//! one kind often hides what another would show.

use headlong_random::Generator;
use headlong_units::{Duration, Instant};

use crate::draw::Draw;
use crate::fault::{DiskFault, FileChange, Restart, SsdFault};
use crate::machine::DiskPlan;
use crate::settings::SettingChange;
use crate::step::{Step, Timed};

const KINDS: u64 = 6;

/// Adds the faults of a seed.
pub(crate) fn faults(
    chance: &Generator,
    length: Duration,
    disks: &[DiskPlan],
    ssds: usize,
    steps: &mut Vec<Timed>,
) {
    let mut draw = Draw(chance.fork("faults"));
    let is_on: Vec<bool> = (0..KINDS).map(|_| draw.percent(45)).collect();
    let files = [draw.pick(&FILE_CHANGES), draw.pick(&FILE_CHANGES)];
    let ssd_faults: Vec<SsdFault> = (0..2).map(|_| ssd_fault(&mut draw)).collect();
    let mut add = |draw: &mut Draw, step| {
        let at = Instant(draw.0.below(length.0));
        steps.push((at, step));
        at
    };
    let mut again = Vec::new();
    let count = |draw: &mut Draw, most| draw.between(1, most);
    if is_on[0] {
        for _ in 0..count(&mut draw, 3) {
            let disk = draw.between(0, disks.len() as u64 - 1) as usize;
            let (fault, lasts) = (disk_fault(&mut draw), draw.millis(100, 60_000));
            add(&mut draw, Step::Disk(disk, fault, lasts));
        }
    }
    if is_on[1] && ssds > 0 {
        for _ in 0..count(&mut draw, 4) {
            let (ssd, lasts) = (draw.between(0, ssds as u64 - 1), draw.millis(500, 60_000));
            let fault = draw.pick(&ssd_faults);
            add(&mut draw, Step::Ssd(ssd as usize, fault, lasts));
        }
    }
    if is_on[2] {
        for _ in 0..count(&mut draw, 8) {
            let disk = draw.between(0, disks.len() as u64 - 1) as usize;
            let title = draw.between(0, disks[disk].titles.len() as u64 - 1) as usize;
            let parts = disks[disk].titles[title].sizes.len() as u64;
            let (part, change) = (draw.between(0, parts - 1) as usize, draw.pick(&files));
            let change = change(&mut draw);
            add(&mut draw, Step::File(disk, title, part, change));
        }
    }
    // Ends are what a tier is most easily broken by.
    if is_on[3] || ssds > 0 && draw.percent(50) {
        let kinds = [Restart::Clean, Restart::Kill, Restart::PowerCut];
        for _ in 0..count(&mut draw, if ssds > 0 { 6 } else { 3 }) {
            let restart = draw.pick(&kinds);
            let at = add(&mut draw, Step::Restart(restart));
            // Some come while what is on SSDs is looked at.
            if draw.percent(20) {
                let restart = draw.pick(&kinds);
                again.push((at + draw.millis(1, 300), Step::Restart(restart)));
            }
        }
    }
    if is_on[4] && draw.percent(40) {
        let by = draw.scaled(1, 40_000_000) as i64;
        let by = if draw.percent(50) { by } else { -by };
        add(&mut draw, Step::Clock(by));
    }
    if is_on[5] {
        for _ in 0..count(&mut draw, 3) {
            let disk = draw.between(0, disks.len() as u64 - 1) as usize;
            let change = SettingChange::draw(&mut draw, 6);
            add(&mut draw, Step::Settings(disk, change));
        }
    }
    steps.extend(again);
}

fn disk_fault(draw: &mut Draw) -> DiskFault {
    let from = draw.0.below(65_536) as u16;
    let to = draw.between(from.into(), (u64::from(from) + 20_000).min(65_535)) as u16;
    let share = draw.pick(&[10, 50, 100]);
    draw.pick(&[
        DiskFault::BadRange(from, to),
        DiskFault::Errors(share),
        DiskFault::Hang,
        DiskFault::Slow(share),
        DiskFault::NoDescriptors,
        DiskFault::Vanish,
        DiskFault::VanishAndChange,
    ])
}

fn ssd_fault(draw: &mut Draw) -> SsdFault {
    let share = draw.pick(&[5, 30, 100]);
    let byte = draw.pick(&[0, 0xff, 0x5a]);
    draw.pick(&[
        SsdFault::ReadErrors(share),
        SsdFault::WriteErrors(share),
        SsdFault::FlushErrors(share),
        SsdFault::LostWrites(share),
        SsdFault::LostWrites(share),
        SsdFault::Misdirected(share),
        SsdFault::Torn(share),
        SsdFault::FlipsRead(share),
        SsdFault::FlipsAtRest(share * 4),
        SsdFault::StaleReads(share),
        SsdFault::StaleReads(share),
        SsdFault::Wiped(byte),
        SsdFault::Hang,
        SsdFault::Slow(share * 10),
        SsdFault::Vanish,
        SsdFault::OlderImage,
    ])
}

type Change = fn(&mut Draw) -> FileChange;

const FILE_CHANGES: [Change; 8] = [
    |_| FileChange::InPlace,
    |_| FileChange::InPlace,
    |draw| FileChange::Truncate(draw.0.below(256) as u8),
    |draw| FileChange::Extend(draw.scaled(1, 40_000)),
    |draw| FileChange::Replace(draw.0.below(256) as u8),
    |_| FileChange::Replace(128),
    |_| FileChange::Remove,
    |_| FileChange::Restore,
];
