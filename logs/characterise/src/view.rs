//! Input of the accumulators: one session at a time, and the constants of the log.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::cmp::Reverse;

use headlong_chains::{Chain, ContentKind, FileInfo, Request};
use headlong_http::HttpDate;

use crate::segments::{FileRole, roles};
use crate::tables::Axis;

/// A chain that lasts longer is long (A11), ms.
pub(crate) const LONG_MS: i64 = 40_000;

/// Whether a chain is long, and thus a stable phase.
pub(crate) const fn is_long(chain: &Chain) -> bool {
    chain.duration_ms() > LONG_MS
}

/// Play time of `bytes` at a nominal bit rate, microseconds (A13); 0 if the rate is unknown.
pub(crate) const fn nominal_us(bytes: u64, kbps: u32) -> u64 {
    if kbps == 0 {
        return 0;
    }
    // Saturates for the exabytes that a corrupt log may claim.
    match bytes.checked_mul(8000) {
        Some(scaled) => scaled / kbps as u64,
        None => u64::MAX / 1024,
    }
}

/// A class of files with one bit rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RateClass {
    /// Contents of the files.
    pub kind: ContentKind,
    /// Nominal bit rate, kbit/s; for a merged class its middle.
    pub kbps: u32,
}

impl RateClass {
    /// Name on axes.
    pub fn name(&self) -> String {
        let kind = match self.kind {
            ContentKind::Audio => " a",
            ContentKind::Video => "",
            ContentKind::Combined => " c",
        };
        format!("{}{kind}", self.kbps)
    }

    /// Name in tables.
    pub(crate) fn long_name(&self) -> String {
        match self.kbps {
            0 => format!("unknown, {}", self.kind.name()),
            kbps => format!("{kbps} kbit/s, {}", self.kind.name()),
        }
    }
}

/// The bit rates of a log, ordered by kind and rate as in thesis Figure 5.2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRates {
    classes: Vec<RateClass>,
    of_file: Vec<u16>,
    /// Whether neighbouring rates were merged, because there were too many.
    pub is_merged: bool,
}

/// More rates than this are merged: a larger matrix of bubbles is unreadable. The thesis has 27.
const CLASSES_MAX: usize = 48;
/// Classes per octave of merged rates.
const MERGED_PER_OCTAVE: f64 = 2.0;

impl LogRates {
    /// The rates of these files.
    pub fn of(files: &[FileInfo]) -> Self {
        let exact = |file: &FileInfo| RateClass {
            kind: file.kind,
            kbps: file.kbps,
        };
        let mut classes: Vec<RateClass> = files.iter().map(exact).collect();
        classes.sort_unstable();
        classes.dedup();
        let is_merged = classes.len() > CLASSES_MAX;
        let class_of = |file: &FileInfo| match is_merged {
            true => merged(exact(file)),
            false => exact(file),
        };
        if is_merged {
            classes = classes.into_iter().map(merged).collect();
            classes.sort_unstable();
            classes.dedup();
        }
        let of_file = files.iter().map(|file| {
            let found = classes.binary_search(&class_of(file));
            // Merged rates are at most some 60 per kind, so this fits.
            found.unwrap_or(0) as u16
        });
        Self {
            of_file: of_file.collect(),
            classes,
            is_merged,
        }
    }

    /// All classes, in order.
    pub fn classes(&self) -> &[RateClass] {
        &self.classes
    }

    /// The class of a file; the first class for an unknown file.
    pub fn of_file(&self, file: u32) -> usize {
        let class = self.of_file.get(file as usize);
        class.copied().map_or(0, usize::from)
    }
}

fn merged(class: RateClass) -> RateClass {
    if class.kbps == 0 {
        return class;
    }
    let step = libm::round(libm::log2(f64::from(class.kbps)) * MERGED_PER_OCTAVE);
    RateClass {
        kbps: libm::round(libm::exp2(step / MERGED_PER_OCTAVE)) as u32,
        ..class
    }
}

/// Device types that are counted separately, including one for all others: the sums of each take
/// some 150 KB.
pub const DEVICES_MAX: usize = 64;

