//! The library's public interface: look up paths, list titles, scan.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use headlong_media::encode_path;

use crate::device::{DeviceInfo, Devices, Kernel};
use crate::entry::FileEntry;
use crate::folder::{FolderContent, NameFilter};
use crate::lookup::{PathContent, ResolveError, check_path};
use crate::mounted_root::MountedRoot;
use crate::normal_form::other_forms;
use crate::options::LibraryOptions;
use crate::root::{RootError, open_roots};
use crate::scan::ScanChanges;
use crate::state::{LibraryState, lock};
use crate::stream::{LibraryContext, RemovedStream};
use crate::title::{TitleRecord, TitleView};
use crate::walk::ScanCounts;
use crate::warning::Warning;

/// Views of titles that are in memory at a time.
const TITLES_AT_ONCE: usize = 256;

/// The first warning about each file, by its URL path.
fn by_path(warnings: Vec<Warning>) -> HashMap<String, String> {
    let mut odd = HashMap::with_capacity(warnings.len());
    for Warning { path, reason } in warnings {
        odd.entry(encode_path(&path)).or_insert(reason);
    }
    odd
}

/// All titles of all roots. Cheap to clone; may be used from any thread.
#[derive(Debug, Clone)]
pub struct Library {
    pub(crate) state: Arc<LibraryState>,
}

impl Library {
    /// Opens the roots without scanning. A root that is missing, does not respond in time, or whose
    /// disk fails, is opened at a later access. Several roots form one tree; if two have the same
    /// path, the root named first wins.
    ///
    /// # Errors
    /// Errors in the list of roots, or that all of them are missing.
    pub fn open(roots: &[PathBuf], options: LibraryOptions) -> Result<Self, Vec<RootError>> {
        let roots: Vec<_> = roots.iter().map(|root| MountedRoot::at("", root)).collect();
        Self::open_mounted(&roots, options)
    }

    /// As [`Library::open`], with a place in the tree for each root.
    ///
    /// # Errors
    /// As [`Library::open`].
    pub fn open_mounted(
        roots: &[MountedRoot],
        options: LibraryOptions,
    ) -> Result<Self, Vec<RootError>> {
        Self::open_in(Kernel::default(), roots, options)
    }

    /// Opens the roots and scans them, with the default options.
    ///
    /// # Errors
    /// As [`Library::open`].
    pub fn scan(roots: &[PathBuf]) -> Result<Self, Vec<RootError>> {
        Self::scan_with(roots, LibraryOptions::default())
    }

    /// Opens the roots and scans them.
    ///
    /// # Errors
    /// As [`Library::open`].
    pub fn scan_with(roots: &[PathBuf], options: LibraryOptions) -> Result<Self, Vec<RootError>> {
        let library = Self::open(roots, options)?;
        library.rescan();
        Ok(library)
    }

    /// As [`Library::open`], with the devices that `kernel` describes.
    pub(crate) fn open_in(
        kernel: Kernel,
        roots: &[MountedRoot],
        options: LibraryOptions,
    ) -> Result<Self, Vec<RootError>> {
        let roots = open_roots(roots, options.link_targets, options.open_timeout)?;
        let ground = LibraryContext::new(Devices::of_roots(kernel, &roots), roots);
        Ok(Self {
            state: Arc::new(LibraryState::new(ground, options)),
        })
    }

    /// The devices of files, those of the roots first. A device keeps its index; one that is
    /// mounted below a root later is appended when a file on it is first found.
    pub fn devices(&self) -> Vec<DeviceInfo> {
        self.state.maker.ground.devices.all()
    }

    /// The devices that a scan of a root reaches, as indices of [`Library::devices`]: that of the
    /// root, and those mounted below it at the start.
    pub fn devices_of_root(&self, root: usize) -> Vec<usize> {
        self.state.maker.ground.devices.of_root(root)
    }

    /// Why a root cannot be opened, if it cannot. May block as long as its disk does.
    pub fn root_trouble(&self, root: usize) -> Option<RootError> {
        self.state.roots()[root].trouble()
    }

