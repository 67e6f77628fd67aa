//! On-disk format of the SSDs.
//!
//! ```text
//! | super, twice | checkpoints | block 0           | block 1           | ...
//!                              | records | summary | records | summary |
//! ```
//!
//! Every structure names its SSD, its place and the generation of its block, and has a checksum
//! over all of that (XXH3, 64 bits). A block is written from front to back up to its end, never out
//! of order, because an SSD that maps large blocks would copy a partially written one. The summary
//! is written last, so a stop at any moment leaves either a complete block or none. A checkpoint is
//! the concatenation of the summaries of a group of blocks.
//!
//! Nothing is written to remove a summary. The first record of the next generation, which is
//! written first, does so: a summary counts only if the record at the front of its block has the
//! same generation.
//!
//! Invariants: all numbers are little-endian. Decoding accepts any bytes, never panics, and
//! allocates memory in proportion to its input, not to values in the input. Anything that does not
//! fit the SSD is refused.

mod bytes;
mod checkpoint;
mod layout;
mod record;
mod scan;
mod summary;
mod super_record;

pub use checkpoint::{checkpoint_bytes, decode_checkpoint, encode_checkpoint};
pub use layout::{
    BLOCKS_MIN, GROUP_BLOCKS, Layout, LayoutError, PROBE_PLACE, SUMMARY_HEAD_BYTES, SUPER_COPIES,
};
pub use record::{RecordName, decode_record, encode_record, padded_bytes};
pub use scan::{ReadFailed, ScanResult, recover, scan, search_block, verify_block};
pub use summary::{Summary, SummaryHead};
pub use super_record::{SUPER_BYTES, SuperError, SuperRecord};

/// Version of the format; other versions are not read.
pub const FORMAT_VERSION: u32 = 4;

#[cfg(test)]
mod crash_tests;
