//! A point: the cost of one rule at one size over all chains.

use std::num::NonZeroUsize;
use std::ops::Range;

use serde::Serialize;

use crate::accounts::{Accounts, MemoryPeaks};
use crate::drive::{DriveRates, Megabyte};
use crate::sizes::{HOLD_MS, ShapePlans, SizingRule};
use crate::table::ChainTable;

/// Up to this many prefetches in a chain's minute are accounted one by one, which is faster than
/// counting how many fall into each minute.
const ONE_BY_ONE: u64 = 4;
/// Tolerance around full minutes for the floating-point computation; its errors are a hundred times
/// smaller.
const NEAR: f64 = 1e-7;
/// Largest figure of memory that cannot overflow as byte-milliseconds: 2^63 / 1000.
const HELD_MAX: u128 = (1 << 63) / 1000;

/// Settings of a simulation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SimulationSettings {
    /// Definition of MB and GB.
    pub megabyte: Megabyte,
    /// Rates of one drive.
    pub drive: DriveRates,
    /// Number of drives that count for utilisation; those with higher numbers do not (rule B11).
    /// All drives of the table if `None`.
    pub disks: Option<u16>,
    /// Number of threads; the figures do not depend on it.
    pub threads: NonZeroUsize,
}

impl Default for SimulationSettings {
    fn default() -> Self {
        Self {
            megabyte: Megabyte::Binary,
            drive: DriveRates::deskstar(Megabyte::Binary),
            disks: None,
            threads: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
        }
    }
}

impl SimulationSettings {
    /// Number of drives that count.
    pub fn drives(&self, table: &ChainTable) -> usize {
        let all = table.disk_count() as usize;
        self.disks.map_or(all, usize::from)
    }
}

/// A simulation without a meaningful result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimulationError {
    /// Overflow of the figures.
    #[error(
        "{size_bytes} bytes for each of {chains} chains exceed any memory; choose a smaller size"
    )]
    Size {
        /// Largest size of the rule.
        size_bytes: u64,
        /// Chains of the table.
        chains: usize,
    },
    /// No drive counts.
    #[error("no drive counts for utilisation; at least one must")]
    NoDrive,
}

/// Cost of a rule. Utilisations are shares of a drive's time; memory is in GB.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CostPoint {
    /// Name of the rule.
    pub algorithm: String,
    /// Its size, MB.
    pub size: f64,
    /// Its size, bytes.
    pub size_bytes: u64,
    /// Prefetches, each of which costs a seek.
    pub prefetches: u64,
    /// Bytes read.
    pub read: u64,
    /// Utilisation of the worst drive in its worst minute; a noisy maximum.
    pub util: f64,
    /// The worst drive.
    pub util_drive: u64,
    /// The worst minute, from zero. Of equal ones the first minute counts, and in it the lowest
    /// drive.
    pub util_minute: u64,
    /// Mean over drives and minutes, from the first chain's start to the last chain's end.
    pub util_mean: f64,
    /// Mean over drives in the busiest minute.
    pub util_busiest: f64,
    /// The busiest minute.
    pub util_busiest_minute: u64,
    /// Highest mean memory over a minute, GB.
    pub mem: f64,
    /// That minute.
    pub mem_minute: u64,
    /// Highest sum in a minute, over chains, of the largest buffer held at any time in it, GB.
    pub mem_touch: f64,
    /// Highest mean memory over a second, GB.
    pub mem_peak: f64,
}

impl CostPoint {
    /// Simulates a rule on all chains.
    ///
    /// # Errors
    /// If the size is too large or no drive counts.
    pub fn simulate(
        table: &ChainTable,
        rule: &SizingRule,
        settings: &SimulationSettings,
    ) -> Result<Self, SimulationError> {
        let plans = ShapePlans::new(table, rule);
        let accounts = account(table, &plans, settings)?;
        let name = rule.algorithm.name();
        Ok(Self::of(&accounts, name, rule.size_bytes, settings))
    }

