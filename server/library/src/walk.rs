//! Walks one root: all names and their `stat`, and the manifests.
//!
//! Adding, removing or renaming an entry changes the directory's own times, so a directory with
//! unchanged times has the same names, and its files need not be checked one by one. Manifests are
//! checked, since titles depend on them.

use std::collections::HashMap;
use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{Access, AtFlags, Dir, FileType, Stat, accessat, fstat, statat};
use rustix::io::Errno;

use crate::identity::{FileIdentity, is_regular, modified, nanoseconds, now_ns};
use crate::kind::is_manifest;
use crate::manifest::{Manifest, ManifestMemory, Manifests};
use crate::root::Root;
use crate::warning::Warning;

/// Deepest directory walked.
const DEPTH_MAX: usize = 64;
/// Most files of one root.
const FILES_MAX: usize = 10_000_000;

/// Counts of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct ScanCounts {
    /// Files that are served.
    pub files: u64,
    /// Names that are not UTF-8, which no URL can contain.
    pub not_utf8: u64,
    /// Names that begin with a dot.
    pub hidden: u64,
    /// Symbolic links.
    pub links: u64,
    /// FIFOs, sockets and devices.
    pub special: u64,
}

impl ScanCounts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.files += other.files;
        self.not_utf8 += other.not_utf8;
        self.hidden += other.hidden;
        self.links += other.links;
        self.special += other.special;
    }
}

/// Attributes of a directory that change with its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DirectoryTimes {
    dev: u64,
    ino: u64,
    mtime_ns: i128,
    ctime_ns: i128,
}

impl DirectoryTimes {
    pub(crate) fn of(directory: &impl AsFd) -> Result<Self, Errno> {
        let stat = fstat(directory)?;
        Ok(Self {
            dev: stat.st_dev,
            ino: stat.st_ino,
            mtime_ns: nanoseconds(stat.st_mtime, stat.st_mtime_nsec),
            ctime_ns: nanoseconds(stat.st_ctime, stat.st_ctime_nsec),
        })
    }
}

/// One directory at the time its names were read.
#[derive(Debug)]
pub(crate) struct Listing {
    times: DirectoryTimes,
    /// Whether any later change shows in its times.
    is_settled: bool,
    /// Files except manifests.
    pub(crate) files: Vec<Arc<str>>,
    manifests: Vec<Arc<str>>,
    /// Files, manifests among them, that this user may not read.
    pub(crate) unreadable: Vec<Arc<str>>,
    pub(crate) below: Vec<String>,
    counts: ScanCounts,
}

/// Directories by path.
pub(crate) type Listings = HashMap<String, Arc<Listing>>;

/// The content of one root.
#[derive(Debug, Default)]
pub(crate) struct RootScan {
    /// Files that were checked.
    pub(crate) files: Vec<(Arc<str>, FileIdentity)>,
    /// Directories whose files were not checked, because their names are unchanged; manifests were.
    pub(crate) unchanged: Vec<Arc<Listing>>,
    /// Files whose disk reports errors: their known entries are kept.
    pub(crate) unseen: Vec<Arc<str>>,
    /// All directories.
    pub(crate) listings: Listings,
    /// Whether names differ from before, or this is unknown.
    pub(crate) is_changed: bool,
    pub(crate) manifests: Manifests,
    pub(crate) memory: ManifestMemory,
    pub(crate) counts: ScanCounts,
    pub(crate) warnings: Vec<Warning>,
}

/// Results of earlier scans of a root, and how far they are trusted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PreviousScan<'a> {
    /// Manifests; known versions are not read again.
    pub(crate) manifests: &'a Manifests,
    /// Directories; unchanged ones are not listed again.
    pub(crate) listings: &'a Listings,
    /// Whether all are listed nevertheless.
    pub(crate) whole: bool,
    /// See [`crate::LibraryOptions::settle`].
    pub(crate) settle: Duration,
    /// See [`crate::LibraryOptions::settle_file`].
    pub(crate) settle_file: Duration,
}

/// The `stat` of an entry of a directory; links are not followed.
pub(crate) fn look_at(directory: BorrowedFd<'_>, name: &str) -> Result<Stat, Errno> {
    statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// Callbacks of a walk, on the walk's own thread.
pub(crate) struct WalkCallbacks<'a> {
    /// [`look_at`], except in tests.
    pub(crate) look_at: &'a dyn Fn(BorrowedFd<'_>, &str) -> Result<Stat, Errno>,
    /// Called after each disk access with its duration. The walk continues when it returns.
    pub(crate) rest: &'a mut dyn FnMut(Duration),
    /// Called when one more directory is complete with its manifests, but without its
    /// subdirectories.
    pub(crate) so_far: &'a mut dyn FnMut(&RootScan),
}

