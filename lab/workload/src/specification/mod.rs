//! What a workload is made of: thesis Tables 3.1 and 3.2 as values.
//!
//! The one idea: parameters that change over time (bit rates, networks, request sizes) are apart
//! from those that hardly do (durations, what people watch), so that one can be varied while the
//! other stays (thesis 3.2). What exists follows from [`TitleGroup`]s and the catalogue's seed; who
//! watches what from [`Viewing`] and the sessions' seed; when, from [`Sessions`].

mod check;
mod player_kind;
mod players;
mod read;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use headlong_units::{BitRate, Bytes, Duration};

use crate::{Curve, Form, Identity, NetworkClass, Ramp};
pub(crate) use check::{bit_rate, request_bytes};
pub use headlong_settings::Mistakes;
pub use player_kind::{PlayerKind, player_text};
pub(crate) use read::{curve, document, is_of_phases, no_new_tables, read_only};

/// Most sessions that a trace may have.
pub const SESSIONS_MAX: u64 = 10_000_000;
/// Most titles that a catalogue may have.
pub const TITLES_MAX: u64 = 5_000_000;

/// A workload before any die is cast. [`Specification::read`] makes it from TOML.
#[derive(Debug, Clone, PartialEq)]
pub struct Specification {
    /// Its name in results.
    pub name: String,
    /// Titles that have their distributions in common; title numbers follow their order.
    pub groups: Vec<TitleGroup>,
    /// What the catalogue is drawn with. It is no part of a trace's seed: many traces are played
    /// against one set of files.
    pub catalogue_seed: u64,
    /// How titles lie in files.
    pub storage: Storage,
    /// How many viewers come, and when.
    pub sessions: Sessions,
    /// What they watch of a title.
    pub viewing: Viewing,
    /// How simple players ask for it.
    pub requests: Requests,
    /// What viewers play titles with; never empty.
    pub players: Vec<PlayerKind>,
    /// How they are connected; shares add up to 1.
    pub classes: Vec<NetworkClass>,
}

/// Titles of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct TitleGroup {
    /// Its folder: `sd`, `hd`.
    pub name: String,
    /// How many works: titles as a person picks them, each in as many files as it has renditions.
    pub count: u32,
    /// The title of rank r is watched in proportion to 1 / r^alpha (thesis 3.2.1: 0.8).
    pub zipf_alpha: f64,
    /// Sessions that pick this group, in proportion to the others' weights.
    pub weight: f64,
    /// Seconds.
    pub durations: Curve,
    /// So many of the most popular titles have the median duration (thesis 3.2.1: 2), because
    /// theirs would sway the whole workload.
    pub median_durations: u32,
    /// Content is cut into segments of this length (thesis 3.3: 10 s).
    pub segment_time: Duration,
    /// Bytes of a segment, with the share of titles that have this rate. 512 KiB in 10 s are the
    /// thesis' 419 kbps, exactly.
    pub segment_bytes: Vec<(u64, f64)>,
    /// Bit rates, upwards, in which each work exists, one file for each; empty if each has one, of
    /// `segment_bytes`.
    pub renditions: Vec<BitRate>,
    /// A segment's size is drawn evenly from 1 - v to 1 + v times that; 0 for a constant bit rate.
    pub segment_variation: f64,
    /// Bytes for each segment in the table of offsets at the start of every file (thesis 5.1.3).
    pub table_entry_bytes: u64,
}

impl TitleGroup {
    /// In how many files each work exists.
    pub fn files_per_work(&self) -> u32 {
        (self.renditions.len() as u32).max(1)
    }

    /// Bytes of a segment in each rendition; without renditions, those that titles may have.
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

/// How titles lie in files (thesis 3.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Storage {
    /// In how many files.
    pub form: Form,
    /// Titles are padded to a multiple of this, so that they take the same space in every form.
    pub pad_bytes: u64,
}

/// When a trace ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// After so many sessions.
    Sessions(u64),
    /// No session comes later than this.
    Time(Duration),
}

/// How often viewers come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rate {
    /// Sessions per second.
    Sessions(f64),
    /// Bytes per second that all of them together ask for, on average.
    Bytes(f64),
}

impl FromStr for Rate {
    type Err = String;

    /// Reads `2.5/s` (sessions) and `60MiB/s` (bytes that they ask for).
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            alloc::format!(
                "`{text}` is no rate; write sessions like 2.5/s, or bytes they ask for like 60MiB/s"
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

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sessions(rate) => write!(f, "{rate}/s"),
            Self::Bytes(rate) if *rate % 1.0 == 0.0 => write!(f, "{}/s", Bytes(*rate as u64)),
            Self::Bytes(rate) => write!(f, "{rate}B/s"),
        }
    }
}

/// Time between one session and the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// Independent, exponential (thesis 3.2.2).
    Poisson,
    /// Always the same (FlashStream 5.1).
    Constant,
}

/// How many viewers come, and when.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sessions {
    /// When the trace ends.
    pub extent: Extent,
    /// How often they come.
    pub rate: Rate,
    /// How evenly.
    pub arrivals: Arrivals,
    /// Left out at the start.
    pub ramp_up: Ramp,
    /// Left out at the end.
    pub ramp_down: Ramp,
    /// Viewers in the midst of a title when the trace begins come back within this time, beside those
    /// who come anew, as after a restart; none come back if it is zero.
    pub resume_time: Duration,
    /// So many of the most often asked ranges are to be read before the start (thesis Table 3.2).
    pub warming_count: u64,
}

/// Where in a title a session starts, and how far it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At its beginning; on for the fraction that is drawn (thesis 3.2.2).
    Beginning,
    /// One segment, each as likely as the others (FlashStream 5.1).
    RandomSegment,
}

/// What a session watches.
#[derive(Debug, Clone, PartialEq)]
pub struct Viewing {
    /// Where it starts.
    pub start: Start,
    /// Fraction of the title that it watches, if from the beginning.
    pub fraction: Curve,
    /// After each request the viewer leaves with this probability, besides.
    pub early_end: f64,
    /// Before each request but the first the viewer pauses with this probability.
    pub pause: f64,
    /// For so many seconds.
    pub pause_time: Curve,
    /// Before each request but the first the viewer skips, with this probability, to a place drawn
    /// evenly from the title, and fills its buffer anew.
    pub skip: f64,
}

/// How much a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestSize {
    /// So much content: the same time in titles of every bit rate.
    Time(Duration),
    /// So many bytes.
    Bytes(u64),
}

/// How viewers ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requests {
    /// How much at a time.
    pub size: RequestSize,
    /// The first so many are not paced: they fill the playout buffer (thesis 3.4: 3).
    pub unpaced: u32,
    /// Whether the others come no faster than they are watched.
    pub pacing: bool,
    /// A request not answered in full by then ends the session (thesis 3.4: 10 s).
    pub timeout: Option<Duration>,
    /// Connections that a viewer asks over at once.
    pub connections: u32,
    /// What players of every kind tell about themselves.
    pub identity: Identity,
    /// Whether a session is one request from where it starts to the end of the file, wherever that
    /// is: progressive download (thesis 3.6.3). It is not paced, and nobody leaves early.
    pub open_ended: bool,
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
