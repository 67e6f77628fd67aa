//! Everything that is in one root, by name and by `stat`, and its manifests.

use std::ffi::CStr;
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType, statat};
use rustix::io::Errno;

use crate::identity::{Identity, is_regular};
use crate::kind::{FileKind, file_kind};
use crate::manifest::{Manifest, Manifests};
use crate::root::Root;
use crate::warning::Warning;

/// Deepest directory walked.
const DEPTH_MAX: usize = 64;
/// Most files taken in from one root.
const FILES_MAX: usize = 10_000_000;

/// What a scan came across.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Counts {
    /// Files that are served.
    pub files: u64,
    /// Names that are not UTF-8, which no URL can ask for.
    pub not_utf8: u64,
    /// Names that begin with a dot.
    pub hidden: u64,
    /// Symbolic links.
    pub links: u64,
    /// FIFOs, sockets and devices.
    pub special: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.files += other.files;
        self.not_utf8 += other.not_utf8;
        self.hidden += other.hidden;
        self.links += other.links;
        self.special += other.special;
    }
}

/// What one root holds.
#[derive(Debug, Default)]
pub(crate) struct RootScan {
    pub(crate) files: Vec<(Arc<str>, Identity)>,
    pub(crate) manifests: Manifests,
    pub(crate) counts: Counts,
    pub(crate) warnings: Vec<Warning>,
}

/// Walks `root`; manifests whose version is in `known` are not read again.
pub(crate) fn walk(root: &Root, known: &Manifests) -> RootScan {
    let mut scan = RootScan::default();
    let mut pending: Vec<(String, usize)> = vec![(String::new(), 0)];
    while let Some((directory, depth)) = pending.pop() {
        match list(root, &directory, &mut scan) {
            Ok(below) if depth < DEPTH_MAX => {
                pending.extend(below.into_iter().map(|path| (path, depth + 1)));
            }
            Ok(below) => {
                let deep = below.into_iter().map(|path| {
                    Warning::new(
                        &path,
                        format!("it is more than {DEPTH_MAX} directories deep and is not listed"),
                    )
                });
                scan.warnings.extend(deep);
            }
            // It went away, or became something else, since it was listed.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(errno) => {
                let reason = format!("it cannot be listed ({errno}); its files are left out");
                scan.warnings.push(Warning::new(&directory, reason));
            }
        }
        if scan.files.len() > FILES_MAX {
            let reason = format!("more than {FILES_MAX} files; the rest is found when asked for");
            scan.warnings.push(Warning::new(&directory, reason));
            break;
        }
    }
    scan.counts.files = scan.files.len() as u64;
    read_manifests(root, known, &mut scan);
    scan
}

fn read_manifests(root: &Root, known: &Manifests, scan: &mut RootScan) {
    for (path, identity) in &scan.files {
        if !matches!(file_kind(path), FileKind::Hls | FileKind::Dash) {
            continue;
        }
        let manifest = match known.get(path) {
            Some(manifest) if manifest.identity == *identity => Arc::clone(manifest),
            _ => Arc::new(Manifest::read(root, path, *identity)),
        };
        scan.manifests.insert(Arc::clone(path), manifest);
    }
}

/// Takes in the files of one directory; the directories below it come back.
///
/// The entries are looked up in the order of their inodes, not of the directory's hash: on a
/// cold hard disk that is the difference between one sweep and a seek for each.
fn list(root: &Root, directory: &str, scan: &mut RootScan) -> Result<Vec<String>, Errno> {
    let fd = root.open_directory(directory)?;
    let mut entries = Vec::new();
    for entry in Dir::read_from(&fd)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        entries.push((entry.ino(), entry.file_type(), name.to_owned()));
    }
    entries.sort_unstable_by_key(|(ino, _, _)| *ino);
    let mut below = Vec::new();
    for (_, kind, name) in &entries {
        let Ok(text) = name.to_str() else {
            scan.counts.not_utf8 += 1;
            continue;
        };
        if text.starts_with('.') {
            scan.counts.hidden += 1;
            continue;
        }
        let path = match directory {
            "" => text.to_string(),
            _ => format!("{directory}/{text}"),
        };
        match kind {
            FileType::Directory => below.push(path),
            FileType::RegularFile | FileType::Unknown => {
                take_in(&fd, name, path, &mut below, scan);
            }
            FileType::Symlink => scan.counts.links += 1,
            _ => scan.counts.special += 1,
        }
    }
    Ok(below)
}

/// Looks at one entry that is a file, or of which the directory does not say what it is.
fn take_in(
    directory: &impl std::os::fd::AsFd,
    name: &CStr,
    path: String,
    below: &mut Vec<String>,
    scan: &mut RootScan,
) {
    // It may have gone since it was listed; then it is simply not there.
    let Ok(stat) = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else {
        return;
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => below.push(path),
        FileType::Symlink => scan.counts.links += 1,
        _ if is_regular(&stat) => scan.files.push((Arc::from(path), Identity::of(&stat))),
        _ => scan.counts.special += 1,
    }
}
