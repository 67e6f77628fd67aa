//! The plan of an adaptive session: what there is to watch, what the viewer does, how the player is
//! made.

use alloc::sync::Arc;
use alloc::vec::Vec;

use headlong_units::Duration;

use super::title::Title;

/// A session of a player that adapts its bit rate.
#[derive(Debug, Clone, PartialEq)]
pub struct AdaptivePlan {
    /// What is watched.
    pub title: Arc<Title>,
    /// What the viewer does, one thing after another; then it leaves. The player does not know it
    /// before it happens, and asks for what may never be watched.
    pub acts: Vec<Act>,
    /// How the player is made.
    pub make: Arc<Make>,
}

/// Something a viewer does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Watch so much of the title from where it is, or until its end.
    Watch(Duration),
    /// Stop the picture for so long. The buffer goes on filling.
    Pause(Duration),
    /// Go to the start of this segment. What is in the buffer is kept if that is there, and
    /// thrown away if not.
    Skip(u32),
}

/// What a request covers while the bit rate is stable. While it is probed, a request covers one
/// segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// So many segments, fewer where they do not follow one another in one file; at least one.
    Segments(u32),
    /// From a segment to the end of the file. It is abandoned when the buffer is full or another
    /// bit rate is wanted. Only in a title of one file per rendition; elsewhere as one segment.
    OpenEnded,
}

/// How throughput is foretold from what was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Estimate {
    /// The lower of two exponentially weighted means by time of transfer, as in dash.js and Shaka
    /// Player.
    Ewma {
        /// Half-life of the one that follows quickly (dash.js: 3 s).
        fast: Duration,
        /// Half-life of the other (dash.js: 8 s).
        slow: Duration,
    },
    /// Harmonic mean of so many last samples, 1 to 20 (Jiang et al., FESTIVE, CoNEXT 2012, s. 3.3:
    /// 20).
    HarmonicMean {
        /// How many.
        samples: u8,
    },
}

/// How the next bit rate is chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rule {
    /// Always this rendition, from 0; the highest if there are fewer.
    Fixed(u32),
    /// The highest not above the estimate times [`Make::safety`].
    Throughput,
    /// By the buffer alone: lowest within the reservoir, highest above the cushion, linear in
    /// between, and no change before the next rate is reached (Huang et al., A Buffer-Based Approach
    /// to Rate Adaptation, SIGCOMM 2014, algorithm 1).
    Buffer {
        /// Below it, the lowest rendition.
        reservoir: Duration,
        /// So much above it, the highest.
        cushion: Duration,
    },
    /// The best trade of utility (logarithm of the bit rate) against an empty buffer (Spiteri et al.,
    /// BOLA, INFOCOM 2016), with the parameters derived as in dash.js from this and
    /// [`Make::buffer_high`].
    Bola {
        /// Below it, the lowest rendition (dash.js: 10 s).
        low: Duration,
    },
    /// `Throughput` below this much buffer, `Bola` above it.
    Dynamic {
        /// Where one gives way to the other (dash.js: 10 s).
        low: Duration,
    },
}

/// Transient phases (thesis 5.4.3): the player reads a little of several renditions to find the
/// highest that works, and then settles.
///
/// The first goes upwards from [`Make::start_rendition`]; later ones, after a skip, after a long
/// pause, or now and then, from one below the present rendition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probing {
    /// Segments read of each rendition on the way up.
    pub segments: u32,
    /// Whether the same segment is also asked for at the next rendition, at the same time, on a
    /// connection of its own. What comes of it is measured and thrown away.
    pub duplicate: bool,
    /// A pause at least so long is followed by another transient phase (thesis 5.4.5: 40 s).
    pub after_pause: Duration,
    /// So long after the end of one there is another, if at all.
    pub every: Option<Duration>,
}

