//! Requests: accepts or refuses a request; an accepted one joins its chain, or begins one if a new
//! chain is admitted.

use alloc::vec::Vec;

use headlong_units::{ByteRange, Duration, Instant};

use super::state::Shard;
use crate::chain_matching::ProxyTolerance;
use crate::chains::NewChainPermit;
use crate::command::Refusal;
use crate::config::Admission;
use crate::health::DeviceState;
use crate::ids::{ChainId, RequestId, StreamId};
use crate::layout::Layout;
use crate::memory::PieceKey;
use crate::replies::Reply;
use crate::request::{Hints, Request};

/// Streams of more pieces are not searched for one request: 128 MiB of the usual pieces.
const PIECES_LOOKED_AT_MAX: u32 = 2048;

/// A range of a stream that is in memory without a gap. Offsets are logical: bytes from the
/// stream's start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartInMemory {
    /// Logical offset of each of its parts.
    pub part_starts: Vec<u64>,
    /// Bytes in all parts.
    pub stream_bytes: u64,
    /// The range in memory.
    pub range: ByteRange,
}

impl Shard {
    /// A viewer requests bytes. If the request is accepted, they arrive as [`Event::Ready`], in
    /// order.
    ///
    /// # Errors
    /// Why the request is refused; no event follows for it.
    pub fn handle_request(
        &mut self,
        now: Instant,
        id: RequestId,
        request: Request,
    ) -> Result<(), Refusal> {
        self.begin(now);
        let result = self.take_on(id, request);
        let turned_away = matches!(
            result,
            Err(Refusal::Overloaded { .. } | Refusal::Full | Refusal::Offline { .. })
        );
        self.stats.requests_refused += u64::from(turned_away);
        self.finish();
        result
    }

    fn take_on(&mut self, id: RequestId, request: Request) -> Result<(), Refusal> {
        let stream = self
            .streams
            .get(request.stream)
            .ok_or(Refusal::UnknownStream)?;
        let part_bytes = stream
            .layout
            .part_bytes(request.part)
            .ok_or(Refusal::OutOfBounds)?;
        let end = request
            .offset
            .checked_add(request.length)
            .ok_or(Refusal::OutOfBounds)?;
        if end > part_bytes {
            return Err(Refusal::OutOfBounds);
        }
        // A chunk file is requested whole, and is still one chunk of a longer sequence.
        let open_ended = request.open_ended && stream.layout.part_count() == 1;
        let start = stream.layout.logical(request.part, request.offset);
        let first_piece = stream.layout.piece_at(request.part, request.offset);
        if request.length > 0 {
            self.check_device((request.stream, first_piece))?;
        }
        if self.replies.len() >= self.config.requests_max {
            return Err(Refusal::Full);
        }
        // An open-ended request does not tell how far it will go.
        let asked = ByteRange::new(
            start,
            if open_ended {
                start
            } else {
                start + request.length
            },
        );
        let chain = self.join_chain(&request, asked, open_ended)?;
        self.stats.requests += 1;
        if !open_ended {
            self.stats.bytes_requested += request.length;
        }
        let from = (request.stream, request.part);
        let reply = Reply::new(self.now, chain, from, open_ended, (request.offset, end));
        let reply = reply.held_by(request.holder);
        self.replies.add(id, reply);
        self.note_request(id, chain, &request, asked);
        self.advance(id);
        Ok(())
    }

    /// The chain of a request in progress; `None` if it has ended or was refused. Ids are never
    /// reused.
    pub fn chain_of(&self, id: RequestId) -> Option<ChainId> {
        self.replies.get(id).map(|request| request.chain)
    }

    /// A device out of service still serves pieces in memory.
    fn check_device(&self, first: PieceKey) -> Result<(), Refusal> {
        let in_memory = || {
            let slot = self.memory.find(first);
            slot.is_some_and(|slot| self.memory.is_ready(slot))
        };
        if self.device_state() != DeviceState::Offline || in_memory() || self.is_on_flash(first) {
            return Ok(());
        }
        let until = self.health.retry_at().map(|at| at.since(self.now));
        let retry_after = until
            .unwrap_or(self.config.read_timeout)
            .max(Duration::from_secs(1));
        Err(Refusal::Offline { retry_after })
    }

    fn join_chain(
        &mut self,
        request: &Request,
        asked: ByteRange,
        open_ended: bool,
    ) -> Result<ChainId, Refusal> {
        let reader = (request.viewer, request.stream);
        let tolerance = ProxyTolerance::of(&self.config).overlapping(request.overlap_bytes);
        let found = self
            .chains
            .find(self.now, (self.config.chain_gap, tolerance), reader, asked);
        if let Some((chain, bridged)) = found {
            if let Some(other) = bridged {
                self.merge_chains(chain, other);
            }
            if self.chains.meet(self.now, chain, open_ended) {
                self.stats.chains += 1;
                self.stats.announced_met += 1;
            }
            return Ok(chain);
        }
        self.admit(request)?;
        if self.chains.len() >= self.config.chains_limit() {
            let idle = self.chains.least_needed().ok_or(Refusal::Full)?;
            self.end_chain(idle);
        }
        self.stats.chains += 1;
        let (chain, surplus) = self.chains.begin(self.now, reader, asked.start, open_ended);
        self.streams.begin_chain(request.stream);
        if let Some(surplus) = surplus {
            self.end_chain(surplus);
        }
        Ok(chain)
    }

