//! What the disks are told about where a stream's bytes are.

use std::fs::File;
use std::io;

use headlong_engine::StreamSpec;
use headlong_units::BitRate;

/// One version of one stream: its description, and the way to its files.
///
/// All of it may block for as long as the file system likes; it is called on threads made for
/// that, but for its names.
pub trait StreamSource: Send + Sync {
    /// What the engine is to know about the stream. Its name must be the one that requests for
    /// this source carry.
    fn spec(&self) -> StreamSpec;

    /// The same; `opened` is given the files that were opened for it, as [`StreamSource::open`] gives
    /// them without `O_DIRECT`, and may read them.
    fn describe(&self, opened: &mut dyn FnMut(u32, File)) -> StreamSpec {
        let _ = opened;
        self.spec()
    }

    /// A name of this version of the stream that means the same in the next process; `None` if it
    /// has none. Asked for by those who must not wait: it does not block.
    fn lasting_name(&self) -> Option<u64> {
        None
    }

    /// What the file of a part is called, for a log; empty if nobody knows. It does not block.
    fn file_name(&self, part: u32) -> String {
        let _ = part;
        String::new()
    }

    /// Opens the file of a part for reading; with `O_DIRECT` if `direct`, and then `EINVAL` means
    /// that the file cannot be read that way. A file that is gone, or not the same version any
    /// more, is any of `ENOENT`, `ENOTDIR`, `ESTALE`, `ELOOP`, `EXDEV`, `EACCES` or `EPERM`:
    /// other errors are counted against the device.
    fn open(&self, part: u32, direct: bool) -> io::Result<File>;

    /// Whether its files may be read with `O_DIRECT`, as far as it is asked.
    fn allows_direct(&self) -> bool {
        true
    }

    /// The byte of a part from which on [`StreamSource::learn`] is of use; `None` if it never is. It
    /// does not block.
    fn wants(&self, part: u32) -> Option<u64> {
        let _ = part;
        None
    }

    /// Bytes of a part that are sent to somebody: what is in them about the stream is learned. The
    /// bit rate, if it is another than was known. It does not block.
    fn learn(&self, part: u32, offset: u64, bytes: &[u8]) -> Option<BitRate> {
        let _ = (part, offset, bytes);
        None
    }

    /// Whether the open file is, now, still the version of the part that [`StreamSource::spec`]
    /// described.
    fn unchanged(&self, part: u32, file: &File) -> bool;
}
