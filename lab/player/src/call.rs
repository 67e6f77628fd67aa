//! Plans: everything about a session that is decided before it starts.

use alloc::vec::Vec;

use headlong_units::{BitRate, ByteRange, Duration};

use crate::AdaptivePlan;
use crate::object::ObjectId;

/// One request of a script (one line of a wsesslog, thesis 3.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// What is asked for.
    pub object: ObjectId,
    /// Which bytes; all of them if `None` (a chunk file, or a whole title at once). A range that
    /// ends at `u64::MAX` is open-ended: from there to the end of the file (thesis 5.1.3).
    pub range: Option<ByteRange>,
    /// How many bytes a right answer has, if known. If not, an answer to a range may be shorter
    /// than the range, as it is where the file ends, but no longer.
    pub expected_bytes: Option<u64>,
    /// The session ends if the answer is not whole by then, counted from the sending.
    pub timeout: Option<Duration>,
    /// Not before this long after the *start* of the call before it (`pacing`, `pace_time`).
    /// Means nothing in a session's first call and in one sent with the call before it.
    pub pace: Option<Duration>,
    /// Not before this long after the *end* of the call before it (`think`), and of every other
    /// call of that one's burst. Means nothing where `pace` means nothing.
    pub think: Option<Duration>,
    /// Sent together with the call before it, on a connection of its own: a member of a burst.
    pub with_previous: bool,
}

/// How the bytes of a script are shown. It only watches: what is asked for, and when, is the
/// script's own business.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Playback {
    /// At which they are played, in the order of their arrival.
    pub bit_rate: BitRate,
    /// So many are in the buffer before the picture moves, at first and after it stood still.
    pub start_bytes: u64,
}

/// Calls one after another.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Script {
    /// In order.
    pub calls: Vec<Call>,
    /// How they are shown, if that is to be known.
    pub playback: Option<Playback>,
}

impl Script {
    /// A script that nobody looks at.
    pub const fn new(calls: Vec<Call>) -> Self {
        Self {
            calls,
            playback: None,
        }
    }
}

/// What a session will do.
#[derive(Debug, Clone, PartialEq)]
pub enum Plan {
    /// The papers' simple player: it does as it is told, and leaves at the first failure.
    Script(Script),
    /// A player that adapts its bit rate.
    Adaptive(AdaptivePlan),
}
