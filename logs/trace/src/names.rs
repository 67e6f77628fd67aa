//! Interning of names: sessions, files, titles, devices and drives.
//!
//! While a log is read, any thread assigns a provisional number to a name immediately; afterwards
//! names are sorted, and the final number is the position in that order. Numbers are therefore
//! independent of the order of arrival, and sorting by number is sorting by name.
//!
//! Invariants: numeric names are stored as numbers (small ones as one bit) and come first, ordered
//! by value; all others follow, ordered by bytes; names and numbers correspond one to one.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use hashbrown::HashTable;

const SHARDS_BITS: u32 = 6;
const SHARDS: usize = 1 << SHARDS_BITS;

/// A hash of bytes that is stable between runs (multiply and fold, as in wyhash).
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15 ^ bytes.len() as u64;
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        let word = u64::from_le_bytes([
            chunk[0], chunk[1], chunk[2], chunk[3], chunk[4], chunk[5], chunk[6], chunk[7],
        ]);
        state = fold(state ^ word, 0xa076_1d64_78bd_642f);
    }
    let mut last = 0_u64;
    for (index, byte) in chunks.remainder().iter().enumerate() {
        last |= u64::from(*byte) << (8 * index);
    }
    fold(state ^ last, 0xe703_7ed1_a0b4_28db)
}

/// The same for a number.
pub(crate) fn hash_number(number: u64) -> u64 {
    fold(number ^ 0x9e37_79b9_7f4a_7c15, 0xe703_7ed1_a0b4_28db)
}

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

/// A map with trusted keys (numbers or short internal texts); its order is stable between runs.
pub(crate) type QuickMap<K, V> =
    std::collections::HashMap<K, V, std::hash::BuildHasherDefault<QuickHasher>>;

/// The hash above as a `Hasher`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct QuickHasher(u64);

impl std::hash::Hasher for QuickHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = fold(self.0 ^ hash(bytes), 0xa076_1d64_78bd_642f);
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = fold(
            self.0 ^ number ^ 0x9e37_79b9_7f4a_7c15,
            0xe703_7ed1_a0b4_28db,
        );
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The value of a name that is a canonical decimal number: digits only, no leading zero.
pub(crate) fn as_number(name: &[u8]) -> Option<u64> {
    if name.is_empty() || name.len() > 19 || (name[0] == b'0' && name.len() > 1) {
        return None;
    }
    name.iter().try_fold(0_u64, |sum, byte| {
        byte.is_ascii_digit()
            .then(|| sum * 10 + u64::from(byte - b'0'))
    })
}

/// Collects names from any number of threads.
pub(crate) struct Interner {
    /// One bit for each number below `small_max`.
    small: Box<[AtomicU64]>,
    small_max: u64,
    shards: Vec<Mutex<InternerShard>>,
    bytes: AtomicU64,
}

#[derive(Default)]
struct InternerShard {
    places: HashTable<u32>,
    names: NameArena,
}

/// Names stored consecutively.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct NameArena {
    text: Vec<u8>,
    ends: Vec<u64>,
}

impl NameArena {
    fn get(&self, place: usize) -> &[u8] {
        let start = match place.checked_sub(1) {
            Some(before) => self.ends[before],
            None => 0,
        };
        &self.text[start as usize..self.ends[place] as usize]
    }

    fn push(&mut self, name: &[u8]) {
        self.text.extend_from_slice(name);
        self.ends.push(self.text.len() as u64);
    }
}

impl Interner {
    /// An empty interner that stores numbers below `2^small_bits` as bits.
    pub(crate) fn new(small_bits: u32) -> Self {
        let words = (1_usize << small_bits).div_ceil(64);
        Self {
            small: (0..words).map(|_| AtomicU64::new(0)).collect(),
            small_max: 1 << small_bits,
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            bytes: AtomicU64::new(words as u64 * 8),
        }
    }

    /// The provisional number of a name, and its hash, which is stable between runs.
    pub(crate) fn intern(&self, name: &[u8]) -> (u32, u64) {
        match as_number(name).and_then(|number| self.small(number)) {
            Some(found) => found,
            None => {
                let hash = hash(name);
                (self.intern_hashed(name, hash), hash)
            }
        }
    }

    /// As [`intern`](Self::intern), for a number stored as a bit; `None` for larger ones.
    #[inline]
    pub(crate) fn small(&self, number: u64) -> Option<(u32, u64)> {
        if number >= self.small_max {
            return None;
        }
        let word = &self.small[(number / 64) as usize];
        let bit = 1 << (number % 64);
        // Reads first: a cache line without writers is shared by all cores.
        if word.load(Relaxed) & bit == 0 {
            word.fetch_or(bit, Relaxed);
        }
        Some((number as u32, hash_number(number)))
    }

