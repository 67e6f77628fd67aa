//! A stream: the files of a rendition in playing order, or one file, in one version.
//!
//! The version is checked again on every open, so that bytes of another version are never read
//! under a stream's id.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use headlong_engine::{Extent, PartSpec, StreamId, StreamSpec};
use headlong_flash::FileKey;
use headlong_media::{HeaderFacts, encode_path};
use headlong_units::BitRate;
use thiserror::Error;
use xxhash_rust::xxh3::Xxh3Default;

use crate::device::{Devices, FileSystemLocation};
use crate::header_scan::{HeaderProgress, HeaderScan};
use crate::identity::{FileIdentity, born_ns};
use crate::kind::has_header;
use crate::os_path::os_path;
use crate::past_versions::PastVersions;
use crate::places::{FilePlace, PlaceTable};
use crate::raw;
use crate::root::Root;
use crate::version_table::{VersionKey, VersionTable};
use crate::warning::{RuntimeWarnings, Warning};

/// Context shared by all streams.
#[derive(Debug)]
pub(crate) struct LibraryContext {
    pub(crate) roots: Vec<Arc<Root>>,
    pub(crate) devices: Devices,
    pub(crate) late_warnings: RuntimeWarnings,
    pub(crate) facts: VersionTable<HeaderFacts>,
    pub(crate) places: PlaceTable,
    pub(crate) past: PastVersions,
}

impl LibraryContext {
    pub(crate) fn new(devices: Devices, roots: Vec<Arc<Root>>) -> Self {
        Self {
            roots,
            devices,
            late_warnings: RuntimeWarnings::default(),
            facts: VersionTable::default(),
            places: PlaceTable::default(),
            past: PastVersions::default(),
        }
    }

    /// Location of the file system of a file in a root. May block if the file system is new.
    pub(crate) fn place(&self, root: usize, path: &str, st_dev: u64) -> FileSystemLocation {
        self.devices.location(st_dev).unwrap_or_else(|| {
            let root = &self.roots[root];
            let below = root.place_in_tree.below(path).unwrap_or_default();
            let file = root.real_path_so_far().join(os_path(below));
            self.devices.place(st_dev, &file, &root.path)
        })
    }
}

/// The error inside the `io::Error` of [`StreamFiles::open`] when the file on disk is another
/// version than the stream's: resolve the path again.
#[derive(Debug, Clone, Error)]
#[error("`{path}` is no longer the version that this stream names; resolve it again")]
pub struct FileChanged {
    /// The file, from the root of its tree.
    pub path: Arc<str>,
}

/// Whether an error of [`StreamFiles::open`] means that the file has another version now.
pub fn is_changed(error: &io::Error) -> bool {
    error
        .get_ref()
        .is_some_and(|inner| inner.is::<FileChanged>())
}

/// A stream that no path leads to any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RemovedStream {
    /// Its id.
    pub id: u64,
    /// Whether one of its files, unchanged, belongs to another stream now.
    pub is_regrouped: bool,
}

/// One file of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartFile {
    /// Path from the root of its tree.
    pub path: Arc<str>,
    /// Index of the root, in the order given to the scan.
    pub root: usize,
    /// Its version.
    pub identity: FileIdentity,
}

impl PartFile {
    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.identity.size
    }
}

/// State of the headers of a single media file.
#[derive(Debug, Default)]
enum HeaderState {
    /// Not looked up yet; another process may have stored them.
    #[default]
    Unasked,
    /// None of their bytes were read yet.
    Unseen,
    /// Some of their bytes were read.
    Scanning(Box<HeaderScan>),
    /// Completely parsed.
    Known(HeaderFacts),
    /// Invalid for this reason, or the file has none.
    Failed(Option<String>),
}

/// A stream in one version.
#[derive(Debug)]
pub struct StreamFiles {
    /// Its id in the engine. Unique in this process, never reused.
    pub id: u64,
    /// Path of the manifest that describes it, or of the file itself.
    pub title: Arc<str>,
    /// Its files in playing order; at least one, all on one device.
    pub parts: Vec<PartFile>,
    /// Index of the device in [`crate::Library::devices`].
    pub device: usize,
    /// Bit rate by the manifest.
    pub manifest_bit_rate: Option<BitRate>,
    pub(crate) ground: Arc<LibraryContext>,
    header: Mutex<HeaderState>,
    spec_parts: Mutex<Option<Vec<PartSpec>>>,
    lasting_name: OnceLock<u64>,
}

