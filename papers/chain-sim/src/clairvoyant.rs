//! The optimum: a rule that knows the end of every chain, and a lower bound for all rules.
//!
//! **The clairvoyant rule** knows each chain's length and times. It reads a chain in n prefetches
//! of equal size, without surplus bytes, and frees the buffer when the chain ends. A common price
//! of memory determines n for each chain: it minimises `n` seeks plus the price of `length * time /
//! n` byte-seconds. Prices from low to high give the frontier, accounted like other rules.
//!
//! **The bound.** In a window of W seconds, on drives that do no other work, let any rule serve the
//! same chains with the same even consumption, with one buffer per chain that is replaced at each
//! prefetch, and with a minute's mean memory of at most M bytes in every minute. Then
//! - it reads at least the bytes consumed after the window's first minute, minus M: at some time in
//!   that minute at most M is in memory. In the window of all time nothing comes before, and all
//!   bytes consumed are read;
//! - a chain served by k buffers within the window, consuming L bytes evenly in D seconds of it,
//!   holds at least `L * D / k` byte-seconds (each buffer is as large as the bytes consumed from
//!   it; the sum of squares is minimal if all are equal); and k is the number of its prefetches
//!   within the window, plus one if it began earlier;
//! - all chains together hold at most `M * W`.
//!
//! Under the last condition, the minimum number of seeks is at least its Lagrangian dual at any
//! price (weak duality); the best of several prices is used. Seconds of seeks and bytes, divided by
//! W and the number of drives, bound the mean over drives and therefore the busiest drive; the best
//! of several windows is used. So no rule that keeps a chain's bytes to itself can need less. The
//! bound does not cover: sharing between viewers (a cache), reads for several chains at once, or
//! drives that transfer faster than `t_max` or seek faster than `s_max` by ordering their work.

use std::ops::Range;

use serde::Serialize;

use crate::drive::DriveRates;
use crate::point::{CostPoint, SimulationError, SimulationSettings, account, in_parts};
use crate::sizes::{SizePlan, SizeProvider};
use crate::table::ChainTable;

/// Number of prices at which the dual is evaluated.
const PRICES: usize = 49;
/// The clairvoyant rule is simulated at each n-th of them.
const PRICES_SIMULATED: usize = 3;
/// Lengths of windows around the busiest minutes, in minutes.
const WINDOWS: [usize; 3] = [10, 60, 360];
/// Chains per partial sum: floating-point sums depend on their order, and must not depend on the
/// number of threads.
const CHAINS_PER_SUM: usize = 1 << 14;

/// One price of the clairvoyant rule.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FrontierPoint {
    /// Seconds of drive time that are worth a GB-second of memory.
    pub price: f64,
    /// Its cost; `size` is the mean of its prefetches.
    #[serde(flatten)]
    pub point: CostPoint,
}

/// Lower bound for all rules.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LowerBound {
    /// Memory as a minute's mean, GB.
    pub mem: f64,
    /// Lower bound of the mean utilisation over drives in the busiest minute, and so of the worst
    /// drive.
    pub util_busiest: f64,
    /// First minute of the window that gives the bound.
    pub from_minute: u64,
    /// Length of that window in minutes.
    pub minutes: u64,
    /// Lower bound of the mean utilisation over all time.
    pub util_mean: f64,
}

/// Points of the clairvoyant rule and the bound, both by increasing memory.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Frontier {
    /// The rule.
    pub points: Vec<FrontierPoint>,
    /// The bound.
    pub bounds: Vec<LowerBound>,
}

impl Frontier {
    /// The bound for this memory in GB: that of the next larger memory evaluated.
    pub fn bound_at(&self, mem: f64) -> Option<&LowerBound> {
        self.bounds.iter().find(|bound| bound.mem >= mem)
    }
}

