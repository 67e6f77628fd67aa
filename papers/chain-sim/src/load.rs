//! Work and memory of a rule by groups of sessions, for planning.
//!
//! Every figure is a sum over chains. A ratio of two sums, such as seeks for a byte consumed, is the
//! same at any scale of demand, and the groups can be drawn with replacement to find how uncertain
//! it is.
//!
//! Invariant: groups depend on the numbers of sessions only, not on the order of chains.

use std::ops::Range;

use crate::point::{Consumption, SimulationError, SimulationSettings, in_parts, refuse_overflow};
use crate::sizes::{HOLD_MS, ShapePlans, SizingRule};
use crate::table::ChainTable;

/// Most groups: with so many, resampling groups is as good as resampling sessions, and takes the
/// same time for any log.
const GROUPS_MAX: usize = 2_000;
/// Drive numbers that are told apart: files on hard drives, and files on flash.
const PLACES: usize = 2;

/// Sums over some sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadSums {
    /// Bytes consumed of files on drive number 0 and 1.
    pub consumed_bytes: [u64; PLACES],
    /// Bytes read from them.
    pub read_bytes: [u64; PLACES],
    /// Seeks on them.
    pub seeks: [u64; PLACES],
    /// Memory of prefetches, bytes times milliseconds.
    pub held_byte_ms: u128,
}

impl LoadSums {
    fn add(&mut self, other: &Self) {
        for place in 0..PLACES {
            self.consumed_bytes[place] += other.consumed_bytes[place];
            self.read_bytes[place] += other.read_bytes[place];
            self.seeks[place] += other.seeks[place];
        }
        self.held_byte_ms += other.held_byte_ms;
    }
}

/// The sessions of a table in groups of nearly equal numbers of sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionGroups {
    /// By chain.
    group_of: Vec<u16>,
    /// Time with an active chain by group, ms, where gaps of up to 40 s count.
    present_ms: Vec<u64>,
}

impl SessionGroups {
    /// The groups of a table: one for each session, or, of more sessions, several in each.
    pub fn new(table: &ChainTable) -> Self {
        let mut numbers = table.sessions.clone();
        numbers.sort_unstable();
        numbers.dedup();
        let count = numbers.len().min(GROUPS_MAX);
        let mut present_ms = vec![0; count];
        let mut spans: Vec<Vec<(i64, i64)>> = vec![Vec::new(); numbers.len()];
        let mut group_of = Vec::with_capacity(table.len());
        for (chain, session) in table.sessions.iter().enumerate() {
            // Every session is in the list.
            let rank = numbers.binary_search(session).unwrap_or(0);
            group_of.push((rank % count.max(1)) as u16);
            // Chains are in order of their starts; times are within a year.
            let (start, end) = (table.starts_ms[chain], table.ends_ms[chain]);
            spans[rank].push((start as i64, end as i64));
        }
        for (rank, spans) in spans.into_iter().enumerate() {
            present_ms[rank % count.max(1)] += self::present_ms(spans.into_iter());
        }
        Self {
            group_of,
            present_ms,
        }
    }

    /// Number of groups.
    pub const fn count(&self) -> usize {
        self.present_ms.len()
    }

    /// Time that the sessions of each group spent reading, ms; gaps of more than 40 s are omitted.
    pub fn present_ms(&self) -> &[u64] {
        &self.present_ms
    }
}

/// Time with an active chain of a session, ms, where gaps of up to 40 s count; chains are in order of
/// their starts.
pub(crate) fn present_ms(spans: impl Iterator<Item = (i64, i64)>) -> u64 {
    let hold_ms = HOLD_MS as i64;
    let (mut present_ms, mut ended_ms) = (0, None);
    for (start_ms, end_ms) in spans {
        let known = ended_ms.filter(|known| start_ms <= known + hold_ms);
        present_ms += end_ms
            .saturating_sub(known.unwrap_or(start_ms))
            .max(0)
            .unsigned_abs();
        ended_ms = ended_ms.max(Some(end_ms));
    }
    present_ms
}

/// Sums of a rule by group of sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleLoad {
    /// By group.
    pub groups: Vec<LoadSums>,
}

impl RuleLoad {
    /// Simulates a rule on all chains. Drives with numbers above 1 count as number 1.
    ///
    /// # Errors
    /// If the size is too large.
    pub fn of(
        table: &ChainTable,
        groups: &SessionGroups,
        rule: &SizingRule,
        settings: &SimulationSettings,
    ) -> Result<Self, SimulationError> {
        let plans = ShapePlans::new(table, rule);
        refuse_overflow(table.len(), &plans)?;
        let part = |chains: Range<usize>| {
            let mut sums = vec![LoadSums::default(); groups.count()];
            for chain in chains {
                let group = usize::from(groups.group_of[chain]);
                sums[group].add(&of_chain(table, chain, &plans));
            }
            sums
        };
        let mut sums = vec![LoadSums::default(); groups.count()];
        for part in in_parts(table.len(), settings.threads, part) {
            for (sum, more) in sums.iter_mut().zip(&part) {
                sum.add(more);
            }
        }
        Ok(Self { groups: sums })
    }
}

