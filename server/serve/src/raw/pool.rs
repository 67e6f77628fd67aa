//! The pool: one mapping of anonymous memory in equal slots, filled in place by the disks;
//! beside it, if wanted, copies of what is sent again and again ([`Hot`]).
//!
//! Each slot is free, *leased* by the one read that fills it, or *viewed* by the replies that
//! send it. A counter per slot keeps these apart: whoever asks for the wrong thing gets `None`
//! instead of a data race. Leases and views keep the mapping alive; it goes with the last of
//! them. Memory is touched only when it is first filled, so an idle pool costs address space
//! only.

use std::io::{self, IoSliceMut};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use headlong_engine::{PartInMemory, Slot, StreamId};

use super::hot::{CopiesUse, Hot, HotSize, Kept, PieceOf, Pinned};
use super::mapping::{HUGE_PAGE_BYTES, Mapping};

/// State of a slot that is being filled; smaller numbers count its views.
const LEASED: u32 = u32::MAX;

/// Bytes below which a copy into the socket costs less than a call of its own.
const SENT_FROM_FILE_MIN: u32 = 32 << 10;
/// What is looked at for so many times is sent again and again: twice may be one reader whose ranges
/// end within a piece.
const HOT_LOOKS: u8 = 3;

/// Memory for all pieces of one device.
#[derive(Debug)]
pub(crate) struct Pool {
    memory: Mapping,
    piece_bytes: usize,
    states: Box<[AtomicU32]>,
    /// How often each slot was looked at since it was filled.
    looks: Box<[AtomicU8]>,
    /// Copies from which sockets are served.
    hot: Option<Hot>,
}

// SAFETY: the mapping is only this pool's. What is inside it is reached through leases and views alone,
// and the states, which are atomic, keep those apart.
unsafe impl Send for Pool {}
// SAFETY: as above; no method touches the mapped bytes without having won a slot's state.
unsafe impl Sync for Pool {}

impl Pool {
    /// Without a file for sockets.
    #[cfg(test)]
    pub(crate) fn new(slot_count: u32, piece_bytes: usize) -> io::Result<Arc<Self>> {
        Self::with_hot(slot_count, piece_bytes, None)
    }

    /// Maps room for `slot_count` pieces, with that much beside it for copies of what is sent again
    /// and again, if the kernel can. Fails if the address space, or what the kernel is ready to
    /// promise, has no room for the pieces.
    pub(crate) fn with_hot(
        slot_count: u32,
        piece_bytes: usize,
        size: Option<HotSize>,
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
        let hot = size.and_then(|size| Hot::new(slot_count, piece_bytes, size).ok());
        Ok(Arc::new(Self {
            memory,
            piece_bytes,
            states,
            looks,
            hot,
        }))
    }

    /// Whether there is room for copies of what is sent again and again.
    pub(crate) fn has_hot(&self) -> bool {
        self.hot.is_some()
    }

    /// What copies take, if there may be any.
    pub(crate) fn copies_use(&self) -> Option<CopiesUse> {
        self.hot.as_ref().map(Hot::usage)
    }

    /// Requests, and bytes, that were answered from copies without the engine.
    pub(crate) fn unseen(&self) -> (u64, u64) {
        self.hot.as_ref().map_or((0, 0), Hot::unseen)
    }

    /// The bytes `start..end` of a part of a stream, if they can be sent without asking the engine:
    /// what comes next is in memory too, and they are sent again and again.
    pub(crate) fn copies(
        self: Arc<Self>,
        of: (StreamId, u32),
        range: (u64, u64),
    ) -> Option<impl Iterator<Item = View> + use<>> {
        let copies = self.hot.as_ref()?.look_at(of, range)?;
        let view = move |((kept, start, end), pool)| View {
            pool,
            slot: None,
            start,
            end,
            of: None,
            kept: Some(kept),
        };
        // Most are one, which takes this one.
        let pools = std::iter::repeat_n(self, copies.len());
        Some(copies.zip(pools).map(view))
    }

    /// The slots whose copies [`Pool::copies`] gave since the last call.
    pub(crate) fn take_used(&self) -> Vec<Slot> {
        self.hot.as_ref().map_or_else(Vec::new, Hot::take_used)
    }

    /// Whether [`Pool::set_resident`] would be of use.
    pub(crate) fn asks_for(&self, stream: StreamId) -> bool {
        self.hot.as_ref().is_some_and(|hot| hot.asks_for(stream))
    }

