//! Spill storage: bytes are kept in memory up to a limit, then in an unnamed file.
//!
//! Invariant: the file disappears with the process, however that ends, because it is unlinked at
//! creation.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Where bytes are stored.
#[derive(Debug)]
pub(crate) enum StoredBytes {
    Memory(Vec<u8>),
    Spilled { offset: u64, bytes: u64 },
}

/// Stores bytes, from any thread.
#[derive(Debug)]
pub(crate) struct Spill {
    folder: PathBuf,
    keep_bytes_max: u64,
    state: Mutex<SpillState>,
}

#[derive(Debug, Default)]
struct SpillState {
    kept_bytes: u64,
    spilled_bytes: u64,
    file: Option<File>,
}

/// The spilled bytes, once all are stored.
#[derive(Debug, Default)]
pub(crate) struct SpilledBytes {
    /// Their number.
    pub(crate) bytes: u64,
    file: Option<File>,
}

impl Spill {
    /// Keeps that many bytes in memory; further ones go to a file in this folder.
    pub(crate) fn new(folder: PathBuf, keep_bytes_max: u64) -> Self {
        Self {
            folder,
            keep_bytes_max,
            state: Mutex::default(),
        }
    }

    /// Stores bytes.
    ///
    /// # Errors
    /// If the file cannot be created or written.
    pub(crate) fn put(&self, mut bytes: Vec<u8>) -> io::Result<StoredBytes> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let len = bytes.len() as u64;
        if state.kept_bytes + len <= self.keep_bytes_max {
            state.kept_bytes += len;
            bytes.shrink_to_fit();
            return Ok(StoredBytes::Memory(bytes));
        }
        // Under the lock: waiting threads would wait for the disk anyway.
        let offset = state.spilled_bytes;
        if state.file.is_none() {
            state.file = Some(tempfile::tempfile_in(&self.folder)?);
        }
        if let Some(file) = &state.file {
            file.write_all_at(&bytes, offset)?;
        }
        state.spilled_bytes += len;
        Ok(StoredBytes::Spilled { offset, bytes: len })
    }

    /// Ends storing.
    pub(crate) fn finish(self) -> SpilledBytes {
        let state = self.state.into_inner();
        let state = state.unwrap_or_else(PoisonError::into_inner);
        SpilledBytes {
            bytes: state.spilled_bytes,
            file: state.file,
        }
    }
}

impl SpilledBytes {
    /// The bytes of a file that holds them all.
    pub(crate) fn of_file(file: File, bytes: u64) -> Self {
        Self {
            bytes,
            file: Some(file),
        }
    }

    /// Reads spilled bytes at an offset.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match &self.file {
            Some(file) => file.read_at(buffer, offset),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// The bytes at a place; `buffer` is scratch space.
    ///
    /// # Errors
    /// If the file cannot be read, or ends early.
    pub(crate) fn bytes<'a>(
        &self,
        place: &'a StoredBytes,
        buffer: &'a mut Vec<u8>,
    ) -> io::Result<&'a [u8]> {
        match (place, &self.file) {
            (StoredBytes::Memory(bytes), _) => return Ok(bytes),
            (StoredBytes::Spilled { offset, bytes }, Some(file)) => {
                buffer.resize(*bytes as usize, 0);
                file.read_exact_at(buffer, *offset)?;
            }
            (StoredBytes::Spilled { .. }, None) => return Err(io::ErrorKind::NotFound.into()),
        }
        Ok(buffer)
    }
}
