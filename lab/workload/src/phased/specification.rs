//! Parameters of a phased workload: thesis Table 5.5 as values.

use alloc::string::String;
use alloc::vec::Vec;

use headlong_random::Empirical;

use super::ContentKind;

/// Sessions of the log in thesis chapter 5, and the default number of its preset.
pub const SESSIONS_FULL: u64 = headlong_characterise::SESSIONS_PUBLISHED;

/// A phased workload before any random draw.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PhasedSpecification {
    /// Name in results.
    pub name: String,
    /// The catalogue.
    pub catalogue: TitleSettings,
    /// Number and arrivals of the viewers.
    pub sessions: SessionSettings,
    /// Behaviour of the viewers.
    pub viewing: PhasedViewing,
    /// Networks of the viewers.
    pub network: NetworkSettings,
    /// Device types.
    pub devices: Vec<DeviceType>,
}

/// One bit rate of one kind of content.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PhasedRendition {
    /// Its nominal bit rate.
    pub kbps: u32,
    /// Share of titles that have it.
    pub titles_share: f64,
    /// Share of viewers whose network would settle on it, relative to the other weights; if titles
    /// have one bit rate each, its share of the watching.
    pub weight: f64,
}

/// The catalogue (thesis 5.2.1).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TitleSettings {
    /// Seed of the titles and their drives, independent of a log's seed.
    pub seed: u64,
    /// Number of titles.
    pub count: u64,
    /// The title of rank r is watched in proportion to 1 / r^alpha ...
    pub zipf_alpha: f64,
    /// ... except that this many at the head ...
    pub head_titles: u64,
    /// ... are watched this many times as often.
    pub head_factor: f64,
    /// Playing times in seconds.
    pub durations: Empirical,
    /// Share of sessions of equal groups of the titles, shortest titles first. With one group,
    /// durations are independent of popularity.
    pub duration_weights: Vec<f64>,
    /// Number of drives; each file is assigned to one at random.
    pub drives: u64,
    /// Length of a segment, s (thesis 5.1.3: 2).
    pub segment_s: f64,
    /// Largest shift of a segment's end, as a share of a segment (variable bit rate).
    pub segment_variation: f64,
    /// Largest deviation of a title's true bit rates from the nominal ones, as a share.
    pub rate_variation: f64,
    /// Bytes per segment in the table at the start of each file.
    pub table_entry_bytes: f64,
    /// Whether a title has several bit rates or a single one.
    pub rates: RateSelection,
    /// Bytes of all titles of the log that this was fitted to; 0 if there was none.
    pub bytes: u64,
    /// Whether those are all.
    pub bytes_are: BytesKnown,
    /// Bit rates of sound, video and combined content, each ascending; indexed by
    /// [`ContentKind::number`].
    pub renditions: [Vec<PhasedRendition>; 3],
}

/// How well the bytes of a catalogue are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BytesKnown {
    /// Those of all titles.
    #[default]
    Exact,
    /// Those that a log has seen; there may be more.
    AtLeast,
}

/// Number of files of a kind per title.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RateSelection {
    /// One for each bit rate, present with its share of titles, and always the lowest: a library
    /// for adaptive players.
    #[default]
    Several,
    /// One: a library of plain films. Bit rates are assigned to titles by their shares, and such
    /// that each is watched by its weight.
    One,
}

impl TitleSettings {
    /// Bit rates of a kind, ascending.
    pub fn of_kind(&self, kind: ContentKind) -> &[PhasedRendition] {
        &self.renditions[kind.number() as usize]
    }
}

/// Number and arrivals of the viewers (Figure 5.1).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SessionSettings {
    /// Number of sessions.
    pub count: u64,
    /// Length of the log, s. Requests that complete later are omitted.
    pub length_s: f64,
    /// Weights of equal parts of that time: arrivals are uniform within a part.
    pub arrivals: Vec<f64>,
    /// Bytes that a session of the log that this was fitted to read in a second, in the mean; 0 if
    /// there was none. For plans; the sessions themselves do not depend on it.
    pub read_bytes_per_s: f64,
}

impl SessionSettings {
    /// Mean arrival rate.
    pub(crate) fn per_second(&self) -> f64 {
        self.count as f64 / self.length_s
    }

    /// The end of the log, ms.
    pub(crate) fn end_ms(&self) -> i64 {
        libm::round(self.length_s * 1000.0) as i64
    }
}

