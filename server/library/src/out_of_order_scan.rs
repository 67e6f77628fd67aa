//! Out-of-order scan: finds the title of a file that is requested before the scan has reached its
//! folder.
//!
//! Only manifests tell which files belong to one title. So the names in a folder and its manifests
//! are read, then only the files that the manifests name are checked: a folder of thousands of
//! plain files costs a directory listing, and a title as much as the scan will need later, which
//! then finds it in the kernel's cache.
//!
//! Invariant: only stand-alone files, in the checked version, are added to a stream here; an entry
//! written by a scan or another thread stays until the next scan is committed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use headlong_media::{FileFacts, Title, plan};
use headlong_units::path_text;
use rustix::fs::{AtFlags, FileType, statat};
use rustix::io::Errno;

use crate::catalogue::{ScannedFile, StreamInputs};
use crate::entry::FileEntry;
use crate::identity::{FileIdentity, is_regular};
use crate::kind::{FileKind, file_kind, is_manifest};
use crate::lookup::check_path;
use crate::manifest::{Manifest, Manifests, is_complete, titles_around, unread};
use crate::out_of_order_state::{ScanScope, folder_of};
use crate::state::{LibraryState, lock};
use crate::stream::{PartFile, RemovedStream};
use crate::title::{SegmentTotalsTable, TitleRecord, assign_folder_posters};
use crate::walk::names;

/// Most manifests read in one folder; of more, those with names most similar to the requested one.
const MANIFESTS_PER_FOLDER_MAX: usize = 32;
/// Most manifests read in one pass.
const MANIFESTS_MAX: usize = 128;
/// How many parent folders are searched for a manifest that names the file.
const CLIMB_MAX: usize = 2;

fn join(folder: &str, name: &str) -> String {
    match folder {
        "" => name.to_string(),
        _ => format!("{folder}/{name}"),
    }
}

/// Whether a file belongs to no known title.
fn stands_alone(file: &FileEntry) -> bool {
    file.stream.parts.len() == 1 && file.stream.title == file.path
}

impl LibraryState {
    pub(crate) fn is_alone(&self, file: &FileEntry) -> bool {
        stands_alone(file)
            && file_kind(&file.path) != FileKind::Image
            && lock(&self.around[file.root]).scope(&file.path).is_some()
    }

    pub(crate) fn look_around(&self, root: usize, path: &str) {
        if !self.is_served(root) {
            return;
        }
        let Some(scope) = lock(&self.around[root]).claim(path) else {
            return;
        };
        let mut reading = OutOfOrderScan {
            state: self,
            root,
            checked_ns: self.now_ns(),
            manifests: Manifests::new(),
        };
        if let Err(error) = reading.read_for(path, scope) {
            tracing::debug!(?path, %error, "out-of-order scan failed; the regular scan will retry");
            lock(&self.around[root]).release(path);
            return;
        }
        reading.take_in();
    }

    /// Adds the streams of titles that the located files belong to.
    fn put_titles(
        &self,
        titles: &[Title],
        located: &HashMap<Arc<str>, ScannedFile>,
        checked_ns: u64,
    ) {
        let plan = plan(titles, |path| {
            let file = located.get(path)?;
            Some(FileFacts {
                device: self
                    .maker
                    .ground
                    .place(file.root, path, file.identity.dev)
                    .device,
                size_bytes: file.identity.size,
            })
        });
        let mut gone = lock(&self.writer);
        for planned in plan.streams {
            let part = |path: &Arc<str>| {
                let file = located.get(path)?;
                Some(PartFile {
                    path: Arc::clone(path),
                    root: file.root,
                    identity: file.identity,
                })
            };
            let parts: Vec<PartFile> = planned.files.iter().filter_map(part).collect();
            let Some(alone) = self.streams_alone(&parts) else {
                continue;
            };
            let stream = self.maker.make(StreamInputs {
                title: Arc::clone(&titles[planned.title].path),
                parts,
                device: planned.device,
                bit_rate: planned.bit_rate,
            });
            self.write(|catalogue| catalogue.put(&stream, checked_ns));
            gone.extend(alone.into_iter().map(|id| RemovedStream {
                id,
                is_regrouped: true,
            }));
        }
        let size = |path: &str| located.get(path).map(|file| file.identity.size);
        let mut measures = SegmentTotalsTable::default();
        let records = titles.iter();
        let records =
            records.filter_map(|title| TitleRecord::of_manifest(title, &size, &mut measures));
        self.list(records.collect());
    }

