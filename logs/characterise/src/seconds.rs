//! Sessions by their own seconds: thesis Figures 5.14, 5.15, 5.19 and 5.21.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use headlong_chains::{ContentKind, Request};

use crate::histograms::{ActiveSessions, SECONDS_MAX, SecondSums, smooth_bins, spread};
use crate::merge::sums;
use crate::tables::{Captions, ReportItems, Series, mean};
use crate::view::{LogContext, READINGS, SessionView, is_long};

/// Classes of requests in Figure 5.19.
const CLASSES: [&str; 3] = [
    "chunks of long chains",
    "chunks of short chains",
    "open-ended",
];

sums! {
    /// Sums over sessions for each second since the start of the session.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub(crate) struct SecondHistogram {
        alive: ActiveSessions,
        /// Chunk requests that are not for audio: most at once, and files requested.
        connections: SecondSums,
        files: SecondSums,
        /// The same requests: intervals to the next arrival, and durations; by second of arrival.
        gaps_ms: SecondSums,
        gaps: SecondSums,
        took_ms: SecondSums,
        arrivals: SecondSums,
        /// Clusters and long chains that start, for both readings of A12.
        clusters: [SecondSums; 2],
        stable: [SecondSums; 2],
        /// Bytes by [`CLASSES`].
        bytes: [SecondSums; 3],
        /// Sessions that are inactive.
        inactive: SecondSums,
    }
}

impl SecondHistogram {
    /// Adds a session.
    pub(crate) fn add(&mut self, log: &LogContext, view: &SessionView<'_>) {
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

    fn add_activity(&mut self, log: &LogContext, view: &SessionView<'_>) {
        let counts = |request: &&Request| {
            request.asked_bytes.is_some() && log.file(request.file).kind != ContentKind::Audio
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
            // A request of zero duration still occupies a connection.
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
                _ if !request.is_placed() => continue,
                (None, _) => 2,
                (Some(_), Some(chain)) if is_long(chain) => 0,
                (Some(_), Some(_)) => 1,
                // Nothing was sent.
                (Some(_), None) => continue,
            };
            let bytes = &mut self.bytes[class];
            let when = (request.received_ms, request.completed_ms);
            spread(
                request.sent_bytes,
                when,
                (view.span.start_ms, 1000, SECONDS_MAX),
                |second, part| {
                    bytes.add(second, part);
                },
            );
        }
    }

    /// Figures 5.14, 5.15, 5.19 and 5.21.
    pub(crate) fn finish(&self, captions: &Captions) -> ReportItems {
        let alive = &self.alive.by_second();
        let curve =
            |name: &str, sums, counts, scale| Series::new(name, per_session(sums, counts, scale));
        let connections = captions
            .figure("figure-5.14")
            .series(curve("connections", &self.connections, alive, 1.0))
            .series(curve("files", &self.files, alive, 1.0));
        let waiting = captions
            .figure("figure-5.14-times")
            .series(curve("arrival interval", &self.gaps_ms, &self.gaps, 1e-3))
            .series(curve(
                "request duration",
                &self.took_ms,
                &self.arrivals,
                1e-3,
            ));
        let mut starts = captions.figure("figure-5.15");
        for (reading, name) in READINGS.into_iter().enumerate() {
            let (transient, stable) = (&self.clusters[reading], &self.stable[reading]);
            starts = starts
                .series(curve(
                    &format!("transient, {name}"),
                    transient,
                    alive,
                    100.0,
                ))
                .series(curve(&format!("stable, {name}"), stable, alive, 100.0));
        }
        let mut rates = captions.figure("figure-5.19");
        for (name, bytes) in CLASSES.into_iter().zip(&self.bytes) {
            if !bytes.is_empty() {
                rates = rates.series(curve(name, bytes, alive, 8.0 / 1e6));
            }
        }
        let inactive =
            captions
                .figure("figure-5.21")
                .series(curve("inactive", &self.inactive, alive, 100.0));
        ReportItems {
            tables: Vec::new(),
            figures: vec![connections, waiting, starts, rates, inactive],
        }
    }
}

/// Adds to each second the most concurrent requests in it; `edges` are sorted.
fn most_by_second(view: &SessionView<'_>, edges: &[(i64, i64)], sums: &mut SecondSums) {
    let (mut now, mut most) = (0i64, 0i64);
    let mut second = 0;
    for (moment, change) in edges {
        // A request that ends with a second is not active in the next one.
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

/// In a log of at least [`MANY`] sessions, bins reached by fewer than [`FEW`] are left out: the
/// curve would show single viewers.
const MANY: u64 = 100;
/// See [`MANY`].
const FEW: u64 = 5;

/// `sums` divided by `counts` in bins of 1 % of the time, times `scale`; x is the second plus one,
/// so that the first second fits on a logarithmic axis.
fn per_session(sums: &SecondSums, counts: &SecondSums, scale: f64) -> Vec<(f64, f64)> {
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
