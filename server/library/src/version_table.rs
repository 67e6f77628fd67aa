//! Records about versions of files, kept across restarts.
//!
//! A record is used only for the version that it describes, and only with a correct checksum. A
//! table is bounded: when it is full, records not used by this process are dropped; if there are
//! none, new ones are not stored.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use xxhash_rust::xxh3::{Xxh3Default, xxh3_64, xxh3_64_with_seed};

use crate::identity::FileIdentity;

/// Fields are whole words, so that a record begins at a multiple of this after any damage.
const WORD_BYTES: usize = 8;
/// Bytes of a record besides its value: file (16), version (8), checksum (8).
const FRAME_BYTES: usize = 32;

/// Result of loading records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecordsLoaded {
    /// Records loaded.
    pub records: usize,
    /// Places where records were truncated or damaged, and ignored.
    pub damaged: usize,
}

/// A version of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VersionKey {
    file: u128,
    version: u64,
}

impl VersionKey {
    /// The version of a file below a root as configured; `None` while the next change might leave
    /// size and mtime the same.
    pub(crate) fn of(root: &Path, path: &str, identity: &FileIdentity) -> Option<Self> {
        if !identity.is_settled {
            return None;
        }
        let mut hash = Xxh3Default::new();
        hash.update(root.as_os_str().as_bytes());
        hash.update(&[0]);
        hash.update(path.as_bytes());
        let size = identity.size.to_le_bytes();
        let (mtime, ino) = (identity.mtime_ns.to_le_bytes(), identity.ino.to_le_bytes());
        Some(Self {
            file: hash.digest128(),
            version: xxh3_64(&[&size[..], &mtime, &ino].concat()),
        })
    }

    /// The same, of one inode: changed by whatever changes the time of change, as another file with
    /// the same number, size and mtime does.
    pub(crate) fn of_inode(root: &Path, path: &str, identity: &FileIdentity) -> Option<Self> {
        let key = Self::of(root, path, identity)?;
        let version = [key.version, identity.distinction()].map(u64::to_le_bytes);
        Some(Self {
            version: xxh3_64(&version.concat()),
            ..key
        })
    }
}

/// Knowledge about a version of a file.
pub(crate) trait StoredValue: Clone + PartialEq {
    /// Seed of the checksums for the meaning of the fields: a record of another meaning has a wrong
    /// checksum.
    const CHECK_SEED: u64;
    /// Most bytes of all records of a table.
    const BYTES_MAX: usize;
    /// The log entry for a record of another version than the file.
    const OTHER_VERSION: &str;

    /// Appends the value, in whole words.
    fn encode(&self, record: &mut Vec<u8>);

    /// Reads a value from the front of `bytes`; returns the number of bytes it takes as well.
    fn decode(bytes: &[u8]) -> Option<(Self, usize)>;
}

#[derive(Debug, Clone)]
struct StoredRecord<V> {
    version: u64,
    value: V,
    is_used: bool,
}

/// A table.
#[derive(Debug)]
pub(crate) struct VersionTable<V>(Mutex<RecordsByFile<V>>);

#[derive(Debug)]
struct RecordsByFile<V> {
    by_file: HashMap<u128, StoredRecord<V>>,
    /// Bytes of all records.
    bytes: usize,
    /// Records that this process has not used: those that a full table may drop.
    unused: usize,
    /// Records not yet handed out for writing.
    unwritten: Vec<u8>,
    is_other_version_logged: bool,
}

impl<V> Default for VersionTable<V> {
    fn default() -> Self {
        Self(Mutex::new(RecordsByFile::default()))
    }
}

impl<V> Default for RecordsByFile<V> {
    fn default() -> Self {
        Self {
            by_file: HashMap::new(),
            bytes: 0,
            unused: 0,
            unwritten: Vec::new(),
            is_other_version_logged: false,
        }
    }
}

impl<V: StoredValue> VersionTable<V> {
    /// The value of a version of a file, if known.
    pub(crate) fn recall(&self, of: VersionKey) -> Option<V> {
        let mut table = self.lock();
        if let Some(value) = table.find(of, |_| true) {
            return Some(value);
        }
        if !table.remove(of.file) {
            return None;
        }
        if !std::mem::replace(&mut table.is_other_version_logged, true) {
            tracing::info!("{}", V::OTHER_VERSION);
        }
        None
    }