    /// The streams of known files among `parts`, if all of them stand alone in the same version.
    fn streams_alone(&self, parts: &[PartFile]) -> Option<Vec<u64>> {
        self.read(|catalogue| {
            let known = parts
                .iter()
                .map(|part| (part, catalogue.files.get(&part.path)));
            let mut ids = Vec::new();
            for (part, entry) in known {
                let Some(entry) = entry else { continue };
                let is_same = entry.identity == part.identity && entry.root == part.root;
                if !is_same || !stands_alone(entry) {
                    return None;
                }
                ids.push(entry.stream.id);
            }
            Some(ids)
        })
    }

    /// Lists titles; an entry of the same path is replaced. The caller holds the writer's lock.
    fn list(&self, records: Vec<TitleRecord>) {
        if records.is_empty() {
            return;
        }
        let listed = self.read(|catalogue| Arc::clone(&catalogue.titles));
        let mut titles = Vec::clone(&listed);
        for record in records {
            match titles.binary_search_by(|title| title.path.cmp(&record.path)) {
                Ok(at) => titles[at] = record,
                Err(at) => titles.insert(at, record),
            }
        }
        assign_folder_posters(&mut titles);
        let titles = Arc::new(titles);
        // The old list is dropped outside the lock.
        let old = self.write(|catalogue| std::mem::replace(&mut catalogue.titles, titles));
        drop((old, listed));
    }
}

/// State of one out-of-order scan.
struct OutOfOrderScan<'a> {
    state: &'a LibraryState,
    root: usize,
    /// When the scan began.
    checked_ns: u64,
    manifests: Manifests,
}

