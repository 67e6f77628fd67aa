//! The systems of Figure 7 and the machines of Table 5, and their measurement.

use headlong_drive::DriveSpec;
use headlong_units::{Duration, GIB, MIB};
use serde::Serialize;

use super::library::{SegmentRequests, TitleLibrary};
use super::machine::{Machine, MachineSpec, SsdSample, library};
use super::ssds::{ssd_a, ssd_b};
use super::tiers::{
    FlashStream, FlashStreamSpec, Flashcache, L2arc, NoTier, ReplacementPolicy, Tier,
};

/// Part of the SSD in use in Figure 7 (5), and in Table 5.
pub(super) const SSD_BYTES: u64 = 75_000_000_000;
const SSD_TABLE_5_BYTES: u64 = 100_000_000_000;
/// Memory of the system itself, not available for segments; unknown from the paper.
const OWN_BYTES: u64 = GIB / 2;
/// Memory in Figure 7.
pub(super) const MEMORY_GIB: u64 = 8;
/// Mean bytes of a segment, to convert request rates to bytes.
const SEGMENT_BYTES: u64 = 974_400;
/// Factor by which rates are raised until one fails; then they are raised in steps of the
/// resolution.
const COARSE: f64 = 1.125;
/// Lower bound of the search: the guess divided by this.
const SLOWEST: f64 = 64.0;

/// A system with its machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TieredSystem {
    pub(super) name: &'static str,
    pub(super) kind: TierKind,
    pub(super) memory_gib: u64,
    pub(super) ssd_bytes: u64,
    pub(super) disks: usize,
    /// Starting rate of the search for its limit, requests per second.
    pub(super) guess: f64,
}

/// The tier between memory and disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TierKind {
    None,
    Stream(ReplacementPolicy),
    /// With `l2arc_noprefetch` or without.
    L2arc(bool),
    Flashcache,
}

const fn figure_7(name: &'static str, kind: TierKind, guess: f64) -> TieredSystem {
    system(name, kind, (MEMORY_GIB, SSD_BYTES, 1), guess)
}

/// The systems of Figure 7, and the same machine without an SSD.
pub(super) const FIGURE_7: [TieredSystem; 7] = [
    figure_7("no SSD", TierKind::None, 28.0),
    figure_7(
        "FlashStream (LRU)",
        TierKind::Stream(ReplacementPolicy::Lru),
        48.0,
    ),
    figure_7(
        "FlashStream (LFU-Mean)",
        TierKind::Stream(ReplacementPolicy::LfuMean),
        48.0,
    ),
    figure_7(
        "FlashStream (LFU-Median)",
        TierKind::Stream(ReplacementPolicy::LfuMedian),
        48.0,
    ),
    figure_7(
        "ZFS (model), no read-ahead on SSD",
        TierKind::L2arc(true),
        32.0,
    ),
    figure_7(
        "ZFS (model), read-ahead on SSD",
        TierKind::L2arc(false),
        40.0,
    ),
    figure_7("flashcache (model)", TierKind::Flashcache, 2.0),
];

const fn system(
    name: &'static str,
    kind: TierKind,
    (memory_gib, ssd_bytes, disks): (u64, u64, usize),
    guess: f64,
) -> TieredSystem {
    TieredSystem {
        name,
        kind,
        memory_gib,
        ssd_bytes,
        disks,
        guess,
    }
}

/// The machines of Table 5.
pub(super) const TABLE_5: [TieredSystem; 3] = [
    system(
        "FlashStream",
        TierKind::Stream(ReplacementPolicy::Lru),
        (2, SSD_TABLE_5_BYTES, 1),
        48.0,
    ),
    system("Traditional A", TierKind::None, (12, 0, 1), 30.0),
    system("Traditional B", TierKind::None, (2, 0, 2), 48.0),
];

/// Accuracy and scale.
#[derive(Debug, Clone, Copy)]
pub(super) struct FlashstreamScope {
    /// Reduction factor of titles, memory and flash.
    pub(super) scale: u64,
    pub(super) seed: u64,
    pub(super) seeds: u32,
    /// Zipf's exponent.
    pub(super) alpha: f64,
    pub(super) ramp: Duration,
    pub(super) measured: Duration,
    /// Resolution in requests per second.
    pub(super) resolution: f64,
    /// See [`MachineSpec::windows`].
    pub(super) windows: u32,
}

