//! Announced requests (CMCD `nor`): reads the next chunk file ahead if no playlist gives the order,
//! or the next range.
//!
//! An announcement begins the chain that its request will join, with one job that no reply waits
//! for and that yields to all others. Its cost is bounded: it is ignored if the device or its
//! memory is busy, all announcements together hold a small share of memory, and one viewer has few
//! of them open, so that a player that names a thousand files has as many bytes read as one that
//! names two.

use headlong_units::{ByteRange, Instant};

use super::state::Shard;
use crate::chain_matching::ProxyTolerance;
use crate::command::Refusal;
use crate::health::DeviceState;
use crate::ids::{ChainId, StreamId};
use crate::memory::PieceKey;
use crate::queue::Job;
use crate::request::{AnnouncedRequest, ReaderIdentity};

/// Open announcements per viewer: the next video segment, and the next audio segment.
const EXPECTED_PER_VIEWER: usize = 2;
/// Bytes read for open announcements are at most this fraction of memory.
const MEMORY_PARTS: u64 = 16;
/// A table accepts entries for announcements only while at most this many eighths of it are in use.
const TABLE_TAKEN_MAX: usize = 7;

/// The announced bytes of a stream.
#[derive(Clone, Copy)]
struct AnnouncedRange {
    /// Logical offsets.
    range: ByteRange,
    /// First piece, and one past the last that may be read.
    pieces: (u32, u32),
}

impl Shard {
    /// A player announces its next request. Its bytes may be read ahead, or not; there is no
    /// further answer. To be called only for a viewer whose request was accepted.
    ///
    /// # Errors
    /// [`Refusal::UnknownStream`] if it is worthwhile to register the stream and repeat the call;
    /// otherwise an unknown stream is no error. [`Refusal::OutOfBounds`] if there is no such part,
    /// or it has no bytes from the offset on.
    pub fn handle_expected(
        &mut self,
        now: Instant,
        expected: AnnouncedRequest,
    ) -> Result<(), Refusal> {
        self.begin(now);
        let result = self.expect(&expected);
        self.finish();
        result
    }

    fn expect(&mut self, expected: &AnnouncedRequest) -> Result<(), Refusal> {
        let Some(stream) = self.streams.get(expected.stream) else {
            // Registering a stream costs the device some work.
            let has_room = self.streams.len() < self.config.streams_max / 8 * TABLE_TAKEN_MAX;
            let may_begin = self.may_begin_expected(expected.viewer);
            if has_room && may_begin && self.may_expect(self.config.piece_bytes) {
                return Err(Refusal::UnknownStream);
            }
            self.stats.announced += 1;
            return Ok(());
        };
        let layout = &stream.layout;
        let part_bytes = layout
            .part_bytes(expected.part)
            .ok_or(Refusal::OutOfBounds)?;
        if expected.offset >= part_bytes || expected.length == 0 {
            return Err(Refusal::OutOfBounds);
        }
        let length = expected.length.min(part_bytes - expected.offset);
        // One prefetch at most, whatever was announced.
        let length = length.min(self.control.sizing().reference_bytes.max(1));
        let start = layout.logical(expected.part, expected.offset);
        let first = layout.piece_at(expected.part, expected.offset);
        let last = layout.piece_at(expected.part, expected.offset + length - 1);
        let wanted = AnnouncedRange {
            range: ByteRange::new(start, start + length),
            pieces: (first, last + 1),
        };
        self.stats.announced += 1;
        self.read_expected(expected, wanted);
        Ok(())
    }

