//! Look-ups: the content of one root at a path, and the combination of all roots.
//!
//! An error or timeout of one root does not affect the others. A file found in a responding root is
//! served; a failing root matters only if no other has the file.

use std::io;
use std::sync::Arc;

use headlong_media::PATH_BYTES_MAX;
use headlong_units::path_bytes;
use rustix::fs::{FileType, Stat};
use thiserror::Error;

use crate::catalogue::ScannedFile;
use crate::entry::FileEntry;
use crate::identity::{FileIdentity, is_regular};
use crate::root::LookupMiss;
use crate::state::LibraryState;

/// Why no file is found at a path.
#[derive(Debug, Error)]
pub enum ResolveError {
    /// No such name, a hidden name, or a link that is not followed.
    #[error("`{0}`: no such file")]
    NotFound(String),
    /// Not a path that could name a file: empty, with dot segments or NUL, or too long.
    #[error("`{0}` is not a path of a file beneath a root")]
    BadPath(String),
    /// It is a directory.
    #[error("`{0}` is a directory")]
    Directory(String),
    /// A directory with more names than are listed.
    #[error("`{0}` has more names than a listing shows; divide it into folders")]
    FolderTooLarge(String),
    /// A FIFO, a socket or a device; never opened.
    #[error("`{0}` is not a regular file")]
    NotRegular(String),
    /// The server's user may not read it, or not enter a folder above it.
    #[error("`{0}` may not be read by this user; change its mode or its owner")]
    Forbidden(String),
    /// No root has it, and one that might did not respond in time.
    #[error("`{0}`: its disk did not answer in time")]
    NoAnswer(String),
    /// The file system refused or failed.
    #[error("`{path}`: {source}")]
    Io {
        /// The path.
        path: String,
        /// The kernel's error.
        source: io::Error,
    },
}

/// The content of one root at a path.
#[derive(Debug)]
pub enum PathContent {
    /// A regular file.
    File(CheckedFile),
    /// A directory.
    Directory,
    /// A FIFO, a socket or a device.
    NotRegular,
    /// Nothing, or a link that is not followed.
    Absent,
    /// The kernel refused or failed.
    Failed(io::Error),
    /// There was no response in time.
    NoAnswer,
}

/// A file as it was checked.
#[derive(Debug)]
pub struct CheckedFile {
    /// Its own path, if it was found through a link.
    real: Option<String>,
    identity: FileIdentity,
    checked_ns: u64,
    is_readable: bool,
}

/// Whether a path can name a served file.
pub(crate) fn check_path(path: &str) -> Result<(), ResolveError> {
    // The slash in front of a site.
    let segments = path.strip_prefix('/').unwrap_or(path);
    let bad = |name: &str| ["", ".", ".."].contains(&name);
    let length = path_bytes(path).len();
    if length > PATH_BYTES_MAX || path.contains('\0') || segments.split('/').any(bad) {
        return Err(ResolveError::BadPath(path.to_string()));
    }
    match segments.split('/').any(|name| name.starts_with('.')) {
        true => Err(ResolveError::NotFound(path.to_string())),
        false => Ok(()),
    }
}

impl LibraryState {
    /// The content of a root at a path. May block as long as its disk does.
    pub(crate) fn lookup(&self, root: usize, path: &str) -> PathContent {
        if !self.is_served(root) {
            return PathContent::Absent;
        }
        self.check_late(root);
        let checked_ns = self.now_ns();
        let at = &self.roots()[root];
        match at.stat(path) {
            Ok(stat) => self.content_of(root, path, None, &stat, checked_ns),
            Err(LookupMiss::Absent) => PathContent::Absent,
            // It may have the file, once it is opened.
            Err(LookupMiss::Error(_)) if !at.is_open() => PathContent::NoAnswer,
            Err(LookupMiss::Error(error)) => PathContent::Failed(error),
            Err(LookupMiss::Link) => {
                let Some(real) = at.real_path(path) else {
                    return PathContent::Absent;
                };
                match at.stat(&real) {
                    Ok(stat) => self.content_of(root, path, Some(real), &stat, checked_ns),
                    Err(LookupMiss::Error(error)) => PathContent::Failed(error),
                    Err(LookupMiss::Absent | LookupMiss::Link) => PathContent::Absent,
                }
            }
        }
    }

