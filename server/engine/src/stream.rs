//! What the engine is told about a stream: its parts, where they lie, how fast they are played.

use alloc::vec::Vec;

use headlong_flash::FileKey;
use headlong_units::BitRate;

use crate::ids::StreamId;

/// One stream, as the shell registers it with [`crate::Shard::handle_stream`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSpec {
    /// Its name; a name is registered once and means one version of the bytes for ever.
    pub id: StreamId,
    /// Its files in the order they are played; at least one.
    pub parts: Vec<PartSpec>,
    /// Average bit rate from the manifest or the file's headers; `None` if nobody knows.
    pub bit_rate: Option<BitRate>,
}

/// One file of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PartSpec {
    /// Bytes in the file.
    pub size_bytes: u64,
    /// Where it lies, in file order; empty when the file system does not say, and then the
    /// position of the whole part counts as unknown and sorts first.
    pub extents: Vec<Extent>,
    /// Its name on flash, and for the process that comes next; `None` if it must not be kept under a
    /// name.
    pub flash_key: Option<FileKey>,
    /// Whether it is not there yet, or not any more: nothing reads it ahead of need.
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
