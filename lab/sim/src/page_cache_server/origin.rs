//! The vanilla server as an [`Origin`]: requests, socket space, and disconnects.

use headlong_engine::{Control, ControlView, MemoryUse, QueueUse, RequestId, Slot, Stats};
use headlong_player::ObjectId;
use headlong_units::{BitRate, ByteRange, Duration, Instant, KIB, MIB};

use super::elevator::PAGE_BYTES;
use super::read_ahead::ReadAheadState;
use super::{PageCacheServer, Transfer};
use crate::device::{AccessPattern, DriveUse};
use crate::histogram::Histogram;
use crate::layout::FileLocation;
use crate::link::Link;
use crate::origin::{CacheUse, Origin, OriginEvent, ReplyPiece, Requester, ServerState};

/// A request yields its thread after this many bytes (nginx: `sendfile_max_chunk`).
const TURN_BYTES: u64 = 2 * MIB;
/// Capacity of the sockets of a reply, relative to the bytes in flight: the receive buffer holds as
/// much again; the congestion window grows to nearly twice of it without losses
/// (`tcp_is_cwnd_limited`), and the send buffer to twice that window, counted in packet memory,
/// which is twice the payload, or nothing for pages sent without copying (`tcp_sndbuf_expand`).
/// Observed with nginx: 500 KB and 80 KB for a line of 3.5 Mbit/s and 100 ms, 740 KB and 220 KB for
/// one of 10.
const SOCKETS_PER_LINE: u64 = 8;
/// Initial receive window (`tcp_rmem`).
const UNDER_WAY_BYTES_MIN: u64 = 64 * KIB;
/// Limit of the kernel for links without a bandwidth limit (`tcp_wmem`).
const SOCKET_BYTES_MAX: u64 = 4 * MIB;

impl Origin for PageCacheServer {
    fn socket_bytes(&self, bandwidth: Option<BitRate>, delay: Duration) -> u64 {
        self.setup.socket_bytes.unwrap_or_else(|| {
            let line = bandwidth.map(|rate| rate.bytes_in(delay.times(2)));
            line.map_or(SOCKET_BYTES_MAX, |line| {
                (line.max(UNDER_WAY_BYTES_MIN) * SOCKETS_PER_LINE).min(SOCKET_BYTES_MAX)
            })
        })
    }

    fn ask(
        &mut self,
        now: Instant,
        asker: Requester,
        object: ObjectId,
        range: Option<ByteRange>,
    ) -> Result<RequestId, u16> {
        self.begin(now);
        let place = self.layout.place(object).ok_or(404_u16)?;
        let whole = ByteRange::new(0, place.size_bytes);
        let wanted = range.map_or(whole, |range| range.intersection(whole));
        if wanted.is_empty() {
            return Err(416);
        }
        let id = RequestId(self.next_id);
        self.next_id += 1;
        // The process that accepts first is random.
        let chance = u64::from(asker.session).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let transfer = Transfer {
            asker,
            asked_at: now,
            file: object.0,
            place,
            worker: (chance % self.workers.len() as u64) as usize,
            has_thread: false,
            is_blocked: false,
            is_gone: false,
            start: wanted.start,
            next: wanted.start,
            end: wanted.end,
            page: (wanted.start / PAGE_BYTES) as u32,
            folio: None,
            waited: false,
            turn_bytes: 0,
            read_ahead: ReadAheadState::default(),
        };
        self.stats.requests += 1;
        self.stats.bytes_requested += wanted.len();
        self.transfers.insert(id, transfer);
        self.take_up(id);
        self.settle(now);
        Ok(id)
    }

    fn handed(&mut self, now: Instant, piece: &ReplyPiece, link: &Link, taken: Instant) -> Instant {
        let id = piece.request;
        let has_had_enough = self
            .transfers
            .get(&id)
            .is_some_and(|transfer| transfer.turn_bytes >= TURN_BYTES);
        let is_full = taken > now;
        if is_full && !piece.is_last {
            self.touch_again(id, link.excess_bytes(now).min(piece.bytes));
        }
        if is_full || piece.is_last || has_had_enough {
            self.let_go(id);
            self.settle(now);
        }
        match is_full && !piece.is_last {
            true => link.writable_at().max(now),
            false => taken,
        }
    }

    fn taken(&mut self, now: Instant, request: RequestId, _: Slot) {
        self.begin(now);
        let Some(transfer) = self.transfers.get(&request) else {
            return;
        };
        if transfer.next == transfer.end {
            self.end(request);
        } else if transfer.has_thread {
            self.runnable.push_back(request);
        } else {
            self.take_up(request);
        }
        self.settle(now);
    }

    fn gone(&mut self, now: Instant, request: RequestId) {
        self.begin(now);
        match self.transfers.get_mut(&request) {
            Some(transfer) if transfer.is_blocked => transfer.is_gone = true,
            _ => self.end(request),
        }
        self.settle(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.elevator.poll_timeout().is_some_and(|at| at <= now) {
            self.begin(now);
            self.elevator.handle_timeout(now);
            self.settle(now);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.elevator.poll_timeout()
    }

    fn poll_outcome(&mut self) -> Option<OriginEvent> {
        self.outcomes.pop_front()
    }

    fn reply_count(&self) -> usize {
        self.transfers.len()
    }

    fn drive_use(&self) -> DriveUse {
        self.elevator.device().used()
    }

    fn pattern(&self) -> Option<&AccessPattern> {
        Some(self.elevator.device().pattern())
    }

    fn begin_window(&mut self, _: Instant) {
        self.elevator.device_mut().begin_pattern();
    }

    fn take_waits(&mut self) -> Histogram {
        std::mem::take(&mut self.waits)
    }

    fn know(&mut self, object: ObjectId, _: u32, place: FileLocation) {
        self.layout.know(object, place);
    }

    fn live(&self) -> usize {
        self.transfers.len() + self.outcomes.len() + self.elevator.device().outstanding()
    }

    fn state(&self) -> ServerState {
        let [all, _, filling, unsent] = self.cache.usage();
        let total = (self.setup.memory_bytes / PAGE_BYTES).max(all);
        let evictions = self.cache.evictions();
        let (waiting, outstanding) = (
            self.elevator.waiting(),
            self.elevator.device().outstanding(),
        );
        ServerState {
            memory: MemoryUse {
                free_bytes: (total - all) * PAGE_BYTES,
                filling_bytes: filling * PAGE_BYTES,
                sending_bytes: 0,
                unread_bytes: unsent * PAGE_BYTES,
                read_bytes: (all - filling - unsent) * PAGE_BYTES,
            },
            queue: QueueUse {
                jobs: waiting + outstanding,
                jobs_demanded: self.waiters.values().map(Vec::len).sum(),
                outstanding_reads: outstanding,
                ..QueueUse::default()
            },
            chains: self.transfers.len(),
            control: ControlView {
                mode: Control::Off,
                bytes: self.setup.read_ahead_bytes,
                target_bytes: self.setup.read_ahead_bytes,
                score: None,
                reason: None,
                drive: None,
            },
            stats: Stats {
                busy_time: self.elevator.device().used().busy,
                wasted_bytes: evictions.unsent_pages * PAGE_BYTES,
                cache_evicted_bytes: evictions.sent_pages * PAGE_BYTES,
                ..self.stats
            },
        }
    }

    fn cache(&self) -> Option<CacheUse> {
        let [all, active, ..] = self.cache.usage();
        Some(CacheUse {
            bytes: all * PAGE_BYTES,
            active_bytes: active * PAGE_BYTES,
        })
    }
}
