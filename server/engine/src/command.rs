//! Output of a shard: commands for the device, and events for waiting replies.

use alloc::vec::Vec;

use headlong_flash::{BlockId, PieceId, RecordLocation, SsdId};
use headlong_units::Duration;

use crate::ids::{FlashReadId, ReadId, RequestId, Slot, StreamId};

/// An action for the shell; see [`crate::Shard::poll_command`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Read one run of bytes of one file into pieces of memory, in the order of `slots`: the first
    /// piece takes the first [`crate::EngineConfig::piece_bytes`] bytes, and so on; the last may be
    /// partly filled. Answer with [`crate::Shard::handle_read_done`].
    Read(ReadCommand),
    /// The engine has forgotten the stream: the shell may close its files.
    Forget(StreamId),
    /// An action for the flash tier; only if one was attached.
    Flash(FlashCommand),
    /// The slot is empty: return its memory to the system before the next command is executed. Only
    /// after [`crate::Shard::handle_retiring`].
    Vacate(Slot),
}

/// An action on an SSD. Commands for one block are issued in order; those for different blocks may
/// be executed in any order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlashCommand {
    /// Copy a slot's first `length` bytes into the memory that collects `place.block`, as the
    /// record that begins at `place.offset`. Execute it immediately: the slot's next command is
    /// another read.
    Stage {
        /// Where the record will lie.
        place: RecordLocation,
        /// Identity of the piece.
        piece: PieceId,
        /// Length in bytes.
        length: u32,
        /// Slot that holds the bytes.
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
    /// All records of a block are written: write its summary with this sequence number and the rest
    /// of the block, and make all of it durable. Answer with [`crate::Shard::handle_flash_sealed`].
    /// The memory that collected the block is free then.
    Seal {
        /// The block.
        block: BlockId,
        /// Where its records end.
        from: u32,
        /// Grows with every sealed block of this SSD.
        sequence: u64,
    },
    /// The content of the block is no longer needed: it will be overwritten, or its SSD is out of
    /// service. The memory that collects it is free, and its content may be discarded.
    Drop(BlockId),
    /// Read records. Answer with [`crate::Shard::handle_flash_read_done`].
    Read(FlashRead),
    /// Check whether a failed SSD works again: that it is the same SSD, returns what is stored on
    /// it, and keeps what is written. Answer with [`crate::Shard::handle_flash_probed`].
    Probe(SsdId),
}

/// Consecutive records of one block to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlashRead {
    /// Id for the answer.
    pub id: FlashReadId,
    /// The records, in order of place.
    pub records: Vec<FlashRecord>,
}

/// One record to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlashRecord {
    /// Where it begins.
    pub place: RecordLocation,
    /// Identity that its header must have.
    pub piece: PieceId,
    /// Length that it must have, in bytes.
    pub length: u32,
    /// Memory to read into.
    pub slot: Slot,
}

/// Outcome of one record of a read, as reported by the shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlashOutcome {
    /// The bytes are in the slot: identity, length and checksum are right.
    Done,
    /// The block holds something else at this place: another record, or damaged data.
    Wrong,
    /// The SSD failed.
    Error,
}

/// One read. `offset` is a multiple of the piece size; so is `length`, unless the file ends first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadCommand {
    /// Id for the answer.
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

/// An event that a reply waits for; see [`crate::Shard::poll_event`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The next bytes of the reply. The slot's content does not change until the shell returns it
    /// with [`crate::Shard::handle_sent`], once for each `Ready`.
    Ready {
        /// The request of the reply.
        request: RequestId,
        /// The slot that holds the bytes.
        slot: Slot,
        /// First byte to send, within the slot.
        start: u32,
        /// One past the last byte to send, within the slot.
        end: u32,
        /// Whether they were in RAM when the reply reached them.
        from_ram: bool,
        /// Whether they were read from flash for this reply.
        from_flash: bool,
        /// How long the reply waited for the device to begin reading them; zero from RAM.
        queue_time: Duration,
        /// How long the read then took; zero from RAM.
        disk_time: Duration,
    },
    /// The reply cannot be completed. No further event follows for it; the shell returns only the
    /// slots of earlier `Ready` events.
    Failed {
        /// The request of the reply.
        request: RequestId,
        /// The reason.
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
    /// The file is no longer the requested version: changed, truncated or removed.
    Changed,
    /// The device is out of service ([`crate::DeviceState::Offline`]).
    Offline,
    /// This machine lacked a resource for the read, such as a file descriptor or memory.
    NoResources,
}

/// Outcome of a read, as reported by the shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadOutcome {
    /// All bytes are in their pieces, and the file was still the same version afterwards.
    Done,
    /// The device failed; counts against its error window.
    Error,
    /// The file is shorter, newer or removed; no statement about the device.
    Changed,
    /// The read could not be attempted for lack of descriptors, memory or the like (EMFILE, ENFILE,
    /// ENOMEM, ...); never counted against the device. Replies that wait for it fail immediately.
    NoResources,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The device cannot meet the deadlines of new viewers; retry after the given time (HTTP 503
    /// with Retry-After).
    Overloaded {
        /// When to retry.
        retry_after: Duration,
    },
    /// A table is full (requests, chains or streams; see [`crate::EngineConfig`]).
    Full,
    /// The device is out of service.
    Offline {
        /// When the device will next be tried.
        retry_after: Duration,
    },
    /// The stream was never registered, or has been forgotten: register it and retry.
    UnknownStream,
    /// The range lies outside the part.
    OutOfBounds,
}
