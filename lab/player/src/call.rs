//! Plans: everything about a session that is decided before it starts.

use alloc::vec::Vec;

use headlong_units::{BitRate, ByteRange, Duration};
use serde::{Deserialize, Serialize};

use crate::object::ObjectId;
use crate::{AdaptivePlan, PhasedPlan};

/// One request of a script (one line of a wsesslog, thesis 3.4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptCall {
    /// The requested object.
    pub object: ObjectId,
    /// Requested range; the whole object if `None` (a chunk file, or a whole title at once). A
    /// range that ends at `u64::MAX` is open-ended: to the end of the file (thesis 5.1.3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<ByteRange>,
    /// Bytes of a correct reply, if known. If not, the reply to a range may be shorter than the
    /// range, as at the end of a file, but no longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_bytes: Option<u64>,
    /// The session ends if the reply is not complete after this time, counted from sending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Earliest time after the *start* of the previous call (`pacing`, `pace_time`). Ignored in a
    /// session's first call and in calls sent with the previous one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<Duration>,
    /// Earliest time after the *end* of the previous call (`think`) and of every other call of its
    /// burst. Ignored where `pace` is ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think: Option<Duration>,
    /// Sent together with the previous call, on a separate connection: a member of a burst.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub with_previous: bool,
}

/// Playback of the bytes of a script. It only observes; requests and their times are determined by
/// the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlaybackSpec {
    /// Bit rate of playback, in order of arrival.
    pub bit_rate: BitRate,
    /// Bytes in the buffer to start playback, initially and after a stall.
    pub start_bytes: u64,
}

/// A sequence of calls.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// In order.
    pub calls: Vec<ScriptCall>,
    /// Playback, if it should be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub playback: Option<PlaybackSpec>,
}

impl Script {
    /// A script without playback.
    pub const fn new(calls: Vec<ScriptCall>) -> Self {
        Self {
            calls,
            playback: None,
        }
    }
}

/// The plan of a session.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionPlan {
    /// The papers' simple player: follows its script, and leaves at the first failure.
    Script(Script),
    /// A player with adaptive bit rate.
    Adaptive(AdaptivePlan),
    /// A device of a phased workload: sends its requests at their times, and leaves at the first
    /// failure.
    Phases(PhasedPlan),
}
