//! Walks one root: all names and their `stat`, and the manifests.
//!
//! Adding, removing or renaming an entry changes the directory's own times, so a directory with
//! unchanged times has the same names, and its files need not be checked one by one. Manifests are
//! checked, since titles depend on them.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use headlong_units::{path_bytes, path_text};
use rustix::fs::{Access, AtFlags, Dir, FileType, Stat, accessat, fstat, readlinkat, statat};
use rustix::io::Errno;

use crate::identity::{FileIdentity, is_regular, modified, nanoseconds, now_ns};
use crate::kind::is_manifest;
use crate::manifest::{Manifest, ManifestMemory, Manifests};
use crate::mounted_root::MountedRoot;
use crate::options::LibraryOptions;
use crate::os_path::os_path;
use crate::root::{LookupMiss, Root, open_roots};
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
    /// Names that begin with a dot.
    pub hidden: u64,
    /// Symbolic links.
    pub links: u64,
    /// Of these, links out of their root that are not followed.
    pub links_out: u64,
    /// FIFOs, sockets and devices.
    pub special: u64,
}

impl ScanCounts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.files += other.files;
        self.hidden += other.hidden;
        self.links += other.links;
        self.links_out += other.links_out;
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
    /// Links that are not followed, with their targets.
    links_out: Vec<LinkOut>,
    counts: ScanCounts,
}

/// A link out of its root.
#[derive(Debug, PartialEq, Eq)]
struct LinkOut {
    path: String,
    target: PathBuf,
}

impl LinkOut {
    fn warning(&self) -> Warning {
        let target = self.target.display();
        let reason = format!(
            "it is a link to `{target}`, outside of its root, and is not served; add that folder \
             to link_targets to serve it"
        );
        Warning::new(&self.path, reason)
    }
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
    /// Device and inode of each directory, if links are followed.
    pub(crate) visited: HashSet<(u64, u64)>,
}

/// Results of earlier scans of a root, and how far they are trusted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PreviousScan<'a> {
    /// The root.
    pub(crate) root: &'a Root,
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
    /// See [`crate::LibraryOptions::server_names`].
    pub(crate) own_hosts: &'a [String],
}