impl WalkCallbacks<'_> {
    /// Runs a disk access.
    fn access_disk<T>(&mut self, ask: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let answer = ask();
        (self.rest)(began.elapsed());
        answer
    }

    fn look_at(&mut self, directory: &impl AsFd, name: &str) -> Result<Stat, Errno> {
        let look_at = self.look_at;
        self.access_disk(|| look_at(directory.as_fd(), name))
    }
}

impl RootScan {
    /// Keeps a file that cannot be checked; warns once for each directory.
    fn keep_unchecked_file(
        &mut self,
        directory: &str,
        path: Arc<str>,
        errno: Errno,
        known: &Manifests,
    ) {
        if self
            .warnings
            .last()
            .is_none_or(|last| last.path != directory)
        {
            let reason = format!(
                "`{path}`, and maybe other files in this folder, cannot be checked ({errno}): the \
                 disk may be failing; known files are kept"
            );
            self.warnings.push(Warning::new(directory, reason));
        }
        match known.get(&path) {
            Some(manifest) => self.files.push((path, manifest.identity)),
            None => self.unseen.push(path),
        }
    }
}

/// Walks `root`.
pub(crate) fn walk(
    root: &Root,
    before: PreviousScan<'_>,
    along: &mut WalkCallbacks<'_>,
) -> RootScan {
    let mut scan = RootScan::default();
    let mut pending: Vec<(String, usize)> = vec![(String::new(), 0)];
    let mut file_count = 0;
    while let Some((directory, depth)) = pending.pop() {
        let looked_at = scan.files.len();
        let listing = match list(root, &directory, before, &mut scan, along) {
            Ok(listing) => listing,
            // It was removed or replaced since it was listed.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
                scan.is_changed = true;
                continue;
            }
            Err(errno) => {
                let known = before.listings.get(&directory);
                let kept = known.filter(|_| !is_denied(errno));
                let files = match kept {
                    Some(_) => "its known files are kept",
                    None => "its files are left out",
                };
                let reason = format!("it cannot be listed ({errno}); {files}");
                scan.warnings.push(Warning::new(&directory, reason));
                let Some(kept) = kept else {
                    scan.is_changed |= known.is_some();
                    continue;
                };
                // The disk is failing; its files are assumed to be unchanged.
                for path in &kept.manifests {
                    if let Some(manifest) = before.manifests.get(path) {
                        scan.files.push((Arc::clone(path), manifest.identity));
                    }
                }
                scan.unchanged.push(Arc::clone(kept));
                Arc::clone(kept)
            }
        };
        file_count += listing.files.len() + listing.manifests.len();
        scan.counts.add(&listing.counts);
        let below = listing.below.iter();
        match depth < DEPTH_MAX {
            true => pending.extend(below.map(|path| (path.clone(), depth + 1))),
            false => scan.warnings.extend(below.map(|path| too_deep(path))),
        }
        scan.listings.insert(directory, listing);
        scan.counts.files = file_count as u64;
        read_manifests(root, before.manifests, looked_at, &mut scan, along);
        (along.so_far)(&scan);
        if file_count > FILES_MAX {
            let reason = format!("more than {FILES_MAX} files; the others are found on request");
            scan.warnings.push(Warning::new("", reason));
            break;
        }
    }
    scan
}

/// Whether an error leaves the state unknown: a failing or removed disk, or lack of kernel memory.
fn says_nothing(errno: Errno) -> bool {
    !is_denied(errno) && !matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::LOOP)
}

/// Whether an error concerns permissions, not the disk.
fn is_denied(errno: Errno) -> bool {
    matches!(errno, Errno::ACCESS | Errno::PERM)
}

fn too_deep(path: &str) -> Warning {
    let reason = format!("it is more than {DEPTH_MAX} directories deep and is not listed");
    Warning::new(path, reason)
}

