//! The memory shared by a program and its forks.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::memory::SharedState;

/// Used until the shared one is mapped, and if mapping fails.
static OWN: SharedState = SharedState::new();
static SHARED: AtomicPtr<SharedState> = AtomicPtr::new(ptr::null_mut());

/// Maps it once, before the program's `main`.
pub(super) fn map() {
    // SAFETY: a new anonymous mapping, which overlaps nothing.
    let mapping = unsafe {
        libc::mmap(
            ptr::null_mut(),
            size_of::<SharedState>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if mapping != libc::MAP_FAILED {
        SHARED.store(mapping.cast(), Ordering::Release);
    }
}

/// The shared state of the program and its forks.
pub(crate) fn memory() -> &'static SharedState {
    let shared = SHARED.load(Ordering::Acquire);
    // SAFETY: null, or a mapping of the size and at least the alignment of a `SharedState` that is never
    // unmapped. All zero is a `SharedState`, as it consists of atomic integers.
    unsafe { shared.as_ref() }.unwrap_or(&OWN)
}
