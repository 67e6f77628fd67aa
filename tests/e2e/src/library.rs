//! Titles on a disk, each with content that can be verified at any offset.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use headlong_testkit::{Scratch, client::Viewer, pattern};

/// One file.
#[derive(Debug, Clone)]
pub struct Title {
    /// Number of its content pattern.
    pub number: u64,
    /// Its path on disk.
    pub path: PathBuf,
    /// Its request target.
    pub target: String,
    /// Its size.
    pub size_bytes: u64,
}

impl Title {
    /// Writes a title into a root.
    pub fn create(root: &Path, name: &str, number: u64, size_bytes: u64) -> io::Result<Self> {
        let path = root.join(name);
        pattern::write_file(&path, number, size_bytes)?;
        // Dated in the past: a file written a moment ago may change without a new modification
        // time.
        let long_ago = SystemTime::now() - Duration::from_secs(3600);
        File::options()
            .write(true)
            .open(&path)?
            .set_modified(long_ago)?;
        Ok(Self {
            number,
            path,
            target: format!("/{name}"),
            size_bytes,
        })
    }

    /// A viewer that reads the whole title without pacing.
    pub fn viewer(&self, address: std::net::SocketAddr) -> Viewer {
        Viewer::new(address, &self.target, self.number, self.size_bytes)
    }
}

/// A folder of titles under the directory for temporary files.
#[derive(Debug)]
pub struct Library {
    scratch: Scratch,
    /// The titles, `/title-N.bin`.
    pub titles: Vec<Title>,
}

impl Library {
    /// Creates `count` titles of `size_bytes` each.
    pub fn new(count: u64, size_bytes: u64) -> io::Result<Self> {
        let scratch = Scratch::new("library")?;
        let titles = fill_root(scratch.path(), count, size_bytes)?;
        Ok(Self { scratch, titles })
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        self.scratch.path()
    }
}

/// Creates `count` titles in a root.
pub fn fill_root(root: &Path, count: u64, size_bytes: u64) -> io::Result<Vec<Title>> {
    let name = |number| format!("title-{number}.bin");
    (0..count)
        .map(|number| Title::create(root, &name(number), number, size_bytes))
        .collect()
}
