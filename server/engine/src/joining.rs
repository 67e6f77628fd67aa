//! Which chain a request belongs to, by where the chain is.
//!
//! The one idea: a chain is a place in a stream that moves forward, and a request belongs to the
//! chain that was at its first byte. If the viewer has a name, only its own few chains are asked,
//! and they forgive much: what is read again, what runs ahead, what comes in the wrong order. If it
//! has none, everybody behind its address is asked, so only what cannot well be another viewer's is
//! forgiven. Two without a name at one place may change places; each place still has its chain.
//!
//! Invariant: the work for one request has a bound, however many viewers share an address.

use alloc::collections::BTreeSet;

use headlong_units::{ByteRange, Instant};

use crate::config::EngineConfig;
use crate::ids::{ChainId, ConnectionId, StreamId, ViewerId};

/// How far behind its end a chain may be read again and still be the same chain.
pub(crate) const REREAD_BYTES: u64 = 4 << 20;
/// Live chains of one viewer on one stream: the present position, and those it jumped from. Who
/// seems to have more, and has no name, is several.
pub(crate) const CHAINS_PER_VIEWER: usize = 4;
/// Requests that one viewer has in progress at a time, beyond which they are taken to be of several.
const PARALLEL_MAX: u64 = 4;
/// Chains near a request among which its own is looked for, in each direction.
const LOOKED_AT_MAX: usize = 16;

/// Where a chain is, and what is known of who reads it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whereabouts {
    /// Where it began.
    pub(crate) start: u64,
    /// End of what was asked for.
    pub(crate) end: u64,
    /// End of what was read, or is queued to be read, for it.
    pub(crate) fetched_end: u64,
    /// Before `end`, and not received: skipped, or cut off.
    pub(crate) owed: ByteRange,
    pub(crate) last_request_bytes: u64,
    pub(crate) is_idle: bool,
    pub(crate) open_ended: bool,
    /// Of its last request.
    pub(crate) connection: Option<ConnectionId>,
    pub(crate) last_seen: Instant,
}

/// What a kernel between a viewer and here may make of its requests.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Between {
    /// It asks again for so many bytes before the end of what was asked for.
    reread_bytes: u64,
    /// It leaves out so many behind it.
    skip_bytes: u64,
}

impl Between {
    pub(crate) fn of(config: &EngineConfig) -> Self {
        Self {
            reread_bytes: config.reread_bytes,
            skip_bytes: config.skip_bytes,
        }
    }
}

/// Why a request without a name belongs to a chain, the best reason first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    /// It begins where the chain ends.
    Next,
    /// It asks for what the chain's reader has not received.
    Owed,
    /// It comes on the chain's connection, and a viewer with a name would be believed.
    Connection,
    /// It came before one that was sent after it: several are in progress at once.
    Overtaken,
    /// It overtook one that was sent before it.
    Overtook,
    /// It begins so little before the chain's end that the kernel may have read that ahead in vain.
    Again,
    /// It begins so many bytes behind the chain's end, where its reader is expected, that the kernel may
    /// have had what is in between, or asked for the rest first.
    Skipped(u64),
}

impl Whereabouts {
    /// Whether a request continues the chain, reads its last part again, or runs ahead within
    /// what is prefetched.
    pub(crate) fn continues_with(&self, range: ByteRange) -> bool {
        let again = self.end.saturating_sub(REREAD_BYTES).max(self.start);
        (again..=self.end.max(self.fetched_end)).contains(&range.start)
    }

    /// Whether a request ends in the chain's beginning.
    pub(crate) fn is_preceded_by(&self, range: ByteRange) -> bool {
        (range.start + 1..=range.end).contains(&self.start)
    }

