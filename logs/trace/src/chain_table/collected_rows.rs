//! Buffered rows: one run per session, the runs of each partition in order of sessions.

use std::io::{self, BufReader, Read};
use std::path::Path;

use crate::spill::{Spill, SpilledBytes, StoredBytes};

/// Rows of one session of a partition.
#[derive(Debug, Clone, Copy)]
pub(super) struct SessionRows {
    /// Position of its name in the table's order.
    pub(super) session: u32,
    pub(super) bytes: u64,
}

/// Rows of a partition, and where they are stored.
#[derive(Debug)]
pub(super) struct PartitionRows {
    pieces: Vec<SessionRows>,
    place: StoredBytes,
}

/// Collects rows of partitions, from any thread.
#[derive(Debug)]
pub(super) struct RowCollector(Spill);

impl RowCollector {
    /// Keeps that many bytes in memory; further ones go to a file in this folder.
    pub(super) fn new(folder: &Path, keep_bytes_max: u64) -> Self {
        Self(Spill::new(folder.to_owned(), keep_bytes_max))
    }

    /// Stores the rows of a partition.
    pub(super) fn put(&self, pieces: Vec<SessionRows>, rows: Vec<u8>) -> io::Result<PartitionRows> {
        let place = self.0.put(rows)?;
        Ok(PartitionRows { pieces, place })
    }

    /// All partitions, in any order.
    pub(super) fn finish(self, parts: Vec<PartitionRows>) -> CollectedRows {
        CollectedRows {
            parts,
            spilled: self.0.finish(),
        }
    }
}

/// All rows.
#[derive(Debug)]
pub(super) struct CollectedRows {
    parts: Vec<PartitionRows>,
    spilled: SpilledBytes,
}

impl CollectedRows {
    /// Bytes spilled to a file.
    pub(super) const fn spilled_bytes(&self) -> u64 {
        self.spilled.bytes
    }

    /// Passes all runs in order of sessions to `take`, each as a reader that must be read to its
    /// end. Spilled partitions are read through buffers, so that the file is not read run by run.
    pub(super) fn each<E: From<io::Error>>(
        &self,
        mut take: impl FnMut(SessionRows, &mut dyn Read) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut order: Vec<(SessionRows, usize)> = Vec::new();
        for (number, part) in self.parts.iter().enumerate() {
            order.extend(part.pieces.iter().map(|piece| (*piece, number)));
        }
        order.sort_by_key(|(piece, part)| (piece.session, *part));
        let mut readers: Vec<Box<dyn Read + '_>> = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            readers.push(match &part.place {
                StoredBytes::Memory(rows) => Box::new(rows.as_slice()),
                StoredBytes::Spilled { offset, .. } => {
                    let (spilled, offset) = (&self.spilled, *offset);
                    Box::new(BufReader::with_capacity(
                        1 << 16,
                        SpilledReader { spilled, offset },
                    ))
                }
            });
        }
        for (piece, part) in order {
            let mut rows = (&mut readers[part]).take(piece.bytes);
            take(piece, &mut rows)?;
            if rows.limit() > 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
        Ok(())
    }
}

/// Reader of the spilled bytes from an offset.
struct SpilledReader<'a> {
    spilled: &'a SpilledBytes,
    offset: u64,
}

impl Read for SpilledReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.spilled.read_at(buffer, self.offset)?;
        self.offset += bytes as u64;
        Ok(bytes)
    }
}