/// The highest rate of a system, with the figures at that rate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct SystemLimit {
    pub(super) name: &'static str,
    /// Highest rate without a missed segment; nothing if none was found.
    pub(super) requests_per_s: Option<f64>,
    /// Mean over the seeds at that rate: shares of requests answered from the SSD, and from memory.
    pub(super) ssd_share: f64,
    pub(super) memory_share: f64,
    /// The longest response time.
    pub(super) longest_s: f64,
    /// Busy shares of a disk and of the SSD at that rate, mean over the seeds.
    pub(super) disk_busy: f64,
    pub(super) ssd_busy: f64,
    /// See [`MachineSpec::windows`].
    pub(super) windows: u32,
}

/// A run at a rate.
#[derive(Debug, Clone, Copy)]
struct RateRun {
    missed: u64,
    ssd_share: f64,
    memory_share: f64,
    longest_s: f64,
    busy: [f64; 2],
}

impl TieredSystem {
    pub(super) fn spec(&self, effort: &FlashstreamScope) -> MachineSpec {
        // flashcache was measured with SSD A, on which it was faster (5).
        let ssd = match self.kind {
            TierKind::Flashcache => ssd_a(),
            _ => ssd_b(),
        };
        let scaled = |bytes: u64| bytes / effort.scale.max(1);
        MachineSpec {
            scale: effort.scale,
            memory_bytes: scaled(self.memory_gib * GIB - OWN_BYTES),
            disk: disk(),
            disks: self.disks,
            ssd: ssd.scaled_to(scaled(ssd.capacity_bytes())),
            windows: effort.windows,
        }
    }

    fn ssd_bytes(&self, effort: &FlashstreamScope) -> u64 {
        self.ssd_bytes / effort.scale.max(1)
    }

    fn tier(&self, effort: &FlashstreamScope) -> Box<dyn Tier> {
        let bytes = self.ssd_bytes(effort);
        match self.kind {
            TierKind::None => Box::new(NoTier),
            TierKind::Stream(victim) => Box::new(FlashStream::new(FlashStreamSpec {
                victim,
                bytes,
                block_bytes: 16 * MIB,
                takes_any_block: false,
            })),
            TierKind::L2arc(no_prefetch) => Box::new(L2arc::new(bytes, no_prefetch)),
            TierKind::Flashcache => Box::new(Flashcache::new(bytes)),
        }
    }

    /// A machine with warm caches.
    fn warmed(&self, effort: &FlashstreamScope, requests: &mut SegmentRequests<'_>) -> Machine {
        let mut machine = Machine::new(&self.spec(effort), self.tier(effort));
        let has_small_writes = self.kind == TierKind::Flashcache;
        if has_small_writes {
            machine.age_ssd(self.ssd_bytes(effort));
        }
        machine.begin_warming(has_small_writes);
        let turnover = (self.ssd_bytes(effort) + self.spec(effort).memory_bytes) / SEGMENT_BYTES;
        machine.run(
            requests,
            FOREVER,
            |machine| {
                let asked = machine.counts.requests;
                asked >= 12 * turnover || (asked >= 4 * turnover && machine.tier.filled() >= 1.0)
            },
            |_| {},
        );
        machine.end_warming();
        machine
    }

    /// Runs one rate on a warm machine, until a segment is missed.
    fn run(
        effort: &FlashstreamScope,
        machine: &mut Machine,
        requests: &mut SegmentRequests<'_>,
        rate: f64,
    ) -> RateRun {
        requests.set_rate(rate);
        machine.run(requests, effort.ramp, |_| false, |_| {});
        machine.begin_count();
        let is_lost = |machine: &Machine| machine.counts.missed > 0;
        machine.run(requests, effort.measured, is_lost, |_| {});
        let counts = machine.counts;
        RateRun {
            missed: counts.missed,
            ssd_share: counts.ssd_share(),
            memory_share: counts.from_memory as f64 / counts.requests.max(1) as f64,
            longest_s: counts.longest.as_secs_f64(),
            busy: machine.busy_shares(),
        }
    }