/// Reads the manifests among the files from the `first` on, unless they are known.
fn read_manifests(
    root: &Root,
    known: &Manifests,
    first: usize,
    scan: &mut RootScan,
    along: &mut WalkCallbacks<'_>,
) {
    for (path, identity) in &scan.files[first..] {
        if !is_manifest(path) {
            continue;
        }
        let files = scan.counts.files as usize;
        let known = known.get(path);
        let known = known.filter(|of| of.identity == *identity && !of.is_unread());
        let needs = known.map_or(0, |of| of.bytes());
        let manifest = match known {
            Some(known) if !known.is_too_much() => Arc::clone(known),
            _ if !scan.memory.has_room(needs, files) => {
                Arc::new(Manifest::too_much(*identity, needs))
            }
            _ => along.access_disk(|| Arc::new(Manifest::read(root, path, *identity))),
        };
        let needs = manifest.bytes();
        let manifest = match scan.memory.has_room(needs, files) {
            true => manifest,
            false => Arc::new(Manifest::too_much(*identity, needs)),
        };
        if !manifest.is_too_much() {
            scan.memory.take(needs);
        }
        scan.manifests.insert(Arc::clone(path), manifest);
    }
}

/// One directory: the known listing if it is unchanged, otherwise listed again with its files
/// checked.
fn list(
    root: &Root,
    directory: &str,
    before: PreviousScan<'_>,
    scan: &mut RootScan,
    along: &mut WalkCallbacks<'_>,
) -> Result<Arc<Listing>, Errno> {
    let fd = along.access_disk(|| root.open_directory(directory))?;
    let times = DirectoryTimes::of(&fd)?;
    let known = before.listings.get(directory);
    // A file that has become readable changes no time of its directory.
    let is_same = |known: &&Arc<Listing>| known.is_current(times) && known.is_still_unreadable(&fd);
    if let Some(known) = known.filter(is_same).filter(|_| !before.whole) {
        recheck(&fd, directory, &known.manifests, before, scan, along);
        let unreadable = known.unreadable.iter();
        scan.warnings
            .extend(unreadable.filter_map(|path| may_not_be_read(path)));
        scan.unchanged.push(Arc::clone(known));
        return Ok(Arc::clone(known));
    }
    let mut listing = Listing {
        times,
        is_settled: is_settled(times.ctime_ns, now_ns(), before.settle),
        files: Vec::new(),
        manifests: Vec::new(),
        unreadable: Vec::new(),
        below: Vec::new(),
        counts: ScanCounts::default(),
    };
    listing.fill(&fd, directory, before, scan, along)?;
    scan.is_changed |= before.whole || known.is_none_or(|known| !known.has_names_of(&listing));
    Ok(Arc::new(listing))
}

/// Whether a change at `now` or later shows in the ctime: clocks of file systems tick, some every
/// two seconds, and may be another machine's.
fn is_settled(ctime_ns: i128, now_ns: i128, settle: Duration) -> bool {
    now_ns - ctime_ns >= i128::try_from(settle.as_nanos()).unwrap_or(i128::MAX)
}

/// Checks the manifests in an unchanged directory: they may have been rewritten in place.
fn recheck(
    fd: &impl AsFd,
    directory: &str,
    manifests: &[Arc<str>],
    before: PreviousScan<'_>,
    scan: &mut RootScan,
    along: &mut WalkCallbacks<'_>,
) {
    for path in manifests {
        match along.look_at(fd, name_of(path)) {
            Ok(stat) if is_regular(&stat) => {
                let identity = FileIdentity::of(&stat).settling(before.settle_file);
                scan.files.push((Arc::clone(path), identity));
            }
            Err(errno) if says_nothing(errno) => {
                scan.keep_unchecked_file(directory, Arc::clone(path), errno, before.manifests);
            }
            _ => scan.is_changed = true,
        }
    }
}

impl Listing {
    fn has_names_of(&self, other: &Self) -> bool {
        (&self.files, &self.manifests, &self.below, &self.counts)
            == (&other.files, &other.manifests, &other.below, &other.counts)
    }

    /// Whether a directory that has these times now has the same names.
    pub(crate) fn is_current(&self, times: DirectoryTimes) -> bool {
        self.is_settled && self.times == times
    }

    fn is_still_unreadable(&self, fd: &impl AsFd) -> bool {
        let mut files = self.unreadable.iter();
        files.all(|path| lacks_access(fd, name_of(path), Access::READ_OK))
    }

    /// All its files.
    pub(crate) fn all_files(&self) -> impl Iterator<Item = &Arc<str>> {
        self.files.iter().chain(&self.manifests)
    }

    /// When its names last changed.
    pub(crate) fn modified(&self) -> SystemTime {
        modified(self.times.mtime_ns)
    }

