//! The hash functions by which HAProxy places boxes and titles on its ring (`hash-type consistent
//! sdbm avalanche` of its configuration manual).

/// The hash of a title, as [`crate::TitleRule::balanced`] returns it.
pub fn title_hash(title: &str) -> u32 {
    // Ozan Yigit's sdbm: each byte is added to 65599 times the hash so far.
    let hash = title.bytes().fold(0_u32, |hash, byte| {
        hash.wrapping_mul(65_599).wrapping_add(u32::from(byte))
    });
    avalanche(hash)
}

/// The hash of a further copy of a popular title. HAProxy hashes another text: the boxes of copies
/// are as well mixed there, but others.
pub(crate) const fn title_copy(title: u32, copy: u32) -> u32 {
    point(title, copy)
}

/// A box has at most this many points on the ring.
const NUMBERS: u32 = 4096;

/// The place of a point of a box on the ring, by the id of the box and the number of the point.
pub(crate) const fn point(id: u32, number: u32) -> u32 {
    avalanche(id.wrapping_mul(NUMBERS).wrapping_add(number))
}

/// Bob Jenkins' integer hash with full avalanche, and a multiplication that spreads its values.
const fn avalanche(value: u32) -> u32 {
    let mixed = value.wrapping_add(value << 12).wrapping_add(0x7ed5_5d16);
    let mixed = mixed ^ 0xc761_c23c ^ (mixed >> 19);
    let mixed = mixed.wrapping_add(mixed << 5).wrapping_add(0x1656_67b1);
    let mixed = mixed.wrapping_add(0xd3a2_646c) ^ (mixed << 9);
    let mixed = mixed.wrapping_add(mixed << 3).wrapping_add(0xfd70_46c5);
    let mixed = mixed ^ 0xb55a_4f09 ^ (mixed >> 16);
    mixed.wrapping_mul(0xc000_0001)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_haproxy() {
        // From an independent implementation, whose boxes of 2,000 paths were those of HAProxy 2.6.
        assert_eq!(title_hash("/films/a.mp4"), TITLE);
        assert_eq!(point(12_345, 67), POINT);
    }

    const TITLE: u32 = 1_565_593_939;
    const POINT: u32 = 2_298_096_401;
}
