//! Extents of simulated files, and where their maps lie.
//!
//! As on ext4: a file with at most [`INODE_EXTENTS`] extents has its map in its inode, which the
//! scan of the library has read. The map of any other file is a block of its own. These blocks lie
//! in the block groups of the inodes, in order of creation: for a library in one folder, at the
//! front of the device and far from most of the bytes.

use headlong_engine::Extent;
use headlong_units::MIB;

/// Extents that fit into an inode.
const INODE_EXTENTS: usize = 4;
/// Blocks of the file system.
const BLOCK_BYTES: u64 = 4096;
/// Least size of an extent: smaller files have fewer.
const EXTENT_BYTES_MIN: u64 = MIB;
/// Bytes of files for each byte of maps: one block for 32 MiB, the size of a short title.
const BYTES_PER_MAP_BYTE: u64 = 32 * MIB / BLOCK_BYTES;

/// The extents of a file that occupies `size_bytes` from `physical` on: `count` runs of equal size,
/// every second one in the rear half, so that each is away from the one before.
pub(crate) fn extents_of(physical: u64, size_bytes: u64, count: u32) -> Vec<Extent> {
    let count = u64::from(count).clamp(1, (size_bytes / EXTENT_BYTES_MIN).max(1));
    let run = size_bytes
        .div_ceil(count)
        .next_multiple_of(BLOCK_BYTES)
        .max(1);
    // The last run is shorter and must stay the last one.
    let count = size_bytes.div_ceil(run).max(1);
    let moved = count - 1;
    let slot = |number: u64| match number {
        last if last == moved => last,
        even if even.is_multiple_of(2) => even / 2,
        odd => moved.div_ceil(2) + odd / 2,
    };
    let extent = |number| Extent {
        offset: number * run,
        physical: physical + slot(number) * run,
        length: run.min(size_bytes - number * run),
    };
    (0..count).map(extent).collect()
}

/// Position of the block with the map of a file; `None` if its inode holds the map.
pub(crate) fn map_of(extents: &[Extent]) -> Option<u64> {
    let first = extents.first().filter(|_| extents.len() > INODE_EXTENTS)?;
    Some(first.physical / BYTES_PER_MAP_BYTE / BLOCK_BYTES * BLOCK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_fill_file_without_overlap() {
        for (size, count) in [(0, 1), (5, 4), (3 * MIB, 8), (61_234_567, 20), (1 << 30, 5)] {
            let extents = extents_of(1 << 20, size, count);
            let mut offset = 0;
            for extent in &extents {
                assert_eq!(extent.offset, offset);
                offset += extent.length;
            }
            assert_eq!(offset, size);
            let mut places: Vec<_> = extents
                .iter()
                .map(|extent| (extent.physical, extent.length))
                .collect();
            places.sort_unstable();
            assert!(places.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0));
            let last = places.last().expect("one");
            assert!(last.0 + last.1 <= (1 << 20) + size);
        }
    }

    #[test]
    fn file_with_few_extents_has_its_map_in_inode() {
        let map = |count| map_of(&extents_of(1 << 40, 100 * MIB, count));
        assert_eq!(map(1), None);
        assert_eq!(map(4), None);
        assert_eq!(map(5), Some(1 << 27));
    }
}
