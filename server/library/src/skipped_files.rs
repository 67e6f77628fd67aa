//! Files that a scan did not check, and that are kept.
//!
//! An unchanged directory has the same files as before. Other files were found on request: in
//! folders that may be entered but not listed, below the depth limit, or hidden but linked. They
//! are kept, with their content in memory, as long as they are unchanged.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::Stat;

use crate::catalogue::{Catalogue, ScannedFile};
use crate::entry::FileEntry;
use crate::identity::{FileIdentity, is_regular};
use crate::root::LookupMiss;
use crate::state::{FILES_PER_LOCK, LibraryState};
use crate::walk::Listings;

/// Further ones are found again on request.
const UNLISTED_MAX: usize = 65_536;

impl LibraryState {
    /// Files of unchanged directories: as known, or as found on disk if unknown.
    pub(crate) fn unchanged(
        &self,
        root: usize,
        files: &[Arc<str>],
        now_ns: u64,
    ) -> Vec<(Arc<str>, ScannedFile)> {
        // Another root's file of the same name may have hidden it, and may have been removed. If
        // its disk reports an error, no state is lost: it was not known.
        let look = |path: &str| {
            Some(ScannedFile {
                root,
                identity: self.identity_now(root, path).ok()??,
                checked_ns: now_ns,
            })
        };
        let files = self.as_known(root, files).into_iter();
        let located = files.filter_map(|(path, known)| {
            let located = known.or_else(|| look(&path))?;
            Some((path, located))
        });
        located.collect()
    }

    /// Files whose disk reports errors: as known.
    pub(crate) fn unseen(&self, root: usize, files: &[Arc<str>]) -> Vec<(Arc<str>, ScannedFile)> {
        let files = self.as_known(root, files).into_iter();
        let known = files.filter_map(|(path, known)| Some((path, known?)));
        known.collect()
    }

    fn as_known(&self, root: usize, files: &[Arc<str>]) -> Vec<(Arc<str>, Option<ScannedFile>)> {
        let known = |catalogue: &Catalogue, path: &Arc<str>| {
            let entry = catalogue.files.get(path);
            let entry = entry.filter(|entry| entry.root == root);
            (Arc::clone(path), entry.map(|entry| located(entry)))
        };
        let mut located = Vec::with_capacity(files.len());
        for some in files.chunks(FILES_PER_LOCK) {
            located.extend(self.read(|catalogue| {
                let some = some.iter().map(|path| known(catalogue, path));
                some.collect::<Vec<_>>()
            }));
        }
        located
    }

    /// The files of a root that the catalogue has in no folder of `listings`. Accesses the disk.
    pub(crate) fn unlisted(
        &self,
        root: usize,
        listings: &Listings,
        now_ns: u64,
    ) -> Vec<(Arc<str>, ScannedFile)> {
        let folder = |path: &str| path.rsplit_once('/').map_or(0, |(folder, _)| folder.len());
        let known = self.read(|catalogue| {
            let files = catalogue.files.iter();
            let unlisted = files.filter(|(path, entry)| {
                entry.root == root && !listings.contains_key(&path[..folder(path)])
            });
            let unlisted = unlisted.take(UNLISTED_MAX);
            let unlisted = unlisted.map(|(path, entry)| (Arc::clone(path), located(entry)));
            unlisted.collect::<Vec<_>>()
        });
        let stays = |(path, known): (Arc<str>, ScannedFile)| {
            let now = self.identity_now(root, &path);
            Some((path, known.if_still(now, now_ns)?))
        };
        known.into_iter().filter_map(stays).collect()
    }

    fn identity_now(&self, root: usize, path: &str) -> io::Result<Option<FileIdentity>> {
        identity_of(self.roots()[root].stat(path), self.options.settle_file)
    }
}

fn located(entry: &FileEntry) -> ScannedFile {
    ScannedFile {
        root: entry.root,
        identity: entry.identity,
        checked_ns: entry.checked_ns(),
    }
}

impl ScannedFile {
    /// The kept entry of a file, given the present state at its path: all of it if that is the same,
    /// or unknown.
    fn if_still(self, now: io::Result<Option<FileIdentity>>, now_ns: u64) -> Option<Self> {
        match now {
            Ok(now) if now != Some(self.identity) => None,
            Ok(_) => Some(Self {
                checked_ns: now_ns,
                ..self
            }),
            Err(_) => Some(self),
        }
    }
}

/// The file at a path; `None` if it was removed or is not accessible to this user.
///
/// # Errors
/// If the disk reports an error.
fn identity_of(
    stat: Result<Stat, LookupMiss>,
    settle_file: Duration,
) -> io::Result<Option<FileIdentity>> {
    match stat {
        Ok(stat) if is_regular(&stat) => Ok(Some(FileIdentity::of(&stat).settling(settle_file))),
        Err(LookupMiss::Error(error)) if error.kind() != io::ErrorKind::PermissionDenied => {
            Err(error)
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn changed_file_is_dropped_and_kept_on_disk_error() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let stat = || rustix::fs::fstat(file.as_file()).expect("open");
        let identity = FileIdentity::of(&stat());
        let known = ScannedFile {
            root: 0,
            identity,
            checked_ns: 1,
        };
        let checked_ns = |known: ScannedFile, stat: Result<Stat, LookupMiss>| {
            let now = identity_of(stat, Duration::ZERO);
            known.if_still(now, 2).map(|still| still.checked_ns)
        };
        let failed = |errno: Errno| Err(LookupMiss::Error(errno.into()));
        assert_eq!(checked_ns(known, Ok(stat())), Some(2));
        for errno in [Errno::IO, Errno::NOMEM, Errno::STALE, Errno::MFILE] {
            assert_eq!(checked_ns(known, failed(errno)), Some(1), "{errno}");
        }
        let gone = [
            Err(LookupMiss::Absent),
            Err(LookupMiss::Link),
            failed(Errno::ACCESS),
        ];
        for gone in gone {
            assert_eq!(checked_ns(known, gone), None);
        }
        let other = ScannedFile {
            identity: FileIdentity {
                size: identity.size + 1,
                ..identity
            },
            ..known
        };
        assert_eq!(checked_ns(other, Ok(stat())), None);
    }
}
