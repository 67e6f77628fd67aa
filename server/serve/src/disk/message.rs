//! What a device is told by message.
//!
//! Everything that is posted has a bound elsewhere: requests by the connections and by
//! [`REQUESTS_MAX`], pieces by the slots of memory, news of streams by what a scan finds.

use std::sync::Arc;

use headlong_engine::{
    ConfigError, EngineConfig, Expected, PartSpec, Refusal, Request, RequestId, Slot, StreamId,
    StreamSpec,
};
use headlong_units::BitRate;
use tokio::sync::oneshot;

use super::passing_on::{Arrived, Leaving};
use super::reply::Reply;
use super::{DeviceLearned, DeviceSnapshot, StreamSource};
use crate::flash::{FlashDone, Say, TierPart};

/// Most messages that may wait when a request is posted; further requests are refused.
pub(crate) const REQUESTS_MAX: usize = 65_536;

/// What others tell the thread.
pub(crate) enum Message {
    /// Somebody wants bytes.
    Request(Box<Ask>),
    /// A player says what it will ask for.
    Expect(Box<Expect>),
    /// A piece was taken by a socket, or dropped.
    Sent { request: RequestId, slot: Slot },
    /// A reply was dropped.
    Cancel(RequestId),
    /// The bit rate of a stream became known.
    BitRate(StreamId, BitRate),
    /// A part of a stream came or went.
    Part(StreamId, u32, Box<PartSpec>),
    /// The files of a stream changed or went.
    Gone(StreamId, bool),
    /// New settings.
    Configure(Box<EngineConfig>, oneshot::Sender<Result<(), ConfigError>>),
    /// Something asked of flash has ended.
    Flash(FlashDone),
    /// Somebody wants to see everything.
    Snapshot(oneshot::Sender<DeviceSnapshot>),
    /// Somebody wants what was learned, for the next process.
    Learned(oneshot::Sender<DeviceLearned>),
    /// What the process before had learned by now of its viewers takes the place of what it told first.
    Returning(Box<DeviceLearned>),
    /// Memory that no running reply needs goes back to the system from now on, or is kept again.
    /// Answered once what there is has gone back.
    Retire(bool, oneshot::Sender<()>),
    /// Another process serves from now on.
    Replaced,
    /// The other process is to have what is in memory.
    PassOn(oneshot::Sender<Vec<Leaving>>),
    /// It has what was in these slots, or never will.
    PassedOn(Vec<Slot>),
    /// The process before had these. Answered by how many bytes of them are in memory now.
    Arrived(Vec<Arrived>, oneshot::Sender<u64>),
    /// A part of the flash tier is there.
    TakeFlash(TierPart, Say),
    /// The flash tier is let go.
    LeaveFlash,
}

/// What a player will ask for, and what is needed if its stream is not known yet.
pub(crate) struct Expect {
    pub(crate) expected: Expected,
    pub(crate) register: Option<(StreamSpec, Arc<dyn StreamSource>)>,
    pub(crate) answer: oneshot::Sender<Result<(), Refusal>>,
}

/// A request, and what is needed if its stream is not known yet.
pub(crate) struct Ask {
    pub(crate) id: RequestId,
    pub(crate) request: Request,
    pub(crate) register: Option<(StreamSpec, Arc<dyn StreamSource>)>,
    /// The reply is made here, so that one that nobody waits for any more cancels itself.
    pub(crate) answer: oneshot::Sender<Result<Reply, Refusal>>,
}
