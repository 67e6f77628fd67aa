//! Matches requests to chains by their positions.
//!
//! A chain is a position in a stream that moves forward, and a request belongs to the chain that
//! was at its first byte. For a named viewer only its own few chains are candidates, so the match
//! is tolerant: of rereads, overtaking and reordering. For an unnamed viewer all chains of its
//! address are candidates, so only deviations that are unlikely to be another viewer's are
//! tolerated. Two unnamed viewers at one position may be confused; each position still has its
//! chain.
//!
//! Invariant: the work for one request is bounded, however many viewers share an address.

use alloc::collections::BTreeSet;

use headlong_units::{ByteRange, Instant};

use crate::config::EngineConfig;
use crate::ids::{ChainId, ConnectionId, StreamId, ViewerId};

/// How far before its end a chain may be reread and still be the same chain.
pub(crate) const REREAD_BYTES: u64 = 4 << 20;
/// Live chains of one viewer on one stream: the present position, and those it jumped from. An
/// unnamed viewer with more is assumed to be several.
pub(crate) const CHAINS_PER_VIEWER: usize = 4;
/// Concurrent requests of one viewer; more are assumed to come from several viewers.
const PARALLEL_MAX: u64 = 4;
/// Chains near a request that are searched for its own, in each direction.
const LOOKED_AT_MAX: usize = 16;

/// The position of a chain, and the properties of its reader that identify it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChainPosition {
    /// Its lowest offset.
    pub(crate) start: u64,
    /// End of the requested bytes.
    pub(crate) end: u64,
    /// End of the bytes that were read for it or are queued to be read.
    pub(crate) fetched_end: u64,
    /// Range before `end` that was not received: skipped, or cut off.
    pub(crate) owed: ByteRange,
    pub(crate) last_request_bytes: u64,
    pub(crate) is_idle: bool,
    pub(crate) open_ended: bool,
    /// Connection of its last request.
    pub(crate) connection: Option<ConnectionId>,
    pub(crate) last_seen: Instant,
}

/// How requests of one viewer may deviate from a sequence: by a kernel between it and this server,
/// or because they overlap.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ProxyTolerance {
    /// How far before the end of its requested bytes it may request again.
    reread_bytes: u64,
    /// How many bytes after that end it may skip.
    skip_bytes: u64,
}

impl ProxyTolerance {
    pub(crate) fn of(config: &EngineConfig) -> Self {
        Self {
            reread_bytes: config.reread_bytes,
            skip_bytes: config.skip_bytes,
        }
    }

    /// The same for a request that repeats the last bytes of the one before it.
    pub(crate) fn overlapping(self, overlap_bytes: u64) -> Self {
        Self {
            reread_bytes: self.reread_bytes.max(overlap_bytes.min(REREAD_BYTES)),
            ..self
        }
    }
}

/// Why a request of an unnamed viewer belongs to a chain, the best reason first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum MatchReason {
    /// It begins at the chain's end.
    Next,
    /// It requests bytes that the chain's reader has not received.
    Owed,
    /// It uses the chain's connection, and a named viewer's request would match.
    Connection,
    /// It was overtaken by a later request: several are in progress at once.
    Overtaken,
    /// It overtook a request that was sent before it.
    Overtook,
    /// It begins so little before the chain's end that the kernel may have dropped that readahead
    /// unused, or that consecutive requests share those bytes.
    Again,
    /// It begins this many bytes after the chain's end, where its reader is expected: the kernel
    /// may have had the bytes in between, or requested the rest first.
    Skipped(u64),
}

impl ChainPosition {
    /// Whether a request continues the chain, rereads its last part, or overtakes it within the
    /// prefetched range.
    pub(crate) fn continues_with(&self, range: ByteRange) -> bool {
        let again = self.end.saturating_sub(REREAD_BYTES).max(self.start);
        (again..=self.end.max(self.fetched_end)).contains(&range.start)
    }

    /// Whether a request ends in or at the chain's beginning.
    pub(crate) fn is_preceded_by(&self, range: ByteRange) -> bool {
        (range.start + 1..=range.end).contains(&self.start)
    }

    /// Why a request of an unnamed viewer belongs to the chain; `None` if it does not.
    fn reason(
        &self,
        range: ByteRange,
        connection: Option<ConnectionId>,
        between: ProxyTolerance,
    ) -> Option<MatchReason> {
        let in_parallel = PARALLEL_MAX.saturating_mul(self.last_request_bytes);
        let is_young = self.end - self.start <= in_parallel;
        // An open-ended request already covers everything after its start: another request at that
        // start, before any byte was sent, comes from another viewer.
        let is_busy = !self.is_idle && !self.open_ended;
        let is_ahead = self.end..=self.end.saturating_add(in_parallel);
        let skipped = range.start.saturating_sub(self.end);
        let is_asking = !self.is_idle && self.open_ended;
        if range.start == self.end && !is_asking {
            Some(MatchReason::Next)
        } else if self.owed.contains(range.start) {
            Some(MatchReason::Owed)
        } else if connection.is_some()
            && connection == self.connection
            && (self.continues_with(range) || self.is_preceded_by(range))
        {
            Some(MatchReason::Connection)
        } else if is_busy && is_young && range.end == self.start && !range.is_empty() {
            Some(MatchReason::Overtaken)
        } else if is_busy && range.start <= self.fetched_end && is_ahead.contains(&range.start) {
            Some(MatchReason::Overtook)
        } else if (self.start..self.end).contains(&range.start)
            && self.end - range.start <= between.reread_bytes
        {
            Some(MatchReason::Again)
        } else if (1..=between.skip_bytes).contains(&skipped)
            && (range.start <= self.fetched_end || is_ahead.contains(&range.start))
        {
            Some(MatchReason::Skipped(skipped))
        } else {
            None
        }
    }
}

