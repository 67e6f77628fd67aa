//! Sendfile cache: copies of frequently sent pieces in a memfd, from which sockets take them
//! without another copy.
//!
//! A socket refers to such pages until the peer has acknowledged them, and the kernel does not
//! report when that happens. Therefore bytes given to a socket are never overwritten. The file
//! consists of blocks of one huge page. A block is filled once, place by place, and emptied as a
//! whole by punching a hole: the kernel keeps the old pages for the sockets, and later writes go to
//! new pages. (A smaller hole does not work: the kernel zeroes part of a huge page in place.) The
//! slot keeps its own memory beside the copy, so a copy can be dropped at any time; HTTP/2 and TLS
//! in this process do not use this file.
//!
//! A frequent request whose bytes are cached together with the data ahead is answered from here
//! without the engine, since nothing has to be read for it. The engine is notified occasionally of
//! the pieces used, and sees a sample of the requests.
//!
//! Invariants: a place is written once between two holes; no hole is punched while a [`CopyGuard`] of
//! its block exists; blocks and ghosts (punched blocks whose old pages a socket may still hold) are
//! bounded; the bytes copied are bounded by the bytes sent.

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
pub use table::PieceIdentity;
use table::{BlockGeneration, CopyRun, CopyTable};

/// Size of a block: one huge page.
pub(crate) const BLOCK_BYTES: usize = 2 << 20;
/// One byte may be copied per this many bytes sent that have a copy or deserve one. It bounds the
/// cost of copying if the frequently sent data exceeds the cache.
const SENT_FOR_COPIED: u64 = 8;
/// Upper limit of a reply from copies: it bounds the blocks that a slow reader keeps from being
/// emptied.
const REPLY_BYTES_MAX: u64 = 8 << 20;

/// Size of the sendfile cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendfileCacheSize {
    /// Blocks that hold copies.
    pub(crate) blocks: usize,
    /// Upper limit of punched blocks that sockets may still hold.
    pub(crate) ghosts_max: usize,
}

impl SendfileCacheSize {
    /// Divides `bytes` of memory; a quarter is reserved for ghosts. `None` if it is too small to be
    /// useful.
    pub fn of(bytes: u64) -> Option<Self> {
        let all = usize::try_from(bytes).ok()? / BLOCK_BYTES;
        let ghosts_max = all / 4;
        (ghosts_max > 0).then_some(Self {
            blocks: all - ghosts_max,
            ghosts_max,
        })
    }
}

/// Memory use of the sendfile cache, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct SendfileCacheUse {
    /// Upper limit.
    pub budget_bytes: u64,
    /// Size of the non-empty blocks.
    pub filled_bytes: u64,
    /// Size of the valid copies; the rest of `filled_bytes` is free once its block is emptied.
    pub live_bytes: u64,
    /// Size of punched blocks that sockets may still hold.
    pub held_bytes: u64,
}

/// The sendfile cache: the file, and the place of each slot's copy in it.
#[derive(Debug)]
pub(crate) struct SendfileCache {
    file: Arc<OwnedFd>,
    /// Read-only by convention: nothing writes through it.
    mapping: NonNull<u8>,
    length: usize,
    piece_bytes: usize,
    ghosts_max: usize,
    /// Per slot: its place plus one, or zero.
    places: Box<[AtomicU32]>,
    /// Per slot: the stream of its piece plus one, or zero.
    streams: Box<[AtomicU64]>,
    table: Mutex<CopyTable>,
    filling: Mutex<CopyCursor>,
    /// Bytes that may be copied.
    credit: AtomicU64,
    #[cfg(test)]
    pub(super) skips_holes: std::sync::atomic::AtomicBool,
}

// SAFETY: nothing writes through the mapping, and bytes read through it never change: see `bytes`.
unsafe impl Send for SendfileCache {}
// SAFETY: as above.
unsafe impl Sync for SendfileCache {}

/// The next free place.
#[derive(Debug, Default)]
struct CopyCursor {
    block: Option<usize>,
    next: usize,
}

/// Guard of some places of a block: their bytes do not change while it exists.
#[derive(Debug, Clone)]
pub(crate) struct CopyGuard {
    place: u32,
    count: u32,
    used: Arc<BlockGeneration>,
}

/// Guard that marks a block as possibly referenced by a socket.
#[derive(Debug, Clone)]
pub struct BlockPin(Arc<()>);

