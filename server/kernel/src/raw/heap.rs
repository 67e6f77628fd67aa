//! Returning free memory of the heap to the kernel.
//!
//! The allocator of the C library keeps memory that was freed in the middle of its arenas: 64,000
//! requests over HTTP/2 left ten times the process's size behind, indefinitely. mimalloc kept more
//! of it.

/// Releases all free pages of the heap. A thread that allocates meanwhile waits until its arena has
/// been walked: some milliseconds after a flood, microseconds otherwise.
pub fn trim_heap() {
    #[cfg(all(target_env = "gnu", not(miri)))]
    // SAFETY: the function only touches the allocator's own data, under the allocator's locks; it
    // may be called from any thread at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