    /// The provisional number of a name that is not a small number, with this [`hash`].
    pub(crate) fn intern_hashed(&self, name: &[u8], hash: u64) -> u32 {
        // Neither the highest nor the lowest bits, which the hash tables use.
        let shard = (hash >> 32) as usize % SHARDS;
        let place = self.place(shard, hash, name);
        let number = self.small_max + ((u64::from(place) << SHARDS_BITS) | shard as u64);
        number as u32
    }

    fn place(&self, index: usize, name_hash: u64, name: &[u8]) -> u32 {
        let mut shard = self.shards[index]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let InternerShard { places, names } = &mut *shard;
        let found = places.find(name_hash, |place| names.get(*place as usize) == name);
        if let Some(place) = found {
            return *place;
        }
        let place = names.ends.len() as u32;
        names.push(name);
        places.insert_unique(name_hash, place, |place| hash(names.get(*place as usize)));
        // Text, its end, and a table slot; doubled to allow for growth.
        let grown = 2 * (name.len() as u64 + 8 + 5);
        self.bytes.fetch_add(grown, Relaxed);
        place
    }

    /// Memory used so far, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// The names in order, and the mapping of provisional numbers.
    pub(crate) fn finish(self) -> (Names, Renumber) {
        let small: Vec<u64> = self.small.into_iter().map(AtomicU64::into_inner).collect();
        let mut numbers = Vec::new();
        let mut words = Vec::with_capacity(small.len());
        for (index, bits) in small.into_iter().enumerate() {
            let before = numbers.len() as u32;
            words.push(BitWord { bits, before });
            let mut rest = bits;
            while rest != 0 {
                numbers.push(index as u64 * 64 + u64::from(rest.trailing_zeros()));
                rest &= rest - 1;
            }
        }
        let shards: Vec<NameArena> = self
            .shards
            .into_iter()
            .map(|shard| shard.into_inner().unwrap_or_else(PoisonError::into_inner))
            .map(|shard| shard.names)
            .collect();
        let mut order: Vec<(u32, u32)> = Vec::new();
        for (index, shard) in shards.iter().enumerate() {
            order.extend((0..shard.ends.len()).map(|place| (index as u32, place as u32)));
        }
        let name = |(shard, place): (u32, u32)| shards[shard as usize].get(place as usize);
        let key = |at: (u32, u32)| (as_number(name(at)).unwrap_or(u64::MAX), name(at));
        order.sort_unstable_by(|a, b| key(*a).cmp(&key(*b)));
        let mut others: Vec<Vec<u32>> = shards.iter().map(|s| vec![0; s.ends.len()]).collect();
        let mut texts = NameArena::default();
        for at in &order {
            others[at.0 as usize][at.1 as usize] = (numbers.len() + texts.ends.len()) as u32;
            match as_number(name(*at)) {
                Some(number) => numbers.push(number),
                None => texts.push(name(*at)),
            }
        }
        let names = Names {
            numbers,
            texts,
            bases: None,
        };
        let renumber = Renumber {
            words,
            small_max: self.small_max as u32,
            others,
        };
        (names, renumber)
    }
}

/// Mapping of provisional to final numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Renumber {
    words: Vec<BitWord>,
    small_max: u32,
    others: Vec<Vec<u32>>,
}

/// Presence bits of 64 small numbers, and the count of smaller ones.
#[derive(Debug, Clone, Copy, Default)]
struct BitWord {
    bits: u64,
    before: u32,
}

impl Renumber {
    /// The final number; `None` if the provisional number was never assigned.
    #[inline]
    pub(crate) fn of(&self, provisional: u32) -> Option<u32> {
        if provisional < self.small_max {
            let word = self.words.get((provisional / 64) as usize)?;
            let bit = 1_u64 << (provisional % 64);
            let below = word.bits & (bit - 1);
            let is_there = word.bits & bit != 0;
            return is_there.then(|| word.before + below.count_ones());
        }
        let rest = provisional - self.small_max;
        let shard = self.others.get(rest as usize % SHARDS)?;
        shard.get((rest >> SHARDS_BITS) as usize).copied()
    }
}

/// Names by number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    numbers: Vec<u64>,
    texts: NameArena,
    /// For names divided into several sessions: the first number of each name, followed by the
    /// total.
    bases: Option<Vec<u32>>,
}

/// One of [`Names`], for display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name<'a> {
    /// A number.
    Number(u64),
    /// Any other name; bytes that are not UTF-8 are shown as U+FFFD.
    Text(&'a [u8]),
    /// A part of a divided name, counted from 1.
    Part(&'a [u8], u32),
    /// The number is unknown.
    Unknown(u32),
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(&String::from_utf8_lossy(text)),
            Self::Part(text, part) => write!(f, "{}#{part}", String::from_utf8_lossy(text)),
            Self::Unknown(number) => write!(f, "?{number}"),
        }
    }
}

