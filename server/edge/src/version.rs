//! One version of a title of an origin: present slices, slices on their way, and slices in use.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use headlong_engine::{PartSpec, StreamId, StreamSpec};
use headlong_flash::FileKey;
use headlong_library::Library;
use headlong_pull::{OriginVersion, ResponseFault, Slices};
use headlong_storage::StreamSource;
use headlong_units::ByteRange;
use rustix::io::Errno;
use tokio::sync::watch;

use super::incoming_slice::IncomingSlice;
use super::store::{self, VersionDescription};

/// Result of a query; `None` while it runs.
pub(super) type QueryOutcome = Option<Result<(), ResponseFault>>;

/// Size of the pieces that are fetched while no slice can be stored. A reply that falls behind has to
/// fetch its piece again, so it is about as large as what a reply takes at once.
const PIECE_BYTES: u64 = 128 << 10;

/// The unit of a fetch: a slice, or a piece of one that cannot be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SlicePart {
    pub(super) index: u32,
    piece: Option<u32>,
}

impl SlicePart {
    /// The whole slice.
    pub(super) fn whole(index: u32) -> Self {
        Self { index, piece: None }
    }

    /// The piece with this offset of the slice.
    pub(super) fn piece_at(index: u32, offset: u64) -> Self {
        let piece = Some((offset / PIECE_BYTES) as u32);
        Self { index, piece }
    }

    pub(super) fn is_whole(self) -> bool {
        self.piece.is_none()
    }

    /// Its offset in the slice.
    pub(super) fn offset(self) -> u64 {
        u64::from(self.piece.unwrap_or(0)) * PIECE_BYTES
    }

    /// Its range in the title.
    pub(super) fn range(self, slices: Slices) -> ByteRange {
        let slice = slices.range(self.index);
        let start = slice.start + self.offset();
        let end = match self.piece {
            None => slice.end,
            Some(_) => slice.end.min(start + PIECE_BYTES),
        };
        ByteRange::new(start, end)
    }
}

/// One version of one title.
pub struct Version {
    pub(super) key: u128,
    pub(super) about: VersionDescription,
    pub(super) told: OriginVersion,
    pub(super) slices: Slices,
    pub(super) folder: PathBuf,
    /// The stream of this version in the engine.
    pub stream: StreamId,
    /// Set when no path refers to the version any more.
    pub(super) is_retired: AtomicBool,
    /// Held for writing while slices are removed: the folder is removed with the last one, which
    /// must not happen while another is written. Only disk jobs take it.
    pub(super) files: RwLock<()>,
    /// One more than the number of the peer that has it; zero for none.
    peer: AtomicUsize,
    table: Mutex<SliceTable>,
}

#[derive(Default)]
pub(super) struct SliceTable {
    pub(super) present: Vec<bool>,
    /// Number of replies that use a slice.
    pub(super) pins: HashMap<u32, u32>,
    /// Slices that are being fetched or removed, or could not be stored.
    pub(super) coming: HashMap<SlicePart, watch::Receiver<IncomingSlice>>,
}

impl std::fmt::Debug for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Version")
            .field("about", &self.about)
            .finish_non_exhaustive()
    }
}

impl Version {
    pub(super) fn new(
        about: VersionDescription,
        slices: Slices,
        folder: PathBuf,
        stream: u64,
    ) -> Self {
        let table = SliceTable {
            present: vec![false; slices.count() as usize],
            ..SliceTable::default()
        };
        Self {
            key: about.key(),
            told: about.origin_version(),
            about,
            slices,
            folder,
            stream: StreamId(stream),
            is_retired: AtomicBool::new(false),
            files: RwLock::default(),
            peer: AtomicUsize::new(0),
            table: Mutex::new(table),
        }
    }

