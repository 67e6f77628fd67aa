//! Chains on line: what one viewer reads of one stream, in sequence.
//!
//! The one idea (thesis 5.3): successive requests whose ranges touch are one reader, whatever
//! connections they come on and in whatever order, if they are at most 40 s apart. Off line one
//! can look ahead; here a request joins the chain that it continues, precedes, reads again, or
//! runs ahead of by no more than what has been prefetched for it ([`crate::joining`]); and two
//! chains of a viewer with a name become one when a request bridges them.
//!
//! Invariants: a viewer with a name has at most [`CHAINS_PER_VIEWER`] chains without a request on
//! one stream; a chain that ended is gone from every index.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use headlong_units::{BitRate, ByteRange, Duration, Instant};

use crate::age::{AgeQueue, Turn};
use crate::id_map::IdMap;
use crate::ids::{ChainId, ConnectionId, JobId, RequestId, StreamId, ViewerId};
use crate::joining::{Between, CHAINS_PER_VIEWER, REREAD_BYTES, Unnamed, Whereabouts};
use crate::learned::LearnedChain;
use crate::once::{Once, Stay};
use crate::pace::Pace;
use crate::readers::Readers;
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
    is_named: bool,
    /// Of its last request, if it has no name.
    connection: Option<ConnectionId>,
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
    idle: Option<Turn>,
    stay: Stay,
    pub(crate) pace: Pace,
    pub(crate) hints: Hints,
    pub(crate) hinted_at: Instant,
    /// Pieces in memory that are kept for it.
    pub(crate) unread: Unread,
    pub(crate) job: Option<JobId>,
    /// A prefetch for it failed: until so many reads have succeeded, only what is asked for is read.
    pub(crate) careful: u8,
    /// No request of it came yet: its player said that one will.
    is_expected: bool,
}

