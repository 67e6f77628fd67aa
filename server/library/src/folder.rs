//! The names in a directory, for listings that are sent to clients.
//!
//! A directory that has not changed since it was scanned is listed from the catalogue: two system
//! calls instead of one for each file. Any other is read. Only names that a request for them would
//! serve are returned as files or folders: no hidden name, no link, no special file.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::SystemTime;

use headlong_units::path_text;
use rustix::fs::{Access, FileType};
use rustix::io::Errno;

use crate::identity::{FileIdentity, is_regular};
use crate::state::{FILES_PER_LOCK, LibraryState};
use crate::walk::{
    DirectoryTimes, Listing, Listings, file_name, lacks_access, look_at, name_of, names_up_to,
};

/// Most names of a directory that is listed, which bounds the memory of a listing.
pub const FOLDER_NAMES_MAX: usize = 100_000;
/// Most names of a directory that is read for some of them: a request may wait for that.
const SEARCHED_NAMES_MAX: usize = 10_000;
/// Most names that are returned of a search.
const FOUND_NAMES_MAX: usize = 256;

/// Decides by its name whether an entry of a directory is wanted.
pub type NameFilter = dyn Fn(&str) -> bool + Send + Sync;

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderEntry {
    /// Its name, the text of one segment of a path.
    pub name: String,
    /// The file that a request for it would find.
    pub kind: FolderEntryKind,
    /// Modification time.
    pub mtime: SystemTime,
}

/// The file that a request for a name would find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FolderEntryKind {
    /// A directory.
    Folder,
    /// A file of this many bytes.
    File(u64),
    /// Something that is not served, and that hides entries of this name in later roots.
    Unserved,
}

/// The content of one root at the path of a directory.
#[derive(Debug)]
pub enum FolderContent {
    /// Its names, in no order.
    Names(Vec<FolderEntry>),
    /// It has more than [`FOLDER_NAMES_MAX`] names; if some are searched, it has changed since it was
    /// scanned and has more than 10,000.
    TooLarge,
    /// No directory has this path.
    Absent,
    /// The kernel refused or failed.
    Failed(io::Error),
    /// There was no response in time.
    NoAnswer,
}

impl LibraryState {
    /// The names in a directory of a root, or some of them; the empty path is the root. May block as
    /// long as its disk does.
    pub(crate) fn list_folder(
        &self,
        root: usize,
        path: &str,
        wanted: Option<&NameFilter>,
    ) -> FolderContent {
        if !self.is_served(root) {
            return FolderContent::Absent;
        }
        self.check_late(root);
        let at = &self.roots()[root];
        let fd = match at.open_directory(path) {
            Ok(fd) => fd,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG) => {
                return FolderContent::Absent;
            }
            // It may have the directory, once it is opened.
            Err(_) if !at.is_open() => return FolderContent::NoAnswer,
            Err(errno) => return FolderContent::Failed(errno.into()),
        };
        let listings = self.listings(root);
        let known = listings.get(path).filter(|known| {
            let now = DirectoryTimes::of(&fd);
            now.is_ok_and(|now| known.is_current(now))
        });
        match known {
            Some(known) => self.list_known((root, known), &listings, Some(&fd), wanted),
            None => {
                let read = read_names(&fd, wanted);
                read.unwrap_or_else(|errno| FolderContent::Failed(errno.into()))
            }
        }
    }

    /// The names in a directory as of the last scan. Accesses no disk.
    pub(crate) fn remember_folder(
        &self,
        root: usize,
        path: &str,
        wanted: Option<&NameFilter>,
    ) -> FolderContent {
        let listings = self.listings(root);
        match listings.get(path) {
            Some(known) => self.list_known((root, known), &listings, None::<&OwnedFd>, wanted),
            None if listings.is_empty() => FolderContent::NoAnswer,
            None => FolderContent::Absent,
        }
    }

    /// The names in a scanned directory. With the open directory, files that may change without
    /// notice are checked.
    fn list_known(
        &self,
        (root, known): (usize, &Listing),
        listings: &Listings,
        open: Option<&impl AsFd>,
        wanted: Option<&NameFilter>,
    ) -> FolderContent {
        let is_wanted = |path: &str| wanted.is_none_or(|wanted| wanted(name_of(path)));
        let files = known.all_files().filter(|path| is_wanted(path));
        let files: Vec<&Arc<str>> = files.take(returned_max(wanted)).collect();
        let below = known.below.iter().filter(|path| is_wanted(path));
        let below: Vec<&String> = below.take(returned_max(wanted)).collect();
        if files.len() + below.len() > FOLDER_NAMES_MAX {
            return FolderContent::TooLarge;
        }
        let mut entries = Vec::with_capacity(files.len() + below.len());
        for some in files.chunks(FILES_PER_LOCK) {
            let identities = self.read(|catalogue| {
                let entry = |path: &&Arc<str>| {
                    let entry = catalogue.files.get(*path)?;
                    (entry.root == root).then_some(entry.identity)
                };
                some.iter().map(entry).collect::<Vec<_>>()
            });
            for (path, identity) in some.iter().zip(identities) {
                let name = name_of(path);
                if known.unreadable.contains(*path) {
                    entries.push(unserved(name));
                    continue;
                }
                let is_sure = |identity: &FileIdentity| identity.is_settled || open.is_none();
                match (identity.filter(is_sure), open) {
                    (Some(identity), _) => entries.push(file(name, &identity)),
                    (None, Some(open)) => entries.extend(entry_of(open, name)),
                    (None, None) => {}
                }
            }
        }
        for path in below {
            let name = name_of(path);
            match (listings.get(path), open) {
                (Some(folder), _) => entries.push(FolderEntry {
                    name: name.to_owned(),
                    kind: FolderEntryKind::Folder,
                    mtime: folder.modified(),
                }),
                // It could not be scanned, or lies too deep.
                (None, Some(open)) => entries.extend(entry_of(open, name)),
                (None, None) => {}
            }
        }
        FolderContent::Names(entries)
    }
}

