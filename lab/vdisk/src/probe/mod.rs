//! Measuring drives: what FreeBSD's `diskinfo -t` tells of a disk, and what flashstream 3.1 tells
//! of an SSD.
//!
//! The one idea: a real device and a model are measured by the same requests, one at a time. The
//! requests of the seek test are `lab/drive`'s ([`headlong_drive::Phase`]); here they are sent, to
//! a block device or a file with direct I/O, or to a model in virtual time ([`Target`]).
//!
//! A probe reads. Only [`find_block_size`] writes, and a real device must be opened for that on
//! purpose ([`DeviceTarget::open_for_writing`]).

mod blocks;
mod device;
mod error;
mod model;
mod seeks;

use headlong_drive::Request;
use headlong_units::Duration;

pub use blocks::{BlockSize, BlockSizes, WritePlan, find_block_size};
pub use device::{DeviceFacts, DeviceTarget};
pub use error::ProbeError;
pub use model::ModelTarget;
pub use seeks::{SeekTest, test_seeks};

/// Something that does one request at a time.
pub trait Target {
    /// Sectors of [`headlong_drive::SECTOR_BYTES`].
    fn sectors(&self) -> u64;

    /// Does a request and says how long it took.
    ///
    /// # Errors
    /// If the device refuses it.
    fn perform(&mut self, request: Request) -> Result<Duration, ProbeError>;
}
