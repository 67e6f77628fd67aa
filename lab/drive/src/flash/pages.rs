//! Page mapping of flash: the data to move before a superblock can be erased.
//!
//! The model tracks the number of valid units of every superblock, and the superblock of every
//! unit. Write amplification depends on nothing else.
//!
//! A drive of terabytes has too many units to track: larger units are used then, about a million in
//! total. Writes smaller than a unit move their unit only when enough of them have added up to one:
//! one write in so many represents all of them, which preserves the share of valid data in a
//! superblock.

use alloc::vec;
use alloc::vec::Vec;

/// Most units tracked.
const UNITS_MAX: u64 = 1 << 20;
/// Fewest superblocks: with fewer, each would be too large a part of the drive.
const SUPERBLOCKS_MIN: u64 = 1_024;
/// The unit has no superblock yet.
const NOWHERE: u32 = u32::MAX;
/// Number of free superblocks below which garbage collection runs.
const FREE_MIN: usize = 2;

/// Cost of garbage collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct CollectionCost {
    pub(super) copied_bytes: u64,
    pub(super) erased: u64,
    /// Space gained, after copying.
    pub(super) gained_bytes: u64,
}

impl CollectionCost {
    fn add(&mut self, other: Self) {
        self.copied_bytes += other.copied_bytes;
        self.erased += other.erased;
        self.gained_bytes += other.gained_bytes;
    }
}

/// A superblock.
#[derive(Debug, Clone, Default)]
struct Superblock {
    valid: u32,
    /// Units written to it, in order, including those that have become stale.
    units: Vec<u32>,
}

/// The map of one drive.
#[derive(Debug, Clone)]
pub(super) struct PageMap {
    unit_bytes: u64,
    /// Units of a superblock.
    per_superblock: usize,
    /// The superblock of each unit.
    place: Vec<u32>,
    superblocks: Vec<Superblock>,
    free: Vec<u32>,
    /// Open superblock of the host's writes.
    open: u32,
    /// Open superblock of moved data.
    open_for_moved: u32,
    /// Bytes of writes smaller than a unit that have not moved a unit yet.
    carried_bytes: u64,
}

impl PageMap {
    pub(super) fn new(
        capacity_bytes: u64,
        unit_bytes: u64,
        superblock_bytes: u64,
        over_provisioning: f64,
    ) -> Self {
        let unit_bytes = unit_bytes.max(512).max(capacity_bytes.div_ceil(UNITS_MAX));
        let units = capacity_bytes.div_ceil(unit_bytes).max(1);
        let per_superblock = (superblock_bytes / unit_bytes)
            .min(units / SUPERBLOCKS_MIN)
            .max(1);
        let extra = units as f64 * over_provisioning.clamp(0.0, 10.0) / per_superblock as f64;
        // The two open and the free superblocks are needed whatever the specification says.
        let count = units.div_ceil(per_superblock) + (extra as u64).max(FREE_MIN as u64 + 3);
        let mut free: Vec<u32> = (0..count as u32).rev().collect();
        let open = free.pop().unwrap_or(0);
        let open_for_moved = free.pop().unwrap_or(0);
        Self {
            unit_bytes,
            per_superblock: per_superblock as usize,
            place: vec![NOWHERE; units as usize],
            superblocks: vec![Superblock::default(); count as usize],
            free,
            open,
            open_for_moved,
            carried_bytes: 0,
        }
    }

    /// Modelled size of a superblock.
    pub(super) fn superblock_bytes(&self) -> u64 {
        self.per_superblock as u64 * self.unit_bytes
    }

    /// Records a write and returns its cost.
    pub(super) fn write(&mut self, start_byte: u64, bytes: u64) -> CollectionCost {
        let mut moved = CollectionCost::default();
        let (mut at, end) = (start_byte, start_byte + bytes);
        while at < end {
            let unit = at / self.unit_bytes;
            let stop = ((unit + 1) * self.unit_bytes).min(end);
            self.carried_bytes += stop - at;
            at = stop;
            if self.carried_bytes >= self.unit_bytes {
                self.carried_bytes -= self.unit_bytes;
                moved.add(self.renew(unit as usize));
            }
        }
        moved
    }

    /// Rewrites a unit.
    fn renew(&mut self, unit: usize) -> CollectionCost {
        let old = self.place[unit];
        if old != NOWHERE {
            self.superblocks[old as usize].valid -= 1;
        }
        self.put(unit as u32, self.open);
        if self.superblocks[self.open as usize].units.len() < self.per_superblock {
            return CollectionCost::default();
        }
        let mut moved = CollectionCost::default();
        while self.free.len() <= FREE_MIN {
            let Some(step) = self.empty_one() else { break };
            moved.add(step);
        }
        if let Some(next) = self.free.pop() {
            self.open = next;
        }
        moved
    }

