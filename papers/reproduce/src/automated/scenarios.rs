//! The paper's experiments as experiments of the simulator.

use headlong_drive::preset;
use headlong_engine::{Admission, Control, Order, Policy, Retention};
use headlong_sim::{
    CacheKind, MeasuredWindow, PageCacheServerSetup, ServerModel, VirtualExperiment, WorldSetup,
};
use headlong_units::{BitRate, Duration, GIB, Instant, KIB, MIB};
use headlong_workload::Specification;

/// Prefetch sizes of the figures, MiB (the papers' MB are 2^20: ten seconds of SD are 0.5 MB).
pub(super) const SIZES_MIB: [u64; 6] = [2, 4, 6, 8, 10, 12];
/// The same for a quick reproduction.
pub(super) const SIZES_QUICK_MIB: [u64; 4] = [2, 4, 8, 12];
/// Our estimate of the memory used by the system and its programs (section 6.1 gives only the
/// machine's memory).
const SYSTEM_BYTES: u64 = GIB / 2;
/// A request is one piece of SD or five of HD, and every prefetch size is a whole number of pieces.
/// The server's default pieces would triple the number of events, for rates that differ by some per
/// cent.
const PIECE_BYTES: u64 = 512 * KIB;
/// Bit rate of SD titles (section 6.2): 512 KiB in ten seconds; HD has 2,560 KiB.
const SD_RATE: BitRate = BitRate(419_430);
const HD_RATE: BitRate = BitRate(2_097_152);

/// Titles requested by viewers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TitleMix {
    Sd,
    Hd,
    /// Half of the sessions each (section 7.4).
    Mixed,
}

/// A configuration of a section of the paper, whose best size is searched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scenario {
    /// Its name in tables.
    pub(super) name: &'static str,
    /// Its figures, in the paper and in the thesis.
    pub(super) figures: &'static str,
    pub(super) titles: TitleMix,
    pub(super) memory_gib: u64,
    pub(super) alpha: &'static str,
    pub(super) drive: &'static str,
    /// Whether it is part of a quick reproduction.
    pub(super) is_quick: bool,
}

const RED: &str = "wd-red-wd10efrx";
const SEAGATE: &str = "seagate-st1000dm003";

const fn scenario(
    name: &'static str,
    figures: &'static str,
    titles: TitleMix,
    memory_gib: u64,
) -> Scenario {
    Scenario {
        name,
        figures,
        titles,
        memory_gib,
        alpha: "0.8",
        drive: RED,
        is_quick: false,
    }
}

/// All of them. The first two are the paper's first figure; each of the others varies one
/// parameter.
pub(super) const SCENARIOS: [Scenario; 11] = [
    Scenario {
        is_quick: true,
        ..scenario(
            "SD, 4 GB, Red",
            "1, 5, 7, 8 (4.1, 4.5, 4.7, 4.8)",
            TitleMix::Sd,
            4,
        )
    },
    Scenario {
        is_quick: true,
        ..scenario("HD, 4 GB, Red", "1, 6, 9 (4.1, 4.6, 4.9)", TitleMix::Hd, 4)
    },
    scenario("SD, 2 GB, Red", "5 (4.5)", TitleMix::Sd, 2),
    scenario("SD, 8 GB, Red", "5 (4.5)", TitleMix::Sd, 8),
    scenario("HD, 2 GB, Red", "6 (4.6)", TitleMix::Hd, 2),
    Scenario {
        is_quick: true,
        ..scenario("HD, 8 GB, Red", "6 (4.6)", TitleMix::Hd, 8)
    },
    Scenario {
        alpha: "0.6",
        ..scenario("SD, 4 GB, Red, alpha 0.6", "7 (4.7)", TitleMix::Sd, 4)
    },
    Scenario {
        alpha: "1.0",
        ..scenario("SD, 4 GB, Red, alpha 1.0", "7 (4.7)", TitleMix::Sd, 4)
    },
    Scenario {
        drive: SEAGATE,
        is_quick: true,
        ..scenario("SD, 4 GB, Seagate", "8 (4.8)", TitleMix::Sd, 4)
    },
    Scenario {
        drive: SEAGATE,
        ..scenario("HD, 4 GB, Seagate", "9 (4.9)", TitleMix::Hd, 4)
    },
    scenario("mixed, 4 GB, Red", "10 (4.10)", TitleMix::Mixed, 4),
];

