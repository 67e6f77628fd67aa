//! The files in the state folder with records about media files: durations from their headers, and
//! their places on the disk.
//!
//! New records are appended. A file with damaged records, or in which most records are outdated, is
//! rewritten as a whole. The library validates each record; see its `version_table.rs`.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, TryLockError};

use headlong_library::{Library, RecordKind, RecordsLoaded};

use crate::whole_file::{MODE, write_whole};

/// The file, with the state of its content.
#[derive(Debug)]
pub(crate) struct RecordFile {
    kind: RecordKind,
    path: PathBuf,
    /// Locked by the writer.
    written: Mutex<RecordFileState>,
}

#[derive(Debug, Default)]
struct RecordFileState {
    bytes: u64,
    /// Whether the next write replaces the whole file.
    is_to_be_rewritten: bool,
}

impl RecordFile {
    pub(crate) fn new(folder: &Path, kind: RecordKind) -> Self {
        let name = match kind {
            RecordKind::Facts => "media-1.facts",
            RecordKind::Places => "media-1.places",
        };
        Self {
            kind,
            path: folder.join(name),
            written: Mutex::default(),
        }
    }

    /// Limit of the file: twice the size of the live records.
    fn bytes_max(&self) -> u64 {
        2 * self.kind.bytes_max() as u64
    }

    /// Loads the records of earlier processes into the library. Blocks.
    pub(crate) fn read(&self, library: &Library) {
        let path = self.path.display();
        let mut bytes = Vec::new();
        let read = File::open(&self.path);
        match read.and_then(|file| file.take(self.bytes_max()).read_to_end(&mut bytes)) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => {
                tracing::warn!(
                    %path, %error,
                    "cannot read records about media files; they are learned again as files are \
                     played"
                );
                return;
            }
        }
        let loaded = library.recall_records(self.kind, &bytes);
        let RecordsLoaded { records, damaged } = loaded;
        if damaged > 0 {
            tracing::warn!(
                %path, damaged,
                "some records about media files are truncated or damaged; they are ignored, and \
                 learned again as files are played"
            );
        }
        let known = library.all_records(self.kind).len() as u64;
        tracing::debug!(%path, records, "loaded records about media files");
        if let Ok(mut written) = self.written.lock() {
            *written = RecordFileState {
                bytes: bytes.len() as u64,
                is_to_be_rewritten: damaged > 0 || bytes.len() as u64 > 2 * known,
            };
        }
    }

    /// Writes the records learned since the last time; logs an error. Blocks, but never waits for
    /// another writer.
    pub(crate) fn write(&self, library: &Library) {
        let mut written = match self.written.try_lock() {
            Ok(written) => written,
            Err(TryLockError::Poisoned(broken)) => broken.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let new = library.take_new_records(self.kind);
        if new.is_empty() && !written.is_to_be_rewritten {
            return;
        }
        let appended = written.bytes + new.len() as u64;
        let outcome = match written.is_to_be_rewritten || appended > self.bytes_max() {
            true => {
                let all = library.all_records(self.kind);
                write_whole(&self.path, &all).map(|()| all.len() as u64)
            }
            false => append(&self.path, &new).map(|()| appended),
        };
        match outcome {
            Ok(bytes) => {
                *written = RecordFileState {
                    bytes,
                    is_to_be_rewritten: false,
                };
            }
            Err(error) => {
                // The content of the file is uncertain.
                written.is_to_be_rewritten = true;
                let path = self.path.display();
                tracing::warn!(
                    %path, %error,
                    "cannot write records about media files; make the state folder writable"
                );
            }
        }
    }
}

