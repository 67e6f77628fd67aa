//! Selection of the I/O interface of a device.

use std::io;

use super::io::{DiskIo, IoMode, IoParts};
use super::pread::PreadIo;
use super::uring::UringIo;

/// Starts the I/O interface that the mode and the kernel allow, for about `reads` reads in flight.
/// Fails only if `io_uring` is required and refused.
pub(crate) fn start_io(mode: IoMode, reads: u32, parts: IoParts) -> io::Result<Box<dyn DiskIo>> {
    if mode == IoMode::Pread {
        return Ok(Box::new(PreadIo::new(parts)));
    }
    let ring = UringIo::new(reads, &parts);
    ring_or_threads(mode, ring, parts)
}

fn ring_or_threads(
    mode: IoMode,
    ring: io::Result<UringIo>,
    parts: IoParts,
) -> io::Result<Box<dyn DiskIo>> {
    match ring {
        Ok(io) => Ok(Box::new(io)),
        Err(error) if mode == IoMode::Auto => {
            let device = parts.opener.device();
            tracing::warn!(device, %error, "io_uring refused: device is read by pread threads");
            Ok(Box::new(PreadIo::new(parts)))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[path = "start_io_tests.rs"]
mod tests;
