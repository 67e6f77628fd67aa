//! Summary statistics of a workload: thesis Table 3.3 for any catalogue and any trace.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use headlong_player::{AdaptivePlan, ObjectId, Script, ScriptCall, SessionPlan};
use headlong_units::{ByteRange, Duration};

use crate::NetworkClass;
use crate::catalogue::{Catalogue, locate};
use crate::ideal_server::{self, SentCall};
use crate::trace::{Session, Trace, asked_bytes};

/// The titles of one group, or of all.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CatalogueSummary {
    /// Its name; empty for all.
    pub group: String,
    /// Number of titles; each rendition of a work is one.
    pub titles: u64,
    /// Mean duration.
    pub duration_seconds_mean: f64,
    /// Mean bytes of content.
    pub title_bytes_mean: f64,
    /// Bytes in files, with padding.
    pub file_bytes: u64,
}

impl CatalogueSummary {
    /// Summaries of all groups of a catalogue.
    pub fn of(catalogue: &Catalogue) -> Vec<Self> {
        let group = |(index, name): (usize, &String)| {
            let titles = catalogue
                .titles
                .iter()
                .filter(|title| title.group as usize == index);
            let mut summary = Self {
                group: name.clone(),
                ..Self::default()
            };
            for title in titles {
                summary.titles += 1;
                summary.duration_seconds_mean += title.duration.as_secs_f64();
                summary.title_bytes_mean += title.bytes as f64;
                summary.file_bytes += title.file_bytes;
            }
            let count = summary.titles.max(1) as f64;
            summary.duration_seconds_mean /= count;
            summary.title_bytes_mean /= count;
            summary
        };
        catalogue.groups.iter().enumerate().map(group).collect()
    }
}

/// Results of adaptive players with an ideal server, over their networks.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct AdaptiveSummary {
    /// Number of sessions.
    pub sessions: u64,
    /// Mean over sessions of the mean bit rate received.
    pub kbps_mean: f64,
    /// Mean number of bit rate changes per session.
    pub switches_mean: f64,
    /// Mean time from arrival to playback.
    pub startup_seconds_mean: f64,
    /// Sessions with a stall.
    pub stalled: u64,
    /// Calls that fail even so: the timeouts are too short for the network.
    pub calls_failed: u64,
}

/// Summary of a trace's sessions.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TraceSummary {
    /// Number of sessions.
    pub sessions: u64,
    /// From the start to the last arrival.
    pub length: Duration,
    /// Calls of all sessions.
    pub requests: u64,
    /// Bytes requested, as far as known.
    pub bytes: u64,
    /// Titles requested. In a foreign trace, whose paths do not identify titles: files.
    pub titles: u64,
    /// Titles requested in only one session.
    pub titles_once: u64,
    /// Distinct ranges, or whole files, requested.
    pub ranges: u64,
    /// Those requested only once.
    pub ranges_once: u64,
    /// Mean playing time of the content requested by a session; nothing if unknown.
    pub session_seconds_mean: Option<f64>,
    /// Largest number of concurrent sessions, if every reply were instantaneous: only waits count.
    pub concurrent_max: u64,
    /// Results of adaptive players with an ideal server; all figures of their requests assume one,
    /// too. Nothing if there are none.
    pub adaptive: Option<AdaptiveSummary>,
    /// Name of each class and its number of sessions.
    pub classes: Vec<(String, u64)>,
    /// Number of titles by the number of sessions that requested them.
    pub sessions_per_title: BTreeMap<u64, u64>,
    /// Number of sessions by their number of requests.
    pub requests_per_session: BTreeMap<u64, u64>,
}

