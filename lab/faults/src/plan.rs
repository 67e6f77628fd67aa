//! The plan of a seed: hardware, settings, viewers, and faults with their times.
//!
//! The whole plan is drawn before the run, as a list of steps. A failing seed can therefore be
//! shrunk by removing steps. Each seed has only a few kinds of faults (swarm testing: Groce and
//! others 2012), because one kind often masks the effects of another.

use std::collections::BTreeSet;

use headlong_random::Generator;
use headlong_units::{Duration, Instant};

use crate::fault::{CrashPoint, DiskFault, FileChange, RestartKind, SsdFault};
use crate::fault_mix::{FaultMix, disk_fault, ssd_fault};
use crate::machine::{DiskPlan, SsdPlan, disk_plan};
use crate::profile::Profile;
use crate::random_source::RandomSource;
use crate::session::{ViewerSession, session};
use crate::settings::SettingChange;

/// A step and its time.
pub(crate) type TimedStep = (Instant, PlanStep);

/// A step.
#[derive(Debug, Clone)]
pub(crate) enum PlanStep {
    /// A viewer arrives.
    Session(ViewerSession),
    /// A fault of a disk begins, for a time.
    Disk(usize, DiskFault, Duration),
    /// A fault of an SSD begins, for a time.
    Ssd(usize, SsdFault, Duration),
    /// A file changes: disk, title and part.
    File(usize, usize, usize, FileChange),
    /// The server ends and starts again.
    Restart(RestartKind, CrashPoint),
    /// The wall clock jumps by so many milliseconds.
    Clock(i64),
    /// New settings for a disk.
    Settings(usize, SettingChange),
}

impl PlanStep {
    /// The only disk that it affects, if there is one.
    pub(crate) fn disk(&self) -> Option<usize> {
        match self {
            Self::Session(session) => Some(session.disk),
            Self::Disk(disk, ..) | Self::File(disk, ..) | Self::Settings(disk, _) => Some(*disk),
            Self::Ssd(..) | Self::Restart(..) | Self::Clock(_) => None,
        }
    }

    /// The kinds of faults of the step, by their numbers in docs/develop/faults.md.
    pub(crate) fn faults(&self) -> &'static [u8] {
        match self {
            Self::Disk(_, fault, _) => fault.numbers(),
            Self::Ssd(_, fault, _) => fault.numbers(),
            Self::File(.., FileChange::Truncate(_) | FileChange::Extend(_)) => &[13, 19],
            Self::File(..) => &[19],
            Self::Restart(RestartKind::Clean, _) => &[20],
            Self::Restart(RestartKind::Kill, _) => &[1],
            Self::Restart(RestartKind::PowerCut, _) => &[2, 3, 4],
            Self::Clock(_) => &[17],
            Self::Session(_) | Self::Settings(..) => &[],
        }
    }

    /// Whether it is anything but an arriving viewer.
    pub(crate) fn is_trouble(&self) -> bool {
        !matches!(self, Self::Session(_))
    }
}

/// Everything that a seed determines.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    pub(crate) disks: Vec<DiskPlan>,
    pub(crate) ssds: Vec<SsdPlan>,
    /// Steps in order of time.
    pub(crate) steps: Vec<TimedStep>,
    /// How long a look-up is valid.
    pub(crate) revalidate: Duration,
}

impl Plan {
    /// The plan of a seed.
    pub fn of(seed: u64) -> Self {
        Self::with_theme(seed, Profile::of(seed))
    }

    /// The plan of a seed with a given theme.
    pub fn with_theme(seed: u64, theme: Profile) -> Self {
        let lean = theme.lean();
        let chance = Generator::new(seed);
        let mut draw = RandomSource(chance.fork("machine"));
        let ssd_count = draw.pick(lean.ssds);
        let has_tier = ssd_count > 0;
        let piece_bytes = draw.pick(if has_tier {
            lean.tier_pieces
        } else {
            lean.pieces
        });
        let disk_count = draw.pick(lean.disks);
        let disks: Vec<DiskPlan> = (0..disk_count)
            .map(|disk| {
                let draw = RandomSource(chance.fork("disk").fork_at(disk));
                disk_plan(draw, piece_bytes, has_tier, lean)
            })
            .collect();
        let ssds = (0..ssd_count)
            .map(|_| SsdPlan {
                read_us: draw.scaled(50, 3000),
                write_us: draw.scaled(100, 20_000),
                disk_blocks: draw.pick(lean.disk_blocks),
                first_block: draw.pick(lean.first_block),
            })
            .collect();
        let length = draw.millis(lean.length_ms.0, lean.length_ms.1);
        let mut steps = Vec::new();
        let mut coming = RandomSource(chance.fork("viewers"));
        let (viewers_min, most, most_with_tier) = lean.viewers;
        let viewers_max = if has_tier { most_with_tier } else { most };
        for number in 0..coming.between(viewers_min, viewers_max) {
            let at = Instant(coming.0.below(length.0));
            let drawing = RandomSource(chance.fork("viewer").fork_at(number));
            steps.push((at, PlanStep::Session(session(drawing, number, &disks))));
        }
        let ssds_of = ssd_count as usize;
        faults(&chance, length, &disks, ssds_of, &lean.trouble, &mut steps);
        steps.sort_by_key(|(at, _)| *at);
        let revalidate = draw.pick(lean.revalidate_ms);
        Self {
            seed,
            disks,
            ssds,
            steps,
            revalidate: Duration::from_millis(revalidate),
        }
    }

    /// Number of steps.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there are no steps.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The plan with only the steps whose numbers are in `keep`.
    #[must_use]
    pub fn with_steps(&self, keep: &[usize]) -> Self {
        let steps = keep.iter().filter_map(|at| self.steps.get(*at).cloned());
        Self {
            steps: steps.collect(),
            ..self.clone()
        }
    }

    /// The plan without the faults of other disks.
    pub(crate) fn with_trouble_of(&self, disk: usize) -> Self {
        let mut plan = self.clone();
        let is_of = |step: &PlanStep| !step.is_trouble() || step.disk().is_none_or(|of| of == disk);
        plan.steps.retain(|(_, step)| is_of(step));
        plan
    }

    /// The kinds of faults in it, by their numbers in docs/develop/faults.md.
    pub fn faults(&self) -> BTreeSet<u8> {
        let restarts = |(_, step): &&TimedStep| matches!(step, PlanStep::Restart(..));
        let is_twice = self.steps.iter().filter(restarts).count() > 1;
        let of_steps = self.steps.iter().flat_map(|(_, step)| step.faults());
        of_steps.copied().chain(is_twice.then_some(20)).collect()
    }

    /// The steps, one line each.
    pub fn lines(&self) -> Vec<String> {
        let line = |(at, step): &TimedStep| format!("{:>10.3} {step:?}", at.0 as f64 / 1e9);
        self.steps.iter().map(line).collect()
    }
}

/// Draws the faults of a seed and their times.
fn faults(
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
