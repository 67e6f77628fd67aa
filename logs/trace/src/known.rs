//! Names that one thread has met lately.
//!
//! The one idea: requests of one viewer for one file come in crowds, so most names are among a few
//! thousand that were met before. Those are found without asking the table that all threads share.
//!
//! Invariants: what is found is what the shared table would say; memory is fixed.

use crate::names::{Interner, as_number, hash};

/// Places for names; a power of two.
const SLOTS: usize = 4096;
/// Bytes of the longest name that is remembered: a slot fills a line of the cache.
const NAME_BYTES_MAX: usize = 51;

/// What one thread remembers of one kind of name.
#[derive(Debug, Default)]
pub(crate) struct Known {
    slots: Vec<Slot>,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    hash: u64,
    number: u32,
    /// Of the name; none has so many bytes in an empty slot.
    len: u8,
    name: [u8; NAME_BYTES_MAX],
}

const EMPTY: Slot = Slot {
    hash: 0,
    number: 0,
    len: u8::MAX,
    name: [0; NAME_BYTES_MAX],
};

impl Known {
    /// Memory that one takes, bytes.
    pub(crate) const BYTES: usize = SLOTS * size_of::<Slot>();

    /// As [`Interner::intern`].
    pub(crate) fn intern(&mut self, name: &[u8], names: &Interner) -> (u32, u64) {
        if let Some(found) = as_number(name).and_then(|number| names.small(number)) {
            return found;
        }
        let hash = hash(name);
        if name.len() > NAME_BYTES_MAX {
            return (names.intern_hashed(name, hash), hash);
        }
        if self.slots.is_empty() {
            self.slots = vec![EMPTY; SLOTS];
        }
        let slot = &mut self.slots[hash as usize % SLOTS];
        let is_known = slot.hash == hash
            && usize::from(slot.len) == name.len()
            && slot.name[..name.len()] == *name;
        if !is_known {
            slot.hash = hash;
            slot.len = name.len() as u8;
            slot.name[..name.len()].copy_from_slice(name);
            slot.number = names.intern_hashed(name, hash);
        }
        (slot.number, hash)
    }

    /// As [`intern`](Self::intern), for the name that a number is written as.
    #[inline]
    pub(crate) fn intern_number(&mut self, number: u64, names: &Interner) -> (u32, u64) {
        if let Some(found) = names.small(number) {
            return found;
        }
        self.intern_large(number, names)
    }

    fn intern_large(&mut self, number: u64, names: &Interner) -> (u32, u64) {
        // The greatest has twenty digits.
        let mut digits = [0; 20];
        let (mut start, mut rest) = (digits.len(), number);
        while rest > 0 || start == digits.len() {
            start -= 1;
            digits[start] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        self.intern(&digits[start..], names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_what_the_shared_table_says() {
        let names = Interner::new(8);
        let mut known = Known::default();
        let long = "n".repeat(NAME_BYTES_MAX + 1);
        let given: Vec<String> = (0..3 * SLOTS)
            .map(|number| format!("/film-{number}.mp4"))
            .chain(["7", "300", "007", "", long.as_str()].map(String::from))
            .collect();
        for _ in 0..2 {
            for name in &given {
                let name = name.as_bytes();
                assert_eq!(known.intern(name, &names), names.intern(name));
            }
            for number in [0, 7, 255, 256, 99_999_999_999, u64::MAX] {
                let name = number.to_string();
                let expected = names.intern(name.as_bytes());
                assert_eq!(known.intern_number(number, &names), expected);
            }
        }
    }
}
