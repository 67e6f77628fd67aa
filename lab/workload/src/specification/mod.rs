//! Parameters of a workload: thesis Tables 3.1 and 3.2 as values.
//!
//! Parameters that change over the years (bit rates, networks, request sizes) are separate from
//! those that hardly do (durations, viewing behaviour), so that one can be varied while the other
//! stays (thesis 3.2). The catalogue follows from [`TitleGroup`]s and the catalogue's seed; the
//! sessions' titles from [`ViewingRange`] and the sessions' seed; their arrivals from
//! [`SessionArrivals`].

mod arrivals;
mod check;
mod players;
mod read;

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use headlong_player::PlayerConfig;
use headlong_units::{BitRate, Bytes, Duration, KIB, MIB};

use crate::phased::PhasedSpecification;
use crate::{Curve, NetworkClass, Ramp, TitleForm, ViewerIdentity};
pub(crate) use arrivals::{arrival_rate, is_of_phases, take_playing};
pub(crate) use check::{bit_rate, request_bytes};
pub use headlong_settings::Mistakes;

/// Largest number of sessions of a trace.
pub const SESSIONS_MAX: u64 = 10_000_000;
/// Largest number of titles of a catalogue.
pub const TITLES_MAX: u64 = 5_000_000;

/// A workload before any random draw. [`Specification::read`] parses it from TOML.
#[derive(Debug, Clone, PartialEq)]
pub struct Specification {
    /// Name in results.
    pub name: String,
    /// Groups of titles with common distributions; title numbers follow their order.
    pub groups: Vec<TitleGroup>,
    /// Seed of the catalogue. It is independent of a trace's seed: many traces are played against
    /// one set of files.
    pub catalogue_seed: u64,
    /// Division of titles into files.
    pub storage: TitleStorage,
    /// Number and arrivals of the viewers.
    pub sessions: SessionArrivals,
    /// The part of a title that they watch.
    pub viewing: ViewingRange,
    /// Requests of simple players.
    pub requests: RequestSettings,
    /// Players of the viewers; never empty.
    pub players: Vec<PlayerKind>,
    /// Networks of the viewers; shares add up to 1.
    pub classes: Vec<NetworkClass>,
    /// A workload of phases (`model = "phases"`): its titles, viewers and devices, instead of those
    /// above.
    pub phases: Option<Arc<PhasedSpecification>>,
}

/// Titles of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct TitleGroup {
    /// Its name and folder: `sd`, `hd`.
    pub name: String,
    /// Number of works: titles as a person selects them, each with one file per rendition.
    pub count: u32,
    /// The title of rank r is watched in proportion to 1 / r^alpha (thesis 3.2.1: 0.8).
    pub zipf_alpha: f64,
    /// Its share of sessions, relative to the other weights.
    pub weight: f64,
    /// Playing times in seconds.
    pub durations: Curve,
    /// This many of the most popular titles have the median duration (thesis 3.2.1: 2), because
    /// theirs would dominate the workload.
    pub median_durations: u32,
    /// Length of a segment (thesis 3.3: 10 s).
    pub segment_time: Duration,
    /// Bytes of a segment, with the share of titles of this size. 512 KiB in 10 s are exactly the
    /// thesis' 419 kbps.
    pub segment_bytes: Vec<(u64, f64)>,
    /// Bit rates of each work, ascending, with one file for each; empty if each title has one bit
    /// rate, from `segment_bytes`.
    pub renditions: Vec<BitRate>,
    /// Segment sizes vary uniformly from 1 - v to 1 + v times the mean; 0 for a constant bit rate.
    pub segment_variation: f64,
    /// Bytes per segment in the table of offsets at the start of every file (thesis 5.1.3).
    pub table_entry_bytes: u64,
}

impl TitleGroup {
    /// Number of files of each work.
    pub fn files_per_work(&self) -> u32 {
        (self.renditions.len() as u32).max(1)
    }

