//! This server in place of the paper's system: the engine with its flash tier, in the world of
//! `headlong simulate`, with the same workload, disk and SSD.
//!
//! It starts with an empty tier, runs at half the rate until it has been filled several times over,
//! and is then measured.

use headlong_bench::{LimitSearch, RunRecord, VirtualCell};
use headlong_sim::{
    FlashSetup, MeasuredWindow, Placement, RunFigures, VirtualExperiment, WarmContent, WorldSetup,
    settings,
};
use headlong_units::{Duration, Instant, MIB};
use serde::Serialize;

use super::library::specification;
use super::ssds::ssd_b;
use super::tiered_systems::{FlashstreamScope, MEMORY_GIB, SSD_BYTES};

/// Number of times the tier is filled before the measurement, at the rate of a disk alone.
const FILLINGS: u64 = 4;
const FILLED_BYTES_PER_S: u64 = 20_000_000;
/// Starting rate of a search, MiB/s.
const GUESS_MIB_S: f64 = 80.0;

/// A configuration of this server's tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HeadlongTier {
    pub(super) name: &'static str,
    /// `None`: without a tier.
    policy: Option<&'static str>,
    /// Whether writes are limited to the default budget, scaled.
    has_budget: bool,
}

const fn ours(name: &'static str, policy: Option<&'static str>, has_budget: bool) -> HeadlongTier {
    HeadlongTier {
        name,
        policy,
        has_budget,
    }
}

/// All configurations; quick ones first.
pub(super) const ALL: [HeadlongTier; 6] = [
    ours("headlong, no SSD", None, false),
    ours("headlong, lru", Some("lru"), false),
    ours("headlong, adaptive (default)", Some("adaptive"), true),
    ours("headlong, adaptive, no budget", Some("adaptive"), false),
    ours("headlong, lfu-mean", Some("lfu-mean"), false),
    ours("headlong, lfu-median", Some("lfu-median"), false),
];

/// Result of a configuration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct HeadlongLimit {
    pub(super) name: &'static str,
    /// Highest rate without a missed segment.
    pub(super) requests_per_s: Option<f64>,
    /// Share of bytes from flash at that rate, and from memory.
    pub(super) flash_share: f64,
    pub(super) memory_share: f64,
    /// Written bytes, 10^9 per day.
    pub(super) written_gb_per_day: f64,
}

impl HeadlongTier {
    fn experiment(&self, effort: &FlashstreamScope) -> VirtualExperiment {
        let scale = effort.scale.max(1);
        let bytes = SSD_BYTES / scale;
        let filling = Duration::from_secs(FILLINGS * bytes / FILLED_BYTES_PER_S);
        let warmed = filling + effort.ramp;
        let mut setup = WorldSetup {
            placement: Placement::Spread,
            window: MeasuredWindow {
                from: Instant::ZERO + warmed,
                to: Instant::ZERO + warmed + effort.measured,
            },
            ..WorldSetup::default()
        };
        setup.engine.memory_bytes = (MEMORY_GIB * 1024 - 512) * MIB / scale;
        for (key, value) in [("admission", "accept"), ("prefetch", "auto")] {
            settings::set(&mut setup.engine, key, value).expect("a setting of the engine");
        }
        if let Some(policy) = self.policy {
            settings::set(&mut setup.engine, "flash_policy", policy).expect("a policy");
            // The tier is scaled, the time is not: the same share of the whole tier's daily budget.
            setup.engine.flash.write_per_day_bytes = Some(match self.has_budget {
                true => SSD_BYTES / 10 * 3,
                false => u64::MAX / 1024,
            });
            let drive = ssd_b();
            setup.flash = Some(FlashSetup {
                drive: drive.scaled_to(drive.capacity_bytes() / scale),
                ssds: 1,
                bytes,
                block_bytes: 16 << 20,
                is_warm: false,
                content: WarmContent::default(),
            });
        }
        VirtualExperiment {
            workload: specification(scale, effort.alpha),
            drive: headlong_drive::preset("seagate-st1000dm003").expect("a preset"),
            setup,
            steps: vec![(Duration::ZERO, 0.5), (filling, 1.0)],
        }
    }

    /// Its highest rate without a missed segment.
    pub(super) fn limit(&self, effort: &FlashstreamScope) -> HeadlongLimit {
        let cell = VirtualCell::of_options(self.experiment(effort), self.name, "");
        let (start, resolution) = (GUESS_MIB_S, effort.resolution);
        let mib = MIB as f64;
        let search = LimitSearch::without_failure(start * mib, resolution * mib, effort.seeds);
        let searched = cell.search(search, effort.seed);
        // The configurations are built in, and a test checks each of them.
        let records = searched.map(|searched| searched.passed).unwrap_or_default();
        let passed: Vec<&RunFigures> = records.iter().filter_map(RunRecord::figures).collect();
        let mean = |of: &dyn Fn(&RunFigures) -> f64| {
            let sum: f64 = passed.iter().copied().map(of).sum();
            sum / passed.len().max(1) as f64
        };
        HeadlongLimit {
            name: self.name,
            requests_per_s: (!passed.is_empty()).then(|| mean(&|of| of.calls as f64 / of.seconds)),
            flash_share: mean(&|of| of.flash_ratio),
            memory_share: mean(&|of| of.ram_ratio),
            written_gb_per_day: mean(&|of| {
                let flash = of.flash.as_ref();
                flash.map_or(0.0, |flash| flash.written_gb_per_day)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_are_valid_worlds() {
        let effort = FlashstreamScope {
            scale: 100,
            seed: 1,
            seeds: 1,
            alpha: 0.8,
            ramp: Duration::from_secs(10),
            measured: Duration::from_secs(10),
            resolution: 8.0,
            windows: 1,
        };
        for ours in ALL {
            let experiment = ours.experiment(&effort);
            let wrong: Vec<_> = experiment.setup.engine.check().collect();
            assert!(wrong.is_empty(), "{}: {wrong:?}", ours.name);
            assert_eq!(experiment.setup.flash.is_some(), ours.policy.is_some());
        }
    }
}