/// Factor of the square-root rule for SD relative to HD (section 5).
pub(super) const SQUARE_ROOT_SCALE: f64 = 0.45;
/// Sizes of SD prefetches relative to HD's (section 7.4).
pub(super) const SCALES: [f64; 5] = [0.1, 0.2, SQUARE_ROOT_SCALE, 0.75, 1.0];
/// The HD size used with them.
pub(super) const SCALES_SIZE_MIB: u64 = 6;

/// The memory model of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MemoryModel {
    /// The paper's server: serialized reads on a miss, first come first served, into the kernel's
    /// page cache, which may evict prefetched data.
    PageCache,
    /// Headlong with its own scheduling, horizon and memory management.
    Own,
}

/// How the prefetch size is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PrefetchSizing {
    Fixed(u64),
    /// The paper's controller, with the paper's initial size.
    AutoPaper,
    /// Headlong's.
    Auto,
    /// None: a web server that leaves readahead to the kernel.
    Vanilla,
}

impl PrefetchSizing {
    pub(super) fn name(self) -> String {
        match self {
            Self::Fixed(mib) => format!("{mib} MB"),
            Self::AutoPaper => "auto-paper".to_owned(),
            Self::Auto => "auto".to_owned(),
            Self::Vanilla => "vanilla".to_owned(),
        }
    }
}

/// Durations of phases, in seconds of model time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PhaseDurations {
    /// Ramp: the load rises, as in the paper, and a controller finds its size. The same for all, so
    /// that all have the same viewers.
    pub(super) ramp: u64,
    /// The measured period.
    pub(super) measured: u64,
}

impl Scenario {
    /// The bit rate to which a size refers.
    fn reference_rate(&self) -> BitRate {
        match self.titles {
            TitleMix::Sd => SD_RATE,
            TitleMix::Hd | TitleMix::Mixed => HD_RATE,
        }
    }

    /// Initial size of the paper's controller (section 7), MiB.
    fn start_mib(&self) -> u64 {
        match (self.titles, self.drive == SEAGATE) {
            (TitleMix::Sd, false) => 3,
            (TitleMix::Sd, true) => 2,
            (_, false) => 4,
            (_, true) => 3,
        }
    }

    /// The experiment. `scale` is the ratio of the SD size to the HD size, for mixed titles.
    pub(super) fn experiment(
        &self,
        memory: MemoryModel,
        sizing: PrefetchSizing,
        scale: f64,
        times: PhaseDurations,
    ) -> VirtualExperiment {
        let ramp = times.ramp;
        let seconds = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let mut setup = WorldSetup {
            window: MeasuredWindow {
                from: seconds(ramp),
                to: seconds(ramp + times.measured),
            },
            ..WorldSetup::default()
        };
        let engine = &mut setup.engine;
        engine.piece_bytes = PIECE_BYTES;
        engine.memory_bytes = self.memory_gib * GIB - SYSTEM_BYTES;
        engine.admission = Admission::Accept;
        engine.sizing.policy = Policy::Fixed;
        engine.sizing.reference_bit_rate = self.reference_rate();
        if memory == MemoryModel::PageCache {
            engine.order = Order::Fcfs;
            engine.retention = Retention::PageCache;
            engine.ahead_horizon = Duration::ZERO;
            engine.outstanding_reads_max = 1;
        }
        let start_bytes = self.start_mib() * MIB;
        match sizing {
            PrefetchSizing::Fixed(mib) => engine.sizing.reference_bytes = mib * MIB,
            PrefetchSizing::AutoPaper => {
                engine.control.mode = Control::Paper;
                engine.control.start_bytes = Some(start_bytes);
                engine.sizing.reference_bytes = start_bytes;
            }
            PrefetchSizing::Auto => engine.control.mode = Control::Auto,
            PrefetchSizing::Vanilla => setup.server = self.vanilla(),
        }
        if self.titles == TitleMix::Mixed {
            engine.sizing.policy = Policy::Proportional;
            setup.bit_rates_known = true;
            let told = BitRate((HD_RATE.0 as f64 * scale).round() as u64);
            setup.bit_rates_told = vec![(SD_RATE, told)];
            if memory == MemoryModel::Own {
                // Our scheduling needs true paces; our sizing rule has that scale.
                engine.sizing.policy = Policy::SquareRoot;
                setup.bit_rates_told.clear();
            }
        }
        let steps = rising(ramp * 3 / 4);
        VirtualExperiment {
            workload: self.workload(),
            drive: preset(self.drive).expect("a preset of this repository"),
            setup,
            steps,
        }
    }