impl Chain {
    /// Whether its player has only said that it will ask.
    pub(crate) fn is_expected(&self) -> bool {
        self.is_expected
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

    fn whereabouts(&self) -> Whereabouts {
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
    fn owe_before(&mut self, asked: ByteRange) {
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

/// Whether a viewer may begin a chain on a device that cannot take on more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MayBegin {
    /// It is not served here, or by as many chains as it may have.
    Nothing,
    /// One more: it seeks before its last request has ended, or takes up its sound.
    Another,
    /// One in place of another, which it has left: it seeks, or changes its rendition.
    InsteadOf(ChainId),
}

/// Chains of one viewer among which one is looked for that it has left.
const LOOKED_AT_MAX: usize = 16;

/// All live chains of a shard.
#[derive(Debug, Default)]
pub(crate) struct Chains {
    chains: IdMap<ChainId, Chain>,
    /// Of viewers with a name.
    by_reader: IdMap<(ViewerId, StreamId), Vec<ChainId>>,
    unnamed: Unnamed,
    /// The chains of each viewer, whatever they read.
    by_viewer: BTreeSet<(ViewerId, ChainId)>,
    readers: Readers,
    /// Those whose request has not come yet, and the bytes that were read for each.
    expected: BTreeMap<(ViewerId, ChainId), u64>,
    expected_bytes: u64,
    /// Chains without a request, by the time since when: when they were last seen.
    idle: AgeQueue<ChainId>,
    once: Once,
    next_id: u64,
}

impl Chains {
    pub(crate) fn len(&self) -> usize {
        self.chains.len()
    }

    pub(crate) fn get(&self, id: ChainId) -> Option<&Chain> {
        self.chains.get(&id)
    }

    /// At most `count` of them, by viewer and age.
    pub(crate) fn at_most(&self, count: usize) -> impl Iterator<Item = (ChainId, &Chain)> {
        let ids = self.by_viewer.iter().take(count);
        ids.filter_map(|(_, id)| Some((*id, self.get(*id)?)))
    }

    /// For changes other than of `position` ([`Self::move_to`]) and `end` ([`Self::extend`]).
    pub(crate) fn get_mut(&mut self, id: ChainId) -> Option<&mut Chain> {
        self.chains.get_mut(&id)
    }

    /// All of them, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ChainId, &Chain)> + '_ {
        self.chains.iter().map(|(id, chain)| (*id, chain))
    }

    /// What a viewer may do while new viewers are refused: [`MayBegin`]. Without a name it may do
    /// so by the chains of its connection, else by those of where it comes from, if they are few
    /// enough to be its own.
    pub(crate) fn may_begin(&self, identity: Identity) -> MayBegin {
        let viewer = identity.viewer();
        let of_viewer = (viewer, ChainId(0))..=(viewer, ChainId(u64::MAX));
        let of_viewer = self.by_viewer.range(of_viewer).map(|(_, id)| *id);
        let of_viewer = of_viewer.take(LOOKED_AT_MAX);
        let on_connection = identity.connection().map(|of| self.unnamed.on(of));
        let mut first: Vec<ChainId> = on_connection.into_iter().flatten().collect();
        if first.is_empty() {
            first.extend(of_viewer);
        }
        let is_named = matches!(identity, Identity::Named(_));
        if !is_named && first.len() > CHAINS_PER_VIEWER {
            return MayBegin::Nothing;
        }
        let is_idle = |id: &&ChainId| self.chains[*id].is_idle();
        match (first.len(), first.iter().find(is_idle)) {
            (0, _) => MayBegin::Nothing,
            (1, _) => MayBegin::Another,
            (_, Some(idle)) => MayBegin::InsteadOf(*idle),
            _ => MayBegin::Nothing,
        }
    }

    /// The chain that a request for `range` belongs to, with the chain that the request turns out
    /// to join it to.
    pub(crate) fn find(
        &self,
        now: Instant,
        (gap, between): (Duration, Between),
        (identity, stream): (Identity, StreamId),
        range: ByteRange,
    ) -> Option<(ChainId, Option<ChainId>)> {
        let whereabouts = |id: ChainId| {
            let chain = &self.chains[&id];
            let is_live = !chain.is_idle() || now.since(chain.last_seen) <= gap;
            is_live.then(|| chain.whereabouts())
        };
        let reader = (identity.viewer(), stream);
        if let Identity::Unnamed { connection, .. } = identity {
            let found = self
                .unnamed
                .find(reader, range, (connection, between), whereabouts);
            return found.map(|id| (id, None));
        }
        let ids = self.by_reader.get(&reader)?;
        // Nearly always there is one, and one cannot be joined to another.
        if let [id] = ids[..] {
            let chain = whereabouts(id)?;
            let is_it = chain.continues_with(range) || chain.is_preceded_by(range);
            return is_it.then_some((id, None));
        }
        // Newest first: where the viewer is now, before where it jumped from.
        let newest = || {
            let newest = ids.iter().rev().copied();
            newest.filter_map(|id| Some((id, whereabouts(id)?)))
        };
        let continued = newest().find(|(_, chain)| chain.continues_with(range));
        let continued = continued.map(|(id, _)| id);
        let preceded = newest()
            .find(|(id, chain)| Some(*id) != continued && chain.is_preceded_by(range))
            .map(|(id, _)| id);
        match (continued, preceded) {
            (Some(chain), bridged) => Some((chain, bridged)),
            (None, Some(chain)) => Some((chain, None)),
            (None, None) => None,
        }
    }

    /// Begins a chain. Answers it, and the chain that has to end because its viewer has too many.
    pub(crate) fn begin(
        &mut self,
        now: Instant,
        (identity, stream): (Identity, StreamId),
        start: u64,
        open_ended: bool,
    ) -> (ChainId, Option<ChainId>) {
        let id = ChainId(self.next_id);
        self.next_id += 1;
        let reader = (identity.viewer(), stream);
        let is_named = matches!(identity, Identity::Named(_));
        let chain = Chain {
            viewer: reader.0,
            is_named,
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
        };
        let surplus = match is_named {
            true => self.add_sibling(reader, id),
            false => {
                self.unnamed.add(reader, start, id);
                None
            }
        };
        self.by_viewer.insert((reader.0, id));
        self.readers.add(reader.1, (start, id));
        self.chains.insert(id, chain);
        (id, surplus)
    }

    /// Begins a chain where an earlier process had it, with nothing of it in memory and no request.
    /// Its first job is a start: many come back at once, and that they wait then does not say that
    /// the device has too much to do.
    /// Answers the chain that has to end because its viewer has too many.
    pub(crate) fn resume(
        &mut self,
        now: Instant,
        stream: StreamId,
        told: &LearnedChain,
    ) -> Option<ChainId> {
        let (id, surplus) = self.begin(now, (told.viewer, stream), told.start, told.open_ended);
        self.extend(id, ByteRange::new(told.start, told.end));
        self.move_to(id, told.position);
        // What was on its way when the process ended may not have come.
        self.cut_off(id, ByteRange::new(told.position, told.end));
        let turn = self.idle.push(now, id);
        if let Some(chain) = self.chains.get_mut(&id) {
            chain.idle = Some(turn);
            chain.fetched_end = told.position;
            chain.read_once_end = told.position;
            chain.last_request_bytes = told.last_request_bytes;
            chain.pace = Pace::resume(now, told.pace);
            let went_on = told.pace.bytes_in(told.idle.times(WENT_ON_TIMES));
            let asked_on = told.last_request_bytes.saturating_mul(WENT_ON_TIMES);
            chain.awaited_until = told.end.saturating_add(went_on).saturating_add(asked_on);
        }
        surplus
    }

    /// Begins the chain of a request that will come, as its viewer says. Answers it, and the chain that
    /// has to end because its viewer has too many.
    pub(crate) fn expect(
        &mut self,
        now: Instant,
        reader: (Identity, StreamId),
        start: u64,
    ) -> (ChainId, Option<ChainId>) {
        let (id, surplus) = self.begin(now, reader, start, false);
        let turn = self.idle.push(now, id);
        if let Some(chain) = self.chains.get_mut(&id) {
            chain.idle = Some(turn);
            chain.is_expected = true;
            self.expected.insert((chain.viewer, id), 0);
        }
        let turn_of = |id| self.chains.get(&id)?.idle;
        self.idle.tidy(self.chains.len(), turn_of);
        (id, surplus)
    }

    /// A request of a chain comes: of one that was expected it decides what it is. Whether it was.
    pub(crate) fn meet(&mut self, now: Instant, id: ChainId, open_ended: bool) -> bool {
        let chain = self.chains.get_mut(&id);
        let Some(chain) = chain.filter(|chain| chain.is_expected) else {
            return false;
        };
        chain.is_expected = false;
        chain.open_ended = open_ended;
        chain.pace = Pace::new(now);
        let held = self.expected.remove(&(chain.viewer, id));
        self.expected_bytes -= held.unwrap_or(0);
        true
    }

    /// How many of a viewer's chains are expected, as far as `count_max`.
    pub(crate) fn expected_of(&self, identity: Identity, count_max: usize) -> usize {
        let viewer = identity.viewer();
        let of_viewer = (viewer, ChainId(0))..=(viewer, ChainId(u64::MAX));
        self.expected.range(of_viewer).take(count_max).count()
    }

    /// Bytes that were read for all that are expected.
    pub(crate) fn expected_bytes(&self) -> u64 {
        self.expected_bytes
    }

    /// So many more bytes are read for a chain; they count if it is expected.
    pub(crate) fn hold_expected(&mut self, id: ChainId, more: u64) {
        let Some(viewer) = self.chains.get(&id).map(|chain| chain.viewer) else {
            return;
        };
        if let Some(held) = self.expected.get_mut(&(viewer, id)) {
            *held += more;
            self.expected_bytes += more;
        }
    }

    /// Answers the chain that has to end because its viewer has too many on the stream.
    fn add_sibling(&mut self, reader: (ViewerId, StreamId), id: ChainId) -> Option<ChainId> {
        let siblings = self.by_reader.entry(reader).or_default();
        let idle = |id: &&ChainId| self.chains[*id].is_idle();
        let surplus = (siblings.len() >= CHAINS_PER_VIEWER)
            .then(|| siblings.iter().find(idle).copied())
            .flatten();
        siblings.push(id);
        surplus
    }

    /// A request of the chain begins.
    pub(crate) fn begin_request(
        &mut self,
        now: Instant,
        id: ChainId,
        request: RequestId,
        connection: Option<ConnectionId>,
    ) {
        if let Some(chain) = self.chains.get_mut(&id) {
            chain.last_seen = now;
            chain.awaited_until = 0;
            chain.active.push(request);
            chain.idle = None;
            self.once.asks(&mut chain.stay);
            if chain.connection != connection {
                let moved = (chain.connection, connection);
                self.unnamed.move_connection(moved, id);
                chain.connection = connection;
            }
        }
    }

    /// Of the chain, `asked` was asked for or sent. Answers by how many bytes it is longer.
    pub(crate) fn extend(&mut self, id: ChainId, asked: ByteRange) -> u64 {
        let Some(chain) = self.chains.get_mut(&id) else {
            return 0;
        };
        let (length_before, end) = (chain.length_bytes(), chain.end.max(asked.end));
        if !chain.is_named {
            chain.owe_before(asked);
            if chain.end != end {
                let reader = (chain.viewer, chain.stream);
                self.unnamed.move_end(reader, (chain.end, end), id);
            }
        }
        chain.start = chain.start.min(asked.start);
        chain.end = end;
        chain.length_bytes() - length_before
    }

    /// A reply was cut off before its end: its reader may ask for the rest, and for what was on its
    /// way.
    pub(crate) fn cut_off(&mut self, id: ChainId, rest: ByteRange) {
        if let Some(chain) = self.chains.get_mut(&id)
            && !chain.is_named
        {
            let first = rest.start.saturating_sub(REREAD_BYTES).max(chain.start);
            chain.owed = ByteRange::new(first, rest.end.min(chain.end));
        }
    }

    /// A request of the chain is over.
    pub(crate) fn end_request(&mut self, now: Instant, id: ChainId, request: RequestId) {
        let Some(chain) = self.chains.get_mut(&id) else {
            return;
        };
        chain.active.retain(|active| *active != request);
        chain.last_seen = now;
        if chain.active.is_empty() {
            chain.idle = Some(self.idle.push(now, id));
            self.once.rests(now, id, &mut chain.stay);
            let turn_of = |id| self.chains.get(&id)?.idle;
            self.idle.tidy(self.chains.len(), turn_of);
            let stay_of = |id| Some(self.chains.get(&id)?.stay);
            self.once.tidy(self.chains.len(), stay_of);
        }
    }

    /// Ends a chain.
    pub(crate) fn end(&mut self, id: ChainId) -> Option<Chain> {
        let chain = self.chains.remove(&id)?;
        self.once.leave(chain.stay);
        self.readers.remove(chain.stream, (chain.position, id));
        let reader = (chain.viewer, chain.stream);
        if !chain.is_named {
            let last = (chain.end, chain.connection);
            self.unnamed.remove(reader, last, id);
        }
        if let Some(siblings) = self.by_reader.get_mut(&reader) {
            siblings.retain(|sibling| *sibling != id);
            if siblings.is_empty() {
                self.by_reader.remove(&reader);
            }
        }
        self.by_viewer.remove(&(chain.viewer, id));
        let held = self.expected.remove(&(chain.viewer, id));
        self.expected_bytes -= held.unwrap_or(0);
        Some(chain)
    }

    /// The reader is at `position` now.
    pub(crate) fn move_to(&mut self, id: ChainId, position: u64) {
        if let Some(chain) = self.chains.get_mut(&id)
            && chain.position != position
        {
            self.readers
                .move_to(chain.stream, (chain.position, id), position);
            chain.position = position;
        }
    }

    /// The nearest reader of the stream that has not passed `offset`.
    pub(crate) fn nearest_behind(&self, stream: StreamId, offset: u64) -> Option<&Chain> {
        let id = self.readers.nearest_behind(stream, offset)?;
        self.chains.get(&id)
    }

    /// Chains of a stream.
    pub(crate) fn of_stream(&self, stream: StreamId) -> Vec<ChainId> {
        self.readers.of_stream(stream).collect()
    }

    /// A chain that has been idle for longer than `gap`, to be ended; call until `None`.
    pub(crate) fn poll_expired(&mut self, now: Instant, gap: Duration) -> Option<ChainId> {
        let longest = self.oldest_idle();
        longest.and_then(|(since, id)| (now.since(since) > gap).then_some(id))
    }

    /// Readers who asked once and have left by now, it seems, are not counted any more.
    pub(crate) fn note_left(&mut self, now: Instant, gap: Duration) {
        let stay_of = |chains: &IdMap<ChainId, Chain>, id| Some(chains.get(&id)?.stay);
        while let Some(left) = self.once.poll((now, gap), |id| stay_of(&self.chains, id)) {
            if let Some(chain) = self.chains.get_mut(&left) {
                chain.stay = Stay::Left;
            }
        }
    }

    /// Chains that are read: not those that were only announced, nor those whose reader has left.
    pub(crate) fn reader_count(&self) -> usize {
        self.chains.len() - self.expected.len() - self.once.left_count()
    }

    /// The chain that has been idle longest, if any is idle.
    pub(crate) fn longest_idle(&mut self) -> Option<ChainId> {
        self.oldest_idle().map(|(_, id)| id)
    }

    fn oldest_idle(&mut self) -> Option<(Instant, ChainId)> {
        self.idle.oldest(|id| self.chains.get(&id)?.idle)
    }

    /// When [`Self::poll_expired`] or [`Self::note_left`] may have something to say.
    pub(crate) fn poll_timeout(&self, gap: Duration) -> Option<Instant> {
        let idle = self.idle.since().map(|since| since + gap + Duration(1));
        idle.into_iter().chain(self.once.poll_timeout(gap)).min()
    }

    /// Panics if an invariant is broken.
    pub(crate) fn check_invariants(&self) {
        for (id, chain) in &self.chains {
            assert_eq!(chain.idle.is_some(), chain.is_idle(), "{id:?}");
            let is_known = |turn| self.idle.has(turn);
            assert!(chain.idle.is_none_or(is_known), "{id:?} is in no queue");
            assert!(chain.start <= chain.end, "{chain:?}");
            assert!(self.by_viewer.contains(&(chain.viewer, *id)));
            let is_expected = self.expected.contains_key(&(chain.viewer, *id));
            assert_eq!(is_expected, chain.is_expected, "{chain:?}");
            let reader = (chain.viewer, chain.stream);
            let last = (chain.end, chain.connection);
            let siblings = self.by_reader.get(&reader).into_iter().flatten();
            let count = siblings.filter(|of| *of == id).count();
            assert_eq!(count, usize::from(chain.is_named));
            assert_eq!(self.unnamed.has(reader, last, *id), !chain.is_named);
            assert!(self.readers.has(chain.stream, (chain.position, *id)));
        }
        let have_left = self
            .chains
            .values()
            .filter(|chain| chain.stay == Stay::Left);
        assert_eq!(have_left.count(), self.once.left_count());
        assert_eq!(self.by_viewer.len(), self.chains.len());
        assert_eq!(self.expected.values().sum::<u64>(), self.expected_bytes);
        let is_live = |(_, id): &&(ViewerId, ChainId)| self.chains.get(id).is_some();
        assert_eq!(
            self.expected.keys().filter(is_live).count(),
            self.expected.len()
        );
        let unnamed = self.chains.values().filter(|chain| !chain.is_named);
        assert_eq!(self.unnamed.len(), unnamed.count());
    }
}

#[cfg(test)]
#[path = "chain_tests.rs"]
mod tests;
