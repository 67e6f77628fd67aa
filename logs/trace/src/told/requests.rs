//! What requests are like: thesis Tables 5.2 and 5.3 and Figure 5.10.

use headlong_chains::{Request, most_at_once};

use super::counting::LogHistogram;
use super::observing::{Rows, row_of};
use super::outcome::{Axis, Figure, Form, Outcome, Series, Table, per_cent};
use super::view::{KINDS, Log, SessionView, kind_index, kind_name, nominal_us};

/// Numbers of connections that Table 5.3 tells apart; the last is that many or more.
const CONNECTIONS: usize = 6;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sum {
    requests: u64,
    bytes: u64,
}

/// Kinds and sizes of requests, and how many run at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestKinds {
    /// Open-ended first, then chunks; by kind.
    by_kind: [[Sum; 3]; 2],
    /// Of chunk requests, by rate.
    by_rate: Vec<Sum>,
    rate_us: Vec<u64>,
    /// Files of sessions by most requests at once: overlapping, and in the same whole second.
    at_once: [[u64; CONNECTIONS]; 2],
    sessions: u64,
    /// Sessions with requests of both types.
    both_types: u64,
    sizes: LogHistogram,
}

impl RequestKinds {
    /// Nothing yet.
    pub fn new(log: &Log) -> Self {
        let rates = log.rates.classes().len();
        Self {
            by_kind: [[Sum::default(); 3]; 2],
            by_rate: vec![Sum::default(); rates],
            rate_us: vec![0; rates],
            at_once: [[0; CONNECTIONS]; 2],
            sessions: 0,
            both_types: 0,
            sizes: LogHistogram::default(),
        }
    }

    /// One session more.
    pub fn add(&mut self, log: &Log, view: &SessionView<'_>) {
        let mut types = [false; 2];
        let mut edges = Vec::new();
        for (file, requests) in view.files() {
            let info = log.file(file);
            let class = log.rates.of_file(file);
            for request in requests.clone() {
                let type_ = usize::from(request.asked_bytes.is_some());
                types[type_] = true;
                let sum = &mut self.by_kind[type_][kind_index(info.kind)];
                sum.requests += 1;
                sum.bytes += request.sent_bytes;
                if type_ == 0 {
                    continue;
                }
                self.sizes.add(request.sent_bytes);
                if let Some(sum) = self.by_rate.get_mut(class) {
                    sum.requests += 1;
                    sum.bytes += request.sent_bytes;
                    self.rate_us[class] += nominal_us(request.sent_bytes, info.kbps);
                }
            }
            let most = most_at_once(requests.clone().map(overlap), &mut edges);
            self.at_once[0][most.clamp(1, CONNECTIONS) - 1] += 1;
            let most = most_at_once(requests.map(same_second), &mut edges);
            self.at_once[1][most.clamp(1, CONNECTIONS) - 1] += 1;
        }
        self.sessions += 1;
        self.both_types += u64::from(types == [true; 2]);
    }

    /// Those of another part too.
    pub fn merge(&mut self, other: &Self) {
        let add = |mine: &mut [Sum], other: &[Sum]| {
            for (mine, other) in mine.iter_mut().zip(other) {
                mine.requests += other.requests;
                mine.bytes += other.bytes;
            }
        };
        for (mine, other) in self.by_kind.iter_mut().zip(&other.by_kind) {
            add(mine, other);
        }
        add(&mut self.by_rate, &other.by_rate);
        let add = |mine: &mut [u64], other: &[u64]| {
            mine.iter_mut().zip(other).for_each(|(a, b)| *a += b);
        };
        add(&mut self.rate_us, &other.rate_us);
        for (mine, other) in self.at_once.iter_mut().zip(&other.at_once) {
            add(mine, other);
        }
        self.sessions += other.sessions;
        self.both_types += other.both_types;
        self.sizes.merge(&other.sizes);
    }

    /// Shares, of 1, of files fetched over 1, 2, ... 6 or more connections at once.
    pub fn connection_shares(&self) -> Vec<f64> {
        let total: u64 = self.at_once[0].iter().sum();
        let share = |count: &u64| per_cent(*count as f64, total as f64) / 100.0;
        self.at_once[0].iter().map(share).collect()
    }

    /// The sums by type and kind.
    pub(super) fn rows(&self) -> Rows {
        self.by_kind
            .map(|kinds| kinds.map(|sum| row_of(0, sum.requests, sum.bytes, 0)))
    }

    /// Tables 5.2 and 5.3, and both halves of Figure 5.10.
    pub fn finish(&self, log: &Log) -> Outcome {
        Outcome {
            tables: vec![self.prevalence(), self.parallel(), self.sizes_table()],
            figures: self.sizes_figures(log),
        }
    }

