//! Two example sessions, drawn request by request: thesis Figures 5.8, 5.9 and 5.16.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;

use headlong_chains::Request;
use serde::{Deserialize, Serialize};

use crate::merge::{Merge, sums};
use crate::tables::{Captions, Figure, ReportItems, Series};
use crate::view::{LogContext, RateClass, SessionView};

/// Most requests of an example that remain visible in one drawing.
const REQUESTS_MAX: usize = 2000;
/// Length of the start shown of the second example (thesis Figure 5.9).
const START_MS: i64 = 90_000;
/// Length of the bit-rate detail shown of the first (Figure 5.16).
const DETAIL_MS: i64 = 720_000;

/// A session kept for drawing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ExampleSession {
    score: u64,
    /// Its number in the process that read it.
    session: u32,
    requests: Vec<Request>,
}

impl ExampleSession {
    /// Whether a session is a better example: by its score, and of equal ones by what it requests
    /// and when. Numbers of sessions do not count, as each process that reads a piece of a log has
    /// its own.
    fn is_worse_than(&self, score: u64, requests: &[Request]) -> bool {
        match score.cmp(&self.score) {
            Ordering::Greater => true,
            Ordering::Less => false,
            Ordering::Equal => contents(requests).lt(contents(&self.requests)),
        }
    }
}

/// What is requested and when, in order.
fn contents(requests: &[Request]) -> impl Iterator<Item = (i64, i64, u32, [Option<u64>; 3])> {
    let bytes = |r: &Request| [Some(r.offset), r.asked_bytes, Some(r.sent_bytes)];
    let each = requests.iter();
    each.map(move |r| (r.received_ms, r.completed_ms, r.file, bytes(r)))
}

sums! {
    /// The most instructive sessions: one mainly of open-ended requests, one of chunks.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub(crate) struct ExampleSessions {
        whole: Option<ExampleSession>,
        start: Option<ExampleSession>,
    }
}

/// Keeps the better example.
impl Merge for Option<ExampleSession> {
    fn merge(&mut self, other: Self) {
        let Some(other) = other else {
            return;
        };
        let is_better = |ours: &ExampleSession| ours.is_worse_than(other.score, &other.requests);
        if self.as_ref().is_none_or(is_better) {
            *self = Some(other);
        }
    }
}

impl ExampleSessions {
    /// Adds a session.
    pub(crate) fn add(&mut self, log: &LogContext, view: &SessionView<'_>) {
        if view.requests.len() < 3 || !view.requests.iter().all(Request::is_placed) {
            return;
        }
        consider(&mut self.whole, view, whole_score(log, view), REQUESTS_MAX);
        let started = view.span.start_ms + START_MS;
        let shown = view
            .requests
            .partition_point(|request| request.received_ms <= started);
        consider(
            &mut self.start,
            view,
            start_score(log, &view.requests[..shown]),
            shown,
        );
    }

    /// Figures 5.8, 5.9 and 5.16, if there are such sessions.
    pub(crate) fn finish(&self, log: &LogContext, captions: &Captions) -> ReportItems {
        let mut figures = Vec::new();
        if let Some(ExampleSession { requests, .. }) = &self.whole {
            let first = first_of(requests, DETAIL_MS);
            figures.push(positions(log, requests, captions.figure("figure-5.8")));
            figures.push(rows(log, requests, captions.figure("figure-5.8-rates")));
            figures.push(rows(log, &first, captions.figure("figure-5.16")));
        }
        if let Some(example) = &self.start {
            let first = first_of(&example.requests, START_MS);
            figures.push(positions(log, &first, captions.figure("figure-5.9")));
            figures.push(rows(log, &first, captions.figure("figure-5.9-rates")));
        }
        ReportItems {
            tables: Vec::new(),
            figures,
        }
    }
}

fn consider(
    best: &mut Option<ExampleSession>,
    view: &SessionView<'_>,
    score: u64,
    requests: usize,
) {
    let shown = &view.requests[..requests.min(view.requests.len()).min(REQUESTS_MAX)];
    let is_better = |best: &ExampleSession| best.is_worse_than(score, shown);
    if !shown.is_empty() && best.as_ref().is_none_or(is_better) {
        *best = Some(ExampleSession {
            score,
            session: view.session,
            requests: shown.to_vec(),
        });
    }
}

