//! How much, and when: thesis Table 5.1 and Figure 5.1. All sessions count here, also those that
//! start in the last hour.

use super::counting::spread;
use super::outcome::{Axis, Figure, Form, Outcome, Series, Table, Value};
use super::view::{Log, SessionView};

/// Widths of bins over the time of the log; the thesis takes 5 minutes.
const WIDTHS_MS: [i64; 7] = [1000, 5000, 10_000, 30_000, 60_000, 120_000, 300_000];
/// Bins that are enough to see a day by.
const BINS_WANTED: i64 = 288;

/// Requests, sessions and bytes, over the time of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    width_ms: i64,
    origin_ms: i64,
    bytes: Vec<u64>,
    starts: Vec<u64>,
    requests: u64,
    sessions: u64,
    left_out: u64,
    titles: Vec<bool>,
    files: Vec<bool>,
}

impl Volume {
    /// Nothing yet.
    pub fn new(log: &Log) -> Self {
        let span = (log.span_ms.1 - log.span_ms.0).max(1);
        let fits = |width: &i64| span / width < BINS_WANTED;
        let width_ms = WIDTHS_MS.into_iter().find(fits).unwrap_or(WIDTHS_MS[6]);
        // A log of many weeks still has some ten thousand bins.
        let bins = (span / width_ms + 1) as usize;
        Self {
            width_ms,
            origin_ms: log.span_ms.0.div_euclid(width_ms) * width_ms,
            bytes: vec![0; bins + 1],
            starts: vec![0; bins + 1],
            requests: 0,
            sessions: 0,
            left_out: 0,
            titles: vec![false; log.titles],
            files: vec![false; log.files.len()],
        }
    }

    /// One session more.
    pub fn add(&mut self, log: &Log, view: &SessionView<'_>) {
        self.sessions += 1;
        self.left_out += u64::from(view.span.start_ms >= log.kept_before_ms);
        self.requests += view.requests.len() as u64;
        let start = (view.span.start_ms - self.origin_ms).max(0) / self.width_ms;
        if let Some(starts) = self.starts.get_mut(start as usize) {
            *starts += 1;
        }
        for request in view.requests {
            if let Some(seen) = self.files.get_mut(request.file as usize) {
                *seen = true;
                self.titles[log.file(request.file).title as usize] = true;
            }
            let when = (request.received_ms, request.completed_ms);
            let bytes = &mut self.bytes;
            spread(
                request.sent_bytes,
                when,
                self.origin_ms,
                self.width_ms,
                |bin, part| {
                    if let Some(bytes) = bytes.get_mut(bin) {
                        *bytes += part;
                    }
                },
            );
        }
    }

    /// Those of another part too.
    pub fn merge(&mut self, other: &Self) {
        let add = |mine: &mut [u64], other: &[u64]| {
            mine.iter_mut().zip(other).for_each(|(a, b)| *a += b);
        };
        add(&mut self.bytes, &other.bytes);
        add(&mut self.starts, &other.starts);
        let or = |mine: &mut [bool], other: &[bool]| {
            mine.iter_mut().zip(other).for_each(|(a, b)| *a |= b);
        };
        or(&mut self.titles, &other.titles);
        or(&mut self.files, &other.files);
        self.requests += other.requests;
        self.sessions += other.sessions;
        self.left_out += other.left_out;
    }

    /// Sessions, and those of them that start too near the end.
    pub const fn sessions(&self) -> (u64, u64) {
        (self.sessions, self.left_out)
    }

    /// Sessions that started in each bin, and how wide bins are, ms.
    pub fn arrivals(&self) -> (&[u64], i64) {
        (&self.starts, self.width_ms)
    }

    /// Table 5.1 and Figure 5.1.
    pub fn finish(&self, log: &Log) -> Outcome {
        let seconds = (log.span_ms.1 - log.span_ms.0).max(1) as f64 / 1000.0;
        let bytes: u64 = self.bytes.iter().sum();
        let gbps = |bytes: u64, seconds: f64| bytes as f64 * 8.0 / seconds / 1e9;
        let bin_s = self.width_ms as f64 / 1000.0;
        let peak = self.bytes.iter().copied().max().unwrap_or(0);
        let seen = |all: &[bool]| all.iter().filter(|seen| **seen).count();
        let mut table = Table::new(
            "table-5.1",
            "Summary of the log",
            "All of the log, sessions of its last hour too. TB are 2^40 bytes. TCP connections, which \
             the thesis tells, are not in such a log.",
            &[("value", "Value")],
        );
        let tebi = (1u64 << 40) as f64;
        table.push(
            "sent",
            "Total data sent (TB)",
            [(bytes as f64 / tebi).into()],
        );
        table.push(
            "mean",
            "Average throughput (Gbps)",
            [gbps(bytes, seconds).into()],
        );
        table.push(
            "peak",
            "Peak throughput (Gbps)",
            [gbps(peak, bin_s.min(seconds)).into()],
        );
        let counts: [(&str, &str, Value); 4] = [
            ("sessions", "Number of sessions", self.sessions.into()),
            (
                "titles",
                "Number of unique titles",
                seen(&self.titles).into(),
            ),
            ("files", "Number of unique files", seen(&self.files).into()),
            ("requests", "Number of HTTP requests", self.requests.into()),
        ];
        for (key, name, value) in counts {
            table.push(key, name, [value]);
        }
        table.push(
            "hours",
            "Length of the log (h)",
            [((log.span_ms.1 - log.span_ms.0) as f64 / 3.6e6).into()],
        );
        Outcome {
            tables: vec![table],
            figures: vec![self.throughput(log, bin_s), self.starts_figure(log, bin_s)],
        }
    }

    fn throughput(&self, log: &Log, bin_s: f64) -> Figure {
        let points = self.bytes.iter().enumerate();
        let points =
            points.map(|(bin, bytes)| (self.hours(log, bin), *bytes as f64 * 8.0 / bin_s / 1e9));
        Figure::new(
            "figure-5.1",
            "Throughput over time",
            Form::Lines,
            Axis::new("Time since the log began", "h"),
            Axis::new("Throughput", "Gbps"),
        )
        .reading(format!(
            "What the server sent, in bins of {bin_s} s; a reply's bytes are spread evenly over the \
             time it took. The last bin is cut off by the end of the log."
        ))
        .series(Series::new("sent", self.until_end(points)))
    }

    fn starts_figure(&self, log: &Log, bin_s: f64) -> Figure {
        let points = self.starts.iter().enumerate();
        let points = points.map(|(bin, n)| (self.hours(log, bin), *n as f64 * 60.0 / bin_s));
        Figure::new(
            "figure-arrivals",
            "Sessions that start",
            Form::Lines,
            Axis::new("Time since the log began", "h"),
            Axis::new("Starts", "1/min"),
        )
        .reading(
            "How often viewers come. A session that began before the log seems to start with it.",
        )
        .series(Series::new("starts", self.until_end(points)))
    }

    fn hours(&self, log: &Log, bin: usize) -> f64 {
        let ms = self.origin_ms + bin as i64 * self.width_ms - log.span_ms.0;
        ms.max(0) as f64 / 3.6e6
    }

    /// Without the bins behind the end of the log.
    fn until_end<T>(&self, points: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
        let used = self.bytes.iter().rposition(|bytes| *bytes > 0);
        let started = self.starts.iter().rposition(|starts| *starts > 0);
        points.take(used.max(started).map_or(0, |last| last + 1))
    }
}