    fn prevalence(&self) -> Table {
        let all = self.by_kind.iter().flatten();
        let requests: u64 = all.clone().map(|sum| sum.requests).sum();
        let bytes: u64 = all.map(|sum| sum.bytes).sum();
        let mut table = Table::new(
            "table-5.2",
            "Prevalence of request types",
            format!(
                "Open-ended requests name only their first byte. GB are 2^30 bytes. {:.1} % of sessions \
                 use both types.",
                per_cent(self.both_types as f64, self.sessions as f64)
            ),
            &[
                ("requests", "Requests"),
                ("requests-share", "%"),
                ("gb", "GB"),
                ("gb-share", "%"),
            ],
        );
        let mut push = |key: &str, name: &str, sum: Sum| {
            let values = [
                sum.requests.into(),
                per_cent(sum.requests as f64, requests as f64).into(),
                (sum.bytes as f64 / (1u64 << 30) as f64).into(),
                per_cent(sum.bytes as f64, bytes as f64).into(),
            ];
            table.push(key, name, values);
        };
        for (kinds, (key, name)) in self
            .by_kind
            .iter()
            .zip([("open", "Open"), ("chunk", "Chunk")])
        {
            let mut total = Sum::default();
            for (sum, kind) in kinds.iter().zip(KINDS.map(kind_name)) {
                push(&format!("{key}-{kind}"), &format!("{name} {kind}"), *sum);
                total.requests += sum.requests;
                total.bytes += sum.bytes;
            }
            push(&format!("{key}-total"), &format!("{name} total"), total);
        }
        push("total", "Total", Sum { requests, bytes });
        table
    }

    fn parallel(&self) -> Table {
        let names: [(&str, &str); CONNECTIONS] = [
            ("1", "1"),
            ("2", "2"),
            ("3", "3"),
            ("4", "4"),
            ("5", "5"),
            ("6", "6 or more"),
        ];
        let mut table = Table::new(
            "table-5.3",
            "Parallel downloads of a file",
            "Per cent of the files of sessions by the most requests for them at once. By overlap: from \
             arrival until before completion. By second: touching the same whole second, which is all \
             that a log with whole seconds tells.",
            &names,
        );
        let rows = [("overlap", "By overlap (%)"), ("second", "By second (%)")];
        for (counts, (key, name)) in self.at_once.iter().zip(rows) {
            let total: u64 = counts.iter().sum();
            table.push(
                key,
                name,
                counts
                    .iter()
                    .map(|n| per_cent(*n as f64, total as f64).into()),
            );
        }
        table
    }

    fn sizes_table(&self) -> Table {
        let mut table = Table::new(
            "table-chunk-sizes",
            "Sizes of chunk requests",
            "Bytes that were sent for a chunk request; bins are 2.2 % wide.",
            &[("bytes", "Bytes")],
        );
        let median = |share| self.sizes.quantile(share).into();
        table.push("mean", "Mean", [self.sizes.mean().into()]);
        for (key, name, share) in [
            ("p10", "10th percentile", 0.1),
            ("p50", "Median", 0.5),
            ("p90", "90th percentile", 0.9),
            ("p99", "99th percentile", 0.99),
        ] {
            table.push(key, name, [median(share)]);
        }
        table
    }

    fn sizes_figures(&self, log: &Log) -> Vec<Figure> {
        let classes = log.rates.classes().iter().enumerate();
        let used: Vec<_> = classes
            .filter(|(place, _)| self.by_rate[*place].requests > 0)
            .collect();
        let names: Vec<String> = used
            .iter()
            .map(|(_, class)| format!("{} kbps, {}", class.kbps, kind_name(class.kind)))
            .collect();
        let bars =
            |id: &str, title: &str, unit: &str, reading: &str, value: &dyn Fn(usize) -> f64| {
                let points = used.iter().enumerate();
                let points = points.map(|(bar, (place, _))| {
                    (
                        bar as f64,
                        value(*place) / self.by_rate[*place].requests as f64,
                    )
                });
                let x = Axis::new("Bit rate", "").named(names.clone());
                Figure::new(
                    id,
                    title,
                    Form::Bars,
                    x,
                    Axis::new("Mean of a request", unit),
                )
                .reading(reading)
                .series(Series::new("mean", points))
            };
        vec![
            bars(
                "figure-5.10-bytes",
                "Average sizes of chunk requests, in bytes",
                "MB",
                "Bytes sent for a request with both ends, on average (10^6 bytes).",
                &|place| self.by_rate[place].bytes as f64 / 1e6,
            ),
            bars(
                "figure-5.10-time",
                "Average sizes of chunk requests, in title time",
                "s",
                "The same by nominal bit rate. Below the length of a segment, clients fetch a segment \
                 in several parts.",
                &|place| self.rate_us[place] as f64 / 1e6,
            ),
        ]
    }
}

/// When a request is under way: half open (A15).
fn overlap(request: &Request) -> (i64, i64) {
    (request.received_ms, request.completed_ms)
}

/// The whole seconds that a request touches, half open.
fn same_second(request: &Request) -> (i64, i64) {
    let second = |ms: i64| ms.div_euclid(1000);
    (
        second(request.received_ms),
        second(request.completed_ms) + 1,
    )
}
