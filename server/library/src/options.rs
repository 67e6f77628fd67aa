//! Options of a library.

use std::time::Duration;

/// Options of a library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibraryOptions {
    /// How long the result of a check is used; zero checks the disk each time.
    pub revalidate: Duration,
    /// How long after its last change a directory's times are trusted to show the next one: longer
    /// than a tick of its file system's clock.
    pub settle: Duration,
    /// How long after a write a file may be written again with the same mtime.
    pub settle_file: Duration,
    /// How long opening a root may take; one that takes longer is opened when it responds.
    pub open_timeout: Duration,
    /// How often the intermediate results of a first scan are committed.
    pub show_after: Duration,
    /// The last `unserved_roots` roots are only used for their devices: no file in them has a path
    /// of its own.
    pub unserved_roots: usize,
    /// The last `link_targets` of the unserved roots: symbolic links of served roots may lead into
    /// them.
    pub link_targets: usize,
    /// Host names of this server: URLs of theirs in manifests are paths of the tree.
    pub server_names: Vec<String>,
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
            link_targets: 0,
            server_names: Vec::new(),
        }
    }
}
