//! Playback: the position, and statistics of start, stalls and play time.

use headlong_units::{Duration, Instant};

/// State of playback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PictureState {
    /// Waiting for the buffer since then; `dry` after it ran empty.
    Filling { since: Instant, dry: bool },
    /// Playing since then.
    Moving { since: Instant },
    /// Paused by the viewer until then.
    Paused { until: Instant },
}

/// Playback and its statistics.
#[derive(Debug, Clone)]
pub(crate) struct PlaybackState {
    picture: PictureState,
    /// Position in the title at the last change of state.
    position: Duration,
    started: Option<Instant>,
    stalls: u32,
    stall_time: Duration,
    played: Duration,
}

impl PlaybackState {
    pub(crate) fn new(at: Instant) -> Self {
        Self {
            picture: PictureState::Filling {
                since: at,
                dry: false,
            },
            position: Duration::ZERO,
            started: None,
            stalls: 0,
            stall_time: Duration::ZERO,
            played: Duration::ZERO,
        }
    }

    pub(crate) fn picture(&self) -> PictureState {
        self.picture
    }

    /// Position in the title.
    pub(crate) fn position(&self, at: Instant) -> Duration {
        match self.picture {
            PictureState::Moving { since } => self.position + at.since(since),
            _ => self.position,
        }
    }

    /// When playback reaches `position`; never, unless it runs.
    pub(crate) fn reaches(&self, position: Duration) -> Instant {
        match self.picture {
            PictureState::Moving { since } => since + (position - self.position),
            _ => Instant::NEVER,
        }
    }

    pub(crate) fn started(&self) -> Option<Instant> {
        self.started
    }

    pub(crate) fn stalls(&self) -> u32 {
        self.stalls
    }

    pub(crate) fn stall_time(&self) -> Duration {
        self.stall_time
    }

    pub(crate) fn played(&self) -> Duration {
        self.played
    }

    pub(crate) fn roll(&mut self, at: Instant) {
        self.started.get_or_insert(at);
        self.turn(at, PictureState::Moving { since: at });
    }

    pub(crate) fn fill(&mut self, at: Instant, dry: bool) {
        self.turn(at, PictureState::Filling { since: at, dry });
    }

    pub(crate) fn pause(&mut self, at: Instant, length: Duration) {
        let until = at + length;
        self.turn(at, PictureState::Paused { until });
    }

    /// Jumps to another position.
    pub(crate) fn jump(&mut self, at: Instant, position: Duration) {
        self.fill(at, false);
        self.position = position;
    }

    /// Changes the state and updates the statistics of the old one.
    fn turn(&mut self, at: Instant, picture: PictureState) {
        let position = self.position(at);
        self.played += position - self.position;
        self.position = position;
        if let PictureState::Filling { since, dry: true } = self.picture
            && at > since
        {
            self.stalls = self.stalls.saturating_add(1);
            self.stall_time += at.since(since);
        }
        self.picture = picture;
    }
}
