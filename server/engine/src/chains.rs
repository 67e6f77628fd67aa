//! All live chains of a device: matches requests to chains, and tracks idle, announced and departed
//! ones.
//!
//! Requests of one reader are at most 40 s apart (thesis 5.3). A log analysis can look ahead; here
//! a request joins the chain that it continues, precedes, rereads, or overtakes within the
//! prefetched range (see [`crate::chain_matching`]). Two chains of a named viewer become one when a
//! request bridges them.
//!
//! Invariants: a named viewer has at most [`CHAINS_PER_VIEWER`] chains without a request on one
//! stream; a chain that ended is in no index.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use headlong_units::{ByteRange, Duration, Instant};

use crate::age_queue::AgeQueue;
use crate::chain::Chain;
use crate::chain_matching::{CHAINS_PER_VIEWER, ProxyTolerance, UnnamedChains};
use crate::id_map::IdMap;
use crate::ids::{ChainId, ConnectionId, RequestId, StreamId, ViewerId};
use crate::one_shot::{OneShotReaders, ReaderPresence};
use crate::pace::ViewerPace;
use crate::readers::Readers;
use crate::request::ReaderIdentity;
use crate::saved_state::SavedChain;

/// Whether a viewer may begin a chain on a device that refuses new viewers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewChainPermit {
    /// It is not being served, or already has as many chains as it may.
    Nothing,
    /// One more: it seeks before its last request has ended, or starts its audio rendition.
    Another,
    /// One that replaces an idle chain: it seeks, or changes its rendition.
    InsteadOf(ChainId),
}

/// How many chains of one viewer are searched for an idle one.
const LOOKED_AT_MAX: usize = 16;

/// All live chains of a shard.
#[derive(Debug, Default)]
pub(crate) struct Chains {
    chains: IdMap<ChainId, Chain>,
    /// Chains of named viewers.
    by_reader: IdMap<(ViewerId, StreamId), Vec<ChainId>>,
    unnamed: UnnamedChains,
    /// The chains of each viewer, on all streams.
    by_viewer: BTreeSet<(ViewerId, ChainId)>,
    readers: Readers,
    /// Announced chains, and the bytes that were read for each.
    expected: BTreeMap<(ViewerId, ChainId), u64>,
    expected_bytes: u64,
    /// Chains without a request, by the time at which they became idle.
    idle: AgeQueue<ChainId>,
    once: OneShotReaders,
    next_id: u64,
}

impl Chains {
    pub(crate) fn len(&self) -> usize {
        self.chains.len()
    }

    pub(crate) fn get(&self, id: ChainId) -> Option<&Chain> {
        self.chains.get(&id)
    }

    /// At most `count` chains, by viewer and age.
    pub(crate) fn at_most(&self, count: usize) -> impl Iterator<Item = (ChainId, &Chain)> {
        let ids = self.by_viewer.iter().take(count);
        ids.filter_map(|(_, id)| Some((*id, self.get(*id)?)))
    }

    /// For changes other than of `position` ([`Self::move_to`]) and `end` ([`Self::extend`]).
    pub(crate) fn get_mut(&mut self, id: ChainId) -> Option<&mut Chain> {
        self.chains.get_mut(&id)
    }

