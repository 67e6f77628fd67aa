//! The only modules with unsafe code: the functions that interpose libc's, the system calls made on
//! their behalf, and the memory shared with forks.
//!
//! Memory of the program is read only for offsets passed by pointer, and only after the kernel was
//! able to read them; the kernel rejects invalid pointers.
#![expect(
    unsafe_code,
    reason = "C functions that interpose libc's, and system calls"
)]

// Otherwise a test would read its own files through the hooks.
#[cfg(not(test))]
mod hooks;
#[cfg(not(test))]
mod original;
mod shared;
#[cfg(not(test))]
mod start;
pub(crate) mod sys;

pub(crate) use shared::memory;
