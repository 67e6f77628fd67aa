//! What a device's thread is started with, and what it is told.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;

use headlong_engine::Shard;
use headlong_protocol::FileKey;
use headlong_units::Duration;
use serde_json::Value;

use crate::answering::Answering;
use crate::describe::{Found, Question};
use crate::file::Version;
use crate::readers::{Done, Readers};
use crate::settings::Mode;
use crate::status::Counters;

/// What a program is about to read.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) passed: OwnedFd,
    pub(crate) version: Version,
    pub(crate) uid: u32,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) answering: Answering,
}

/// What a program has read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Note {
    pub(crate) file: FileKey,
    pub(crate) uid: u32,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// What the thread is told.
#[derive(Debug)]
pub(crate) enum Message {
    Ask(Box<Ask>),
    Note(Note),
    /// What files are one of, and where they lie.
    Found(Found),
    Done(Done),
    /// How is it?
    Show(Sender<Value>),
}

/// Whoever finds out about files.
pub(crate) type Describe = Box<dyn Fn(Question) + Send>;

/// What a thread is started with.
pub(crate) struct Start {
    pub(crate) shard: Shard,
    pub(crate) readers: Readers,
    pub(crate) counters: Arc<Counters>,
    pub(crate) set_up: SetUp,
}

/// What stays the same about a device.
pub(crate) struct SetUp {
    /// Whether nobody asks it any more: it is to end.
    pub(crate) is_over: Arc<AtomicBool>,
    pub(crate) name: String,
    pub(crate) mode: Mode,
    pub(crate) keep_open: Duration,
    pub(crate) time_scale: u32,
    pub(crate) describe: Describe,
}
