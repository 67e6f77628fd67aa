//! Start parameters of a device's thread, and the messages it receives.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;

use headlong_engine::Shard;
use headlong_protocol::FileKey;
use headlong_units::Duration;
use serde_json::Value;

use crate::file::FileVersion;
use crate::inspection::{InspectionRequest, InspectionResult};
use crate::pending_answer::PendingAnswer;
use crate::readers::{FinishedRead, Readers};
use crate::settings::Mode;
use crate::status::Counters;

/// A program is about to read.
#[derive(Debug)]
pub(crate) struct ReadRequest {
    pub(crate) passed: OwnedFd,
    pub(crate) version: FileVersion,
    pub(crate) uid: u32,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) answering: PendingAnswer,
}

/// A program has read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadNotice {
    pub(crate) file: FileKey,
    pub(crate) uid: u32,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// A message to the thread.
#[derive(Debug)]
pub(crate) enum DeviceMessage {
    Ask(Box<ReadRequest>),
    Note(ReadNotice),
    /// Which files form a title, and their extents.
    Found(InspectionResult),
    Done(FinishedRead),
    /// A request for the status.
    Show(Sender<Value>),
}

/// Sends a question to the threads that inspect files.
pub(crate) type InspectionSender = Box<dyn Fn(InspectionRequest) + Send>;

/// Start parameters of the thread.
pub(crate) struct ThreadStart {
    pub(crate) shard: Shard,
    pub(crate) readers: Readers,
    pub(crate) counters: Arc<Counters>,
    pub(crate) set_up: DeviceProperties,
}

/// Constant properties of a device.
pub(crate) struct DeviceProperties {
    /// Whether the thread must end.
    pub(crate) is_over: Arc<AtomicBool>,
    pub(crate) name: String,
    pub(crate) mode: Mode,
    pub(crate) keep_open: Duration,
    pub(crate) time_scale: u32,
    pub(crate) describe: InspectionSender,
}
