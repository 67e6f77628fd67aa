//! Draws the faults of a plan and their times.
//!
//! Each seed has only a few kinds of faults (swarm testing: Groce and others 2012), because one
//! kind often masks the effects of another.

use headlong_random::Generator;
use headlong_units::{Duration, Instant};

use crate::fault::{CrashPoint, SsdFault};
use crate::fault_mix::{FaultMix, disk_fault, ssd_fault};
use crate::machine::DiskPlan;
use crate::random_source::RandomSource;
use crate::settings::SettingChange;
use crate::step::{PlanStep, TimedStep};

/// Adds the faults of a seed.
pub(crate) fn faults(
    chance: &Generator,
    length: Duration,
    disks: &[DiskPlan],
    ssds: usize,
    of: &FaultMix,
    steps: &mut Vec<TimedStep>,
) {
    let mut draw = RandomSource(chance.fork("faults"));
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
    let mut add = |draw: &mut RandomSource, step| {
        let at = Instant(draw.0.below(length.0));
        steps.push((at, step));
        at
    };
    let mut again = Vec::new();
    let count = |draw: &mut RandomSource, most| draw.between(1, most);
    if is_on[0] {
        for _ in 0..count(&mut draw, of.of_disks.1) {
            let disk = draw.between(0, disks.len() as u64 - 1) as usize;
            let fault = disk_fault(&mut draw, of.of_disks.2);
            let lasts = draw.millis(of.ill_ms.0, of.ill_ms.1);
            add(&mut draw, PlanStep::Disk(disk, fault, lasts));
        }
    }
    if is_on[1] && ssds > 0 {
        for _ in 0..count(&mut draw, of.of_ssds.1) {
            let (ssd, lasts) = (
                draw.between(0, ssds as u64 - 1),
                draw.millis(of.ssd_ill_ms.0, of.ssd_ill_ms.1),
            );
            let fault = draw.pick(&ssd_faults);
            add(&mut draw, PlanStep::Ssd(ssd as usize, fault, lasts));
        }
    }
    if is_on[2] {
        for _ in 0..count(&mut draw, of.of_files.1) {
            let disk = draw.between(0, disks.len() as u64 - 1) as usize;
            let title = draw.between(0, disks[disk].titles.len() as u64 - 1) as usize;
            let parts = disks[disk].titles[title].sizes.len() as u64;
            let (part, change) = (draw.between(0, parts - 1) as usize, draw.pick(&files));
            let change = change(&mut draw);
            add(&mut draw, PlanStep::File(disk, title, part, change));
        }
    }
    // Restarts break a tier most easily.
    let (share, most, kinds) = of.ends;
    if is_on[3] || share > 0 && ssds > 0 && draw.percent(50) {
        for _ in 0..count(&mut draw, if ssds > 0 { most } else { most.div_ceil(2) }) {
            let restart = draw.pick(kinds);
            let moment = match of.moments {
                [] => CrashPoint::Any,
                moments => draw.pick(moments),
            };
            let at = add(&mut draw, PlanStep::Restart(restart, moment));
            // Some follow during recovery.
            if draw.percent(of.again) {
                let restart = draw.pick(kinds);
                again.push((
                    at + draw.millis(1, 300),
                    PlanStep::Restart(restart, CrashPoint::Any),
                ));
            }
        }
    }
    if is_on[4] && draw.percent(40) {
        let by = draw.scaled(1, 40_000_000) as i64;
        let by = if draw.percent(50) { by } else { -by };
        add(&mut draw, PlanStep::Clock(by));
    }
    if is_on[5] {
        for _ in 0..count(&mut draw, of.settings.1) {
            let disk = draw.between(0, disks.len() as u64 - 1) as usize;
            let change = SettingChange::draw(&mut draw, 6);
            add(&mut draw, PlanStep::Settings(disk, change));
        }
    }
    steps.extend(again);
}
