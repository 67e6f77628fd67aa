//! One stream: the files of a rendition in playing order, or one file, in one version.
//!
//! The one idea: what was scanned is a claim about the disk. It is checked again on every open,
//! by identity, so nobody ever reads bytes of another version under a stream's id.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Arc, OnceLock};

use headlong_engine::{PartSpec, StreamId, StreamSpec};
use headlong_flash::FileKey;
use headlong_media::encode_path;
use headlong_units::BitRate;
use thiserror::Error;
use xxhash_rust::xxh3::Xxh3Default;

use crate::device::{Devices, Place};
use crate::identity::{Identity, born_ns};
use crate::kind::{FileKind, file_kind};
use crate::mp4::{Mp4Header, read_mp4_header};
use crate::raw;
use crate::root::Root;
use crate::warning::{LateWarnings, Warning};

/// What all streams stand on.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) roots: Vec<Arc<Root>>,
    pub(crate) devices: Devices,
    pub(crate) late_warnings: LateWarnings,
}

impl Ground {
    pub(crate) fn new(devices: Devices, roots: Vec<Arc<Root>>) -> Self {
        Self {
            roots,
            devices,
            late_warnings: LateWarnings::default(),
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
    header: OnceLock<Option<Mp4Header>>,
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
            header: OnceLock::new(),
            spec_parts: OnceLock::new(),
            lasting_name: OnceLock::new(),
        }
    }

    /// What the engine is told about it. The first call opens every part to ask where it lies,
    /// and reads the headers of a single MP4 file if no manifest knows its bit rate; later calls
    /// touch no disk.
    pub fn spec(&self) -> StreamSpec {
        let parts = self.spec_parts.get_or_init(|| {
            let indices = 0..self.parts.len() as u32;
            indices.map(|part| self.spec_part(part)).collect()
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

    fn spec_part(&self, part: u32) -> PartSpec {
        let file = &self.parts[part as usize];
        let size_bytes = file.size();
        // A part that cannot be opened now has no known place; whoever reads it meets the error.
        let open = self.open(part);
        let born_ns = open.as_ref().map_or(0, born_ns);
        let extents = open.and_then(|file| Ok(raw::extents(&file, size_bytes, raw::FLAG_SYNC)?));
        let mut extents = extents.unwrap_or_default();
        // A file system counts from its own start; the disk's other partitions count elsewhere.
        let place = self.ground.devices.known(file.identity.dev);
        let start_bytes = place.map_or(0, |place| place.start_bytes);
        for extent in &mut extents {
            extent.physical = extent.physical.saturating_add(start_bytes);
        }
        PartSpec {
            size_bytes,
            extents,
            flash_key: self.flash_key(file, born_ns),
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

    /// Average bit rate: the manifest's, else that of the headers of a single MP4 file. May wait for
    /// the disk.
    pub fn bit_rate(&self) -> Option<BitRate> {
        self.manifest_bit_rate.or_else(|| {
            let [only] = &self.parts[..] else {
                return None;
            };
            self.header()?.bit_rate(only.size())
        })
    }

    /// The same without waiting: of a file whose headers nobody has read, `None`.
    pub fn bit_rate_if_read(&self) -> Option<BitRate> {
        self.manifest_bit_rate.or_else(|| {
            let [only] = &self.parts[..] else {
                return None;
            };
            self.header_if_read()?.bit_rate(only.size())
        })
    }

    /// The headers of a single MP4 file, read on the first call.
    pub fn header(&self) -> Option<&Mp4Header> {
        self.header.get_or_init(|| self.read_header()).as_ref()
    }

    /// The headers, if somebody has asked for them before.
    pub(crate) fn header_if_read(&self) -> Option<&Mp4Header> {
        self.header.get()?.as_ref()
    }

    /// Whether somebody has asked for the headers before.
    pub(crate) fn is_header_asked(&self) -> bool {
        self.header.get().is_some()
    }

    /// Whether the headers were asked for, and could not be read or say that the file was cut.
    pub(crate) fn is_header_odd(&self) -> bool {
        let is_odd = |header: &Mp4Header| header.is_cut(self.size());
        let asked = self.header.get();
        asked.is_some_and(|header| header.as_ref().is_none_or(is_odd))
    }

    fn read_header(&self) -> Option<Mp4Header> {
        let [only] = &self.parts[..] else {
            return None;
        };
        if file_kind(&only.path) != FileKind::Mp4 || only.size() == 0 {
            return None;
        }
        let file = self.open(0).ok()?;
        let (header, odd) = match read_mp4_header(&file, only.size()) {
            Ok(header) if header.is_cut(only.size()) => {
                let reason = "its mdat is longer than the file: it was cut, or is still being \
                              copied; it is served as far as it goes";
                (Some(header), reason.to_string())
            }
            Ok(header) => return Some(header),
            Err(error) => (None, format!("{error}; it is served as a plain file")),
        };
        let late = &self.ground.late_warnings;
        late.push(Warning::new(&only.path, odd));
        header
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

/// Whether the name stands for something else by now: nothing, a link, a socket (ENXIO).
fn is_gone(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let gone = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP, Errno::NXIO];
    gone.map(Errno::raw_os_error)
        .map(Some)
        .contains(&error.raw_os_error())
}
