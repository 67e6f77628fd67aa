//! Where files lie on their file systems, as records kept across restarts.
//!
//! A place serves to order reads. It may be outdated, as a file can be moved without a trace in its
//! times (defragmentation): it is looked up again before the first read of the file.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use headlong_engine::Extent;

use crate::identity::FileIdentity;
use crate::version_table::{StoredValue, VersionKey, VersionTable, word};

/// Most extents stored of a file: a rest counts as lying at their end.
const EXTENTS_MAX: usize = 32;
/// Most files by which the place of another is estimated.
const NEIGHBOURS_MAX: usize = 65_536;
/// Bytes before the extents of a value, and of each extent.
const HEAD_BYTES: usize = 24;
const EXTENT_BYTES: usize = 24;

/// The place of one version of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FilePlace {
    /// Creation time of the inode, nanoseconds since 1970; zero if unknown.
    pub(crate) born_ns: i128,
    /// Positions within the file system, the first [`EXTENTS_MAX`].
    pub(crate) extents: Vec<Extent>,
}

impl FilePlace {
    pub(crate) fn new(born_ns: i128, extents: &[Extent]) -> Self {
        Self {
            born_ns,
            extents: extents.iter().take(EXTENTS_MAX).copied().collect(),
        }
    }
}

impl StoredValue for FilePlace {
    const CHECK_SEED: u64 = 0x6864_6c67_0002;
    /// Six hundred thousand files of two extents.
    const BYTES_MAX: usize = 64_000_000;
    const OTHER_VERSION: &str = "stored places of other versions of some files are ignored; they \
                                 are looked up again when the files are read";

    /// Creation time, number of extents, and offset, position and length of each, in bytes.
    fn encode(&self, record: &mut Vec<u8>) {
        record.extend(self.born_ns.to_le_bytes());
        record.extend((self.extents.len() as u64).to_le_bytes());
        for extent in &self.extents {
            for value in [extent.offset, extent.physical, extent.length] {
                record.extend(value.to_le_bytes());
            }
        }
    }

    fn decode(bytes: &[u8]) -> Option<(Self, usize)> {
        let count = usize::try_from(word(bytes, 16)?).ok()?;
        if count > EXTENTS_MAX {
            return None;
        }
        let length = HEAD_BYTES + count * EXTENT_BYTES;
        let extents = bytes.get(HEAD_BYTES..length)?.chunks_exact(EXTENT_BYTES);
        let extent = |of: &[u8]| {
            Some(Extent {
                offset: word(of, 0)?,
                physical: word(of, 8)?,
                length: word(of, 16)?,
            })
        };
        let place = Self {
            born_ns: i128::from_le_bytes(*bytes.first_chunk()?),
            extents: extents.map(extent).collect::<Option<_>>()?,
        };
        Some((place, length))
    }
}

/// The known places of all files.
#[derive(Debug, Default)]
pub(crate) struct PlaceTable {
    pub(crate) stored: VersionTable<FilePlace>,
    /// First byte of files on their disks, by device and inode.
    neighbours: Mutex<BTreeMap<(u64, u64), u64>>,
}

impl PlaceTable {
    /// The place of a version of a file.
    pub(crate) fn recall(&self, of: Option<VersionKey>) -> Option<FilePlace> {
        self.stored.recall(of?)
    }

    /// A file begins at this position of its disk.
    pub(crate) fn note_start(&self, of: &FileIdentity, physical: u64) {
        let mut neighbours = self
            .neighbours
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if neighbours.len() < NEIGHBOURS_MAX {
            neighbours.insert((of.dev, of.ino), physical);
        }
    }

    /// Where a file probably begins: file systems place files of neighbouring inodes near one
    /// another. `None` if no file of its file system is known.
    pub(crate) fn estimate(&self, of: &FileIdentity) -> Option<u64> {
        let neighbours = self
            .neighbours
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let key = (of.dev, of.ino);
        let before = neighbours.range((of.dev, 0)..=key).next_back();
        let after = neighbours.range(key..=(of.dev, u64::MAX)).next();
        let nearest = before
            .into_iter()
            .chain(after)
            .min_by_key(|((_, ino), _)| ino.abs_diff(of.ino));
        nearest.map(|(_, physical)| *physical)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(ino: u64) -> FileIdentity {
        FileIdentity {
            dev: 1,
            ino,
            size: 1,
            mtime_ns: 0,
            ctime_ns: 0,
            attributes: 0,
            is_settled: true,
        }
    }

    #[test]
    fn place_round_trips() {
        let extent = |n| Extent {
            offset: n,
            physical: n << 30,
            length: n + 1,
        };
        let extents: Vec<_> = (0..40).map(extent).collect();
        let place = FilePlace::new(-5, &extents);
        assert_eq!(place.extents.len(), EXTENTS_MAX);
        let mut bytes = Vec::new();
        place.encode(&mut bytes);
        assert_eq!(FilePlace::decode(&bytes), Some((place, bytes.len())));
        bytes[16] = 33;
        assert_eq!(FilePlace::decode(&bytes), None);
    }

    #[test]
    fn file_probably_lies_near_nearest_inode() {
        let table = PlaceTable::default();
        assert_eq!(table.estimate(&identity(5)), None);
        table.note_start(&identity(10), 1000);
        table.note_start(&identity(20), 2000);
        assert_eq!(table.estimate(&identity(5)), Some(1000));
        assert_eq!(table.estimate(&identity(14)), Some(1000));
        assert_eq!(table.estimate(&identity(16)), Some(2000));
        let elsewhere = FileIdentity {
            dev: 2,
            ..identity(14)
        };
        assert_eq!(table.estimate(&elsewhere), None);
    }
}