    /// Takes a root out of service, or back. A detached root has no files: look-ups find none, the
    /// next scan removes its titles, and nothing keeps its folder open. Accesses no disk.
    pub fn set_attached(&self, root: usize, is_attached: bool) {
        self.state.roots()[root].set_attached(is_attached);
    }

    /// Whether a root was missing at the start: its device is then identified by the root's path.
    pub fn had_missing_root(&self) -> bool {
        let mut roots = self.state.roots().iter();
        roots.any(|root| root.was_missing.load(Ordering::Relaxed))
    }

    /// The roots, as configured.
    pub fn roots(&self) -> Vec<PathBuf> {
        let roots = self.state.roots().iter();
        roots.map(|root| root.path.clone()).collect()
    }

    /// Counts of the last scans.
    pub fn counts(&self) -> ScanCounts {
        let mut counts = ScanCounts::default();
        for found in &*lock(&self.state.found) {
            counts.add(&found.counts);
        }
        counts
    }

    /// Warnings of the last scans, and those found since.
    pub fn warnings(&self) -> Vec<Warning> {
        let mut warnings = self.warnings_of_scans();
        warnings.extend(self.state.maker.ground.late_warnings.all());
        warnings
    }

    fn warnings_of_scans(&self) -> Vec<Warning> {
        let found = lock(&self.state.found);
        let of_scans = found.iter().flat_map(|found| &found.warnings);
        let mut warnings: Vec<Warning> = of_scans.map(|(warning, _)| warning.clone()).collect();
        warnings.extend(lock(&self.state.missing).iter().cloned());
        warnings
    }

    /// How many titles the last scans found.
    pub fn title_count(&self) -> usize {
        self.state.read(|catalogue| catalogue.titles.len())
    }

    /// The titles, in path order. Accesses no disk.
    pub fn titles(&self) -> Vec<TitleView> {
        self.each_title().collect()
    }

    /// As [`Library::titles`], some of them in memory at a time.
    pub fn each_title(&self) -> impl Iterator<Item = TitleView> {
        let mut views = self.state.of_titles(TitleRecord::view);
        let of_scans = by_path(self.warnings_of_scans());
        let some = std::iter::from_fn(move || {
            let mut some: Vec<TitleView> = views.by_ref().take(TITLES_AT_ONCE).collect();
            // The headers of a file may be invalid; such warnings are found while its view is made.
            let late = by_path(self.state.maker.ground.late_warnings.all());
            for view in &mut some {
                let odd = of_scans.get(&view.path).or_else(|| late.get(&view.path));
                view.odd = odd.cloned();
            }
            (!some.is_empty()).then_some(some)
        });
        some.flatten()
    }

    pub(crate) fn context(&self) -> &LibraryContext {
        &self.state.maker.ground
    }

    /// The streams that no path leads to any more, each once.
    pub fn take_removed_streams(&self) -> Vec<RemovedStream> {
        std::mem::take(&mut *lock(&self.state.writer))
    }

    /// The file at a path: its text, relative to the roots, without a leading slash; or that at
    /// another normal form of the path. Blocks until the necessary roots have responded, one by
    /// one.
    ///
    /// # Errors
    /// See [`ResolveError`].
    pub fn resolve(&self, path: &str) -> Result<Arc<FileEntry>, ResolveError> {
        let mut found = self.resolve_exactly(path);
        for form in other_forms(path) {
            if !matches!(found, Err(ResolveError::NotFound(_))) {
                break;
            }
            found = self.resolve_exactly(&form);
        }
        found
    }

    fn resolve_exactly(&self, path: &str) -> Result<Arc<FileEntry>, ResolveError> {
        check_path(path)?;
        if let Some(entry) = self.state.recall(path) {
            return Ok(entry);
        }
        if let Some(home) = self.home(path) {
            match self.lookup(home, path) {
                PathContent::Absent => {}
                look => return self.conclude(path, [(home, look)]),
            }
        }
        let roots = self.roots_at(path);
        self.conclude(path, roots.map(|root| (root, self.lookup(root, path))))
    }

