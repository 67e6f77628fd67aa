//! Access to a node's file, for a thread that may block on its disk.
//!
//! A file found under the names of a node is used only if it is the same file. A name is looked up
//! in its open folder, not by a path that may lead to another folder by now.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fuser::Errno;
use rustix::fs::ResolveFlags;
use rustix::io::Errno as Kernel;

use crate::attributes::{Attributes, attributes, file_system};
use crate::nodes::Nodes;
use crate::reply_deadline::errno;
use crate::tree::Tree;

type Result<T> = std::result::Result<T, Errno>;

/// A node and where to look for it.
pub(crate) struct NodeAccess {
    pub(crate) tree: Arc<Tree>,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) number: u64,
}

/// A named entry of a folder.
#[derive(Debug)]
pub(crate) struct NamedEntry {
    pub(crate) file: File,
    /// Its file system.
    pub(crate) dev: u64,
    /// `None` for a mount point: its file system may hang, and is queried on its own threads.
    pub(crate) found: Option<Attributes>,
}

impl NodeAccess {
    /// Opens the node's file with `open`; `ESTALE`, which makes the kernel repeat the lookup, if it
    /// is not found under any known name.
    pub(crate) fn open(
        &self,
        open: impl Fn(&Tree, &Path) -> rustix::io::Result<File>,
    ) -> Result<(File, Attributes, PathBuf)> {
        let known = self.nodes.find(self.number).ok_or(Errno::ESTALE)?;
        let mut trouble = Errno::ESTALE;
        for path in known.paths {
            match open(&self.tree, &path) {
                Ok(file) => {
                    let found = attributes(&file).map_err(errno)?;
                    if found.key == known.key && found.kind() == known.kind {
                        return Ok((file, found, path));
                    }
                }
                Err(error) => trouble = removed_or(error),
            }
        }
        Err(trouble)
    }

    /// Current attributes; a name is not needed if a program has the file open.
    pub(crate) fn attributes(&self) -> Result<Attributes> {
        let known = self.nodes.find(self.number).ok_or(Errno::ESTALE)?;
        match known.open {
            Some(open) => attributes(&*open).map_err(errno),
            None => self.open(Tree::open_path).map(|(_, found, _)| found),
        }
    }

    /// A descriptor of the file, not necessarily opened for reading.
    pub(crate) fn open_path(&self) -> Result<Arc<File>> {
        let known = self.nodes.find(self.number).ok_or(Errno::ESTALE)?;
        match known.open {
            Some(open) => Ok(open),
            None => self.open(Tree::open_path).map(|(file, ..)| Arc::new(file)),
        }
    }

    /// The entry of that name; `ESTALE` if the folder itself is not found.
    pub(crate) fn named(&self, name: &OsStr) -> Result<NamedEntry> {
        let (folder, ..) = self.open(Tree::open_path)?;
        let look = |resolve| Tree::look_in(&folder, name, resolve);
        match look(ResolveFlags::NO_XDEV) {
            Ok(file) => {
                let found = attributes(&file).map_err(errno)?;
                let (dev, found) = (found.key.dev, Some(found));
                Ok(NamedEntry { file, dev, found })
            }
            Err(Kernel::XDEV) => {
                let file = look(ResolveFlags::empty()).map_err(errno)?;
                let (dev, found) = (file_system(&file).map_err(errno)?, None);
                Ok(NamedEntry { file, dev, found })
            }
            Err(error) => Err(errno(error)),
        }
    }
}

/// Maps errors of a name that leads to no file to `ESTALE`.
fn removed_or(error: Kernel) -> Errno {
    match error {
        Kernel::NOENT | Kernel::NOTDIR | Kernel::LOOP | Kernel::XDEV | Kernel::NXIO => {
            Errno::ESTALE
        }
        other => errno(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::ROOT;

    struct ReachFixture {
        tree: Arc<Tree>,
        nodes: Arc<Nodes>,
    }

    impl ReachFixture {
        fn new(folder: &Path) -> Self {
            let tree = Tree::open(folder).expect("opened");
            let nodes = Nodes::new(&tree.attributes(Path::new(".")).expect("there"));
            Self {
                tree: Arc::new(tree),
                nodes: Arc::new(nodes),
            }
        }

        fn named(&self, number: u64, name: &str) -> Result<NamedEntry> {
            let reach = NodeAccess {
                tree: Arc::clone(&self.tree),
                nodes: Arc::clone(&self.nodes),
                number,
            };
            reach.named(OsStr::new(name))
        }

        /// Looks up a name in the root.
        fn meet(&self, name: &str) -> u64 {
            let found = self.tree.attributes(Path::new(name)).expect("there");
            self.nodes.met(ROOT, OsStr::new(name), &found)
        }
    }

    fn size(named: Result<NamedEntry>) -> u64 {
        let found = named.expect("found").found;
        found.expect("not a mount point").shown(2).size
    }

    #[test]
    fn name_is_looked_up_in_its_own_folder() {
        let scratch = tempfile::tempdir().expect("a folder");
        let path = |name: &str| scratch.path().join(name);
        std::fs::create_dir(path("a")).expect("made");
        std::fs::write(path("a/file"), "of the first").expect("written");
        let case = ReachFixture::new(scratch.path());
        let first = case.meet("a");
        assert_eq!(size(case.named(first, "file")), 12);
        std::fs::rename(path("a"), path("b")).expect("moved");
        std::fs::create_dir(path("a")).expect("made");
        std::fs::write(path("a/file"), "other").expect("written");
        let stale = case.named(first, "file").expect_err("stale path");
        assert_eq!(stale, Errno::ESTALE);
        assert_eq!(case.meet("b"), first);
        assert_eq!(size(case.named(first, "file")), 12);
        assert_eq!(size(case.named(case.meet("a"), "file")), 5);
        let none = case.named(first, "none").expect_err("no such name");
        assert_eq!(none, Errno::ENOENT);
    }

    #[test]
    fn mount_points_are_not_inspected() {
        let case = ReachFixture::new(Path::new("/"));
        let proc = case.named(ROOT, "proc").expect("found");
        assert!(proc.found.is_none());
        assert_eq!(attributes(&proc.file).expect("asked").key.dev, proc.dev);
    }
}