/// Constants of a log.
#[derive(Debug, Clone)]
pub struct LogContext {
    /// Indexed by file number.
    pub files: Vec<FileInfo>,
    /// Largest title number plus one.
    pub titles: usize,
    /// Names of device types, by number; a type without a name is shown by its number.
    pub devices: Vec<String>,
    /// Numbers of the device types counted separately, ascending, if there are too many; empty
    /// otherwise.
    devices_kept: Vec<u16>,
    /// Names of titles, by number: of [`crate::Accumulators::top_titles`]; others are not shown.
    pub title_names: BTreeMap<u32, String>,
    /// The bit rates of the files.
    pub rates: LogRates,
    /// First arrival and last completion, ms.
    pub span_ms: (i64, i64),
    /// Whether requests have offsets; if most do not, only sections that need none are produced.
    pub has_offsets: bool,
    /// Sessions that start at or after this time, and still run at the end of the log, are left out
    /// of statistics (A16).
    kept_before_ms: i64,
    /// Whether sessions that start so late are left out even if they have ended, as in the thesis.
    pub leaves_out_ended: bool,
    /// The role of each file, by number; empty if there are no streams.
    roles: Vec<FileRole>,
}

/// Sessions that start this near the end of the log may be left out (A16, thesis 5.1.2).
pub(crate) const LEFT_OUT_MS: i64 = 3_600_000;
/// A session whose last reply ends this near the end of the log still runs.
const RUNNING_MS: i64 = 300_000;
/// A log of this length keeps all its sessions; of the time beyond it, a tenth is left out.
const KEPT_MS: i64 = 2 * LEFT_OUT_MS;

impl LogContext {
    /// A log of these files with this first arrival and last completion. A log of up to two hours
    /// keeps all its sessions, and from twelve hours on those are left out that start in the last
    /// hour and still run: of a shorter one too few would be left.
    pub fn new(files: Vec<FileInfo>, span_ms: (i64, i64)) -> Self {
        let titles = files.iter().map(|file| file.title as usize + 1).max();
        let beyond_ms = span_ms.1.saturating_sub(span_ms.0).saturating_sub(KEPT_MS);
        let left_out_ms = (beyond_ms / 10).min(LEFT_OUT_MS);
        Self {
            titles: titles.unwrap_or(0),
            rates: LogRates::of(&files),
            files,
            devices: Vec::new(),
            title_names: BTreeMap::new(),
            devices_kept: Vec::new(),
            has_offsets: true,
            span_ms,
            roles: Vec::new(),
            leaves_out_ended: false,
            kept_before_ms: match left_out_ms > 0 {
                true => span_ms.1 - left_out_ms,
                false => i64::MAX,
            },
        }
    }

    /// Whether statistics leave out a session, because the log ends before it does.
    pub fn is_left_out(&self, span: TimeSpan) -> bool {
        let runs = span.end_ms >= self.span_ms.1.saturating_sub(RUNNING_MS);
        span.start_ms >= self.kept_before_ms && (runs || self.leaves_out_ended)
    }

    /// The clock of its time axes.
    pub(crate) fn clock(&self) -> LogClock {
        let first_ms = self.span_ms.0;
        match first_ms > CALENDAR_MS_MIN {
            true => LogClock {
                origin_ms: first_ms.div_euclid(DAY_MS) * DAY_MS,
                is_calendar: true,
            },
            false => LogClock {
                origin_ms: first_ms,
                is_calendar: false,
            },
        }
    }

    /// Sets the number of sessions of each device type, by number: with more than [`DEVICES_MAX`]
    /// types, those with the most sessions are counted separately.
    pub fn count_devices(&mut self, sessions: &[u64]) {
        if sessions.len() <= DEVICES_MAX {
            return;
        }
        let mut all: Vec<(u64, u16)> = sessions.iter().copied().zip(0..u16::MAX).collect();
        all.sort_unstable_by_key(|(sessions, number)| (Reverse(*sessions), *number));
        all.truncate(DEVICES_MAX - 1);
        self.devices_kept = all.into_iter().map(|(_, number)| number).collect();
        self.devices_kept.sort_unstable();
    }

    /// The row of a device type in tables.
    pub(crate) fn device_row(&self, number: u16) -> usize {
        let kept = &self.devices_kept;
        match kept.is_empty() {
            true => usize::from(number).min(DEVICES_MAX - 1),
            false => kept.binary_search(&number).unwrap_or(kept.len()),
        }
    }

    /// The name of such a row.
    pub(crate) fn device_name(&self, row: usize) -> String {
        let is_too_many = !self.devices_kept.is_empty() || self.devices.len() > DEVICES_MAX;
        if is_too_many && row == DEVICES_MAX - 1 {
            return String::from("others");
        }
        let number = self
            .devices_kept
            .get(row)
            .map_or(row, |number| usize::from(*number));
        match self.devices.get(number) {
            Some(name) if !name.is_empty() => name.clone(),
            _ => format!("device-{number}"),
        }
    }

    /// Names the files that are all segment files of a rendition.
    pub fn mark_streams(&mut self, streams: &[u32]) {
        self.roles = roles(&self.files, streams);
    }

