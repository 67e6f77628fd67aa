//! One stream: the files of a rendition in playing order, or one file, in one version.
//!
//! The one idea: what was scanned is a claim about the disk. It is checked again on every open,
//! by identity, so nobody ever reads bytes of another version under a stream's id.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use headlong_engine::{PartSpec, StreamId, StreamSpec};
use headlong_flash::FileKey;
use headlong_media::{Mp4Facts, Mp4Fault, Mp4Progress, Mp4Scan, encode_path};
use headlong_units::BitRate;
use thiserror::Error;
use xxhash_rust::xxh3::Xxh3Default;

use crate::device::{Devices, Place};
use crate::facts::{FactsTable, Version};
use crate::identity::{Identity, born_ns};
use crate::kind::{FileKind, file_kind};
use crate::raw;
use crate::root::Root;
use crate::warning::{LateWarnings, Warning};

/// What all streams stand on.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) roots: Vec<Arc<Root>>,
    pub(crate) devices: Devices,
    pub(crate) late_warnings: LateWarnings,
    pub(crate) facts: FactsTable,
}

impl Ground {
    pub(crate) fn new(devices: Devices, roots: Vec<Arc<Root>>) -> Self {
        Self {
            roots,
            devices,
            late_warnings: LateWarnings::default(),
            facts: FactsTable::default(),
        }
    }

    /// Where the file system of a file in a root lies. May block if it is met for the first time.
    pub(crate) fn place(&self, root: usize, path: &str, st_dev: u64) -> Place {
        self.devices.known(st_dev).unwrap_or_else(|| {
            let root = &self.roots[root];
            let file = root.real_path_so_far().join(path);
            self.devices.place(st_dev, &file, &root.path)
        })
    }
}

/// The error inside the `io::Error` of [`StreamFiles::open`] when the file on disk is another
/// version than the stream's: resolve the path again.
#[derive(Debug, Clone, Error)]
#[error("`{path}` is no longer the version that this stream names; resolve it again")]
pub struct Changed {
    /// The file, from the root of its tree.
    pub path: Arc<str>,
}

/// Whether an error of [`StreamFiles::open`] says that the file is another version now.
pub fn is_changed(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Changed>())
}

/// A stream that no path leads to any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gone {
    /// Its id.
    pub id: u64,
    /// Whether a file of it, as it was, is in another stream now.
    pub is_regrouped: bool,
}

/// One file of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartFile {
    /// Path from the root of its tree.
    pub path: Arc<str>,
    /// Index of the root, in the order given to the scan.
    pub root: usize,
    /// Which version of which file.
    pub identity: Identity,
}

impl PartFile {
    /// Bytes in it.
    pub fn size(&self) -> u64 {
        self.identity.size
    }
}

/// What is known of the headers of a single MP4 file.
#[derive(Debug, Default)]
enum Header {
    /// Nobody has asked; another process may have learned it.
    #[default]
    Unasked,
    /// Nothing of it has passed yet.
    Unseen,
    /// Some of it has.
    Scanning(Box<Mp4Scan>),
    /// All that it says.
    Known(Mp4Facts),
    /// It says nothing, or there is none.
    Failed(Option<Mp4Fault>),
}

/// A stream in one version.
#[derive(Debug)]
pub struct StreamFiles {
    /// Its id, as the engine knows it. Unique in this process, never used again.
    pub id: u64,
    /// Path of the manifest that describes it, or of the file itself.
    pub title: Arc<str>,
    /// Its files in playing order; at least one, all on one device.
    pub parts: Vec<PartFile>,
    /// Index of the device in [`crate::Library::devices`].
    pub device: usize,
    /// Bit rate by the manifest.
    pub manifest_bit_rate: Option<BitRate>,
    ground: Arc<Ground>,
    header: Mutex<Header>,
    spec_parts: OnceLock<Vec<PartSpec>>,
    lasting_name: OnceLock<u64>,
}

impl StreamFiles {
    pub(crate) fn new(
        id: u64,
        title: Arc<str>,
        parts: Vec<PartFile>,
        device: usize,
        manifest_bit_rate: Option<BitRate>,
        ground: &Arc<Ground>,
    ) -> Self {
        Self {
            id,
            title,
            parts,
            device,
            manifest_bit_rate,
            ground: Arc::clone(ground),
            header: Mutex::default(),
            spec_parts: OnceLock::new(),
            lasting_name: OnceLock::new(),
        }
    }

    /// What the engine is told about it.
    pub fn spec(&self) -> StreamSpec {
        self.describe(&mut |_, _| ())
    }