    /// The roots that may have a file at a path, by its place in the tree. Accesses no disk.
    pub fn roots_at(&self, path: &str) -> impl Iterator<Item = usize> {
        let roots = self.state.roots().iter().enumerate();
        roots.filter_map(move |(index, root)| root.place_in_tree.below(path).map(|_| index))
    }

    /// The root in which a file was last seen: the only one to ask while the file exists there.
    /// Accesses no disk.
    pub fn home(&self, path: &str) -> Option<usize> {
        self.state.cached(path).map(|entry| entry.root)
    }

    /// The content of a root at a path. May block as long as its disk does.
    pub fn lookup(&self, root: usize, path: &str) -> PathContent {
        self.state.lookup(root, path)
    }

    /// The names in a directory of a root, without a trailing slash; the empty path is the root. Of
    /// `wanted` names, 256 at most are returned. May block as long as the root's disk does.
    pub fn list_folder(
        &self,
        root: usize,
        path: &str,
        wanted: Option<&NameFilter>,
    ) -> FolderContent {
        self.state.list_folder(root, path, wanted)
    }

    /// As [`Library::list_folder`], as of the last scan. Accesses no disk: for use while the disk
    /// does not respond.
    pub fn remember_folder(
        &self,
        root: usize,
        path: &str,
        wanted: Option<&NameFilter>,
    ) -> FolderContent {
        self.state.remember_folder(root, path, wanted)
    }

    /// Combines the results of the roots, in their order. Accesses no disk.
    ///
    /// # Errors
    /// See [`ResolveError`].
    pub fn conclude(
        &self,
        path: &str,
        looks: impl IntoIterator<Item = (usize, PathContent)>,
    ) -> Result<Arc<FileEntry>, ResolveError> {
        check_path(path)?;
        self.state.conclude(path, looks)
    }

    /// The file at a path, if it is known and was checked recently enough. Accesses no disk.
    pub fn recall(&self, path: &str) -> Option<Arc<FileEntry>> {
        self.state.recall(path)
    }

    /// The file at a path as of its last check, however long ago. Accesses no disk: for use while
    /// the disk does not respond.
    pub fn remember(&self, path: &str) -> Option<Arc<FileEntry>> {
        self.state.cached(path)
    }

    /// Another version of a file than the known one was found: the next look-up checks the disk,
    /// however recent the last check is.
    pub fn distrust(&self, path: &str) {
        if let Some(entry) = self.state.cached(path) {
            entry.distrust();
        }
    }

    /// Scans one root again, without checking the files in directories whose names are unchanged,
    /// except manifests: a file that was rewritten in place is noticed when it is requested. At
    /// least once an hour everything is checked. May block as long as the root's disk does, and
    /// blocks no other root.
    pub fn scan_root(&self, root: usize) -> ScanChanges {
        self.state.scan_root(root, &mut |_| ())
    }

    /// As [`Library::scan_root`], for a throttled caller: after each disk access `rest` is called
    /// with its duration, and the scan continues when it returns. The results of the first scan of
    /// a root are listed while it is running.
    pub fn scan_root_gently(&self, root: usize, rest: &mut dyn FnMut(Duration)) -> ScanChanges {
        self.state.scan_root(root, rest)
    }

    /// Whether an out-of-order scan ([`Library::scan_out_of_order`]) is useful for a file: it
    /// belongs to no known title, and its folder has not been scanned. Accesses no disk.
    pub fn is_alone(&self, file: &FileEntry) -> bool {
        self.state.is_alone(file)
    }

    /// Finds the title of a file ahead of the scan: reads the names in its folder and the manifests
    /// among them or, if those are incomplete, in the parent folders, and checks the files that
    /// they name. These then belong to their title's streams. Done once for each folder. May block
    /// as long as the root's disk does.
    pub fn scan_out_of_order(&self, root: usize, path: &str) {
        self.state.look_around(root, path);
    }

    /// Scans all roots, reads new manifests, and keeps all unchanged entries.
    pub fn rescan(&self) -> ScanChanges {
        self.state.scan_all(true)
    }

    /// As [`Library::scan_root`], for all roots.
    pub fn refresh(&self) -> ScanChanges {
        self.state.scan_all(false)
    }
}
