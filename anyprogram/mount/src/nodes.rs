//! The nodes that the kernel knows: which file each is, and by which names it was found.
//!
//! The one idea: the kernel counts how often it was told of a node, and says when it forgets; so
//! the table is as large as the kernel's own cache, and no descriptor is held for a node. A node is
//! found again by the names under which it was met, and what is found there counts only if it is
//! the same file.
//!
//! Invariants: one file has one node while the kernel knows it, whatever its names; a number never
//! means two files at a time, also if the file system gives an inode's number to a new file.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use fuser::FileType;
use headlong_library::Identity;

use crate::attributes::{Attributes, Key};
use crate::stream::Stream;

/// The node of the tree itself.
pub(crate) const ROOT: u64 = 1;
/// Numbers from here on are given to nodes whose inode has no number that could be shown: it is on
/// another file system than the tree, or the number is still another file's, or not known to be this
/// one's.
const OWN_NUMBERS: u64 = 1 << 63;
/// Most names kept of one node. It is looked for under the last ones.
const PLACES_MAX: usize = 8;

/// All nodes.
#[derive(Debug)]
pub(crate) struct Nodes {
    dev: u64,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    by_number: HashMap<u64, Node>,
    by_key: HashMap<Key, u64>,
    next: u64,
}

#[derive(Debug)]
struct Node {
    key: Key,
    kind: FileType,
    /// Where it was met, the last at the end. Empty for the tree itself.
    places: Vec<(u64, OsString)>,
    /// How often the kernel was told of it and did not forget it.
    lookups: u64,
    open: Vec<Weak<File>>,
    stream: Option<Arc<Stream>>,
    /// The version of which the kernel may have pages.
    cached: Option<Identity>,
}

/// What is needed to get at a node's file.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) key: Key,
    pub(crate) kind: FileType,
    /// It is open, and needs no name.
    pub(crate) open: Option<Arc<File>>,
    /// Where it may be, the likeliest first.
    pub(crate) paths: Vec<PathBuf>,
}

impl Nodes {
    /// Of a tree; its root is always known.
    pub(crate) fn new(root: &Attributes) -> Self {
        let mut table = Table {
            next: OWN_NUMBERS,
            ..Table::default()
        };
        table.add(ROOT, root);
        Self {
            dev: root.key.dev,
            table: Mutex::new(table),
        }
    }

    /// The kernel is told of a name: the number of its node. It has to be forgotten once for each
    /// time.
    pub(crate) fn met(&self, folder: u64, name: &OsStr, found: &Attributes) -> u64 {
        let mut table = self.lock();
        let known = table.by_key.get(&found.key).copied();
        // A file that the kernel forgot about may have left its key to one of another kind.
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
            // The tree has no name in itself.
            if number != ROOT {
                node.is_at(folder, name);
            }
        }
        number
    }

    /// The kernel forgot so many of the times it was told of a node.
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
        // Telling the disk that a stream is gone needs no lock of ours.
        drop(gone);
    }

    /// How to get at a node's file; `None` of a number that was never given.
    pub(crate) fn find(&self, number: u64) -> Option<Known> {
        let table = self.lock();
        let node = table.by_number.get(&number)?;
        let open = node.open.iter().rev().find_map(Weak::upgrade);
        Some(Known {
            key: node.key,
            kind: node.kind,
            open,
            paths: table.paths(number),
        })
    }

    /// The number that a name in a listing has: that of its node, else that of its inode.
    pub(crate) fn number_shown(&self, dev: u64, ino: u64) -> u64 {
        match dev == self.dev && ino < OWN_NUMBERS {
            true => ino,
            // It is found out when the name is looked up; zero would be no entry for some.
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

    /// What the engine knows this version of a node's file by, made if it is new. One of another
    /// version is let go, and one by itself if it is in a title by now.
    pub(crate) fn stream(
        &self,
        number: u64,
        identity: &Identity,
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

    /// A file is being opened in this version: whether pages that the kernel has of it are of the
    /// same one, and stay so.
    pub(crate) fn keeps_pages(&self, number: u64, identity: &Identity) -> bool {
        let mut table = self.lock();
        let Some(node) = table.by_number.get_mut(&number) else {
            return false;
        };
        let is_same = node.cached == Some(*identity);
        node.cached = identity.is_settled.then_some(*identity);
        is_same && identity.is_settled
    }

    /// How many nodes there are.
    pub(crate) fn count(&self) -> usize {
        self.lock().by_number.len()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // Nothing under the lock panics half-way through a change.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Node {
    /// Whether what is at a place may have the number of this node's file and be another file, which
    /// was made when that one was deleted: where no file tells when it was made, only a file of one name
    /// that is where it was is surely the same. One that was renamed is another node then.
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

impl Table {
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

    /// The number of a new node: its inode's where that is free, so that it is the same after the
    /// kernel has forgotten it; else one that no file had, since a program may remember those.
    fn number(&mut self, key: Key, dev: u64) -> u64 {
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

    /// The paths of a node, the one met last first.
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

    /// The path of a folder by the names met last; `None` if it cannot be had from them.
    fn path(&self, mut number: u64) -> Option<PathBuf> {
        let mut names: Vec<&OsStr> = Vec::new();
        while number != ROOT {
            let (folder, name) = self.by_number.get(&number)?.places.last()?;
            names.push(name);
            // Folders that were moved into each other may seem to be in a circle; and no longer
            // path than this is taken by the kernel.
            if names.len() > 2048 {
                return None;
            }
            number = *folder;
        }
        Some(names.iter().rev().collect())
    }
}

/// The kernel's knowledge of a node, until it is told of it: forgotten unless it was.
#[derive(Debug)]
pub(crate) struct Told {
    nodes: Arc<Nodes>,
    pub(crate) number: u64,
    is_told: bool,
}

impl Told {
    /// A name was found, and the kernel is about to be told.
    pub(crate) fn of(nodes: &Arc<Nodes>, folder: u64, name: &OsStr, found: &Attributes) -> Self {
        Self {
            number: nodes.met(folder, name, found),
            nodes: Arc::clone(nodes),
            is_told: false,
        }
    }

    /// The kernel was told, and will say when it forgets.
    pub(crate) fn told(mut self) {
        self.is_told = true;
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        if !self.is_told {
            self.nodes.forget(self.number, 1);
        }
    }
}

#[cfg(test)]
#[path = "nodes_tests.rs"]
mod tests;
