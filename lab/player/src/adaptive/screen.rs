//! What a viewer sees: where the picture is, and the account of how it got there.

use headlong_units::{Duration, Instant};

/// What the picture does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Picture {
    /// Waiting for the buffer, since then; `dry` if because it ran empty.
    Filling { since: Instant, dry: bool },
    /// Moving since then.
    Moving { since: Instant },
    /// Stopped by the viewer until then.
    Paused { until: Instant },
}

/// The picture and its account.
#[derive(Debug, Clone)]
pub(crate) struct Screen {
    picture: Picture,
    /// In the title, when the picture came to be as it is.
    position: Duration,
    started: Option<Instant>,
    stalls: u32,
    stall_time: Duration,
    played: Duration,
}

impl Screen {
    pub(crate) fn new(at: Instant) -> Self {
        Self {
            picture: Picture::Filling {
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

    pub(crate) fn picture(&self) -> Picture {
        self.picture
    }

    /// Where in the title the picture is.
    pub(crate) fn position(&self, at: Instant) -> Duration {
        match self.picture {
            Picture::Moving { since } => self.position + at.since(since),
            _ => self.position,
        }
    }

    /// When a moving picture gets to `position`; never, if it does not move.
    pub(crate) fn reaches(&self, position: Duration) -> Instant {
        match self.picture {
            Picture::Moving { since } => since + (position - self.position),
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
        self.turn(at, Picture::Moving { since: at });
    }

    pub(crate) fn fill(&mut self, at: Instant, dry: bool) {
        self.turn(at, Picture::Filling { since: at, dry });
    }

    pub(crate) fn pause(&mut self, at: Instant, length: Duration) {
        let until = at + length;
        self.turn(at, Picture::Paused { until });
    }

    /// Goes elsewhere in the title.
    pub(crate) fn jump(&mut self, at: Instant, position: Duration) {
        self.fill(at, false);
        self.position = position;
    }

    /// Settles the account of what was, and begins another.
    fn turn(&mut self, at: Instant, picture: Picture) {
        let position = self.position(at);
        self.played += position - self.position;
        self.position = position;
        if let Picture::Filling { since, dry: true } = self.picture
            && at > since
        {
            self.stalls = self.stalls.saturating_add(1);
            self.stall_time += at.since(since);
        }
        self.picture = picture;
    }
}
