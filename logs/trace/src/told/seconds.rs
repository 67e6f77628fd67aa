//! Sessions by their own seconds: thesis Figures 5.14, 5.15, 5.19 and 5.21.

use headlong_chains::{Kind, Request};

use super::counting::{Alive, BySecond, SECONDS_MAX, smooth_bins, spread};
use super::outcome::{Axis, Figure, Form, Outcome, Series, mean};
use super::view::{Log, READINGS, SessionView};

/// A chain longer than this is long (A11).
pub(super) const LONG_MS: i64 = 40_000;
/// What the requests of Figure 5.19 are told apart by.
const CLASSES: [&str; 3] = [
    "chunks of long chains",
    "chunks of short chains",
    "open-ended",
];

/// Sums over sessions for each second since a session began.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seconds {
    alive: Alive,
    /// Of chunk requests that are not for audio: most at once, and files asked for.
    connections: BySecond,
    files: BySecond,
    /// Of the same: how long until the next arrives, and how long they take; by second of arrival.
    gaps_ms: BySecond,
    gaps: BySecond,
    took_ms: BySecond,
    arrivals: BySecond,
    /// For both readings of A12: clusters and long chains that start.
    clusters: [BySecond; 2],
    stable: [BySecond; 2],
    /// Bytes by [`CLASSES`].
    bytes: [BySecond; 3],
    /// Sessions that are inactive.
    inactive: BySecond,
}

impl Seconds {
    /// One session more.
    pub fn add(&mut self, log: &Log, view: &SessionView<'_>) {
        self.alive.add(view.last_second());
        self.add_activity(log, view);
        self.add_rates(view);
        for (reading, phases) in view.phases.iter().enumerate() {
            for cluster in &phases.transient {
                self.clusters[reading].add(view.second(cluster.span.start_ms), 1);
            }
            for place in &phases.stable {
                let chain = &view.chains[*place as usize];
                self.stable[reading].add(view.second(chain.start_ms), 1);
            }
        }
        for span in &view.phases[0].inactive {
            let last = view.second(span.end_ms - 1).min(SECONDS_MAX);
            for second in view.second(span.start_ms)..=last {
                self.inactive.add(second, 1);
            }
        }
    }

    fn add_activity(&mut self, log: &Log, view: &SessionView<'_>) {
        let counts = |request: &&Request| {
            request.asked_bytes.is_some() && log.file(request.file).kind != Kind::Audio
        };
        let mut before: Option<&Request> = None;
        let mut edges = Vec::new();
        for request in view.requests.iter().filter(counts) {
            if let Some(before) = before {
                let second = view.second(before.received_ms);
                let gap = request.received_ms - before.received_ms;
                self.gaps_ms.add(second, gap.max(0) as u64);
                self.gaps.add(second, 1);
            }
            before = Some(request);
            let second = view.second(request.received_ms);
            let took = request.completed_ms - request.received_ms;
            self.took_ms.add(second, took.max(0) as u64);
            self.arrivals.add(second, 1);
            // One of no length is still a connection.
            let end = request.completed_ms.max(request.received_ms + 1);
            edges.extend([(request.received_ms, 1), (end, -1)]);
        }
        edges.sort_unstable();
        most_by_second(view, &edges, &mut self.connections);
        for (_, requests) in view.files() {
            let mut next = 0;
            for request in requests.filter(counts) {
                let first = view.second(request.received_ms).max(next);
                let last = view.second(request.completed_ms.max(request.received_ms + 1) - 1);
                for second in first..=last.min(SECONDS_MAX) {
                    self.files.add(second, 1);
                }
                next = next.max(last + 1);
            }
        }
    }

    fn add_rates(&mut self, view: &SessionView<'_>) {
        for (place, request) in view.requests.iter().enumerate() {
            let class = match (request.asked_bytes, view.chain(place)) {
                (None, _) => 2,
                (Some(_), Some(chain)) if chain.end_ms - chain.start_ms > LONG_MS => 0,
                (Some(_), Some(_)) => 1,
                // Nothing was sent.
                (Some(_), None) => continue,
            };
            let bytes = &mut self.bytes[class];
            let when = (request.received_ms, request.completed_ms);
            spread(
                request.sent_bytes,
                when,
                view.span.start_ms,
                1000,
                |second, part| {
                    bytes.add(second, part);
                },
            );
        }
    }

    /// Those of another part too.
    pub fn merge(&mut self, other: &Self) {
        self.alive.merge(&other.alive);
        let mine = [
            &mut self.connections,
            &mut self.files,
            &mut self.gaps_ms,
            &mut self.gaps,
            &mut self.took_ms,
            &mut self.arrivals,
            &mut self.inactive,
        ];
        let others = [
            &other.connections,
            &other.files,
            &other.gaps_ms,
            &other.gaps,
            &other.took_ms,
            &other.arrivals,
            &other.inactive,
        ];
        mine.into_iter()
            .zip(others)
            .for_each(|(mine, other)| mine.merge(other));
        let mine = self
            .clusters
            .iter_mut()
            .chain(&mut self.stable)
            .chain(&mut self.bytes);
        let others = other
            .clusters
            .iter()
            .chain(&other.stable)
            .chain(&other.bytes);
        mine.zip(others).for_each(|(mine, other)| mine.merge(other));
    }

