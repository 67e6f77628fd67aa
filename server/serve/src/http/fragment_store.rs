//! Headers of fragmented files without an index, in the state folder for the next process: to read them
//! again would take a read of the disk for each fragment.
//!
//! There is one file for each path, replaced atomically, of one version of the file there. A file that
//! is damaged, or of another version, is ignored. Those that were used least recently are removed;
//! all together are no more than [`FILES_MAX`] and take no more than [`STORE_BYTES_MAX`].

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use headlong_package::TitleHeaders;
use headlong_telemetry::{LimitedKind, LimitedLog};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::whole_file::write_whole;

/// Most bytes of all files: those of some 500 films.
const STORE_BYTES_MAX: u64 = 256 << 20;
/// Most files: as many as have an index in memory.
const FILES_MAX: usize = 4096;
/// The version of a file, and the sum of its headers, at the end.
const SUMS_BYTES: usize = 16;
/// Largest file: that of the most heads, with a `moov` as large.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Fewer heads are read again as fast.
const FRAGMENTS_MIN: usize = 16;
/// Changes with the format.
const SEED: u64 = 1;

/// The folder; clones share it.
#[derive(Debug, Clone)]
pub(super) struct FragmentStore {
    folder: Arc<PathBuf>,
    /// Held by the only writer.
    writing: Arc<Mutex<()>>,
    log: Arc<LimitedLog>,
}

impl FragmentStore {
    /// In this state folder.
    pub(super) fn new(state: &Path) -> Self {
        Self {
            folder: Arc::new(state.join("fragments-1")),
            writing: Arc::default(),
            log: Arc::default(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder
            .join(format!("{:016x}", xxh3_64(name.as_bytes())))
    }

    /// Bytes of memory that reading the headers of a file takes; `None` if there are none. Blocks.
    pub(super) fn memory_bytes(&self, name: &str) -> Option<u64> {
        let stored = fs::metadata(self.path(name)).ok()?;
        // The file, and the headers.
        (stored.len() <= FILE_BYTES_MAX).then(|| 2 * stored.len())
    }

    /// The headers of this version of a file, if they are there. Blocks.
    pub(super) fn read(&self, name: &str, version: u64) -> Option<TitleHeaders> {
        let path = self.path(name);
        let file = File::open(&path).ok()?;
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        let (headers, sums) = bytes.split_at_checked(bytes.len().checked_sub(SUMS_BYTES)?)?;
        let is_right = *sums == sums_of(headers, version);
        let headers = is_right.then(|| TitleHeaders::from_bytes(headers))??;
        // By this, the least recently used one is known; a failure is harmless.
        if let Ok(file) = File::options().append(true).open(&path) {
            let _ = file.set_modified(SystemTime::now());
        }
        Some(headers)
    }

    /// The headers of a version of a file as they are stored; `None` if they are few or very long.
    pub(super) fn bytes(&self, version: u64, headers: &TitleHeaders) -> Option<Vec<u8>> {
        let bytes_max = FILE_BYTES_MAX - SUMS_BYTES as u64;
        let mut bytes = headers.to_bytes(FRAGMENTS_MIN, bytes_max)?;
        bytes.extend(sums_of(&bytes, version));
        Some(bytes)
    }

    /// Stores such headers; an error is logged. Blocks.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let stored = fs::create_dir_all(&*self.folder)
            .and_then(|()| write_whole(&self.path(name), bytes))
            .and_then(|()| self.trim());
        if let Err(error) = stored {
            let path = self.folder.display();
            self.log.write(LimitedKind::Package, |left_out| {
                tracing::warn!(
                    %path, %error, left_out,
                    "cannot keep headers of fragmented files; make the state folder writable"
                );
            });
        }
    }

    /// Removes the files that were used least recently.
    fn trim(&self) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&*self.folder)? {
            let entry = entry?;
            // Another process may have removed it: that of an upgrade.
            let Some(metadata) = unless_removed(entry.metadata())? else {
                continue;
            };
            files.push((metadata.modified()?, metadata.len(), entry.path()));
        }
        files.sort();
        let mut bytes: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        let mut count = files.len();
        for (_, of_file, path) in files {
            if bytes <= STORE_BYTES_MAX && count <= FILES_MAX {
                break;
            }
            unless_removed(fs::remove_file(path))?;
            bytes -= of_file;
            count -= 1;
        }
        Ok(())
    }
}

/// The outcome of a call for a file; `None` if it was removed.
fn unless_removed<T>(outcome: io::Result<T>) -> io::Result<Option<T>> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        outcome => outcome.map(Some),
    }
}

