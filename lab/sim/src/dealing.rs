//! Which disk a title lies on.
//!
//! The one idea: whoever fills a box does not know what will be watched, so titles go to disks by a
//! hash of their numbers, each whole. Popular ones then lie where they happen to, and disks are as
//! uneven as an operator's.

/// The disk of a title, of so many.
pub(crate) fn disk_of(title: u32, disks: u32) -> u32 {
    // Steele, Lea and Flood's mixing (SplitMix64, OOPSLA 2014): neighbours have nothing in common.
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
    fn disks_get_about_as_many_titles_each() {
        let mut counts = [0_u32; 36];
        (0..36_000).for_each(|title| counts[disk_of(title, 36) as usize] += 1);
        // A thousand each, give or take four times the root of that.
        let is_even = |count: &u32| (870..1130).contains(count);
        assert!(counts.iter().all(is_even), "{counts:?}");
        assert!((0..100).all(|title| disk_of(title, 1) == 0));
    }
}