    /// The point of the accounts.
    pub(crate) fn of(
        accounts: &Accounts,
        algorithm: String,
        size_bytes: u64,
        settings: &SimulationSettings,
    ) -> Self {
        let work = WorkPeaks::of(accounts, &settings.drive);
        let MemoryPeaks {
            mean,
            mean_minute,
            touched,
            second,
        } = accounts.memory();
        let gigabyte = settings.megabyte.gigabyte() as f64;
        Self {
            algorithm,
            size: size_bytes as f64 / settings.megabyte.bytes() as f64,
            size_bytes,
            prefetches: accounts.prefetches,
            read: accounts.read_bytes,
            util: work.worst.0,
            util_drive: work.worst.1,
            util_minute: work.worst.2,
            util_mean: work.mean,
            util_busiest: work.busiest.0,
            util_busiest_minute: work.busiest.1,
            mem: mean / gigabyte,
            mem_minute: mean_minute,
            mem_touch: touched as f64 / gigabyte,
            mem_peak: second / gigabyte,
        }
    }
}

/// Peaks of work.
struct WorkPeaks {
    /// Utilisation, drive, minute.
    worst: (f64, u64, u64),
    /// Utilisation, minute.
    busiest: (f64, u64),
    mean: f64,
}

impl WorkPeaks {
    fn of(accounts: &Accounts, drive: &DriveRates) -> Self {
        let mut peaks = Self {
            worst: (0.0, 0, 0),
            busiest: (0.0, 0),
            mean: 0.0,
        };
        let (mut bytes_all, mut seeks_all, mut bins) = (0, 0, 0_usize);
        for (minute, drives) in accounts.work_by_minute() {
            let (mut bytes, mut seeks) = (0, 0);
            for (number, work) in (0..).zip(drives) {
                let busy = drive.utilisation(work.bytes, work.seeks, 60.0);
                if busy > peaks.worst.0 {
                    peaks.worst = (busy, number, minute);
                }
                bytes += work.bytes;
                seeks += work.seeks;
            }
            let busy = drive.utilisation(bytes, seeks, 60.0) / drives.len() as f64;
            if busy > peaks.busiest.0 {
                peaks.busiest = (busy, minute);
            }
            bytes_all += bytes;
            seeks_all += seeks;
            bins += drives.len();
        }
        peaks.mean = drive.utilisation(bytes_all, seeks_all, 60.0) / bins as f64;
        peaks
    }
}

/// Accounts for all chains, on all threads.
pub(crate) fn account(
    table: &ChainTable,
    sizes: &ShapePlans,
    settings: &SimulationSettings,
) -> Result<Accounts, SimulationError> {
    let drives = settings.drives(table);
    if drives == 0 {
        return Err(SimulationError::NoDrive);
    }
    let chains = table.len();
    refuse_overflow(chains, sizes)?;
    let part = |chains: Range<usize>| {
        let mut accounts = Accounts::new(table, drives);
        for chain in chains {
            book(&mut accounts, table, chain, sizes);
        }
        accounts
    };
    let mut parts = in_parts(chains, settings.threads, part).into_iter();
    // There is at least one part.
    let mut whole = parts.next().unwrap_or_else(|| Accounts::new(table, drives));
    parts.for_each(|part| whole.add(&part));
    Ok(whole)
}

/// Refuses sizes with which sums over this many chains could overflow.
pub(crate) fn refuse_overflow(chains: usize, sizes: &ShapePlans) -> Result<(), SimulationError> {
    let size_bytes = sizes.size_max();
    match chains as u128 * u128::from(size_bytes) > HELD_MAX {
        true => Err(SimulationError::Size { size_bytes, chains }),
        false => Ok(()),
    }
}

