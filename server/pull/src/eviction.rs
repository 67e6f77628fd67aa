//! Eviction of slices.
//!
//! A slice's value is its read count plus the value of the last evicted slice (LFU with dynamic
//! aging; all slices cost the same to fetch, so GDSF is equivalent). So frequently read slices
//! stay, and slices that were popular long ago are evicted eventually. Every viewer needs the
//! beginning of a title, so the first slice of a version is worth at least as much as any other of
//! it, and among equals the one with the higher index is evicted first. A slice fetched for a
//! viewer that has not reached it yet is worth more than one that was read once; otherwise a viewer
//! that reads more than fits would lose each slice just before reading it.
//!
//! Sizes are disk usage: a slice occupies whole blocks, and a version with slices a folder beside
//! them, so that many small titles count as much as they take.
//!
//! Invariants: `used_bytes` is the sum of the sizes of slices and folders; each slice has one place
//! in the order; the first slice of a version is never chosen while another evictable one of it is
//! present.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::cmp::Reverse;

use alloc::collections::BTreeMap;

/// A slice of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SliceKey {
    /// The version.
    pub version: u128,
    /// Index of the slice.
    pub index: u32,
}

/// Block size of the usual file systems.
const BLOCK_BYTES: u64 = 4096;
/// Disk usage of a version beside its slices: a block for its folder, one for its description, and
/// the folder's entry.
pub const FOLDER_BYTES: u64 = 2 * BLOCK_BYTES + 128;

/// Disk usage of a file of `length` bytes in whole blocks.
pub const fn file_bytes(length: u64) -> u64 {
    length.next_multiple_of(BLOCK_BYTES)
}

/// Upper limit of counted reads, so that a once popular slice can be evicted eventually.
const READS_MAX: u32 = 16;

#[derive(Debug, Clone, Copy)]
struct SliceValue {
    bytes: u32,
    reads: u32,
    worth: u64,
    /// A viewer will read it soon.
    is_awaited: bool,
}

/// All present slices, in eviction order.
#[derive(Debug, Default)]
pub struct SliceCache {
    kept: BTreeMap<SliceKey, SliceValue>,
    order: BTreeSet<(u64, Reverse<u32>, u128)>,
    /// Number of slices per version.
    counts: BTreeMap<u128, u32>,
    used_bytes: u64,
    /// Value of the last evicted slice.
    floor: u64,
}

impl SliceCache {
    /// Disk usage of all slices and their folders in bytes.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// Number of slices.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether there is no slice.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Adds a slice that occupies `bytes` bytes of the disk.
    pub fn add(&mut self, key: SliceKey, bytes: u32) {
        self.add_worth(key, bytes, self.floor, false);
    }

    /// Adds a slice that a viewer will read soon.
    pub fn add_awaited(&mut self, key: SliceKey, bytes: u32) {
        self.add_worth(key, bytes, self.floor + 2, true);
    }

    /// Adds a slice fetched by a fill: it is worth one read, so that later fills do not evict it.
    pub fn add_filled(&mut self, key: SliceKey, bytes: u32) {
        self.add_worth(key, bytes, self.floor + 1, false);
    }

    fn add_worth(&mut self, key: SliceKey, bytes: u32, worth: u64, is_awaited: bool) {
        if self.kept.contains_key(&key) {
            return;
        }
        let kept = SliceValue {
            bytes,
            reads: 0,
            worth,
            is_awaited,
        };
        self.used_bytes += u64::from(bytes);
        self.kept.insert(key, kept);
        let count = self.counts.entry(key.version).or_insert(0);
        *count += 1;
        if *count == 1 {
            self.used_bytes += FOLDER_BYTES;
        }
        self.order.insert(place(key, worth));
        self.lift_first(key.version, worth);
        if key.index == 0 {
            // The first slice returns after others of its version.
            let most = self.most_of(key.version);
            self.lift_first(key.version, most);
        }
    }

    fn most_of(&self, version: u128) -> u64 {
        let first = SliceKey { version, index: 0 };
        let last = SliceKey {
            version,
            index: u32::MAX,
        };
        let of_version = self.kept.range(first..=last);
        of_version.map(|(_, kept)| kept.worth).max().unwrap_or(0)
    }

    /// Counts a read of a slice.
    pub fn touch(&mut self, key: SliceKey) {
        let Some(kept) = self.kept.get_mut(&key) else {
            return;
        };
        kept.reads = (kept.reads + 1).min(READS_MAX);
        let worth = self.floor + u64::from(kept.reads);
        // It was read: it now has the value of its reads, and the first slice keeps its value.
        if kept.is_awaited && key.index > 0 {
            self.order.remove(&place(key, kept.worth));
            kept.worth = worth.min(kept.worth);
            self.order.insert(place(key, kept.worth));
        }
        kept.is_awaited = false;
        let worth = worth.max(kept.worth);
        self.lift(key, worth);
        self.lift_first(key.version, worth);
    }