    /// Raises the rate on one warm machine as in the paper (5.2); returns the last that passed.
    fn raise(
        &self,
        effort: &FlashstreamScope,
        library: &TitleLibrary,
        seed: u64,
        mut rates: impl Iterator<Item = f64>,
    ) -> Option<(f64, RateRun)> {
        let mut requests = library.requests(self.guess, seed);
        let mut machine = self.warmed(effort, &mut requests);
        let mut passed = None;
        rates.try_for_each(|rate| {
            let run = Self::run(effort, &mut machine, &mut requests, rate);
            (run.missed == 0).then(|| passed = Some((rate, run)))
        });
        passed
    }

    /// The highest rate that passes with one seed.
    fn limit_of_seed(
        &self,
        effort: &FlashstreamScope,
        library: &TitleLibrary,
        seed: u64,
    ) -> Option<(f64, RateRun)> {
        let mut from = self.guess / 2.0;
        let coarse = loop {
            let rates = std::iter::successors(Some(from), |rate| Some(rate * COARSE));
            match self.raise(effort, library, seed, rates) {
                Some(passed) => break passed,
                None if from > self.guess / SLOWEST => from /= 4.0,
                None => return None,
            }
        };
        // After a failure the machine still has a queue, so a second, warm one is used. If it
        // misses at once, near the limit, the first one's result counts.
        let step = effort.resolution.min(coarse.0 / 8.0);
        let first = (coarse.0 / step).floor() * step;
        let rates = (0..).map(|index| first + f64::from(index) * step);
        self.raise(effort, library, seed, rates).or(Some(coarse))
    }

    /// Its highest rate without a missed segment, over all seeds.
    pub(super) fn limit(&self, effort: &FlashstreamScope) -> SystemLimit {
        let library = library(effort.scale, effort.alpha, &self.spec(effort));
        let seeds = (effort.seed..).take(effort.seeds.max(1) as usize);
        let of_seeds: Option<Vec<(f64, RateRun)>> = seeds
            .map(|seed| self.limit_of_seed(effort, &library, seed))
            .collect();
        let of_seeds = of_seeds.unwrap_or_default();
        let runs: Vec<RateRun> = of_seeds.iter().map(|(_, run)| *run).collect();
        let rates = of_seeds.iter().map(|(rate, _)| *rate);
        let mean = |of: fn(&RateRun) -> f64| {
            let sum: f64 = runs.iter().map(of).sum();
            sum / runs.len().max(1) as f64
        };
        SystemLimit {
            name: self.name,
            requests_per_s: rates.reduce(f64::min),
            ssd_share: mean(|run| run.ssd_share),
            memory_share: mean(|run| run.memory_share),
            longest_s: runs.iter().map(|run| run.longest_s).fold(0.0, f64::max),
            disk_busy: mean(|run| run.busy[0]),
            ssd_busy: mean(|run| run.busy[1]),
            windows: effort.windows,
        }
    }

    /// Minutes to fill its empty SSD, converted to full size; nothing if longer than four days.
    pub(super) fn minutes_to_fill(&self, effort: &FlashstreamScope, rate: f64) -> Option<f64> {
        let library = library(effort.scale, effort.alpha, &self.spec(effort));
        let mut machine = Machine::new(&self.spec(effort), self.tier(effort));
        if self.kind == TierKind::Flashcache {
            machine.age_ssd(self.ssd_bytes(effort));
        }
        let began = machine.now;
        let mut requests = library.requests(rate, effort.seed);
        let most = Duration(FILLING_MAX.0 / effort.scale.max(1));
        let is_full = |machine: &Machine| machine.tier.filled() >= FULL;
        machine.run(&mut requests, most, is_full, |_| {});
        let minutes = machine.now.since(began).as_secs_f64() / 60.0;
        (machine.tier.filled() >= FULL).then_some(minutes * effort.scale as f64)
    }
}

/// Sets and blocks leave unused remainders: this counts as full.
const FULL: f64 = 0.98;
const FOREVER: Duration = Duration::from_secs(100_000_000);
const FILLING_MAX: Duration = Duration::from_secs(4 * 86_400);

fn disk() -> DriveSpec {
    // 7,200 rpm and 1 TB (Table 6).
    headlong_drive::preset("seagate-st1000dm003").expect("a preset of this repository")
}

