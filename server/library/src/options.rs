//! What may be set of a library.

use std::time::Duration;

/// What may be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LibraryOptions {
    /// How long what was found on disk is believed; zero asks the disk each time.
    pub revalidate: Duration,
    /// How long after its last change a directory is believed to show the next one: longer than a
    /// tick of its file system's clock.
    pub settle: Duration,
    /// How long after it was written a file may be written again under the same time.
    pub settle_file: Duration,
    /// How long opening a root may take; one that takes longer is opened when it answers.
    pub open_timeout: Duration,
    /// How long a first search goes on before what it found so far is taken in, and so on.
    pub show_after: Duration,
    /// So many of the roots, the last ones, are known for their devices only: nothing in them is ever
    /// found.
    pub unserved_roots: usize,
}

impl Default for LibraryOptions {
    fn default() -> Self {
        Self {
            revalidate: Duration::from_secs(1),
            // FAT's clock ticks every two seconds, the slowest of all.
            settle: Duration::from_secs(3),
            settle_file: Duration::from_secs(2),
            open_timeout: Duration::from_secs(5),
            show_after: Duration::from_secs(1),
            unserved_roots: 0,
        }
    }
}
