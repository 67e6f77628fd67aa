//! Trees of files for the tests.
#![expect(
    unreachable_pub,
    reason = "shared by several test binaries as a module"
)]
#![allow(
    dead_code,
    clippy::allow_attributes,
    reason = "each test binary uses another part of it"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use headlong_library::{FileEntry, Library, LibraryOptions};

pub fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A directory that is removed with the value.
pub struct TempTree(pub tempfile::TempDir);

impl TempTree {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    pub fn path(&self) -> PathBuf {
        self.0.path().to_path_buf()
    }

    pub fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    pub fn write(&self, path: &str, contents: impl AsRef<[u8]>) -> &Self {
        let path = self.at(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(&path, contents).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        // With an old mtime, so that tests need not wait for it to settle.
        let file = fs::OpenOptions::new().write(true).open(&path);
        let long_ago = SystemTime::now() - Duration::from_secs(3600);
        let dated = file.and_then(|file| file.set_modified(long_ago));
        dated.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        self
    }

    /// Scans, and checks the disk on every resolve.
    pub fn scan(&self) -> Library {
        scan(&[self.path()])
    }
}

pub fn scan(roots: &[PathBuf]) -> Library {
    let options = LibraryOptions {
        revalidate: Duration::ZERO,
        ..LibraryOptions::default()
    };
    Library::scan_with(roots, options).expect("valid roots")
}

/// The paths of the stream of a file, and the file's index in it.
pub fn stream_of(library: &Library, path: &str) -> (Vec<String>, u32) {
    let entry = resolve(library, path);
    let parts = entry.stream.parts.iter();
    (
        parts.map(|part| part.path.to_string()).collect(),
        entry.part,
    )
}

pub fn resolve(library: &Library, path: &str) -> std::sync::Arc<FileEntry> {
    library
        .resolve(path)
        .unwrap_or_else(|error| panic!("{error}"))
}
