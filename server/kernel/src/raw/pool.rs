//! Memory pool: one anonymous mapping divided into equal slots, which disks fill in place.
//! Optionally with a sendfile cache of frequently sent pieces ([`SendfileCache`]).
//!
//! Each slot is free, *leased* by the one read that fills it, or *viewed* by the replies that send
//! it. A counter per slot keeps these states apart: an invalid request returns `None` instead of
//! causing a data race. Leases and views keep the mapping alive. Memory is populated when it is
//! first filled, so an idle pool costs only address space.

use std::io::{self, IoSliceMut};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use headlong_engine::{PartInMemory, Slot, StreamId};

use super::mapping::{HUGE_PAGE_BYTES, Mapping};
use super::sendfile_cache::{
    BlockPin, CopyGuard, PieceIdentity, SendfileCache, SendfileCacheSize, SendfileCacheUse,
};

/// State of a leased slot; smaller numbers count its views.
const LEASED: u32 = u32::MAX;

/// Below this size, copying into the socket costs less than a separate system call.
const SENT_FROM_FILE_MIN: u32 = 32 << 10;
/// A slot viewed this often counts as frequently sent. Two views may come from one reader whose
/// ranges end within a piece.
const HOT_LOOKS: u8 = 3;

/// Memory for all pieces of one device.
#[derive(Debug)]
pub struct Pool {
    memory: Mapping,
    piece_bytes: usize,
    states: Box<[AtomicU32]>,
    /// Per slot: number of views since it was filled.
    looks: Box<[AtomicU8]>,
    /// The sendfile cache.
    hot: Option<SendfileCache>,
}

// SAFETY: the mapping belongs to this pool. Its bytes are reached only through leases and views,
// and the states, which are atomic, keep those apart.
unsafe impl Send for Pool {}
// SAFETY: as above; no method touches the mapped bytes without owning the slot's state.
unsafe impl Sync for Pool {}

impl Pool {
    /// A pool without a sendfile cache.
    ///
    /// # Errors
    /// As [`Pool::with_sendfile_cache`].
    pub fn new(slot_count: u32, piece_bytes: usize) -> io::Result<Arc<Self>> {
        Self::with_sendfile_cache(slot_count, piece_bytes, None)
    }

    /// Maps memory for `slot_count` pieces, plus the sendfile cache if the kernel supports it.
    /// Fails if the address space or the kernel's commit limit is too small for the pieces.
    pub fn with_sendfile_cache(
        slot_count: u32,
        piece_bytes: usize,
        size: Option<SendfileCacheSize>,
    ) -> io::Result<Arc<Self>> {
        let length = usize::try_from(slot_count)
            .ok()
            .and_then(|count| count.checked_mul(piece_bytes))
            .and_then(|bytes| bytes.checked_next_multiple_of(HUGE_PAGE_BYTES))
            .filter(|bytes| *bytes > 0)
            .ok_or(io::ErrorKind::OutOfMemory)?;
        let memory = Mapping::new(length)?;
        let states = (0..slot_count).map(|_| AtomicU32::new(0)).collect();
        let looks = (0..slot_count).map(|_| AtomicU8::new(0)).collect();
        let hot = size.and_then(|size| SendfileCache::new(slot_count, piece_bytes, size).ok());
        Ok(Arc::new(Self {
            memory,
            piece_bytes,
            states,
            looks,
            hot,
        }))
    }

    /// Whether there is a sendfile cache.
    pub fn has_hot(&self) -> bool {
        self.hot.is_some()
    }

    /// Memory use of the sendfile cache, if there is one.
    pub fn sendfile_cache_use(&self) -> Option<SendfileCacheUse> {
        self.hot.as_ref().map(SendfileCache::usage)
    }

    /// Number of requests and bytes served from the sendfile cache without the engine.
    pub fn unseen(&self) -> (u64, u64) {
        self.hot.as_ref().map_or((0, 0), SendfileCache::unseen)
    }

