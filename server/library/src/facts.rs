//! Durations from the headers of media files, by file and version, kept across restarts.
//!
//! A record is used only for the version that it describes, and only with a correct checksum. The
//! table is bounded: when it is full, records not used by this process are dropped; if there are
//! none, new facts are not stored.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use headlong_media::HeaderFacts;
use headlong_units::Duration;
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64, xxh3_64_with_seed};

use crate::identity::FileIdentity;

/// Bytes of a record: file (16), version, duration in nanoseconds with [`ESTIMATED`], declared end,
/// and XXH3 of those (8 each), little-endian.
pub const FACTS_RECORD_BYTES: usize = 48;
/// Most files with a record.
pub const FACTS_MAX: usize = 500_000;

/// Bit of an estimated duration; a duration is shorter than three centuries.
const ESTIMATED: u64 = 1 << 63;

/// Seed for the meaning of the fields: a record of another meaning has a wrong checksum.
const CHECK_SEED: u64 = 0x6864_6c67_0001;

/// Result of loading records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FactsLoaded {
    /// Records loaded.
    pub records: usize,
    /// Records that were truncated or damaged, and ignored.
    pub damaged: usize,
}

/// A version of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FactsKey {
    file: u128,
    version: u64,
}

impl FactsKey {
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
}

#[derive(Debug, Clone, Copy)]
struct StoredFacts {
    version: u64,
    facts: HeaderFacts,
    is_used: bool,
}

/// The table.
#[derive(Debug, Default)]
pub(crate) struct FactsTable(Mutex<FactsByFile>);

#[derive(Debug, Default)]
struct FactsByFile {
    by_file: HashMap<u128, StoredFacts>,
    /// Records not yet handed out for writing.
    unwritten: Vec<u8>,
    is_other_version_logged: bool,
}

impl FactsTable {
    /// The facts of a version of a file, if known.
    pub(crate) fn recall(&self, of: FactsKey) -> Option<HeaderFacts> {
        let mut table = self.lock();
        let known = table.by_file.get_mut(&of.file)?;
        if known.version == of.version {
            known.is_used = true;
            return Some(known.facts);
        }
        table.by_file.remove(&of.file);
        if !std::mem::replace(&mut table.is_other_version_logged, true) {
            tracing::info!(
                "stored durations of other versions of some files are ignored; \
                 they are read again when the files are played"
            );
        }
        None
    }

    /// The headers of a version of a file were read.
    pub(crate) fn remember(&self, of: FactsKey, facts: HeaderFacts) {
        let mut table = self.lock();
        if table.insert(of, facts, true) {
            table.unwritten.extend(encode(of, facts));
        }
    }

    /// Loads records.
    pub(crate) fn recall_all(&self, bytes: &[u8]) -> FactsLoaded {
        let mut recalled = FactsLoaded::default();
        let mut table = self.lock();
        for record in bytes.chunks(FACTS_RECORD_BYTES) {
            let known = decode(record);
            match known.is_some_and(|(of, facts)| table.insert(of, facts, false)) {
                true => recalled.records += 1,
                false => recalled.damaged += usize::from(known.is_none()),
            }
        }
        recalled
    }

    /// Records of facts learned since the last call.
    pub(crate) fn take_new(&self) -> Vec<u8> {
        std::mem::take(&mut self.lock().unwritten)
    }

    /// Records of all known facts.
    pub(crate) fn all(&self) -> Vec<u8> {
        let table = self.lock();
        let records = table.by_file.iter().map(|(file, known)| {
            let version = known.version;
            let of = FactsKey {
                file: *file,
                version,
            };
            encode(of, known.facts)
        });
        records.flatten().collect()
    }

    fn lock(&self) -> MutexGuard<'_, FactsByFile> {
        // No code under the lock panics in the middle of a change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FactsByFile {
    fn insert(&mut self, of: FactsKey, facts: HeaderFacts, is_used: bool) -> bool {
        if self.by_file.len() >= FACTS_MAX && !self.by_file.contains_key(&of.file) {
            self.by_file.retain(|_, known| known.is_used);
            if self.by_file.len() >= FACTS_MAX {
                return false;
            }
        }
        let FactsKey { file, version } = of;
        let known = StoredFacts {
            version,
            facts,
            is_used,
        };
        self.by_file.insert(file, known);
        true
    }
}

fn encode(of: FactsKey, facts: HeaderFacts) -> [u8; FACTS_RECORD_BYTES] {
    let mut record = [0; FACTS_RECORD_BYTES];
    record[..16].copy_from_slice(&of.file.to_le_bytes());
    record[16..24].copy_from_slice(&of.version.to_le_bytes());
    let flag = if facts.is_estimated { ESTIMATED } else { 0 };
    let duration = facts.duration.0 & !ESTIMATED | flag;
    record[24..32].copy_from_slice(&duration.to_le_bytes());
    record[32..40].copy_from_slice(&facts.end_declared.to_le_bytes());
    let check = xxh3_64_with_seed(&record[..40], CHECK_SEED);
    record[40..].copy_from_slice(&check.to_le_bytes());
    record
}

fn decode(record: &[u8]) -> Option<(FactsKey, HeaderFacts)> {
    let (said, check) = record.split_at_checked(40)?;
    if check != xxh3_64_with_seed(said, CHECK_SEED).to_le_bytes() {
        return None;
    }
    let word = |at: usize| Some(u64::from_le_bytes(*said.get(at..)?.first_chunk()?));
    let of = FactsKey {
        file: u128::from_le_bytes(*said.first_chunk()?),
        version: word(16)?,
    };
    let facts = HeaderFacts {
        duration: Duration(word(24)? & !ESTIMATED),
        is_estimated: word(24)? & ESTIMATED != 0,
        end_declared: word(32)?,
    };
    Some((of, facts))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(n: u64) -> (FactsKey, HeaderFacts) {
        let of = FactsKey {
            file: u128::from(n) << 70 | 5,
            version: n + 1,
        };
        let facts = HeaderFacts {
            duration: Duration(n + 2),
            is_estimated: n.is_multiple_of(2),
            end_declared: n + 3,
        };
        (of, facts)
    }

    #[test]
    fn record_round_trips() {
        for n in [76, 77] {
            let (of, facts) = record(n);
            assert_eq!(decode(&encode(of, facts)), Some((of, facts)));
        }
    }

    #[test]
    fn truncated_or_damaged_record_is_rejected() {
        let (of, facts) = record(77);
        let whole = encode(of, facts);
        for length in 0..whole.len() {
            assert_eq!(decode(&whole[..length]), None);
        }
        for at in 0..whole.len() {
            let mut damaged = whole;
            damaged[at] ^= 4;
            assert_eq!(decode(&damaged), None, "{at}");
        }
    }

    #[test]
    fn facts_of_another_version_are_ignored() {
        let table = FactsTable::default();
        let (of, facts) = record(1);
        table.remember(of, facts);
        assert_eq!(table.recall(of), Some(facts));
        let other = FactsKey { version: 9, ..of };
        assert_eq!(table.recall(other), None);
    }

    #[test]
    fn full_table_drops_unused_records() {
        let mut table = FactsByFile::default();
        for n in 0..FACTS_MAX as u64 {
            let (of, facts) = record(n);
            assert!(table.insert(of, facts, n == 0));
        }
        let (of, facts) = record(u64::from(u32::MAX));
        assert!(table.insert(of, facts, true));
        assert_eq!(table.by_file.len(), 2);
    }
}
