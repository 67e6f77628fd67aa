//! Descriptors that this process was started with.

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::sync::Mutex;

use rustix::io::{FdFlags, fcntl_getfd};

/// Those that have an owner already.
static OWNED: Mutex<Vec<RawFd>> = Mutex::new(Vec::new());

/// Takes a descriptor that whoever started this process says it passed, by the protocol of
/// sd_listen_fds(3): they begin at 3.
///
/// # Errors
/// If it is not open, or was taken before.
pub(crate) fn passed_descriptor(number: RawFd) -> io::Result<OwnedFd> {
    let mut owned = OWNED
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if number < 3 || owned.contains(&number) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: it is only asked for its flags, which fails if it is not open.
    let borrowed = unsafe { std::os::fd::BorrowedFd::borrow_raw(number) };
    let flags = fcntl_getfd(borrowed)?;
    // The marks were set by who read the variables; what this process opened is not named there.
    debug_assert!(flags.contains(FdFlags::CLOEXEC));
    owned.push(number);
    // SAFETY: whoever started this process says in LISTEN_PID and LISTEN_FDS that the number is
    // passed for this process to own; it is open, and was given out to nobody before.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}