    /// So much of a stream is in memory, until one of its slots is leased.
    pub(crate) fn set_resident(&self, stream: StreamId, of_it: PartInMemory) {
        if let Some(hot) = &self.hot {
            hot.set_resident(stream, of_it);
        }
    }

    /// A stream is not known any more.
    pub(crate) fn set_missing(&self, stream: StreamId) {
        if let Some(hot) = &self.hot {
            hot.set_missing(stream);
        }
    }

    /// Pieces of a stream are, or will be, in these slots.
    pub(crate) fn note_stream(&self, slots: &[Slot], stream: StreamId) {
        if let Some(hot) = &self.hot {
            slots.iter().for_each(|slot| hot.note_stream(*slot, stream));
        }
    }

    /// Takes all of the memory from the system now, and not as it is first used.
    ///
    /// # Errors
    /// If the system has not so much, or does not know how to (before Linux 5.14).
    pub(crate) fn prefault(&self) -> io::Result<()> {
        self.memory.take()
    }

    /// Takes `slots`, which must all be free, to be filled in this order. `None` if one of them
    /// does not exist, is in use, or is named twice; then none is taken.
    pub(crate) fn lease(self: &Arc<Self>, slots: &[Slot]) -> Option<Lease> {
        // What was taken before the one that fails goes back when the unfinished lease drops.
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

    /// Copies bytes to the start of a slot; whether it is free and they fit.
    pub(crate) fn fill(self: &Arc<Self>, slot: Slot, bytes: &[u8]) -> bool {
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

    /// Gives the memory of a slot back to the system, if nobody has it; it is zero when it is used
    /// again. Whether that was done.
    pub(crate) fn vacate(&self, slot: Slot) -> bool {
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
        // SAFETY: nobody reads or writes the slot while its state says that it is leased.
        let given = unsafe { self.memory.give_back(start, self.piece_bytes) };
        state.store(0, Ordering::Release);
        given.is_ok()
    }

    /// Gives back what is left of copies that nobody will ask for.
    pub(crate) fn vacate_copies(&self) {
        if let Some(hot) = &self.hot {
            hot.vacate();
        }
    }

    /// Looks at the bytes `start..end` of a slot. `None` if they do not exist or the slot is
    /// being filled.
    pub(crate) fn view(self: &Arc<Self>, slot: Slot, start: u32, end: u32) -> Option<View> {
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
            kept = hot.look(slot);
            let looks = &self.looks[slot.0 as usize];
            let count = looks.load(Ordering::Relaxed);
            // Small ranges, one after the other, are one reader who looks at a piece many times.
            let is_at_an_end = start == 0 || end as usize == self.piece_bytes;
            let is_one_look = is_at_an_end || end - start >= SENT_FROM_FILE_MIN;
            if kept.is_none() && is_one_look {
                looks.store(count.saturating_add(1), Ordering::Relaxed);
            }
            if kept.is_some() || count >= HOT_LOOKS {
                hot.earn(u64::from(end - start));
            }
        }
        Some(View {
            pool: Arc::clone(self),
            slot: Some(slot),
            start,
            end,
            of: None,
            kept,
        })
    }

    /// Address of a slot that exists.
    fn address(&self, slot: Slot) -> *mut u8 {
        let offset = slot.0 as usize * self.piece_bytes;
        debug_assert!(offset + self.piece_bytes <= self.memory.length());
        // SAFETY: leases and views only name slots below `states.len()`, and the mapping has
        // room for that many.
        unsafe { self.memory.base().as_ptr().add(offset) }
    }
}

/// The right to fill some slots; nobody can look at them meanwhile.
#[derive(Debug)]
pub(crate) struct Lease {
    pool: Arc<Pool>,
    slots: Vec<Slot>,
}

/// Memory in one run, as the kernel takes it (`struct iovec`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    base: *mut u8,
    length: usize,
}

impl Lease {
    /// Bytes that fit into its slots.
    pub(crate) fn capacity(&self) -> u64 {
        self.slots.len() as u64 * self.pool.piece_bytes as u64
    }