    fn content_of(
        &self,
        root: usize,
        path: &str,
        real: Option<String>,
        stat: &Stat,
        checked_ns: u64,
    ) -> PathContent {
        if !is_regular(stat) {
            return match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => PathContent::Directory,
                _ => PathContent::NotRegular,
            };
        }
        // New devices are added here, where blocking is allowed.
        let at = real.as_deref().unwrap_or(path);
        self.maker.ground.place(root, at, stat.st_dev);
        PathContent::File(CheckedFile {
            is_readable: self.roots()[root].is_readable(at),
            identity: FileIdentity::of(stat).settling(self.options.settle_file),
            real,
            checked_ns,
        })
    }

    /// Combines the results of the roots, in their order. Accesses no disk.
    pub(crate) fn conclude(
        &self,
        path: &str,
        looks: impl IntoIterator<Item = (usize, PathContent)>,
    ) -> Result<Arc<FileEntry>, ResolveError> {
        let owned = || path.to_string();
        let mut trouble = None;
        for (root, look) in looks {
            match look {
                PathContent::File(seen) if seen.is_readable => {
                    let found = self.take_in(path, root, seen);
                    return found.ok_or_else(|| ResolveError::NotFound(owned()));
                }
                PathContent::File(_) => return Err(ResolveError::Forbidden(owned())),
                PathContent::Directory => {
                    self.forget(path);
                    return Err(ResolveError::Directory(owned()));
                }
                PathContent::NotRegular => {
                    self.forget(path);
                    return Err(ResolveError::NotRegular(owned()));
                }
                PathContent::Absent => {}
                PathContent::NoAnswer => {
                    trouble.get_or_insert_with(|| ResolveError::NoAnswer(owned()));
                }
                PathContent::Failed(source) => {
                    trouble.get_or_insert_with(|| match source.kind() {
                        io::ErrorKind::PermissionDenied => ResolveError::Forbidden(owned()),
                        _ => ResolveError::Io {
                            path: owned(),
                            source,
                        },
                    });
                }
            }
        }
        if let Some(trouble) = trouble {
            return Err(trouble);
        }
        self.forget(path);
        Err(ResolveError::NotFound(owned()))
    }

    fn take_in(&self, path: &str, root: usize, seen: CheckedFile) -> Option<Arc<FileEntry>> {
        let located = ScannedFile {
            root,
            identity: seen.identity,
            checked_ns: seen.checked_ns,
        };
        let Some(real) = seen.real else {
            return self.admit(path, located);
        };
        self.forget(path);
        // Another root's file of that name is not the link's target.
        let is_other = self.cached(&real).is_some_and(|entry| entry.root != root);
        self.admit(&real, located).filter(|_| !is_other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::Library;
    use rustix::io::Errno;

    fn library() -> (Library, [tempfile::TempDir; 2]) {
        let roots = [0, 1].map(|_| tempfile::tempdir().expect("a folder"));
        std::fs::create_dir(roots[1].path().join("s")).expect("made");
        std::fs::write(roots[1].path().join("s/x.mp4"), "x").expect("written");
        let paths = roots.each_ref().map(|root| root.path().to_path_buf());
        (Library::scan(&paths).expect("the roots are fine"), roots)
    }

    fn failed(errno: Errno) -> PathContent {
        PathContent::Failed(errno.into())
    }

    #[test]
    fn file_in_responding_root_is_found_despite_other_errors() {
        let (library, _roots) = library();
        for ill in [
            failed(Errno::IO),
            failed(Errno::ACCESS),
            PathContent::NoAnswer,
        ] {
            let healthy = library.lookup(1, "s/x.mp4");
            let found = library.conclude("s/x.mp4", [(0, ill), (1, healthy)]);
            assert_eq!(found.expect("the file exists").root, 1);
        }
    }

    #[test]
    fn path_is_missing_only_if_all_roots_responded() {
        let (library, _roots) = library();
        let ask = |first| library.conclude("y.mp4", [(0, first), (1, PathContent::Absent)]);
        assert!(matches!(
            ask(PathContent::Absent),
            Err(ResolveError::NotFound(_))
        ));
        assert!(matches!(
            ask(PathContent::NoAnswer),
            Err(ResolveError::NoAnswer(_))
        ));
        assert!(matches!(
            ask(failed(Errno::IO)),
            Err(ResolveError::Io { .. })
        ));
        let forbidden = ask(failed(Errno::ACCESS));
        assert!(matches!(forbidden, Err(ResolveError::Forbidden(_))));
    }

    #[test]
    fn known_file_is_kept_while_its_disk_does_not_respond() {
        let (library, _roots) = library();
        for ill in [failed(Errno::IO), PathContent::NoAnswer] {
            assert!(library.conclude("s/x.mp4", [(1, ill)]).is_err());
            assert!(library.remember("s/x.mp4").is_some());
        }
        assert!(
            library
                .conclude("s/x.mp4", [(1, PathContent::Absent)])
                .is_err()
        );
        assert!(library.remember("s/x.mp4").is_none());
    }

    #[test]
    fn unreadable_file_is_forbidden() {
        let (library, _roots) = library();
        let PathContent::File(seen) = library.lookup(1, "s/x.mp4") else {
            panic!("not a file");
        };
        let unreadable = PathContent::File(CheckedFile {
            is_readable: false,
            ..seen
        });
        let answer = library.conclude("s/x.mp4", [(1, unreadable)]);
        assert!(matches!(answer, Err(ResolveError::Forbidden(_))));
    }
}