/// Rules B1 to B5, without minutes.
fn of_chain(table: &ChainTable, chain: usize, plans: &ShapePlans) -> LoadSums {
    let plan = plans.plan(table, chain);
    let course = Consumption::of(table, chain);
    let length = table.lengths[chain];
    let (mut position, mut read_bytes, mut seeks) = (0_u64, 0, 0);
    let (mut held, mut since_ms, mut held_byte_ms) = (0_u64, 0_u64, 0_u128);
    let mut hold = |ms: u64, size: u64| {
        held_byte_ms += u128::from(held) * u128::from(ms - since_ms);
        (held, since_ms) = (size, ms);
    };
    for size in plan.growing {
        if position >= length {
            break;
        }
        hold(course.at(position), *size);
        (read_bytes, seeks) = (read_bytes + size, seeks + 1);
        position += size;
    }
    if position < length {
        hold(course.at(position), plan.last);
        let count = (length - position).div_ceil(plan.last);
        read_bytes += count * plan.last;
        seeks += count;
    }
    hold(table.ends_ms[chain] + HOLD_MS, 0);
    let place = usize::from(table.disks[chain]).min(PLACES - 1);
    let mut sums = LoadSums {
        held_byte_ms,
        ..LoadSums::default()
    };
    sums.consumed_bytes[place] = length;
    sums.read_bytes[place] = read_bytes;
    sums.seeks[place] = seeks;
    sums
}

#[cfg(test)]
mod tests {
    use headlong_engine::Policy;

    use super::*;
    use crate::{Algorithm, ChainRow, CostPoint, Megabyte};

    fn row(session: u32, start_ms: i64, lasts_ms: i64, length: u64) -> ChainRow {
        ChainRow {
            session,
            file: session % 3,
            start: 0,
            length,
            start_ms,
            end_ms: start_ms + lasts_ms,
            is_open: false,
            bit_rate: None,
            disk: 0,
        }
    }

    fn sum(load: &RuleLoad) -> LoadSums {
        let mut all = LoadSums::default();
        load.groups.iter().for_each(|group| all.add(group));
        all
    }

    #[test]
    fn sums_match_the_accounts_by_minute() {
        let settings = SimulationSettings::default();
        let rows = (0..5_000).map(|index| {
            let length = 1 + u64::from(index) * 7_919 % 90_000_000;
            row(index % 700, i64::from(index) * 900, 250_000, length)
        });
        let table = ChainTable::new(rows).expect("chains");
        let groups = SessionGroups::new(&table);
        assert_eq!(groups.count(), 700);
        for policy in Policy::ALL {
            let rule = SizingRule::new(Algorithm::plain(*policy), 3.0, Megabyte::Binary);
            let load = RuleLoad::of(&table, &groups, &rule, &settings).expect("loads");
            let point = CostPoint::simulate(&table, &rule, &settings).expect("a point");
            let sums = sum(&load);
            assert_eq!(sums.seeks, [point.prefetches, 0]);
            assert_eq!(sums.read_bytes, [point.read, 0]);
            assert_eq!(u128::from(sums.consumed_bytes[0]), table.total_bytes());
        }
        // One buffer of 3 MiB from the start until 40 s after the end.
        let table = ChainTable::new([row(0, 500, 60_000, 20 << 20)]).expect("chains");
        let rule = SizingRule::new(Algorithm::plain(Policy::Fixed), 3.0, Megabyte::Binary);
        let load = RuleLoad::of(&table, &SessionGroups::new(&table), &rule, &settings);
        let held = sum(&load.expect("loads")).held_byte_ms;
        assert_eq!(held, (3 << 20) * 100_000);
    }

    #[test]
    fn presence_omits_long_gaps_and_overlaps() {
        let rows = [
            row(7, 0, 10_000, 5),
            row(7, 5_000, 10_000, 5),
            row(7, 40_000, 1_000, 5),
            row(7, 500_000, 2_000, 5),
            row(9, 0, 3_000, 5),
        ];
        let table = ChainTable::new(rows).expect("chains");
        let groups = SessionGroups::new(&table);
        assert_eq!(groups.present_ms(), [43_000, 3_000]);
    }

    #[test]
    fn sums_do_not_depend_on_order_or_threads() {
        let rows: Vec<ChainRow> = (0..9_000_u32)
            .map(|index| row(index % 4_001, i64::from(index % 50) * 1_000, 9_000, 1 << 22))
            .collect();
        let load = |rows: &mut dyn Iterator<Item = ChainRow>, threads: usize| {
            let settings = SimulationSettings {
                threads: std::num::NonZeroUsize::new(threads).expect("some"),
                ..SimulationSettings::default()
            };
            let table = ChainTable::new(rows).expect("chains");
            let groups = SessionGroups::new(&table);
            assert_eq!(groups.count(), GROUPS_MAX);
            let rule = SizingRule::new(Algorithm::plain(Policy::SquareRoot), 2.0, Megabyte::Binary);
            RuleLoad::of(&table, &groups, &rule, &settings).expect("loads")
        };
        let one = load(&mut rows.iter().copied(), 1);
        assert_eq!(one, load(&mut rows.iter().rev().copied(), 3));
    }
}