    fn put(&mut self, unit: u32, superblock: u32) {
        self.place[unit as usize] = superblock;
        let target = &mut self.superblocks[superblock as usize];
        target.units.push(unit);
        target.valid += 1;
    }

    /// Empties the full superblock with the least valid data; `None` if all data is valid.
    fn empty_one(&mut self) -> Option<CollectionCost> {
        let full = self.superblocks.iter().enumerate();
        let (index, _) = full
            .filter(|(_, block)| {
                block.units.len() >= self.per_superblock
                    && (block.valid as usize) < block.units.len()
            })
            .min_by_key(|(_, block)| block.valid)?;
        let units = core::mem::take(&mut self.superblocks[index].units);
        let valid = self.superblocks[index].valid as usize;
        for unit in units {
            if self.place[unit as usize] as usize != index {
                continue;
            }
            // A unit may be listed twice, but is moved once, because its place differs afterwards.
            self.superblocks[index].valid -= 1;
            self.put(unit, self.open_for_moved);
            if self.superblocks[self.open_for_moved as usize].units.len() >= self.per_superblock
                && let Some(next) = self.free.pop()
            {
                self.open_for_moved = next;
            }
        }
        self.free.push(index as u32);
        Some(CollectionCost {
            copied_bytes: valid as u64 * self.unit_bytes,
            erased: 1,
            gained_bytes: (self.per_superblock - valid) as u64 * self.unit_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headlong_random::Generator;

    fn amplification(pages: &mut PageMap, writes: impl Iterator<Item = (u64, u64)>) -> f64 {
        let (mut written, mut copied) = (0, 0);
        for (start, bytes) in writes {
            written += bytes;
            copied += pages.write(start, bytes).copied_bytes;
        }
        (written + copied) as f64 / written as f64
    }

    const CAPACITY: u64 = 256 << 20;
    const UNIT: u64 = 4_096;

    #[test]
    fn repeated_sequential_writes_move_nothing() {
        let mut pages = PageMap::new(CAPACITY, UNIT, 1 << 20, 0.1);
        let passes = (0..4 * CAPACITY / (1 << 20)).map(|i| ((i << 20) % CAPACITY, 1 << 20));
        assert_eq!(amplification(&mut pages, passes), 1.0);
    }

    #[test]
    fn random_write_amplification_matches_theory() {
        // Greedy garbage collection under uniform writes: about (1 + op) / (2 op) for a full drive
        // (Agarwal and Marrow 2010); the open superblocks change it slightly.
        for (over_provisioning, expected) in [(0.1, 5.5), (0.25, 2.5)] {
            let mut pages = PageMap::new(CAPACITY, UNIT, 1 << 20, over_provisioning);
            let units = CAPACITY / UNIT;
            let mut generator = Generator::new(5);
            let mut random = |count: u64| -> Vec<(u64, u64)> {
                (0..count)
                    .map(|_| (generator.below(units) * UNIT, UNIT))
                    .collect()
            };
            let (warm, measured) = (random(units * 4), random(units));
            amplification(&mut pages, (0..units).map(|unit| (unit * UNIT, UNIT)));
            amplification(&mut pages, warm.into_iter());
            let found = amplification(&mut pages, measured.into_iter());
            assert!((found / expected - 1.0).abs() < 0.15, "{found} {expected}");
        }
    }

    #[test]
    fn coarse_units_preserve_write_amplification() {
        let capacity = 4 * CAPACITY;
        let random = |seed, count: u64| {
            let mut generator = Generator::new(seed);
            let unit = move |_| (generator.below(capacity / UNIT) * UNIT, UNIT);
            (0..count).map(unit)
        };
        let mut found = Vec::new();
        for unit in [UNIT, 8 * UNIT] {
            let mut pages = PageMap::new(capacity, unit, 1 << 20, 0.2);
            amplification(&mut pages, (0..capacity / UNIT).map(|i| (i * UNIT, UNIT)));
            amplification(&mut pages, random(1, 3 * capacity / UNIT));
            found.push(amplification(&mut pages, random(2, capacity / UNIT)));
        }
        assert!((found[0] / found[1] - 1.0).abs() < 0.1, "{found:?}");
    }

    #[test]
    fn every_unit_is_valid_in_one_superblock() {
        let mut pages = PageMap::new(16 << 20, UNIT, 1 << 18, 0.1);
        let mut generator = Generator::new(3);
        for _ in 0..30_000 {
            pages.write(generator.below(4_096) * UNIT, UNIT);
        }
        let placed = pages
            .place
            .iter()
            .filter(|place| **place != NOWHERE)
            .count();
        let valid: usize = pages.superblocks.iter().map(|b| b.valid as usize).sum();
        assert_eq!(placed, valid);
        let fits = |b: &Superblock| b.units.len() <= pages.per_superblock;
        assert!(pages.superblocks.iter().all(fits));
    }
}