impl TraceSummary {
    /// The summary of a trace.
    pub fn of(trace: &Trace) -> Self {
        let mut summary = Self {
            sessions: trace.sessions.len() as u64,
            length: trace
                .sessions
                .last()
                .map_or(Duration::ZERO, |session| session.arrival),
            classes: trace
                .classes
                .iter()
                .map(|class| (class.name.clone(), 0))
                .collect(),
            ..Self::default()
        };
        let titles = titles_of(trace);
        let mut per_title: BTreeMap<u64, u64> = BTreeMap::new();
        let mut per_range: BTreeMap<(u32, Option<ByteRange>), u64> = BTreeMap::new();
        let mut seconds = 0.0;
        let mut is_known = !trace.sessions.is_empty();
        let mut ends: Vec<(Duration, i64)> = Vec::new();
        for session in &trace.sessions {
            if let Some(class) = summary.classes.get_mut(session.class as usize) {
                class.1 += 1;
            }
            let asked = match &session.plan {
                SessionPlan::Script(script) => SessionRequests::by_script(script),
                SessionPlan::Phases(plan) => SessionRequests {
                    calls: session.asked().collect(),
                    bytes: plan.bytes(),
                    seconds: None,
                    waits: plan.length(),
                },
                SessionPlan::Adaptive(_) => {
                    SessionRequests::by_player(trace, session, &mut summary.adaptive)
                }
            };
            let mut watched: Vec<u64> = Vec::new();
            for (object, range) in &asked.calls {
                *per_range.entry((object.0, *range)).or_default() += 1;
                watched.extend(titles.get(object.0 as usize).copied());
            }
            if let SessionPlan::Adaptive(plan) = &session.plan {
                // All renditions count as one title.
                watched = first_object(plan)
                    .and_then(|object| titles.get(object.0 as usize).copied())
                    .into_iter()
                    .collect();
            }
            watched.sort_unstable();
            watched.dedup();
            watched
                .into_iter()
                .for_each(|title| *per_title.entry(title).or_default() += 1);
            let requests = asked.calls.len() as u64;
            summary.requests += requests;
            *summary.requests_per_session.entry(requests).or_default() += 1;
            summary.bytes = summary.bytes.saturating_add(asked.bytes);
            ends.push((session.arrival, 1));
            ends.push((session.arrival + asked.waits, -1));
            match asked.seconds {
                Some(asked) => seconds += asked,
                None => is_known = false,
            }
        }
        if let Some(adaptive) = &mut summary.adaptive {
            let count = adaptive.sessions.max(1) as f64;
            adaptive.kbps_mean /= count;
            adaptive.switches_mean /= count;
            adaptive.startup_seconds_mean /= count;
        }
        summary.session_seconds_mean = is_known.then(|| seconds / summary.sessions as f64);
        summary.titles = per_title.len() as u64;
        summary.titles_once = per_title
            .values()
            .filter(|sessions| **sessions == 1)
            .count() as u64;
        summary.ranges = per_range.len() as u64;
        summary.ranges_once = per_range.values().filter(|times| **times == 1).count() as u64;
        for sessions in per_title.values() {
            *summary.sessions_per_title.entry(*sessions).or_default() += 1;
        }
        summary.concurrent_max = concurrent_max(ends);
        summary
    }

    /// Mean bytes requested per second.
    pub fn bytes_per_second(&self) -> f64 {
        match self.length {
            Duration::ZERO => 0.0,
            length => self.bytes as f64 / length.as_secs_f64(),
        }
    }
}

/// A number for each object: its title's if all paths identify titles, else its own.
fn titles_of(trace: &Trace) -> Vec<u64> {
    let chunk_bytes = trace.about.chunk_bytes;
    let title = |path: &String| locate(path, chunk_bytes).map(|(title, _)| title);
    let titles: Option<Vec<u64>> = trace.objects.iter().map(title).collect();
    titles.unwrap_or_else(|| (0..trace.objects.len() as u64).collect())
}

/// Requests of a session.
struct SessionRequests {
    calls: Vec<(ObjectId, Option<ByteRange>)>,
    bytes: u64,
    /// Playing time of all of it, if known.
    seconds: Option<f64>,
    /// Time from its arrival to the start of its last call, if only pacing and thinking take time;
    /// for an adaptive player, to its end.
    waits: Duration,
}

impl SessionRequests {
    fn by_script(script: &Script) -> Self {
        let bytes = script.calls.iter().filter_map(asked_bytes);
        let bytes = bytes.fold(0, u64::saturating_add);
        let wait = |sum: Duration, call: &ScriptCall| {
            let (pace, think) = (
                call.pace.unwrap_or_default(),
                call.think.unwrap_or_default(),
            );
            sum + pace.max(think)
        };
        let rate = script.playback.map(|playback| playback.bit_rate);
        let rate = rate.filter(|rate| rate.0 > 0);
        let calls = script.calls.iter().map(|call| (call.object, call.range));
        Self {
            calls: calls.collect(),
            bytes,
            seconds: rate.map(|rate| bytes as f64 * 8.0 / rate.0 as f64),
            waits: script.calls.iter().fold(Duration::ZERO, wait),
        }
    }

