//! Messages to a device.
//!
//! The number of messages is bounded elsewhere: requests by the connections and by
//! [`REQUESTS_MAX`], pieces by the slots of memory, stream updates by the scanner.

use std::sync::Arc;

use headlong_engine::{
    AnnouncedRequest, ConfigError, EngineConfig, PartSpec, Refusal, Request, RequestId, Slot,
    StreamId, StreamSpec,
};
use headlong_units::BitRate;
use tokio::sync::oneshot;

use super::piece_transfer::{IncomingPiece, OutgoingPiece};
use super::reply::Reply;
use super::{DeviceSnapshot, LearnedState, StreamSource};
use crate::flash::{FlashDone, ReportCompletion, TierPart};

/// Upper limit of waiting messages when a request is posted; further requests are refused.
pub(crate) const REQUESTS_MAX: usize = 65_536;

/// A message to a device.
pub(crate) enum DeviceMessage {
    /// A request for bytes.
    Request(Box<DeviceRequest>),
    /// A range that a player will request next.
    Expect(Box<ExpectedRange>),
    /// A socket has taken a piece, or the piece was dropped.
    Sent { request: RequestId, slot: Slot },
    /// A reply was dropped.
    Cancel(RequestId),
    /// The bit rate of a stream is known.
    BitRate(StreamId, BitRate),
    /// A part of a stream has appeared or disappeared.
    Part(StreamId, u32, Box<PartSpec>),
    /// The files of a stream changed or were removed.
    Gone(StreamId, bool),
    /// New settings.
    Configure(Box<EngineConfig>, oneshot::Sender<Result<(), ConfigError>>),
    /// A flash operation has completed.
    Flash(FlashDone),
    /// Take a snapshot.
    Snapshot(oneshot::Sender<DeviceSnapshot>),
    /// Export the learned state for the next process.
    Learned(oneshot::Sender<LearnedState>),
    /// The latest viewers of the previous process, replacing those loaded at start-up.
    Returning(Box<LearnedState>),
    /// Start or stop returning memory that no running reply needs to the system. Answered once the
    /// free memory has been returned.
    Retire(bool, oneshot::Sender<()>),
    /// Another process serves from now on.
    Replaced,
    /// Select the pieces of memory to transfer to the new process.
    PassOn(oneshot::Sender<Vec<OutgoingPiece>>),
    /// The new process has received these slots, or never will.
    PassedOn(Vec<Slot>),
    /// Pieces from the previous process. Answered with the number of bytes that are in memory now.
    Arrived(Vec<IncomingPiece>, oneshot::Sender<u64>),
    /// Attach a share of the flash tier.
    TakeFlash(TierPart, ReportCompletion),
    /// Detach the flash tier.
    LeaveFlash,
}

/// A range that a player will request next, with the data to register its stream if it is unknown.
pub(crate) struct ExpectedRange {
    pub(crate) expected: AnnouncedRequest,
    pub(crate) register: Option<(StreamSpec, Arc<dyn StreamSource>)>,
    pub(crate) answer: oneshot::Sender<Result<(), Refusal>>,
}

/// A request, with the data to register its stream if it is unknown.
pub(crate) struct DeviceRequest {
    pub(crate) id: RequestId,
    pub(crate) request: Request,
    pub(crate) register: Option<(StreamSpec, Arc<dyn StreamSource>)>,
    /// The reply is created by the receiver, so that it cancels itself if no one waits for it.
    pub(crate) answer: oneshot::Sender<Result<Reply, Refusal>>,
}
