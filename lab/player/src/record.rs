//! The player's output: commands and records.

use headlong_units::{BitRate, ByteRange, Duration, Instant};

use crate::{ObjectId, PartialRead};

/// A call within its session, from 0 in order of sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u32);

/// A command for the shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Request bytes on this connection of the session (from 0), which is opened if necessary.
    Send {
        /// Id of the call.
        call: CallId,
        /// Connection of the session.
        connection: u32,
        /// The URL.
        object: ObjectId,
        /// Range; the whole object if `None`. A range that ends at `u64::MAX` is open-ended
        /// (`bytes=5-`).
        range: Option<ByteRange>,
        /// Bytes of a correct reply, if known.
        expected_bytes: Option<u64>,
        /// The part of the reply that the player reads, and how fast; `None` if it reads all of it
        /// as it arrives. A shell stops reading where there is no room, so that flow control
        /// reaches the server.
        reading: Option<PartialRead>,
    },
    /// Abandon a call and close its connection: the player has ended it, and the session continues
    /// or is about to be closed. Not issued for a call whose transport has ended.
    Abandon {
        /// The call.
        call: CallId,
    },
    /// Close everything: the session is over.
    Close,
}

/// How a transfer ended, as the shell observed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TransportEnd {
    /// The reply is complete. The player checks its length.
    Whole,
    /// An unsuccessful status. Reporting the head alone has the same effect.
    Refused(u16),
    /// The connection failed, could not be opened, or the reply ended early.
    Broken,
    /// Verified bytes are not the title's.
    Wrong,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallEnd {
    /// Every expected byte arrived and passed verification.
    Whole,
    /// The timeout expired.
    TimedOut,
    /// The server replied with this unsuccessful status.
    Refused(u16),
    /// The connection failed or ended early.
    Broken,
    /// Bytes are not the title's, or their number is wrong.
    Wrong,
    /// The viewer left.
    Abandoned,
}

impl CallEnd {
    /// Whether the request was not fulfilled. A viewer that leaves deliberately has not failed.
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

/// Result of one call. Latencies count from `intended`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallRecord {
    /// The call.
    pub call: CallId,
    /// When the rules of the session allowed it to be sent.
    pub intended: Instant,
    /// When it was sent.
    pub sent: Instant,
    /// Arrival of the first byte of the body.
    pub first_byte: Option<Instant>,
    /// When it ended.
    pub ended: Instant,
    /// Bytes of the body that arrived.
    pub bytes: u64,
    /// How it ended.
    pub end: CallEnd,
}

/// A call of a run, as it is exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportedCall {
    /// Session of the run, from 0 in order of arrival.
    pub session: u64,
    /// Network class of the session.
    pub class: u32,
    /// Whether the figures of the run count it.
    pub counts: bool,
    /// Result of the call.
    pub record: CallRecord,
}

/// The end of a session and the viewer's experience.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionEnd {
    /// How its last call ended: [`CallEnd::Whole`] if everything planned was watched.
    pub end: CallEnd,
    /// When the session ended.
    pub ended: Instant,
    /// From the intended start to the start of playback, if it started. For a script without
    /// [`PlaybackSpec`](crate::PlaybackSpec): until its first call was complete.
    pub startup_delay: Option<Duration>,
    /// Number of stalls, without the start, the viewer's own pauses, and the waits after a skip.
    pub stalls: u32,
    /// Total time of stalls.
    pub stall_time: Duration,
    /// Media time played. Zero without playback.
    pub played: Duration,
    /// Mean bit rate of the received segments, or that of the script, if known.
    pub bit_rate: Option<BitRate>,
    /// Changes of bit rate.
    pub switches: u32,
    /// Bytes that arrived.
    pub bytes: u64,
}

/// The viewer's experience, without the received bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ViewingOutcome {
    pub(crate) startup_delay: Option<Duration>,
    pub(crate) stalls: u32,
    pub(crate) stall_time: Duration,
    pub(crate) played: Duration,
    pub(crate) bit_rate: Option<BitRate>,
    pub(crate) switches: u32,
}