impl StreamFiles {
    pub(crate) fn new(
        id: u64,
        title: Arc<str>,
        parts: Vec<PartFile>,
        device: usize,
        manifest_bit_rate: Option<BitRate>,
        ground: &Arc<LibraryContext>,
    ) -> Self {
        Self {
            id,
            title,
            parts,
            device,
            manifest_bit_rate,
            ground: Arc::clone(ground),
            header: Mutex::default(),
            spec_parts: Mutex::default(),
            lasting_name: OnceLock::new(),
        }
    }

    /// Its description for the engine.
    pub fn spec(&self) -> StreamSpec {
        self.describe(&mut |_, _| ())
    }

    /// The same. The first call opens the parts whose place is not known from an earlier process,
    /// and passes the files to `opened`; later calls access no disk. No content is read, nor the
    /// map of a file: until [`StreamFiles::locate`], its place is the one that it had earlier, or
    /// an estimate.
    pub fn describe(&self, opened: &mut dyn FnMut(u32, File)) -> StreamSpec {
        let known = self.spec_parts().clone();
        let parts = known.unwrap_or_else(|| {
            let indices = 0..self.parts.len() as u32;
            let parts: Vec<_> = indices.map(|part| self.spec_part(part, opened)).collect();
            // Another thread may have been faster, and located parts since.
            self.spec_parts().get_or_insert(parts).clone()
        });
        // Computed here, where time allows.
        self.lasting_name();
        StreamSpec {
            id: StreamId(self.id),
            parts,
            bit_rate: self.bit_rate(),
        }
    }