    /// Why a request of a viewer without a name belongs to the chain; `None` if it does not.
    fn reason(
        &self,
        range: ByteRange,
        connection: Option<ConnectionId>,
        between: Between,
    ) -> Option<Reason> {
        let in_parallel = PARALLEL_MAX.saturating_mul(self.last_request_bytes);
        let is_young = self.end - self.start <= in_parallel;
        // Who asked for everything behind a place does not ask for more of it: who begins there too,
        // before anything has come, is another.
        let is_busy = !self.is_idle && !self.open_ended;
        let is_ahead = self.end..=self.end.saturating_add(in_parallel);
        let skipped = range.start.saturating_sub(self.end);
        let is_asking = !self.is_idle && self.open_ended;
        if range.start == self.end && !is_asking {
            Some(Reason::Next)
        } else if self.owed.contains(range.start) {
            Some(Reason::Owed)
        } else if connection.is_some()
            && connection == self.connection
            && (self.continues_with(range) || self.is_preceded_by(range))
        {
            Some(Reason::Connection)
        } else if is_busy && is_young && range.end == self.start && !range.is_empty() {
            Some(Reason::Overtaken)
        } else if is_busy && range.start <= self.fetched_end && is_ahead.contains(&range.start) {
            Some(Reason::Overtook)
        } else if (self.start..self.end).contains(&range.start)
            && self.end - range.start <= between.reread_bytes
        {
            Some(Reason::Again)
        } else if (1..=between.skip_bytes).contains(&skipped)
            && (range.start <= self.fetched_end || is_ahead.contains(&range.start))
        {
            Some(Reason::Skipped(skipped))
        } else {
            None
        }
    }
}

/// Chains of viewers without a name, by where they are.
#[derive(Debug, Default)]
pub(crate) struct Unnamed {
    /// By where viewers come from, what they read, and the end of what they asked for.
    by_end: BTreeSet<(ViewerId, StreamId, u64, ChainId)>,
    /// By the connection last used.
    by_connection: BTreeSet<(ConnectionId, ChainId)>,
}

impl Unnamed {
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
        self.move_connection((connection, None), id);
    }

    /// More was asked for.
    pub(crate) fn move_end(
        &mut self,
        (origin, stream): (ViewerId, StreamId),
        (from, to): (u64, u64),
        id: ChainId,
    ) {
        self.by_end.remove(&(origin, stream, from, id));
        self.by_end.insert((origin, stream, to, id));
    }

    /// The chain goes on over another connection.
    pub(crate) fn move_connection(
        &mut self,
        (from, to): (Option<ConnectionId>, Option<ConnectionId>),
        id: ChainId,
    ) {
        if let Some(from) = from {
            self.by_connection.remove(&(from, id));
        }
        if let Some(to) = to {
            self.by_connection.insert((to, id));
        }
    }

    /// Chains that were last read over a connection, but no more than show that it is a proxy's.
    pub(crate) fn on(&self, connection: ConnectionId) -> impl Iterator<Item = ChainId> + '_ {
        let on_it = (connection, ChainId(0))..=(connection, ChainId(u64::MAX));
        let on_it = self.by_connection.range(on_it).map(|(_, id)| *id);
        on_it.take(CHAINS_PER_VIEWER + 1)
    }

    /// The chain that a request belongs to. Of several with an equal reason it is one of the same
    /// connection, then the one that was seen longest ago: at one pace, its viewer is the next to
    /// ask. `whereabouts` of a chain that is over is `None`.
    pub(crate) fn find(
        &self,
        (origin, stream): (ViewerId, StreamId),
        range: ByteRange,
        (connection, between): (Option<ConnectionId>, Between),
        whereabouts: impl Fn(ChainId) -> Option<Whereabouts>,
    ) -> Option<ChainId> {
        let is_own = |connection| self.on(connection).count() <= CHAINS_PER_VIEWER;
        let connection = connection.filter(|connection| is_own(*connection));
        let at = |end, id| (origin, stream, end, ChainId(id));
        // What ends at the request's first byte, before it, and behind it.
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
        // No reason is better than that of the first, so the others are not looked at then.
        let next = next.take(LOOKED_AT_MAX).filter_map(fits).min();
        let near = || before.take(LOOKED_AT_MAX).chain(behind.take(LOOKED_AT_MAX));
        let best = next.or_else(|| near().filter_map(fits).min());
        best.map(|(_, id)| id)
    }

    /// Whether a chain is where it says that it is.
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
