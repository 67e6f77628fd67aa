//! The only modules with unsafe code: the functions that take the place of libc's, the system calls
//! that are made for them, and the memory that forks share.
//!
//! Memory of the program is never looked at but for offsets that it points to, after the kernel could
//! read them; a pointer to nothing is left for it to refuse.
#![expect(
    unsafe_code,
    reason = "functions of C that take the place of libc's, and system calls"
)]

// A test would otherwise read its own files through them.
#[cfg(not(test))]
mod hooks;
#[cfg(not(test))]
mod original;
mod shared;
#[cfg(not(test))]
mod start;
pub(crate) mod sys;

pub(crate) use shared::memory;
