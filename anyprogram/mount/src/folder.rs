//! An open folder and its listing.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use fuser::{FileAttr, FileType};
use rustix::fs::{FileType as Kind, RawDir, SeekFrom, seek};
use rustix::io::{Errno, Result};

use crate::attributes::{Attributes, attributes_at, kind_shown};
use crate::nodes::{LookupGuard, Nodes};

/// Size of a directory entry in a reply, without its name (`fuse_dirent`, `fuse_direntplus`).
const HEAD_BYTES: usize = 24;
const PLUS_HEAD_BYTES: usize = 152;
/// An entry with the longest name must fit into the buffer.
const BUFFER_MIN: usize = 1024;
const BUFFER_MAX: usize = 64 << 10;

/// One opening of a folder.
#[derive(Debug)]
pub(crate) struct OpenFolder {
    pub(crate) node: u64,
    pub(crate) dev: u64,
    /// Its position is that of the last listing.
    file: Mutex<File>,
}

/// One entry of a folder.
#[derive(Debug)]
pub(crate) struct FolderEntry {
    pub(crate) name: OsString,
    /// Offset at which the listing continues after this entry.
    pub(crate) next: u64,
    pub(crate) kind: FileType,
    pub(crate) number: u64,
    /// Its attributes, and the lookup to be counted by the kernel; only if requested.
    pub(crate) found: Option<(FileAttr, Option<LookupGuard>)>,
    /// Whether the attributes may be cached; otherwise the kernel looks the name up when it needs
    /// it.
    pub(crate) is_sure: bool,
}

impl OpenFolder {
    pub(crate) fn new(node: u64, dev: u64, file: File) -> Self {
        Self {
            node,
            dev,
            file: Mutex::new(file),
        }
    }

    /// Entries from an offset, about as many as fit into `bytes`, with attributes if `plus`. Blocks
    /// on the disk.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub(crate) fn list(
        &self,
        nodes: &Arc<Nodes>,
        from: u64,
        bytes: usize,
        plus: bool,
    ) -> Result<Vec<FolderEntry>> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        seek(&*file, SeekFrom::Start(from))?;
        let head = if plus { PLUS_HEAD_BYTES } else { HEAD_BYTES };
        let room = bytes * HEAD_BYTES / head;
        let mut buffer = vec![MaybeUninit::uninit(); room.clamp(BUFFER_MIN, BUFFER_MAX)];
        let mut raw = RawDir::new(&*file, &mut buffer);
        let (mut entries, mut filled) = (Vec::new(), 0);
        while let Some(entry) = raw.next() {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            let next = entry.next_entry_cookie();
            let number = nodes.number_shown(self.dev, entry.ino());
            filled += head + name.len().next_multiple_of(8);
            let mut listed = FolderEntry {
                name: name.to_owned(),
                next,
                kind: kind_shown(entry.file_type()),
                number,
                found: None,
                is_sure: true,
            };
            let is_unknown = entry.file_type() == Kind::Unknown;
            if plus || is_unknown {
                let (found, is_sure) = match attributes_at(&*file, Path::new(name), self.dev) {
                    Ok(looked_at) => looked_at,
                    // It was removed during the listing.
                    Err(Errno::NOENT) => continue,
                    // The name exists, although the mount cannot inspect the file.
                    Err(_) => {
                        let nothing = Attributes::unknown(self.dev, entry.ino(), listed.kind);
                        (nothing, false)
                    }
                };
                listed.is_sure = is_sure;
                listed.is(nodes, self.node, &found, plus);
            }
            entries.push(listed);
            if filled >= bytes {
                break;
            }
        }
        Ok(entries)
    }
}