/// Requests truncated at a time limit, assuming an even transfer rate.
fn first_of(requests: &[Request], ms: i64) -> Vec<Request> {
    let until = requests[0].received_ms + ms;
    let begun = requests
        .iter()
        .filter(|request| request.received_ms < until);
    let cut = begun.map(|request| {
        let took = (request.completed_ms - request.received_ms).max(1);
        let left = (until - request.received_ms).min(took);
        let sent = u128::from(request.sent_bytes) * left as u128 / took as u128;
        Request {
            completed_ms: request.completed_ms.min(until),
            sent_bytes: sent as u64,
            ..*request
        }
    });
    cut.collect()
}

fn rates_of(log: &LogContext, requests: &[Request]) -> usize {
    let mut rates: Vec<usize> = requests.iter().map(|r| log.rates.of_file(r.file)).collect();
    rates.sort_unstable();
    rates.dedup();
    rates.len()
}

/// Score of a whole session: all phases, several bit rates, about half an hour, and few enough
/// requests to be visible.
fn whole_score(log: &LogContext, view: &SessionView<'_>) -> u64 {
    let minutes = view.span.ms() / 60_000;
    let phases = view.phases[0];
    let open = view
        .requests
        .iter()
        .filter(|request| request.asked_bytes.is_none())
        .count();
    let points = [
        (10..=60).contains(&minutes),
        (3..=60).contains(&minutes),
        (20..=300).contains(&view.requests.len()),
        view.requests.len() <= REQUESTS_MAX,
        open * 2 > view.requests.len(),
        !phases.inactive.is_empty(),
        !phases.stable.is_empty(),
        phases.transient.len() >= 3,
    ];
    let yes = points.iter().filter(|yes| **yes).count() as u64;
    yes * 100 + rates_of(log, view.requests).min(12) as u64
}

/// Score of the start of a session: many chunk requests, and more than one bit rate.
fn start_score(log: &LogContext, requests: &[Request]) -> u64 {
    let chunks = requests
        .iter()
        .filter(|request| request.asked_bytes.is_some())
        .count();
    let long = match (requests.first(), requests.last()) {
        (Some(first), Some(last)) => last.received_ms - first.received_ms,
        _ => 0,
    };
    let points = [
        chunks * 2 > requests.len(),
        (30..=400).contains(&chunks),
        long > 70_000,
    ];
    let yes = points.iter().filter(|yes| **yes).count() as u64;
    yes * 100 + rates_of(log, requests).min(8) as u64
}

fn minutes(example: &[Request], ms: i64) -> f64 {
    (ms - example[0].received_ms) as f64 / 60_000.0
}

/// Rectangles over time and position in the title, one series for each bit rate.
fn positions(log: &LogContext, requests: &[Request], figure: Figure) -> Figure {
    let place = |request: &Request, at: u64| {
        let bytes = log.file(request.file).size_bytes.max(1);
        at as f64 / bytes as f64 * log.seconds(request.file) / 60.0
    };
    let of_rate = |(class, rate): (usize, &RateClass)| {
        let mine = requests
            .iter()
            .filter(|request| log.rates.of_file(request.file) == class);
        let boxes = mine.map(|request| {
            vec![
                minutes(requests, request.received_ms),
                minutes(requests, request.completed_ms),
                place(request, request.offset),
                place(request, request.end()),
            ]
        });
        Series::of(&format!("{} kbit/s", rate.name()), boxes)
    };
    let all = log.rates.classes().iter().enumerate().map(of_rate);
    all.filter(|series| !series.points.is_empty())
        .fold(figure, Figure::series)
}

/// Rectangles over time, in rows of bit rates.
fn rows(log: &LogContext, requests: &[Request], figure: Figure) -> Figure {
    let mut used: Vec<usize> = requests.iter().map(|r| log.rates.of_file(r.file)).collect();
    used.sort_unstable();
    used.dedup();
    let names = used
        .iter()
        .map(|class| log.rates.classes()[*class].name())
        .collect();
    let boxes = requests.iter().map(|request| {
        let row = used.partition_point(|class| *class < log.rates.of_file(request.file)) as f64;
        vec![
            minutes(requests, request.received_ms),
            minutes(requests, request.completed_ms),
            row + 0.15,
            row + 0.85,
        ]
    });
    figure.upwards(names).series(Series::of("requests", boxes))
}
