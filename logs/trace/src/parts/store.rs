//! Where parts wait: in memory as long as there is room, then in a file that has no name.
//!
//! Invariant: the file vanishes with the process, however that ends, because it was unlinked when
//! it was made.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use super::record::Decoder;

/// Encoded records of one part.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// How many.
    pub(crate) count: u32,
    /// Place in the log of the first.
    first_line: u64,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Memory(Vec<u8>),
    Spilled { offset: u64, bytes: u32 },
}

/// Takes chunks of all parts, from any thread.
#[derive(Debug)]
pub(crate) struct Store {
    folder: PathBuf,
    keep_bytes_max: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    chunks: Vec<Vec<Chunk>>,
    kept_bytes: u64,
    spilled_bytes: u64,
    file: Option<File>,
}

impl Store {
    /// An empty one for so many parts; what does not fit goes to a file in `folder`.
    pub(crate) fn new(parts: usize, keep_bytes_max: u64, folder: PathBuf) -> Self {
        let state = State {
            chunks: (0..parts).map(|_| Vec::new()).collect(),
            ..State::default()
        };
        Self {
            folder,
            keep_bytes_max,
            state: Mutex::new(state),
        }
    }

    /// Adds a chunk to a part.
    pub(crate) fn add(&self, part: usize, bytes: Vec<u8>, count: u32) -> io::Result<()> {
        let first_line = match Decoder::new(&bytes).next() {
            Ok(Some(first)) => first.request.line,
            _ => 0,
        };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let len = bytes.len() as u64;
        let place = if state.kept_bytes + len <= self.keep_bytes_max {
            state.kept_bytes += len;
            Place::Memory(bytes)
        } else {
            // Under the lock: threads that wait here would wait for the disk anyway.
            let offset = state.spilled_bytes;
            if state.file.is_none() {
                state.file = Some(tempfile::tempfile_in(&self.folder)?);
            }
            if let Some(file) = &state.file {
                file.write_all_at(&bytes, offset)?;
            }
            state.spilled_bytes += len;
            Place::Spilled {
                offset,
                bytes: len as u32,
            }
        };
        state.chunks[part].push(Chunk {
            count,
            first_line,
            place,
        });
        Ok(())
    }

    /// All chunks, by part. In a part they are nearly in order of the log, however many threads
    /// there were: so are requests of a session, which then need little sorting.
    pub(crate) fn finish(self) -> Chunks {
        let mut state = self
            .state
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        for chunks in &mut state.chunks {
            chunks.sort_by_key(|chunk| chunk.first_line);
        }
        Chunks {
            by_part: state.chunks,
            file: state.file,
            spilled_bytes: state.spilled_bytes,
        }
    }
}

/// Chunks that are complete.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    by_part: Vec<Vec<Chunk>>,
    file: Option<File>,
    pub(crate) spilled_bytes: u64,
}

impl Chunks {
    /// Number of parts.
    pub(crate) fn parts(&self) -> usize {
        self.by_part.len()
    }

    /// Records of a part.
    pub(crate) fn count(&self, part: usize) -> u64 {
        let chunks = self.by_part[part].iter();
        chunks.map(|chunk| u64::from(chunk.count)).sum()
    }

    /// Hands over the chunks of a part one by one.
    pub(crate) fn read<E: From<io::Error>>(
        &self,
        part: usize,
        buffer: &mut Vec<u8>,
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        for chunk in &self.by_part[part] {
            match (&chunk.place, &self.file) {
                (Place::Memory(bytes), _) => take(bytes)?,
                (Place::Spilled { offset, bytes }, Some(file)) => {
                    buffer.resize(*bytes as usize, 0);
                    file.read_exact_at(buffer, *offset)?;
                    take(buffer)?;
                }
                (Place::Spilled { .. }, None) => {
                    return Err(io::Error::from(io::ErrorKind::NotFound).into());
                }
            }
        }
        Ok(())
    }
}
