//! One live chain: the sequential requests of one viewer for one stream.
//!
//! Successive requests with adjoining ranges belong to one reader, whatever connections they use
//! and in whatever order they arrive (thesis 5.3). A chain records the requested and sent ranges
//! with their times, and the player's hints, which are trusted within bounds.

use alloc::vec::Vec;

use headlong_units::{BitRate, ByteRange, Duration, Instant};

use crate::age_queue::StayId;
use crate::chain_matching::{ChainPosition, REREAD_BYTES};
use crate::ids::{ConnectionId, JobId, RequestId, StreamId, ViewerId};
use crate::one_shot::ReaderPresence;
use crate::pace::ViewerPace;
use crate::request::{Hints, ReaderIdentity};
use crate::saved_state::SavedChain;
use crate::sizing::ChainShape;
use crate::unread_pieces::UnreadPieces;

/// A hinted bit rate is accepted up to this multiple of the known or usual rate, and down to the
/// same fraction of it: adjacent renditions differ by a factor of two at most (Apple's HLS
/// authoring specification asks for 1.5 to 2), and a stream's mean hides a peak of about two.
const BELIEVED_TIMES: u64 = 4;
/// The longest buffer of a player that is watching: half a minute to a minute (hls.js keeps 30 s of
/// long titles, dash.js at most 60 s by default).
const WATCHED_AHEAD: Duration = Duration::from_secs(60);
/// A viewer of the previous process may have advanced by this multiple of its pace, and of its last
/// request: players send requests in bursts.
const WENT_ON_TIMES: u64 = 2;
/// A title without a known bit rate must have been read at an implausible rate for this long before
/// its reader counts as a download: as long as players need to fill their buffer.
const BEYOND_BELIEF: Duration = Duration::from_secs(20);

/// One live chain. Offsets are logical: bytes from the start of the stream.
#[derive(Debug)]
pub(crate) struct Chain {
    /// The viewer's name, or its origin if it has none.
    pub(crate) viewer: ViewerId,
    pub(crate) is_named: bool,
    /// Connection of its last request, if the viewer has no name.
    pub(crate) connection: Option<ConnectionId>,
    pub(crate) stream: StreamId,
    /// Its lowest offset.
    pub(crate) start: u64,
    /// End of the requested bytes (chunk requests) or of the sent bytes (open-ended requests).
    pub(crate) end: u64,
    /// Range before `end` that its unnamed reader has not received.
    owed: ByteRange,
    /// Until its first request in this process: how far the reader may have advanced since the
    /// previous process last saved its position.
    awaited_until: u64,
    /// Position of the reader: end of the last bytes handed to it.
    pub(crate) position: u64,
    /// End of the bytes that were read for it or are queued to be read.
    pub(crate) fetched_end: u64,
    /// End of the bytes that were read for it, even if they have been evicted since.
    pub(crate) read_once_end: u64,
    pub(crate) prefetched_bytes: u64,
    pub(crate) open_ended: bool,
    pub(crate) last_seen: Instant,
    pub(crate) last_request_bytes: u64,
    before_last_request_bytes: u64,
    /// Requests in progress, in order of arrival.
    pub(crate) active: Vec<RequestId>,
    /// Its turn in the queue of idle chains; set only while no request is in progress.
    pub(crate) idle: Option<StayId>,
    pub(crate) stay: ReaderPresence,
    pub(crate) pace: ViewerPace,
    pub(crate) hints: Hints,
    pub(crate) hinted_at: Instant,
    /// Pieces in memory that are kept for it.
    pub(crate) unread: UnreadPieces,
    pub(crate) job: Option<JobId>,
    /// A prefetch for it failed: until this many reads have succeeded, only demanded bytes are
    /// read.
    pub(crate) careful: u8,
    /// Announced by its player; no request has arrived yet.
    pub(crate) is_expected: bool,
}

impl Chain {
    /// A chain that begins at `start`, without a request yet.
    pub(crate) fn begin(
        now: Instant,
        (identity, stream): (ReaderIdentity, StreamId),
        start: u64,
        open_ended: bool,
    ) -> Self {
        Self {
            viewer: identity.viewer(),
            is_named: matches!(identity, ReaderIdentity::Named(_)),
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
            stay: ReaderPresence::default(),
            pace: ViewerPace::new(now),
            hints: Hints::default(),
            hinted_at: now,
            unread: UnreadPieces::default(),
            job: None,
            careful: 0,
            is_expected: false,
        }
    }

