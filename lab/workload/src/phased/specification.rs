//! What a phased workload is made of: thesis Table 5.5 as values.

use alloc::string::String;
use alloc::vec::Vec;

use headlong_random::Empirical;

use super::Kind;

/// Sessions of the log that thesis chapter 5 describes, and the most that are asked of its preset.
pub const SESSIONS_FULL: u64 = headlong_characterise::SESSIONS_PUBLISHED;

/// A phased workload before any die is cast.
#[derive(Debug, Clone, PartialEq)]
pub struct Specification {
    /// Its name in results.
    pub name: String,
    /// What there is to watch.
    pub catalogue: Titles,
    /// How many viewers come, and when.
    pub sessions: Visits,
    /// What they do.
    pub viewing: Viewing,
    /// How they are connected.
    pub network: Network,
    /// On what they watch.
    pub devices: Vec<Device>,
}

/// One bit rate of one kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rendition {
    /// Its nominal bit rate.
    pub kbps: u32,
    /// Share of titles that have it.
    pub titles_share: f64,
    /// Viewers whose network would settle on it, in proportion to the others' weights; of titles in
    /// one bit rate each, what is watched in it.
    pub weight: f64,
}

/// What there is to watch (thesis 5.2.1).
#[derive(Debug, Clone, PartialEq)]
pub struct Titles {
    /// What titles and their drives are drawn with; no part of a log's seed.
    pub seed: u64,
    /// How many.
    pub count: u64,
    /// The title of rank r is watched in proportion to 1 / r^alpha ...
    pub zipf_alpha: f64,
    /// ... but so many at the head ...
    pub head_titles: u64,
    /// ... so many times as often.
    pub head_factor: f64,
    /// Seconds.
    pub durations: Empirical,
    /// Weights of equal parts of the titles, shortest first: sessions that each part gets. Of one
    /// part, durations have nothing to do with popularity.
    pub duration_weights: Vec<f64>,
    /// Drives that files are spread over, each file apart, at random.
    pub drives: u64,
    /// Content is cut into segments of this length, s (thesis 5.1.3: 2).
    pub segment_s: f64,
    /// A segment's end is moved by up to this share of a segment (variable bit rate).
    pub segment_variation: f64,
    /// A title's true bit rates differ from its nominal ones by up to this share.
    pub rate_variation: f64,
    /// Bytes of a segment's entry in the table at the start of each file.
    pub table_entry_bytes: f64,
    /// Whether a title has each bit rate by its share, or one of them alone.
    pub rates: Rates,
    /// Of sound, ascending; likewise of video and combined: by [`Kind::number`].
    pub renditions: [Vec<Rendition>; 3],
}

/// How many files of a kind a title has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rates {
    /// One for each bit rate that it has by that one's share, and always the lowest: a library for
    /// players that adapt.
    Several,
    /// One: a library of plain films. So many titles as the shares say have each bit rate, and such
    /// ones that it is watched as its weight says.
    One,
}

impl Titles {
    /// Bit rates of a kind, ascending.
    pub fn of_kind(&self, kind: Kind) -> &[Rendition] {
        &self.renditions[kind.number() as usize]
    }
}

/// How many viewers come, and when (Figure 5.1).
#[derive(Debug, Clone, PartialEq)]
pub struct Visits {
    /// How many.
    pub count: u64,
    /// For how long the log goes on, s. What is not complete by then is not in it.
    pub length_s: f64,
    /// Weights of equal parts of that time: arrivals are even within a part.
    pub arrivals: Vec<f64>,
}

