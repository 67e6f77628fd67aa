//! The library as the rest of the server holds it: look a path up, list the titles, scan again.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use headlong_media::encode_path;

use crate::device::{DeviceInfo, Devices, Kernel};
use crate::entry::FileEntry;
use crate::facts::FactsRecalled;
use crate::look::{Look, ResolveError, check_path};
use crate::options::LibraryOptions;
use crate::root::{RootError, open_roots};
use crate::scan::Changes;
use crate::state::{State, lock};
use crate::stream::{Gone, Ground};
use crate::title::{TitleRecord, TitleView};
use crate::walk::Counts;
use crate::warning::Warning;

/// All titles of all roots. Cheap to clone; may be used from any thread.
#[derive(Debug, Clone)]
pub struct Library {
    pub(crate) state: Arc<State>,
}

impl Library {
    /// Opens the roots and scans nothing yet. A root that is not there, does not answer in time, or whose
    /// disk fails, is opened when it is asked next. Several roots are one tree; where two have the same
    /// path, the root named first wins.
    ///
    /// # Errors
    /// What is wrong with the list of roots, or that none of them is there.
    pub fn open(roots: &[PathBuf], options: LibraryOptions) -> Result<Self, Vec<RootError>> {
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

    /// As [`Library::open`], with the devices that the kernel describes there.
    pub(crate) fn open_in(
        kernel: Kernel,
        roots: &[PathBuf],
        options: LibraryOptions,
    ) -> Result<Self, Vec<RootError>> {
        let roots = open_roots(roots, options.open_timeout)?;
        let ground = Ground::new(Devices::of_roots(kernel, &roots), roots);
        Ok(Self {
            state: Arc::new(State::new(ground, options)),
        })
    }

    /// The devices that files lie on, those of the roots first. A device keeps its index; one that
    /// is mounted below a root later is added at the end when a file on it is first met.
    pub fn devices(&self) -> Vec<DeviceInfo> {
        self.state.maker.ground.devices.all()
    }

    /// The devices that a search of a root comes to, as indices of [`Library::devices`]: that of the
    /// root, and what was mounted below it at the start.
    pub fn devices_of_root(&self, root: usize) -> Vec<usize> {
        self.state.maker.ground.devices.of_root(root)
    }

    /// Why a root cannot be opened, if it cannot. May block for as long as its disk likes.
    pub fn root_trouble(&self, root: usize) -> Option<RootError> {
        self.state.roots()[root].trouble()
    }

    /// Whether a root was not there at the start: then its device is known by the root's path.
    pub fn had_missing_root(&self) -> bool {
        let mut roots = self.state.roots().iter();
        roots.any(|root| root.was_missing.load(Ordering::Relaxed))
    }

    /// The roots, as they were named.
    pub fn roots(&self) -> Vec<PathBuf> {
        let roots = self.state.roots().iter();
        roots.map(|root| root.path.clone()).collect()
    }

    /// What the last scans came across.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for found in &*lock(&self.state.found) {
            counts.add(&found.counts);
        }
        counts
    }

    /// What the last scans found odd, and what turned out odd since.
    pub fn warnings(&self) -> Vec<Warning> {
        let found = lock(&self.state.found);
        let of_scans = found.iter().flat_map(|found| &found.warnings);
        let mut warnings: Vec<Warning> = of_scans.map(|(warning, _)| warning.clone()).collect();
        warnings.extend(lock(&self.state.missing).iter().cloned());
        warnings.extend(self.state.maker.ground.late_warnings.all());
        warnings
    }

    /// How many titles the last scans found.
    pub fn title_count(&self) -> usize {
        self.state.read(|catalogue| catalogue.titles.len())
    }

    /// The titles, in path order. Touches no disk.
    pub fn titles(&self) -> Vec<TitleView> {
        // What was learned of a file before may be odd, and is looked at with its view.
        let views = self.state.of_titles(TitleRecord::view);
        let mut views: Vec<TitleView> = views.collect();
        let mut odd = HashMap::new();
        for Warning { path, reason } in self.warnings() {
            odd.entry(encode_path(&path)).or_insert(reason);
        }
        for view in &mut views {
            view.odd = odd.get(&view.path).cloned();
        }
        views
    }

    /// Takes over what [`Library::take_new_facts`] and [`Library::all_facts`] gave to be written;
    /// before the first scan, or it is not seen of files that were asked about.
    pub fn recall_facts(&self, bytes: &[u8]) -> FactsRecalled {
        self.state.maker.ground.facts.recall_all(bytes)
    }

    /// Records of what was learned of media files since this was last called, to be written behind
    /// the others.
    pub fn take_new_facts(&self) -> Vec<u8> {
        self.state.maker.ground.facts.take_new()
    }

    /// Records of all that is known of media files.
    pub fn all_facts(&self) -> Vec<u8> {
        self.state.maker.ground.facts.all()
    }

    /// The streams that no path leads to any more, each once.
    pub fn take_gone_streams(&self) -> Vec<Gone> {
        std::mem::take(&mut *lock(&self.state.writer))
    }

    /// The file at a path: decoded, relative to the roots, without a leading slash. Blocks until
    /// the roots that have to be asked have answered, one after another.
    ///
    /// # Errors
    /// See [`ResolveError`].
    pub fn resolve(&self, path: &str) -> Result<Arc<FileEntry>, ResolveError> {
        check_path(path)?;
        if let Some(entry) = self.state.recall(path) {
            return Ok(entry);
        }
        if let Some(home) = self.home(path) {
            match self.look(home, path) {
                Look::Absent => {}
                look => return self.conclude(path, [(home, look)]),
            }
        }
        let roots = 0..self.state.roots().len();
        self.conclude(path, roots.map(|root| (root, self.look(root, path))))
    }

    /// The root in which a file was last seen: the only one to ask as long as it is there.
    /// Touches no disk.
    pub fn home(&self, path: &str) -> Option<usize> {
        self.state.known(path).map(|entry| entry.root)
    }

    /// What a root has at a path. May block for as long as its disk likes.
    pub fn look(&self, root: usize, path: &str) -> Look {
        self.state.look(root, path)
    }

    /// What the answers of roots, in their order, come to. Touches no disk.
    ///
    /// # Errors
    /// See [`ResolveError`].
    pub fn conclude(
        &self,
        path: &str,
        looks: impl IntoIterator<Item = (usize, Look)>,
    ) -> Result<Arc<FileEntry>, ResolveError> {
        check_path(path)?;
        self.state.conclude(path, looks)
    }

    /// The file at a path, if it is known and was looked at recently enough. Touches no disk.
    pub fn recall(&self, path: &str) -> Option<Arc<FileEntry>> {
        self.state.recall(path)
    }

    /// The file at a path as it was when somebody last looked, however long ago. Touches no disk:
    /// for when the disk does not answer.
    pub fn remember(&self, path: &str) -> Option<Arc<FileEntry>> {
        self.state.known(path)
    }

    /// Somebody found another version of a file than the one that is known: the next look-up asks
    /// the disk, however fresh the knowledge is.
    pub fn distrust(&self, path: &str) {
        if let Some(entry) = self.state.known(path) {
            entry.distrust();
        }
    }

    /// Walks one root again, but does not look at the files in directories in which no name came or
    /// went, but for manifests: a file that was written anew in its place is noticed when it is
    /// asked for. At least once an hour everything is looked at. May block for as long as the root's
    /// disk likes, and holds up no other root.
    pub fn scan_root(&self, root: usize) -> Changes {
        self.state.scan_root(root, &mut |_| ())
    }

    /// As [`Library::scan_root`], by somebody who can wait: whenever the disk was asked something,
    /// `rest` is told how long that took, and the scan goes on when it returns. What the first
    /// scan of a root has found is listed while it goes on.
    pub fn scan_root_gently(&self, root: usize, rest: &mut dyn FnMut(Duration)) -> Changes {
        self.state.scan_root(root, rest)
    }

    /// Whether it is worth while to look around a file ([`Library::look_around`]): it belongs to no
    /// title as far as is known, and no search has been to its folder. Touches no disk.
    pub fn is_alone(&self, file: &FileEntry) -> bool {
        self.state.is_alone(file)
    }

    /// Looks for the title that a file belongs to, ahead of the search: reads the names in its
    /// folder, the manifests among them or, if those are not all of it, above it, and looks at the
    /// files that they name. From then on those are of their title's streams. Does so once for a
    /// folder. May block for as long as the root's disk likes.
    pub fn look_around(&self, root: usize, path: &str) {
        self.state.look_around(root, path);
    }

    /// Walks all roots, reads what manifests are new, and takes over all that is the same.
    pub fn rescan(&self) -> Changes {
        self.state.scan_all(true)
    }

    /// As [`Library::scan_root`], for all roots.
    pub fn refresh(&self) -> Changes {
        self.state.scan_all(false)
    }
}