    /// The bytes `start..end` of a part of a stream from the sendfile cache, if they can be sent
    /// without the engine: the data ahead is in memory too, and the range is requested frequently.
    /// The caller sends `sent_bytes` of them.
    pub fn copies(
        self: Arc<Self>,
        of: (StreamId, u32),
        range: (u64, u64),
        sent_bytes: u64,
    ) -> Option<impl Iterator<Item = PieceView> + use<>> {
        let copies = self.hot.as_ref()?.look_at(of, range, sent_bytes)?;
        let view = move |((kept, start, end), pool)| PieceView {
            pool,
            slot: None,
            start,
            end,
            of: None,
            kept: Some(kept),
        };
        // Usually there is only one, which takes this reference.
        let pools = std::iter::repeat_n(self, copies.len());
        Some(copies.zip(pools).map(view))
    }

    /// The slots whose copies [`Pool::copies`] returned since the last call.
    pub fn take_used(&self) -> Vec<Slot> {
        self.hot
            .as_ref()
            .map_or_else(Vec::new, SendfileCache::take_used)
    }

    /// Whether [`Pool::set_resident`] would be useful.
    pub fn asks_for(&self, stream: StreamId) -> bool {
        self.hot.as_ref().is_some_and(|hot| hot.asks_for(stream))
    }

    /// Sets the range of a stream that is in memory; valid until one of its slots is leased.
    pub fn set_resident(&self, stream: StreamId, of_it: PartInMemory) {
        if let Some(hot) = &self.hot {
            hot.set_resident(stream, of_it);
        }
    }

    /// A stream was unregistered.
    pub fn set_missing(&self, stream: StreamId) {
        if let Some(hot) = &self.hot {
            hot.set_missing(stream);
        }
    }

    /// These slots hold, or will hold, pieces of a stream.
    pub fn note_stream(&self, slots: &[Slot], stream: StreamId) {
        if let Some(hot) = &self.hot {
            slots.iter().for_each(|slot| hot.note_stream(*slot, stream));
        }
    }

    /// Populates all memory now instead of on first use.
    ///
    /// # Errors
    /// If the system has too little memory, or does not support it (before Linux 5.14).
    pub fn prefault(&self) -> io::Result<()> {
        self.memory.take()
    }

    /// Leases `slots`, which must all be free, to be filled in this order. Returns `None` and
    /// leases nothing if a slot does not exist, is in use, or is listed twice.
    pub fn lease(self: &Arc<Self>, slots: &[Slot]) -> Option<Lease> {
        // Slots taken before a failure are released when the unfinished lease is dropped.
        let mut lease = Lease {
            pool: Arc::clone(self),
            slots: Vec::with_capacity(slots.len()),
        };
        for slot in slots {
            let state = self.states.get(slot.0 as usize)?;
            state
                .compare_exchange(0, LEASED, Ordering::Acquire, Ordering::Relaxed)
                .ok()?;
            lease.slots.push(*slot);
            self.looks[slot.0 as usize].store(0, Ordering::Relaxed);
            if let Some(hot) = &self.hot {
                hot.forget(*slot);
            }
        }
        Some(lease)
    }

    /// Copies bytes to the start of a slot. Returns whether it is free and they fit.
    pub fn fill(self: &Arc<Self>, slot: Slot, bytes: &[u8]) -> bool {
        let Some(mut lease) = self.lease(&[slot]) else {
            return false;
        };
        let length = bytes.len() as u64;
        match &mut lease.slices(0, length, 1)[..] {
            [to] if to.len() == bytes.len() => {
                to.copy_from_slice(bytes);
                true
            }
            _ => false,
        }
    }

