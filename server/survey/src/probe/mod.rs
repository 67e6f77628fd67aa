//! Measurement of drives: as FreeBSD's `diskinfo -t` for disks, and flashstream 3.1 for SSDs.
//!
//! A real device and a model are measured by the same requests, one at a time. The requests of the
//! seek test are defined in `common/disk` ([`headlong_disk::Phase`]); here they are sent to a block
//! device or a file with direct I/O, or to a model in virtual time ([`Target`]).
//!
//! A probe only reads. Only [`find_block_size`] writes, and a real device must be opened explicitly
//! for that ([`DeviceTarget::open_for_writing`]).

mod blocks;
mod device;
mod error;
mod loop_devices;
mod seeks;
mod target;
mod unwritten;

pub use blocks::{BlockSize, BlockSizes, WritePlan, find_block_size};
pub use device::{DeviceFacts, DeviceTarget};
pub use error::ProbeError;
pub use seeks::{SeekTest, test_seeks};
pub use target::Target;