    /// Figures 5.14, 5.15, 5.19 and 5.21.
    pub fn finish(&self) -> Outcome {
        let alive = self.alive.by_second();
        Outcome {
            tables: Vec::new(),
            figures: vec![
                self.activity(&alive),
                self.waiting(),
                self.phase_starts(&alive),
                self.rates(&alive),
                self.inactive_figure(&alive),
            ],
        }
    }

    fn activity(&self, alive: &BySecond) -> Figure {
        elapsed(
            "figure-5.14",
            "Requests at once, by time since the session began",
            Axis::new("Per session that has not ended", ""),
        )
        .reading(
            "Chunk requests for anything but audio. Several files at once at the beginning are the \
             player trying bit rates; the further the connections are above the files, the more it \
             fetches in parallel.",
        )
        .series(Series::new(
            "connections",
            per_session(&self.connections, alive, 1.0),
        ))
        .series(Series::new("files", per_session(&self.files, alive, 1.0)))
    }

    fn waiting(&self) -> Figure {
        elapsed(
            "figure-5.14-times",
            "Arrival interval and duration of requests",
            Axis::new("Mean of a request", "s"),
        )
        .reading(
            "The same requests by the second in which they arrive: how long until the next, and how \
             long they take. Players that fill a buffer ask at once; those that pace wait.",
        )
        .series(Series::new("arrival interval", per_session(&self.gaps_ms, &self.gaps, 1e-3)))
        .series(Series::new("request duration", per_session(&self.took_ms, &self.arrivals, 1e-3)))
    }

    fn phase_starts(&self, alive: &BySecond) -> Figure {
        let mut figure = elapsed(
            "figure-5.15",
            "Starts of transient and stable phases",
            Axis::new("Sessions in which one starts, each second", "%").log(),
        )
        .reading(
            "Clusters of short chains, and chains of more than 40 s. Where both curves meet, a \
             transient phase is followed by a stable one.",
        );
        for (reading, name) in READINGS.into_iter().enumerate() {
            for (what, starts) in [
                ("transient", &self.clusters[reading]),
                ("stable", &self.stable[reading]),
            ] {
                let points = per_session(starts, alive, 100.0);
                figure = figure.series(Series::new(&format!("{what}, {name}"), points));
            }
        }
        figure
    }

    fn rates(&self, alive: &BySecond) -> Figure {
        let figure = elapsed(
            "figure-5.19",
            "Download rate by time since the session began",
            Axis::new("Per session that has not ended", "Mbit/s"),
        )
        .reading(
            "A peak and then a level: the buffer is filled, and from then on as much is fetched as is \
             played.",
        );
        let mbit = 8.0 / 1e6;
        CLASSES
            .into_iter()
            .zip(&self.bytes)
            .fold(figure, |figure, (name, bytes)| match bytes.is_empty() {
                true => figure,
                false => figure.series(Series::new(name, per_session(bytes, alive, mbit))),
            })
    }

    fn inactive_figure(&self, alive: &BySecond) -> Figure {
        elapsed(
            "figure-5.21",
            "Sessions that are inactive",
            Axis::new("Sessions that have not ended", "%"),
        )
        .reading(
            "No chain of any file for at least 40 s: the viewer has paused, or left. Curves over few \
             sessions are rough at their right end.",
        )
        .series(Series::new("inactive", per_session(&self.inactive, alive, 100.0)))
    }
}

/// Adds to each second the most that was under way in it; `edges` are sorted.
fn most_by_second(view: &SessionView<'_>, edges: &[(i64, i64)], sums: &mut BySecond) {
    let (mut now, mut most) = (0i64, 0i64);
    let mut second = 0;
    for (moment, change) in edges {
        // What ends with a second is not under way in the next one.
        let here = view.second(if *change < 0 { moment - 1 } else { *moment });
        while second < here.min(SECONDS_MAX) {
            sums.add(second, most as u64);
            most = now;
            second += 1;
            if now == 0 {
                second = here.min(SECONDS_MAX);
            }
        }
        now += change;
        most = most.max(now);
    }
    sums.add(second, most as u64);
}

fn elapsed(id: &str, title: &str, y: Axis) -> Figure {
    let x = Axis::new("Time since the session began", "s").log();
    Figure::new(id, title, Form::Lines, x, y)
}

/// Of a log of at least [`MANY`] sessions, bins that fewer than [`FEW`] reach are left out: a curve
/// over them would tell of single viewers.
const MANY: u64 = 100;
/// See [`MANY`].
const FEW: u64 = 5;

/// `sums` by `counts` in bins of 1 % of the time, times `scale`; x is one more than the second, so
/// that the first has a place on a logarithmic axis.
fn per_session(sums: &BySecond, counts: &BySecond, scale: f64) -> Vec<(f64, f64)> {
    let bins = smooth_bins(counts.len());
    let least = if counts.get(0) >= MANY { FEW } else { 1 };
    let points = bins.filter_map(|(from, until)| {
        if counts.sum(from, until) < least * (until - from) as u64 {
            return None;
        }
        let average = mean(
            sums.sum(from, until) as f64 * scale,
            counts.sum(from, until),
        )?;
        Some(((from + until + 1) as f64 / 2.0, average))
    });
    points.collect()
}