/// Computes both; the bound for the memories of the clairvoyant points and for `mem_gb`.
///
/// # Errors
/// As [`CostPoint::simulate`].
pub fn frontier(
    table: &ChainTable,
    settings: &SimulationSettings,
    mem_gb: &[f64],
) -> Result<Frontier, SimulationError> {
    let prices = prices(table, &settings.drive);
    let gigabyte = settings.megabyte.gigabyte() as f64;
    let mut points = Vec::new();
    for price in prices.iter().step_by(PRICES_SIMULATED) {
        let rule = ClairvoyantRule {
            price: *price,
            seek_s: 1.0 / settings.drive.seeks_per_s,
            size_max: table.lengths().iter().copied().max().unwrap_or(1),
        };
        let books = account(table, &rule, settings)?;
        let mean_bytes = books.read_bytes / books.prefetches.max(1);
        let point = CostPoint::of(&books, "clairvoyant".to_owned(), mean_bytes, settings);
        points.push(FrontierPoint {
            price: price * 1000.0 * gigabyte,
            point,
        });
    }
    points.sort_by(|one, other| one.point.mem.total_cmp(&other.point.mem));
    let mut memories: Vec<f64> = points.iter().map(|point| point.point.mem).collect();
    memories.extend_from_slice(mem_gb);
    memories.sort_by(f64::total_cmp);
    memories.dedup();
    let windows = windows(table);
    let duals: Vec<DualFunction> = windows
        .into_iter()
        .map(|window| DualFunction::new(table, window, &prices, settings))
        .collect();
    let bounds = memories
        .into_iter()
        .map(|mem| bound(&duals, mem, mem * gigabyte));
    Ok(Frontier {
        bounds: bounds.collect(),
        points,
    })
}

fn bound(duals: &[DualFunction], mem: f64, bytes: f64) -> LowerBound {
    let mut best = LowerBound {
        mem,
        util_busiest: 0.0,
        from_minute: 0,
        minutes: 0,
        // The first window is all time.
        util_mean: duals.first().map_or(0.0, |dual| dual.utilisation(bytes)),
    };
    for dual in duals {
        let util = dual.utilisation(bytes);
        if util > best.util_busiest {
            best.util_busiest = util;
            best.from_minute = dual.window.start as u64;
            best.minutes = dual.window.len() as u64;
        }
    }
    best
}

/// Prices in seconds of drive time per byte-millisecond, from one at which hardly any chain is
/// divided to one at which most are read in a hundred parts.
fn prices(table: &ChainTable, drive: &DriveRates) -> Vec<f64> {
    let areas = (0..table.len()).map(|chain| ChainWindow::whole(table, chain).area());
    let (mut most, mut sum, mut count) = (0.0_f64, 0.0, 0.0);
    for area in areas.filter(|area| *area > 0.0) {
        most = most.max(area);
        sum += area;
        count += 1.0;
    }
    if count == 0.0 {
        return vec![0.0];
    }
    let seek_s = 1.0 / drive.seeks_per_s;
    let (low, high) = (seek_s / most, seek_s * 1e4 * count / sum);
    let ratio = (high / low).max(1.0);
    (0..PRICES)
        .map(|index| low * ratio.powf(index as f64 / (PRICES - 1) as f64))
        .collect()
}

/// All time first, then windows around the busiest minutes.
fn windows(table: &ChainTable) -> Vec<Range<usize>> {
    let all = table.minutes();
    let consumed = table.consumed_by_minute();
    let mut windows = vec![all.clone()];
    for minutes in WINDOWS {
        if minutes >= all.len() {
            continue;
        }
        let sums = consumed.windows(minutes).map(|bytes| bytes.iter().sum());
        let sums: Vec<u64> = sums.collect();
        // The first of equal ones.
        let busiest = (0..sums.len()).rev().max_by_key(|start| sums[*start]);
        let start = all.start + busiest.unwrap_or(0);
        windows.push(start..start + minutes);
    }
    windows
}

/// The part of a chain within a window.
#[derive(Debug, Clone, Copy)]
struct ChainWindow {
    bytes: f64,
    ms: f64,
    /// Whether it began before the window, so that an earlier buffer may serve it.
    is_served: bool,
}

impl ChainWindow {
    fn whole(table: &ChainTable, chain: usize) -> Self {
        Self {
            bytes: table.lengths[chain] as f64,
            ms: (table.ends_ms[chain] - table.starts_ms[chain]) as f64,
            is_served: false,
        }
    }

    /// `None` if the chain is not in progress in the window.
    fn within(table: &ChainTable, chain: usize, from_ms: u64, to_ms: u64) -> Option<Self> {
        let (start, end) = (table.starts_ms[chain], table.ends_ms[chain]);
        if start >= to_ms || end < from_ms {
            return None;
        }
        let before = table.consumed_until(chain, from_ms);
        let after = table.consumed_until(chain, to_ms);
        // Rounded down on both sides, like the bytes read.
        let bytes = after.saturating_sub(before + u64::from(before > 0));
        Some(Self {
            bytes: bytes as f64,
            ms: (end.min(to_ms) - start.max(from_ms)) as f64,
            is_served: start < from_ms,
        })
    }