    /// Size of the title in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.told.size_bytes
    }

    /// The strong entity tag: the origin's, or a generated one.
    pub fn entity_tag(&self) -> String {
        let of_origin = self.told.validators.strong_tag().map(str::to_owned);
        of_origin.unwrap_or_else(|| format!("\"{:032x}\"", self.key))
    }

    /// The origin's modification time.
    pub fn last_modified(&self) -> Option<&str> {
        self.told.validators.last_modified.as_deref()
    }

    /// The division into slices.
    pub fn slices(&self) -> Slices {
        self.slices
    }

    /// Whether a slice is present.
    pub fn has(&self, index: u32) -> bool {
        self.table().present.get(index as usize) == Some(&true)
    }

    pub(super) fn table(&self) -> MutexGuard<'_, SliceTable> {
        // No code under the lock can panic in the middle of a change.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The peer that has it, as far as is known.
    pub(super) fn peer(&self) -> Option<usize> {
        self.peer.load(Ordering::Relaxed).checked_sub(1)
    }

    pub(super) fn set_peer(&self, peer: Option<usize>) {
        let number = peer.map_or(0, |peer| peer + 1);
        self.peer.store(number, Ordering::Relaxed);
    }

    pub(super) fn is_retired(&self) -> bool {
        self.is_retired.load(Ordering::Relaxed)
    }

    /// A slice as a part of the engine's stream.
    pub(super) fn part(&self, index: u32, library: &Library, file: Option<&File>) -> PartSpec {
        let extents = file.and_then(|file| library.extents(file).ok());
        PartSpec {
            size_bytes: self.slices.range(index).len(),
            extents: extents.unwrap_or_default(),
            // The key identifies these bytes permanently, whether the slice is present or not.
            flash_key: Some(self.slice_name(index)),
            is_absent: file.is_none(),
        }
    }

    /// The name includes the folder, which is new after each purge: bytes fetched later may differ,
    /// even if the origin reports the same version.
    pub(super) fn slice_name(&self, index: u32) -> FileKey {
        let folder = self.folder.file_name().unwrap_or_default();
        let name = [folder.as_encoded_bytes(), &index.to_le_bytes()].concat();
        FileKey(xxhash_rust::xxh3::xxh3_128(&name))
    }
}

/// A version as a source for the device.
pub struct SliceSource {
    /// The version.
    pub version: Arc<Version>,
    /// Locates files on the disk.
    pub library: Library,
    /// Whether slices may be read with direct I/O.
    pub direct: bool,
}

impl StreamSource for SliceSource {
    fn spec(&self) -> StreamSpec {
        self.describe(&mut |_, _| ())
    }

    fn describe(&self, opened: &mut dyn FnMut(u32, File)) -> StreamSpec {
        let present = self.version.table().present.clone();
        let parts = (0_u32..).zip(present).map(|(index, is_there)| {
            let file = is_there
                .then(|| store::open(&self.version.folder, index, false).ok())
                .flatten();
            let part = self.version.part(index, &self.library, file.as_ref());
            if let Some(file) = file {
                opened(index, file);
            }
            part
        });
        StreamSpec {
            id: self.version.stream,
            parts: parts.collect(),
            bit_rate: None,
        }
    }

    fn lasting_name(&self) -> Option<u64> {
        Some(self.version.key as u64)
    }

    fn file_name(&self, part: u32) -> String {
        let path = store::slice_path(&self.version.folder, part);
        path.display().to_string()
    }

    fn open(&self, part: u32, direct: bool) -> io::Result<File> {
        if direct && !self.direct {
            return Err(Errno::INVAL.into());
        }
        store::open(&self.version.folder, part, direct)
    }

    fn allows_direct(&self) -> bool {
        self.direct
    }

    fn unchanged(&self, part: u32, file: &File) -> bool {
        let length = file.metadata().map(|of| of.len());
        length.is_ok_and(|length| length == self.version.slices.range(part).len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_a_slice() {
        let slices = Slices::new(1_000_000, 300_000).expect("few");
        for index in 0..slices.count() {
            let slice = slices.range(index);
            assert_eq!(SlicePart::whole(index).range(slices), slice);
            let mut at = slice.start;
            while at < slice.end {
                let piece = SlicePart::piece_at(index, at - slice.start);
                let range = piece.range(slices);
                assert_eq!((range.start, piece.offset()), (at, at - slice.start));
                let last = SlicePart::piece_at(index, range.end - 1 - slice.start);
                assert_eq!(last, piece, "the last byte is in the same piece");
                at = range.end;
            }
            assert_eq!(at, slice.end);
        }
    }
}