    /// Returns the memory of a slot to the system if the slot is free; the slot reads as zero
    /// afterwards. Returns whether that was done.
    pub fn vacate(&self, slot: Slot) -> bool {
        let Some(state) = self.states.get(slot.0 as usize) else {
            return false;
        };
        let order = (Ordering::Acquire, Ordering::Relaxed);
        if state.compare_exchange(0, LEASED, order.0, order.1).is_err() {
            return false;
        }
        if let Some(hot) = &self.hot {
            hot.forget(slot);
        }
        let start = slot.0 as usize * self.piece_bytes;
        // SAFETY: nothing reads or writes the slot while its state says that it is leased.
        let given = unsafe { self.memory.give_back(start, self.piece_bytes) };
        state.store(0, Ordering::Release);
        given.is_ok()
    }

    /// Releases blocks of the sendfile cache without a valid copy.
    pub fn vacate_copies(&self) {
        if let Some(hot) = &self.hot {
            hot.vacate();
        }
    }

    /// A view of the bytes `start..end` of a slot. `None` if they do not exist or the slot is
    /// leased.
    pub fn view(self: &Arc<Self>, slot: Slot, start: u32, end: u32) -> Option<PieceView> {
        let state = self.states.get(slot.0 as usize)?;
        if start > end || end as usize > self.piece_bytes {
            return None;
        }
        state
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |views| {
                (views < LEASED - 1).then(|| views + 1)
            })
            .ok()?;
        let mut kept = None;
        if let Some(hot) = &self.hot {
            kept = hot.lookup(slot);
            let looks = &self.looks[slot.0 as usize];
            let count = looks.load(Ordering::Relaxed);
            // Small consecutive ranges come from one reader that views a piece many times.
            let is_at_an_end = start == 0 || end as usize == self.piece_bytes;
            let is_one_look = is_at_an_end || end - start >= SENT_FROM_FILE_MIN;
            if kept.is_none() && is_one_look {
                looks.store(count.saturating_add(1), Ordering::Relaxed);
            }
            if kept.is_some() || count >= HOT_LOOKS {
                hot.earn(u64::from(end - start));
            }
        }
        Some(PieceView {
            pool: Arc::clone(self),
            slot: Some(slot),
            start,
            end,
            of: None,
            kept,
        })
    }

    /// Address of an existing slot.
    fn address(&self, slot: Slot) -> *mut u8 {
        let offset = slot.0 as usize * self.piece_bytes;
        debug_assert!(offset + self.piece_bytes <= self.memory.length());
        // SAFETY: leases and views only refer to slots below `states.len()`, and the mapping has
        // room for that many.
        unsafe { self.memory.base().as_ptr().add(offset) }
    }
}

/// Exclusive right to fill some slots.
#[derive(Debug)]
pub struct Lease {
    pool: Arc<Pool>,
    slots: Vec<Slot>,
}

/// A contiguous range of memory, in the layout of `struct iovec`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct IoVec {
    base: *mut u8,
    length: usize,
}

impl Lease {
    /// Total size of its slots.
    pub fn capacity(&self) -> u64 {
        self.slots.len() as u64 * self.pool.piece_bytes as u64
    }

    /// The memory of bytes `skip..skip + length` of the lease in as few runs as possible, at most
    /// `runs_max`. Bytes beyond those runs or the slots are omitted.
    pub(super) fn runs(&self, skip: u64, length: u64, runs_max: usize) -> Vec<IoVec> {
        let piece = self.pool.piece_bytes as u64;
        let end = skip.saturating_add(length).min(self.capacity());
        let mut runs: Vec<IoVec> = Vec::new();
        let mut at = skip;
        while at < end {
            let within = at % piece;
            let length = (piece - within).min(end - at) as usize;
            let slot = self.slots[(at / piece) as usize];
            let base = self.pool.address(slot).wrapping_add(within as usize);
            let count = runs.len();
            let continued = runs
                .last_mut()
                .filter(|last| last.base.wrapping_add(last.length) == base);
            match continued {
                Some(last) => last.length += length,
                None if count == runs_max => break,
                None => runs.push(IoVec { base, length }),
            }
            at += length as u64;
        }
        runs
    }