impl Names {
    /// These names, sorted and deduplicated.
    pub fn from_names<'a>(names: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let interner = Interner::new(6);
        for name in names {
            interner.intern(name);
        }
        interner.finish().0
    }

    /// The number of names.
    pub fn len(&self) -> usize {
        match &self.bases {
            Some(bases) => bases.last().map_or(0, |count| *count as usize),
            None => self.whole_len(),
        }
    }

    /// Whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name of a number.
    pub fn get(&self, number: u32) -> Name<'_> {
        let Some(bases) = &self.bases else {
            return self.whole(number);
        };
        if number as usize >= self.len() {
            return Name::Unknown(number);
        }
        let place = bases.partition_point(|base| *base <= number) - 1;
        let (base, end) = (bases[place], bases[place + 1]);
        match self.whole(place as u32) {
            Name::Text(text) if end - base > 1 => Name::Part(text, number - base + 1),
            name => name,
        }
    }

    /// The number of a name. Divided sessions are not found.
    pub fn find(&self, name: &str) -> Option<u32> {
        if self.bases.is_some() {
            return None;
        }
        if let Some(number) = as_number(name.as_bytes()) {
            return self.numbers.binary_search(&number).ok().map(|n| n as u32);
        }
        let (mut low, mut high) = (0, self.texts.ends.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.texts.get(middle).cmp(name.as_bytes()) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Some((self.numbers.len() + middle) as u32),
            }
        }
        None
    }

    /// The value of each name, if all are numbers.
    pub fn as_numbers(&self) -> Option<&[u64]> {
        self.texts.ends.is_empty().then_some(&self.numbers)
    }

    /// Number of names before division.
    pub(crate) fn whole_len(&self) -> usize {
        self.numbers.len() + self.texts.ends.len()
    }

    fn whole(&self, number: u32) -> Name<'_> {
        let place = number as usize;
        if let Some(value) = self.numbers.get(place) {
            return Name::Number(*value);
        }
        let text = place - self.numbers.len();
        if text < self.texts.ends.len() {
            Name::Text(self.texts.get(text))
        } else {
            Name::Unknown(number)
        }
    }

    /// These names followed by `others`; `counts` gives the number of parts of each.
    pub(crate) fn joined(mut self, others: &Self, counts: Option<&[u32]>) -> Self {
        // The second kind of names is never numeric: they contain more than digits.
        for place in 0..others.whole_len() {
            let name = others.whole(place as u32).to_string();
            self.texts.push(name.as_bytes());
        }
        self.bases = counts.map(|counts| {
            let mut bases = Vec::with_capacity(counts.len() + 1);
            let mut sum = 0;
            for count in counts {
                bases.push(sum);
                sum += count;
            }
            bases.push(sum);
            bases
        });
        self
    }

    /// The first number of each possibly divided name, followed by the total.
    pub(crate) fn bases(&self) -> Option<&[u32]> {
        self.bases.as_deref()
    }

    /// The bytes of a name.
    pub(crate) fn bytes(&self, number: u32) -> std::borrow::Cow<'_, [u8]> {
        match self.get(number) {
            Name::Text(text) => text.into(),
            other => other.to_string().into_bytes().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_come_first_by_value_and_texts_follow() {
        let interner = Interner::new(8);
        let given = ["b", "300", "7", "007", "a", "99999999999", "7", ""];
        let provisional: Vec<u32> = given.map(|name| interner.intern(name.as_bytes()).0).into();
        let (names, renumber) = interner.finish();
        let all: Vec<String> = (0..names.len() as u32)
            .map(|number| names.get(number).to_string())
            .collect();
        assert_eq!(all, ["7", "300", "99999999999", "", "007", "a", "b"]);
        for (name, provisional) in given.iter().zip(provisional) {
            let number = renumber.of(provisional).expect("assigned");
            assert_eq!(names.get(number).to_string(), *name);
            assert_eq!(names.find(name), Some(number));
        }
        assert_eq!(names.find("c"), None);
        assert_eq!(names.get(7), Name::Unknown(7));
    }

    #[test]
    fn divided_name_shows_its_part() {
        let viewers = Names::from_names([&b"10.0.0.1~a"[..], b"10.0.0.2~b"]);
        let ids = Names::from_names([&b"5"[..]]);
        let names = ids.joined(&viewers, Some(&[1, 3, 1]));
        let all: Vec<String> = (0..names.len() as u32)
            .map(|number| names.get(number).to_string())
            .collect();
        assert_eq!(
            all,
            [
                "5",
                "10.0.0.1~a#1",
                "10.0.0.1~a#2",
                "10.0.0.1~a#3",
                "10.0.0.2~b"
            ]
        );
    }

    proptest! {
        #[test]
        fn order_of_arrival_does_not_matter(mut given: Vec<Vec<u8>>, number: u64) {
            given.push(number.to_string().into_bytes());
            let forth = Names::from_names(given.iter().map(Vec::as_slice));
            let back = Names::from_names(given.iter().rev().map(Vec::as_slice));
            prop_assert_eq!(forth, back);
        }
    }
}
