//! What a player says: its commands, and what became of them.

use headlong_units::{BitRate, ByteRange, Duration, Instant};

use crate::ObjectId;

/// A call within its session, from 0 in order of sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u32);

/// What the shell is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Ask for bytes, on this one of the session's connections (from 0), opened if it is not open.
    Send {
        /// Name of the call from now on.
        call: CallId,
        /// Which connection of the session.
        connection: u32,
        /// Which URL.
        object: ObjectId,
        /// Which bytes; all if `None`. One that ends at `u64::MAX` has no end (`bytes=5-`).
        range: Option<ByteRange>,
        /// Bytes of a right answer, if known.
        expected_bytes: Option<u64>,
    },
    /// Stop caring about a call and close its connection: the player has ended it, and the session
    /// goes on or is about to be closed. A call whose transport has ended is not abandoned.
    Abandon {
        /// Which.
        call: CallId,
    },
    /// Close everything: the session is over.
    Close,
}

/// How a transfer ended, as the shell saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TransportEnd {
    /// The reply came to its end. Whether it is the right length is the player's to judge.
    Whole,
    /// A status that is no success. Telling the head alone does the same.
    Refused(u16),
    /// There was no connection, or it failed, or the reply ended early.
    Broken,
    /// Bytes that were checked are not the title's.
    Wrong,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallEnd {
    /// Every expected byte arrived, and was right where it was checked.
    Whole,
    /// Its time was up.
    TimedOut,
    /// The server answered with this status, which is no success.
    Refused(u16),
    /// The connection failed or ended early.
    Broken,
    /// Bytes arrived that are not the title's, or more or fewer than they should be.
    Wrong,
    /// The viewer left.
    Abandoned,
}

impl CallEnd {
    /// Whether a viewer did not get what it asked for. One who leaves of its own will has not
    /// failed.
    pub const fn is_failure(self) -> bool {
        !matches!(self, Self::Whole | Self::Abandoned)
    }

    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::TimedOut => "timed_out",
            Self::Refused(_) => "refused",
            Self::Broken => "broken",
            Self::Wrong => "wrong",
            Self::Abandoned => "abandoned",
        }
    }
}

/// What became of one call. Latencies are to be taken from `intended`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallRecord {
    /// Which.
    pub call: CallId,
    /// When the session's rules allowed it to be sent.
    pub intended: Instant,
    /// When it was sent.
    pub sent: Instant,
    /// First byte of the body.
    pub first_byte: Option<Instant>,
    /// Its end.
    pub ended: Instant,
    /// Bytes of the body that arrived.
    pub bytes: u64,
    /// How it ended.
    pub end: CallEnd,
}

/// A call among all those of a run, as it is written down one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallSeen {
    /// Whose: a session of the run, from 0 in order of arrival.
    pub session: u64,
    /// Its network class.
    pub class: u32,
    /// Whether the run's figures count it.
    pub counts: bool,
    /// What became of it.
    pub record: CallRecord,
}

/// The end of a session and what the viewer saw of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionEnd {
    /// How its last call ended: [`CallEnd::Whole`] if everything planned was watched.
    pub end: CallEnd,
    /// When the session ended.
    pub ended: Instant,
    /// From the intended start until playback began, if it did. Of a script without
    /// [`Playback`](crate::Playback): until its first call was whole.
    pub startup_delay: Option<Duration>,
    /// How often playback stood still, not counting its start, the viewer's own pauses, and the
    /// moments after a skip.
    pub stalls: u32,
    /// For how long in all.
    pub stall_time: Duration,
    /// Media time that was played. Zero where nobody looks.
    pub played: Duration,
    /// Mean bit rate of the segments that came, or that of the script, if it is known.
    pub bit_rate: Option<BitRate>,
    /// Changes of bit rate.
    pub switches: u32,
    /// Bytes that arrived.
    pub bytes: u64,
}

/// What the viewer saw, before it is known how much arrived.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Outcome {
    pub(crate) startup_delay: Option<Duration>,
    pub(crate) stalls: u32,
    pub(crate) stall_time: Duration,
    pub(crate) played: Duration,
    pub(crate) bit_rate: Option<BitRate>,
    pub(crate) switches: u32,
}
