//! Plans of phased sessions: which requests a device sends, when, and how much it reads of each reply.

use alloc::boxed::Box;
use alloc::vec::Vec;

use headlong_units::{BitRate, ByteRange, Duration};
use serde::{Deserialize, Serialize};

use crate::ObjectId;

/// Bytes of a reply that the sockets between server and client hold ahead of the client (thesis
/// 5.3.2: 84 % of open-ended chains at offset zero have this length).
pub const SOCKET_BYTES: u64 = 768 * 1024;
/// Largest number of connections of a device.
const CONNECTIONS_MAX: u32 = 255;

/// A session of a phased workload.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhasedPlan {
    /// The session fails if bytes are later than this after their planned time: the end of a
    /// request for a range, and every byte of a reply that is read gradually. Both count from the
    /// actual time of sending.
    pub timeout: Duration,
    /// In order of their planned times.
    pub calls: Vec<PhasedCall>,
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhasedCall {
    /// The requested object.
    pub object: ObjectId,
    /// Connection of the device, from 0; it carries one call at a time.
    #[serde(default)]
    pub connection: u32,
    /// When it is sent, from the viewer's arrival; later if its connection is still busy.
    pub at: Duration,
    /// From then until its end, with an instantaneous server.
    pub takes: Duration,
    /// Requested bytes. A range that ends at `u64::MAX` is open-ended.
    pub range: ByteRange,
    /// The part that is read of an open-ended reply, or of one that the viewer aborts; `None` if
    /// all of it is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reading: Option<Box<PartialRead>>,
}

/// How much of a reply a device reads, and how fast; then it closes the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartialRead {
    /// Bytes of the complete reply.
    pub reply_bytes: u64,
    /// Bytes that it reads at most.
    pub bytes: u64,
    /// Bytes without which it does not close the connection.
    pub needed_bytes: u64,
    /// Speed of the network; `None` if it is only that of the session's access line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<BitRate>,
    /// Its playout buffer; `None` if the device reads at full speed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<BufferRoom>,
}

/// Room in a playout buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BufferRoom {
    /// Bytes for which there is room at the planned time of sending.
    pub bytes: u64,
    /// Playback frees room at this rate.
    pub drain: BitRate,
}

impl PartialRead {
    /// When there is room for the first `bytes` of the reply, counted from sending: those that the
    /// device reads by then, and [`SOCKET_BYTES`] more. [`Duration::MAX`] if it does not read that
    /// far.
    pub fn room_at(&self, bytes: u64) -> Duration {
        match bytes.checked_sub(SOCKET_BYTES) {
            _ if bytes > self.bytes => Duration::MAX,
            None | Some(0) => Duration::ZERO,
            Some(read) => self.planned(read),
        }
    }

    /// When the first `bytes` arrive from an instantaneous server.
    pub(crate) fn planned(&self, bytes: u64) -> Duration {
        let network = self.speed.map(|speed| speed.time_for(bytes));
        let playback = self.buffer.map(|room| {
            let excess = bytes.saturating_sub(room.bytes);
            room.drain.time_for(excess)
        });
        network.max(playback).unwrap_or_default()
    }

    /// The same read, sent later than planned: playback has freed room meanwhile.
    pub(crate) fn sent_late(mut self, late: Duration) -> Self {
        if let Some(room) = &mut self.buffer {
            room.bytes = room.bytes.saturating_add(room.drain.bytes_in(late));
        }
        self
    }
}

/// Why a plan cannot be played.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("call {call}: {reason}")]
pub struct PhasedPlanError {
    /// Index of the call, from 0.
    pub call: usize,
    /// The field and its mistake.
    pub reason: &'static str,
}

impl PhasedPlan {
    /// The first reason why the plan cannot be played.
    ///
    /// # Errors
    /// That reason.
    pub fn check(&self) -> Result<(), PhasedPlanError> {
        let mut before = Duration::ZERO;
        for (number, call) in self.calls.iter().enumerate() {
            let reason = match call.mistake() {
                None if call.at < before => "at: is before the call above; sort calls by time",
                None => {
                    before = call.at;
                    continue;
                }
                Some(reason) => reason,
            };
            return Err(PhasedPlanError {
                call: number,
                reason,
            });
        }
        Ok(())
    }

    /// Number of connections.
    pub fn connections(&self) -> u32 {
        let used = self.calls.iter().map(|call| call.connection);
        used.max()
            .map_or(0, |last| last.min(CONNECTIONS_MAX - 1) + 1)
    }

    /// Bytes read.
    pub fn bytes(&self) -> u64 {
        let bytes = self.calls.iter().map(PhasedCall::bytes);
        bytes.fold(0, u64::saturating_add)
    }

    /// From the viewer's arrival until the end of its last call, with an instantaneous server.
    pub fn length(&self) -> Duration {
        let ends = self.calls.iter().map(|call| call.at + call.takes);
        ends.max().unwrap_or_default()
    }
}

impl PhasedCall {
    /// Bytes read.
    pub fn bytes(&self) -> u64 {
        let read = self.reading.as_ref().map(|reading| reading.bytes);
        read.unwrap_or(self.range.len())
    }

    fn mistake(&self) -> Option<&'static str> {
        let Some(reading) = self.reading.as_deref() else {
            return match self.range {
                _ if self.connection >= CONNECTIONS_MAX => Some("connection: is above 254"),
                range if range.is_empty() => Some("range: is empty; write at least one byte"),
                range if range.end == u64::MAX => {
                    Some("reading: is missing, but the range is open")
                }
                _ => None,
            };
        };
        let rates = [reading.speed, reading.buffer.map(|room| room.drain)];
        if self.connection >= CONNECTIONS_MAX {
            Some("connection: is above 254")
        } else if reading.needed_bytes == 0 || reading.needed_bytes > reading.bytes {
            Some("needed_bytes: is 0 or above bytes")
        } else if reading.bytes > reading.reply_bytes || reading.reply_bytes > self.range.len() {
            Some("bytes: is above reply_bytes, or these are above the range")
        } else if rates.contains(&Some(BitRate(0))) {
            Some("speed, drain: is 0; leave it out for no limit")
        } else {
            None
        }
    }
}