/// Most names that are returned; of a listing, one too many shows that it is too large.
fn returned_max(wanted: Option<&NameFilter>) -> usize {
    match wanted {
        None => FOLDER_NAMES_MAX + 1,
        Some(_) => FOUND_NAMES_MAX,
    }
}

/// Reads the names of an open directory.
fn read_names(directory: &impl AsFd, wanted: Option<&NameFilter>) -> Result<FolderContent, Errno> {
    let names_max = match wanted {
        None => FOLDER_NAMES_MAX,
        Some(_) => SEARCHED_NAMES_MAX,
    };
    let Some(names) = names_up_to(directory, names_max)? else {
        return Ok(FolderContent::TooLarge);
    };
    let names = names.iter().map(|(_, _, name)| path_text(name.to_bytes()));
    let is_wanted = |name: &str| wanted.is_none_or(|wanted| wanted(name));
    let shown = names.filter(|name| !name.starts_with('.') && is_wanted(name));
    let shown = shown.take(returned_max(wanted));
    let entries = shown.filter_map(|name| entry_of(directory, &name));
    Ok(FolderContent::Names(entries.collect()))
}

/// The entry of a name; `None` for a link, or if it was removed meanwhile.
fn entry_of(directory: &impl AsFd, name: &str) -> Option<FolderEntry> {
    let stat = look_at(directory.as_fd(), &file_name(name)).ok()?;
    let may = |access| !lacks_access(directory, name, access);
    let identity = FileIdentity::of(&stat);
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => return None,
        FileType::Directory if may(Access::READ_OK | Access::EXEC_OK) => FolderEntryKind::Folder,
        _ if is_regular(&stat) && may(Access::READ_OK) => return Some(file(name, &identity)),
        _ => return Some(unserved(name)),
    };
    Some(FolderEntry {
        name: name.to_owned(),
        kind,
        mtime: identity.modified(),
    })
}

fn file(name: &str, identity: &FileIdentity) -> FolderEntry {
    FolderEntry {
        name: name.to_owned(),
        kind: FolderEntryKind::File(identity.size),
        mtime: identity.modified(),
    }
}

