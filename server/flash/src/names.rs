//! Names of what lies on flash.

/// Records begin at multiples of this, and so do their bytes: a header of this size comes first.
pub const RECORD_ALIGN_BYTES: u32 = 4096;

/// One version of one file, by a name that means the same after a restart: a hash of 128 bits over
/// its path, length and time of change. Never a file whose next change may leave these as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileKey(pub u128);

/// One piece of one version of a file: bytes `piece * piece_bytes ..`, as many as a piece has or
/// the file still has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PieceId {
    /// The file.
    pub file: FileKey,
    /// Number of the piece within the file.
    pub piece: u32,
}

/// One block of one SSD. The shell numbers the blocks of all SSDs in one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u32);

/// Where a record begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The block.
    pub block: BlockId,
    /// Byte within the block at which the record's header begins, a multiple of
    /// [`RECORD_ALIGN_BYTES`]. The bytes follow [`RECORD_ALIGN_BYTES`] later.
    pub offset: u32,
}

impl Place {
    /// Where the next record may begin, behind one of `length` bytes here.
    pub fn end(self, length: u32) -> u32 {
        self.offset + RECORD_ALIGN_BYTES + length.next_multiple_of(RECORD_ALIGN_BYTES)
    }
}
