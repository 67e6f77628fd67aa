//! Copies of what is sent again and again, in a file in memory from which sockets take them without
//! a copy (`sendfile`).
//!
//! The one idea: a socket refers to such bytes until the other end has them, which nobody here is
//! told; so bytes that were given to a socket are never written over. They lie in blocks of one
//! huge page. A block is filled once, place by place; it is emptied as a whole by a hole in the
//! file: the kernel then keeps the old pages for the sockets, and what is written later comes into
//! new ones. (Less than the whole block would not do: the kernel zeroes a part of a huge page in
//! place.) The slot's own memory stays as it is beside its copy, so a copy can go at any time, and
//! HTTP/2 and TLS in this process never see this file.
//!
//! What is asked for again and again, and is in memory with what comes next, is answered from here
//! without asking the engine: nothing has to be read for whoever asks, now or next. The engine is
//! told now and then which pieces were used so, and shown a few of the requests.
//!
//! Invariants: a place is written once between two holes; no hole is made while a [`Kept`] of its
//! block lives; blocks and ghosts (holes whose old pages a socket may still hold) are bounded; what
//! is copied is bounded by what is sent.

mod table;

use std::io;
use std::num::NonZeroU32;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headlong_engine::{PartInMemory, Slot, StreamId};
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
pub(crate) use table::PieceOf;
use table::{Run, Table, Used};

/// One huge page.
pub(crate) const BLOCK_BYTES: usize = 2 << 20;
/// Of so many bytes that are sent and have a copy, or deserve one, one may be copied: where more is
/// sent again and again than there is room for, copies cost no more than this.
const SENT_FOR_COPIED: u64 = 8;
/// Most bytes of a reply from copies: what a slow reader keeps from being emptied.
const REPLY_BYTES_MAX: u64 = 8 << 20;

/// How much there is of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HotSize {
    /// Blocks that are filled.
    pub(crate) blocks: usize,
    /// Emptied blocks that sockets may still hold.
    pub(crate) ghosts_max: usize,
}

impl HotSize {
    /// So much memory in all, of which a quarter is for ghosts. `None` if that is too little to be
    /// worth it.
    pub(crate) fn of(bytes: u64) -> Option<Self> {
        let all = usize::try_from(bytes).ok()? / BLOCK_BYTES;
        let ghosts_max = all / 4;
        (ghosts_max > 0).then_some(Self {
            blocks: all - ghosts_max,
            ghosts_max,
        })
    }
}

/// What the reserve for copies holds, bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct CopiesUse {
    /// The most that it may take.
    pub budget_bytes: u64,
    /// Of blocks with anything in them.
    pub filled_bytes: u64,
    /// Of copies that are of use: the rest of `filled_bytes` waits until its block is emptied.
    pub live_bytes: u64,
    /// Of emptied blocks that sockets may still hold.
    pub held_bytes: u64,
}

/// The file, and which slot's bytes are where in it.
#[derive(Debug)]
pub(crate) struct Hot {
    file: Arc<OwnedFd>,
    /// Nothing writes through it.
    mapping: NonNull<u8>,
    length: usize,
    piece_bytes: usize,
    ghosts_max: usize,
    /// By slot: its place and one more, or zero.
    places: Box<[AtomicU32]>,
    /// By slot: the stream whose piece it has, and one more, or zero.
    streams: Box<[AtomicU64]>,
    table: Mutex<Table>,
    filling: Mutex<Filling>,
    /// Bytes that may be copied.
    credit: AtomicU64,
    #[cfg(test)]
    pub(super) skips_holes: std::sync::atomic::AtomicBool,
}

// SAFETY: nobody writes through the mapping, and what is read through it stays what it is: `bytes`.
unsafe impl Send for Hot {}
// SAFETY: as above.
unsafe impl Sync for Hot {}

/// Where the next copy goes.
#[derive(Debug, Default)]
struct Filling {
    block: Option<usize>,
    next: usize,
}

/// Bytes in the file that stay what they are as long as this exists: of some places of a block.
#[derive(Debug)]
pub(crate) struct Kept {
    place: u32,
    count: u32,
    used: Arc<Used>,
}

/// Says that a socket may hold bytes of a block, as long as it exists.
#[derive(Debug, Clone)]
pub struct Pinned(Arc<()>);