impl BlockPin {
    /// Whether both belong to the same block.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Code under these locks panics only by a bug in the tables, which would show up again.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SendfileCache {
    /// Creates an empty file for pieces of `slot_count` slots.
    ///
    /// # Errors
    /// If the kernel has no memfd, or a block is not a multiple of the piece size.
    pub(crate) fn new(
        slot_count: u32,
        piece_bytes: usize,
        size: SendfileCacheSize,
    ) -> io::Result<Self> {
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
            table: Mutex::new(CopyTable::new(length / piece_bytes, size.blocks)),
            filling: Mutex::default(),
            credit: AtomicU64::new(length as u64),
            #[cfg(test)]
            skips_holes: std::sync::atomic::AtomicBool::new(false),
        })
    }

    fn places_per_block(&self) -> usize {
        BLOCK_BYTES / self.piece_bytes
    }

    /// Whether the slot has a copy.
    pub(super) fn has(&self, slot: Slot) -> bool {
        self.places[slot.0 as usize].load(Ordering::Relaxed) != 0
    }

    /// The copy of a slot. The caller ensures that the slot is not refilled meanwhile.
    pub(super) fn lookup(&self, slot: Slot) -> Option<CopyGuard> {
        if !self.has(slot) {
            return None;
        }
        let table = &mut *lock(&self.table);
        let place = self.places[slot.0 as usize].load(Ordering::Relaxed);
        let place = NonZeroU32::new(place)?.get() - 1;
        let used = table.count_use(place);
        let count = 1;
        Some(CopyGuard { place, count, used })
    }

    /// The copies of `start..end` of a part in runs, each with the requested range of its bytes, of
    /// which `sent_bytes` will be sent. `None` if a piece has no copy, if the reader would need a
    /// read, or if the engine is to see this request.
    pub(super) fn look_at(
        &self,
        of: (StreamId, u32),
        (start, end): (u64, u64),
        sent_bytes: u64,
    ) -> Option<impl ExactSizeIterator<Item = (CopyGuard, u32, u32)> + use<>> {
        let piece = self.piece_bytes as u64;
        let last = end.checked_sub(1).filter(|last| *last >= start)? / piece;
        let first = start / piece;
        if end - start > REPLY_BYTES_MAX {
            return None;
        }
        let numbers = u32::try_from(first).ok()?..=u32::try_from(last).ok()?;
        let found = lock(&self.table).find(of, numbers, (start, end), sent_bytes)?;
        self.earn(sent_bytes);
        let mut run_start = first * piece;
        let meant = move |CopyRun { place, count, used }: CopyRun| {
            let bytes = u64::from(count) * piece;
            let from = start.saturating_sub(run_start);
            let to = (end - run_start).min(bytes);
            run_start += bytes;
            (CopyGuard { place, count, used }, from as u32, to as u32)
        };
        Some(found.into_iter().map(meant))
    }

    /// The slots whose copies [`SendfileCache::look_at`] returned since the last call.
    pub(super) fn take_used(&self) -> Vec<Slot> {
        lock(&self.table).take_used()
    }

    /// Number of requests and bytes served without the engine.
    pub(super) fn unseen(&self) -> (u64, u64) {
        lock(&self.table).unseen
    }

    /// Adds credit for bytes sent that have a copy or deserve one.
    pub(super) fn earn(&self, bytes: u64) {
        let more = bytes / SENT_FOR_COPIED;
        // Avoid the write when everything is copied already.
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

    /// A slot holds, or will hold, a piece of a stream.
    pub(super) fn note_stream(&self, slot: Slot, stream: StreamId) {
        self.streams[slot.0 as usize].store(stream.0.wrapping_add(1), Ordering::Relaxed);
    }

    /// Whether it is worth determining which range of a stream is in memory.
    pub(super) fn asks_for(&self, stream: StreamId) -> bool {
        lock(&self.table).asks_for(stream)
    }

    /// Sets the range of a stream that is in memory.
    pub(super) fn set_resident(&self, stream: StreamId, of_it: PartInMemory) {
        lock(&self.table).set_resident(stream, of_it);
    }

    /// The engine has forgotten a stream.
    pub(super) fn set_missing(&self, stream: StreamId) {
        lock(&self.table).set_missing(stream);
    }

    /// The slot is about to be refilled: its copy becomes invalid.
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

    /// Copies all bytes of a slot. The caller ensures that the slot is not refilled meanwhile. May
    /// take a millisecond.
    pub(super) fn copy_slot(&self, slot: Slot, of: Option<PieceIdentity>, bytes: &[u8]) {
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
                // Out of memory: the place stays unused until its block is emptied.
                _ => return,
            }
        }
        let table = &mut *lock(&self.table);
        table.add(place, slot, of);
        self.places[slot.0 as usize].store(place as u32 + 1, Ordering::Relaxed);
    }

    /// Empties all blocks without a valid copy.
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
                *filling = CopyCursor::default();
            }
        }
    }

    /// A place that has not been written since its block was emptied.
    fn next_place(&self, filling: &mut CopyCursor) -> Option<usize> {
        let per_block = self.places_per_block();
        if filling.block.is_none() || filling.next == per_block {
            let empty = self.empty_block(filling.block)?;
            *filling = CopyCursor {
                block: Some(empty),
                next: 0,
            };
        }
        let place = filling.block? * per_block + filling.next;
        filling.next += 1;
        Some(place)
    }

    /// An empty block: unused, without valid copies, or the least recently used one after emptying
    /// it. `full` is the block filled last.
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
            // No one reads it, and no one can: no slot has a copy there.
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

    /// Whether the bytes held by sockets stay bounded if one more block is emptied.
    fn is_bounded_with(&self, table: &mut CopyTable, block: usize) -> bool {
        table.ghosts.retain(|pin| Arc::strong_count(pin) > 1);
        let is_pinned = Arc::strong_count(&table.blocks[block].used_by.pin) > 1;
        !is_pinned || table.ghosts.len() < self.ghosts_max
    }

    /// Detaches the block's pages, which sockets may still hold.
    fn make_hole(&self, block: usize) -> bool {
        #[cfg(test)]
        if self.skips_holes.load(Ordering::Relaxed) {
            return true;
        }
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let offset = (block * BLOCK_BYTES) as u64;
        fallocate(&*self.file, mode, offset, BLOCK_BYTES as u64).is_ok()
    }

    /// Collapses an empty block into one huge page if the kernel supports it; small pages work too.
    fn collapse(&self, block: usize) {
        let offset = block * BLOCK_BYTES;
        // The kernel refuses if the range has no page at all.
        if rustix::io::pwrite(&*self.file, &[0], offset as u64) != Ok(1) {
            return;
        }
        // SAFETY: the range is within our mapping; the advice changes no content and no address.
        unsafe {
            let start = self.mapping.as_ptr().add(offset);
            libc::madvise(start.cast(), BLOCK_BYTES, libc::MADV_COLLAPSE);
        }
    }

    /// Current memory use.
    pub(super) fn usage(&self) -> SendfileCacheUse {
        let table = &mut *lock(&self.table);
        table.ghosts.retain(|pin| Arc::strong_count(pin) > 1);
        let filled = table.blocks.iter().filter(|block| !block.is_hole).count();
        let live: u64 = table.blocks.iter().map(|block| u64::from(block.live)).sum();
        let bytes = |blocks: usize| (blocks * BLOCK_BYTES) as u64;
        SendfileCacheUse {
            budget_bytes: bytes(table.blocks.len() + self.ghosts_max),
            filled_bytes: bytes(filled),
            live_bytes: live * self.piece_bytes as u64,
            held_bytes: bytes(table.ghosts.len()),
        }
    }

    /// The bytes of some copies.
    pub(super) fn bytes<'a>(&'a self, kept: &'a CopyGuard, start: u32, end: u32) -> &'a [u8] {
        let offset = kept.place as usize * self.piece_bytes;
        assert!(
            start <= end && end as usize <= kept.count as usize * self.piece_bytes,
            "range exceeds the copy"
        );
        // SAFETY: the places were written before a `CopyGuard` of them could exist, and are neither
        // written nor emptied while it exists; they are within the file, whose length never
        // changes, and within the mapping, which lives as long as `self`.
        unsafe {
            let base = self.mapping.as_ptr().add(offset + start as usize);
            std::slice::from_raw_parts(base, (end - start) as usize)
        }
    }

    /// File offset of the first byte.
    pub(super) fn offset(&self, kept: &CopyGuard) -> u64 {
        u64::from(kept.place) * self.piece_bytes as u64
    }

    /// The file.
    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl CopyGuard {
    /// Guard to hold as long as a socket may refer to these bytes.
    pub(super) fn pin(&self) -> BlockPin {
        BlockPin(Arc::clone(&self.used.pin))
    }
}

impl Drop for SendfileCache {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing points into it.
        let unmapped = unsafe { munmap(self.mapping.as_ptr().cast(), self.length) };
        debug_assert!(unmapped.is_ok());
    }
}

#[cfg(test)]
#[path = "sendfile_cache_tests.rs"]
mod tests;