    fn lift_first(&mut self, version: u128, worth: u64) {
        self.lift(SliceKey { version, index: 0 }, worth);
    }

    fn lift(&mut self, key: SliceKey, worth: u64) {
        if let Some(kept) = self.kept.get_mut(&key).filter(|kept| kept.worth < worth) {
            self.order.remove(&place(key, kept.worth));
            kept.worth = worth;
            self.order.insert(place(key, worth));
        }
    }

    /// The slices to evict to free `bytes`, least valuable first, except those for which `is_used`
    /// holds. Frees less if there are no more. They stay present until [`SliceCache::remove`].
    pub fn victims(&self, bytes: u64, is_used: impl Fn(SliceKey) -> bool) -> Vec<SliceKey> {
        self.least(bytes, u64::MAX, is_used).0
    }

    /// The slices that a fill may evict: only the least valuable ones, which any viewer's fetch
    /// would evict next. `None` if those do not suffice.
    pub fn victims_of_fill(
        &self,
        bytes: u64,
        is_used: impl Fn(SliceKey) -> bool,
    ) -> Option<Vec<SliceKey>> {
        let (victims, found) = self.least(bytes, self.floor, is_used);
        (found >= bytes).then_some(victims)
    }

    /// The victims, and the disk usage that their removal frees.
    fn least(
        &self,
        bytes: u64,
        worth_max: u64,
        is_used: impl Fn(SliceKey) -> bool,
    ) -> (Vec<SliceKey>, u64) {
        let mut found = 0;
        let mut victims = Vec::new();
        let mut of_versions: BTreeMap<u128, u32> = BTreeMap::new();
        for (worth, Reverse(index), version) in &self.order {
            if found >= bytes || *worth > worth_max {
                break;
            }
            let key = SliceKey {
                version: *version,
                index: *index,
            };
            if !is_used(key) {
                found += self.kept.get(&key).map_or(0, |kept| u64::from(kept.bytes));
                victims.push(key);
                let chosen = of_versions.entry(key.version).or_insert(0);
                *chosen += 1;
                if self.counts.get(&key.version) == Some(chosen) {
                    found += FOLDER_BYTES;
                }
            }
        }
        (victims, found)
    }

    /// Evicts a slice for lack of space, and raises the base value of the others. Returns the bytes
    /// freed.
    pub fn evict(&mut self, key: SliceKey) -> u64 {
        let worth = self.kept.get(&key).map(|kept| kept.worth);
        self.floor = self.floor.max(worth.unwrap_or(0));
        self.remove(key)
    }

    /// Removes a slice for another reason. Returns the bytes freed: its own, and those of the folder
    /// with the last slice of a version.
    pub fn remove(&mut self, key: SliceKey) -> u64 {
        let Some(kept) = self.kept.remove(&key) else {
            return 0;
        };
        self.order.remove(&place(key, kept.worth));
        let mut freed = u64::from(kept.bytes);
        if let Some(count) = self.counts.get_mut(&key.version) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&key.version);
                freed += FOLDER_BYTES;
            }
        }
        self.used_bytes -= freed;
        freed
    }
}