/// What viewers do (thesis 5.2.2).
#[derive(Debug, Clone, PartialEq)]
pub struct Viewing {
    /// Where in the title they begin, as a share of it.
    pub start: Empirical,
    /// Share of sessions that are over within 40 s.
    pub glance_share: f64,
    /// For how long those stay, s.
    pub glance_s: Empirical,
    /// For how long the others stay, pauses apart, as a share of what is left of the title.
    pub stay: Empirical,
    /// Skips per hour of watching.
    pub skips_per_hour: f64,
    /// By how far, s of the title; backwards negative.
    pub skip_s: Empirical,
    /// Pauses of 40 s and more per hour of watching. Shorter ones leave no trace in a log.
    pub pauses_per_hour: f64,
    /// Share of the sessions that are no glances that pause within their first minute, besides.
    pub pause_at_start: f64,
    /// Lengths of pauses, s.
    pub pause_s: Empirical,
    /// Adaptations to the network per hour of watching.
    pub changes_per_hour: f64,
    /// Transient phases after the first that end in a higher bit rate, if there is one and the
    /// network carries it.
    pub up_share: f64,
    /// The same of a lower one. The others keep theirs.
    pub down_share: f64,
    /// Sessions whose device begins one bit rate below the one that its network would settle on.
    pub cautious_share: f64,
}

/// How viewers are connected.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    /// Bandwidth of a viewer over the bit rate that the device settles on.
    pub headroom: Empirical,
    /// Between a request and the first byte, s.
    pub delay_s: f64,
    /// Share of its bandwidth that a viewer gets in a transient phase: connections are young, and
    /// one is used at a time (thesis 5.4.2).
    pub transient_share: f64,
}

/// The two formats of requests (thesis 5.1.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// First and last byte are given.
    Chunk,
    /// From a byte until the client closes the connection, or the file ends.
    Open,
}

/// A type of device: how it asks (thesis 5.1.3, 5.2.4).
#[derive(Debug, Clone, PartialEq)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Sessions on it, in proportion to the others' shares.
    pub share: f64,
    /// Whether sound and video are apart; else it reads combined files.
    pub is_separate: bool,
    /// Its requests for content: video or combined.
    pub form: Form,
    /// Its requests for sound.
    pub audio_form: Form,
    /// Share of its sessions in which each chain of content is of one form or the other by chance.
    pub both_share: f64,
    /// It takes no higher bit rate.
    pub kbps_max: u64,
    /// Content of a chunk request, s.
    pub request_s: f64,
    /// A request that would be larger is cut into equal parts, which are asked for at once.
    pub part_bytes_max: u64,
    /// Over so many connections.
    pub connections: u64,
    /// Sound in a chunk request, s.
    pub audio_request_s: f64,
    /// What it keeps ahead of the picture, s.
    pub buffer_s: f64,
    /// The same of sound.
    pub audio_buffer_s: f64,
    /// When its buffer is full it waits until there is room for so much, s.
    pub spacing_s: f64,
    /// The same of sound.
    pub audio_spacing_s: f64,
    /// Bytes of a chunk request for the table of segments; 0 for the size of the table, rounded up
    /// to the next KiB.
    pub table_bytes: u64,
    /// Files that are tried in the first transient phase, on average.
    pub probes_first: f64,
    /// The same of later ones.
    pub probes_next: f64,
    /// Content that is read of each, s, on average.
    pub probe_s: f64,
    /// Short chains of sound at the start of a stretch without skips or pauses, on average.
    pub audio_probes: f64,
    /// Share of open-ended reads that are closed once the server's socket buffer is through, and
    /// go on with another request at the next byte.
    pub resume_share: f64,
}

impl Device {
    /// The kind of its content.
    pub const fn content(&self) -> Kind {
        if self.is_separate {
            Kind::Video
        } else {
            Kind::Combined
        }
    }
}

impl Specification {
    /// The same with so many sessions: titles, and those at the head of them, in proportion, so that
    /// a title is watched as often. Drives stay as many as they are: each has less to do.
    pub fn scaled(mut self, sessions: u64) -> Self {
        let factor = sessions as f64 / self.sessions.count.max(1) as f64;
        let scale = |count: u64, least: u64| {
            (libm::round(count as f64 * factor) as u64).max(least.min(count))
        };
        self.catalogue.count = scale(self.catalogue.count, 10);
        self.catalogue.head_titles = scale(self.catalogue.head_titles, 1);
        self.sessions.count = sessions;
        self
    }
}