    /// The value of a version of a file became known.
    pub(crate) fn remember(&self, of: VersionKey, value: V) {
        let mut table = self.lock();
        if table.find(of, |known| *known == value).is_some() {
            return;
        }
        let record = encode(of, &value);
        if table.insert(of, value, true) {
            table.unwritten.extend(record);
        }
    }

    /// Loads records.
    pub(crate) fn recall_all(&self, mut bytes: &[u8]) -> RecordsLoaded {
        let mut loaded = RecordsLoaded::default();
        let mut table = self.lock();
        let mut is_within_damage = false;
        while !bytes.is_empty() {
            let skipped = match decode(bytes) {
                Some((of, value, length)) => {
                    is_within_damage = false;
                    loaded.records += usize::from(table.insert(of, value, false));
                    length
                }
                None => {
                    loaded.damaged += usize::from(!is_within_damage);
                    is_within_damage = true;
                    WORD_BYTES
                }
            };
            bytes = bytes.get(skipped..).unwrap_or_default();
        }
        loaded
    }

    /// Records of values learned since the last call.
    pub(crate) fn take_new(&self) -> Vec<u8> {
        std::mem::take(&mut self.lock().unwritten)
    }

    /// Records of all known values.
    pub(crate) fn all(&self) -> Vec<u8> {
        let table = self.lock();
        let records = table.by_file.iter().map(|(file, known)| {
            let of = VersionKey {
                file: *file,
                version: known.version,
            };
            encode(of, &known.value)
        });
        records.flatten().collect()
    }

    fn lock(&self) -> MutexGuard<'_, RecordsByFile<V>> {
        // No code under the lock panics in the middle of a change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<V: StoredValue> RecordsByFile<V> {
    /// The value of a version of a file, which counts as used then.
    fn find(&mut self, of: VersionKey, is_wanted: impl Fn(&V) -> bool) -> Option<V> {
        let known = self.by_file.get_mut(&of.file)?;
        if known.version != of.version || !is_wanted(&known.value) {
            return None;
        }
        self.unused -= usize::from(!known.is_used);
        known.is_used = true;
        Some(known.value.clone())
    }

    /// Removes the record of a file; returns whether there was one.
    fn remove(&mut self, file: u128) -> bool {
        let known = self.by_file.remove(&file);
        if let Some(known) = &known {
            self.bytes -= bytes_of(&known.value);
            self.unused -= usize::from(!known.is_used);
        }
        known.is_some()
    }

    fn insert(&mut self, of: VersionKey, value: V, is_used: bool) -> bool {
        let VersionKey { file, version } = of;
        let bytes = bytes_of(&value);
        self.remove(file);
        if self.bytes + bytes > V::BYTES_MAX {
            // Without this, each new file of a full table would look at all of it.
            if self.unused == 0 {
                return false;
            }
            self.unused = 0;
            self.by_file.retain(|_, known| known.is_used);
            let left = self.by_file.values().map(|known| bytes_of(&known.value));
            self.bytes = left.sum();
            if self.bytes + bytes > V::BYTES_MAX {
                return false;
            }
        }
        let known = StoredRecord {
            version,
            value,
            is_used,
        };
        self.bytes += bytes;
        self.unused += usize::from(!is_used);
        self.by_file.insert(file, known);
        true
    }
}

fn bytes_of<V: StoredValue>(value: &V) -> usize {
    let mut bytes = Vec::new();
    value.encode(&mut bytes);
    FRAME_BYTES + bytes.len()
}

/// A record: file, version, value, and XXH3 of those, little-endian.
fn encode<V: StoredValue>(of: VersionKey, value: &V) -> Vec<u8> {
    let mut record = Vec::with_capacity(2 * FRAME_BYTES);
    record.extend(of.file.to_le_bytes());
    record.extend(of.version.to_le_bytes());
    value.encode(&mut record);
    let check = xxh3_64_with_seed(&record, V::CHECK_SEED);
    record.extend(check.to_le_bytes());
    record
}

fn decode<V: StoredValue>(bytes: &[u8]) -> Option<(VersionKey, V, usize)> {
    let of = VersionKey {
        file: u128::from_le_bytes(*bytes.first_chunk()?),
        version: word(bytes, 16)?,
    };
    let (value, length) = V::decode(bytes.get(24..)?)?;
    let said = bytes.get(..24_usize.checked_add(length)?)?;
    let is_whole = word(bytes, said.len())? == xxh3_64_with_seed(said, V::CHECK_SEED);
    is_whole.then(|| (of, value, said.len() + WORD_BYTES))
}

