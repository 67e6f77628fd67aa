//! What comes out of a shard: commands for the device, and events for the waiting replies.

use alloc::vec::Vec;

use headlong_flash::{BlockId, PieceId, Place, SsdId};
use headlong_units::Duration;

use crate::ids::{FlashReadId, ReadId, RequestId, Slot, StreamId};

/// Something the shell must do; see [`crate::Shard::poll_command`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Read one run of bytes of one file into pieces of memory, in the order of `slots`: the
    /// first piece takes the first [`crate::EngineConfig::piece_bytes`] bytes, and so on; the last may
    /// be partly filled. Answer with [`crate::Shard::handle_read_done`].
    Read(ReadCommand),
    /// The engine has forgotten the stream: the shell may close its files.
    Forget(StreamId),
    /// Something for the flash tier; only where one was attached.
    Flash(FlashCommand),
    /// Nothing is in the slot, and its memory is to go back to the system before the next command is
    /// done. Only after [`crate::Shard::handle_retiring`].
    Vacate(Slot),
}

/// Something the shell must do with an SSD. Commands of one block are given in order; those of
/// different blocks may be done in any order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlashCommand {
    /// Copy a slot's first `length` bytes into the memory that collects `place.block`, as the record
    /// that begins at `place.offset`. To be done at once: the slot's next command is another read.
    Stage {
        /// Where the record will lie.
        place: Place,
        /// Whose bytes they are.
        piece: PieceId,
        /// Bytes.
        length: u32,
        /// Where they are.
        slot: Slot,
    },
    /// Write bytes `from..to` of a block, multiples of the alignment, from the memory that collects
    /// it. Answer with [`crate::Shard::handle_flash_written`].
    Write {
        /// The block.
        block: BlockId,
        /// First byte, within the block.
        from: u32,
        /// One past the last byte.
        to: u32,
    },
    /// All of a block's records are written: write its summary, with this sequence number, and the
    /// rest of it, and make all of it durable. Answer with [`crate::Shard::handle_flash_sealed`]. The memory that
    /// collected the block is free then.
    Seal {
        /// The block.
        block: BlockId,
        /// Where its records end.
        from: u32,
        /// Grows with every block of this SSD that is sealed.
        sequence: u64,
    },
    /// Nothing in the block is wanted any more; it will be written anew, or its SSD is out of
    /// service. The memory that collects it is free, and its content may be discarded.
    Drop(BlockId),
    /// Read records. Answer with [`crate::Shard::handle_flash_read_done`].
    Read(FlashRead),
    /// See whether an SSD that failed is well: that it is the one it was, gives what lies on it, and
    /// keeps what is written. Answer with [`crate::Shard::handle_flash_probed`].
    Probe(SsdId),
}

/// Records to read, which lie one behind the other in one block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlashRead {
    /// Name to answer with.
    pub id: FlashReadId,
    /// The records, in order of place.
    pub records: Vec<FlashRecord>,
}

/// One record to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlashRecord {
    /// Where it begins.
    pub place: Place,
    /// What it must be, by its header.
    pub piece: PieceId,
    /// How many bytes it must have.
    pub length: u32,
    /// Memory to read into.
    pub slot: Slot,
}

/// How one record of a read came back, as the shell reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlashOutcome {
    /// Its bytes are in its slot: identity, length and checksum are right.
    Done,
    /// Something else was there: another record, or damage.
    Wrong,
    /// The SSD failed.
    Error,
}

/// One read. `offset` is a multiple of the piece size; `length` is one only if the file does not
/// end first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadCommand {
    /// Name to answer with.
    pub id: ReadId,
    /// The stream.
    pub stream: StreamId,
    /// Index of the file in [`crate::StreamSpec::parts`].
    pub part: u32,
    /// First byte, within the file.
    pub offset: u64,
    /// Bytes to read.
    pub length: u64,
    /// Memory to read into.
    pub slots: Vec<Slot>,
}

/// Something a reply waits for; see [`crate::Shard::poll_event`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The next bytes of the reply. The slot's content stays what it is until the shell returns
    /// it with [`crate::Shard::handle_sent`], once for each `Ready`.
    Ready {
        /// Whose reply.
        request: RequestId,
        /// Where the bytes are.
        slot: Slot,
        /// First byte to send, within the slot.
        start: u32,
        /// One past the last byte to send, within the slot.
        end: u32,
        /// Whether they were in RAM when the reply got to them.
        from_ram: bool,
        /// Whether they were read from flash for this reply.
        from_flash: bool,
        /// How long the reply waited for the device to begin reading them; zero from RAM.
        queue_time: Duration,
        /// How long it then waited for the device; zero from RAM.
        disk_time: Duration,
    },
    /// The reply cannot be completed. Nothing more is said of it, and nothing is returned but the
    /// slots of earlier `Ready` events.
    Failed {
        /// Whose reply.
        request: RequestId,
        /// Why.
        failure: Failure,
    },
}

/// Why a reply ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The device returned an error.
    Device,
    /// The device did not answer within [`crate::EngineConfig::read_timeout`].
    TimedOut,
    /// The file is no longer the one that was asked for: changed, truncated or gone.
    Changed,
    /// The device is out of service ([`crate::DeviceState::Offline`]).
    Offline,
    /// This machine lacked what the read needed, such as a file descriptor or memory.
    NoResources,
}

/// How a read ended, as the shell reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadOutcome {
    /// All bytes are in their pieces, and the file was still the same version afterwards.
    Done,
    /// The device failed; counts against its error window.
    Error,
    /// The file is shorter, newer or gone; says nothing about the device.
    Changed,
    /// The read could not be tried for want of descriptors, memory or the like (EMFILE, ENFILE,
    /// ENOMEM, ...); says nothing about the device, and is never counted against it. Whoever waits
    /// for it fails at once.
    NoResources,
}

/// Why a request is not taken on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The device cannot meet the deadlines of new viewers; try again after the given time
    /// (HTTP 503 with Retry-After).
    Overloaded {
        /// When to try again.
        retry_after: Duration,
    },
    /// A table is full (requests, chains or streams; see [`crate::EngineConfig`]).
    Full,
    /// The device is out of service.
    Offline {
        /// When the device will next be tried.
        retry_after: Duration,
    },
    /// The stream was never registered, or has been forgotten: register it and ask again.
    UnknownStream,
    /// The range lies outside the part.
    OutOfBounds,
}
