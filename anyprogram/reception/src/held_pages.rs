//! Holds pages of files in the kernel's page cache: maps them, and locks them if permitted.
//!
//! The only unsafe code of the crate. No byte of a mapping is ever accessed, so a change of the
//! file cannot raise a signal; the kernel reports pages that it cannot load as an error.
#![expect(
    unsafe_code,
    reason = "mapping files to hold their pages is done by address; no safe library locks pages"
)]

use std::fs::File;
use std::ptr;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mlock, mmap, munmap};

/// A piece of a file whose pages are held; released when dropped.
#[derive(Debug)]
pub(crate) struct HeldPages {
    /// Page-aligned address.
    address: usize,
    length: usize,
    /// Whether the pages are locked.
    pub(crate) is_locked: bool,
}

impl Drop for HeldPages {
    fn drop(&mut self) {
        // SAFETY: part of a mapping made below, owned by this piece alone.
        let _ = unsafe { munmap(ptr::with_exposed_provenance_mut(self.address), self.length) };
    }
}

/// Waits until a byte range of a file is in memory and holds it, in pieces of `piece_bytes`.
/// `offset` and `piece_bytes` are multiples of the page size. Without permission to lock, or beyond
/// the limit, pages are only mapped, and the kernel may drop them.
///
/// # Errors
/// If the file has become shorter, or its device fails.
pub(crate) fn hold(
    file: &File,
    offset: u64,
    length: u64,
    piece_bytes: u64,
) -> rustix::io::Result<Vec<HeldPages>> {
    let (bytes, piece) = (length as usize, piece_bytes as usize);
    if bytes == 0 || piece == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: a new mapping, which overlaps nothing; it is read-only and never accessed.
    let address = unsafe {
        mmap(
            ptr::null_mut(),
            bytes,
            ProtFlags::READ,
            MapFlags::SHARED,
            file,
            offset,
        )
    }?;
    let starts = (0..bytes).step_by(piece);
    let mut held: Vec<HeldPages> = starts
        .map(|start| HeldPages {
            address: address.expose_provenance() + start,
            length: piece.min(bytes - start),
            is_locked: false,
        })
        .collect();
    // SAFETY: the mapping made above. Unmapping a sequential mapping does not count its pages as
    // used (`vma_has_recency`): only the program's own reads count.
    unsafe { madvise(address, bytes, Advice::Sequential) }?;
    // SAFETY: the mapping made above; the kernel reports pages it cannot load, without a signal.
    match unsafe { madvise(address, bytes, Advice::LinuxPopulateRead) } {
        // Before Linux 5.14, `mlock` loads the pages.
        Ok(()) | Err(Errno::INVAL) => {}
        Err(error) => return Err(error),
    }
    // SAFETY: the mapping made above.
    let locked = unsafe { mlock(address, bytes) };
    for piece in &mut held {
        piece.is_locked = locked.is_ok();
    }
    Ok(held)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;

    const PIECE: u64 = 64 << 10;

    #[test]
    fn truncating_a_held_file_is_harmless() {
        let file = tempfile::tempfile().expect("a file");
        file.write_all_at(&vec![1; 300_000], 0).expect("written");
        let held = hold(&file, 0, 300_000, PIECE).expect("held");
        assert_eq!(held.len(), 5);
        file.set_len(10).expect("cut");
        drop(held);
        let error = hold(&file, PIECE, PIECE, PIECE).expect_err("beyond the end");
        assert!([Errno::FAULT, Errno::NOMEM].contains(&error), "{error}");
    }

    #[test]
    fn pieces_are_released_one_by_one() {
        let file = tempfile::tempfile().expect("a file");
        file.write_all_at(&vec![1; 1 << 20], 0).expect("written");
        let mut held = hold(&file, PIECE, 4 * PIECE, PIECE).expect("held");
        held.remove(2);
        let again = hold(&file, 0, 1 << 20, PIECE).expect("held again");
        assert_eq!((held.len(), again.len()), (3, 16));
    }
}
