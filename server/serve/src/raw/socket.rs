//! What a socket still holds.

use std::io;
use std::os::fd::AsFd;

use rustix::ioctl::{Getter, ioctl};

/// Bytes that were given to a TCP socket and that the other end has not confirmed.
pub(crate) fn unconfirmed_bytes(socket: impl AsFd) -> io::Result<u64> {
    // SAFETY: `SIOCOUTQ` (tcp(7)), which has the number of `TIOCOUTQ`, writes one `int`.
    let count: i32 = unsafe { ioctl(socket, Getter::<{ libc::TIOCOUTQ as _ }, i32>::new())? };
    Ok(u64::try_from(count).unwrap_or(0))
}
