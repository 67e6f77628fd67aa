//! Plans: everything about a session that is decided before it starts.

use alloc::vec::Vec;

use headlong_units::{ByteRange, Duration};

/// Which URL: a place in the trace's table of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub u32);

/// One request of a script (one line of a wsesslog, thesis 3.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// What is asked for.
    pub object: ObjectId,
    /// Which bytes; all of them if `None` (a chunk file, or a whole title at once).
    pub range: Option<ByteRange>,
    /// How many bytes a right answer has, if known.
    pub expected_bytes: Option<u64>,
    /// The session ends if the answer is not whole by then, counted from the sending.
    pub timeout: Option<Duration>,
    /// Not before this long after the *start* of the call before it (`pacing`, `pace_time`).
    pub pace: Option<Duration>,
    /// Not before this long after the *end* of the call before it (`think`).
    pub think: Option<Duration>,
    /// Sent together with the call before it, on a connection of its own: a member of a burst.
    pub with_previous: bool,
}

/// Calls one after another.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Script {
    /// In order.
    pub calls: Vec<Call>,
}

/// What a session will do.
#[derive(Debug, Clone, PartialEq)]
pub enum Plan {
    /// The papers' simple player: it does as it is told, and leaves at the first failure.
    Script(Script),
}