    /// The same memory as slices, to be filled by a system call on this thread.
    pub fn slices(&mut self, skip: u64, length: u64, runs_max: usize) -> Vec<IoSliceMut<'_>> {
        let runs = self.runs(skip, length, runs_max);
        runs.into_iter()
            .map(|run| {
                // SAFETY: the slots of a lease are distinct slots that nothing else reads or
                // writes while it exists; the mapping lives as long as it, and was zeroed by the
                // kernel, so its bytes are initialised. The slices do not overlap, and they
                // borrow the lease.
                IoSliceMut::new(unsafe { std::slice::from_raw_parts_mut(run.base, run.length) })
            })
            .collect()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        for slot in &self.slots {
            self.pool.states[slot.0 as usize].store(0, Ordering::Release);
        }
    }
}

/// Bytes of one slot, or of a copy, that do not change while the view exists.
#[derive(Debug)]
pub struct PieceView {
    pool: Arc<Pool>,
    /// `None` for a view of a copy.
    slot: Option<Slot>,
    start: u32,
    end: u32,
    of: Option<PieceIdentity>,
    /// The copy of the same bytes; always present without a slot.
    kept: Option<CopyGuard>,
}

/// Bytes in a file that a socket can take with `sendfile`.
#[derive(Debug, Clone, Copy)]
pub struct FileRange<'a> {
    /// The file.
    pub file: BorrowedFd<'a>,
    /// Offset of the first byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
}

impl PieceView {
    /// Sets the identity of the piece, under which a copy of it is found.
    pub fn of(mut self, of: PieceIdentity) -> Self {
        self.of = Some(of);
        self
    }

    /// The bytes `start..end` of a view of a copy. `None` for a slot, whose views are counted, or if
    /// they do not exist.
    pub fn part(&self, start: u32, end: u32) -> Option<Self> {
        let (None, Some(kept)) = (self.slot, &self.kept) else {
            return None;
        };
        (start <= end && end <= self.end - self.start).then(|| Self {
            pool: Arc::clone(&self.pool),
            slot: None,
            start: self.start + start,
            end: self.start + end,
            of: None,
            kept: Some(kept.clone()),
        })
    }

    /// The bytes from `skip` on as a file range, unless they are so few that copying them into the
    /// socket costs less.
    pub fn in_file(&self, skip: usize) -> Option<FileRange<'_>> {
        if self.end - self.start < SENT_FROM_FILE_MIN {
            return None;
        }
        let (hot, kept) = (self.pool.hot.as_ref()?, self.kept.as_ref()?);
        let skip = skip as u64;
        Some(FileRange {
            file: hot.file(),
            offset: hot.offset(kept) + u64::from(self.start) + skip,
            length: u64::from(self.end - self.start).checked_sub(skip)?,
        })
    }

    /// Guard to hold as long as a socket may refer to bytes of [`PieceView::in_file`].
    pub fn pin(&self) -> Option<BlockPin> {
        self.kept.as_ref().map(CopyGuard::pin)
    }

    /// Whether a copy of the piece is worthwhile.
    pub fn is_hot(&self) -> bool {
        let (Some(hot), Some(slot), None) = (&self.pool.hot, self.slot, &self.kept) else {
            return false;
        };
        let looks = self.pool.looks[slot.0 as usize].load(Ordering::Relaxed);
        looks >= HOT_LOOKS && !hot.has(slot)
    }

    /// Copies the piece into the sendfile cache.
    pub fn copy_to_cache(&self) {
        if let (Some(hot), Some(slot)) = (&self.pool.hot, self.slot) {
            let base = self.pool.address(slot);
            // SAFETY: the slot is as long as a piece, and nothing writes to it while this view
            // counts in its state.
            let whole = unsafe { std::slice::from_raw_parts(base, self.pool.piece_bytes) };
            hot.copy_slot(slot, self.of, whole);
        }
    }
}

