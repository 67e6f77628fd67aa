//! Per-thread cache of recent names, and the numbers of the names in a batch of rows.
//!
//! Requests of one viewer for one file are clustered, so most names are among a few thousand recent
//! ones. These are found without a lookup in the table shared by all threads.
//!
//! Invariants: a cached result equals that of the shared table; the memory is fixed.

use crate::cell_text::decimal;
use crate::names::{Interner, as_number, hash};
use crate::parquet::plain::NameColumn;

/// Number of slots; a power of two.
const SLOTS: usize = 4096;
/// Length of the longest cached name, bytes: a slot fills a cache line.
const NAME_BYTES_MAX: usize = 51;

/// The cache of one thread for one kind of name.
#[derive(Debug, Default)]
pub(crate) struct NumberCache {
    slots: Vec<CacheSlot>,
}

#[derive(Debug, Clone, Copy)]
struct CacheSlot {
    hash: u64,
    number: u32,
    /// Length of the name; impossible value in an empty slot.
    len: u8,
    name: [u8; NAME_BYTES_MAX],
}

const EMPTY: CacheSlot = CacheSlot {
    hash: 0,
    number: 0,
    len: u8::MAX,
    name: [0; NAME_BYTES_MAX],
};

impl NumberCache {
    /// Memory of one instance, bytes.
    pub(crate) const BYTES: usize = SLOTS * size_of::<CacheSlot>();

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

    /// As [`intern`](Self::intern), for the decimal representation of a number.
    #[inline]
    pub(crate) fn intern_number(&mut self, number: u64, names: &Interner) -> (u32, u64) {
        if let Some(found) = names.small(number) {
            return found;
        }
        self.intern(decimal(number, &mut [0; 20]), names)
    }
}

/// Numbers of the names in a batch, by row.
#[derive(Default)]
pub(crate) struct BatchNumbers {
    /// With the partition of the session.
    pub(crate) sessions: Vec<(u32, u32)>,
    pub(crate) files: Vec<u32>,
    pub(crate) disks: Vec<u32>,
    pub(crate) devices: Vec<u32>,
}

impl BatchNumbers {
    pub(crate) fn clear(&mut self) {
        self.sessions.clear();
        self.files.clear();
        self.disks.clear();
        self.devices.clear();
    }
}

/// Assigns numbers to the names of a column, in order.
pub(crate) fn put_numbers(
    known: &mut NumberCache,
    column: NameColumn<'_>,
    names: &Interner,
    mut put: impl FnMut(u32, u64),
) {
    match column {
        NameColumn::Numbers(numbers) => {
            for number in numbers {
                let (number, hash) = known.intern_number(number.cast_unsigned(), names);
                put(number, hash);
            }
        }
        NameColumn::Texts(texts) => {
            for text in texts {
                let (number, hash) = known.intern(text.data(), names);
                put(number, hash);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_agrees_with_the_shared_table() {
        let names = Interner::new(8);
        let mut known = NumberCache::default();
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
