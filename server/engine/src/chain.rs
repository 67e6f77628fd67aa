//! One chain on line: what one viewer reads of one stream, in sequence.
//!
//! The one idea (thesis 5.3): successive requests whose ranges touch are one reader, whatever
//! connections they come on and in whatever order. What is known of a chain is what was asked for and
//! sent, when, and what its player says of itself, as far as that is believed.

use alloc::vec::Vec;

use headlong_units::{BitRate, ByteRange, Duration, Instant};

use crate::age::Turn;
use crate::ids::{ConnectionId, JobId, RequestId, StreamId, ViewerId};
use crate::joining::{REREAD_BYTES, Whereabouts};
use crate::learned::LearnedChain;
use crate::once::Stay;
use crate::pace::Pace;
use crate::request::{Hints, Identity};
use crate::sizing::ChainShape;
use crate::unread::Unread;

/// A hinted bit rate is believed up to so many times what is known or usual, and down to such a
/// part of it: renditions beside one another differ by a factor of two at most (Apple's HLS
/// authoring specification asks for 1.5 to 2), and a stream's mean hides a peak of about two.
const BELIEVED_TIMES: u64 = 4;
/// Nobody who watches needs more than this ahead: players keep half a minute to a minute (30 s is
/// what hls.js keeps of long titles, 60 s is the most that dash.js keeps by default).
const WATCHED_AHEAD: Duration = Duration::from_secs(60);
/// A viewer of the process before may have gone on by so many times its pace, and so many requests:
/// players ask in bursts.
const WENT_ON_TIMES: u64 = 2;
/// For so long a reader of a title without a known bit rate must have been read at a rate beyond
/// belief: as long as players need to fill what they keep.
const BEYOND_BELIEF: Duration = Duration::from_secs(20);

/// One live chain. Offsets are logical: bytes from the start of the stream.
#[derive(Debug)]
pub(crate) struct Chain {
    /// Who reads it, or where it comes from.
    pub(crate) viewer: ViewerId,
    pub(crate) is_named: bool,
    /// Of its last request, if it has no name.
    pub(crate) connection: Option<ConnectionId>,
    pub(crate) stream: StreamId,
    /// Where it began.
    pub(crate) start: u64,
    /// End of what was asked for (chunk requests) or sent (open-ended ones).
    pub(crate) end: u64,
    /// Before `end`, and its reader without a name has not received it.
    owed: ByteRange,
    /// Until its first request in this process: how far its reader may have gone on since the process
    /// before last wrote down where it was.
    awaited_until: u64,
    /// Where the reader is: end of the last bytes handed to it.
    pub(crate) position: u64,
    /// End of what was read, or is queued to be read, for it.
    pub(crate) fetched_end: u64,
    /// End of what was read for it, even if it is there no more.
    pub(crate) read_once_end: u64,
    pub(crate) prefetched_bytes: u64,
    pub(crate) open_ended: bool,
    pub(crate) last_seen: Instant,
    pub(crate) last_request_bytes: u64,
    before_last_request_bytes: u64,
    /// Requests in progress, in order of arrival.
    pub(crate) active: Vec<RequestId>,
    /// Since when it has none: some only then.
    pub(crate) idle: Option<Turn>,
    pub(crate) stay: Stay,
    pub(crate) pace: Pace,
    pub(crate) hints: Hints,
    pub(crate) hinted_at: Instant,
    /// Pieces in memory that are kept for it.
    pub(crate) unread: Unread,
    pub(crate) job: Option<JobId>,
    /// A prefetch for it failed: until so many reads have succeeded, only what is asked for is read.
    pub(crate) careful: u8,
    /// No request of it came yet: its player said that one will.
    pub(crate) is_expected: bool,
}

