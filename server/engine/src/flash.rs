//! The flash tier of a shard: the store and the outstanding reads.
//!
//! An SSD has no seek time, so its reads need no order and no jobs. They are issued when a reply
//! reaches a piece, outside the queue of the disk, and their number is limited. The index of
//! [`headlong_flash::FlashStore`] is a hint until the bytes have arrived.
//!
//! Invariants: a record that is being read keeps its block; a slot that a read fills is Filling in
//! memory, under its piece's key unless the read is late.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use headlong_flash::{BlockId, FlashStore, PieceId, RecordLocation};
use headlong_units::{Duration, Instant};

use crate::ids::{ChainId, FlashReadId, RequestId, Slot, StreamId};

/// Outstanding records. SSDs reach full throughput with fewer (32 are the queue of a SATA drive).
const RECORDS_MAX: usize = 64;
/// The same including late ones, which hold memory. A hung SSD must not block reads of others.
const RECORDS_LATE_MAX: usize = 2 * RECORDS_MAX;
/// A read that takes longer counts as late: the disk is asked too. A moderately busy disk takes as
/// long.
pub(crate) const LATE: Duration = Duration::from_millis(250);
/// A read that does not return at all counts as a failure of the SSD after this time, whatever the
/// load of the machine. One that returns reports itself how long the SSD took.
const LOST: Duration = Duration::from_secs(1);

/// One record being read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordRead {
    /// Number of the piece within its stream.
    pub(crate) number: u32,
    pub(crate) piece: PieceId,
    pub(crate) place: RecordLocation,
    pub(crate) length: u32,
    pub(crate) slot: Slot,
}

/// Records that are read together.
#[derive(Debug)]
pub(crate) struct OutstandingFlashRead {
    pub(crate) stream: StreamId,
    /// The chain that they are read for.
    pub(crate) chain: ChainId,
    pub(crate) records: Vec<RecordRead>,
    pub(crate) issued_at: Instant,
    /// No waiter relies on it any more.
    pub(crate) is_late: bool,
    /// It was counted as a failure of the SSD.
    pub(crate) is_lost: bool,
}

/// The tier and its outstanding reads.
#[derive(Debug)]
pub(crate) struct Flash {
    pub(crate) room: FlashStore,
    reads: BTreeMap<FlashReadId, OutstandingFlashRead>,
    records: usize,
    /// Of those, records that are late.
    late: usize,
    next_id: u64,
    /// Replies whose next piece is only on flash, as the disk is offline, and that wait for the
    /// number of outstanding records to fall.
    pub(crate) postponed: BTreeSet<RequestId>,
}

impl Flash {
    pub(crate) fn new(room: FlashStore) -> Self {
        Self {
            room,
            reads: BTreeMap::new(),
            records: 0,
            late: 0,
            next_id: 0,
            postponed: BTreeSet::new(),
        }
    }

    /// Defers a reply until a read ends. Returns whether one will: late ones may never end.
    pub(crate) fn postpone(&mut self, id: RequestId) -> bool {
        let will_end = self.records > self.late;
        if will_end {
            self.postponed.insert(id);
        }
        will_end
    }

    /// The next of `postponed` that can continue, or that has no read to wait for any more.
    pub(crate) fn take_postponed(&self, postponed: &mut BTreeSet<RequestId>) -> Option<RequestId> {
        let can_go_on = self.has_room_for(1) || self.records == self.late;
        can_go_on.then(|| postponed.pop_first())?
    }

    /// Whether this many further records may be read.
    pub(crate) fn has_room_for(&self, records: usize) -> bool {
        let records = self.records + records;
        records - self.late <= RECORDS_MAX && records <= RECORDS_LATE_MAX
    }

    pub(crate) fn begin(&mut self, read: OutstandingFlashRead) -> FlashReadId {
        self.next_id += 1;
        let id = FlashReadId(self.next_id);
        self.records += read.records.len();
        self.reads.insert(id, read);
        id
    }

    pub(crate) fn end(&mut self, id: FlashReadId) -> Option<OutstandingFlashRead> {
        let read = self.reads.remove(&id)?;
        self.records -= read.records.len();
        if read.is_late {
            self.late -= read.records.len();
        }
        Some(read)
    }

    /// When a read of this piece was issued.
    pub(crate) fn issued_at(&self, stream: StreamId, number: u32) -> Option<Instant> {
        let brings = |read: &&OutstandingFlashRead| {
            let mut records = read.records.iter();
            read.stream == stream && !read.is_late && records.any(|of| of.number == number)
        };
        self.reads.values().find(brings).map(|read| read.issued_at)
    }

    /// A read that has taken too long, each once; it is late from now on.
    pub(crate) fn take_late(&mut self, now: Instant) -> Option<(StreamId, Vec<RecordRead>)> {
        // Reads are in the order in which they were issued.
        let first = self.reads.values_mut().find(|read| !read.is_late);
        let late = first.filter(|read| now.since(read.issued_at) >= LATE)?;
        late.is_late = true;
        self.late += late.records.len();
        Some((late.stream, late.records.clone()))
    }

    /// The block of a read that does not return, each once.
    pub(crate) fn take_lost(&mut self, now: Instant) -> Option<BlockId> {
        let first = self.reads.values_mut().find(|read| !read.is_lost);
        let lost = first.filter(|read| now.since(read.issued_at) >= LOST)?;
        lost.is_lost = true;
        lost.records.first().map(|record| record.place.block)
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let late = self.reads.values().find(|read| !read.is_late);
        let late = late.map(|read| read.issued_at + LATE);
        let lost = self.reads.values().find(|read| !read.is_lost);
        let lost = lost.map(|read| read.issued_at + LOST);
        let times = [late, lost, self.room.poll_timeout()];
        times.into_iter().flatten().min()
    }

    /// Panics if an invariant is broken. `is_filling` returns whether a slot is being filled with a
    /// record, and is found by its key exactly if it is not late.
    pub(crate) fn check_invariants(
        &self,
        is_filling: impl Fn(StreamId, &RecordRead, bool) -> bool,
    ) {
        self.room.check_invariants();
        let records: usize = self.reads.values().map(|read| read.records.len()).sum();
        assert_eq!(records, self.records);
        let late = self.reads.values().filter(|read| read.is_late);
        let late: usize = late.map(|read| read.records.len()).sum();
        assert_eq!(late, self.late);
        assert!(records <= RECORDS_LATE_MAX && records - late <= RECORDS_MAX);
        for (id, read) in &self.reads {
            for record in &read.records {
                assert!(
                    is_filling(read.stream, record, read.is_late),
                    "{id:?} {record:?}"
                );
            }
        }
    }
}
