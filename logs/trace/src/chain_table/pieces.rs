//! Rows that wait until all are there: each session's in one piece, each part's pieces in order of
//! sessions.

use std::io::{self, BufReader, Read};
use std::path::Path;

use crate::spill::{Place, Spill, Spilled};

/// Rows of one session of a part.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    /// Place of its name in the table's order.
    pub(super) session: u32,
    pub(super) bytes: u64,
}

/// Rows of a part, and where they wait.
#[derive(Debug)]
pub(super) struct PartRows {
    pieces: Vec<Piece>,
    place: Place,
}

/// Takes rows of parts, from any thread.
#[derive(Debug)]
pub(super) struct Waiting(Spill);

impl Waiting {
    /// Keeps so many bytes in memory; further ones go to a file in this folder.
    pub(super) fn new(folder: &Path, keep_bytes_max: u64) -> Self {
        Self(Spill::new(folder.to_owned(), keep_bytes_max))
    }

    /// Puts the rows of a part where there is room.
    pub(super) fn put(&self, pieces: Vec<Piece>, rows: Vec<u8>) -> io::Result<PartRows> {
        let place = self.0.put(rows)?;
        Ok(PartRows { pieces, place })
    }

    /// All parts, in whatever order.
    pub(super) fn finish(self, parts: Vec<PartRows>) -> Pieces {
        Pieces {
            parts,
            spilled: self.0.finish(),
        }
    }
}

/// All rows.
#[derive(Debug)]
pub(super) struct Pieces {
    parts: Vec<PartRows>,
    spilled: Spilled,
}

impl Pieces {
    /// Bytes that are in a file.
    pub(super) const fn spilled_bytes(&self) -> u64 {
        self.spilled.bytes
    }

    /// Hands over all pieces in order of sessions, each as bytes that must be read to their end.
    /// Of each part that waits in the file a little is read ahead, so that the file is not read
    /// piece by piece.
    pub(super) fn each<E: From<io::Error>>(
        &self,
        mut take: impl FnMut(Piece, &mut dyn Read) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut order: Vec<(Piece, usize)> = Vec::new();
        for (number, part) in self.parts.iter().enumerate() {
            order.extend(part.pieces.iter().map(|piece| (*piece, number)));
        }
        order.sort_by_key(|(piece, part)| (piece.session, *part));
        let mut readers: Vec<Box<dyn Read + '_>> = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            readers.push(match &part.place {
                Place::Memory(rows) => Box::new(rows.as_slice()),
                Place::Spilled { offset, .. } => {
                    let (spilled, offset) = (&self.spilled, *offset);
                    Box::new(BufReader::with_capacity(1 << 16, At { spilled, offset }))
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

/// What waits in the file, from an offset on.
struct At<'a> {
    spilled: &'a Spilled,
    offset: u64,
}

impl Read for At<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.spilled.read_at(buffer, self.offset)?;
        self.offset += bytes as u64;
        Ok(bytes)
    }
}
