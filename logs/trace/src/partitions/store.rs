//! Storage of partitions, as chunks of encoded records.

use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use super::record::Decoder;
use crate::spill::{Spill, SpilledBytes, StoredBytes};

/// Encoded records of one partition.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// Number of records.
    pub(crate) count: u32,
    /// Log position of the first record.
    first_line: u64,
    place: StoredBytes,
}

/// Collects chunks of all partitions, from any thread.
#[derive(Debug)]
pub(crate) struct ChunkStore {
    spill: Spill,
    by_part: Mutex<Vec<Vec<Chunk>>>,
}

impl ChunkStore {
    /// An empty store for that many partitions; chunks beyond the memory limit are spilled to a
    /// file in `folder`.
    pub(crate) fn new(parts: usize, keep_bytes_max: u64, folder: PathBuf) -> Self {
        Self {
            spill: Spill::new(folder, keep_bytes_max),
            by_part: Mutex::new((0..parts).map(|_| Vec::new()).collect()),
        }
    }

    /// Adds a chunk to a partition.
    pub(crate) fn add(&self, part: usize, bytes: Vec<u8>, count: u32) -> io::Result<()> {
        let first_line = match Decoder::new(&bytes).next() {
            Ok(Some(first)) => first.request.line,
            _ => 0,
        };
        let place = self.spill.put(bytes)?;
        let mut by_part = self.by_part.lock().unwrap_or_else(PoisonError::into_inner);
        by_part[part].push(Chunk {
            count,
            first_line,
            place,
        });
        Ok(())
    }

    /// All chunks, by partition. Within a partition they are nearly in log order, for any number of
    /// threads; so are the requests of a session, which then need little sorting.
    pub(crate) fn finish(self) -> Chunks {
        let by_part = self.by_part.into_inner();
        let mut by_part = by_part.unwrap_or_else(PoisonError::into_inner);
        for chunks in &mut by_part {
            chunks.sort_by_key(|chunk| chunk.first_line);
        }
        Chunks {
            by_part,
            spilled: self.spill.finish(),
        }
    }
}

/// All chunks of all partitions.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    by_part: Vec<Vec<Chunk>>,
    spilled: SpilledBytes,
}

impl Chunks {
    /// The chunks of a file, one partition each: number of records, and place.
    pub(crate) fn of_file(
        spilled: SpilledBytes,
        chunks: impl IntoIterator<Item = (u32, StoredBytes)>,
    ) -> Self {
        let part = |(count, place)| {
            vec![Chunk {
                count,
                first_line: 0,
                place,
            }]
        };
        Self {
            by_part: chunks.into_iter().map(part).collect(),
            spilled,
        }
    }

    /// Number of partitions.
    pub(crate) fn parts(&self) -> usize {
        self.by_part.len()
    }

    /// Bytes spilled to a file.
    pub(crate) const fn spilled_bytes(&self) -> u64 {
        self.spilled.bytes
    }

    /// Number of records in a partition.
    pub(crate) fn count(&self, part: usize) -> u64 {
        let chunks = self.by_part[part].iter();
        chunks.map(|chunk| u64::from(chunk.count)).sum()
    }

    /// Passes the chunks of a partition to `take`, one by one.
    pub(crate) fn read<E: From<io::Error>>(
        &self,
        part: usize,
        buffer: &mut Vec<u8>,
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        for chunk in &self.by_part[part] {
            take(self.spilled.bytes(&chunk.place, buffer)?)?;
        }
        Ok(())
    }
}