    fn area(&self) -> f64 {
        self.bytes * self.ms
    }

    /// Minimum, over the number of prefetches, of the seconds of seeks plus the price of memory.
    fn least(&self, seek_s: f64, price: f64) -> f64 {
        let priced = self.area() * price;
        let served = f64::from(u8::from(self.is_served));
        // Over real numbers the minimum is at the root; over integers next to it.
        let root = (priced / seek_s).sqrt();
        let cost = |buffers: f64| {
            let buffers = buffers.max(1.0);
            (buffers - served) * seek_s + priced / buffers
        };
        cost(root.floor()).min(cost(root.ceil()))
    }
}

/// The dual function of one window.
struct DualFunction {
    window: Range<usize>,
    drives: f64,
    bytes_per_s: f64,
    /// Bytes consumed; without the first minute if the window is not the first.
    bytes: f64,
    /// Whether other minutes come before the window.
    is_inner: bool,
    /// For each price the minimum of seeks and memory, s.
    least: Vec<(f64, f64)>,
}

impl DualFunction {
    fn new(
        table: &ChainTable,
        window: Range<usize>,
        prices: &[f64],
        settings: &SimulationSettings,
    ) -> Self {
        let drives = settings.drives(table);
        let seek_s = 1.0 / settings.drive.seeks_per_s;
        let (from_ms, to_ms) = (window.start as u64 * 60_000, window.end as u64 * 60_000);
        let is_inner = window.start > table.minutes().start;
        let read_from_ms = from_ms + u64::from(is_inner) * 60_000;
        let read_bytes = |chain: usize| {
            let before = table.consumed_until(chain, read_from_ms);
            let after = table.consumed_until(chain, to_ms);
            // Rounded down on both sides; one byte less keeps it a lower bound.
            after.saturating_sub(before + u64::from(before > 0)) as f64
        };
        let parts_of = |chains: Range<usize>| {
            chains
                .filter(|chain| usize::from(table.disks[*chain]) < drives)
                .filter_map(|chain| {
                    Some((chain, ChainWindow::within(table, chain, from_ms, to_ms)?))
                })
        };
        let run_sums = |run: usize| {
            let mut sums = vec![0.0; prices.len() + 1];
            for (chain, part) in
                parts_of(run * CHAINS_PER_SUM..((run + 1) * CHAINS_PER_SUM).min(table.len()))
            {
                sums[prices.len()] += read_bytes(chain);
                for (sum, price) in sums.iter_mut().zip(prices) {
                    *sum += part.least(seek_s, *price);
                }
            }
            sums
        };
        let runs = table.len().div_ceil(CHAINS_PER_SUM);
        let by_run = in_parts(runs, settings.threads, |runs| {
            runs.map(run_sums).collect::<Vec<_>>()
        });
        let mut sums = vec![0.0; prices.len() + 1];
        for run in by_run.iter().flatten() {
            for (sum, of_run) in sums.iter_mut().zip(run) {
                *sum += of_run;
            }
        }
        Self {
            window,
            drives: drives as f64,
            bytes_per_s: settings.drive.bytes_per_s,
            bytes: sums[prices.len()],
            is_inner,
            least: prices.iter().copied().zip(sums).collect(),
        }
    }

    /// The bound with this memory in bytes.
    fn utilisation(&self, memory_bytes: f64) -> f64 {
        let ms = self.window.len() as f64 * 60_000.0;
        let ready_bytes = if self.is_inner { memory_bytes } else { 0.0 };
        let reading = (self.bytes - ready_bytes).max(0.0) / self.bytes_per_s;
        let seeking = self
            .least
            .iter()
            .map(|(price, least)| least - price * memory_bytes * ms)
            .fold(0.0, f64::max);
        (reading + seeking) / (self.drives * ms / 1000.0)
    }
}

/// The clairvoyant rule at one price.
struct ClairvoyantRule {
    /// Seconds of drive time per byte-millisecond.
    price: f64,
    seek_s: f64,
    size_max: u64,
}