    fn by_player(trace: &Trace, session: &Session, summary: &mut Option<AdaptiveSummary>) -> Self {
        let unlimited = NetworkClass::unlimited();
        let class = trace.classes.get(session.class as usize);
        let mut calls = Vec::new();
        let mut sent = |sent: SentCall| calls.push((sent.object, sent.range));
        let watched = ideal_server::watch(&session.plan, class.unwrap_or(&unlimited), &mut sent);
        let summary = summary.get_or_insert_default();
        summary.sessions += 1;
        summary.calls_failed += watched.calls_failed;
        if let Some(end) = watched.end {
            summary.kbps_mean += end.bit_rate.map_or(0.0, |rate| rate.0 as f64 / 1e3);
            summary.switches_mean += f64::from(end.switches);
            let startup = end.startup_delay.unwrap_or_default();
            summary.startup_seconds_mean += startup.as_secs_f64();
            summary.stalled += u64::from(end.stalls > 0);
        }
        Self {
            calls,
            bytes: watched.bytes,
            seconds: watched.end.map(|end| end.played.as_secs_f64()),
            waits: watched.length,
        }
    }
}

/// The first object of a title's lowest rendition.
fn first_object(plan: &AdaptivePlan) -> Option<ObjectId> {
    plan.title.place(0, 0).map(|place| place.object)
}

/// Largest number of concurrent sessions, from their arrivals and ends.
fn concurrent_max(mut ends: Vec<(Duration, i64)>) -> u64 {
    ends.sort_unstable_by_key(|(at, change)| (*at, -change));
    let mut now = 0;
    let most = ends.into_iter().map(|(_, change)| {
        now += change;
        now
    });
    most.max().unwrap_or(0).unsigned_abs()
}

/// A figure that a paper publishes for a workload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PublishedFigure {
    /// Name of the figure, as in [`TraceSummary`] and [`CatalogueSummary`].
    pub figure: &'static str,
    /// Its value.
    pub value: f64,
    /// Where it is published.
    pub source: &'static str,
}

/// Published figures of the preset of that name; none for other workloads.
pub fn published(name: &str) -> &'static [PublishedFigure] {
    match name {
        "youtube-2011" => CHAPTER_3_HALF_MB,
        "youtube-2011-2mb" => CHAPTER_3_TWO_MB,
        "youtube-sd" => CHAPTER_4_SD,
        "youtube-hd" => CHAPTER_4_HD,
        "flashstream" => FLASHSTREAM,
        _ => &[],
    }
}

/// Number of sessions of the published figures of a preset, if there are any.
pub fn published_sessions(name: &str) -> Option<u64> {
    match name {
        "youtube-2011" | "youtube-2011-2mb" => Some(7200),
        "youtube-sd" => Some(12_000),
        "youtube-hd" => Some(4000),
        // 26 per second for an hour.
        "flashstream" => Some(93_600),
        _ => None,
    }
}

const fn figure(figure: &'static str, value: f64, source: &'static str) -> PublishedFigure {
    PublishedFigure {
        figure,
        value,
        source,
    }
}

const TABLE_3_3: &str = "thesis Table 3.3";
const CHAPTER_3_HALF_MB: &[PublishedFigure] = &[
    figure("titles", 3366.0, TABLE_3_3),
    figure("titles_once_percent", 67.5, TABLE_3_3),
    figure("duration_seconds_mean", 258.7, TABLE_3_3),
    figure("title_mib_mean", 12.9, TABLE_3_3),
    figure("session_seconds_mean", 146.3, TABLE_3_3),
    figure("requests_per_session_mean", 14.628, TABLE_3_3),
    figure("ranges", 60_004.0, TABLE_3_3),
    figure("requests", 105_323.0, TABLE_3_3),
    figure("ranges_once", 44_478.0, TABLE_3_3),
];
const CHAPTER_3_TWO_MB: &[PublishedFigure] = &[
    figure("titles", 3366.0, TABLE_3_3),
    figure("titles_once_percent", 67.5, TABLE_3_3),
    figure("duration_seconds_mean", 258.7, TABLE_3_3),
    figure("title_mib_mean", 12.9, TABLE_3_3),
    figure("session_seconds_mean", 150.6, TABLE_3_3),
    figure("requests_per_session_mean", 3.766, TABLE_3_3),
    figure("ranges", 16_318.0, TABLE_3_3),
    figure("requests", 27_188.0, TABLE_3_3),
    figure("ranges_once", 12_293.0, TABLE_3_3),
];
const CHAPTER_4_SD: &[PublishedFigure] = &[
    figure("duration_seconds_mean", 267.0, "thesis 4.4.2"),
    figure("title_mib_mean", 13.0, "thesis 4.4.2"),
    figure("session_seconds_mean", 162.0, "thesis 4.4.2"),
    figure("gb", 92.0, "thesis 4.4.3"),
    figure("titles_once_percent", 69.0, "thesis 4.4.3"),
    figure("sessions_per_title_mean", 2.1, "thesis 4.4.3"),
    figure("concurrent_max", 650.0, "thesis 4.4.3, at the highest rate"),
];
const CHAPTER_4_HD: &[PublishedFigure] = &[
    figure("duration_seconds_mean", 267.0, "thesis 4.4.2"),
    figure("title_mib_mean", 66.0, "thesis 4.4.2"),
    figure("session_seconds_mean", 162.0, "thesis 4.4.2"),
    figure("gb", 148.0, "thesis 4.4.3"),
    figure("titles_once_percent", 72.0, "thesis 4.4.3"),
    figure("sessions_per_title_mean", 1.9, "thesis 4.4.3"),
    figure("concurrent_max", 250.0, "thesis 4.4.3, at the highest rate"),
];
const FLASHSTREAM: &[PublishedFigure] = &[figure("catalogue_gb", 545.0, "FlashStream 5.1")];