    /// The same. The first call opens every part to ask where it lies, and gives the files to
    /// `opened`; later calls touch no disk. Nothing is read.
    pub fn describe(&self, opened: &mut dyn FnMut(u32, File)) -> StreamSpec {
        let parts = self.spec_parts.get_or_init(|| {
            let indices = 0..self.parts.len() as u32;
            indices.map(|part| self.spec_part(part, opened)).collect()
        });
        // Here is the time for it.
        self.lasting_name();
        StreamSpec {
            id: StreamId(self.id),
            parts: parts.clone(),
            bit_rate: self.bit_rate(),
        }
    }

    /// A name of this version that means the same in the next process: FNV-1a (64 bits) over the
    /// path, the length and the time of each file.
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
            }
            hash
        })
    }

    fn spec_part(&self, part: u32, opened: &mut dyn FnMut(u32, File)) -> PartSpec {
        let file = &self.parts[part as usize];
        let size_bytes = file.size();
        let (mut extents, mut born) = (Vec::new(), 0);
        // A part that cannot be opened now has no known place; whoever reads it meets the error.
        if let Ok(open) = self.open(part) {
            born = born_ns(&open);
            extents = raw::extents(&open, size_bytes, raw::FLAG_SYNC).unwrap_or_default();
            opened(part, open);
        }
        // A file system counts from its own start; the disk's other partitions count elsewhere.
        let place = self.ground.devices.known(file.identity.dev);
        let start_bytes = place.map_or(0, |place| place.start_bytes);
        for extent in &mut extents {
            extent.physical = extent.physical.saturating_add(start_bytes);
        }
        PartSpec {
            size_bytes,
            extents,
            flash_key: self.flash_key(file, born),
            is_absent: false,
        }
    }

    /// A name of this version of a file that means the same in the next process; `None` while the next
    /// change of the file might leave length and time as they are. XXH3 (128 bits) over the path
    /// of the root as given, the path, length, time, inode and when that was made, as a file that is put
    /// in the place of another may have the number of one before it; the number of a file system is
    /// another after each start of the machine.
    fn flash_key(&self, file: &PartFile, born_ns: i128) -> Option<FileKey> {
        let Identity {
            ino,
            size,
            mtime_ns,
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
        hash.update(&ino.to_le_bytes());
        hash.update(&born_ns.to_le_bytes());
        Some(FileKey(hash.digest128()))
    }

    /// Average bit rate: the manifest's, else that of the headers of a single MP4 file as far as they
    /// have passed. Touches no disk.
    pub fn bit_rate(&self) -> Option<BitRate> {
        let learned = || self.facts()?.bit_rate(self.size());
        self.manifest_bit_rate.or_else(learned)
    }

    /// What the headers of a single MP4 file say, as far as they have passed. Touches no disk.
    pub(crate) fn facts(&self) -> Option<Mp4Facts> {
        match &*self.header() {
            Header::Known(facts) => Some(*facts),
            Header::Scanning(scan) => said_so_far(scan),
            _ => None,
        }
    }

    /// The byte of a part from which on [`StreamFiles::learn`] is of use; `None` if it never is.
    pub fn wants(&self, part: u32) -> Option<u64> {
        match &*self.header() {
            _ if part > 0 => None,
            Header::Unseen => Some(0),
            Header::Scanning(scan) => scan.wants(),
            _ => None,
        }
    }

    /// Bytes of a part, from `offset` on, were read for somebody. The bit rate, if they say another
    /// than was known.
    pub fn learn(&self, part: u32, offset: u64, bytes: &[u8]) -> Option<BitRate> {
        let mut header = self.header();
        if part > 0 || !matches!(&*header, Header::Unseen | Header::Scanning(_)) {
            return None;
        }
        let mut scan = match std::mem::take(&mut *header) {
            Header::Scanning(scan) => scan,
            _ => Box::new(Mp4Scan::new(self.size())),
        };
        let rate = |facts: Option<Mp4Facts>| facts?.bit_rate(self.size());
        let before = rate(said_so_far(&scan));
        scan.take(offset, bytes);
        let now = rate(said_so_far(&scan));
        *header = match scan.progress() {
            Mp4Progress::Scanning(_) => Header::Scanning(scan),
            Mp4Progress::Done(facts) => Header::Known(facts),
            Mp4Progress::Failed(fault) => Header::Failed(Some(fault)),
        };
        if let Header::Known(facts) = &*header
            && let Some(version) = self.version()
        {
            self.ground.facts.remember(version, *facts);
        }
        let odd = self.oddity(&header);
        drop(header);
        self.warn(odd);
        now.filter(|now| before != Some(*now))
    }

    /// Whether the headers are known to say nothing, or something that cannot be.
    pub(crate) fn is_header_odd(&self) -> bool {
        // Nothing is asked for here: who keeps warnings holds the lock that a new one needs.
        self.oddity(&self.lock_header()).is_some()
    }

    /// What is known of the headers; first of all, what another process has learned.
    fn header(&self) -> MutexGuard<'_, Header> {
        let mut header = self.lock_header();
        if !matches!(*header, Header::Unasked) {
            return header;
        }
        let has_header = match &self.parts[..] {
            [only] => file_kind(&only.path) == FileKind::Mp4 && only.size() > 0,
            _ => false,
        };
        if !has_header || self.manifest_bit_rate.is_some() {
            *header = Header::Failed(None);
            return header;
        }
        let known = self.version().and_then(|of| self.ground.facts.recall(of));
        *header = known.map_or(Header::Unseen, Header::Known);
        let odd = self.oddity(&header);
        drop(header);
        self.warn(odd);
        self.lock_header()
    }

    fn lock_header(&self) -> MutexGuard<'_, Header> {
        // Every change under the lock leaves a whole state behind.
        self.header.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The version of a single file, by which it is known to the next process.
    fn version(&self) -> Option<Version> {
        let [only] = &self.parts[..] else {
            return None;
        };
        let root = &self.ground.roots[only.root].path;
        Version::of(root, &only.path, &only.identity)
    }

    /// What is odd about the headers, and what is done about it.
    fn oddity(&self, header: &Header) -> Option<String> {
        match header {
            Header::Failed(Some(fault)) => Some(format!("{fault}; it is served as a plain file")),
            Header::Known(facts) if facts.is_cut(self.size()) => {
                let reason = "its mdat is longer than the file: it was cut, or is still being \
                              copied; it is served as far as it goes";
                Some(reason.to_owned())
            }
            Header::Known(facts) if facts.duration.0 > 0 => {
                let seconds = facts.duration.as_secs_f64();
                let reason = || {
                    format!(
                        "by its headers it plays for {seconds} s, which no film of its size does; \
                         the server goes by the speed that viewers show"
                    )
                };
                facts.bit_rate(self.size()).is_none().then(reason)
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

    /// The whole path of one of its files, for people.
    pub fn path_of(&self, file: &PartFile) -> String {
        let root = &self.ground.roots[file.root].path;
        root.join(file.path.trim_start_matches('/'))
            .display()
            .to_string()
    }

    /// Opens one part for reading, beneath its root.
    ///
    /// # Errors
    /// [`Changed`] inside the error (see [`is_changed`]) if another version, another kind of file
    /// or nothing is there by now; `InvalidInput` if there is no such part; else what the kernel
    /// says.
    pub fn open(&self, part: u32) -> io::Result<File> {
        let Some(file) = self.parts.get(part as usize) else {
            let count = self.parts.len();
            let message = format!("stream {} has {count} parts and no part {part}", self.id);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        };
        let changed = || {
            let path = Arc::clone(&file.path);
            io::Error::new(io::ErrorKind::StaleNetworkFileHandle, Changed { path })
        };
        match self.ground.roots[file.root].open_file(&file.path) {
            Ok((opened, identity)) if identity.has_bytes_of(&file.identity) => Ok(opened),
            Ok(_) => Err(changed()),
            Err(error) if is_gone(&error) => Err(changed()),
            Err(error) => Err(error),
        }
    }

    /// Whether an open file still has the bytes of part `part`, by `fstat`: wherever its name went.
    pub fn unchanged(&self, part: u32, file: &File) -> bool {
        let known = self.parts.get(part as usize);
        known
            .zip(Identity::of_open(file).ok())
            .is_some_and(|(known, now)| now.has_bytes_of(&known.identity))
    }

    /// Bytes of all parts.
    pub fn size(&self) -> u64 {
        self.parts.iter().map(PartFile::size).sum()
    }
}

/// What the headers said before all of them were seen.
fn said_so_far(scan: &Mp4Scan) -> Option<Mp4Facts> {
    match scan.progress() {
        Mp4Progress::Scanning(facts) | Mp4Progress::Done(facts) => {
            Some(facts).filter(|facts| facts.duration.0 > 0)
        }
        Mp4Progress::Failed(_) => None,
    }
}

/// Whether the name stands for something else by now: nothing, a link, a socket (ENXIO).
fn is_gone(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let gone = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP, Errno::NXIO];
    gone.map(Errno::raw_os_error)
        .map(Some)
        .contains(&error.raw_os_error())
}
