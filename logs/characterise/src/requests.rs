//! Properties of requests: thesis Tables 5.2 and 5.3 and Figure 5.10.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use headlong_chains::{Request, most_at_once};

use crate::histograms::LogHistogram;
use crate::merge::{sums, with_totals};
use crate::observations::ChainRow;
use crate::tables::{Captions, Figure, ReportItems, Series, Table, per_cent};
use crate::view::{LogContext, SessionView, nominal_us};

/// Classes of Table 5.3; the last is that many connections or more.
const CONNECTIONS: usize = 6;

sums! {
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    struct RequestSum {
        requests: u64,
        bytes: u64,
    }
}

sums! {
    /// Kinds and sizes of requests, and their concurrency.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub(crate) struct RequestKinds {
        /// Open-ended first, then chunks; by kind.
        by_kind: [[RequestSum; 3]; 2],
        /// Chunk requests by rate.
        by_rate: Vec<RequestSum>,
        rate_us: Vec<u64>,
        /// Files of sessions by most concurrent requests: overlapping, and in the same whole second.
        at_once: [[u64; CONNECTIONS]; 2],
        sessions: u64,
        /// Sessions with requests of both types.
        both_types: u64,
        sizes: LogHistogram,
    }
}

impl RequestKinds {
    /// An empty accumulator.
    pub(crate) fn new(log: &LogContext) -> Self {
        let rates = log.rates.classes().len();
        Self {
            by_rate: vec![RequestSum::default(); rates],
            rate_us: vec![0; rates],
            ..Self::default()
        }
    }

    /// Adds a session.
    pub(crate) fn add(&mut self, log: &LogContext, view: &SessionView<'_>) {
        let mut types = [false; 2];
        let mut edges = Vec::new();
        for (file, requests) in view.files() {
            let info = log.file(file);
            let class = log.rates.of_file(file);
            for request in requests.clone().filter(|request| request.is_placed()) {
                let type_ = usize::from(request.asked_bytes.is_some());
                types[type_] = true;
                let sum = &mut self.by_kind[type_][info.kind as usize];
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

    /// Shares (of 1) of files fetched over 1, 2, ... 6 or more concurrent connections.
    pub(crate) fn connection_shares(&self) -> [f64; CONNECTIONS] {
        let total: u64 = self.at_once[0].iter().sum();
        self.at_once[0].map(|count| per_cent(count as f64, total as f64) / 100.0)
    }

    /// The sums by type and kind.
    pub(crate) fn rows(&self) -> [[ChainRow; 3]; 2] {
        self.by_kind.map(|kinds| {
            kinds.map(|RequestSum { requests, bytes }| ChainRow {
                requests,
                bytes,
                ..ChainRow::default()
            })
        })
    }

    /// Tables 5.2 and 5.3, and both halves of Figure 5.10.
    pub(crate) fn finish(&self, log: &LogContext, captions: &Captions) -> ReportItems {
        let connections = self.at_once.map(|counts| {
            let total: u64 = counts.iter().sum();
            counts.map(|count| per_cent(count as f64, total as f64).into())
        });
        let percentile = |share| [self.sizes.quantile(share).into()];
        let sizes = [
            [self.sizes.mean().into()],
            percentile(0.1),
            percentile(0.5),
            percentile(0.9),
            percentile(0.99),
        ];
        let bytes = |place: usize| self.by_rate[place].bytes as f64 / 1e6;
        let seconds = |place: usize| self.rate_us[place] as f64 / 1e6;
        ReportItems {
            tables: vec![
                self.prevalence(captions.table("table-5.2")),
                captions.table("table-5.3").filled(connections),
                captions.table("table-chunk-sizes").filled(sizes),
            ],
            figures: vec![
                self.by_bit_rate(log, captions.figure("figure-5.10-bytes"), &bytes),
                self.by_bit_rate(log, captions.figure("figure-5.10-time"), &seconds),
            ],
        }
    }

    fn prevalence(&self, table: Table) -> Table {
        let rows = with_totals(&self.by_kind);
        let whole = rows[rows.len() - 1];
        let both = per_cent(self.both_types as f64, self.sessions as f64);
        table
            .telling(&format!("{both:.1}"))
            .filled(rows.iter().map(|sum| {
                [
                    sum.requests.into(),
                    per_cent(sum.requests as f64, whole.requests as f64).into(),
                    (sum.bytes as f64 / 1e9).into(),
                    per_cent(sum.bytes as f64, whole.bytes as f64).into(),
                ]
            }))
    }

    /// Mean per request, from sums by bit rate.
    fn by_bit_rate(&self, log: &LogContext, figure: Figure, sum: &dyn Fn(usize) -> f64) -> Figure {
        let classes = log.rates.classes().iter().enumerate();
        let used: Vec<_> = classes
            .filter(|(place, _)| self.by_rate[*place].requests > 0)
            .collect();
        let names = used.iter().map(|(_, class)| class.long_name());
        let mean = |place: usize| sum(place) / self.by_rate[place].requests as f64;
        let means = used
            .iter()
            .enumerate()
            .map(|(bar, (place, _))| (bar as f64, mean(*place)));
        figure
            .across(names.collect())
            .series(Series::new("mean", means))
    }
}

/// The half-open time span of a request (A15).
fn overlap(request: &Request) -> (i64, i64) {
    (request.received_ms, request.completed_ms)
}

/// The whole seconds touched by a request, half open.
fn same_second(request: &Request) -> (i64, i64) {
    let second = |ms: i64| ms.div_euclid(1000);
    (
        second(request.received_ms),
        second(request.completed_ms) + 1,
    )
}
