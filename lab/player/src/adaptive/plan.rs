//! The plan of an adaptive session: the title, the viewer's actions, and the configuration of the
//! player.

use alloc::sync::Arc;
use alloc::vec::Vec;

use headlong_units::Duration;
use serde::{Deserialize, Serialize};

use super::title::Title;

/// A session of a player with adaptive bit rate.
#[derive(Debug, Clone, PartialEq)]
pub struct AdaptivePlan {
    /// The title.
    pub title: Arc<Title>,
    /// The viewer's actions in order; then it leaves. The player does not know them in advance and
    /// requests data that may never be watched.
    pub acts: Vec<ViewerAction>,
    /// The configuration of the player.
    pub make: Arc<PlayerConfig>,
}

/// An action of the viewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ViewerAction {
    /// Watches so much of the title from the current position, or to its end.
    Watch(Duration),
    /// Pauses for so long. The buffer continues to fill.
    Pause(Duration),
    /// Jumps to the start of this segment. The buffer is kept if it holds the segment, and dropped
    /// otherwise.
    Skip(u32),
}

/// Extent of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestExtent {
    /// So many segments, fewer where they are not adjacent in one file; at least one.
    Segments(u32),
    /// From a segment to the end of the file. It is abandoned when the buffer is full or another
    /// bit rate is chosen. Only in a title with one file per rendition; otherwise one segment.
    OpenEnded,
}

/// How the next bit rate is chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RateRule {
    /// Always this rendition, from 0; the highest if there are fewer.
    Fixed(u32),
    /// The highest that does not exceed the estimate times [`PlayerConfig::safety`].
    Throughput,
    /// By the buffer alone: lowest within the reservoir, highest above the cushion, linear in
    /// between, without a change before the next rate is reached (Huang et al., A Buffer-Based
    /// Approach to Rate Adaptation, SIGCOMM 2014, algorithm 1).
    Buffer {
        /// Buffer level up to which the lowest rendition is chosen.
        reservoir: Duration,
        /// Distance from the reservoir to the level of the highest rendition.
        cushion: Duration,
    },
    /// The best trade-off of utility (logarithm of the bit rate) against an empty buffer (Spiteri
    /// et al., BOLA, INFOCOM 2016), with the parameters derived as in dash.js from `low` and
    /// [`PlayerConfig::buffer_high`].
    Bola {
        /// Buffer level up to which the lowest rendition is chosen (dash.js: 10 s).
        low: Duration,
    },
    /// `Throughput` below this buffer level, `Bola` above it.
    Dynamic {
        /// The level of the switch-over (dash.js: 10 s).
        low: Duration,
    },
}

/// Configuration of a player. Shared by all sessions that use it.
#[derive(Debug, Clone, PartialEq)]
pub struct PlayerConfig {
    /// Playback starts with so much in the buffer.
    pub start_buffer: Duration,
    /// Playback resumes with so much in the buffer after a stall or a skip.
    pub resume_buffer: Duration,
    /// A player that has stopped requesting continues when the buffer, including requested
    /// segments, is down to this level. One segment below [`buffer_high`](Self::buffer_high) gives
    /// one request per segment; far below, bursts.
    pub buffer_low: Duration,
    /// The player stops requesting when the buffer, including requested segments, reaches this
    /// level.
    pub buffer_high: Duration,
    /// Most concurrent calls, each on a separate connection; at least one.
    pub connections: u32,
    /// Extent of a request.
    pub shape: RequestExtent,
    /// Half-lives of the two means of throughput, the lower of which counts (dash.js: 3 s and 8 s).
    pub estimate_fast: Duration,
    /// See [`estimate_fast`](Self::estimate_fast).
    pub estimate_slow: Duration,
    /// Share of the estimate that the player relies on, above 0 (dash.js: 0.9).
    pub safety: f64,
    /// How the bit rate is chosen.
    pub rule: RateRule,
    /// Initial rendition, from 0.
    pub start_rendition: u32,
    /// Timeout of a call, from its sending; for an open-ended one, of the next segment, from the
    /// arrival of the previous one.
    pub timeout: Option<Duration>,
    /// Consecutive failures that are retried; one more ends the session.
    pub retries: u32,
    /// Delay between a failure and its retry.
    pub retry_after: Duration,
    /// How long the viewer waits for playback before it leaves: at the start, after a skip, or in a
    /// stall.
    pub patience: Option<Duration>,
}

