//! Playback of a script: start-up delay and stalls.
//!
//! Bytes are played in order of arrival at a constant bit rate, as from a playout buffer (thesis
//! 2.1.2). While playback runs, the state is the time at which the buffer will be empty, which
//! moves with every byte that arrives.
//!
//! It only observes. A script runs independently of playback, and its sessions end by timeouts.

use headlong_units::{Duration, Instant};

use crate::PlaybackSpec;

/// State of playback.
#[derive(Debug, Clone, Copy)]
enum PlayoutState {
    /// Stopped, with this many bytes in the buffer.
    Still { bytes: u64 },
    /// Playing since then, from this many bytes.
    Moving { since: Instant, bytes: u64 },
}

/// Playback of one session.
#[derive(Debug, Clone)]
pub(crate) struct Playout {
    picture: PlayoutState,
    started: Option<Instant>,
    /// Start of the current wait: playback is stopped and a call is in progress.
    waiting: Option<Instant>,
    /// Whether the current stall has been counted.
    counted: bool,
    asked: bool,
    stalls: u32,
    stall_time: Duration,
    /// Played before the last start.
    played: Duration,
}

impl Playout {
    pub(crate) fn new() -> Self {
        Self {
            picture: PlayoutState::Still { bytes: 0 },
            started: None,
            waiting: None,
            counted: false,
            asked: false,
            stalls: 0,
            stall_time: Duration::ZERO,
            played: Duration::ZERO,
        }
    }

    /// When playback first started.
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
    pub(crate) fn played(&self, now: Instant, playback: &PlaybackSpec) -> Duration {
        match self.picture {
            PlayoutState::Still { .. } => self.played,
            PlayoutState::Moving { since, bytes } => {
                let most = playback.bit_rate.time_for(bytes);
                self.played + now.since(since).min(most)
            }
        }
    }

    /// Sets whether a call is in progress: an empty buffer counts as a stall only during calls.
    /// Between calls the viewer pauses.
    pub(crate) fn ask(&mut self, now: Instant, asked: bool, playback: &PlaybackSpec) {
        self.advance(now, playback);
        self.stop_waiting(now);
        self.asked = asked;
        if matches!(self.picture, PlayoutState::Still { .. }) {
            self.start_waiting(now);
        }
    }

    /// Bytes arrived.
    pub(crate) fn arrive(&mut self, now: Instant, count: u64, playback: &PlaybackSpec) {
        self.advance(now, playback);
        match &mut self.picture {
            PlayoutState::Still { bytes } | PlayoutState::Moving { bytes, .. } => {
                *bytes = bytes.saturating_add(count);
            }
        }
        if let PlayoutState::Still { bytes } = self.picture
            && bytes >= playback.start_bytes.max(1)
        {
            self.move_on(now, bytes);
        }
    }

    /// No more bytes will arrive: if the content is complete, the rest is played, otherwise it is
    /// lost.
    pub(crate) fn finish(&mut self, now: Instant, whole: bool, playback: &PlaybackSpec) {
        self.advance(now, playback);
        if let PlayoutState::Still { bytes } = self.picture {
            if whole && bytes > 0 {
                self.move_on(now, bytes);
            } else {
                self.stop_waiting(now);
            }
        }
        if whole && let PlayoutState::Moving { bytes, .. } = self.picture {
            // The rest is in the buffer and will be played.
            self.played += playback.bit_rate.time_for(bytes);
            self.picture = PlayoutState::Still { bytes: 0 };
        }
    }

    fn move_on(&mut self, now: Instant, bytes: u64) {
        self.stop_waiting(now);
        self.started.get_or_insert(now);
        self.picture = PlayoutState::Moving { since: now, bytes };
    }

    /// Detects an empty buffer before `now`.
    fn advance(&mut self, now: Instant, playback: &PlaybackSpec) {
        if let PlayoutState::Moving { since, bytes } = self.picture {
            let length = playback.bit_rate.time_for(bytes);
            let empty = since + length;
            if empty < now {
                self.played += length;
                self.picture = PlayoutState::Still { bytes: 0 };
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
