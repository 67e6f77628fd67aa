//! Nodes known to the kernel: the file of each, and the names under which it was found.
//!
//! The kernel counts its lookups of a node and reports when it forgets them, so the table is as
//! large as the kernel's own cache, and no descriptor is held for a node. A node is found again by
//! its names, and a file found there is used only if it is the same file.
//!
//! Invariants: one file has one node while the kernel knows it, whatever its names; a number never
//! identifies two files at a time, even if the file system reuses an inode number.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use fuser::FileType;
use headlong_library::FileIdentity;

use crate::attributes::{Attributes, NodeKey};
use crate::stream::Stream;

/// The root of the tree.
pub(crate) const ROOT: u64 = 1;
/// Numbers from here on are for nodes whose inode number cannot be shown: the node is on another
/// file system than the tree, its inode number is in use by another file, or its identity is
/// unknown.
const OWN_NUMBERS: u64 = 1 << 63;
/// Most names kept for one node, the most recent ones.
const PLACES_MAX: usize = 8;

/// All nodes.
#[derive(Debug)]
pub(crate) struct Nodes {
    dev: u64,
    table: Mutex<NodeTable>,
}

#[derive(Debug, Default)]
struct NodeTable {
    by_number: HashMap<u64, Node>,
    by_key: HashMap<NodeKey, u64>,
    next: u64,
}

#[derive(Debug)]
struct Node {
    key: NodeKey,
    kind: FileType,
    /// Folder and name of each place where it was found, most recent last. Empty for the root.
    places: Vec<(u64, OsString)>,
    /// Lookups that the kernel has not forgotten.
    lookups: u64,
    open: Vec<Weak<File>>,
    stream: Option<Arc<Stream>>,
    /// The version whose pages the kernel may hold.
    cached: Option<FileIdentity>,
}

/// How to reach a node's file.
#[derive(Debug)]
pub(crate) struct NodeState {
    pub(crate) key: NodeKey,
    pub(crate) kind: FileType,
    /// An open descriptor; no name is needed.
    pub(crate) open: Option<Arc<File>>,
    /// Candidate paths, most likely first.
    pub(crate) paths: Vec<PathBuf>,
}

impl Nodes {
    /// The nodes of a tree; its root is always known.
    pub(crate) fn new(root: &Attributes) -> Self {
        let mut table = NodeTable {
            next: OWN_NUMBERS,
            ..NodeTable::default()
        };
        table.add(ROOT, root);
        Self {
            dev: root.key.dev,
            table: Mutex::new(table),
        }
    }

    /// Counts a lookup by the kernel; returns the number of the node. The kernel forgets each
    /// lookup once.
    pub(crate) fn met(&self, folder: u64, name: &OsStr, found: &Attributes) -> u64 {
        let mut table = self.lock();
        let known = table.by_key.get(&found.key).copied();
        // A file that the kernel has forgotten may have left its key to a file of another type.
        let known = known.filter(|number| table.by_number[number].kind == found.kind());
        let known =
            known.filter(|number| !table.by_number[number].may_be_another(folder, name, found));
        let number = known.unwrap_or_else(|| {
            let number = table.number(found.key, self.dev);
            table.add(number, found);
            number
        });
        if let Some(node) = table.by_number.get_mut(&number) {
            node.lookups += 1;
            // The root has no name within the tree.
            if number != ROOT {
                node.is_at(folder, name);
            }
        }
        number
    }

    /// The kernel forgot `times` lookups of a node.
    pub(crate) fn forget(&self, number: u64, times: u64) {
        let mut table = self.lock();
        let Some(node) = table.by_number.get_mut(&number) else {
            return;
        };
        node.lookups = node.lookups.saturating_sub(times);
        if node.lookups > 0 || number == ROOT {
            return;
        }
        let key = node.key;
        let gone = table.by_number.remove(&number);
        if table.by_key.get(&key) == Some(&number) {
            table.by_key.remove(&key);
        }
        drop(table);
        // Dropping a stream notifies the disk; the lock is not needed for that.
        drop(gone);
    }

    /// How to reach a node's file; `None` for an unknown number.
    pub(crate) fn find(&self, number: u64) -> Option<NodeState> {
        let table = self.lock();
        let node = table.by_number.get(&number)?;
        let open = node.open.iter().rev().find_map(Weak::upgrade);
        Some(NodeState {
            key: node.key,
            kind: node.kind,
            open,
            paths: table.paths(number),
        })
    }

    /// The inode number shown in a listing: that of the node, or of the inode.
    pub(crate) fn number_shown(&self, dev: u64, ino: u64) -> u64 {
        match dev == self.dev && ino < OWN_NUMBERS {
            true => ino,
            // The real number is determined by a lookup; zero would mean no entry to some programs.
            false => ino | OWN_NUMBERS,
        }
    }

    /// A node's file was opened.
    pub(crate) fn opened(&self, number: u64, file: &Arc<File>) {
        if let Some(node) = self.lock().by_number.get_mut(&number) {
            node.open.retain(|file| file.strong_count() > 0);
            node.open.push(Arc::downgrade(file));
        }
    }