    fn spec_parts(&self) -> MutexGuard<'_, Option<Vec<PartSpec>>> {
        // Every change under the lock leaves valid parts.
        let parts = self.spec_parts.lock();
        parts.unwrap_or_else(PoisonError::into_inner)
    }

    /// A name of this version that is stable across processes: FNV-1a (64 bits) over the path, the
    /// length, mtime, inode and ctime of each file.
    pub fn lasting_name(&self) -> u64 {
        *self.lasting_name.get_or_init(|| {
            let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
            let mut add = |bytes: &[u8]| {
                for byte in bytes {
                    hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
                }
            };
            for part in &self.parts {
                add(part.path.as_bytes());
                add(&[0]);
                add(&part.size().to_le_bytes());
                add(&part.identity.mtime_ns.to_le_bytes());
                add(&part.identity.distinction().to_le_bytes());
            }
            hash
        })
    }

    fn spec_part(&self, part: u32, opened: &mut dyn FnMut(u32, File)) -> PartSpec {
        let file = &self.parts[part as usize];
        let places = &self.ground.places;
        let (mut extents, mut born) = (Vec::new(), 0);
        if let Some(place) = places.recall(self.place_key(file)) {
            (extents, born) = (self.on_disk(file, place.extents), place.born_ns);
            if let Some(first) = extents.first() {
                places.note_start(&file.identity, first.physical);
            }
        } else if let Ok(open) = self.open(part) {
            // A part that cannot be opened now has no place; its readers get the error.
            born = born_ns(&open);
            opened(part, open);
            let start = places.estimate(&file.identity);
            extents.extend(start.map(|physical| Extent {
                offset: 0,
                physical,
                length: file.size(),
            }));
        }
        PartSpec {
            size_bytes: file.size(),
            extents,
            flash_key: self.flash_key(file, born),
            is_absent: false,
        }
    }

    /// Looks up where a part lies, given its open file, and remembers it; `None` if the file system
    /// does not report it. The kernel may read the map of the file.
    pub fn locate(&self, part: u32, open: &File) -> Option<Vec<Extent>> {
        let file = self.parts.get(part as usize)?;
        let within = raw::extents(open, file.size(), raw::FLAG_SYNC).ok()?;
        if within.is_empty() {
            return None;
        }
        if let Some(key) = self.place_key(file) {
            let place = FilePlace::new(born_ns(open), &within);
            self.ground.places.stored.remember(key, place);
        }
        let extents = self.on_disk(file, within);
        if let Some(first) = extents.first() {
            let places = &self.ground.places;
            places.note_start(&file.identity, first.physical);
        }
        if let Some(known) = &mut *self.spec_parts()
            && let Some(known) = known.get_mut(part as usize)
        {
            known.extents.clone_from(&extents);
        }
        Some(extents)
    }

    fn place_key(&self, file: &PartFile) -> Option<VersionKey> {
        let root = &self.ground.roots[file.root].path;
        VersionKey::of_inode(root, &file.path, &file.identity)
    }

    /// A file system counts from its own start; converts to positions on the disk.
    fn on_disk(&self, file: &PartFile, mut extents: Vec<Extent>) -> Vec<Extent> {
        let place = self.ground.devices.location(file.identity.dev);
        let start_bytes = place.map_or(0, |place| place.start_bytes);
        for extent in &mut extents {
            extent.physical = extent.physical.saturating_add(start_bytes);
        }
        extents
    }

    /// A key of this version of a file that is stable across processes; `None` while the next
    /// change of the file might leave length and mtime the same. XXH3 (128 bits) over the path of
    /// the root as configured, the path, length, mtime, ctime, inode and creation time of that, as
    /// a file that replaces another may reuse its inode number. The device number is not included,
    /// as it changes at each boot.
    fn flash_key(&self, file: &PartFile, born_ns: i128) -> Option<FileKey> {
        let FileIdentity {
            ino,
            size,
            mtime_ns,
            ctime_ns,
            is_settled,
            ..
        } = file.identity;
        if !is_settled {
            return None;
        }
        let mut hash = Xxh3Default::new();
        hash.update(self.ground.roots[file.root].path.as_os_str().as_bytes());
        hash.update(&[0]);
        hash.update(file.path.as_bytes());
        hash.update(&[0]);
        hash.update(&size.to_le_bytes());
        hash.update(&mtime_ns.to_le_bytes());
        hash.update(&ctime_ns.to_le_bytes());
        hash.update(&ino.to_le_bytes());
        hash.update(&born_ns.to_le_bytes());
        Some(FileKey(hash.digest128()))
    }

    /// Average bit rate: the manifest's, else that of the headers of a single file as far as
    /// they were read. Accesses no disk.
    pub fn bit_rate(&self) -> Option<BitRate> {
        let learned = || self.facts()?.bit_rate(self.size());
        self.manifest_bit_rate.or_else(learned)
    }

    /// Facts of the headers of a single file, as far as they were read. Accesses no disk.
    pub(crate) fn facts(&self) -> Option<HeaderFacts> {
        match &*self.header() {
            HeaderState::Known(facts) => Some(*facts),
            HeaderState::Scanning(scan) => said_so_far(scan),
            _ => None,
        }
    }

    /// The offset in a part from which on [`StreamFiles::learn`] is useful; `None` if it never is.
    pub fn wants(&self, part: u32) -> Option<u64> {
        match &*self.header() {
            _ if part > 0 => None,
            HeaderState::Unseen => Some(0),
            HeaderState::Scanning(scan) => scan.wants(),
            _ => None,
        }
    }

    /// Bytes of a part, from `offset` on, were read for a viewer. Returns the bit rate, if they
    /// change it.
    pub fn learn(&self, part: u32, offset: u64, bytes: &[u8]) -> Option<BitRate> {
        let mut header = self.header();
        if part > 0 || !matches!(&*header, HeaderState::Unseen | HeaderState::Scanning(_)) {
            return None;
        }
        let mut scan = match std::mem::take(&mut *header) {
            HeaderState::Scanning(scan) => scan,
            _ => Box::new(HeaderScan::of(&self.parts.first()?.path, self.size())?),
        };
        let rate = |facts: Option<HeaderFacts>| facts?.bit_rate(self.size());
        let before = rate(said_so_far(&scan));
        scan.take(offset, bytes);
        let now = rate(said_so_far(&scan));
        *header = match scan.progress() {
            HeaderProgress::Scanning(_) => HeaderState::Scanning(scan),
            HeaderProgress::Done(facts) => HeaderState::Known(facts),
            HeaderProgress::Failed(reason) => HeaderState::Failed(Some(reason)),
        };
        if let HeaderState::Known(facts) = &*header
            && let Some(version) = self.version()
        {
            self.ground.facts.remember(version, *facts);
        }
        let odd = self.oddity(&header);
        drop(header);
        self.warn(odd);
        now.filter(|now| before != Some(*now))
    }

    /// Whether the headers are known to be invalid or implausible.
    pub(crate) fn is_header_odd(&self) -> bool {
        // No look-up here: the caller holds the lock that a new warning needs.
        self.oddity(&self.lock_header()).is_some()
    }

    /// The state of the headers; initially those stored by another process.
    fn header(&self) -> MutexGuard<'_, HeaderState> {
        let mut header = self.lock_header();
        if !matches!(*header, HeaderState::Unasked) {
            return header;
        }
        let has_header = match &self.parts[..] {
            [only] => has_header(&only.path) && only.size() > 0,
            _ => false,
        };
        if !has_header || self.manifest_bit_rate.is_some() {
            *header = HeaderState::Failed(None);
            return header;
        }
        let known = self.version().and_then(|of| self.ground.facts.recall(of));
        *header = known.map_or(HeaderState::Unseen, HeaderState::Known);
        let odd = self.oddity(&header);
        drop(header);
        self.warn(odd);
        self.lock_header()
    }

    fn lock_header(&self) -> MutexGuard<'_, HeaderState> {
        // Every change under the lock leaves a valid state.
        self.header.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The version of a single file, as stored across processes.
    fn version(&self) -> Option<VersionKey> {
        let [only] = &self.parts[..] else {
            return None;
        };
        let root = &self.ground.roots[only.root].path;
        VersionKey::of(root, &only.path, &only.identity)
    }

    /// The problem with the headers, and its consequence.
    fn oddity(&self, header: &HeaderState) -> Option<String> {
        match header {
            HeaderState::Failed(Some(reason)) => {
                Some(format!("{reason}; it is served as a plain file"))
            }
            HeaderState::Known(facts) if facts.is_cut(self.size()) => {
                let reason = "its mdat is longer than the file: it was truncated, or is still \
                              being copied; it is served as far as it goes";
                Some(reason.to_owned())
            }
            HeaderState::Known(facts) if facts.duration.0 == 0 => {
                let reason = "its headers give no duration, so its bit rate is unknown; the \
                              server uses the observed speed of viewers";
                Some(reason.to_owned())
            }
            HeaderState::Known(facts) if facts.bit_rate(self.size()).is_none() => {
                let seconds = facts.duration.as_secs_f64();
                Some(format!(
                    "its headers give a duration of {seconds} s, which is implausible for its \
                     size; the server uses the observed speed of viewers"
                ))
            }
            HeaderState::Known(facts) if facts.is_estimated => {
                let reason = "its headers give no duration; duration and bit rate are estimated \
                              from its first fragments";
                Some(reason.to_owned())
            }
            _ => None,
        }
    }

    fn warn(&self, odd: Option<String>) {
        if let (Some(odd), Some(file)) = (odd, self.parts.first()) {
            let late = &self.ground.late_warnings;
            late.push(Warning::new(&file.path, odd));
        }
    }

    /// Path of the URL of its title.
    pub fn url_path(&self) -> String {
        encode_path(&self.title)
    }

    /// The full path of one of its files, for messages.
    pub fn path_of(&self, file: &PartFile) -> String {
        let root = &self.ground.roots[file.root];
        let below = root.place_in_tree.below(&file.path).unwrap_or_default();
        root.path.join(os_path(below)).display().to_string()
    }

    /// Opens one part for reading, below its root.
    ///
    /// # Errors
    /// [`FileChanged`] inside the error (see [`is_changed`]) if another version, another kind of
    /// file or no file is there now; `InvalidInput` if there is no such part; else the kernel's
    /// error.
    pub fn open(&self, part: u32) -> io::Result<File> {
        let Some(file) = self.parts.get(part as usize) else {
            let count = self.parts.len();
            let message = format!("stream {} has {count} parts and no part {part}", self.id);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        };
        let changed = || {
            let path = Arc::clone(&file.path);
            io::Error::new(io::ErrorKind::StaleNetworkFileHandle, FileChanged { path })
        };
        match self.ground.roots[file.root].open_file(&file.path) {
            Ok((opened, now))
                if now.has_bytes_of(&file.identity) && !now.may_be_rewritten(&file.identity) =>
            {
                Ok(opened)
            }
            Ok(_) => Err(changed()),
            Err(error) if is_missing(&error) => Err(changed()),
            Err(error) => Err(error),
        }
    }

    /// Whether an open file still has the bytes of part `part`, by `fstat`, even if it was renamed.
    pub fn unchanged(&self, part: u32, file: &File) -> bool {
        let Some(known) = self.parts.get(part as usize) else {
            return false;
        };
        FileIdentity::of_open(file).is_ok_and(|now| {
            now.has_bytes_of(&known.identity)
                && (!now.may_be_rewritten(&known.identity) || !self.leads_to(known, &now))
        })
    }

    /// Whether the path of a part still leads to this file: it was not renamed.
    fn leads_to(&self, part: &PartFile, file: &FileIdentity) -> bool {
        let found = self.ground.roots[part.root].stat(&part.path);
        found.is_ok_and(|found| (found.st_dev, found.st_ino) == (file.dev, file.ino))
    }

    /// Bytes in all parts.
    pub fn size(&self) -> u64 {
        self.parts.iter().map(PartFile::size).sum()
    }
}

/// Facts of the headers before all of them were read.
fn said_so_far(scan: &HeaderScan) -> Option<HeaderFacts> {
    match scan.progress() {
        HeaderProgress::Scanning(facts) | HeaderProgress::Done(facts) => {
            Some(facts).filter(|facts| facts.duration.0 > 0)
        }
        HeaderProgress::Failed(_) => None,
    }
}

/// Whether the name refers to something else now: nothing, a link, a socket (ENXIO).
fn is_missing(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let gone = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP, Errno::NXIO];
    gone.map(Errno::raw_os_error)
        .map(Some)
        .contains(&error.raw_os_error())
}
