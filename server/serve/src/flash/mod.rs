//! The flash tier's SSDs: raw devices or files that are this server's own.
//!
//! The device core says what is written, read and forgotten (`headlong_device::flash`); here its jobs
//! are carried out. Each SSD has one thread that writes, in order, some that read, each call for one
//! run of records, and one that probes an SSD that failed. None of them is waited for: not by an
//! engine, not by a viewer. What is read goes straight into the slot that it is for, and is checked
//! before anything says that it is there.
//!
//! Invariants: one process has an SSD, by a lock on it; a tier is written to only where a super record
//! of this version and size says that it is one; a record that is not exactly what was asked for is a
//! miss; every command is answered once, also where a thread panics.

mod aligned;
mod error;
mod manage;
mod medium;
mod queue;
mod random;
mod recognise;
mod record;
mod recover;
mod ssd;
mod stopwatch;
mod tier;

pub use error::{FlashError, Trouble};
pub use manage::{Formatting, drop_tier, format, status, verify};
pub(crate) use medium::look;
pub(crate) use queue::{FlashDone, FlashSource, Say, SsdQueue};
pub(crate) use random::random;
pub(crate) use record::Record;
pub use tier::{FlashShare, Tier, TierPart};