    /// Bytes of a segment in each rendition; without renditions, the possible segment sizes of
    /// titles.
    pub fn segment_sizes(&self) -> Vec<u64> {
        match self.renditions.is_empty() {
            true => self.segment_bytes.iter().map(|(bytes, _)| *bytes).collect(),
            false => self
                .renditions
                .iter()
                .map(|rate| rate.bytes_in(self.segment_time))
                .collect(),
        }
    }
}

/// Storage of titles (thesis 3.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TitleStorage {
    /// Division into files.
    pub form: TitleForm,
    /// Titles are padded to a multiple of this, so that they take the same space in every form.
    pub pad_bytes: u64,
}

/// When a trace ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceExtent {
    /// After this many sessions.
    Sessions(u64),
    /// After this time: no session arrives later.
    Time(Duration),
}

/// Arrival rate of viewers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ArrivalRate {
    /// Sessions per second.
    Sessions(f64),
    /// Bytes per second requested by all of them together, on average.
    Bytes(f64),
}

impl FromStr for ArrivalRate {
    type Err = String;

    /// Parses `2.5/s` (sessions) and `60MiB/s` (bytes requested).
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            alloc::format!(
                "`{text}` is not a rate; write sessions like 2.5/s, or bytes like 60MiB/s"
            )
        };
        let amount = text.trim().strip_suffix("/s").ok_or_else(wrong)?.trim();
        if let Ok(sessions) = amount.parse::<f64>() {
            let is_good = sessions.is_finite() && sessions > 0.0;
            return is_good
                .then_some(Self::Sessions(sessions))
                .ok_or_else(wrong);
        }
        let bytes: Bytes = amount.parse().map_err(|error| alloc::format!("{error}"))?;
        (bytes.0 > 0)
            .then_some(Self::Bytes(bytes.0 as f64))
            .ok_or_else(wrong)
    }
}

impl fmt::Display for ArrivalRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sessions(rate) => write!(f, "{rate}/s"),
            Self::Bytes(rate) if *rate % 1.0 == 0.0 => write!(f, "{}/s", Bytes(*rate as u64)),
            Self::Bytes(rate) => write!(f, "{rate}B/s"),
        }
    }
}

/// Distribution of the time between sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArrivalDistribution {
    /// Independent, exponential (thesis 3.2.2).
    Poisson,
    /// Constant (FlashStream 5.1).
    Constant,
    /// As in a log: a number of sessions in a time, by the weights of its parts
    /// ([`SessionSettings`](crate::phased::SessionSettings)).
    Logged,
}

/// Number and arrivals of the viewers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SessionArrivals {
    /// When the trace ends.
    pub extent: TraceExtent,
    /// Arrival rate.
    pub rate: ArrivalRate,
    /// Distribution of the gaps.
    pub arrivals: ArrivalDistribution,
    /// Excluded from statistics at the start.
    pub ramp_up: Ramp,
    /// Excluded from statistics at the end.
    pub ramp_down: Ramp,
    /// Viewers in the middle of a title when the trace begins resume within this time, in addition
    /// to new viewers, as after a restart; none resume if it is zero.
    pub resume_time: Duration,
    /// This many of the most frequently requested ranges are read before the start (thesis Table
    /// 3.2).
    pub warming_count: u64,
}

/// Start position of a session in its title, and how far it continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartPosition {
    /// At its beginning; it continues for the drawn fraction (thesis 3.2.2).
    Beginning,
    /// A single segment with uniform probability (FlashStream 5.1).
    RandomSegment,
}

/// The part of a title that a session watches.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewingRange {
    /// Start position.
    pub start: StartPosition,
    /// Fraction of the title watched, if it starts at the beginning.
    pub fraction: Curve,
    /// Additional probability of leaving after each request.
    pub early_end: f64,
    /// Probability of a pause before each request but the first.
    pub pause: f64,
    /// Length of a pause in seconds.
    pub pause_time: Curve,
    /// Probability of a skip before each request but the first: to a position drawn uniformly from
    /// the title, with a new fill of the buffer.
    pub skip: f64,
}

