//! Two sessions drawn request by request: thesis Figures 5.8, 5.9 and 5.16.

use headlong_chains::Request;

use super::outcome::{Axis, Figure, Form, Outcome, Series};
use super::view::{Log, SessionView};

/// Most requests of an example: what can be seen in one drawing.
const REQUESTS_MAX: usize = 2000;
/// What is shown of the start of the second example (thesis Figure 5.9).
const START_MS: i64 = 90_000;
/// What is shown of the bit rates of the first (Figure 5.16).
const DETAIL_MS: i64 = 720_000;

/// A session that was kept to be drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Example {
    score: u64,
    session: u32,
    requests: Vec<Request>,
}

/// The sessions that show most: one mostly of open-ended requests, one of chunks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Examples {
    whole: Option<Example>,
    start: Option<Example>,
}

impl Examples {
    /// One session more.
    pub fn add(&mut self, log: &Log, view: &SessionView<'_>) {
        if view.requests.len() < 3 {
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

    /// Those of another part too. Equal scores: the lower number of session.
    pub fn merge(&mut self, other: Self) {
        let pairs = [
            (&mut self.whole, other.whole),
            (&mut self.start, other.start),
        ];
        for (mine, other) in pairs {
            let rank = |example: &Example| (example.score, u32::MAX - example.session);
            if other.as_ref().map(rank) > mine.as_ref().map(rank) {
                *mine = other;
            }
        }
    }

    /// Figures 5.8, 5.9 and 5.16, as far as there are such sessions.
    pub fn finish(&self, log: &Log) -> Outcome {
        let mut figures = Vec::new();
        if let Some(example) = &self.whole {
            figures.push(positions(
                log,
                example,
                "figure-5.8",
                "Requests of one session",
                "Each request is a rectangle: from arrival to completion across, the bytes it sent \
                 upwards, as minutes of the title. Tall and narrow is fast; a gap is a pause; a jump \
                 is a skip.",
            ));
            figures.push(rows(
                log,
                &example.requests,
                "figure-5.8-rates",
                "Bit rates that it asked for",
                "The same requests by bit rate. Many rows at once are a transient phase.",
            ));
            figures.push(rows(
                log,
                &first_of(&example.requests, DETAIL_MS),
                "figure-5.16",
                "The same, its first 12 minutes",
                "From lower bit rates to the one that lasts, and again whenever the network changes.",
            ));
        }
        if let Some(example) = &self.start {
            let requests = first_of(&example.requests, START_MS);
            let example = &Example {
                requests,
                ..example.clone()
            };
            figures.push(positions(
                log,
                example,
                "figure-5.9",
                "The first 90 seconds of another session",
                "Rectangles that climb steeply fill the buffer; steps with gaps are pacing; rectangles \
                 above each other are parallel connections.",
            ));
            figures.push(rows(
                log,
                &example.requests,
                "figure-5.9-rates",
                "Bit rates that it asked for",
                "The same requests by bit rate.",
            ));
        }
        Outcome {
            tables: Vec::new(),
            figures,
        }
    }
}

fn consider(best: &mut Option<Example>, view: &SessionView<'_>, score: u64, requests: usize) {
    let rank = (score, u32::MAX - view.session);
    let is_better = best
        .as_ref()
        .is_none_or(|best| rank > (best.score, u32::MAX - best.session));
    if is_better && requests > 0 {
        let shown = &view.requests[..requests.min(view.requests.len()).min(REQUESTS_MAX)];
        *best = Some(Example {
            score,
            session: view.session,
            requests: shown.to_vec(),
        });
    }
}

/// Requests cut off after so long: what was sent by then, if they were sent evenly.
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

fn rates_of(log: &Log, requests: &[Request]) -> usize {
    let mut rates: Vec<usize> = requests.iter().map(|r| log.rates.of_file(r.file)).collect();
    rates.sort_unstable();
    rates.dedup();
    rates.len()
}

/// How much a whole session shows: all phases, several bit rates, half an hour or so, and not so
/// many requests that they cannot be seen.
fn whole_score(log: &Log, view: &SessionView<'_>) -> u64 {
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

/// The same of a start: chunks, many of them, and more than one bit rate.
fn start_score(log: &Log, requests: &[Request]) -> u64 {
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

/// Rectangles over time and place in the title, one series for each bit rate.
fn positions(log: &Log, example: &Example, id: &str, title: &str, reading: &str) -> Figure {
    let figure = Figure::new(
        id,
        title,
        Form::Boxes,
        Axis::new("Time since the session began", "min"),
        Axis::new("Place in the title", "min"),
    )
    .reading(reading);
    let place = |request: &Request, at: u64| {
        let info = log.file(request.file);
        at as f64 / info.size_bytes.max(1) as f64 * info.duration_s / 60.0
    };
    let of_rate = |(class, rate): (usize, &super::view::RateClass)| {
        let requests = example.requests.iter();
        let mine = requests.filter(|request| log.rates.of_file(request.file) == class);
        let boxes = mine.map(|request| {
            vec![
                minutes(&example.requests, request.received_ms),
                minutes(&example.requests, request.completed_ms),
                place(request, request.offset),
                place(request, request.end()),
            ]
        });
        Series::of(&format!("{} kbps", rate.name()), boxes)
    };
    let all = log.rates.classes().iter().enumerate().map(of_rate);
    all.filter(|series| !series.points.is_empty())
        .fold(figure, Figure::series)
}

/// Rectangles over time in rows of bit rates.
fn rows(log: &Log, requests: &[Request], id: &str, title: &str, reading: &str) -> Figure {
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
    Figure::new(
        id,
        title,
        Form::Boxes,
        Axis::new("Time since the session began", "min"),
        Axis::new("Bit rate", "kbps").named(names),
    )
    .reading(reading)
    .series(Series::of("requests", boxes))
}