impl Pinned {
    /// Whether both are of one block.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing under these locks panics but by a bug of the tables, which would show again.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hot {
    /// An empty file for copies of pieces of that many slots.
    ///
    /// # Errors
    /// If the kernel has no such files, or pieces do not fit into blocks.
    pub(crate) fn new(slot_count: u32, piece_bytes: usize, size: HotSize) -> io::Result<Self> {
        let is_fit = piece_bytes > 0 && BLOCK_BYTES.is_multiple_of(piece_bytes);
        let length = size.blocks.checked_mul(BLOCK_BYTES);
        let length = length.filter(|length| *length > 0 && is_fit);
        let length = length.ok_or(io::ErrorKind::InvalidInput)?;
        let file = memfd_create("headlong-hot", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, length as u64)?;
        let (at, flags) = (std::ptr::null_mut(), MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
        let mapping = unsafe { mmap(at, length, ProtFlags::READ, flags, &file, 0)? };
        let mapping = NonNull::new(mapping.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self {
            file: Arc::new(file),
            mapping,
            length,
            piece_bytes,
            ghosts_max: size.ghosts_max,
            places: (0..slot_count).map(|_| AtomicU32::new(0)).collect(),
            streams: (0..slot_count).map(|_| AtomicU64::new(0)).collect(),
            table: Mutex::new(Table::new(length / piece_bytes, size.blocks)),
            filling: Mutex::default(),
            credit: AtomicU64::new(length as u64),
            #[cfg(test)]
            skips_holes: std::sync::atomic::AtomicBool::new(false),
        })
    }

    fn places_per_block(&self) -> usize {
        BLOCK_BYTES / self.piece_bytes
    }

    /// Whether there is a copy of the slot's bytes.
    pub(super) fn has(&self, slot: Slot) -> bool {
        self.places[slot.0 as usize].load(Ordering::Relaxed) != 0
    }

    /// The copy of a slot's bytes. The caller sees to it that the slot is not filled anew meanwhile.
    pub(super) fn look(&self, slot: Slot) -> Option<Kept> {
        if !self.has(slot) {
            return None;
        }
        let table = &mut *lock(&self.table);
        let place = self.places[slot.0 as usize].load(Ordering::Relaxed);
        let place = NonZeroU32::new(place)?.get() - 1;
        let used = table.look(place);
        let count = 1;
        Some(Kept { place, count, used })
    }

    /// The copies of `start..end` of a part for whose reader nothing has to be read, in runs, each with
    /// the bytes of it that are meant; `None` if there is any without one, or the engine is to see this
    /// request.
    pub(super) fn look_at(
        &self,
        of: (StreamId, u32),
        (start, end): (u64, u64),
    ) -> Option<impl ExactSizeIterator<Item = (Kept, u32, u32)> + use<>> {
        let piece = self.piece_bytes as u64;
        let last = end.checked_sub(1).filter(|last| *last >= start)? / piece;
        let first = start / piece;
        if end - start > REPLY_BYTES_MAX {
            return None;
        }
        let numbers = u32::try_from(first).ok()?..=u32::try_from(last).ok()?;
        let found = lock(&self.table).find(of, numbers, (start, end))?;
        self.earn(end - start);
        let mut run_start = first * piece;
        let meant = move |Run { place, count, used }: Run| {
            let bytes = u64::from(count) * piece;
            let from = start.saturating_sub(run_start);
            let to = (end - run_start).min(bytes);
            run_start += bytes;
            (Kept { place, count, used }, from as u32, to as u32)
        };
        Some(found.into_iter().map(meant))
    }

    /// The slots whose copies [`Hot::look_at`] gave since the last call.
    pub(super) fn take_used(&self) -> Vec<Slot> {
        lock(&self.table).take_used()
    }

    /// Requests, and bytes, that were answered without the engine.
    pub(super) fn unseen(&self) -> (u64, u64) {
        lock(&self.table).unseen
    }

    /// So many bytes are sent that have a copy, or deserve one.
    pub(super) fn earn(&self, bytes: u64) {
        let more = bytes / SENT_FOR_COPIED;
        // Where all has been copied, nobody writes here.
        if self.credit.load(Ordering::Relaxed) >= self.length as u64 {
            return;
        }
        let before = self.credit.fetch_add(more, Ordering::Relaxed);
        if before + more > self.length as u64 {
            self.credit.store(self.length as u64, Ordering::Relaxed);
        }
    }

    fn may_copy(&self, bytes: usize) -> bool {
        let take = |credit: u64| credit.checked_sub(bytes as u64);
        let order = Ordering::Relaxed;
        self.credit.fetch_update(order, order, take).is_ok()
    }

    /// A slot has a piece of a stream, or is to get one.
    pub(super) fn note_stream(&self, slot: Slot, stream: StreamId) {
        self.streams[slot.0 as usize].store(stream.0.wrapping_add(1), Ordering::Relaxed);
    }

    /// Whether it is worth finding out what of a stream is in memory.
    pub(super) fn asks_for(&self, stream: StreamId) -> bool {
        lock(&self.table).asks_for(stream)
    }

    /// So much of a stream is in memory.
    pub(super) fn set_resident(&self, stream: StreamId, of_it: PartInMemory) {
        lock(&self.table).set_resident(stream, of_it);
    }

    /// The engine knows a stream no more.
    pub(super) fn set_missing(&self, stream: StreamId) {
        lock(&self.table).set_missing(stream);
    }

    /// The slot is about to be filled anew: its copy is of no use any more.
    pub(super) fn forget(&self, slot: Slot) {
        let stream = self.streams[slot.0 as usize].swap(0, Ordering::Relaxed);
        let has_stream = stream != 0;
        if !has_stream && !self.has(slot) {
            return;
        }
        let table = &mut *lock(&self.table);
        if has_stream {
            table.set_missing(StreamId(stream.wrapping_sub(1)));
        }
        let place = self.places[slot.0 as usize].swap(0, Ordering::Relaxed);
        if let Some(place) = NonZeroU32::new(place) {
            table.forget(place.get() - 1);
        }
    }

    /// Copies a slot's bytes, all of them. The caller sees to it that the slot is not filled anew
    /// meanwhile. May take a millisecond.
    pub(super) fn keep(&self, slot: Slot, of: Option<PieceOf>, bytes: &[u8]) {
        debug_assert_eq!(bytes.len(), self.piece_bytes);
        let filling = &mut *lock(&self.filling);
        if self.has(slot) || !self.may_copy(bytes.len()) {
            return;
        }
        let Some(place) = self.next_place(filling) else {
            return;
        };
        let offset = place * self.piece_bytes;
        let mut written = 0;
        while written < bytes.len() {
            let at = (offset + written) as u64;
            match rustix::io::pwrite(&*self.file, &bytes[written..], at) {
                Ok(count) if count > 0 => written += count,
                Err(rustix::io::Errno::INTR) => {}
                // No memory: the place stays unused until its block is emptied.
                _ => return,
            }
        }
        let table = &mut *lock(&self.table);
        table.add(place, slot, of);
        self.places[slot.0 as usize].store(place as u32 + 1, Ordering::Relaxed);
    }

    /// Empties all blocks whose copies are of no use any more.
    pub(super) fn vacate(&self) {
        let filling = &mut *lock(&self.filling);
        let table = &mut *lock(&self.table);
        for at in 0..table.blocks.len() {
            let block = &table.blocks[at];
            if block.is_hole || block.live > 0 || !block.is_left() {
                continue;
            }
            if !self.is_bounded_with(table, at) || !self.make_hole(at) {
                continue;
            }
            let block = &mut table.blocks[at];
            block.is_hole = true;
            let old = std::mem::take(&mut block.used_by);
            table.ghosts.push(Arc::clone(&old.pin));
            if filling.block == Some(at) {
                *filling = Filling::default();
            }
        }
    }

    /// A place that was not written since its block was emptied.
    fn next_place(&self, filling: &mut Filling) -> Option<usize> {
        let per_block = self.places_per_block();
        if filling.block.is_none() || filling.next == per_block {
            let empty = self.empty_block(filling.block)?;
            *filling = Filling {
                block: Some(empty),
                next: 0,
            };
        }
        let place = filling.block? * per_block + filling.next;
        filling.next += 1;
        Some(place)
    }

    /// A block without anything in it: one that is empty, or whose copies are all of no use, or that
    /// was used least of late. `full` is what was filled last.
    fn empty_block(&self, full: Option<usize>) -> Option<usize> {
        let mut table = lock(&self.table);
        let chosen = table.unused_block().or_else(|| {
            let (owners, block) = table.take_least_used(full);
            for slot in owners {
                self.places[slot.0 as usize].store(0, Ordering::Relaxed);
            }
            block
        });
        let chosen = chosen?;
        if !table.blocks[chosen].is_hole {
            // Nobody looks at it, and nobody can: no slot has a copy there.
            if !self.is_bounded_with(&mut table, chosen) || !self.make_hole(chosen) {
                return None;
            }
            let old = std::mem::take(&mut table.blocks[chosen].used_by);
            table.ghosts.push(Arc::clone(&old.pin));
        }
        table.blocks[chosen].begin();
        drop(table);
        self.collapse(chosen);
        Some(chosen)
    }

    /// Whether what sockets may hold stays bounded if one more block is emptied.
    fn is_bounded_with(&self, table: &mut Table, block: usize) -> bool {
        table.ghosts.retain(|pin| Arc::strong_count(pin) > 1);
        let is_pinned = Arc::strong_count(&table.blocks[block].used_by.pin) > 1;
        !is_pinned || table.ghosts.len() < self.ghosts_max
    }

    /// Gives the block's pages to those who still hold them.
    fn make_hole(&self, block: usize) -> bool {
        #[cfg(test)]
        if self.skips_holes.load(Ordering::Relaxed) {
            return true;
        }
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let offset = (block * BLOCK_BYTES) as u64;
        fallocate(&*self.file, mode, offset, BLOCK_BYTES as u64).is_ok()
    }

    /// Makes an empty block one huge page, if the kernel can; small pages serve too.
    fn collapse(&self, block: usize) {
        let offset = block * BLOCK_BYTES;
        // The kernel refuses where there is no page at all.
        if rustix::io::pwrite(&*self.file, &[0], offset as u64) != Ok(1) {
            return;
        }
        // SAFETY: the range is within our mapping; the advice changes no content and no address.
        unsafe {
            let start = self.mapping.as_ptr().add(offset);
            libc::madvise(start.cast(), BLOCK_BYTES, libc::MADV_COLLAPSE);
        }
    }

    /// What there is now.
    pub(super) fn usage(&self) -> CopiesUse {
        let table = &mut *lock(&self.table);
        table.ghosts.retain(|pin| Arc::strong_count(pin) > 1);
        let filled = table.blocks.iter().filter(|block| !block.is_hole).count();
        let live: u64 = table.blocks.iter().map(|block| u64::from(block.live)).sum();
        let bytes = |blocks: usize| (blocks * BLOCK_BYTES) as u64;
        CopiesUse {
            budget_bytes: bytes(table.blocks.len() + self.ghosts_max),
            filled_bytes: bytes(filled),
            live_bytes: live * self.piece_bytes as u64,
            held_bytes: bytes(table.ghosts.len()),
        }
    }

    /// The bytes of some copies.
    pub(super) fn bytes<'a>(&'a self, kept: &'a Kept, start: u32, end: u32) -> &'a [u8] {
        let offset = kept.place as usize * self.piece_bytes;
        assert!(
            start <= end && end as usize <= kept.count as usize * self.piece_bytes,
            "beyond the copy"
        );
        // SAFETY: the places were written before anybody could have a `Kept` of them, and are neither
        // written nor emptied as long as that lives; they are within the file, whose length never
        // changes, and within the mapping, which lives as long as `self`.
        unsafe {
            let base = self.mapping.as_ptr().add(offset + start as usize);
            std::slice::from_raw_parts(base, (end - start) as usize)
        }
    }

    /// Where in the file they begin.
    pub(super) fn offset(&self, kept: &Kept) -> u64 {
        u64::from(kept.place) * self.piece_bytes as u64
    }

    /// The file.
    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Kept {
    /// To be held as long as a socket may hold what it was given of this.
    pub(super) fn pin(&self) -> Pinned {
        Pinned(Arc::clone(&self.used.pin))
    }
}

impl Drop for Hot {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing points into it.
        let unmapped = unsafe { munmap(self.mapping.as_ptr().cast(), self.length) };
        debug_assert!(unmapped.is_ok());
    }
}

#[cfg(test)]
#[path = "hot_tests.rs"]
mod tests;