impl Default for PlayerConfig {
    /// A player like dash.js: half a minute of buffer, one connection, one segment at a time.
    fn default() -> Self {
        Self {
            start_buffer: Duration::from_secs(4),
            resume_buffer: Duration::from_secs(4),
            buffer_low: Duration::from_secs(28),
            buffer_high: Duration::from_secs(30),
            connections: 1,
            shape: RequestExtent::Segments(1),
            estimate_fast: Duration::from_secs(3),
            estimate_slow: Duration::from_secs(8),
            safety: 0.9,
            rule: RateRule::Dynamic {
                low: Duration::from_secs(10),
            },
            start_rendition: 0,
            timeout: Some(Duration::from_secs(10)),
            retries: 3,
            retry_after: Duration::from_secs(1),
            patience: None,
        }
    }
}

/// An error in a plan. A [`Player`](crate::Player) of an invalid plan still ends, but with
/// unspecified behaviour.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The title is empty.
    #[error("a title needs at least one segment of some length")]
    NoSegments,
    /// None, or more than 64.
    #[error("{0} renditions; a title has 1 to 64")]
    Renditions(usize),
    /// This rendition, from 0, has a bit rate of zero or no higher than the previous one.
    #[error("rendition {0} must have a higher bit rate than the previous one")]
    BitRate(usize),
    /// This segment of this rendition has no place.
    #[error(
        "segment {segment} of rendition {rendition} has no bytes; its file or table is too short"
    )]
    NoPlace {
        /// From 0.
        rendition: usize,
        /// From 0.
        segment: u32,
    },
    /// Playback would need more to start than the buffer holds.
    #[error("start_buffer is more than buffer_high")]
    StartBuffer,
    /// Playback would need more to resume than the buffer holds.
    #[error("resume_buffer is more than buffer_high")]
    ResumeBuffer,
    /// Not a number above 0.
    #[error("safety must be a number above 0")]
    Safety,
    /// A skip to a segment that does not exist.
    #[error("skip to segment {0}, which does not exist")]
    Skip(u32),
}

impl AdaptivePlan {
    /// All errors of the plan.
    pub fn check(&self) -> Vec<PlanError> {
        let mut wrong = self.title.check();
        wrong.extend(self.make.check());
        let skips = self.acts.iter().filter_map(|act| match act {
            ViewerAction::Skip(segment) if *segment >= self.title.segments => Some(*segment),
            _ => None,
        });
        wrong.extend(skips.map(PlanError::Skip));
        wrong
    }
}

impl Title {
    /// All errors of the title.
    pub fn check(&self) -> Vec<PlanError> {
        let mut wrong = Vec::new();
        if self.segments == 0 || self.segment == Duration::ZERO {
            wrong.push(PlanError::NoSegments);
        }
        if !(1..=64).contains(&self.renditions.len()) {
            wrong.push(PlanError::Renditions(self.renditions.len()));
        }
        let mut below = 0;
        for (index, rendition) in self.renditions.iter().enumerate() {
            if rendition.bit_rate.0 <= below {
                wrong.push(PlanError::BitRate(index));
            }
            below = rendition.bit_rate.0;
            if let Some(segment) = self.first_missing(index) {
                wrong.push(PlanError::NoPlace {
                    rendition: index,
                    segment,
                });
            }
        }
        wrong
    }

    /// The first segment of a rendition without a place. If one is missing, so are all later ones,
    /// in each form of [`SegmentTable`](super::title::SegmentTable), so binary search finds it.
    fn first_missing(&self, rendition: usize) -> Option<u32> {
        let (mut there, mut nowhere) = (0, self.segments);
        while there < nowhere {
            let middle = there + (nowhere - there) / 2;
            match self.place(rendition, middle) {
                Some(_) => there = middle + 1,
                None => nowhere = middle,
            }
        }
        (there < self.segments).then_some(there)
    }
}

impl PlayerConfig {
    /// All errors of the configuration.
    pub fn check(&self) -> Vec<PlanError> {
        let mut wrong = Vec::new();
        if self.start_buffer > self.buffer_high {
            wrong.push(PlanError::StartBuffer);
        }
        if self.resume_buffer > self.buffer_high {
            wrong.push(PlanError::ResumeBuffer);
        }
        if !(self.safety.is_finite() && self.safety > 0.0) {
            wrong.push(PlanError::Safety);
        }
        wrong
    }
}
