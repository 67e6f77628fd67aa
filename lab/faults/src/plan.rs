//! What a seed is: the machine, its settings, who comes, and what goes wrong when.
//!
//! The one idea: all of it is drawn before anything runs, as a list of steps. So a failing seed can
//! be shrunk by leaving out steps, and what is left fails for the same reason.

use std::collections::BTreeSet;

use headlong_random::Generator;
use headlong_units::{Duration, Instant};

use crate::draw::Draw;
use crate::machine::{DiskPlan, SsdPlan, disk_plan};
use crate::session::session;
use crate::step::{Step, Timed};
use crate::trouble::faults;

/// Everything that a seed says.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    pub(crate) disks: Vec<DiskPlan>,
    pub(crate) ssds: Vec<SsdPlan>,
    /// What happens when, in order.
    pub(crate) steps: Vec<Timed>,
    /// How long what was found on disk is believed.
    pub(crate) revalidate: Duration,
}

impl Plan {
    /// The plan of a seed.
    pub fn of(seed: u64) -> Self {
        let chance = Generator::new(seed);
        let mut draw = Draw(chance.fork("machine"));
        let ssd_count = draw.pick(&[0, 0, 1, 1, 2]);
        let piece_bytes = match ssd_count {
            0 => draw.pick(&[4096, 4096, 8192]),
            // With large pieces the blocks of a tier go round soon.
            _ => draw.pick(&[4096, 4096, 8192, 32_768, 32_768]),
        };
        let disk_count = draw.pick(&[1, 1, 2, 2, 3]);
        let disks: Vec<DiskPlan> = (0..disk_count)
            .map(|disk| {
                disk_plan(
                    Draw(chance.fork("disk").fork_at(disk)),
                    piece_bytes,
                    ssd_count > 0,
                )
            })
            .collect();
        let ssds = (0..ssd_count)
            .map(|_| SsdPlan {
                read_us: draw.scaled(50, 3000),
                write_us: draw.scaled(100, 20_000),
                // Of two groups most times; all of a group now and then.
                disk_blocks: draw.pick(&[2, 2, 2, 3, 4, 20]),
                first_block: draw.pick(&[0, 13, 14, 15, 15]),
            })
            .collect();
        let length = draw.millis(4000, 60_000);
        let mut steps = Vec::new();
        let mut coming = Draw(chance.fork("viewers"));
        let viewers_max = if ssd_count > 0 { 60 } else { 14 };
        for number in 0..coming.between(3, viewers_max) {
            let at = Instant(coming.0.below(length.0));
            let drawing = Draw(chance.fork("viewer").fork_at(number));
            steps.push((at, Step::Session(session(drawing, number, &disks))));
        }
        faults(&chance, length, &disks, ssd_count as usize, &mut steps);
        steps.sort_by_key(|(at, _)| *at);
        let revalidate = draw.pick(&[0, 200, 1000, 1000]);
        Self {
            seed,
            disks,
            ssds,
            steps,
            revalidate: Duration::from_millis(revalidate),
        }
    }

    /// How many steps there are.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether nothing happens at all.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The same with only those steps that `keep` says, by number.
    #[must_use]
    pub fn with_steps(&self, keep: &[usize]) -> Self {
        let steps = keep.iter().filter_map(|at| self.steps.get(*at).cloned());
        Self {
            steps: steps.collect(),
            ..self.clone()
        }
    }

    /// The same without what goes wrong on other disks than this.
    pub(crate) fn with_trouble_of(&self, disk: usize) -> Self {
        let mut plan = self.clone();
        let is_of = |step: &Step| !step.is_trouble() || step.disk().is_none_or(|of| of == disk);
        plan.steps.retain(|(_, step)| is_of(step));
        plan
    }

    /// The kinds of faults in it, by their numbers in docs/develop/faults.md.
    pub fn faults(&self) -> BTreeSet<u8> {
        let restarts = |(_, step): &&Timed| matches!(step, Step::Restart(_));
        let is_twice = self.steps.iter().filter(restarts).count() > 1;
        let of_steps = self.steps.iter().flat_map(|(_, step)| step.faults());
        of_steps.copied().chain(is_twice.then_some(20)).collect()
    }

    /// The steps, a line for each.
    pub fn lines(&self) -> Vec<String> {
        let line = |(at, step): &Timed| format!("{:>10.3} {step:?}", at.0 as f64 / 1e9);
        self.steps.iter().map(line).collect()
    }
}