impl AsRef<[u8]> for PieceView {
    fn as_ref(&self) -> &[u8] {
        let Some(slot) = self.slot else {
            let copy = self.pool.hot.as_ref().zip(self.kept.as_ref());
            return copy.map_or(&[], |(hot, kept)| hot.bytes(kept, self.start, self.end));
        };
        let base = self.pool.address(slot).wrapping_add(self.start as usize);
        // SAFETY: `start <= end <= piece_bytes` was checked when the view was created, and the slot
        // cannot be leased while a view counts in its state, so nothing writes to it.
        unsafe { std::slice::from_raw_parts(base, (self.end - self.start) as usize) }
    }
}

impl Drop for PieceView {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            self.pool.states[slot.0 as usize].fetch_sub(1, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PIECE: usize = 4096;

    fn fill(lease: &mut Lease, byte: u8) {
        for mut slice in lease.slices(0, lease.capacity(), 1024) {
            slice.fill(byte);
        }
    }

    #[test]
    fn view_outlives_other_handles_of_its_pool() {
        let pool = Pool::new(16, PIECE).expect("maps");
        fill(&mut pool.lease(&[Slot(15)]).expect("free"), 7);
        let view = pool.view(Slot(15), 1, 4096).expect("filled");
        drop(pool);
        assert_eq!(view.as_ref(), vec![7; 4095]);
    }

    #[test]
    fn memory_is_populated_on_first_use_or_by_prefault() {
        let resident_bytes = || {
            let told = std::fs::read_to_string("/proc/self/statm").expect("runs on Linux");
            let pages = told.split(' ').nth(1).expect("a second number");
            pages.parse::<u64>().expect("a number") * rustix::param::page_size() as u64
        };
        let before = resident_bytes();
        let pool = Pool::new(1024, 256 << 10).expect("maps");
        // Other tests allocate memory meanwhile, but less than this.
        let (half, most) = (before + (128 << 20), before + (224 << 20));
        assert!(resident_bytes() < half);
        pool.prefault().expect("there is memory");
        assert!(resident_bytes() > most);
        fill(&mut pool.lease(&[Slot(1023)]).expect("free"), 7);
    }

    #[test]
    fn vacated_slot_reads_as_zero_and_viewed_slot_is_kept() {
        let pool = Pool::new(4, PIECE).expect("maps");
        let lease = pool.lease(&[Slot(1), Slot(2)]);
        fill(&mut lease.expect("free"), 7);
        let view = pool.view(Slot(1), 0, 4096).expect("filled");
        assert!(!pool.vacate(Slot(1)), "the slot has a view");
        assert!(!pool.vacate(Slot(4)), "no such slot");
        assert!(pool.vacate(Slot(2)));
        assert_eq!(view.as_ref(), [7; 4096]);
        let other = pool.view(Slot(2), 0, 4096).expect("free");
        assert_eq!(other.as_ref(), [0; 4096]);
        drop((view, other));
        assert!(pool.lease(&[Slot(1), Slot(2)]).is_some());
    }

    #[test]
    fn slot_is_never_leased_and_viewed_at_once() {
        let pool = Pool::new(16, PIECE).expect("maps");
        let lease = pool.lease(&[Slot(3), Slot(4)]).expect("free");
        assert!(pool.view(Slot(3), 0, 1).is_none(), "being filled");
        assert!(pool.lease(&[Slot(9), Slot(4)]).is_none(), "4 is leased");
        assert!(pool.lease(&[Slot(9), Slot(9)]).is_none(), "named twice");
        assert!(pool.lease(&[Slot(9)]).is_some(), "9 was released");
        drop(lease);
        let views = (pool.view(Slot(3), 0, 1), pool.view(Slot(3), 0, 4096));
        assert!(pool.lease(&[Slot(3)]).is_none(), "two views exist");
        drop(views);
        assert!(pool.lease(&[Slot(3)]).is_some());
    }

    /// Also run by Miri, which would report a byte written under a reader.
    #[test]
    fn concurrent_leases_and_views_never_overlap() {
        let pool = Pool::new(2, PIECE).expect("maps");
        std::thread::scope(|scope| {
            for thread in 1..4_u8 {
                let pool = &pool;
                scope.spawn(move || {
                    for turn in 0..20_u32 {
                        let slot = Slot((turn + u32::from(thread)) % 2);
                        match pool.lease(&[slot]) {
                            Some(mut lease) => fill(&mut lease, thread),
                            None => std::thread::yield_now(),
                        }
                        let Some(view) = pool.view(slot, 0, 64) else {
                            continue;
                        };
                        let bytes = view.as_ref();
                        assert!(bytes.iter().all(|byte| *byte == bytes[0]));
                    }
                });
            }
        });
    }

    #[test]
    fn ranges_outside_the_pool_are_refused() {
        let pool = Pool::new(16, PIECE).expect("maps");
        assert!(pool.lease(&[Slot(16)]).is_none());
        assert!(pool.view(Slot(16), 0, 0).is_none());
        assert!(pool.view(Slot(0), 0, 4097).is_none());
        assert!(pool.view(Slot(0), 2, 1).is_none());
        assert!(Pool::new(u32::MAX, usize::MAX).is_err());
    }

    #[test]
    fn mapping_is_aligned_for_huge_pages() {
        let pool = Pool::new(3, 128 << 10).expect("maps");
        assert_eq!(pool.address(Slot(0)).align_offset(HUGE_PAGE_BYTES), 0);
        assert_eq!(pool.memory.length(), HUGE_PAGE_BYTES);
    }

    #[test]
    fn adjacent_slots_form_one_run() {
        let pool = Pool::new(16, PIECE).expect("maps");
        let lease = pool.lease(&[4, 5, 6, 2, 3].map(Slot)).expect("free");
        let lengths = |skip, length, max| -> Vec<usize> {
            let runs = lease.runs(skip, length, max);
            runs.iter().map(|run| run.length).collect()
        };
        assert_eq!(lengths(0, 5 * 4096, 9), [3 * 4096, 2 * 4096]);
        assert_eq!(lengths(0, 5 * 4096, 1), [3 * 4096]);
        assert_eq!(lengths(4196, 8192, 9), [8092, 100]);
        assert_eq!(lengths(4 * 4096, 99_999, 9), [4096], "limited to the lease");
        assert!(lengths(5 * 4096, 1, 9).is_empty());
    }

    proptest! {
        #[test]
        fn each_byte_of_a_lease_has_one_address(
            slots in Just((0..12).map(Slot).collect::<Vec<_>>()).prop_shuffle(),
            skip in 0..12 * 4096_u64,
            length in 0..12 * 4096_u64,
        ) {
            let pool = Pool::new(12, PIECE).expect("maps");
            let mut lease = pool.lease(&slots).expect("free");
            fill(&mut lease, 0);
            let mut next = 0_u32;
            for mut slice in lease.slices(skip, length, 1024) {
                for byte in slice.iter_mut() {
                    next += 1;
                    *byte = (next % 251) as u8 + 1;
                }
            }
            prop_assert_eq!(u64::from(next), length.min(lease.capacity() - skip));
            drop(lease);
            let all: Vec<u8> = slots
                .iter()
                .flat_map(|slot| pool.view(*slot, 0, 4096).expect("filled").as_ref().to_vec())
                .collect();
            for (at, byte) in all.iter().enumerate() {
                let place = (at as u64).wrapping_sub(skip);
                let wanted = if place < u64::from(next) { (place + 1) % 251 + 1 } else { 0 };
                prop_assert_eq!(u64::from(*byte), wanted, "at {}", at);
            }
        }
    }
}