/// Result for blocks of one size (Figure 8).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct BlockRun {
    pub(super) block_bytes: u64,
    /// Filled share of the SSD.
    pub(super) filled: f64,
    /// Share of requests answered from it.
    pub(super) ssd_share: f64,
    /// Share of those that missed the deadline.
    pub(super) missed_share: f64,
    pub(super) busy: f64,
    pub(super) stretches: Vec<SsdSample>,
}

/// An hour from a cold cache with blocks of a size, free ones selected at random; scaled.
pub(super) fn block_run(effort: &FlashstreamScope, block_bytes: u64, rate: f64) -> BlockRun {
    let system = FIGURE_7[1];
    let spec = system.spec(effort);
    let stream = FlashStream::new(FlashStreamSpec {
        victim: ReplacementPolicy::Lru,
        bytes: system.ssd_bytes(effort),
        block_bytes,
        takes_any_block: true,
    });
    let library = library(effort.scale, effort.alpha, &spec);
    let mut machine = Machine::new(&spec, Box::new(stream));
    machine.age_ssd(system.ssd_bytes(effort));
    let mut requests = library.requests(rate, effort.seed);
    let mut stretches = Vec::new();
    let length = Duration(Duration::from_secs(3_600).0 / effort.scale.max(1));
    machine.run(&mut requests, length, |_| false, |of| stretches.push(of));
    let counts = machine.counts;
    let busy: f64 = stretches.iter().map(|of| of.busy).sum();
    BlockRun {
        block_bytes,
        filled: machine.tier.filled(),
        ssd_share: counts.ssd_share(),
        missed_share: counts.missed_on_ssd as f64 / counts.from_ssd.max(1) as f64,
        busy: busy / stretches.len().max(1) as f64,
        stretches,
    }
}

/// Power of memory, SSD and active disks (Table 6), in watts.
pub(super) fn watts(system: &TieredSystem, prices: &headlong_plan::PriceTable) -> f64 {
    let modules = (system.memory_gib as f64 / prices.ram.module_gb).ceil();
    let of = |spec: &DriveSpec| prices.of(spec).map_or(0.0, |priced| priced.watts);
    let ssd = if system.ssd_bytes > 0 {
        of(&ssd_b())
    } else {
        0.0
    };
    modules * prices.ram.module_watts + ssd + of(&disk()) * system.disks as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> FlashstreamScope {
        FlashstreamScope {
            scale: 200,
            seed: 1,
            seeds: 1,
            alpha: 0.8,
            ramp: Duration::from_secs(20),
            measured: Duration::from_secs(60),
            resolution: 8.0,
            windows: 1,
        }
    }

    #[test]
    fn outstanding_windows_raise_limit_of_disk() {
        let limit = |windows| {
            let effort = FlashstreamScope { windows, ..small() };
            TABLE_5[1].limit(&effort)
        };
        let [one, two] = [1, 2].map(limit);
        println!("seed 1: {one:?} {two:?}");
        assert!(two.requests_per_s > one.requests_per_s);
        assert!(one.disk_busy > 0.0 && one.ssd_busy == 0.0);
    }

    #[test]
    fn ssd_raises_limit() {
        let [without, with] = [0, 1].map(|index: usize| FIGURE_7[index].limit(&small()));
        println!("seed 1: {without:?} {with:?}");
        assert!(with.requests_per_s > without.requests_per_s);
        assert!(with.ssd_share > 0.1 && without.ssd_share == 0.0);
    }

    #[test]
    fn small_blocks_keep_ssd_busy_without_filling_it() {
        let [large, small] = [16 * MIB, 4096].map(|bytes| block_run(&small(), bytes, 20.0));
        println!("seed 1: {large:?} {small:?}");
        assert!(large.filled > 100.0 * small.filled);
        assert!(large.ssd_share > small.ssd_share);
    }

    #[test]
    fn watts_of_table_5_follow_from_table_6() {
        let prices = headlong_plan::PriceTable::flashstream().expect("prices");
        let watts = TABLE_5.map(|system| watts(&system, &prices));
        assert_eq!(watts, [22.0, 60.0, 32.0]);
    }
}
