//! Measuring drives: what FreeBSD's `diskinfo -t` tells of a disk, and what flashstream 3.1 tells
//! of an SSD.
//!
//! The one idea: a real device and a model are measured by the same requests, one at a time. The
//! requests of the seek test are `common/disk`'s ([`headlong_disk::Phase`]); here they are sent, to
//! a block device or a file with direct I/O, or to a model in virtual time ([`Target`]).
//!
//! A probe reads. Only [`find_block_size`] writes, and a real device must be opened for that on
//! purpose ([`DeviceTarget::open_for_writing`]).

mod above;
mod blocks;
mod device;
mod error;
mod seeks;
mod target;
mod written;

pub use blocks::{BlockSize, BlockSizes, WritePlan, find_block_size};
pub use device::{DeviceFacts, DeviceTarget};
pub use error::ProbeError;
pub use seeks::{SeekTest, test_seeks};
pub use target::Target;