    /// The stream for this version of a node's file, created if new. A stream of another version is
    /// released, and so is a single-file stream if the file now belongs to a title.
    pub(crate) fn stream(
        &self,
        number: u64,
        identity: &FileIdentity,
        in_title: Option<Arc<Stream>>,
        alone: impl FnOnce() -> Option<Arc<Stream>>,
    ) -> Option<Arc<Stream>> {
        let mut table = self.lock();
        let Some(node) = table.by_number.get_mut(&number) else {
            drop(table);
            return in_title.or_else(alone);
        };
        let may_stay = |known: &&Arc<Stream>| {
            known.identity == *identity && !(known.title.is_alone() && in_title.is_some())
        };
        if let Some(known) = node.stream.as_ref().filter(may_stay) {
            return Some(Arc::clone(known));
        }
        let stream = in_title.or_else(alone)?;
        let gone = node.stream.replace(Arc::clone(&stream));
        drop(table);
        drop(gone);
        Some(stream)
    }

    /// A file is being opened in this version: whether the kernel's pages belong to the same
    /// version and may be kept.
    pub(crate) fn keeps_pages(&self, number: u64, identity: &FileIdentity) -> bool {
        let mut table = self.lock();
        let Some(node) = table.by_number.get_mut(&number) else {
            return false;
        };
        let is_same = node.cached == Some(*identity);
        node.cached = identity.is_settled.then_some(*identity);
        is_same && identity.is_settled
    }

    /// The number of nodes.
    pub(crate) fn count(&self) -> usize {
        self.lock().by_number.len()
    }

    fn lock(&self) -> MutexGuard<'_, NodeTable> {
        // No code under the lock panics half-way through a change.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Node {
    /// Whether a file found at a new place may be another one that reuses the inode number. Without
    /// creation times, a file with a single name is certainly the same only at a place where it was
    /// found before; a renamed file then gets a new node.
    fn may_be_another(&self, folder: u64, name: &OsStr, found: &Attributes) -> bool {
        let was_there = |place: &(u64, OsString)| place.0 == folder && place.1 == name;
        found.key.born.is_none()
            && self.kind == FileType::RegularFile
            && found.names() <= 1
            && !self.places.is_empty()
            && !self.places.iter().any(was_there)
    }

    fn is_at(&mut self, folder: u64, name: &OsStr) {
        let is_it = |place: &(u64, OsString)| place.0 == folder && place.1 == name;
        if self.places.last().is_some_and(is_it) {
            return;
        }
        self.places.retain(|place| !is_it(place));
        if self.places.len() >= PLACES_MAX {
            self.places.remove(0);
        }
        self.places.push((folder, name.to_owned()));
    }
}

impl NodeTable {
    fn add(&mut self, number: u64, found: &Attributes) {
        let node = Node {
            key: found.key,
            kind: found.kind(),
            places: Vec::new(),
            lookups: 0,
            open: Vec::new(),
            stream: None,
            cached: None,
        };
        self.by_number.insert(number, node);
        self.by_key.insert(found.key, number);
    }

    /// The number of a new node: that of its inode if free, so that it is the same after the kernel
    /// has forgotten it; otherwise one never used before, since programs may remember numbers.
    fn number(&mut self, key: NodeKey, dev: u64) -> u64 {
        let is_of_tree = key.dev == dev && key.is_known();
        let may_be_shown = is_of_tree && key.ino > ROOT && key.ino < OWN_NUMBERS;
        if may_be_shown && !self.by_number.contains_key(&key.ino) {
            return key.ino;
        }
        loop {
            let number = self.next;
            self.next = number.checked_add(1).unwrap_or(OWN_NUMBERS);
            if !self.by_number.contains_key(&number) {
                return number;
            }
        }
    }

    /// The paths of a node, most recent first.
    fn paths(&self, number: u64) -> Vec<PathBuf> {
        if number == ROOT {
            return vec![PathBuf::from(".")];
        }
        let Some(node) = self.by_number.get(&number) else {
            return Vec::new();
        };
        let places = node.places.iter().rev();
        let paths = places.filter_map(|(folder, name)| Some(self.path(*folder)?.join(name)));
        paths.collect()
    }

    /// The path of a folder by its most recent names; `None` if they do not lead to the root.
    fn path(&self, mut number: u64) -> Option<PathBuf> {
        let mut names: Vec<&OsStr> = Vec::new();
        while number != ROOT {
            let (folder, name) = self.by_number.get(&number)?.places.last()?;
            names.push(name);
            // Folders moved into each other may form a cycle; the kernel accepts no longer path
            // than this.
            if names.len() > 2048 {
                return None;
            }
            number = *folder;
        }
        Some(names.iter().rev().collect())
    }
}

/// A counted lookup that is undone when dropped, unless it was passed to the kernel.
#[derive(Debug)]
pub(crate) struct LookupGuard {
    nodes: Arc<Nodes>,
    pub(crate) number: u64,
    is_told: bool,
}

impl LookupGuard {
    /// Counts the lookup of a name that is about to be passed to the kernel.
    pub(crate) fn of(nodes: &Arc<Nodes>, folder: u64, name: &OsStr, found: &Attributes) -> Self {
        Self {
            number: nodes.met(folder, name, found),
            nodes: Arc::clone(nodes),
            is_told: false,
        }
    }

    /// The kernel received the entry, and will forget it itself.
    pub(crate) fn confirm(mut self) {
        self.is_told = true;
    }
}

impl Drop for LookupGuard {
    fn drop(&mut self) {
        if !self.is_told {
            self.nodes.forget(self.number, 1);
        }
    }
}

#[cfg(test)]
#[path = "nodes_tests.rs"]
mod tests;
