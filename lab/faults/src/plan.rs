//! The plan of a seed: hardware, settings, viewers, and faults with their times.
//!
//! The whole plan is drawn before the run, as a list of steps. A failing seed can therefore be
//! shrunk by removing steps.

use std::collections::BTreeSet;

use headlong_random::Generator;
use headlong_units::{Duration, Instant};

use crate::fault_schedule::faults;
use crate::machine::{DiskPlan, SsdPlan, disk_plan};
use crate::profile::Profile;
use crate::random_source::RandomSource;
use crate::session::session;
use crate::step::{PlanStep, TimedStep};

/// Everything that a seed determines.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    theme: Profile,
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
            theme,
            disks,
            ssds,
            steps,
            revalidate: Duration::from_millis(revalidate),
        }
    }

    /// Its theme.
    pub fn theme(&self) -> Profile {
        self.theme
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
