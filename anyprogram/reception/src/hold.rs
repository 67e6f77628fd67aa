//! Pages of files that are kept in the kernel's page cache: mapped, and locked if that is allowed.
//!
//! The only unsafe code of the crate. No byte of a mapping is ever looked at, so that no change of
//! the file can raise a signal here; what the kernel cannot bring it answers with an error.
#![expect(
    unsafe_code,
    reason = "mapping files to hold their pages is done by address; no safe library locks pages"
)]

use std::fs::File;
use std::ptr;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mlock, mmap, munmap};

/// A piece of a file whose pages are held; given up when dropped.
#[derive(Debug)]
pub(crate) struct Held {
    /// Address, multiple of a page.
    address: usize,
    length: usize,
    /// Whether the kernel must keep the pages.
    pub(crate) is_locked: bool,
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: part of a mapping made below that belongs to this piece alone.
        let _ = unsafe { munmap(ptr::with_exposed_provenance_mut(self.address), self.length) };
    }
}

/// Waits until a run of bytes of a file is in memory and holds it, in pieces of `piece_bytes`.
/// `offset` and `piece_bytes` are multiples of a page. Without the right to lock, or with the limit
/// reached, pages are mapped only, and the kernel may drop them.
///
/// # Errors
/// If the file is shorter by now, or its device fails.
pub(crate) fn hold(
    file: &File,
    offset: u64,
    length: u64,
    piece_bytes: u64,
) -> rustix::io::Result<Vec<Held>> {
    let (bytes, piece) = (length as usize, piece_bytes as usize);
    if bytes == 0 || piece == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: a new mapping, which overlaps nothing; it is read-only and never looked at.
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
    let mut held: Vec<Held> = starts
        .map(|start| Held {
            address: address.expose_provenance() + start,
            length: piece.min(bytes - start),
            is_locked: false,
        })
        .collect();
    // SAFETY: the mapping made above. Pages of a mapping that is read in sequence are not counted as
    // used when it goes (`vma_has_recency`): only the program's reading counts.
    unsafe { madvise(address, bytes, Advice::Sequential) }?;
    // SAFETY: the mapping made above; the kernel reports what it cannot bring, and raises no signal.
    match unsafe { madvise(address, bytes, Advice::LinuxPopulateRead) } {
        // Before Linux 5.14 locking is what brings them.
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
    fn a_file_that_shrinks_while_it_is_held_harms_nobody() {
        let file = tempfile::tempfile().expect("a file");
        file.write_all_at(&vec![1; 300_000], 0).expect("written");
        let held = hold(&file, 0, 300_000, PIECE).expect("held");
        assert_eq!(held.len(), 5);
        file.set_len(10).expect("cut");
        drop(held);
        let error = hold(&file, PIECE, PIECE, PIECE).expect_err("it is not there");
        assert!([Errno::FAULT, Errno::NOMEM].contains(&error), "{error}");
    }

    #[test]
    fn pieces_are_given_up_one_by_one() {
        let file = tempfile::tempfile().expect("a file");
        file.write_all_at(&vec![1; 1 << 20], 0).expect("written");
        let mut held = hold(&file, PIECE, 4 * PIECE, PIECE).expect("held");
        held.remove(2);
        let again = hold(&file, 0, 1 << 20, PIECE).expect("held again");
        assert_eq!((held.len(), again.len()), (3, 16));
    }
}
