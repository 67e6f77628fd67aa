//! Frame meter: compares the frames of an HTTP/2 client with the useful work of its connection.
//!
//! HTTP/2 allows unlimited control frames, and each costs the server work (RFC 9113, 10.5). Every
//! frame costs credit; requests, delivered bytes and time earn it. A connection whose credit is
//! used up must be closed with `ENHANCE_YOUR_CALM`. The meter also reports since when a frame or
//! header block is incomplete, so that the caller can enforce a deadline.
//!
//! The prices leave a margin for every known client: one that answers each DATA frame of 16 KiB
//! with two WINDOW_UPDATE frames earns 16 times what it spends; a PING each second is free.

use headlong_units::Instant;

/// Credit of a new connection.
const ALLOWANCE: u32 = 2048;
/// Upper bound of a connection's credit.
const CREDIT_MAX: u32 = 2 * ALLOWANCE;
/// Credit earned each second.
const PER_SECOND: u64 = 32;
/// Credit earned by a request.
const PER_REQUEST: u32 = 32;
/// Delivered bytes that earn one credit.
const BYTES_PER_CREDIT: u64 = 512;
/// Payload bytes without a use here that cost one credit.
const BYTES_PER_COST: u32 = 256;

const HEAD_BYTES: usize = 9;
const FLAG_ACK: u8 = 1;
const FLAG_END_HEADERS: u8 = 4;

/// Frame types (RFC 9113, 6).
mod kind {
    pub(super) const DATA: u8 = 0;
    pub(super) const HEADERS: u8 = 1;
    pub(super) const RST_STREAM: u8 = 3;
    pub(super) const SETTINGS: u8 = 4;
    pub(super) const PUSH_PROMISE: u8 = 5;
    pub(super) const PING: u8 = 6;
    pub(super) const CONTINUATION: u8 = 9;
}

/// Parses frame heads in the received bytes of a connection, and keeps its credit.
#[derive(Debug, Clone)]
pub struct FrameMeter {
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    payload_left: u32,
    /// The header block continues in the next frame.
    is_in_block: bool,
    incomplete_since: Option<Instant>,
    highest_stream: u32,
    credit: u32,
    refilled_at: Instant,
    /// Delivered bytes not yet converted into credit.
    rest_bytes: u64,
    is_exhausted: bool,
}

impl FrameMeter {
    /// A meter for a connection whose preface was received; its first frame is due.
    pub fn new(now: Instant) -> Self {
        Self {
            head: [0; HEAD_BYTES],
            head_bytes: 0,
            payload_left: 0,
            is_in_block: false,
            incomplete_since: Some(now),
            highest_stream: 0,
            credit: ALLOWANCE,
            refilled_at: now,
            rest_bytes: 0,
            is_exhausted: false,
        }
    }

    /// Processes consecutive received bytes. Returns the number of frames that began.
    pub fn handle_received(&mut self, now: Instant, mut bytes: &[u8]) -> u32 {
        let mut frames = 0;
        while !bytes.is_empty() {
            if self.payload_left > 0 {
                let count = bytes.len().min(self.payload_left as usize);
                self.payload_left -= count as u32;
                bytes = &bytes[count..];
            } else {
                let count = bytes.len().min(HEAD_BYTES - self.head_bytes);
                self.head[self.head_bytes..][..count].copy_from_slice(&bytes[..count]);
                self.head_bytes += count;
                bytes = &bytes[count..];
                self.incomplete_since.get_or_insert(now);
                if self.head_bytes < HEAD_BYTES {
                    continue;
                }
                self.head_bytes = 0;
                frames += 1;
                self.begin_frame(now);
            }
            if self.payload_left == 0 && self.head_bytes == 0 && !self.is_in_block {
                self.incomplete_since = None;
            }
        }
        frames
    }

    /// `bytes` of replies were delivered.
    pub fn handle_delivered(&mut self, bytes: u64) {
        self.rest_bytes += bytes;
        self.earn(self.rest_bytes / BYTES_PER_CREDIT);
        self.rest_bytes %= BYTES_PER_CREDIT;
    }

    /// Whether the connection must be closed, because its frames far outweigh its useful work.
    /// Permanent once true.
    pub fn is_exhausted(&self) -> bool {
        self.is_exhausted
    }

    /// Since when a frame or header block is incomplete; after the preface, since when the first
    /// frame is due.
    pub fn incomplete_since(&self) -> Option<Instant> {
        self.incomplete_since
    }

    fn begin_frame(&mut self, now: Instant) {
        let [high, middle, low, kind, flags, stream @ ..] = self.head;
        let length = u32::from_be_bytes([0, high, middle, low]);
        let stream = u32::from_be_bytes(stream) & (u32::MAX >> 1);
        self.payload_left = length;
        match kind {
            kind::HEADERS | kind::PUSH_PROMISE | kind::CONTINUATION => {
                self.is_in_block = flags & FLAG_END_HEADERS == 0;
            }
            _ => {}
        }
        let cost = match kind {
            kind::HEADERS if stream > self.highest_stream => {
                self.highest_stream = stream;
                self.earn(PER_REQUEST.into());
                0
            }
            kind::HEADERS => 4,
            // Supported requests have no body.
            kind::DATA => 2 + length / (16 * BYTES_PER_COST),
            // More than its request earned, because the work for that request was wasted.
            kind::RST_STREAM => PER_REQUEST + 8,
            kind::SETTINGS if flags & FLAG_ACK != 0 => 1,
            // A new initial window is applied to every stream; clients send one or two of these in
            // their lives, and a few more if they measure their bandwidth.
            kind::SETTINGS => 128,
            // Each PING is answered.
            kind::PING => 4,
            _ => 1 + length / BYTES_PER_COST,
        };
        self.spend(now, cost);
    }

    fn spend(&mut self, now: Instant, cost: u32) {
        if cost > self.credit {
            let passed = now.since(self.refilled_at);
            self.refilled_at = now;
            self.earn(passed.as_millis() * PER_SECOND / 1000);
        }
        match self.credit.checked_sub(cost) {
            Some(left) => self.credit = left,
            None => {
                self.credit = 0;
                self.is_exhausted = true;
            }
        }
    }

    fn earn(&mut self, credit: u64) {
        let earned = u64::from(self.credit).saturating_add(credit);
        self.credit = earned.min(CREDIT_MAX.into()) as u32;
    }
}

#[cfg(test)]
#[path = "frame_meter_tests.rs"]
mod tests;
