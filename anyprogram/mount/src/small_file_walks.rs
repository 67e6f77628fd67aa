//! Small files: read through the kernel's page cache, with readahead of the following files.
//!
//! The engine reads ahead within a file, but a small file is read by one call. For a program that
//! waits for several small files, the next files are read in one sweep ([`headlong_walk`]), and its
//! reads find them in memory.

use std::collections::HashMap;
use std::fs::File;
use std::io::IoSliceMut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use headlong_walk::{SweepResult, Walker};
use rustix::io::{ReadWriteFlags, preadv2};

/// Programs whose files are counted; beyond them all counts restart.
const PROGRAMS_MAX: usize = 1024;

/// Programs that wait for a sweep at a time; further ones read directly and occupy no thread
/// meanwhile.
const WAITING_MAX: u32 = 8;

/// The sweeps of one disk, one at a time.
#[derive(Debug)]
pub(crate) struct SmallFileWalks {
    /// `None` if readahead of small files is off.
    walker: Option<Mutex<Walker>>,
    waiting: AtomicU32,
    /// Small files that each program found in memory since it last waited for one.
    found: Mutex<HashMap<u64, u32>>,
    swept: Mutex<(u64, SweepResult)>,
}

impl SmallFileWalks {
    pub(crate) fn new(walker: Option<Walker>) -> Self {
        Self {
            walker: walker.map(Mutex::new),
            waiting: AtomicU32::new(0),
            found: Mutex::default(),
            swept: Mutex::default(),
        }
    }

    /// A program started to read a file that is in memory.
    pub(crate) fn note_cached_file(&self, program: u64) {
        if self.walker.is_none() {
            return;
        }
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if found.len() >= PROGRAMS_MAX && !found.contains_key(&program) {
            found.clear();
        }
        let count = found.entry(program).or_insert(0);
        *count = count.saturating_add(1);
    }

    /// A program starts to read a file that is not in memory: the file and the following ones are
    /// read, if it is small. Blocks on the disk.
    pub(crate) fn waits(&self, program: u64, file: &File) {
        let Some(walker) = &self.walker else {
            return;
        };
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let count = found.remove(&program).unwrap_or(0);
        drop(found);
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let now = (before < WAITING_MAX).then(|| {
            let mut walker = walker.lock().unwrap_or_else(PoisonError::into_inner);
            walker.waited(program, file, count)
        });
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        let now = now.unwrap_or_default();
        let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        swept.0 += u64::from(now.files > 0);
        swept.1.files = swept.1.files.saturating_add(now.files);
        swept.1.bytes += now.bytes;
    }

    /// Number of sweeps, and what they read.
    pub(crate) fn swept(&self) -> (u64, SweepResult) {
        *self.swept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads without waiting; `None` unless the whole requested range is in memory.
pub(crate) fn read_now(file: &File, offset: u64, size: u32, file_bytes: u64) -> Option<Vec<u8>> {
    let wanted = u64::from(size).min(file_bytes.checked_sub(offset)?);
    let mut bytes = vec![0; usize::try_from(wanted).ok().filter(|wanted| *wanted > 0)?];
    let mut vector = [IoSliceMut::new(&mut bytes)];
    let count = preadv2(file, &mut vector, offset, ReadWriteFlags::NOWAIT).ok()?;
    // A truncated file is read by a call that may wait.
    (count == bytes.len()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_bytes_are_read_without_waiting() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        std::fs::write(&path, "0123456789").expect("written");
        let file = File::open(&path).expect("there");
        // Some file systems do not support reads without waiting.
        if let Some(bytes) = read_now(&file, 4, 100, 10) {
            assert_eq!(bytes, b"456789");
        }
        assert_eq!(read_now(&file, 0, 100, 50), None, "the file is shorter");
    }
}
