//! File descriptors inherited at process start.

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::sync::Mutex;

use rustix::io::{FdFlags, fcntl_getfd};

/// Descriptors that have an owner already.
static OWNED: Mutex<Vec<RawFd>> = Mutex::new(Vec::new());

/// Takes ownership of a descriptor that the parent process passed by the protocol of
/// sd_listen_fds(3), where numbers start at 3.
///
/// # Errors
/// If it is not open, or was taken before.
pub fn passed_descriptor(number: RawFd) -> io::Result<OwnedFd> {
    let mut owned = OWNED
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if number < 3 || owned.contains(&number) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: only its flags are read, which fails if it is not open.
    let borrowed = unsafe { std::os::fd::BorrowedFd::borrow_raw(number) };
    let flags = fcntl_getfd(borrowed)?;
    // The flag was set when the variables were read; descriptors opened by this process are not
    // listed there.
    debug_assert!(flags.contains(FdFlags::CLOEXEC));
    owned.push(number);
    // SAFETY: the parent process declares in LISTEN_PID and LISTEN_FDS that this process owns the
    // descriptor; it is open, and has not been given out before.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}