impl FolderEntry {
    fn is(&mut self, nodes: &Arc<Nodes>, folder: u64, found: &Attributes, plus: bool) {
        self.kind = found.kind();
        if !plus {
            return;
        }
        self.found = Some(match self.name.as_bytes() {
            // The kernel knows these entries, and does not count them as lookups.
            b"." | b".." => (found.shown(self.number), None),
            _ => {
                let told = LookupGuard::of(nodes, folder, &self.name, found);
                (found.shown(told.number), Some(told))
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::ROOT;
    use crate::tree::Tree;
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    use std::collections::BTreeSet;
    use std::os::unix::fs::PermissionsExt as _;

    fn all(folder: &OpenFolder, nodes: &Arc<Nodes>, bytes: usize, plus: bool) -> Vec<FolderEntry> {
        let (mut all, mut from) = (Vec::new(), 0);
        loop {
            let some = folder.list(nodes, from, bytes, plus).expect("listed");
            let Some(last) = some.last() else {
                return all;
            };
            from = last.next;
            all.extend(some);
        }
    }

    #[test]
    fn every_name_is_listed_once_for_any_buffer_size() {
        let scratch = tempfile::tempdir().expect("a folder");
        let names: BTreeSet<String> = (0..500).map(|n| format!("a file {n:>100}")).collect();
        for name in &names {
            std::fs::write(scratch.path().join(name), name).expect("written");
        }
        let tree = Tree::open(scratch.path()).expect("opened");
        let root = tree.attributes(Path::new(".")).expect("there");
        let nodes = Arc::new(Nodes::new(&root));
        let file = tree.open_folder(Path::new(".")).expect("opened");
        let folder = OpenFolder::new(ROOT, root.key.dev, file);
        for (bytes, plus) in [(4096, false), (300, false), (4096, true), (1 << 20, true)] {
            let entries = all(&folder, &nodes, bytes, plus);
            assert_eq!(entries.len(), 502);
            let listed: BTreeSet<String> = entries
                .iter()
                .filter_map(|entry| entry.name.to_str())
                .filter(|name| !name.starts_with('.'))
                .map(str::to_owned)
                .collect();
            assert_eq!(listed, names);
            assert!(entries.iter().all(|entry| entry.found.is_some() == plus));
            if plus {
                assert_eq!(nodes.count(), 501);
                let attr = entries.iter().filter_map(|entry| entry.found.as_ref());
                assert!(attr.filter(|(attr, _)| attr.size == 107).count() == 500);
            }
            drop(entries);
            // The kernel was not notified.
            assert_eq!(nodes.count(), 1);
        }
    }

    #[test]
    fn uninspectable_names_are_listed_but_not_cached() {
        let scratch = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(scratch.path().join("closed/folder")).expect("made");
        std::fs::write(scratch.path().join("closed/file"), "x").expect("written");
        let closed = std::fs::Permissions::from_mode(0o400);
        std::fs::set_permissions(scratch.path().join("closed"), closed).expect("set");
        let tree = Tree::open(scratch.path()).expect("opened");
        let nodes = Arc::new(Nodes::new(&tree.attributes(Path::new(".")).expect("there")));
        let found = tree.attributes(Path::new("closed")).expect("there");
        let file = tree.open_folder(Path::new("closed")).expect("opened");
        let node = nodes.met(ROOT, OsStr::new("closed"), &found);
        let folder = OpenFolder::new(node, found.key.dev, file);
        // Capabilities belong to a thread, and this one ends.
        let listing = || {
            let mut sets = capabilities(None).expect("asked");
            sets.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
            set_capabilities(None, sets).expect("set");
            [
                all(&folder, &nodes, 4096, true),
                all(&folder, &nodes, 4096, true),
            ]
        };
        let listed = std::thread::scope(|scope| scope.spawn(listing).join().expect("no panic"));
        let shown = |entries: &[FolderEntry]| -> Vec<(OsString, FileType, u64)> {
            let unsure = entries.iter().filter(|entry| !entry.is_sure);
            let shown = unsure.filter_map(|entry| Some((entry, &entry.found.as_ref()?.0)));
            let mut shown: Vec<_> = shown
                .map(|(entry, shown)| (entry.name.clone(), shown.kind, shown.ino.0))
                .collect();
            shown.sort_by(|one, other| one.0.cmp(&other.0));
            shown
        };
        let [first, second] = listed.each_ref().map(|entries| shown(entries));
        let kinds: Vec<(&OsStr, FileType)> = first
            .iter()
            .map(|(name, kind, _)| (name.as_os_str(), *kind))
            .collect();
        let expected = [
            (".", FileType::Directory),
            ("..", FileType::Directory),
            ("file", FileType::RegularFile),
            ("folder", FileType::Directory),
        ];
        assert_eq!(kinds, expected.map(|(name, kind)| (OsStr::new(name), kind)));
        assert!(first.iter().all(|(_, _, number)| *number != 0));
        assert_eq!(
            first, second,
            "the kernel keeps its cached entry of the name"
        );
        let open = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(scratch.path().join("closed"), open).expect("set");
        let known = all(&folder, &nodes, 4096, true);
        for entry in &known {
            let (shown, _) = entry.found.as_ref().expect("asked for");
            assert!(entry.is_sure && shown.ino.0 == entry.number, "{entry:?}");
        }
        drop((listed, known));
        assert_eq!(
            nodes.count(),
            2,
            "lookups not passed to the kernel are forgotten"
        );
    }
}
