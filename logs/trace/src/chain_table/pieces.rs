//! Rows that wait until all are there: each session's in one piece, each part's pieces in order of
//! sessions.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The rows of one session.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub(super) session: u32,
    pub(super) bytes: u64,
}

/// The rows of one part.
#[derive(Debug)]
pub(super) struct PartRows {
    pieces: Vec<Piece>,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Memory(Vec<u8>),
    Spilled { offset: u64 },
}

/// Takes rows of parts in, from any thread.
#[derive(Debug)]
pub(super) struct Waiting {
    folder: PathBuf,
    keep_bytes_max: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    kept_bytes: u64,
    spilled_bytes: u64,
    file: Option<File>,
}

impl Waiting {
    pub(super) fn new(folder: &Path, keep_bytes_max: u64) -> Self {
        Self {
            folder: folder.to_owned(),
            keep_bytes_max,
            state: Mutex::default(),
        }
    }

    /// Keeps the rows of a part: `pieces` are in order of sessions and together all of `rows`.
    pub(super) fn put(&self, pieces: Vec<Piece>, mut rows: Vec<u8>) -> io::Result<PartRows> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = rows.len() as u64;
        let place = if state.kept_bytes + bytes <= self.keep_bytes_max {
            state.kept_bytes += bytes;
            rows.shrink_to_fit();
            Place::Memory(rows)
        } else {
            let offset = state.spilled_bytes;
            if state.file.is_none() {
                state.file = Some(tempfile::tempfile_in(&self.folder)?);
            }
            if let Some(file) = &state.file {
                file.write_all_at(&rows, offset)?;
            }
            state.spilled_bytes += bytes;
            Place::Spilled { offset }
        };
        Ok(PartRows { pieces, place })
    }

    pub(super) fn finish(self, parts: Vec<PartRows>) -> Pieces {
        let state = self.state.into_inner();
        let state = state.unwrap_or_else(PoisonError::into_inner);
        Pieces {
            parts,
            spilled_bytes: state.spilled_bytes,
            file: state.file,
        }
    }
}

/// The rows of all parts.
#[derive(Debug)]
pub(super) struct Pieces {
    parts: Vec<PartRows>,
    spilled_bytes: u64,
    file: Option<File>,
}

impl Pieces {
    pub(super) const fn spilled_bytes(&self) -> u64 {
        self.spilled_bytes
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
            readers.push(match (&part.place, &self.file) {
                (Place::Memory(rows), _) => Box::new(rows.as_slice()),
                (Place::Spilled { offset }, Some(file)) => {
                    let at = At {
                        file,
                        offset: *offset,
                    };
                    Box::new(BufReader::with_capacity(1 << 16, at))
                }
                (Place::Spilled { .. }, None) => {
                    return Err(io::Error::from(io::ErrorKind::NotFound).into());
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

/// A file from a place on.
struct At<'a> {
    file: &'a File,
    offset: u64,
}

impl Read for At<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.file.read_at(buffer, self.offset)?;
        self.offset += bytes as u64;
        Ok(bytes)
    }
}