/// The word at an offset.
pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value of as many words as its first word says.
    #[derive(Debug, Clone, PartialEq)]
    struct Words(Vec<u64>);

    impl StoredValue for Words {
        const CHECK_SEED: u64 = 7;
        const BYTES_MAX: usize = 10 * (FRAME_BYTES + 2 * WORD_BYTES);
        const OTHER_VERSION: &str = "other version";

        fn encode(&self, record: &mut Vec<u8>) {
            record.extend((self.0.len() as u64).to_le_bytes());
            record.extend(self.0.iter().flat_map(|word| word.to_le_bytes()));
        }

        fn decode(bytes: &[u8]) -> Option<(Self, usize)> {
            let count = usize::try_from(word(bytes, 0)?).ok()?;
            let words = (0..count.min(9)).map(|number| word(bytes, 8 * (number + 1)));
            Some((Self(words.collect::<Option<_>>()?), 8 * (count.min(9) + 1)))
        }
    }

    fn record(n: u64) -> (VersionKey, Words) {
        let of = VersionKey {
            file: u128::from(n) << 70 | 5,
            version: n + 1,
        };
        (of, Words(vec![n]))
    }

    #[test]
    fn record_round_trips() {
        let (of, value) = record(77);
        let bytes = encode(of, &value);
        assert_eq!(decode(&bytes), Some((of, value, bytes.len())));
    }

    #[test]
    fn truncated_or_damaged_record_is_rejected() {
        let (of, value) = record(77);
        let whole = encode(of, &value);
        for length in 0..whole.len() {
            assert_eq!(decode::<Words>(&whole[..length]), None);
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 4;
            assert_eq!(decode::<Words>(&damaged), None, "{at}");
        }
    }

    #[test]
    fn records_around_damage_are_loaded() {
        let encoded = |n| encode(record(n).0, &record(n).1);
        let mut bytes = [encoded(1), encoded(2), encoded(3)].concat();
        bytes[encoded(1).len() + 30] ^= 1;
        // A record that a crash has truncated, and the first one appended after it.
        bytes.extend(&encoded(4)[..19]);
        let table = VersionTable::<Words>::default();
        let loaded = table.recall_all(&bytes);
        assert_eq!((loaded.records, loaded.damaged), (2, 2));
        assert!(table.recall(record(1).0).is_some() && table.recall(record(3).0).is_some());
        assert!(table.recall(record(2).0).is_none() && table.recall(record(4).0).is_none());
    }

    #[test]
    fn value_of_another_version_is_ignored() {
        let table = VersionTable::default();
        let (of, value) = record(1);
        table.remember(of, value.clone());
        assert_eq!(table.recall(of), Some(value));
        let other = VersionKey { version: 9, ..of };
        assert_eq!(table.recall(other), None);
    }

    #[test]
    fn known_value_is_not_written_again() {
        let table = VersionTable::default();
        let (of, value) = record(1);
        table.remember(of, value.clone());
        assert!(!table.take_new().is_empty());
        table.remember(of, value);
        assert!(table.take_new().is_empty());
    }

    #[test]
    fn full_table_drops_unused_records() {
        let mut table = RecordsByFile::default();
        for n in 0..10 {
            let (of, value) = record(n);
            assert!(table.insert(of, value, n == 0));
        }
        let (of, value) = record(u64::from(u32::MAX));
        assert!(table.insert(of, value, true));
        assert_eq!(table.by_file.len(), 2);
        for n in 20..28 {
            let (of, value) = record(n);
            assert!(table.insert(of, value, true));
        }
        let (of, value) = record(40);
        assert!(!table.insert(of, value, true), "all are in use");
    }

    #[test]
    fn unused_records_are_counted_through_all_changes() {
        let table = VersionTable::default();
        let stored = (0..6).flat_map(|n| encode(record(n).0, &record(n).1));
        table.recall_all(&stored.collect::<Vec<u8>>());
        table.recall(record(0).0);
        table.remember(record(1).0, record(1).1);
        table.remember(record(2).0, Words(vec![99]));
        let other = VersionKey {
            version: 9,
            ..record(3).0
        };
        assert_eq!(table.recall(other), None);
        let table = table.lock();
        let unused = table.by_file.values().filter(|known| !known.is_used);
        assert_eq!((table.unused, unused.count()), (2, 2));
    }
}