fn place(key: SliceKey, worth: u64) -> (u64, Reverse<u32>, u128) {
    (worth, Reverse(key.index), key.version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(version: u128, index: u32) -> SliceKey {
        SliceKey { version, index }
    }

    #[test]
    fn prefetched_slices_survive_until_read_when_space_is_short() {
        const ROOM: u64 = FOLDER_BYTES + 10;
        let mut space = SliceCache::default();
        let mut fetched = 0;
        for round in 1..=2 {
            for at in 0..40 {
                for ahead in at..(at + 3).min(40) {
                    if space.kept.contains_key(&key(1, ahead)) {
                        continue;
                    }
                    let over = (space.used_bytes() + 1).saturating_sub(ROOM);
                    for victim in space.victims(over, |of| of == key(1, at)) {
                        space.evict(victim);
                    }
                    space.add_awaited(key(1, ahead), 1);
                    fetched += 1;
                }
                space.touch(key(1, at));
            }
            assert!(fetched <= round * 40, "{fetched} fetches in round {round}");
        }
        assert!(space.kept.contains_key(&key(1, 0)), "first slices stay");
    }

    #[test]
    fn frequent_slices_stay_and_tails_are_evicted_before_heads() {
        let mut space = SliceCache::default();
        for index in 0..3 {
            space.add(key(1, index), 10);
            space.add(key(2, index), 10);
        }
        space.touch(key(1, 2));
        let order = [(2, 2), (2, 1), (1, 1), (2, 0), (1, 2), (1, 0)];
        let order = order.map(|(version, index)| key(version, index));
        // Among equals, ordered by version.
        let victims = space.victims(space.used_bytes(), |_| false);
        assert_eq!(victims.len(), 6);
        assert_eq!(victims[4..], order[4..]);
        assert_eq!(space.victims(15, |_| false).len(), 2);
        assert_eq!(space.victims(0, |_| false), []);
        let all = space.used_bytes();
        assert!(
            !space
                .victims(all, |at| at == key(1, 1))
                .contains(&key(1, 1))
        );
    }

    #[test]
    fn formerly_popular_slice_is_evicted_eventually() {
        let mut space = SliceCache::default();
        space.add(key(1, 0), 1);
        (0..100).for_each(|_| space.touch(key(1, 0)));
        let mut next = 2;
        while space.kept.contains_key(&key(1, 0)) {
            assert!(next < 1000, "it is never evicted");
            space.add(key(next, 0), 1);
            space.touch(key(next, 0));
            next += 1;
            while space.len() > 3 {
                let victim = space.victims(1, |_| false)[0];
                space.evict(victim);
            }
        }
        assert!(next > 10, "it is evicted at once");
    }

    #[test]
    fn fill_evicts_unread_slices_but_no_other_fill() {
        let mut space = SliceCache::default();
        for version in 1..=4 {
            space.add(key(version, 0), 10);
        }
        space.touch(key(1, 0));
        space.touch(key(2, 0));
        let fill = |space: &mut SliceCache, version| {
            let victims = space.victims_of_fill(10, |_| false)?;
            for victim in victims {
                space.evict(victim);
            }
            space.add_filled(key(version, 0), 10);
            Some(())
        };
        assert_eq!(fill(&mut space, 5), Some(()));
        assert_eq!(fill(&mut space, 6), Some(()));
        assert_eq!(fill(&mut space, 7), None);
        for version in [1, 2, 5, 6] {
            assert!(space.kept.contains_key(&key(version, 0)), "{version}");
        }
        // Later reads raise the base value: an unread filled slice is evicted like one that was
        // read once.
        let victim = space.victims(10, |_| false)[0];
        space.evict(victim);
        assert_eq!(
            fill(&mut space, 8),
            Some(()),
            "it has the value that is evicted now"
        );
    }

    #[test]
    fn folder_counts_from_first_to_last_slice_of_version() {
        let mut space = SliceCache::default();
        space.add(key(1, 0), 4096);
        space.add(key(1, 1), 4096);
        assert_eq!(space.used_bytes(), 2 * 4096 + FOLDER_BYTES);
        // A title of one byte frees its folder too, so two of them suffice here.
        for version in 2..=4 {
            space.add(key(version, 0), file_bytes(1) as u32);
        }
        let victims = space.victims(4096 + FOLDER_BYTES + 1, |of| of.version == 1);
        assert_eq!(victims.len(), 2);
        assert_eq!(space.evict(key(1, 1)), 4096);
        assert_eq!(space.evict(key(1, 0)), 4096 + FOLDER_BYTES);
        assert_eq!(space.used_bytes(), 3 * (4096 + FOLDER_BYTES));
    }

    #[derive(Debug, Clone)]
    enum CacheStep {
        Add(SliceKey, u32),
        Touch(SliceKey),
        Evict(u64, SliceKey),
        Remove(SliceKey),
    }

    fn step() -> impl Strategy<Value = CacheStep> {
        let slice = (0_u128..3, 0_u32..5).prop_map(|(version, index)| key(version, index));
        prop_oneof![
            (slice.clone(), 1_u32..20).prop_map(|(key, bytes)| CacheStep::Add(key, bytes)),
            slice.clone().prop_map(CacheStep::Touch),
            (0_u64..50, slice.clone()).prop_map(|(bytes, used)| CacheStep::Evict(bytes, used)),
            slice.prop_map(CacheStep::Remove),
        ]
    }

    proptest! {
        #[test]
        fn first_slice_is_evicted_last_and_sizes_add_up(
            steps in prop::collection::vec(step(), 0..200),
        ) {
            let mut space = SliceCache::default();
            for step in steps {
                match step {
                    CacheStep::Add(key, bytes) => space.add(key, bytes),
                    CacheStep::Touch(key) => space.touch(key),
                    CacheStep::Remove(key) => drop(space.remove(key)),
                    CacheStep::Evict(bytes, used) => {
                        let victims = space.victims(bytes, |key| key == used);
                        prop_assert!(!victims.contains(&used));
                        for victim in victims {
                            if victim.index == 0 {
                                let others = space.kept.keys().filter(|key| {
                                    key.version == victim.version && key.index > 0 && **key != used
                                });
                                prop_assert_eq!(others.count(), 0, "{:?}", victim);
                            }
                            space.evict(victim);
                        }
                    }
                }
                let slices: u64 = space.kept.values().map(|kept| u64::from(kept.bytes)).sum();
                let versions: BTreeSet<u128> = space.kept.keys().map(|key| key.version).collect();
                let folders = versions.len() as u64 * FOLDER_BYTES;
                prop_assert_eq!(slices + folders, space.used_bytes());
                prop_assert_eq!(space.order.len(), space.kept.len());
            }
        }
    }
}