fn unserved(name: &str) -> FolderEntry {
    FolderEntry {
        name: name.to_owned(),
        kind: FolderEntryKind::Unserved,
        mtime: SystemTime::UNIX_EPOCH,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::library::Library;
    use crate::options::LibraryOptions;

    fn library(root: &Path) -> Library {
        let options = LibraryOptions {
            settle: Duration::ZERO,
            settle_file: Duration::ZERO,
            ..LibraryOptions::default()
        };
        Library::open(&[root.to_path_buf()], options).expect("right")
    }

    fn listed(library: &Library, path: &str) -> Vec<(String, FolderEntryKind)> {
        let FolderContent::Names(mut entries) = library.list_folder(0, path, None) else {
            panic!("not listed");
        };
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let entries = entries.into_iter();
        entries.map(|entry| (entry.name, entry.kind)).collect()
    }

    #[test]
    fn folder_is_listed_equally_before_and_after_scan() {
        let root = tempfile::tempdir().expect("a folder");
        let at = |name: &str| root.path().join(name);
        fs::create_dir_all(at("shows/season 1")).expect("made");
        fs::create_dir(at("shows/.trash")).expect("made");
        for name in ["shows/a.mp4", "shows/index.m3u8", "shows/.hidden", "b.mkv"] {
            fs::write(at(name), "12345").expect("written");
        }
        symlink("a.mp4", at("shows/link.mp4")).expect("linked");
        let expected = [
            ("a.mp4".to_owned(), FolderEntryKind::File(5)),
            ("index.m3u8".to_owned(), FolderEntryKind::File(5)),
            ("season 1".to_owned(), FolderEntryKind::Folder),
        ];
        let library = library(root.path());
        assert_eq!(listed(&library, "shows"), expected);
        library.rescan();
        assert_eq!(listed(&library, "shows"), expected);
        // From the catalogue: a removed root does not matter.
        let FolderContent::Names(known) = library.remember_folder(0, "shows", None) else {
            panic!("not known");
        };
        assert_eq!(known.len(), 3);
        assert_eq!(listed(&library, "").len(), 2);
        for absent in ["shows/a.mp4", "shows/none", "shows/link.mp4"] {
            let content = library.list_folder(0, absent, None);
            assert!(matches!(content, FolderContent::Absent), "{absent}");
        }
    }

    #[test]
    fn search_returns_wanted_names_before_and_after_scan() {
        let root = tempfile::tempdir().expect("a folder");
        for name in ["film_1.mp4", "film_2.mp4", "film.vtt", "other.mp4"] {
            fs::write(root.path().join(name), "1").expect("written");
        }
        fs::create_dir(root.path().join("film_3.mp4")).expect("made");
        let library = library(root.path());
        let search = || {
            let is_wanted = |name: &str| name.starts_with("film_");
            let content = library.list_folder(0, "", Some(&is_wanted));
            let FolderContent::Names(names) = content else {
                panic!("not listed");
            };
            let mut names: Vec<String> = names.into_iter().map(|entry| entry.name).collect();
            names.sort();
            names
        };
        let expected = ["film_1.mp4", "film_2.mp4", "film_3.mp4"];
        assert_eq!(search(), expected);
        library.rescan();
        assert_eq!(search(), expected);
    }

    #[test]
    fn large_folder_is_searched_only_as_scanned() {
        let root = tempfile::tempdir().expect("a folder");
        for number in 0..=SEARCHED_NAMES_MAX {
            fs::write(root.path().join(format!("film_{number}.mp4")), "1").expect("written");
        }
        let library = library(root.path());
        let search = || library.list_folder(0, "", Some(&|name: &str| name.contains("film_77")));
        assert!(matches!(search(), FolderContent::TooLarge));
        library.rescan();
        let FolderContent::Names(names) = search() else {
            panic!("not listed");
        };
        assert_eq!(names.len(), 111);
        let all = library.list_folder(0, "", Some(&|_: &str| true));
        assert!(matches!(all, FolderContent::Names(some) if some.len() < 300));
    }

    #[test]
    fn change_of_folder_after_scan_is_listed() {
        let root = tempfile::tempdir().expect("a folder");
        fs::write(root.path().join("a.mp4"), "1").expect("written");
        let library = library(root.path());
        library.rescan();
        fs::write(root.path().join("b.mp4"), "22").expect("written");
        fs::remove_file(root.path().join("a.mp4")).expect("removed");
        let expected = [("b.mp4".to_owned(), FolderEntryKind::File(2))];
        assert_eq!(listed(&library, ""), expected);
    }
}
