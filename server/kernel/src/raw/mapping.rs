//! One anonymous memory mapping, aligned for huge pages.

use std::io;
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Huge pages require both ends of the mapping to be multiples of this.
pub(super) const HUGE_PAGE_BYTES: usize = 2 << 20;

/// A mapping. It is zeroed at first, and populated on first use.
#[derive(Debug)]
pub(super) struct Mapping {
    base: NonNull<u8>,
    length: usize,
}

impl Mapping {
    /// Maps `length` bytes, a multiple of the huge page size, at an aligned address.
    pub(super) fn new(length: usize) -> io::Result<Self> {
        let base = map_aligned(length)?;
        Ok(Self { base, length })
    }

    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Populates the whole mapping now.
    ///
    /// # Errors
    /// If the system has too little memory, or does not support it (before Linux 5.14).
    pub(super) fn take(&self) -> io::Result<()> {
        let base = self.base.as_ptr().cast();
        // SAFETY: the mapping is ours and as long as that; the advice changes no content.
        unsafe { madvise(base, self.length, Advice::LinuxPopulateWrite)? };
        Ok(())
    }

    /// Returns a range to the system; its bytes are zero afterwards.
    ///
    /// # Safety
    /// The range lies within the mapping, and nothing reads or writes it meanwhile.
    pub(super) unsafe fn give_back(&self, start: usize, length: usize) -> io::Result<()> {
        // SAFETY: the mapping is private and anonymous; the caller guarantees the rest.
        unsafe {
            let base = self.base.as_ptr().add(start).cast();
            madvise(base, length, Advice::LinuxDontNeed)?;
        }
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and every pointer into it keeps its owner alive.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.length) };
        debug_assert!(unmapped.is_ok());
    }
}

fn map_aligned(length: usize) -> io::Result<NonNull<u8>> {
    let mapped = length
        .checked_add(HUGE_PAGE_BYTES)
        .ok_or(io::ErrorKind::OutOfMemory)?;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new private mapping at an address of the kernel's choice overlaps nothing.
    let start =
        unsafe { mmap_anonymous(std::ptr::null_mut(), mapped, protection, MapFlags::PRIVATE)? };
    let head = start.cast::<u8>().align_offset(HUGE_PAGE_BYTES);
    let base = start.cast::<u8>().wrapping_add(head);
    let tail = HUGE_PAGE_BYTES - head;
    // SAFETY: head and tail are whole pages at the two ends of the mapping made above, and nothing
    // points into it yet. Failing to unmap them costs only address space. The advice covers the
    // rest and changes no content; it is best effort, since huge pages may be off.
    unsafe {
        if head > 0 {
            let _ = munmap(start, head);
        }
        if tail > 0 {
            let _ = munmap(base.wrapping_add(length).cast(), tail);
        }
        let _ = madvise(base.cast(), length, Advice::LinuxHugepage);
        let _ = madvise(base.cast(), length, Advice::LinuxDontDump);
    }
    NonNull::new(base).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}