    /// Adds the entries of a directory.
    ///
    /// They are looked up in the order of their inodes, not of the directory's hash: on a cold hard
    /// disk that is the difference between one sweep and a seek for each.
    fn fill(
        &mut self,
        fd: &impl AsFd,
        directory: &str,
        before: PreviousScan<'_>,
        scan: &mut RootScan,
        along: &mut WalkCallbacks<'_>,
    ) -> Result<(), Errno> {
        for (_, kind, name) in &along.access_disk(|| names(fd))? {
            let Ok(text) = name.to_str() else {
                self.counts.not_utf8 += 1;
                continue;
            };
            if text.starts_with('.') {
                self.counts.hidden += 1;
                continue;
            }
            let path = match directory {
                "" => text.to_string(),
                _ => format!("{directory}/{text}"),
            };
            match kind {
                FileType::Directory => self.below.push(path),
                FileType::RegularFile | FileType::Unknown => match along.look_at(fd, text) {
                    Ok(stat) => self.take_in(fd, &stat, path, before, scan),
                    Err(errno) if says_nothing(errno) => {
                        self.keep_unchecked_entry(directory, path, errno, before, scan);
                    }
                    // It may have been removed since it was listed.
                    Err(_) => {}
                },
                FileType::Symlink => self.counts.links += 1,
                _ => self.counts.special += 1,
            }
        }
        Ok(())
    }

    /// Adds an entry that is a file, or whose type the directory does not tell.
    fn take_in(
        &mut self,
        fd: &impl AsFd,
        stat: &Stat,
        path: String,
        before: PreviousScan<'_>,
        scan: &mut RootScan,
    ) {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => self.below.push(path),
            FileType::Symlink => self.counts.links += 1,
            _ if is_regular(stat) => {
                let path = self.name(path);
                if lacks_access(fd, name_of(&path), Access::READ_OK) {
                    scan.warnings.extend(may_not_be_read(&path));
                    self.unreadable.push(Arc::clone(&path));
                }
                let identity = FileIdentity::of(stat).settling(before.settle_file);
                scan.files.push((path, identity));
            }
            _ => self.counts.special += 1,
        }
    }

    /// Keeps an entry that cannot be checked. Until it can, the directory's times are not trusted.
    fn keep_unchecked_entry(
        &mut self,
        directory: &str,
        path: String,
        errno: Errno,
        before: PreviousScan<'_>,
        scan: &mut RootScan,
    ) {
        self.is_settled = false;
        if before.listings.contains_key(&path) {
            self.below.push(path);
            return;
        }
        let path = self.name(path);
        scan.keep_unchecked_file(directory, path, errno, before.manifests);
    }

    /// Adds the name of a file.
    fn name(&mut self, path: String) -> Arc<str> {
        let path: Arc<str> = Arc::from(path);
        let names = match is_manifest(&path) {
            true => &mut self.manifests,
            false => &mut self.files,
        };
        names.push(Arc::clone(&path));
        path
    }
}

/// The entries of a directory, in the order of inodes.
pub(crate) fn names(directory: &impl AsFd) -> Result<Vec<(u64, FileType, CString)>, Errno> {
    names_up_to(directory, usize::MAX).map(Option::unwrap_or_default)
}

/// As [`names`]; `None` if there are more than `names_max`.
pub(crate) fn names_up_to(
    directory: &impl AsFd,
    names_max: usize,
) -> Result<Option<Vec<(u64, FileType, CString)>>, Errno> {
    let mut entries = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        if entries.len() == names_max {
            return Ok(None);
        }
        entries.push((entry.ino(), entry.file_type(), name.to_owned()));
    }
    entries.sort_unstable_by_key(|(ino, _, _)| *ino);
    Ok(Some(entries))
}

/// Whether this user certainly lacks an access to an entry of a directory.
pub(crate) fn lacks_access(directory: &impl AsFd, name: &str, access: Access) -> bool {
    let asked = accessat(directory, name, access, AtFlags::EACCESS);
    matches!(asked, Err(Errno::ACCESS | Errno::PERM))
}

/// The last segment of a path.
pub(crate) fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// The warning about a file that may not be read; the scan of manifests has one of its own.
fn may_not_be_read(path: &str) -> Option<Warning> {
    let reason = "the server's user may not read it, so requests for it are answered with 403; \
                  give that user read permission";
    (!is_manifest(path)).then(|| Warning::new(path, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_is_trusted_a_clock_tick_after_its_change() {
        let second = 1_000_000_000;
        let settled =
            |ctime: i128| is_settled(ctime * second, 100 * second, Duration::from_secs(2));
        assert!(settled(98) && settled(-5));
        assert!(!settled(99) && !settled(100));
        // The clock of a remote server may be ahead.
        assert!(!settled(200));
    }
}