    fn role(&self, file: u32) -> FileRole {
        self.roles.get(file as usize).copied().unwrap_or_default()
    }

    /// Whether positions in the file are positions in a title.
    pub(crate) fn has_places(&self, file: u32) -> bool {
        self.role(file).has_places()
    }

    /// Play time of a file, s; 0 if it is unknown or the file has none.
    pub(crate) fn seconds(&self, file: u32) -> f64 {
        match self.has_places(file) {
            true => self.file(file).duration_s,
            false => 0.0,
        }
    }

    /// Whether a chain reads only the segment table of a file, or a file beside a stream.
    pub(crate) fn is_header(&self, chain: &Chain) -> bool {
        self.role(chain.file).is_header(chain)
    }

    /// Titles in the files table, requested or not.
    pub(crate) fn listed_titles(&self) -> usize {
        let listed = self.files.iter().filter(|file| !file.is_estimated);
        let mut titles: Vec<u32> = listed.map(|file| file.title).collect();
        titles.sort_unstable();
        titles.dedup();
        titles.len()
    }

    /// Properties of a file.
    pub fn file(&self, file: u32) -> &FileInfo {
        const UNKNOWN: FileInfo = FileInfo {
            title: 0,
            kind: ContentKind::Combined,
            kbps: 0,
            size_bytes: 0,
            disk: 0,
            duration_s: 0.0,
            is_estimated: true,
        };
        self.files.get(file as usize).unwrap_or(&UNKNOWN)
    }
}

/// A day, ms.
const DAY_MS: i64 = 86_400_000;
/// Times before 1990 are on a clock of the log's own.
const CALENDAR_MS_MIN: i64 = 631_152_000_000;

/// The clock of the time axes: hours of the log's first day (UTC), or since the log began if its
/// times are no dates.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogClock {
    origin_ms: i64,
    is_calendar: bool,
}

impl LogClock {
    /// A time as hours on the axis.
    pub(crate) fn hours(&self, ms: i64) -> f64 {
        (ms - self.origin_ms).max(0) as f64 / 3.6e6
    }

    /// Names an axis after its day.
    pub(crate) fn name(&self, axis: &mut Axis) {
        if let Some(date) = self.date(self.origin_ms) {
            // Without the time.
            axis.quantity = format!("Time of day, UTC; 0 is {}", &date[..16]);
        }
    }

    /// A time in words.
    pub(crate) fn told(&self, ms: i64) -> String {
        let date = self.date(ms);
        date.unwrap_or_else(|| format!("{:.2} h", self.hours(ms)))
    }

    fn date(&self, ms: i64) -> Option<String> {
        let date = HttpDate::from_unix_seconds(ms.div_euclid(1000));
        date.filter(|_| self.is_calendar)
            .map(|date| date.to_string())
    }
}

/// A time span of a session, ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeSpan {
    /// Start.
    pub start_ms: i64,
    /// End.
    pub end_ms: i64,
}

impl TimeSpan {
    /// Its length.
    pub fn ms(&self) -> u64 {
        self.end_ms.saturating_sub(self.start_ms).max(0) as u64
    }
}

/// A cluster of short chains (thesis 5.4.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// From the first arrival to the last completion.
    pub span: TimeSpan,
    /// Its chains, as indexes into [`SessionView::chains`].
    pub chains: Vec<u32>,
}

/// The phases of a session (A12), in order of their start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PhaseGroups {
    /// Transient phases.
    pub transient: Vec<Cluster>,
    /// Stable phases: each is one long chain, given by its index.
    pub stable: Vec<u32>,
    /// Inactive phases.
    pub inactive: Vec<TimeSpan>,
    /// Time covered by transient, stable and inactive phases, ms.
    pub covered_ms: [u64; 3],
    /// Whether the first of all phases is transient.
    pub starts_transient: bool,
}

/// One session.
#[derive(Debug, Clone, Copy)]
pub struct SessionView<'a> {
    /// Its number.
    pub session: u32,
    /// Its requests by arrival; at least one.
    pub requests: &'a [Request],
    /// Indexes of requests by file, and by arrival within a file.
    pub by_file: &'a [u32],
    /// Its chains by start.
    pub chains: &'a [Chain],
    /// The chain of each request, as an index into `chains`; [`headlong_chains::NO_CHAIN`] for
    /// none.
    pub chain_of: &'a [u32],
    /// Its phases from chains of all files except audio ([0]), and of all files ([1]).
    pub phases: [&'a PhaseGroups; 2],
    /// From its first arrival to its last completion.
    pub span: TimeSpan,
}