/// Processes `0..count` in consecutive parts, one per thread; returns the results in order.
pub(crate) fn in_parts<T: Send>(
    count: usize,
    threads: NonZeroUsize,
    part: impl Fn(Range<usize>) -> T + Sync,
) -> Vec<T> {
    let threads = threads.get().min(count.max(1));
    let run = |index: usize| count * index / threads..count * (index + 1) / threads;
    std::thread::scope(|scope| {
        let part = &part;
        let others: Vec<_> = (1..threads)
            .map(|index| scope.spawn(move || part(run(index))))
            .collect();
        let mut answers = vec![part(run(0))];
        for other in others {
            match other.join() {
                Ok(answer) => answers.push(answer),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        answers
    })
}

/// Accounts for one chain: rules B1 to B5.
#[inline]
fn book(accounts: &mut Accounts, table: &ChainTable, chain: usize, sizes: &ShapePlans) {
    let plan = sizes.plan(table, chain);
    let course = Consumption::of(table, chain);
    let mut position = 0;
    let mut held = 0;
    for size in plan.growing {
        if position >= course.length {
            break;
        }
        let ms = course.at(position);
        accounts.issue(ms / 60_000, course.disk, *size, 1);
        hold(accounts, ms, &mut held, *size);
        position += size;
    }
    if position < course.length {
        hold(accounts, course.at(position), &mut held, plan.last);
        course.issue_rest(accounts, position, plan.last);
    }
    let freed_ms = course.start_ms + course.lasts_ms + HOLD_MS;
    accounts.resize(freed_ms, -(held as i64));
    // The last time at which the buffer was held is before it was freed, unless that was immediate.
    let last_ms = freed_ms.saturating_sub(1).max(course.start_ms);
    accounts.touch(last_ms / 60_000 + 1, -(held as i64));
}

/// Changes the size of the chain's buffer. Sizes never shrink, so the largest of a minute is its
/// last.
#[inline]
fn hold(accounts: &mut Accounts, ms: u64, held: &mut u64, size: u64) {
    if size != *held {
        // Both are below 2^63 / 1000.
        let change = size as i64 - *held as i64;
        accounts.resize(ms, change);
        accounts.touch(ms / 60_000, change);
        *held = size;
    }
}

/// Even consumption of a chain.
pub(crate) struct Consumption {
    disk: u16,
    length: u64,
    start_ms: u64,
    lasts_ms: u64,
}

impl Consumption {
    pub(crate) fn of(table: &ChainTable, chain: usize) -> Self {
        Self {
            disk: table.disks[chain],
            length: table.lengths[chain],
            start_ms: table.starts_ms[chain],
            lasts_ms: table.ends_ms[chain] - table.starts_ms[chain],
        }
    }

    /// When a position is reached, rounded down.
    #[inline]
    pub(crate) fn at(&self, position: u64) -> u64 {
        let into = match position.checked_mul(self.lasts_ms) {
            Some(product) => product / self.length,
            None => {
                let product = u128::from(position) * u128::from(self.lasts_ms);
                // Below `lasts_ms`, as the position is below the length.
                (product / u128::from(self.length)) as u64
            }
        };
        self.start_ms + into
    }

    /// Issues all prefetches from a position on, with one size.
    #[inline]
    fn issue_rest(&self, accounts: &mut Accounts, from: u64, size: u64) {
        let count = (self.length - from).div_ceil(size);
        let minutes = self.lasts_ms / 60_000 + 1;
        if count <= minutes * ONE_BY_ONE {
            self.issue_one_by_one(accounts, from, size, count);
        } else {
            self.issue_by_minute(accounts, from, size, count);
        }
    }

    /// A division for each prefetch would dominate the run time of a point. So the minute is
    /// computed by multiplication, and by division only near a boundary: minutes count from the
    /// table's first, within a year, so fractions are accurate to 10^-9.
    #[inline]
    fn issue_one_by_one(&self, accounts: &mut Accounts, from: u64, size: u64, count: u64) {
        let base = accounts.first_minute();
        let per_byte = self.lasts_ms as f64 / self.length as f64 / 60_000.0;
        let start = (self.start_ms - base * 60_000) as f64 / 60_000.0;
        let (first, step) = (start + from as f64 * per_byte, size as f64 * per_byte);
        for index in 0..count {
            let minutes = first + index as f64 * step;
            let whole = minutes as u64;
            let part = minutes - whole as f64;
            let minute = if part > NEAR && part < 1.0 - NEAR {
                base + whole
            } else {
                self.at(from + index * size) / 60_000
            };
            accounts.issue(minute, self.disk, size, 1);
        }
    }

    /// The same if many fall into a minute: they are counted instead of iterated.
    fn issue_by_minute(&self, accounts: &mut Accounts, from: u64, size: u64, count: u64) {
        let mut issued = 0;
        let mut minute = self.at(from) / 60_000;
        while issued < count {
            let until_ms = (minute + 1) * 60_000 - self.start_ms;
            let by_then = self.positions_before(until_ms, from, size).min(count);
            accounts.issue(minute, self.disk, size, by_then - issued);
            issued = by_then;
            minute += 1;
        }
    }

    /// Number of positions among `from`, `from + size` and so on that are reached less than
    /// `until_ms` after the start: those with `position * lasts_ms < until_ms * length`.
    fn positions_before(&self, until_ms: u64, from: u64, size: u64) -> u64 {
        if self.lasts_ms < until_ms {
            return u64::MAX;
        }
        let product = u128::from(until_ms) * u128::from(self.length);
        // At most the length, because `until_ms` is at most `lasts_ms`.
        let first_late = product.div_ceil(u128::from(self.lasts_ms)) as u64;
        first_late.saturating_sub(from).div_ceil(size)
    }
}