/// All figures of a workload by the names in [`PublishedFigure`]; a catalogue's figures are those
/// of the groups with viewers.
pub fn figures(
    catalogue: Option<&[CatalogueSummary]>,
    trace: &TraceSummary,
) -> Vec<(&'static str, f64)> {
    let mut figures = Vec::new();
    let ratio = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
    if let Some(groups) = catalogue {
        let titles: u64 = groups.iter().map(|group| group.titles).sum();
        let file_bytes: u64 = groups.iter().map(|group| group.file_bytes).sum();
        let mean = |of: fn(&CatalogueSummary) -> f64| {
            let values = groups.iter().map(|group| of(group) * group.titles as f64);
            values.sum::<f64>() / titles.max(1) as f64
        };
        let bytes = mean(|group| group.title_bytes_mean);
        figures.extend([
            ("catalogue_titles", titles as f64),
            ("catalogue_gb", file_bytes as f64 / 1e9),
            (
                "duration_seconds_mean",
                mean(|group| group.duration_seconds_mean),
            ),
            ("title_mib_mean", bytes / 1_048_576.0),
        ]);
    }
    let rate = match trace.length {
        Duration::ZERO => 0.0,
        length => trace.sessions as f64 / length.as_secs_f64(),
    };
    let once = ratio(trace.titles_once, trace.titles);
    let views = trace.sessions_per_title.iter();
    let views: u64 = views.map(|(times, titles)| times * titles).sum();
    figures.extend([
        ("sessions", trace.sessions as f64),
        ("length_seconds", trace.length.as_secs_f64()),
        ("sessions_per_second", rate),
        ("mib_per_second", trace.bytes_per_second() / 1_048_576.0),
        ("gb", trace.bytes as f64 / 1e9),
        ("titles", trace.titles as f64),
        ("titles_once_percent", 100.0 * once),
        ("sessions_per_title_mean", ratio(views, trace.titles)),
    ]);
    let seconds = trace.session_seconds_mean;
    figures.extend(seconds.map(|seconds| ("session_seconds_mean", seconds)));
    let per_session = ratio(trace.requests, trace.sessions);
    figures.extend([
        ("requests", trace.requests as f64),
        ("requests_per_session_mean", per_session),
        ("ranges", trace.ranges as f64),
        ("ranges_once", trace.ranges_once as f64),
        ("concurrent_max", trace.concurrent_max as f64),
    ]);
    if let Some(adaptive) = &trace.adaptive {
        let startup = adaptive.startup_seconds_mean;
        figures.extend([
            ("adaptive_sessions", adaptive.sessions as f64),
            ("adaptive_kbps_mean", adaptive.kbps_mean),
            ("adaptive_switches_mean", adaptive.switches_mean),
            ("adaptive_startup_seconds_mean", startup),
            ("adaptive_stalled_sessions", adaptive.stalled as f64),
            ("adaptive_failed_calls", adaptive.calls_failed as f64),
        ]);
    }
    figures
}

#[cfg(test)]
#[path = "summary_tests.rs"]
mod tests;
