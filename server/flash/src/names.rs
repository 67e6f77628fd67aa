//! Identifiers of objects on flash.

/// Alignment of records and of their bytes, which follow a header of this size.
pub const RECORD_ALIGN_BYTES: u32 = 4096;

/// Persistent key of one version of a file: a 128-bit hash of path, length and modification time.
/// Never used for a file whose next change may leave these unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileKey(pub u128);

/// One piece of one version of a file: the bytes from `piece * piece_bytes`, up to the piece size
/// or the end of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PieceId {
    /// The file.
    pub file: FileKey,
    /// Number of the piece within the file.
    pub piece: u32,
}

/// One block of one SSD, numbered across all SSDs of the tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u32);

/// Location of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordLocation {
    /// The block.
    pub block: BlockId,
    /// Offset of the record's header within the block, a multiple of [`RECORD_ALIGN_BYTES`]. The
    /// bytes follow [`RECORD_ALIGN_BYTES`] later.
    pub offset: u32,
}

impl RecordLocation {
    /// Offset of the next record, after one of `length` bytes here.
    pub fn end(self, length: u32) -> u32 {
        self.offset + RECORD_ALIGN_BYTES + length.next_multiple_of(RECORD_ALIGN_BYTES)
    }
}