    /// The memory behind bytes `skip..skip + length` of the lease in as few runs as possible, at
    /// most `runs_max`: what does not fit into those, or into the slots, is left out.
    pub(super) fn runs(&self, skip: u64, length: u64, runs_max: usize) -> Vec<Run> {
        let piece = self.pool.piece_bytes as u64;
        let end = skip.saturating_add(length).min(self.capacity());
        let mut runs: Vec<Run> = Vec::new();
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
                None => runs.push(Run { base, length }),
            }
            at += length as u64;
        }
        runs
    }

    /// The same memory, to be filled by a system call of this thread.
    pub(crate) fn slices(
        &mut self,
        skip: u64,
        length: u64,
        runs_max: usize,
    ) -> Vec<IoSliceMut<'_>> {
        let runs = self.runs(skip, length, runs_max);
        runs.into_iter()
            .map(|run| {
                // SAFETY: the slots of a lease are different slots that nobody else reads or
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

/// Bytes of one slot, or of a copy, that stay what they are as long as this exists.
#[derive(Debug)]
pub(crate) struct View {
    pool: Arc<Pool>,
    /// None if it is a copy that is looked at.
    slot: Option<Slot>,
    start: u32,
    end: u32,
    of: Option<PieceOf>,
    /// The same bytes in the file for sockets; always there without a slot.
    kept: Option<Kept>,
}

/// Bytes in a file from which a socket can take them.
#[derive(Debug, Clone, Copy)]
pub struct InFile<'a> {
    /// The file.
    pub file: BorrowedFd<'a>,
    /// Of the first byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

impl View {
    /// Says of which file it is, so that a copy of it is found by that.
    pub(crate) fn of(mut self, of: PieceOf) -> Self {
        self.of = Some(of);
        self
    }

    /// The bytes from `skip` on, where a socket can take them from, unless they are so few that it is
    /// cheaper to copy them into the socket.
    pub(crate) fn in_file(&self, skip: usize) -> Option<InFile<'_>> {
        if self.end - self.start < SENT_FROM_FILE_MIN {
            return None;
        }
        let (hot, kept) = (self.pool.hot.as_ref()?, self.kept.as_ref()?);
        let skip = skip as u64;
        Some(InFile {
            file: hot.file(),
            offset: hot.offset(kept) + u64::from(self.start) + skip,
            length: u64::from(self.end - self.start).checked_sub(skip)?,
        })
    }

    /// To be held as long as a socket may hold bytes of [`View::in_file`].
    pub(crate) fn pin(&self) -> Option<Pinned> {
        self.kept.as_ref().map(Kept::pin)
    }

    /// Whether a copy would pay.
    pub(crate) fn is_hot(&self) -> bool {
        let (Some(hot), Some(slot), None) = (&self.pool.hot, self.slot, &self.kept) else {
            return false;
        };
        let looks = self.pool.looks[slot.0 as usize].load(Ordering::Relaxed);
        looks >= HOT_LOOKS && !hot.has(slot)
    }

    /// Copies its piece for those who look at it later.
    pub(crate) fn keep(&self) {
        if let (Some(hot), Some(slot)) = (&self.pool.hot, self.slot) {
            let base = self.pool.address(slot);
            // SAFETY: the slot is as long as a piece, and nobody writes to it while this view counts in
            // its state.
            let whole = unsafe { std::slice::from_raw_parts(base, self.pool.piece_bytes) };
            hot.keep(slot, self.of, whole);
        }
    }
}

impl AsRef<[u8]> for View {
    fn as_ref(&self) -> &[u8] {
        let Some(slot) = self.slot else {
            let copy = self.pool.hot.as_ref().zip(self.kept.as_ref());
            return copy.map_or(&[], |(hot, kept)| hot.bytes(kept, self.start, self.end));
        };
        let base = self.pool.address(slot).wrapping_add(self.start as usize);
        // SAFETY: `start <= end <= piece_bytes` was checked when the view was made, and no lease
        // on the slot can be had while a view counts in its state, so nobody writes to it.
        unsafe { std::slice::from_raw_parts(base, (self.end - self.start) as usize) }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            self.pool.states[slot.0 as usize].fetch_sub(1, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PIECE: usize = 4096;

    fn fill(lease: &mut Lease, byte: u8) {
        for mut slice in lease.slices(0, lease.capacity(), 1024) {
            slice.fill(byte);
        }
    }

    #[test]
    fn a_view_outlives_every_other_handle_of_its_pool() {
        let pool = Pool::new(16, PIECE).expect("maps");
        fill(&mut pool.lease(&[Slot(15)]).expect("free"), 7);
        let view = pool.view(Slot(15), 1, 4096).expect("filled");
        drop(pool);
        assert_eq!(view.as_ref(), vec![7; 4095]);
    }

    #[test]
    fn memory_is_the_systems_until_it_is_used_or_all_of_it_is_taken() {
        let resident_bytes = || {
            let told = std::fs::read_to_string("/proc/self/statm").expect("this is Linux");
            let pages = told.split(' ').nth(1).expect("a second number");
            pages.parse::<u64>().expect("a number") * rustix::param::page_size() as u64
        };
        let before = resident_bytes();
        let pool = Pool::new(1024, 256 << 10).expect("maps");
        // Other tests take memory meanwhile, but not so much.
        let (half, most) = (before + (128 << 20), before + (224 << 20));
        assert!(resident_bytes() < half);
        pool.prefault().expect("there is memory");
        assert!(resident_bytes() > most);
        fill(&mut pool.lease(&[Slot(1023)]).expect("free"), 7);
    }

    #[test]
    fn a_vacated_slot_is_zero_and_one_that_is_looked_at_is_left_alone() {
        let pool = Pool::new(4, PIECE).expect("maps");
        let lease = pool.lease(&[Slot(1), Slot(2)]);
        fill(&mut lease.expect("free"), 7);
        let view = pool.view(Slot(1), 0, 4096).expect("filled");
        assert!(!pool.vacate(Slot(1)), "somebody looks at it");
        assert!(!pool.vacate(Slot(4)), "there is none");
        assert!(pool.vacate(Slot(2)));
        assert_eq!(view.as_ref(), [7; 4096]);
        let other = pool.view(Slot(2), 0, 4096).expect("free");
        assert_eq!(other.as_ref(), [0; 4096]);
        drop((view, other));
        assert!(pool.lease(&[Slot(1), Slot(2)]).is_some());
    }

    #[test]
    fn a_slot_is_filled_or_looked_at_but_never_both() {
        let pool = Pool::new(16, PIECE).expect("maps");
        let lease = pool.lease(&[Slot(3), Slot(4)]).expect("free");
        assert!(pool.view(Slot(3), 0, 1).is_none(), "being filled");
        assert!(pool.lease(&[Slot(9), Slot(4)]).is_none(), "4 is leased");
        assert!(pool.lease(&[Slot(9), Slot(9)]).is_none(), "named twice");
        assert!(pool.lease(&[Slot(9)]).is_some(), "9 was given back");
        drop(lease);
        let views = (pool.view(Slot(3), 0, 1), pool.view(Slot(3), 0, 4096));
        assert!(pool.lease(&[Slot(3)]).is_none(), "looked at twice");
        drop(views);
        assert!(pool.lease(&[Slot(3)]).is_some());
    }

    /// Miri runs this too, and would say if a byte were written under somebody who reads it.
    #[test]
    fn threads_that_fill_and_threads_that_look_never_meet() {
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
    fn what_lies_outside_the_pool_is_not_handed_out() {
        let pool = Pool::new(16, PIECE).expect("maps");
        assert!(pool.lease(&[Slot(16)]).is_none());
        assert!(pool.view(Slot(16), 0, 0).is_none());
        assert!(pool.view(Slot(0), 0, 4097).is_none());
        assert!(pool.view(Slot(0), 2, 1).is_none());
        assert!(Pool::new(u32::MAX, usize::MAX).is_err());
    }

    #[test]
    fn the_mapping_is_fit_for_huge_pages() {
        let pool = Pool::new(3, 128 << 10).expect("maps");
        assert_eq!(pool.address(Slot(0)).align_offset(HUGE_PAGE_BYTES), 0);
        assert_eq!(pool.memory.length(), HUGE_PAGE_BYTES);
    }

    #[test]
    fn neighbouring_slots_are_one_run_of_memory() {
        let pool = Pool::new(16, PIECE).expect("maps");
        let lease = pool.lease(&[4, 5, 6, 2, 3].map(Slot)).expect("free");
        let lengths = |skip, length, max| -> Vec<usize> {
            let runs = lease.runs(skip, length, max);
            runs.iter().map(|run| run.length).collect()
        };
        assert_eq!(lengths(0, 5 * 4096, 9), [3 * 4096, 2 * 4096]);
        assert_eq!(lengths(0, 5 * 4096, 1), [3 * 4096]);
        assert_eq!(lengths(4196, 8192, 9), [8092, 100]);
        assert_eq!(lengths(4 * 4096, 99_999, 9), [4096], "no more than it has");
        assert!(lengths(5 * 4096, 1, 9).is_empty());
    }

    proptest! {
        #[test]
        fn each_byte_of_a_lease_has_one_place(
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