impl SizeProvider for ClairvoyantRule {
    fn plan(&self, table: &ChainTable, chain: usize) -> SizePlan<'_> {
        let part = ChainWindow::whole(table, chain);
        let priced = part.area() * self.price;
        let root = (priced / self.seek_s).sqrt();
        let cost = |count: f64| count.max(1.0) * self.seek_s + priced / count.max(1.0);
        let count = match cost(root.floor()) <= cost(root.ceil()) {
            true => root.floor(),
            false => root.ceil(),
        };
        let length = table.lengths[chain];
        // In whole bytes; the number of prefetches may be one less.
        let count = (count.max(1.0) as u64).min(length);
        SizePlan {
            growing: &[],
            last: length.div_ceil(count),
        }
    }

    fn size_max(&self) -> u64 {
        self.size_max
    }

    fn hold_ms(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use headlong_engine::Policy;
    use proptest::prelude::*;

    use super::*;
    use crate::{Algorithm, ChainRow, SizingRule};

    fn chain() -> impl Strategy<Value = ChainRow> {
        let times = (0_i64..3_000_000, 0_i64..900_000);
        (times, 1_u64..80_000_000, 0_u16..2).prop_map(|((start_ms, lasts_ms), length, disk)| {
            ChainRow {
                session: 0,
                file: 0,
                start: 1,
                length,
                start_ms,
                end_ms: start_ms + lasts_ms,
                is_open: false,
                bit_rate: None,
                disk,
            }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn no_rule_beats_bound(
            rows in prop::collection::vec(chain(), 1..60),
            size_mb in 0.3_f64..20.0,
            policy in prop::sample::select(Policy::ALL),
        ) {
            let table = ChainTable::new(rows).expect("chains");
            let settings = SimulationSettings::default();
            let rule = SizingRule::new(Algorithm::plain(policy), size_mb, settings.megabyte);
            let point = CostPoint::simulate(&table, &rule, &settings).expect("a point");
            let frontier = frontier(&table, &settings, &[point.mem]).expect("a frontier");
            let clairvoyants = frontier.points.iter().map(|point| &point.point);
            for point in clairvoyants.chain([&point]) {
                // Times are rounded down to the millisecond, which the bound does not model.
                let mem = point.mem * 1.001 + 1e-6;
                let bytes = mem * settings.megabyte.gigabyte() as f64;
                let prices = prices(&table, &settings.drive);
                let duals: Vec<DualFunction> = windows(&table)
                    .into_iter()
                    .map(|window| DualFunction::new(&table, window, &prices, &settings))
                    .collect();
                let bound = bound(&duals, mem, bytes);
                prop_assert!(bound.util_busiest <= point.util_busiest + 1e-9);
                prop_assert!(bound.util_busiest <= point.util + 1e-9);
                prop_assert!(bound.util_mean <= point.util_mean + 1e-9);
            }
        }
    }

    #[test]
    fn clairvoyant_rule_is_near_bound_for_many_chains() {
        let rows = (0..4_000_i64).map(|index| ChainRow {
            session: 0,
            file: 0,
            start: 1,
            length: 1_000_000 + (index as u64 * 7_919 % 40) * 1_500_000,
            start_ms: index * 900,
            end_ms: index * 900 + 60_000 + index * 104_729 % 400_000,
            is_open: false,
            bit_rate: None,
            disk: (index % 4) as u16,
        });
        let table = ChainTable::new(rows).expect("chains");
        let settings = SimulationSettings::default();
        let frontier = frontier(&table, &settings, &[]).expect("a frontier");
        let middle = &frontier.points[frontier.points.len() / 2].point;
        let bound = frontier.bound_at(middle.mem).expect("a bound");
        assert!(bound.util_mean <= middle.util_mean);
        assert!(
            bound.util_mean > 0.5 * middle.util_mean,
            "{} {}",
            bound.util_mean,
            middle.util_mean
        );
    }

    #[test]
    fn figures_do_not_depend_on_thread_count() {
        let rows = (0..40_000_i64).map(|index| ChainRow {
            session: 0,
            file: 0,
            start: 1,
            length: 1 + index as u64 * 997,
            start_ms: index * 50,
            end_ms: index * 53,
            is_open: false,
            bit_rate: None,
            disk: 0,
        });
        let table = ChainTable::new(rows).expect("chains");
        let with = |threads| {
            let settings = SimulationSettings {
                threads: std::num::NonZeroUsize::new(threads).expect("threads"),
                ..SimulationSettings::default()
            };
            frontier(&table, &settings, &[1.0]).expect("a frontier")
        };
        assert_eq!(with(1), with(3));
    }
}