/// A single call, so that two processes append whole records. A record truncated by a crash is
/// detected by its checksum.
fn append(path: &Path, records: &[u8]) -> io::Result<()> {
    let mut file = File::options()
        .append(true)
        .create(true)
        .mode(MODE)
        .open(path)?;
    file.write_all(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An MP4 file with this duration in its header.
    fn film(seconds: u8) -> Vec<u8> {
        let mut mvhd = [0, 0, 0, 108, b'm', b'v', b'h', b'd'].to_vec();
        mvhd.extend([0; 12]);
        mvhd.extend([0, 0, 0, 1, 0, 0, 0, seconds]);
        mvhd.resize(108, 0);
        [&[0, 0, 0, 116], &b"moov"[..], &mvhd].concat()
    }

    /// A library of files with old modification times.
    fn library(files: &[(&str, Vec<u8>)]) -> (tempfile::TempDir, Library) {
        let root = tempfile::tempdir().expect("a folder");
        for (name, bytes) in files {
            std::fs::write(root.path().join(name), bytes).expect("written");
            let file = File::options().write(true).open(root.path().join(name));
            let dated = file.and_then(|file| file.set_modified(std::time::UNIX_EPOCH));
            dated.expect("set");
        }
        let library = again(&root);
        (root, library)
    }

    /// The library of the next process.
    fn again(root: &tempfile::TempDir) -> Library {
        Library::scan(&[root.path().to_path_buf()]).expect("a library")
    }

    fn watch(library: &Library, name: &str, bytes: &[u8]) {
        let entry = library.resolve(name).expect("it is there");
        entry.stream.learn(0, 0, bytes);
    }

    fn durations(library: &Library) -> Vec<Option<f64>> {
        let titles = library.titles().into_iter();
        titles.map(|title| title.duration_s).collect()
    }

    #[test]
    fn facts_are_loaded_by_the_next_process() {
        let folder = tempfile::tempdir().expect("a folder");
        let (root, first) = library(&[("a.mp4", film(5)), ("b.mp4", film(6))]);
        let file = RecordFile::new(folder.path(), RecordKind::Facts);
        file.read(&first);
        for (name, seconds) in [("a.mp4", 5), ("b.mp4", 6)] {
            watch(&first, name, &film(seconds));
            file.write(&first);
        }
        let next = again(&root);
        RecordFile::new(folder.path(), RecordKind::Facts).read(&next);
        assert_eq!(durations(&next), [Some(5.0), Some(6.0)]);
    }

    #[test]
    fn truncated_file_is_repaired_and_keeps_whole_records() {
        let folder = tempfile::tempdir().expect("a folder");
        let (root, first) = library(&[("a.mp4", film(5)), ("b.mp4", film(6))]);
        let file = RecordFile::new(folder.path(), RecordKind::Facts);
        watch(&first, "a.mp4", &film(5));
        watch(&first, "b.mp4", &film(6));
        file.write(&first);
        let length = 2 * 48;
        let cut = File::options().write(true).open(&file.path);
        let cut = cut.and_then(|file| file.set_len(length - 5));
        cut.expect("cut");

        let second = again(&root);
        let file = RecordFile::new(folder.path(), RecordKind::Facts);
        file.read(&second);
        assert_eq!(durations(&second), [Some(5.0), None]);
        watch(&second, "b.mp4", &film(6));
        file.write(&second);
        assert_eq!(std::fs::metadata(&file.path).expect("there").len(), length);
        let third = again(&root);
        RecordFile::new(folder.path(), RecordKind::Facts).read(&third);
        assert_eq!(durations(&third), [Some(5.0), Some(6.0)]);
    }

    #[test]
    fn failed_write_is_retried_with_all_facts() {
        let (root, first) = library(&[("a.mp4", film(5))]);
        let file = RecordFile::new(&root.path().join("no folder"), RecordKind::Facts);
        file.read(&first);
        watch(&first, "a.mp4", &film(5));
        file.write(&first);
        std::fs::create_dir(root.path().join("no folder")).expect("made");
        file.write(&first);
        let next = again(&root);
        file.read(&next);
        assert_eq!(
            durations(&next),
            [Some(5.0)],
            "the next write contains all facts"
        );
    }
}