/// Names of the two readings of A12.
pub(crate) const READINGS: [&str; 2] = ["without audio", "all files"];

impl<'a> SessionView<'a> {
    /// The requests grouped by file, in order of arrival.
    pub fn files(&self) -> impl Iterator<Item = (u32, impl Iterator<Item = &'a Request> + Clone)> {
        let requests = self.requests;
        let same = move |a: &u32, b: &u32| requests[*a as usize].file == requests[*b as usize].file;
        self.by_file.chunk_by(same).map(move |run| {
            let file = requests[run[0] as usize].file;
            (
                file,
                run.iter().map(move |place| &requests[*place as usize]),
            )
        })
    }

    /// The chain of the request at an index.
    pub fn chain(&self, request: usize) -> Option<&'a Chain> {
        let place = self.chain_of.get(request)?;
        self.chains.get(*place as usize)
    }

    /// Its length in whole seconds, which is its last second in terms of [`Self::second`].
    pub fn last_second(&self) -> usize {
        (self.span.ms() / 1000) as usize
    }

    /// The second of the session that contains a time.
    pub fn second(&self, ms: i64) -> usize {
        (ms.saturating_sub(self.span.start_ms).max(0) / 1000) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(kind: ContentKind, kbps: u32) -> FileInfo {
        FileInfo {
            title: 0,
            kind,
            kbps,
            size_bytes: 1,
            disk: 0,
            duration_s: 1.0,
            is_estimated: false,
        }
    }

    #[test]
    fn rates_are_ordered_by_kind_and_rate() {
        let files = [
            file(ContentKind::Combined, 500),
            file(ContentKind::Video, 3000),
            file(ContentKind::Audio, 64),
            file(ContentKind::Video, 235),
        ];
        let rates = LogRates::of(&files);
        let names: Vec<_> = rates.classes().iter().map(RateClass::name).collect();
        assert_eq!(names, ["64 a", "235", "3000", "500 c"]);
        assert_eq!([0, 1, 2, 3].map(|at| rates.of_file(at)), [3, 2, 0, 1]);
    }

    #[test]
    fn too_many_rates_are_merged() {
        let files: Vec<_> = (100..5000)
            .map(|kbps| file(ContentKind::Video, kbps))
            .collect();
        let rates = LogRates::of(&files);
        assert!(rates.is_merged && rates.classes().len() <= CLASSES_MAX);
        for (place, file) in files.iter().enumerate() {
            let class = rates.classes()[rates.of_file(place as u32)];
            let ratio = f64::from(class.kbps) / f64::from(file.kbps);
            assert!((0.83..1.21).contains(&ratio), "{class:?} {file:?}");
        }
    }

    #[test]
    fn time_left_out_grows_from_none_to_an_hour() {
        let hour = 3_600_000;
        let kept = |ms| LogContext::new(Vec::new(), (0, ms)).kept_before_ms;
        assert_eq!(kept(2 * hour), i64::MAX);
        assert_eq!(kept(3 * hour), 3 * hour - hour / 10);
        assert_eq!(kept(12 * hour), 11 * hour);
        assert_eq!(kept(24 * hour), 23 * hour);
    }

    #[test]
    fn only_sessions_that_still_run_are_left_out() {
        let hour = 3_600_000;
        let log = LogContext::new(Vec::new(), (0, 24 * hour));
        let is_left_out = |start_ms, end_ms| log.is_left_out(TimeSpan { start_ms, end_ms });
        assert!(is_left_out(23 * hour + 1, 24 * hour - 1000));
        assert!(!is_left_out(23 * hour + 1, 24 * hour - 400_000));
        assert!(!is_left_out(22 * hour, 24 * hour));
        let mut thesis = log.clone();
        thesis.leaves_out_ended = true;
        let ended = TimeSpan {
            start_ms: 23 * hour,
            end_ms: 23 * hour + 1,
        };
        assert!(thesis.is_left_out(ended) && !log.is_left_out(ended));
    }

    #[test]
    fn dates_are_hours_of_the_day_and_other_times_since_the_start() {
        let at = |ms| LogContext::new(Vec::new(), (ms, ms + 1)).clock();
        let ten = 1_795_773_600_000;
        let clock = at(ten);
        assert_eq!(clock.hours(ten + 15 * 3_600_000), 25.0);
        assert_eq!(clock.told(ten), "Fri, 27 Nov 2026 10:00:00 GMT");
        assert_eq!(at(5_000).hours(3_605_000), 1.0);
        assert_eq!(at(5_000).told(3_605_000), "1.00 h");
    }
}
