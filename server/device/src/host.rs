//! Interface between a device core and the machine.

use alloc::vec::Vec;

use headlong_engine::{
    DeviceState, Extent, Failure, ReadId, RequestId, SizeChange, Slot, StreamId,
};
use headlong_flash::format::RecordName;
use headlong_flash::{SpecError, SsdId, SsdState};
use headlong_units::Duration;

use crate::flash::SsdJob;
use crate::io_failure::IoFailure;
use crate::open_job::{LookupJob, OpenJob, OpenedFile};
use crate::read::FileRead;
use crate::resources::Resources;

/// The services a device core needs: memory, files, reads, replies, SSDs.
///
/// Every method is called while the core runs, in the server under a lock: it must not block and
/// must not call the core.
pub trait Host<R: Resources> {
    /// Leases slots for a read of a stream or of flash. Returns `None` if a slot is in use, or if
    /// the slots hold fewer than `length` bytes.
    fn lease(&mut self, stream: Option<StreamId>, slots: &[Slot], length: u64)
    -> Option<R::Memory>;

    /// Returns the memory of a slot to the system.
    fn vacate(&mut self, slot: Slot);

    /// Opens a file, immediately or later.
    fn open(&mut self, job: OpenJob<R::Source>) -> OpenProgress<R::File>;

    /// Looks up where an open file lies on the device, immediately or later. The device may read
    /// metadata for that, which the first read of the file needs as well.
    fn look_up(&mut self, job: LookupJob<R::Source, R::File>) -> LookupProgress {
        let _ = job;
        LookupProgress::Ended(None)
    }

    /// Closes files without a remaining reader.
    fn close(&mut self, files: Vec<R::File>);

    /// Starts a read; it ends with [`crate::DeviceCore::handle_read_ended`].
    fn read(&mut self, read: FileRead<R>);

    /// A stream was unregistered.
    fn forget(&mut self, stream: StreamId);

    /// A name of this version of the stream that is valid across processes, if there is one.
    fn lasting_name(&self, stream: StreamId, source: &R::Source) -> Option<u64>;

    /// Delivers the next bytes of a reply. The bytes do not change until
    /// [`crate::DeviceCore::sent`].
    ///
    /// # Errors
    /// If a read into the slot is in flight: the caller must fail the reply.
    fn deliver(&mut self, client: &mut R::Client, piece: &ReadyPiece) -> Result<(), SlotBusy>;

    /// Ends a reply early.
    fn fail(&mut self, client: &mut R::Client, request: RequestId, failure: Failure);

    /// Copies a slot into a record of this name; `None` if a read into the slot is in flight.
    fn stage(&mut self, name: &RecordName, slot: Slot) -> Option<R::Record>;

    /// Submits a job to an SSD. Jobs run in order of submission, except reads and probes.
    fn submit(&mut self, ssd: SsdId, job: SsdJob<R>);

    /// Wall-clock time in seconds since 1970, the seal time of blocks.
    fn wall_seconds(&self) -> u64;

    /// Writes a notice to the log.
    fn announce(&mut self, notice: Notice<'_>);
}

/// Progress of an open.
#[derive(Debug)]
pub enum OpenProgress<F> {
    /// In flight; completed by [`crate::DeviceCore::handle_opened`].
    Pending,
    /// Completed.
    Ended(Result<OpenedFile<F>, IoFailure>),
}

/// Progress of a look-up.
#[derive(Debug)]
pub enum LookupProgress {
    /// In flight; completed by [`crate::DeviceCore::handle_location`].
    Pending,
    /// Completed. The extents, or `None` if the location of the file is unknown or unchanged.
    Ended(Option<Vec<Extent>>),
}

/// A read into the slot is in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotBusy;

/// The next bytes of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadyPiece {
    /// The request.
    pub request: RequestId,
    /// The stream.
    pub stream: StreamId,
    /// Index of the part in the stream.
    pub part: u32,
    /// First byte within the part.
    pub offset: u64,
    /// The slot that holds the bytes.
    pub slot: Slot,
    /// First byte within the slot.
    pub start: u32,
    /// End within the slot, exclusive.
    pub end: u32,
    /// Whether the bytes were in memory when the reply reached them.
    pub from_ram: bool,
    /// Whether the bytes were read from flash for this reply.
    pub from_flash: bool,
    /// How long the reply waited until the device started reading the bytes.
    pub queue_time: Duration,
    /// How long the read then took.
    pub disk_time: Duration,
    /// Whether the reply is complete with these bytes.
    pub is_last: bool,
}

/// A condition reported to the operator.
#[derive(Debug)]
pub enum Notice<'a> {
    /// The health of the device changed.
    Device {
        /// The old state.
        before: DeviceState,
        /// The new state.
        state: DeviceState,
        /// Read errors so far.
        errors: u64,
    },
    /// The health of an SSD changed.
    Ssd {
        /// The SSD.
        ssd: SsdId,
        /// The old state.
        before: SsdState,
        /// The new state.
        state: SsdState,
    },
    /// The prefetch size changed.
    Size(&'a SizeChange),
    /// The shard refused the tier's specification.
    FlashRefused(SpecError),
    /// Recovery has ended; the number of records found.
    FlashReady(u64),
    /// A read refers to memory in use or to an unknown stream; the read fails.
    ImpossibleRead(ReadId, StreamId),
    /// A read into the piece is still in flight; the reply fails.
    PieceBusy(RequestId, Slot),
    /// A record to stage is not in memory; its block is not sealed.
    RecordMissing(Slot),
    /// A flash read refers to memory in use; the read fails.
    ImpossibleFlashRead,
    /// Direct I/O is refused: the whole device is read through the page cache.
    DeviceBuffered,
    /// Direct I/O is refused for a file: such files are read through the page cache.
    FileBuffered,
    /// The process ran out of descriptors; the number of files closed.
    TooManyFiles(usize),
}