    /// The kernel's readahead equals FreeBSD's largest transaction, in such transactions, into a
    /// cache of single pages (sections 2.4 and 6.1; thesis 4.2.1).
    fn vanilla(&self) -> ServerModel {
        ServerModel::Vanilla(PageCacheServerSetup {
            memory_bytes: self.memory_gib * GIB - SYSTEM_BYTES,
            read_ahead_bytes: 128 * KIB,
            request_bytes_max: 128 * KIB,
            cache: CacheKind::Lru,
            ..PageCacheServerSetup::default()
        })
    }

    fn workload(&self) -> Specification {
        let name = match self.titles {
            TitleMix::Sd => "youtube-sd",
            TitleMix::Hd | TitleMix::Mixed => "youtube-hd",
        };
        let mut keys = vec![
            ("title.sd.zipf_alpha", self.alpha),
            ("title.hd.zipf_alpha", self.alpha),
        ];
        if self.titles == TitleMix::Mixed {
            keys.push(("title.sd.weight", "1"));
        }
        let keys = keys
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()));
        let keys: Vec<_> = keys.collect();
        Specification::preset(name, &keys).expect("a preset of this repository")
    }
}

/// Load factors from 80 % to 100 % in steps of 5 % over the given seconds (section 4.3).
pub(super) fn rising(seconds: u64) -> Vec<(Duration, f64)> {
    let step = |index: u64| {
        let at = Duration::from_secs(seconds * index / 4);
        (at, 0.8 + 0.05 * index as f64)
    };
    (0..=4).map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: PhaseDurations = PhaseDurations {
        ramp: 8,
        measured: 1,
    };

    #[test]
    fn scenarios_are_valid_experiments() {
        for scenario in SCENARIOS {
            for memory in [MemoryModel::PageCache, MemoryModel::Own] {
                for sizing in [
                    PrefetchSizing::Fixed(4),
                    PrefetchSizing::AutoPaper,
                    PrefetchSizing::Auto,
                ] {
                    let experiment = scenario.experiment(memory, sizing, 0.45, TIMES);
                    let wrong: Vec<_> = experiment.setup.engine.check().collect();
                    assert!(wrong.is_empty(), "{}: {wrong:?}", scenario.name);
                }
            }
        }
    }

    #[test]
    fn reference_rates_match_titles() {
        let mixed = SCENARIOS[10].experiment(
            MemoryModel::PageCache,
            PrefetchSizing::Fixed(6),
            0.45,
            TIMES,
        );
        let catalogue = headlong_workload::Catalogue::of(&mixed.workload);
        let mut rates: Vec<u64> = catalogue
            .titles
            .iter()
            .map(|t| t.bit_rate() as u64)
            .collect();
        rates.sort_unstable();
        rates.dedup();
        assert_eq!(rates, [SD_RATE.0, HD_RATE.0]);
    }

    #[test]
    fn load_rises_from_80_to_100_percent() {
        let steps = rising(2700);
        assert_eq!(steps.first(), Some(&(Duration::ZERO, 0.8)));
        assert_eq!(steps.last(), Some(&(Duration::from_secs(2700), 1.0)));
    }
}