impl Chain {
    /// One that begins at `start`, without a request yet.
    pub(crate) fn begin(
        now: Instant,
        (identity, stream): (Identity, StreamId),
        start: u64,
        open_ended: bool,
    ) -> Self {
        Self {
            viewer: identity.viewer(),
            is_named: matches!(identity, Identity::Named(_)),
            connection: None,
            stream,
            start,
            end: start,
            owed: ByteRange::default(),
            awaited_until: 0,
            position: start,
            fetched_end: start,
            read_once_end: start,
            prefetched_bytes: 0,
            open_ended,
            last_seen: now,
            last_request_bytes: 0,
            before_last_request_bytes: 0,
            active: Vec::new(),
            idle: None,
            stay: Stay::default(),
            pace: Pace::new(now),
            hints: Hints::default(),
            hinted_at: now,
            unread: Unread::default(),
            job: None,
            careful: 0,
            is_expected: false,
        }
    }

    /// Nothing of it is in memory, and its reader may have gone on: it is one of an earlier process.
    pub(crate) fn resume(&mut self, now: Instant, told: &LearnedChain) {
        self.fetched_end = told.position;
        self.read_once_end = told.position;
        self.last_request_bytes = told.last_request_bytes;
        self.pace = Pace::resume(now, told.pace);
        let went_on = told.pace.bytes_in(told.idle.times(WENT_ON_TIMES));
        let asked_on = told.last_request_bytes.saturating_mul(WENT_ON_TIMES);
        self.awaited_until = told.end.saturating_add(went_on).saturating_add(asked_on);
    }

    /// A request of it begins, on a connection. Answers the connection before if it is another one.
    pub(crate) fn begin_request(
        &mut self,
        now: Instant,
        request: RequestId,
        connection: Option<ConnectionId>,
    ) -> Option<Option<ConnectionId>> {
        self.last_seen = now;
        self.awaited_until = 0;
        self.active.push(request);
        self.idle = None;
        let before = core::mem::replace(&mut self.connection, connection);
        (before != connection).then_some(before)
    }

    /// A reply was cut off before its end: its reader may ask for the rest, and for what was on its
    /// way.
    pub(crate) fn cut_off(&mut self, rest: ByteRange) {
        if !self.is_named {
            let first = rest.start.saturating_sub(REREAD_BYTES).max(self.start);
            self.owed = ByteRange::new(first, rest.end.min(self.end));
        }
    }

    /// Whether its player has only said that it will ask.
    pub(crate) fn is_expected(&self) -> bool {
        self.is_expected
    }

    /// Whether it is read: not one that was only announced, nor one whose reader has left.
    pub(crate) fn is_reader(&self) -> bool {
        !self.is_expected && self.stay != Stay::Left
    }

    /// Whether no request of it is in progress.
    pub(crate) fn is_idle(&self) -> bool {
        self.active.is_empty()
    }

    /// Requests of a chain that turned out to be part of this one.
    pub(crate) fn take_requests(&mut self, requests: Vec<RequestId>) {
        self.active.extend(requests);
        self.idle = self.idle.filter(|_| self.active.is_empty());
    }

    /// Its reader asked for so much.
    pub(crate) fn note_request(&mut self, bytes: u64) {
        self.before_last_request_bytes = self.last_request_bytes;
        self.last_request_bytes = bytes;
    }

    /// What its reader may ask for next: as much as by the larger of the last two requests. Where a
    /// file of a title ends in the midst of what is asked for at a time, one of them is for a rest.
    pub(crate) fn next_request_bytes(&self) -> u64 {
        self.last_request_bytes.max(self.before_last_request_bytes)
    }

