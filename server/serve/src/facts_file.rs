//! The file in the state folder that keeps what the headers of media files said.
//!
//! New records are appended; a file that has damaged records, or more of those that were replaced than
//! others, is written anew as a whole. The library judges each record; see its `facts.rs`.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, TryLockError};

use headlong_library::{FACTS_MAX, FACTS_RECORD_BYTES, FactsRecalled, Library};

use crate::whole_file::write_whole;

/// No file grows longer: twice what is kept at most.
const FILE_BYTES_MAX: u64 = 2 * (FACTS_MAX * FACTS_RECORD_BYTES) as u64;

/// The file, and what is known of it.
#[derive(Debug)]
pub(crate) struct FactsFile {
    path: PathBuf,
    /// Held by the one who writes.
    written: Mutex<Written>,
}

#[derive(Debug, Default)]
struct Written {
    bytes: u64,
    /// The next write is of all that is known.
    is_to_be_rewritten: bool,
}

impl FactsFile {
    pub(crate) fn new(folder: &Path) -> Self {
        Self {
            path: folder.join("media-1.facts"),
            written: Mutex::default(),
        }
    }

    /// Tells the library what earlier processes learned. Blocks.
    pub(crate) fn read(&self, library: &Library) {
        let path = self.path.display();
        let mut bytes = Vec::new();
        let read = File::open(&self.path);
        match read.and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => {
                tracing::warn!(
                    %path, %error,
                    "cannot read what was learned of media files; it is learned again as they are \
                     played"
                );
                return;
            }
        }
        let FactsRecalled { records, damaged } = library.recall_facts(&bytes);
        if damaged > 0 {
            tracing::warn!(
                %path, damaged,
                "some of what was learned of media files is cut or damaged; it is ignored, and \
                 learned again as they are played"
            );
        }
        let known = library.all_facts().len() as u64;
        tracing::debug!(%path, records, "read what was learned of media files");
        if let Ok(mut written) = self.written.lock() {
            *written = Written {
                bytes: bytes.len() as u64,
                is_to_be_rewritten: damaged > 0 || bytes.len() as u64 > 2 * known,
            };
        }
    }

    /// Writes what the library has learned since the last time; an error is said, and changes
    /// nothing. Blocks, but never waits for another who writes.
    pub(crate) fn write(&self, library: &Library) {
        let mut written = match self.written.try_lock() {
            Ok(written) => written,
            Err(TryLockError::Poisoned(broken)) => broken.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let new = library.take_new_facts();
        if new.is_empty() && !written.is_to_be_rewritten {
            return;
        }
        let appended = written.bytes + new.len() as u64;
        let outcome = match written.is_to_be_rewritten || appended > FILE_BYTES_MAX {
            true => {
                let all = library.all_facts();
                write_whole(&self.path, &all).map(|()| all.len() as u64)
            }
            false => append(&self.path, &new).map(|()| appended),
        };
        match outcome {
            Ok(bytes) => {
                *written = Written {
                    bytes,
                    is_to_be_rewritten: false,
                };
            }
            Err(error) => {
                // Nobody knows what of it is there.
                written.is_to_be_rewritten = true;
                let path = self.path.display();
                tracing::warn!(
                    %path, %error,
                    "cannot write what was learned of media files; make the folder of state writable"
                );
            }
        }
    }
}

/// One call, so that of two processes each writes whole records. What a crash cuts is found by its
/// checksum.
fn append(path: &Path, records: &[u8]) -> io::Result<()> {
    let mut file = File::options().append(true).create(true).open(path)?;
    file.write_all(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An MP4 file of so many seconds, by its header.
    fn film(seconds: u8) -> Vec<u8> {
        let mut mvhd = [0, 0, 0, 108, b'm', b'v', b'h', b'd'].to_vec();
        mvhd.extend([0; 12]);
        mvhd.extend([0, 0, 0, 1, 0, 0, 0, seconds]);
        mvhd.resize(108, 0);
        [&[0, 0, 0, 116], &b"moov"[..], &mvhd].concat()
    }

    /// A library of files that were written long ago.
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
    fn what_was_learned_is_known_to_the_next_process() {
        let folder = tempfile::tempdir().expect("a folder");
        let (root, first) = library(&[("a.mp4", film(5)), ("b.mp4", film(6))]);
        let file = FactsFile::new(folder.path());
        file.read(&first);
        for (name, seconds) in [("a.mp4", 5), ("b.mp4", 6)] {
            watch(&first, name, &film(seconds));
            file.write(&first);
        }
        let next = again(&root);
        FactsFile::new(folder.path()).read(&next);
        assert_eq!(durations(&next), [Some(5.0), Some(6.0)]);
    }

    #[test]
    fn a_cut_file_is_mended_and_keeps_its_whole_records() {
        let folder = tempfile::tempdir().expect("a folder");
        let (root, first) = library(&[("a.mp4", film(5)), ("b.mp4", film(6))]);
        let file = FactsFile::new(folder.path());
        watch(&first, "a.mp4", &film(5));
        watch(&first, "b.mp4", &film(6));
        file.write(&first);
        let length = 2 * FACTS_RECORD_BYTES as u64;
        let cut = File::options().write(true).open(&file.path);
        let cut = cut.and_then(|file| file.set_len(length - 5));
        cut.expect("cut");

        let second = again(&root);
        let file = FactsFile::new(folder.path());
        file.read(&second);
        assert_eq!(durations(&second), [Some(5.0), None]);
        watch(&second, "b.mp4", &film(6));
        file.write(&second);
        assert_eq!(std::fs::metadata(&file.path).expect("there").len(), length);
        let third = again(&root);
        FactsFile::new(folder.path()).read(&third);
        assert_eq!(durations(&third), [Some(5.0), Some(6.0)]);
    }

    #[test]
    fn a_folder_that_cannot_be_written_costs_nothing_but_the_record() {
        let (root, first) = library(&[("a.mp4", film(5))]);
        let file = FactsFile::new(&root.path().join("no folder"));
        file.read(&first);
        watch(&first, "a.mp4", &film(5));
        file.write(&first);
        std::fs::create_dir(root.path().join("no folder")).expect("made");
        file.write(&first);
        let next = again(&root);
        file.read(&next);
        assert_eq!(durations(&next), [Some(5.0)], "the next write has all");
    }
}
