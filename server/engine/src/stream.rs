//! Description of a stream: its parts, their location, and their bit rate.

use alloc::vec::Vec;

use headlong_flash::FileKey;
use headlong_units::BitRate;

use crate::ids::StreamId;

/// One stream, as the shell registers it with [`crate::Shard::handle_stream`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSpec {
    /// Its id; an id is registered once and always stands for one version of the bytes.
    pub id: StreamId,
    /// Its files in playback order; at least one.
    pub parts: Vec<PartSpec>,
    /// Average bit rate from the manifest or the file's headers; `None` if unknown.
    pub bit_rate: Option<BitRate>,
}

/// One file of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PartSpec {
    /// Bytes in the file.
    pub size_bytes: u64,
    /// Its location, in file order; empty if the file system does not report it: the position of
    /// the part is then unknown and sorts first.
    pub extents: Vec<Extent>,
    /// Its key on flash, and for the next process; `None` if it must not be stored under a key.
    pub flash_key: Option<FileKey>,
    /// Whether the file does not exist yet, or any more: it is not read ahead of need.
    pub is_absent: bool,
}

/// A run of bytes of a file that is contiguous on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Position on the device, bytes.
    pub physical: u64,
    /// Length, bytes.
    pub length: u64,
}
