//! The machine that a device core runs on.

use alloc::vec::Vec;

use headlong_engine::{DeviceState, Failure, ReadId, RequestId, SizeChange, Slot, StreamId};
use headlong_flash::format::RecordName;
use headlong_flash::{SpecError, SsdId, SsdState};
use headlong_units::Duration;

use crate::flash::SsdJob;
use crate::io_failure::IoFailure;
use crate::open_job::{OpenJob, Opened};
use crate::read::Read;
use crate::resources::Resources;

/// What a device core needs of the machine: memory, files, a way to read, replies, SSDs.
///
/// Every call is made while the core is at work, in the server under a lock: none may block, and
/// none may call the core.
pub trait Host<R: Resources> {
    /// Takes slots to be read into, for a stream or from flash; `None` if one is in use, or they hold
    /// fewer than `length` bytes.
    fn lease(&mut self, stream: Option<StreamId>, slots: &[Slot], length: u64)
    -> Option<R::Memory>;

    /// Gives the memory of a slot back to the system.
    fn vacate(&mut self, slot: Slot);

    /// Opens a file, now or later.
    fn open(&mut self, job: OpenJob<R::Source>) -> OpenProgress<R::File>;

    /// Closes files that nothing reads any more.
    fn close(&mut self, files: Vec<R::File>);

    /// Starts a read; it ends with [`crate::DeviceCore::handle_read_ended`].
    fn read(&mut self, read: Read<R>);

    /// A stream is registered no more.
    fn forget(&mut self, stream: StreamId);

    /// A name of this version of a stream that means the same in the next process, if it has one.
    fn lasting_name(&self, stream: StreamId, source: &R::Source) -> Option<u64>;

    /// Gives a reply its next bytes, which stay what they are until
    /// [`crate::DeviceCore::sent`].
    ///
    /// # Errors
    /// If the slot is being read into: the reply is to fail.
    fn deliver(&mut self, client: &mut R::Client, piece: &ReadyPiece) -> Result<(), SlotBusy>;

    /// Ends a reply early.
    fn fail(&mut self, client: &mut R::Client, request: RequestId, failure: Failure);

    /// Copies a slot into a record of this name; `None` if the slot is being read into.
    fn stage(&mut self, name: &RecordName, slot: Slot) -> Option<R::Record>;

    /// Has an SSD do something, in the order of these calls but for reads and probes.
    fn submit(&mut self, ssd: SsdId, job: SsdJob<R>);

    /// Seconds since 1970, by the wall clock: when blocks were sealed.
    fn wall_seconds(&self) -> u64;

    /// Writes something to the log.
    fn announce(&mut self, notice: Notice<'_>);
}

/// Whether a file is open already.
#[derive(Debug)]
pub enum OpenProgress<F> {
    /// It is answered by [`crate::DeviceCore::handle_opened`].
    Pending,
    /// It is open, or cannot be opened.
    Ended(Result<Opened<F>, IoFailure>),
}

/// A slot is being read into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotBusy;

/// The next bytes of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadyPiece {
    /// Whose reply.
    pub request: RequestId,
    /// Of which stream.
    pub stream: StreamId,
    /// Which of its parts.
    pub part: u32,
    /// First byte within the part.
    pub offset: u64,
    /// Where the bytes are.
    pub slot: Slot,
    /// First byte within the slot.
    pub start: u32,
    /// One past the last byte within the slot.
    pub end: u32,
    /// Whether they were in RAM when the reply got to them.
    pub from_ram: bool,
    /// Whether they were read from flash for this reply.
    pub from_flash: bool,
    /// How long the reply waited for the device to begin reading them.
    pub queue_time: Duration,
    /// How long it then waited for the device.
    pub disk_time: Duration,
    /// Whether they are the last of the reply.
    pub is_last: bool,
}

/// Something that operators are to know.
#[derive(Debug)]
pub enum Notice<'a> {
    /// The health of the device changed.
    Device {
        /// Before.
        before: DeviceState,
        /// Now.
        state: DeviceState,
        /// Errors of reads so far.
        errors: u64,
    },
    /// The health of an SSD changed.
    Ssd {
        /// Which.
        ssd: SsdId,
        /// Before.
        before: SsdState,
        /// Now.
        state: SsdState,
    },
    /// The prefetch size changed.
    Size(&'a SizeChange),
    /// The tier was refused.
    FlashRefused(SpecError),
    /// All is known of what was on the SSDs: so many records.
    FlashReady(u64),
    /// A read names memory that is in use, or an unknown stream; it fails.
    ImpossibleRead(ReadId, StreamId),
    /// A piece is still being read into; its reply fails.
    PieceBusy(RequestId, Slot),
    /// A record to be kept on flash is not there; its block is not sealed.
    RecordMissing(Slot),
    /// A read of flash names memory that is in use; it fails.
    ImpossibleFlashRead,
    /// Direct reads are refused: all of the device is read through the page cache.
    DeviceBuffered,
    /// Direct reads of a file are refused: such files are read through the page cache.
    FileBuffered,
    /// No descriptor was left; so many files are closed.
    TooManyFiles(usize),
}