    /// From its first byte to its last.
    pub(crate) fn length_bytes(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// What the sizing rules may know.
    pub(crate) fn shape(&self) -> ChainShape {
        ChainShape {
            start_offset: self.start,
            open_ended: self.open_ended,
            prefetched_bytes: self.prefetched_bytes,
        }
    }

    /// How fast the reader is taken to be: what it shows, at least the bit rate of what it
    /// watches, at most what its player says it can take.
    pub(crate) fn pace(
        &self,
        now: Instant,
        bit_rate: Option<BitRate>,
        default: BitRate,
    ) -> BitRate {
        let shown = self.pace.rate(now);
        let watched = self.believed_bit_rate(bit_rate, default).or(bit_rate);
        let pace = match (shown, watched) {
            (Some(shown), Some(watched)) => shown.max(watched),
            (Some(rate), None) | (None, Some(rate)) => rate,
            (None, None) => default,
        };
        let able = self.hints.throughput.filter(|able| able.0 > 0);
        able.map_or(pace, |able| pace.min(able)).max(BitRate(1))
    }

    /// The bit rate that the player said, as far as it is believed: near what is known of the
    /// stream; else up to what the usual viewer may have, or what was read by this one would be if
    /// it lasted a second. What a player says decides how much is read for it, and with that how
    /// much is left for others.
    pub(crate) fn believed_bit_rate(
        &self,
        known: Option<BitRate>,
        default: BitRate,
    ) -> Option<BitRate> {
        let said = self.hints.bit_rate.filter(|said| said.0 > 0)?;
        let times = |rate: BitRate| BitRate(rate.0.saturating_mul(BELIEVED_TIMES));
        Some(match known.filter(|known| known.0 > 0) {
            Some(known) => {
                let least = BitRate((known.0 / BELIEVED_TIMES).max(1));
                said.max(least).min(times(known))
            }
            None => {
                let shown = BitRate(self.pace.total_bytes().saturating_mul(8));
                said.min(times(default).max(shown))
            }
        })
    }

    /// What the player still has in its buffer, if it said so.
    pub(crate) fn buffer(&self, now: Instant) -> Duration {
        let said = self.hints.buffer.unwrap_or(Duration::ZERO);
        said - now.since(self.hinted_at)
    }

    /// Whether its reader has far more than anybody who watches keeps: of a title whose bit rate is
    /// known by what it was given and how long ago it began; else by a rate that no usual title has.
    pub(crate) fn is_far_ahead(
        &self,
        now: Instant,
        bit_rate: Option<BitRate>,
        default: BitRate,
    ) -> bool {
        let (given, lasted) = (self.pace.total_bytes(), now.since(self.pace.first_at()));
        let (rate, least) = match bit_rate {
            Some(rate) => (rate, lasted + WATCHED_AHEAD),
            None => {
                let beyond_belief = BitRate(default.0.saturating_mul(BELIEVED_TIMES));
                (beyond_belief, lasted.max(BEYOND_BELIEF))
            }
        };
        given >= rate.bytes_in(least)
    }

    /// Who reads it.
    pub(crate) fn identity(&self) -> Identity {
        match self.is_named {
            true => Identity::Named(self.viewer),
            false => Identity::Unnamed {
                origin: self.viewer,
                connection: self.connection,
            },
        }
    }

    /// Where it is, for who looks for the chain of a request.
    pub(crate) fn whereabouts(&self) -> Whereabouts {
        let owed = match (self.awaited_until > self.end, self.owed.is_empty()) {
            (false, _) => self.owed,
            (true, true) => ByteRange::new(self.end, self.awaited_until),
            (true, false) => ByteRange::new(self.owed.start, self.awaited_until),
        };
        Whereabouts {
            start: self.start,
            end: self.end,
            fetched_end: self.fetched_end.max(self.awaited_until),
            owed,
            last_request_bytes: self.last_request_bytes,
            is_idle: self.is_idle(),
            open_ended: self.open_ended,
            connection: self.connection,
            last_seen: self.last_seen,
        }
    }

    /// Notes what of a request's way lies between it and the chain's end so far, or that something
    /// owed is on its way.
    pub(crate) fn owe_before(&mut self, asked: ByteRange) {
        if asked.start > self.end {
            let first = match self.owed.is_empty() {
                true => self.end,
                false => self.owed.start,
            };
            self.owed = ByteRange::new(first, asked.start);
        } else if self.owed.contains(asked.end) && asked.start <= self.owed.start {
            self.owed = ByteRange::new(asked.end, self.owed.end);
        } else if asked.start <= self.owed.start && asked.end >= self.owed.end {
            self.owed = ByteRange::default();
        }
    }
}
