//! What can go wrong when places are looked at.

use std::io;
use std::path::PathBuf;

/// Why there is no layout.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// A folder or a file that cannot be looked at.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No files.
    #[error("{}: no files below it; name a folder that holds titles", .0.display())]
    Empty(PathBuf),
    /// A file system that keeps the places of files to itself.
    #[error(
        "{}: this file system does not say where its files lie (memory and network file systems do \
         not); ext4, xfs and btrfs do", .0.display()
    )]
    NoPositions(PathBuf),
    /// Nothing to lay side by side.
    #[error(
        "no title of {} is in {}; titles are matched by their paths below the two folders, without \
         endings", .0.display(), .1.display()
    )]
    NothingInCommon(PathBuf, PathBuf),
}

impl LayoutError {
    /// Whether the arguments are at fault, and not the machine.
    pub fn is_mistake(&self) -> bool {
        match self {
            Self::Unreadable { source, .. } => matches!(
                source.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ),
            _ => true,
        }
    }
}