/// Size of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestSize {
    /// This much playing time: the same in titles of every bit rate.
    Time(Duration),
    /// This many bytes.
    Bytes(u64),
}

/// Requests of simple players.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestSettings {
    /// Size of a request.
    pub size: RequestSize,
    /// This many first requests are not paced: they fill the playout buffer (thesis 3.4: 3).
    pub unpaced: u32,
    /// Whether the others are paced by playback.
    pub pacing: bool,
    /// A request that is incomplete by then ends the session (thesis 3.4: 10 s).
    pub timeout: Option<Duration>,
    /// Concurrent connections of a viewer.
    pub connections: u32,
    /// How players of every kind identify themselves.
    pub identity: ViewerIdentity,
    /// Whether a session is one request from its start to the end of the file, without a known end:
    /// progressive download (thesis 3.6.3). It is not paced, and viewers do not leave early.
    pub open_ended: bool,
}

/// Viewers with one kind of player.
#[derive(Debug, Clone, PartialEq)]
pub struct PlayerKind {
    /// Its name: `tv`, `phone`.
    pub name: String,
    /// Share of sessions with it; shares add up to 1.
    pub share: f64,
    /// How it adapts its bit rate; `None` for the papers' simple player (thesis 3.4), whose
    /// requests [`RequestSettings`] describes.
    pub make: Option<Arc<PlayerConfig>>,
}

impl Default for Specification {
    /// The defaults of the keys; without titles, players and networks.
    fn default() -> Self {
        Self {
            name: "unnamed".into(),
            groups: Vec::new(),
            catalogue_seed: 1,
            storage: TitleStorage {
                form: TitleForm::Whole,
                pad_bytes: 4 * KIB,
            },
            sessions: SessionArrivals {
                extent: TraceExtent::Sessions(1000),
                rate: ArrivalRate::Bytes(20.0 * MIB as f64),
                arrivals: ArrivalDistribution::Poisson,
                ramp_up: Ramp::default(),
                ramp_down: Ramp::default(),
                resume_time: Duration::ZERO,
                warming_count: 0,
            },
            viewing: ViewingRange {
                start: StartPosition::Beginning,
                fraction: Curve::known("youtube-2011-fraction"),
                early_end: 0.0,
                pause: 0.0,
                pause_time: Curve::constant(60.0),
                skip: 0.0,
            },
            requests: RequestSettings {
                size: RequestSize::Time(Duration::from_secs(10)),
                unpaced: 3,
                pacing: true,
                timeout: Some(Duration::from_secs(10)),
                connections: 1,
                identity: ViewerIdentity::default(),
                open_ended: false,
            },
            players: Vec::new(),
            classes: Vec::new(),
            phases: None,
        }
    }
}

impl Specification {
    /// The same viewers at another rate, for as long as said.
    #[must_use]
    pub fn at_rate(mut self, rate: ArrivalRate, extent: TraceExtent) -> Self {
        let sessions = &mut self.sessions;
        (sessions.rate, sessions.extent) = (rate, extent);
        if sessions.arrivals == ArrivalDistribution::Logged {
            sessions.arrivals = ArrivalDistribution::Poisson;
        }
        self
    }
}

impl Default for TitleGroup {
    /// The defaults of the keys, and one title.
    fn default() -> Self {
        Self {
            name: String::new(),
            count: 1,
            zipf_alpha: 0.8,
            weight: 1.0,
            durations: Curve::known("youtube-2011-duration"),
            median_durations: 2,
            segment_time: Duration::from_secs(10),
            segment_bytes: [(512 * KIB, 1.0)].into(),
            renditions: Vec::new(),
            segment_variation: 0.0,
            table_entry_bytes: 0,
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
