//! What a viewer of a script sees on the screen: when the picture appears, and when it stands still.
//!
//! The one idea: bytes are played in the order of their arrival at a constant bit rate, as from a
//! playout buffer (thesis 2.1.2). From the moment playback starts until the buffer is empty, only one
//! number matters, the moment at which it will be empty; it moves with every byte that arrives.
//!
//! What it deliberately lacks: it watches and never acts. A script does as it is told whatever
//! the screen shows, and its sessions end by timeouts.

use headlong_units::{Duration, Instant};

use crate::Playback;

/// Where the picture is.
#[derive(Debug, Clone, Copy)]
enum Picture {
    /// Standing still, with this many bytes in the buffer.
    Still { bytes: u64 },
    /// Moving since then, out of this many bytes.
    Moving { since: Instant, bytes: u64 },
}

/// The screen of one session.
#[derive(Debug, Clone)]
pub(crate) struct Playout {
    picture: Picture,
    started: Option<Instant>,
    /// Since when somebody waits: the picture stands still and something is asked for.
    waiting: Option<Instant>,
    /// Whether the present standstill is counted.
    counted: bool,
    asked: bool,
    stalls: u32,
    stall_time: Duration,
    /// Played before the picture last began to move.
    played: Duration,
}

impl Playout {
    pub(crate) fn new() -> Self {
        Self {
            picture: Picture::Still { bytes: 0 },
            started: None,
            waiting: None,
            counted: false,
            asked: false,
            stalls: 0,
            stall_time: Duration::ZERO,
            played: Duration::ZERO,
        }
    }

    /// When the picture first moved.
    pub(crate) fn started(&self) -> Option<Instant> {
        self.started
    }

    pub(crate) fn stalls(&self) -> u32 {
        self.stalls
    }

    pub(crate) fn stall_time(&self) -> Duration {
        self.stall_time
    }

    /// Media time played until `now`.
    pub(crate) fn played(&self, now: Instant, playback: &Playback) -> Duration {
        match self.picture {
            Picture::Still { .. } => self.played,
            Picture::Moving { since, bytes } => {
                let most = playback.bit_rate.time_for(bytes);
                self.played + now.since(since).min(most)
            }
        }
    }

    /// From now on something is asked for, or nothing: an empty buffer counts as a stall only while
    /// something is. A script that asks for nothing is a viewer who pauses.
    pub(crate) fn ask(&mut self, now: Instant, asked: bool, playback: &Playback) {
        self.advance(now, playback);
        self.stop_waiting(now);
        self.asked = asked;
        if matches!(self.picture, Picture::Still { .. }) {
            self.start_waiting(now);
        }
    }

    /// Bytes arrived.
    pub(crate) fn arrive(&mut self, now: Instant, count: u64, playback: &Playback) {
        self.advance(now, playback);
        match &mut self.picture {
            Picture::Still { bytes } | Picture::Moving { bytes, .. } => {
                *bytes = bytes.saturating_add(count);
            }
        }
        if let Picture::Still { bytes } = self.picture
            && bytes >= playback.start_bytes.max(1)
        {
            self.move_on(now, bytes);
        }
    }

    /// Nothing more will arrive: what there is, is played if all is there, and lost if not.
    pub(crate) fn finish(&mut self, now: Instant, whole: bool, playback: &Playback) {
        self.advance(now, playback);
        if let Picture::Still { bytes } = self.picture {
            if whole && bytes > 0 {
                self.move_on(now, bytes);
            } else {
                self.stop_waiting(now);
            }
        }
        if whole && let Picture::Moving { bytes, .. } = self.picture {
            // The rest is in the buffer, and nothing can keep it from being watched.
            self.played += playback.bit_rate.time_for(bytes);
            self.picture = Picture::Still { bytes: 0 };
        }
    }

    fn move_on(&mut self, now: Instant, bytes: u64) {
        self.stop_waiting(now);
        self.started.get_or_insert(now);
        self.picture = Picture::Moving { since: now, bytes };
    }

    /// Notices that the buffer has run empty on the way to `now`.
    fn advance(&mut self, now: Instant, playback: &Playback) {
        if let Picture::Moving { since, bytes } = self.picture {
            let length = playback.bit_rate.time_for(bytes);
            let empty = since + length;
            if empty < now {
                self.played += length;
                self.picture = Picture::Still { bytes: 0 };
                self.counted = false;
                self.start_waiting(empty);
            }
        }
    }

    fn start_waiting(&mut self, now: Instant) {
        if self.started.is_some() && self.asked {
            self.waiting = Some(now);
        }
    }

    fn stop_waiting(&mut self, now: Instant) {
        let Some(since) = self.waiting.take() else {
            return;
        };
        let length = now.since(since);
        if length > Duration::ZERO && !self.counted {
            self.counted = true;
            self.stalls = self.stalls.saturating_add(1);
        }
        self.stall_time += length;
    }
}