/// How a player is made. Shared by all sessions with the same.
#[derive(Debug, Clone, PartialEq)]
pub struct Make {
    /// The picture first moves with so much in the buffer.
    pub start_buffer: Duration,
    /// The picture moves again with so much in the buffer, after it stood still or after a skip.
    pub resume_buffer: Duration,
    /// Having stopped asking, the player goes on when the buffer, with what is asked for, is down to
    /// this. A segment below [`buffer_high`](Self::buffer_high) it is one request per segment;
    /// far below, bursts.
    pub buffer_low: Duration,
    /// It stops asking when the buffer, with what is asked for, holds so much.
    pub buffer_high: Duration,
    /// Calls under way at a time, at most, each on a connection of its own; at least one. A transient
    /// phase uses one, and another for duplicates.
    pub connections: u32,
    /// What a request covers.
    pub shape: Shape,
    /// How throughput is foretold.
    pub estimate: Estimate,
    /// Share of the estimate that is relied on, above 0 (dash.js: 0.9).
    pub safety: f64,
    /// How the bit rate is chosen.
    pub rule: Rule,
    /// Rendition before anything is known, from 0.
    pub start_rendition: u32,
    /// Transient phases, if there are any.
    pub probing: Option<Probing>,
    /// A call that is not whole by then, counted from the sending, has failed; of an open-ended one,
    /// the next segment, counted from the one before.
    pub timeout: Option<Duration>,
    /// Failures one after another that are made good by asking again; one more ends the session.
    pub retries: u32,
    /// Time between a failure and asking again.
    pub retry_after: Duration,
    /// The viewer leaves when it has waited for the picture so long: at the start, after a skip,
    /// or when it stands still.
    pub patience: Option<Duration>,
}

impl Default for Make {
    /// A player like dash.js: half a minute of buffer, one connection, one segment at a time.
    fn default() -> Self {
        Self {
            start_buffer: Duration::from_secs(4),
            resume_buffer: Duration::from_secs(4),
            buffer_low: Duration::from_secs(28),
            buffer_high: Duration::from_secs(30),
            connections: 1,
            shape: Shape::Segments(1),
            estimate: Estimate::Ewma {
                fast: Duration::from_secs(3),
                slow: Duration::from_secs(8),
            },
            safety: 0.9,
            rule: Rule::Dynamic {
                low: Duration::from_secs(10),
            },
            start_rendition: 0,
            probing: None,
            timeout: Some(Duration::from_secs(10)),
            retries: 3,
            retry_after: Duration::from_secs(1),
            patience: None,
        }
    }
}

/// Why a plan makes no sense. A [`Player`](crate::Player) of such a plan still ends, but not as
/// anybody meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// There is nothing to watch.
    #[error("a title needs at least one segment of some length")]
    NoSegments,
    /// None, or more than 64.
    #[error("{0} renditions; a title has 1 to 64")]
    Renditions(usize),
    /// This rendition, from 0, has no higher bit rate than the one before it, or none at all.
    #[error("rendition {0} is to have a higher bit rate than the one before it")]
    BitRate(usize),
    /// This segment of this rendition is nowhere.
    #[error(
        "segment {segment} of rendition {rendition} has no bytes; its file or table is too short"
    )]
    NoPlace {
        /// From 0.
        rendition: usize,
        /// From 0.
        segment: u32,
    },
    /// More is wanted before the picture moves than the buffer holds.
    #[error("start_buffer is more than buffer_high")]
    StartBuffer,
    /// The same after a standstill.
    #[error("resume_buffer is more than buffer_high")]
    ResumeBuffer,
    /// Not a number above 0.
    #[error("safety is to be a number above 0")]
    Safety,
    /// Not between 1 and 20.
    #[error("{0} samples; a harmonic mean is of 1 to 20")]
    Samples(u8),
    /// A skip to a segment that is not there.
    #[error("a skip to segment {0}, which is not there")]
    Skip(u32),
}

impl AdaptivePlan {
    /// Everything that is wrong with it.
    pub fn check(&self) -> Vec<PlanError> {
        let mut wrong = self.title.check();
        wrong.extend(self.make.check());
        let skips = self.acts.iter().filter_map(|act| match act {
            Act::Skip(segment) if *segment >= self.title.segments => Some(*segment),
            _ => None,
        });
        wrong.extend(skips.map(PlanError::Skip));
        wrong
    }
}

impl Title {
    /// Everything that is wrong with it.
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

    /// The first segment of a rendition that is nowhere. Where one is missing, so are all behind it,
    /// in each of the forms that a rendition may have; so few have to be looked at.
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

impl Make {
    /// Everything that is wrong with it.
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
        if let Estimate::HarmonicMean { samples } = self.estimate
            && !(1..=20).contains(&samples)
        {
            wrong.push(PlanError::Samples(samples));
        }
        wrong
    }
}