/// The `stat` of an entry of a directory; links are not followed.
pub(crate) fn look_at(directory: BorrowedFd<'_>, name: &CStr) -> Result<Stat, Errno> {
    statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// Callbacks of a walk, on the walk's own thread.
pub(crate) struct WalkCallbacks<'a> {
    /// [`look_at`], except in tests.
    pub(crate) look_at: &'a dyn Fn(BorrowedFd<'_>, &CStr) -> Result<Stat, Errno>,
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

    fn look_at(&mut self, directory: &impl AsFd, name: &CStr) -> Result<Stat, Errno> {
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

/// Walks a root.
pub(crate) fn walk(before: PreviousScan<'_>, along: &mut WalkCallbacks<'_>) -> RootScan {
    let root = before.root;
    let mut scan = RootScan::default();
    let mut pending: Vec<(String, usize)> = vec![(root.place_in_tree.folder().to_owned(), 0)];
    let mut file_count = 0;
    while let Some((directory, depth)) = pending.pop() {
        let looked_at = scan.files.len();
        let listing = match list(&directory, before, &mut scan, along) {
            Ok(Some(listing)) => listing,
            Ok(None) => continue,
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
        scan.warnings
            .extend(listing.links_out.iter().map(LinkOut::warning));
        let below = listing.below.iter();
        let below = below.filter(|path| !root.place_in_tree.is_covered(path));
        match depth < DEPTH_MAX {
            true => pending.extend(below.map(|path| (path.clone(), depth + 1))),
            false => scan.warnings.extend(below.map(|path| too_deep(path))),
        }
        scan.listings.insert(directory, listing);
        scan.counts.files = file_count as u64;
        read_manifests(root, before, looked_at, &mut scan, along);
        (along.so_far)(&scan);
        if file_count > FILES_MAX {
            let reason = format!("more than {FILES_MAX} files; the others are found on request");
            scan.warnings.push(Warning::new("", reason));
            break;
        }
    }
    scan
}

/// Warnings about links in the roots themselves, not in folders below them, that are not followed.
/// The last `link_targets` of the roots are targets of links. Blocks as long as the disks do.
pub fn links_out(roots: &[PathBuf], link_targets: usize) -> Vec<Warning> {
    let timeout = LibraryOptions::default().open_timeout;
    let roots: Vec<_> = roots.iter().map(|root| MountedRoot::at("", root)).collect();
    let opened = open_roots(&roots, link_targets, timeout).unwrap_or_default();
    let mut warnings = Vec::new();
    for root in opened.iter().filter(|root| !root.is_link_target) {
        let before = PreviousScan {
            root,
            manifests: &Manifests::new(),
            listings: &Listings::new(),
            whole: true,
            settle: Duration::ZERO,
            settle_file: Duration::ZERO,
            own_hosts: &[],
        };
        let mut along = WalkCallbacks {
            look_at: &look_at,
            rest: &mut |_| (),
            so_far: &mut |_| (),
        };
        let listing = list("", before, &mut RootScan::default(), &mut along);
        let links = listing.ok().flatten();
        let links = links.iter().flat_map(|listing| &listing.links_out);
        warnings.extend(links.map(|link| {
            let path = root.path.join(os_path(&link.path));
            Warning {
                path: path.display().to_string(),
                ..link.warning()
            }
        }));
    }
    warnings
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
    before: PreviousScan<'_>,
    first: usize,
    scan: &mut RootScan,
    along: &mut WalkCallbacks<'_>,
) {
    for (path, identity) in &scan.files[first..] {
        if !is_manifest(path) {
            continue;
        }
        let files = scan.counts.files as usize;
        let known = before.manifests.get(path);
        let known = known.filter(|of| of.identity == *identity && !of.is_unread());
        let needs = known.map_or(0, |of| of.bytes());
        let manifest = match known {
            Some(known) if !known.is_too_much() => Arc::clone(known),
            _ if !scan.memory.has_room(needs, files) => {
                Arc::new(Manifest::too_much(*identity, needs))
            }
            _ => along.access_disk(|| {
                let read = Manifest::read(root, path, *identity, before.own_hosts);
                Arc::new(read)
            }),
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
/// checked. `None` if the scan has been there: links may lead to a directory again and again.
fn list(
    directory: &str,
    before: PreviousScan<'_>,
    scan: &mut RootScan,
    along: &mut WalkCallbacks<'_>,
) -> Result<Option<Arc<Listing>>, Errno> {
    let fd = along.access_disk(|| before.root.open_directory(directory))?;
    let times = DirectoryTimes::of(&fd)?;
    if before.root.follows_links() && !scan.visited.insert((times.dev, times.ino)) {
        return Ok(None);
    }
    let known = before.listings.get(directory);
    // A file that has become readable changes no time of its directory.
    let is_same = |known: &&Arc<Listing>| known.is_current(times) && known.is_still_unreadable(&fd);
    if let Some(known) = known.filter(is_same).filter(|_| !before.whole) {
        recheck(&fd, directory, &known.manifests, before, scan, along);
        let unreadable = known.unreadable.iter();
        scan.warnings
            .extend(unreadable.filter_map(|path| may_not_be_read(path)));
        scan.unchanged.push(Arc::clone(known));
        return Ok(Some(Arc::clone(known)));
    }
    let mut listing = Listing {
        times,
        is_settled: is_settled(times.ctime_ns, now_ns(), before.settle),
        files: Vec::new(),
        manifests: Vec::new(),
        unreadable: Vec::new(),
        below: Vec::new(),
        links_out: Vec::new(),
        counts: ScanCounts::default(),
    };
    listing.fill(&fd, directory, before, scan, along)?;
    scan.is_changed |= before.whole || known.is_none_or(|known| !known.has_names_of(&listing));
    Ok(Some(Arc::new(listing)))
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
        let found = match along.look_at(fd, &file_name(path)) {
            Ok(stat) if is_link(&stat) && before.root.follows_links() => {
                look_behind_link(path, before, along)
            }
            found => found,
        };
        match found {
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

fn is_link(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Symlink
}

/// The `stat` of what a link leads to; `LOOP` if it is not followed.
fn look_behind_link(
    path: &str,
    before: PreviousScan<'_>,
    along: &mut WalkCallbacks<'_>,
) -> Result<Stat, Errno> {
    let found = along.access_disk(|| before.root.stat(path));
    found.map_err(|miss| match miss {
        LookupMiss::Absent => Errno::NOENT,
        LookupMiss::Link => Errno::LOOP,
        LookupMiss::Error(error) => Errno::from_io_error(&error).unwrap_or(Errno::IO),
    })
}

impl Listing {
    fn has_names_of(&self, other: &Self) -> bool {
        (&self.files, &self.manifests, &self.below)
            == (&other.files, &other.manifests, &other.below)
            && (&self.links_out, &self.counts) == (&other.links_out, &other.counts)
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
            if name.to_bytes().starts_with(b".") {
                self.counts.hidden += 1;
                continue;
            }
            let text = path_text(name.to_bytes());
            let path = match directory {
                "" => text.into_owned(),
                _ => format!("{directory}/{text}"),
            };
            match kind {
                FileType::Directory => self.below.push(path),
                FileType::RegularFile | FileType::Unknown => match along.look_at(fd, name) {
                    Ok(stat) if is_link(&stat) => {
                        self.take_in_link(fd, path, before, scan, along);
                    }
                    Ok(stat) => self.take_in(fd, &stat, path, before, scan),
                    Err(errno) if says_nothing(errno) => {
                        self.keep_unchecked_entry(directory, path, errno, before, scan);
                    }
                    // It may have been removed since it was listed.
                    Err(_) => {}
                },
                FileType::Symlink => self.take_in_link(fd, path, before, scan, along),
                _ => self.counts.special += 1,
            }
        }
        Ok(())
    }

    /// Adds what a link leads to, if it is followed.
    fn take_in_link(
        &mut self,
        fd: &impl AsFd,
        path: String,
        before: PreviousScan<'_>,
        scan: &mut RootScan,
        along: &mut WalkCallbacks<'_>,
    ) {
        self.counts.links += 1;
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", &path));
        if before.root.follows_links() {
            match look_behind_link(&path, before, along) {
                Ok(stat) => return self.take_in(fd, &stat, path, before, scan),
                Err(errno) if says_nothing(errno) => {
                    let directory = directory.to_owned();
                    return self.keep_unchecked_entry(&directory, path, errno, before, scan);
                }
                // What it leads to may be mounted later, which does not change this directory.
                Err(Errno::NOENT) => self.is_settled = false,
                Err(_) => {}
            }
        }
        let target = along.access_disk(|| readlinkat(fd, &*path_bytes(name), Vec::new()));
        let Ok(target) = target else {
            return;
        };
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        if before.root.leads_out(directory, &target) {
            self.counts.links_out += 1;
            self.links_out.push(LinkOut { path, target });
        }
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

/// Entries of a directory: inode, type and name.
pub(crate) type DirectoryNames = Vec<(u64, FileType, CString)>;

/// The entries of a directory, in the order of inodes.
pub(crate) fn names(directory: &impl AsFd) -> Result<DirectoryNames, Errno> {
    names_up_to(directory, usize::MAX).map(Option::unwrap_or_default)
}

/// As [`names`]; `None` if there are more than `names_max`.
pub(crate) fn names_up_to(
    directory: &impl AsFd,
    names_max: usize,
) -> Result<Option<DirectoryNames>, Errno> {
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
    let asked = accessat(directory, &*path_bytes(name), access, AtFlags::EACCESS);
    matches!(asked, Err(Errno::ACCESS | Errno::PERM))
}

/// The name that the last segment of a path stands for.
pub(crate) fn file_name(path: &str) -> CString {
    // No name contains NUL.
    CString::new(path_bytes(name_of(path))).unwrap_or_default()
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
