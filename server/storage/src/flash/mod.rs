//! The SSDs of the flash tier: raw devices or files owned by this server.
//!
//! The device core (`headlong_device::flash`) decides what is written, read and dropped; this
//! module carries out its jobs. Each SSD has one thread that writes in order, several that read one
//! run of records per call, and one that probes a failed SSD. Neither an engine nor a viewer waits
//! for them. Data is read directly into its slot and verified before it is reported as available.
//!
//! Invariants: one process owns an SSD, by a lock; a tier is written only if a super record of this
//! version and size identifies it; a record that is not exactly the requested one is a miss; every
//! command is completed exactly once, even if a thread panics.

mod aligned_bytes;
mod error;
mod manage;
mod medium;
mod queue;
mod random;
mod record;
mod recover;
mod signatures;
mod ssd;
mod stopwatch;
mod tier;

pub use error::{FlashError, FlashErrorKind};
pub use manage::{Formatting, drop_tier, format, status, verify};
pub use medium::check_ssds;
pub(crate) use queue::{FlashDone, FlashSource, ReportCompletion, SsdQueue};
pub(crate) use random::random;
pub(crate) use record::RecordBuffer;
pub use tier::{FlashShare, FlashTier, TierPart};