/// Behaviour of the viewers (thesis 5.2.2).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PhasedViewing {
    /// Start position in the title, as a share of it.
    pub start: Empirical,
    /// Share of sessions that end within 40 s.
    pub glance_share: f64,
    /// Length of those, s.
    pub glance_s: Empirical,
    /// Watching time of the others, without pauses, as a share of the rest of the title.
    pub stay: Empirical,
    /// Skips per hour of watching.
    pub skips_per_hour: f64,
    /// Distance of a skip, s of the title; backwards negative.
    pub skip_s: Empirical,
    /// Pauses of 40 s or more per hour of watching. Shorter ones are invisible in a log.
    pub pauses_per_hour: f64,
    /// Share of the longer sessions with an additional pause within their first minute.
    pub pause_at_start: f64,
    /// Lengths of pauses, s.
    pub pause_s: Empirical,
    /// Adaptations to the network per hour of watching.
    pub changes_per_hour: f64,
    /// Share of later transient phases that end at a higher bit rate, if there is one and the
    /// network sustains it.
    pub up_share: f64,
    /// The same for a lower bit rate. The rest keep theirs.
    pub down_share: f64,
    /// Share of sessions whose device starts one bit rate below the one that its network sustains.
    pub cautious_share: f64,
}

/// Networks of the viewers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NetworkSettings {
    /// Ratio of a viewer's bandwidth to the bit rate that the device settles on.
    pub headroom: Empirical,
    /// Time from a request to its first byte, s.
    pub delay_s: f64,
    /// Share of its bandwidth that a viewer gets in a transient phase: connections are new, and
    /// only one is used at a time (thesis 5.4.2).
    pub transient_share: f64,
}

/// The two forms of requests (thesis 5.1.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RequestForm {
    /// With first and last byte.
    #[default]
    Chunk,
    /// From a byte until the client closes the connection, or the file ends.
    Open,
}

/// A device type and its requests (thesis 5.1.3, 5.2.4).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DeviceType {
    /// Its name.
    pub name: String,
    /// Its share of sessions, relative to the other shares.
    pub share: f64,
    /// Whether sound and video are separate files; else it reads combined files.
    pub is_separate: bool,
    /// Form of its requests for content: video or combined.
    pub form: RequestForm,
    /// Form of its requests for sound.
    pub audio_form: RequestForm,
    /// Share of its sessions in which the form of each chain of content is random.
    pub both_share: f64,
    /// Largest bit rate that it selects.
    pub kbps_max: u64,
    /// Playing time of a chunk request, s.
    pub request_s: f64,
    /// Larger requests are split into equal parts, which are sent concurrently ...
    pub part_bytes_max: u64,
    /// ... over this many connections.
    pub connections: u64,
    /// Playing time of a chunk request for sound, s.
    pub audio_request_s: f64,
    /// Target buffer ahead of the playback position, s.
    pub buffer_s: f64,
    /// The same for sound.
    pub audio_buffer_s: f64,
    /// With a full buffer it waits until there is room for this much, s.
    pub spacing_s: f64,
    /// The same for sound.
    pub audio_spacing_s: f64,
    /// Bytes of a chunk request for the table of segments; 0 for the table's size rounded up to the
    /// next KiB.
    pub table_bytes: u64,
    /// Mean number of files tried in the first transient phase.
    pub probes_first: f64,
    /// The same for later ones.
    pub probes_next: f64,
    /// Mean content read from each, s.
    pub probe_s: f64,
    /// Mean number of short chains of sound at the start of a period without skips or pauses.
    pub audio_probes: f64,
    /// Share of open-ended reads that are closed after one socket buffer of the server, and
    /// continue with another request at the next byte.
    pub resume_share: f64,
}

impl DeviceType {
    /// Kind of its content.
    pub const fn content(&self) -> ContentKind {
        if self.is_separate {
            ContentKind::Video
        } else {
            ContentKind::Combined
        }
    }
}

impl PhasedSpecification {
    /// Bound of a session's length, s: twice the longest title, for skips backwards and short
    /// pauses, and the longest pause.
    pub(crate) fn session_s_max(&self) -> f64 {
        2.0 * self.catalogue.durations.quantile(1.0) + self.viewing.pause_s.quantile(1.0)
    }

    /// The same with another number of sessions: titles, and those at their head, are scaled in
    /// proportion, so that views per title stay the same. The number of drives stays: each has less
    /// load.
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
