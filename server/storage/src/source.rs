//! Source of a stream: describes the stream and opens its files.

use std::fs::File;
use std::io;

use headlong_engine::{Extent, StreamSpec};
use headlong_units::BitRate;

/// One version of one stream: its description and access to its files.
///
/// The methods may block indefinitely in the file system and are called on threads made for that,
/// except where noted.
pub trait StreamSource: Send + Sync {
    /// Description of the stream for the engine. Its id must be the one that requests for this
    /// source carry.
    fn spec(&self) -> StreamSpec;

    /// The same. Files opened for the description may be passed to `opened`, in the state in which
    /// [`StreamSource::open`] returns them without `O_DIRECT`; the receiver may read them.
    fn describe(&self, opened: &mut dyn FnMut(u32, File)) -> StreamSpec {
        let _ = opened;
        self.spec()
    }

    /// A name of this version of the stream that is valid across processes; `None` if it has none.
    /// Does not block.
    fn lasting_name(&self) -> Option<u64> {
        None
    }

    /// File name of a part for log messages; empty if unknown. Does not block.
    fn file_name(&self, part: u32) -> String {
        let _ = part;
        String::new()
    }

    /// Opens the file of a part for reading. With `direct`, uses `O_DIRECT`, and `EINVAL` means
    /// that the file does not support it. For a file that was removed or is a different version,
    /// the error is one of `ENOENT`, `ENOTDIR`, `ESTALE`, `ELOOP`, `EXDEV`, `EACCES` or `EPERM`:
    /// all other errors count against the device.
    fn open(&self, part: u32, direct: bool) -> io::Result<File>;

    /// Looks up where a part lies on the device, given its open file; `None` if this is unknown. The
    /// file system may read metadata, which the first read of the file needs as well.
    fn locate(&self, part: u32, file: &File) -> Option<Vec<Extent>> {
        let _ = (part, file);
        None
    }

    /// Whether the source allows `O_DIRECT` for its files.
    fn allows_direct(&self) -> bool {
        true
    }

    /// The first byte of a part from which [`StreamSource::learn`] is useful; `None` if it never
    /// is. Does not block.
    fn wants(&self, part: u32) -> Option<u64> {
        let _ = part;
        None
    }

    /// Inspects bytes of a part that are being sent. Returns the bit rate if it differs from the
    /// known one. Does not block.
    fn learn(&self, part: u32, offset: u64, bytes: &[u8]) -> Option<BitRate> {
        let _ = (part, offset, bytes);
        None
    }

    /// Whether the open file still is the version of the part that [`StreamSource::spec`]
    /// described.
    fn unchanged(&self, part: u32, file: &File) -> bool;
}