impl OutOfOrderScan<'_> {
    /// Reads the manifests that may name a file.
    fn read_for(&mut self, path: &str, scope: ScanScope) -> Result<(), Errno> {
        let folder = folder_of(path);
        match scope {
            ScanScope::Folder => self.read_folder(folder, path)?,
            ScanScope::Manifest => self.read(path),
        }
        self.read_unread();
        let own_folder = self.state.roots()[self.root].place_in_tree.folder();
        let mut above = folder;
        for _ in 0..CLIMB_MAX {
            // A title's files often lie below its manifest.
            if above == own_folder || is_complete(&self.manifests) {
                break;
            }
            above = folder_of(above);
            let own: BTreeSet<Arc<str>> = self.manifests.keys().cloned().collect();
            self.read_folder(above, folder)?;
            self.keep_those_of(folder, &own);
            self.read_unread();
        }
        Ok(())
    }

    /// Reads the manifests in a folder.
    fn read_folder(&mut self, folder: &str, like: &str) -> Result<(), Errno> {
        let directory = self.state.roots()[self.root].open_directory(folder)?;
        let found = names(&directory)?
            .into_iter()
            .filter_map(|(_, kind, name)| {
                let is_file = matches!(kind, FileType::RegularFile | FileType::Unknown);
                let name = path_text(name.to_bytes());
                (is_file && is_manifest(&name)).then(|| join(folder, &name))
            });
        let mut found: Vec<String> = found.collect();
        if found.len() > MANIFESTS_PER_FOLDER_MAX {
            found.sort_by_key(|path| Reverse(same_bytes(path, like)));
            found.truncate(MANIFESTS_PER_FOLDER_MAX);
        }
        found.iter().for_each(|path| self.read(path));
        Ok(())
    }

    /// Reads a manifest, unless it was read; other or hidden files are skipped.
    fn read(&mut self, path: &str) {
        let is_wanted = self.manifests.len() < MANIFESTS_MAX && check_path(path).is_ok();
        if !is_wanted || self.manifests.contains_key(path) {
            return;
        }
        let root = &self.state.roots()[self.root];
        let Some(stat) = root.stat(path).ok().filter(is_regular) else {
            return;
        };
        let identity = FileIdentity::of(&stat).settling(self.state.options.settle_file);
        let early = lock(&self.state.around[self.root]).early(path);
        let manifest = match early.filter(|early| early.identity == identity && !early.is_unread())
        {
            Some(early) => early,
            None => {
                let own_hosts = &self.state.options.server_names;
                Arc::new(Manifest::read(root, path, identity, own_hosts))
            }
        };
        self.manifests.insert(Arc::from(path), manifest);
    }

    /// Reads the media playlists that master playlists name.
    fn read_unread(&mut self) {
        for path in unread(&self.manifests) {
            self.read(&path);
        }
    }

    /// Drops manifests, except for `own`, that name no file in a folder.
    fn keep_those_of(&mut self, folder: &str, own: &BTreeSet<Arc<str>>) {
        let titles = titles_around(&self.manifests);
        let is_of = |title: &&Title| {
            let mut segments = title.renditions.iter().flat_map(|of| &of.segments.list);
            segments.any(|segment| folder_of(&segment.path) == folder)
        };
        let kept: BTreeSet<&str> = titles
            .iter()
            .filter(is_of)
            .map(|title| &*title.path)
            .collect();
        self.manifests
            .retain(|path, _| own.contains(path) || kept.contains(&**path));
    }

    /// Checks the files that the manifests name, and adds their titles.
    fn take_in(self) {
        let Self {
            state,
            root,
            checked_ns,
            ref manifests,
        } = self;
        if manifests.is_empty() {
            return;
        }
        let titles = titles_around(manifests);
        let renditions = titles.iter().flat_map(|title| &title.renditions);
        let segments = renditions.flat_map(|rendition| &rendition.segments.list);
        let mut located = self.locate(segments.map(|segment| &segment.path));
        // New devices are added here, where blocking is allowed.
        state.meet_devices(root, &located);
        for (path, manifest) in manifests {
            let file = ScannedFile {
                root,
                identity: manifest.identity,
                checked_ns,
            };
            let is_other = state.cached(path).is_some_and(|entry| entry.root != root);
            if !is_other && state.admit(path, file).is_some() {
                located.insert(Arc::clone(path), file);
            }
        }
        let mut around = lock(&state.around[root]);
        for (path, manifest) in manifests {
            around.insert(path, manifest, checked_ns);
        }
        drop(around);
        state.put_titles(&titles, &located, checked_ns);
    }

    /// Files of this root: as known, or as found on disk if unknown.
    fn locate<'b>(
        &self,
        paths: impl Iterator<Item = &'b Arc<str>>,
    ) -> HashMap<Arc<str>, ScannedFile> {
        let mut located = HashMap::new();
        let mut unknown: BTreeMap<&str, HashMap<&str, &Arc<str>>> = BTreeMap::new();
        for path in paths {
            match self.state.cached(path) {
                Some(entry) if entry.root == self.root => {
                    let file = ScannedFile {
                        root: entry.root,
                        identity: entry.identity,
                        checked_ns: entry.checked_ns(),
                    };
                    located.insert(Arc::clone(path), file);
                }
                Some(_) => {}
                None if check_path(path).is_ok() => {
                    let folder = folder_of(path);
                    let name = path.rsplit('/').next().unwrap_or(path);
                    unknown.entry(folder).or_default().insert(name, path);
                }
                None => {}
            }
        }
        let root = &self.state.roots()[self.root];
        for (folder, wanted) in unknown {
            let Ok(directory) = root.open_directory(folder) else {
                continue;
            };
            for (_, _, name) in names(&directory).unwrap_or_default() {
                let Some(path) = wanted.get(&*path_text(name.to_bytes())) else {
                    continue;
                };
                let stat = statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW);
                if let Some(stat) = stat.ok().filter(is_regular) {
                    let settle = self.state.options.settle_file;
                    let file = ScannedFile {
                        root: self.root,
                        identity: FileIdentity::of(&stat).settling(settle),
                        checked_ns: self.checked_ns,
                    };
                    located.insert(Arc::clone(path), file);
                }
            }
        }
        located
    }
}

/// Length of the common prefix of two paths, in bytes.
fn same_bytes(one: &str, other: &str) -> usize {
    let pairs = one.bytes().zip(other.bytes());
    pairs.take_while(|(a, b)| a == b).count()
}