    /// All chains, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ChainId, &Chain)> + '_ {
        self.chains.iter().map(|(id, chain)| (*id, chain))
    }

    /// Whether a viewer may begin a chain while new ones are refused. An unnamed viewer is judged
    /// by the chains of its connection; without those, by the chains of its origin, if they are few
    /// enough to belong to one viewer.
    pub(crate) fn may_begin(&self, identity: ReaderIdentity) -> NewChainPermit {
        let viewer = identity.viewer();
        let of_viewer = (viewer, ChainId(0))..=(viewer, ChainId(u64::MAX));
        let of_viewer = self.by_viewer.range(of_viewer).map(|(_, id)| *id);
        let of_viewer = of_viewer.take(LOOKED_AT_MAX);
        let on_connection = identity.connection().map(|of| self.unnamed.on(of));
        let mut first: Vec<ChainId> = on_connection.into_iter().flatten().collect();
        if first.is_empty() {
            first.extend(of_viewer);
        }
        let is_named = matches!(identity, ReaderIdentity::Named(_));
        if !is_named && first.len() > CHAINS_PER_VIEWER {
            return NewChainPermit::Nothing;
        }
        let is_idle = |id: &&ChainId| self.chains[*id].is_idle();
        match (first.len(), first.iter().find(is_idle)) {
            (0, _) => NewChainPermit::Nothing,
            (1, _) => NewChainPermit::Another,
            (_, Some(idle)) => NewChainPermit::InsteadOf(*idle),
            _ => NewChainPermit::Nothing,
        }
    }

    /// The chain that a request for `range` belongs to, and the chain that the request joins to it,
    /// if any.
    pub(crate) fn find(
        &self,
        now: Instant,
        (gap, between): (Duration, ProxyTolerance),
        (identity, stream): (ReaderIdentity, StreamId),
        range: ByteRange,
    ) -> Option<(ChainId, Option<ChainId>)> {
        let whereabouts = |id: ChainId| {
            let chain = &self.chains[&id];
            let is_live = !chain.is_idle() || now.since(chain.last_seen) <= gap;
            is_live.then(|| chain.whereabouts())
        };
        let reader = (identity.viewer(), stream);
        if let ReaderIdentity::Unnamed { connection, .. } = identity {
            let found = self
                .unnamed
                .find(reader, range, (connection, between), whereabouts);
            return found.map(|id| (id, None));
        }
        let ids = self.by_reader.get(&reader)?;
        // The usual case: a single chain, which cannot be joined to another.
        if let [id] = ids[..] {
            let chain = whereabouts(id)?;
            let is_it = chain.continues_with(range) || chain.is_preceded_by(range);
            return is_it.then_some((id, None));
        }
        // Newest first: the viewer's present position comes before those it jumped from.
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

    /// Begins a chain. Returns it, and the chain that must end because its viewer has too many.
    pub(crate) fn begin(
        &mut self,
        now: Instant,
        (identity, stream): (ReaderIdentity, StreamId),
        start: u64,
        open_ended: bool,
    ) -> (ChainId, Option<ChainId>) {
        let id = ChainId(self.next_id);
        self.next_id += 1;
        let chain = Chain::begin(now, (identity, stream), start, open_ended);
        let reader = (chain.viewer, stream);
        let surplus = match chain.is_named {
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

    /// Restores a chain of an earlier process, with no bytes in memory and no request. Its first
    /// job counts as a start: many viewers return at once, and their waiting is no sign of
    /// overload. Returns the chain that must end because its viewer has too many.
    pub(crate) fn resume(
        &mut self,
        now: Instant,
        stream: StreamId,
        told: &SavedChain,
    ) -> Option<ChainId> {
        let (id, surplus) = self.begin(now, (told.viewer, stream), told.start, told.open_ended);
        self.extend(id, ByteRange::new(told.start, told.end));
        self.move_to(id, told.position);
        // Bytes in flight when the process ended may not have arrived.
        self.cut_off(id, ByteRange::new(told.position, told.end));
        let turn = self.idle.push(now, id);
        if let Some(chain) = self.chains.get_mut(&id) {
            chain.idle = Some(turn);
            chain.resume(now, told);
        }
        surplus
    }

    /// Begins the chain of a request that a viewer has announced. Returns it, and the chain that
    /// must end because its viewer has too many.
    pub(crate) fn expect(
        &mut self,
        now: Instant,
        reader: (ReaderIdentity, StreamId),
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

    /// A request of the chain arrives; for an announced chain it decides whether it is open-ended.
    /// Returns whether the chain was announced.
    pub(crate) fn meet(&mut self, now: Instant, id: ChainId, open_ended: bool) -> bool {
        let chain = self.chains.get_mut(&id);
        let Some(chain) = chain.filter(|chain| chain.is_expected) else {
            return false;
        };
        chain.is_expected = false;
        chain.open_ended = open_ended;
        chain.pace = ViewerPace::new(now);
        let held = self.expected.remove(&(chain.viewer, id));
        self.expected_bytes -= held.unwrap_or(0);
        true
    }

    /// How many announced chains a viewer has, counted up to `count_max`.
    pub(crate) fn expected_of(&self, identity: ReaderIdentity, count_max: usize) -> usize {
        let viewer = identity.viewer();
        let of_viewer = (viewer, ChainId(0))..=(viewer, ChainId(u64::MAX));
        self.expected.range(of_viewer).take(count_max).count()
    }

    /// Bytes that were read for all announced chains.
    pub(crate) fn expected_bytes(&self) -> u64 {
        self.expected_bytes
    }

    /// `more` bytes are read for a chain; they are counted if it is announced.
    pub(crate) fn hold_expected(&mut self, id: ChainId, more: u64) {
        let Some(viewer) = self.chains.get(&id).map(|chain| chain.viewer) else {
            return;
        };
        if let Some(held) = self.expected.get_mut(&(viewer, id)) {
            *held += more;
            self.expected_bytes += more;
        }
    }

    /// Returns the chain that must end because its viewer has too many on the stream.
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
            self.once.note_request(&mut chain.stay);
            if let Some(before) = chain.begin_request(now, request, connection) {
                self.unnamed.move_connection(before, connection, id);
            }
        }
    }

    /// The range `asked` of the chain was requested or sent. Returns by how many bytes the chain
    /// grew.
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

    /// A reply was cut off before its end: the reader may request the rest again, and the bytes
    /// that were in flight.
    pub(crate) fn cut_off(&mut self, id: ChainId, rest: ByteRange) {
        if let Some(chain) = self.chains.get_mut(&id) {
            chain.cut_off(rest);
        }
    }

    /// A request of the chain ended.
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

    /// A chain that has been idle for longer than `gap` and must be ended; call until `None`.
    pub(crate) fn poll_expired(&mut self, now: Instant, gap: Duration) -> Option<ChainId> {
        let longest = self.oldest_idle();
        longest.and_then(|(since, id)| (now.since(since) > gap).then_some(id))
    }

    /// Stops counting one-shot readers that have left by now.
    pub(crate) fn note_left(&mut self, now: Instant, gap: Duration) {
        let stay_of = |chains: &IdMap<ChainId, Chain>, id| Some(chains.get(&id)?.stay);
        while let Some(left) = self.once.poll(now, gap, |id| stay_of(&self.chains, id)) {
            if let Some(chain) = self.chains.get_mut(&left) {
                chain.stay = ReaderPresence::Left;
            }
        }
    }

    /// Number of chains with a reader: without those that are only announced and those whose reader
    /// has left.
    pub(crate) fn reader_count(&self) -> usize {
        self.chains.len() - self.expected.len() - self.once.left_count()
    }

    /// The idle chain that ends if there is no room for another one: of those whose viewer sent a
    /// single request the one that has been idle for longest, so that a client that samples titles
    /// without end ends no chains but such; else of all.
    pub(crate) fn least_needed(&mut self) -> Option<ChainId> {
        let (_, oldest) = self.oldest_idle()?;
        let stay_of = |id| Some(self.chains.get(&id)?.stay);
        match stay_of(oldest) {
            Some(ReaderPresence::Left) => Some(oldest),
            _ => self.once.oldest(stay_of).or(Some(oldest)),
        }
    }

    fn oldest_idle(&mut self) -> Option<(Instant, ChainId)> {
        self.idle.oldest(|id| self.chains.get(&id)?.idle)
    }

    /// When [`Self::poll_expired`] or [`Self::note_left`] may next return something.
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
            .filter(|chain| chain.stay == ReaderPresence::Left);
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
#[path = "chains_tests.rs"]
mod tests;
