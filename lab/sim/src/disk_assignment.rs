//! Placement of titles on disks.
//!
//! Titles are assigned whole, by a hash of their number, because popularity is not known when a
//! server is filled. Popular titles end up unevenly distributed, as on an operator's disks.

/// The disk of a title, out of `disks`.
pub(crate) fn disk_of(title: u32, disks: u32) -> u32 {
    // SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): consecutive numbers get unrelated values.
    let mut mixed = u64::from(title).wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    (mixed % u64::from(disks.max(1))) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_spread_evenly_over_disks() {
        let mut counts = [0_u32; 36];
        (0..36_000).for_each(|title| counts[disk_of(title, 36) as usize] += 1);
        // A thousand each, plus or minus four standard deviations.
        let is_even = |count: &u32| (870..1130).contains(count);
        assert!(counts.iter().all(is_even), "{counts:?}");
        assert!((0..100).all(|title| disk_of(title, 1) == 0));
    }
}
