//! The flash tier's SSDs: raw devices or files that are this server's own.
//!
//! The engine says what is written, read and forgotten (`headlong_flash`); here it is done. Each SSD
//! has one thread that writes, in order, some that read, each call for one run of records, and one
//! that looks whether an SSD that failed is well again. None of them is waited for: not by an engine, not by a viewer. What is read goes straight into the
//! slot that it is for, and is looked at before anybody is told that it is there.
//!
//! Invariants: one process has an SSD, by a lock on it; a tier is written to only where a super record
//! of this version and size says that it is one; a record that is not exactly what was asked for is a
//! miss; every command is answered once, also where a thread panics.

mod aligned;
mod error;
mod manage;
mod medium;
mod port;
mod probe;
mod random;
mod recognise;
mod recover;
mod ssd;
mod stopwatch;
mod tier;

pub use error::{FlashError, Trouble};
pub use manage::{Formatting, drop_tier, format, status, verify};
pub(crate) use medium::look;
pub(crate) use port::{FlashDone, FlashParts, FlashPort, Say};
pub use tier::{FlashShare, Tier, TierPart};
