//! What lies on an SSD, byte for byte.
//!
//! ```text
//! | super, twice | checkpoints | block 0           | block 1           | ...
//!                              | records | summary | records | summary |
//! ```
//!
//! The one idea: everything on the SSD names the SSD, the place and the filling of the block that it
//! belongs to, and has a checksum over all of that (XXH3, 64 bits). A block is written from front to
//! back, to its end, and never out of order: an SSD that maps in large blocks copies one that is. Its
//! summary comes last; so what is found after a stop at any moment is a block that was filled, or
//! nothing. A checkpoint is the summaries of neighbouring blocks one after another.
//!
//! Nothing is written to take a summary away. The first record of the next filling, which is written
//! first, does it: a summary counts only if the record at the front is of its filling.
//!
//! Invariants: all numbers are little-endian. Decoding takes any bytes, never panics, and takes
//! memory by what it was given, not by what the bytes say. What does not fit the SSD is refused.

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
pub use scan::{Found, ReadFailed, recover, scan, search_block, verify_block};
pub use summary::{Summary, SummaryHead};
pub use super_record::{SUPER_BYTES, Super, SuperError};

/// Version of all that lies on an SSD; another is not read.
pub const FORMAT_VERSION: u32 = 4;

#[cfg(test)]
mod crash_tests;