/// Chains of unnamed viewers, by position.
#[derive(Debug, Default)]
pub(crate) struct UnnamedChains {
    /// By origin, stream, and the end of the requested bytes.
    by_end: BTreeSet<(ViewerId, StreamId, u64, ChainId)>,
    /// By the connection last used.
    by_connection: BTreeSet<(ConnectionId, ChainId)>,
}

impl UnnamedChains {
    pub(crate) fn add(&mut self, (origin, stream): (ViewerId, StreamId), end: u64, id: ChainId) {
        self.by_end.insert((origin, stream, end, id));
    }

    /// The chain ended.
    pub(crate) fn remove(
        &mut self,
        (origin, stream): (ViewerId, StreamId),
        (end, connection): (u64, Option<ConnectionId>),
        id: ChainId,
    ) {
        self.by_end.remove(&(origin, stream, end, id));
        self.move_connection(connection, None, id);
    }

    /// More was requested.
    pub(crate) fn move_end(
        &mut self,
        (origin, stream): (ViewerId, StreamId),
        (from, to): (u64, u64),
        id: ChainId,
    ) {
        self.by_end.remove(&(origin, stream, from, id));
        self.by_end.insert((origin, stream, to, id));
    }

    /// The chain continues on another connection.
    pub(crate) fn move_connection(
        &mut self,
        from: Option<ConnectionId>,
        to: Option<ConnectionId>,
        id: ChainId,
    ) {
        if let Some(from) = from {
            self.by_connection.remove(&(from, id));
        }
        if let Some(to) = to {
            self.by_connection.insert((to, id));
        }
    }

    /// Chains last read over a connection; at most one more than a viewer may have, which shows
    /// that the connection is a proxy's.
    pub(crate) fn on(&self, connection: ConnectionId) -> impl Iterator<Item = ChainId> + '_ {
        let on_it = (connection, ChainId(0))..=(connection, ChainId(u64::MAX));
        let on_it = self.by_connection.range(on_it).map(|(_, id)| *id);
        on_it.take(CHAINS_PER_VIEWER + 1)
    }

    /// The chain that a request belongs to. Among equal reasons a chain of the same connection is
    /// preferred, then the one seen longest ago: at equal pace, its viewer is the next to send a
    /// request. `whereabouts` of an ended chain is `None`.
    pub(crate) fn find(
        &self,
        (origin, stream): (ViewerId, StreamId),
        range: ByteRange,
        (connection, between): (Option<ConnectionId>, ProxyTolerance),
        whereabouts: impl Fn(ChainId) -> Option<ChainPosition>,
    ) -> Option<ChainId> {
        let is_own = |connection| self.on(connection).count() <= CHAINS_PER_VIEWER;
        let connection = connection.filter(|connection| is_own(*connection));
        let at = |end, id| (origin, stream, end, ChainId(id));
        // Chains that end at the request's first byte, before it, and behind it.
        let next = self
            .by_end
            .range(at(range.start, 0)..=at(range.start, u64::MAX));
        let before = self.by_end.range(at(0, 0)..at(range.start, 0)).rev();
        let furthest = range.end.max(range.start).saturating_add(REREAD_BYTES);
        let behind = self
            .by_end
            .range(at(range.start + 1, 0)..=at(furthest, u64::MAX));
        let fits = |(.., id): &(_, _, _, ChainId)| {
            let chain = whereabouts(*id)?;
            let reason = chain.reason(range, connection, between)?;
            let is_elsewhere = connection.is_none() || connection != chain.connection;
            Some(((reason, is_elsewhere, chain.last_seen), *id))
        };
        // No reason is better than `Next`, so the other chains are checked only without a match.
        let next = next.take(LOOKED_AT_MAX).filter_map(fits).min();
        let near = || before.take(LOOKED_AT_MAX).chain(behind.take(LOOKED_AT_MAX));
        let best = next.or_else(|| near().filter_map(fits).min());
        best.map(|(_, id)| id)
    }

    /// Whether a chain is indexed at its position.
    pub(crate) fn has(
        &self,
        (origin, stream): (ViewerId, StreamId),
        (end, connection): (u64, Option<ConnectionId>),
        id: ChainId,
    ) -> bool {
        let is_listed = |connection| self.by_connection.contains(&(connection, id));
        self.by_end.contains(&(origin, stream, end, id)) && connection.is_none_or(is_listed)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_end.len()
    }
}
