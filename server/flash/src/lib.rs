//! The flash tier between memory and disks: admission, placement, eviction and recovery.
//!
//! An SSD is divided into equal blocks of the size that it writes well (FlashStream, section 3.1).
//! A block is written once from front to back, holds records of pieces, and is evicted as a whole.
//! A record carries its identity and a checksum on the SSD itself, so a read returns either the
//! requested bytes or nothing.
//!
//! Invariants: this crate never handles file data. Its index is a hint: a record counts only after
//! it was read and its identity and checksum were verified. Losing the SSD or the index costs disk
//! reads and nothing else.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

/// Whether a mutation is active; always false in a released build.
#[cfg(feature = "mutants")]
macro_rules! mutated {
    ($name:ident) => {
        headlong_mutants::is_active(headlong_mutants::Mutant::$name)
    };
}
/// Whether a mutation is active; always false in a released build.
#[cfg(not(feature = "mutants"))]
macro_rules! mutated {
    ($name:ident) => {
        false
    };
}

mod checkpoints;
pub mod format;
mod names;
mod spec;
mod store;

pub use checkpoints::{CheckpointDevice, Checkpoints};
pub use names::{BlockId, FileKey, PieceId, RECORD_ALIGN_BYTES, RecordLocation};
pub use spec::{
    FlashPolicy, FlashSpec, FlashView, ProbeResult, RecordEntry, RecoveredBlock, RefusedBytes,
    SpecError, SsdId, SsdSpec, SsdState, SsdView, StoreConfig,
};
pub use store::{FlashStore, SEGMENT_BYTES, StoreCommand};