    fn read_expected(&mut self, expected: &AnnouncedRequest, wanted: AnnouncedRange) {
        let (first, end) = wanted.pieces;
        let mut pieces = first..end;
        if pieces.all(|piece| self.is_there_or_coming((expected.stream, piece))) {
            return;
        }
        let reader = (expected.viewer, expected.stream);
        let known = self.chains.find(
            self.now,
            (self.config.chain_gap, ProxyTolerance::of(&self.config)),
            reader,
            ByteRange::new(wanted.range.start, wanted.range.start),
        );
        if !self.may_expect(wanted.range.len()) {
            return;
        }
        let chain = match known {
            Some((chain, _)) => Some(chain),
            None => self.begin_expected(expected, wanted.range.start),
        };
        let is_queued =
            chain.is_some_and(|chain| self.queue_expected(chain, expected.stream, wanted));
        self.stats.announced_read += u64::from(is_queued);
    }

    fn is_there_or_coming(&self, key: PieceKey) -> bool {
        self.memory.find(key).is_some()
            || self.queue.covering(key.0, key.1).is_some()
            || self.runs.will_bring(key)
            || self.is_on_flash(key)
    }

    /// Whether the device and its memory are idle enough.
    fn may_expect(&self, bytes: u64) -> bool {
        let is_well = self.device_state() == DeviceState::Online && !self.is_overloaded();
        let slots = self.memory.slot_count();
        let has_memory = self.memory.available() >= slots / 4;
        let budget = slots as u64 * self.config.piece_bytes / MEMORY_PARTS;
        let held = self.chains.expected_bytes() + bytes;
        is_well && has_memory && held <= budget && self.retiring.is_none() && self.reads_ahead_now()
    }

    /// Begins the chain that the announced request will join.
    fn begin_expected(&mut self, expected: &AnnouncedRequest, start: u64) -> Option<ChainId> {
        if !self.may_begin_expected(expected.viewer) {
            return None;
        }
        let reader = (expected.viewer, expected.stream);
        let (chain, surplus) = self.chains.expect(self.now, reader, start);
        self.streams.begin_chain(expected.stream);
        if let Some(surplus) = surplus {
            self.end_chain(surplus);
        }
        Some(chain)
    }

    fn may_begin_expected(&self, viewer: ReaderIdentity) -> bool {
        let has_many = self.chains.expected_of(viewer, EXPECTED_PER_VIEWER) >= EXPECTED_PER_VIEWER;
        !has_many && self.chains.len() < self.config.chains_limit() / 8 * TABLE_TAKEN_MAX
    }

    /// Queues a chain's job for the announced bytes, unless it has one already, or enough bytes.
    fn queue_expected(&mut self, id: ChainId, stream_id: StreamId, wanted: AnnouncedRange) -> bool {
        let Some(chain) = self.chains.get(id) else {
            return false;
        };
        let left = chain.fetched_end.saturating_sub(chain.position);
        let most = self.control.sizing().reference_bytes;
        if chain.job.is_some() || chain.careful > 0 || left >= most {
            return false;
        }
        let AnnouncedRange { range, .. } = wanted;
        let enough = range.end.saturating_sub(chain.position).min(2 * most);
        let before = chain.fetched_end.max(chain.position);
        let reached = self.claim_present(id, enough);
        let Some(stream) = self.streams.get(stream_id) else {
            return false;
        };
        let from = stream.layout.piece_at_logical(reached.min(range.end - 1));
        let first_byte = stream.layout.logical_of_piece(wanted.pieces.0);
        let is_there = stream.layout.present_until(from, from + 1) > from;
        // Bytes before the announced ones are missing, and were not announced.
        let is_next = reached >= first_byte && reached < range.end;
        let job = (is_there && is_next)
            .then(|| {
                let bytes = range.end - stream.layout.logical_of_piece(from);
                let deadline = self.now + self.config.chain_gap;
                self.plan(id, stream_id, from, (bytes, 0), deadline)
            })
            .flatten();
        if let Some(job) = job {
            // No viewer runs dry because of it, however late it is.
            self.push_job(Job {
                can_wait: true,
                ..job
            });
        }
        let fetched = self
            .chains
            .get(id)
            .map_or(before, |chain| chain.fetched_end);
        self.chains
            .hold_expected(id, fetched.saturating_sub(before));
        job.is_some()
    }
}