    /// Admission check for each new chain, as each takes a share of the device, even for a
    /// viewer that already has one.
    fn admit(&mut self, request: &Request) -> Result<(), Refusal> {
        if self.config.admission == Admission::Accept {
            return Ok(());
        }
        let waiting = self.queue.pressing();
        let wait_max = self.bearing.wait_max(self.now, self.config.patience);
        let is_refused = self.load.refuses(self.now, waiting, wait_max);
        if !is_refused || self.needs_no_device(request.stream) {
            return Ok(());
        }
        match self.chains.may_begin(request.viewer) {
            NewChainPermit::Another => Ok(()),
            NewChainPermit::InsteadOf(left) => {
                self.end_chain(left);
                Ok(())
            }
            NewChainPermit::Nothing => {
                self.stats.chains_refused += 1;
                let retry_after = self.retry_after();
                Err(Refusal::Overloaded { retry_after })
            }
        }
    }

    /// Whether all of a stream is in memory or on flash. A part is not enough: its chain would
    /// continue to the rest.
    fn needs_no_device(&self, stream: StreamId) -> bool {
        let pieces = self.streams.layout(stream).map(Layout::piece_count);
        let Some(pieces) = pieces.filter(|pieces| *pieces <= PIECES_LOOKED_AT_MAX) else {
            return false;
        };
        (0..pieces).all(|piece| {
            let key = (stream, piece);
            self.memory.find(key).is_some() || self.is_on_flash(key)
        })
    }

    /// The range of a stream around a byte of a part that is in memory without a gap, within the
    /// search limit; `None` if that byte is not in memory. While it stays there, requests inside
    /// the range cause no reads, unless they come near its end.
    pub fn in_memory_around(
        &self,
        stream: StreamId,
        part: u32,
        offset: u64,
    ) -> Option<PartInMemory> {
        let layout = self.streams.layout(stream)?;
        let parts = layout.part_count() as u32;
        if parts > PIECES_LOOKED_AT_MAX || offset >= layout.part_bytes(part)? {
            return None;
        }
        let is_ready = |piece: &u32| {
            let slot = self.memory.find((stream, *piece));
            slot.is_some_and(|slot| self.memory.is_ready(slot))
        };
        let at = layout.piece_at(part, offset);
        let least = at.saturating_sub(PIECES_LOOKED_AT_MAX);
        let most = layout.piece_count().min(at + PIECES_LOOKED_AT_MAX);
        let last = (at..most).take_while(is_ready).last()?;
        let first = (least..at).rev().take_while(is_ready).last();
        let end = layout.place(last);
        Some(PartInMemory {
            part_starts: (0..parts).map(|part| layout.logical(part, 0)).collect(),
            stream_bytes: layout.size_bytes(),
            range: ByteRange::new(
                layout.logical_of_piece(first.unwrap_or(at)),
                end.logical + end.length,
            ),
        })
    }

    fn note_request(
        &mut self,
        id: RequestId,
        chain_id: ChainId,
        request: &Request,
        asked: ByteRange,
    ) {
        let now = self.now;
        let connection = request.viewer.connection();
        self.chains.begin_request(now, chain_id, id, connection);
        self.stats.chain_bytes += self.chains.extend(chain_id, asked);
        let Some(chain) = self.chains.get_mut(chain_id) else {
            return;
        };
        chain.note_request(asked.len());
        if request.hints != Hints::default() {
            chain.hints = request.hints;
            chain.hinted_at = now;
        }
        match chain.active.len() {
            1 => self.chains.move_to(chain_id, asked.start),
            _ => self.move_chain(chain_id),
        }
    }

    /// A request showed that two chains of a viewer are one.
    fn merge_chains(&mut self, into: ChainId, from: ChainId) {
        let Some(other) = self.chains.end(from) else {
            return;
        };
        self.streams.end_chain(self.now, other.stream);
        for id in &other.active {
            if let Some(reply) = self.replies.get_mut(*id) {
                reply.chain = into;
            }
        }
        for piece in other.unread.iter() {
            if let Some(slot) = self.memory.find((other.stream, piece))
                && self.memory.owner(slot) == Some(from)
            {
                self.memory.change_owner(slot, into);
            }
        }
        self.runs.rename_chain(from, into);
        if let Some(job) = other.job {
            self.queue.update(job, |job| job.chain = into);
        }
        let whole = ByteRange::new(other.start, other.end);
        let longer_by = self.chains.extend(into, whole);
        // Overlapping chains have bytes in common, which count twice: a counter never decreases.
        self.stats.chain_bytes += longer_by.saturating_sub(other.length_bytes());
        // A chain that was only announced was not counted as begun.
        self.stats.chains_joined += u64::from(!other.is_expected());
        let Some(chain) = self.chains.get_mut(into) else {
            return;
        };
        chain.fetched_end = chain.fetched_end.max(other.fetched_end);
        chain.prefetched_bytes += other.prefetched_bytes;
        chain.take_requests(other.active);
        for piece in other.unread.iter() {
            chain.unread.insert(piece);
        }
        chain.job = chain.job.or(other.job);
        chain.careful = chain.careful.max(other.careful);
    }
}
