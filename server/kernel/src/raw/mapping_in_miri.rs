//! Heap substitute of `mapping.rs` for Miri, which supports neither `madvise` nor partial
//! unmapping.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::io;
use std::ptr::NonNull;

pub(super) const HUGE_PAGE_BYTES: usize = 2 << 20;

#[derive(Debug)]
pub(super) struct Mapping {
    base: NonNull<u8>,
    layout: Layout,
}

impl Mapping {
    pub(super) fn new(length: usize) -> io::Result<Self> {
        let layout = Layout::from_size_align(length, HUGE_PAGE_BYTES).map_err(io::Error::other)?;
        // SAFETY: the layout has a size above zero.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) });
        let base = base.ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, layout })
    }

    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(super) fn length(&self) -> usize {
        self.layout.size()
    }

    pub(super) fn take(&self) -> io::Result<()> {
        Ok(())
    }

    /// # Safety
    /// The range lies within the mapping, and nothing reads or writes it meanwhile.
    pub(super) unsafe fn give_back(&self, start: usize, length: usize) -> io::Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.base.as_ptr().add(start).write_bytes(0, length) };
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}