/// The version of the file, and a sum of its headers with that.
fn sums_of(headers: &[u8], version: u64) -> [u8; SUMS_BYTES] {
    let sum = xxh3_64_with_seed(headers, version ^ SEED);
    let both = (u128::from(version) << 64) | u128::from(sum);
    both.to_be_bytes()
}

#[cfg(test)]
mod tests {
    use headlong_package::{HeaderReader, ReadStep};

    use super::*;

    fn boxed(kind: &[u8; 4], body: &[u8]) -> Vec<u8> {
        let length = (body.len() as u32 + 8).to_be_bytes();
        [&length[..], &kind[..], body].concat()
    }

    /// The headers of a file with so many fragments.
    fn headers(fragments: usize) -> TitleHeaders {
        let moov = boxed(b"moov", &boxed(b"mvex", &[]));
        let file = [moov, boxed(b"moof", &[7; 100]).repeat(fragments)].concat();
        let mut reader = HeaderReader::without_index(file.len() as u64);
        match reader.step(0, &file) {
            Ok(ReadStep::Ready(headers)) => headers,
            other => panic!("{other:?}"),
        }
    }

    fn write(store: &FragmentStore, name: &str, version: u64, headers: &TitleHeaders) {
        if let Some(bytes) = store.bytes(version, headers) {
            store.write(name, &bytes);
        }
    }

    fn bytes(headers: &TitleHeaders) -> Option<Vec<u8>> {
        headers.to_bytes(0, u64::MAX)
    }

    #[test]
    fn headers_are_read_by_the_next_process_in_their_version() {
        let state = tempfile::tempdir().expect("a folder");
        let (store, many) = (FragmentStore::new(state.path()), headers(100));
        write(&store, "a.mp4", 7, &many);
        write(&store, "few.mp4", 7, &headers(2));
        let next = FragmentStore::new(state.path());
        let read = |name, version| next.read(name, version).as_ref().and_then(bytes);
        assert_eq!(read("a.mp4", 7), bytes(&many));
        assert!(
            next.memory_bytes("a.mp4")
                .is_some_and(|bytes| bytes > 20_000)
        );
        assert_eq!(read("a.mp4", 8), None);
        assert_eq!(read("b.mp4", 7), None);
        assert_eq!(read("few.mp4", 7), None);
        // A later version replaces it.
        write(&store, "a.mp4", 8, &headers(50));
        assert_eq!(read("a.mp4", 7), None);
        assert_eq!(read("a.mp4", 8), bytes(&headers(50)));
    }

    #[test]
    fn damaged_file_is_ignored() {
        let state = tempfile::tempdir().expect("a folder");
        let store = FragmentStore::new(state.path());
        write(&store, "a.mp4", 7, &headers(100));
        let path = store.path("a.mp4");
        let whole = fs::read(&path).expect("stored");
        for end in [0, 15, 16, 40, whole.len() - 1] {
            fs::write(&path, &whole[..end]).expect("written");
            assert!(store.read("a.mp4", 7).is_none(), "{end}");
        }
        for at in (0..whole.len()).step_by(499) {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&path, damaged).expect("written");
            assert!(store.read("a.mp4", 7).is_none(), "{at}");
        }
    }

    #[test]
    fn least_recently_used_files_are_removed() {
        let state = tempfile::tempdir().expect("a folder");
        let store = FragmentStore::new(state.path());
        write(&store, "old.mp4", 7, &headers(20));
        let old = File::options().append(true).open(store.path("old.mp4"));
        let dated = old.and_then(|file| file.set_modified(SystemTime::UNIX_EPOCH));
        dated.expect("set");
        // Without any data on the disk.
        let large = File::create(store.folder.join("large"));
        large
            .and_then(|file| file.set_len(STORE_BYTES_MAX - 1000))
            .expect("made");
        write(&store, "new.mp4", 7, &headers(20));
        assert!(store.read("old.mp4", 7).is_none());
        assert!(!store.folder.join("large").exists());
        assert!(store.read("new.mp4", 7).is_some());
    }

    #[test]
    fn number_of_files_is_bounded_and_removed_ones_are_no_error() {
        let state = tempfile::tempdir().expect("a folder");
        let store = FragmentStore::new(state.path());
        fs::create_dir(&*store.folder).expect("made");
        for number in 0..FILES_MAX + 2 {
            File::create(store.folder.join(number.to_string())).expect("made");
        }
        store.trim().expect("trimmed");
        let left = fs::read_dir(&*store.folder).expect("a folder").count();
        assert_eq!(left, FILES_MAX);
        let absent = fs::remove_file(store.folder.join("absent"));
        assert!(unless_removed(absent).is_ok_and(|outcome| outcome.is_none()));
    }
}