    /// Restores the state of a chain of an earlier process: none of its bytes are in memory, and
    /// its reader may have advanced since.
    pub(crate) fn resume(&mut self, now: Instant, told: &SavedChain) {
        self.fetched_end = told.position;
        self.read_once_end = told.position;
        self.last_request_bytes = told.last_request_bytes;
        self.pace = ViewerPace::resume(now, told.pace);
        let went_on = told.pace.bytes_in(told.idle.times(WENT_ON_TIMES));
        let asked_on = told.last_request_bytes.saturating_mul(WENT_ON_TIMES);
        self.awaited_until = told.end.saturating_add(went_on).saturating_add(asked_on);
    }

    /// A request of the chain begins on a connection. Returns the previous connection if it was
    /// another one.
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

    /// A reply was cut off before its end: the reader may request the rest again, and the bytes
    /// that were in flight.
    pub(crate) fn cut_off(&mut self, rest: ByteRange) {
        if !self.is_named {
            let first = rest.start.saturating_sub(REREAD_BYTES).max(self.start);
            self.owed = ByteRange::new(first, rest.end.min(self.end));
        }
    }

    /// Whether its player has only announced it.
    pub(crate) fn is_expected(&self) -> bool {
        self.is_expected
    }

    /// Whether it counts as a reader: not if it was only announced, nor if its reader has left.
    pub(crate) fn is_reader(&self) -> bool {
        !self.is_expected && self.stay != ReaderPresence::Left
    }

    /// Whether none of its requests is in progress.
    pub(crate) fn is_idle(&self) -> bool {
        self.active.is_empty()
    }

    /// Adopts the requests of a chain that was joined to this one.
    pub(crate) fn take_requests(&mut self, requests: Vec<RequestId>) {
        self.active.extend(requests);
        self.idle = self.idle.filter(|_| self.active.is_empty());
    }

    /// Its reader requested this many bytes.
    pub(crate) fn note_request(&mut self, bytes: u64) {
        self.before_last_request_bytes = self.last_request_bytes;
        self.last_request_bytes = bytes;
    }

    /// Expected size of the next request: the larger of the last two. Where a file of a title ends
    /// inside the player's usual request size, one of the two covers only the remainder.
    pub(crate) fn next_request_bytes(&self) -> u64 {
        self.last_request_bytes.max(self.before_last_request_bytes)
    }

    /// Bytes from its first byte to its last.
    pub(crate) fn length_bytes(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// The inputs of the sizing rules.
    pub(crate) fn shape(&self) -> ChainShape {
        ChainShape {
            start_offset: self.start,
            open_ended: self.open_ended,
            prefetched_bytes: self.prefetched_bytes,
        }
    }

    /// Assumed speed of the reader: the observed rate, at least the bit rate of the stream, at most
    /// the throughput that its player reports.
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

    /// The bit rate that the player reports, clamped: to near the known rate of the stream; if that
    /// is unknown, to a multiple of the usual rate, or to the rate at which the bytes read so far
    /// would last one second. The report decides how much is read for this viewer, and so how much
    /// memory is left for others.
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

    /// The player's remaining buffer, if it reported one.
    pub(crate) fn buffer(&self, now: Instant) -> Duration {
        let said = self.hints.buffer.unwrap_or(Duration::ZERO);
        said - now.since(self.hinted_at)
    }

    /// Whether the reader is much further ahead than a player that is watching: if the bit rate is
    /// known, by the bytes sent and the age of the chain; otherwise by a rate that no usual title
    /// has.
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

    /// The identity of its viewer.
    pub(crate) fn identity(&self) -> ReaderIdentity {
        match self.is_named {
            true => ReaderIdentity::Named(self.viewer),
            false => ReaderIdentity::Unnamed {
                origin: self.viewer,
                connection: self.connection,
            },
        }
    }

    /// Its position, for matching requests to chains.
    pub(crate) fn whereabouts(&self) -> ChainPosition {
        let owed = match (self.awaited_until > self.end, self.owed.is_empty()) {
            (false, _) => self.owed,
            (true, true) => ByteRange::new(self.end, self.awaited_until),
            (true, false) => ByteRange::new(self.owed.start, self.awaited_until),
        };
        ChainPosition {
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

    /// Records the gap between the chain's end and a request beyond it, or removes from the owed
    /// range what a request asks for.
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
