//! Portions of titles that are fetched, and where viewers start, stop and pause: thesis Figures 5.5
//! to 5.7.

use alloc::vec;
use alloc::vec::Vec;

use headlong_chains::{Chain, ContentKind, Request};

use crate::merge::sums;
use crate::tables::{Captions, Figure, ReportItems, Series, per_cent};
use crate::view::{LogContext, SessionView};

/// Number of parts of a title.
const PARTS: usize = 100;
/// Bins of fractions fetched: half a per cent each, upper end included, up to 300 %; the last holds
/// all above. Thesis 5.2.2 counts everything above 100 % as repeated.
const FRACTION_BINS: usize = 601;
/// Thousandths of a bin of fractions.
const FRACTION_BIN_PER_MILLE: u64 = 5;
const TRILLION: u128 = 1_000_000_000_000;
const FRACTION_BIN_TRILLIONTHS: u128 = TRILLION / 1000 * FRACTION_BIN_PER_MILLE as u128;
/// A gap longer than this between adjacent bytes is a pause (thesis 5.2.2).
const PAUSE_MS: i64 = 40_000;

sums! {
    /// Portions of titles fetched by sessions.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct ViewingPortions {
        sessions: u64,
        /// For each kind: sessions (per title) by the fraction fetched.
        fractions: [Vec<u64>; 3],
        /// For each kind, and for any: sessions that fetched each part.
        parts: [Vec<u64>; 4],
        /// Sessions that fetched any bytes of each kind.
        with_kind: [u64; 3],
        starts: Vec<u64>,
        ends: Vec<u64>,
        pauses: Vec<u64>,
    }
}

impl Default for ViewingPortions {
    fn default() -> Self {
        Self {
            sessions: 0,
            fractions: core::array::from_fn(|_| vec![0; FRACTION_BINS]),
            parts: core::array::from_fn(|_| vec![0; PARTS]),
            with_kind: [0; 3],
            starts: vec![0; PARTS],
            ends: vec![0; PARTS],
            pauses: vec![0; PARTS],
        }
    }
}

impl ViewingPortions {
    /// Adds a session.
    pub(crate) fn add(&mut self, log: &LogContext, view: &SessionView<'_>) {
        self.sessions += 1;
        self.add_fractions_and_parts(log, view);
        if let Some(first) = start_of(log, view) {
            self.starts[part_of(log, first.file, first.start)] += 1;
        }
        let has_place = |request: &&Request| request.is_placed() && log.has_places(request.file);
        if let Some(last) = view.requests.iter().rfind(has_place) {
            self.ends[part_of(log, last.file, last.end().saturating_sub(1))] += 1;
        }
        for chain in pauses(view.chains) {
            self.pauses[part_of(log, chain.file, chain.start + chain.length)] += 1;
        }
    }

    fn add_fractions_and_parts(&mut self, log: &LogContext, view: &SessionView<'_>) {
        // By title and kind: trillionths fetched, to limit rounding errors with many small files.
        let mut fetched: Vec<(u32, ContentKind, u128)> = Vec::new();
        let mut touched = [0u128; 3];
        for (file, requests) in view.files() {
            let info = log.file(file);
            if !log.has_places(file) {
                continue;
            }
            let mut bytes = 0;
            let parts = &mut touched[info.kind as usize];
            for request in requests.filter(|request| request.takes_part()) {
                bytes += request.sent_bytes;
                let first = part_of(log, file, request.offset);
                *parts |= mask(first, part_of(log, file, request.end() - 1).max(first));
            }
            if bytes > 0 && info.size_bytes > 0 {
                let trillionths = u128::from(bytes) * TRILLION / u128::from(info.size_bytes);
                fetched.push((info.title, info.kind, trillionths));
            }
        }
        fetched.sort_unstable();
        for same in fetched.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let sum: u128 = same.iter().map(|(_, _, trillionths)| trillionths).sum();
            // A bin includes its upper end: fetching exactly 100 % is not more than 100 %.
            let bin = sum.saturating_sub(1) / FRACTION_BIN_TRILLIONTHS;
            let bin = bin.min(FRACTION_BINS as u128 - 1) as usize;
            self.fractions[same[0].1 as usize][bin] += 1;
        }
        let any = touched.iter().fold(0, |all, parts| all | parts);
        for (kind, parts) in touched.iter().enumerate() {
            self.with_kind[kind] += u64::from(*parts != 0);
        }
        for (counts, parts) in self.parts.iter_mut().zip(touched.into_iter().chain([any])) {
            let mut left = parts;
            while left != 0 {
                counts[left.trailing_zeros() as usize] += 1;
                left &= left - 1;
            }
        }
    }

    /// Share of sessions, in per cent, that fetched more than this fraction of a title in a kind.
    pub(crate) fn fetched_more_than(&self, kind: ContentKind, fraction: f64) -> Option<f64> {
        let counts = &self.fractions[kind as usize];
        let total: u64 = counts.iter().sum();
        let from = (fraction * 1000.0 / FRACTION_BIN_PER_MILLE as f64) as usize;
        let above: u64 = counts.get(from..).map_or(0, |rest| rest.iter().sum());
        (total > 0).then(|| per_cent(above as f64, total as f64))
    }

    /// Figures 5.5 to 5.7, with the numbers given in the text of the thesis.
    pub(crate) fn finish(&self, captions: &Captions) -> ReportItems {
        let share =
            |counts: &[u64]| per_cent(counts.iter().sum::<u64>() as f64, self.sessions as f64);
        let over = |kind| self.fetched_more_than(kind, 1.0).into();
        let little = self.fetched_more_than(ContentKind::Video, 0.2);
        let table = captions.table("table-viewing").filled([
            [share(&self.parts[3][..1]).into()],
            [share(&self.starts[..1]).into()],
            [share(&self.starts[..5]).into()],
            [share(&self.ends[95..]).into()],
            [over(ContentKind::Audio)],
            [over(ContentKind::Video)],
            [little.map(|share| 100.0 - share).into()],
            [share(&self.pauses).into()],
        ]);
        ReportItems {
            tables: vec![table],
            figures: vec![
                self.fractions_of(captions.figure("figure-5.5")),
                self.parts_of(captions.figure("figure-5.6")),
                self.places_of(captions.figure("figure-5.7")),
            ],
        }
    }

    fn fractions_of(&self, figure: Figure) -> Figure {
        ContentKind::ALL.into_iter().fold(figure, |figure, kind| {
            let counts = &self.fractions[kind as usize];
            let total: u64 = counts.iter().sum();
            if total == 0 {
                return figure;
            }
            let mut left = total;
            let shares = counts.iter().enumerate().map(|(bin, count)| {
                let share = per_cent(left as f64, total as f64);
                left -= count;
                (bin as f64 * FRACTION_BIN_PER_MILLE as f64 / 10.0, share)
            });
            let shown: Vec<_> = shares.take_while(|(_, share)| *share > 0.0).collect();
            figure.series(Series::new(kind.name(), shown))
        })
    }

    fn parts_of(&self, mut figure: Figure) -> Figure {
        let names = ContentKind::ALL
            .into_iter()
            .map(ContentKind::name)
            .chain(["any"]);
        let totals = self.with_kind.into_iter().chain([self.sessions]);
        for ((name, counts), total) in names.zip(&self.parts).zip(totals) {
            if total > 0 {
                figure = figure.series(Series::new(name, by_part(counts, total)));
            }
        }
        figure
    }

    fn places_of(&self, figure: Figure) -> Figure {
        figure
            .series(Series::new("start", by_part(&self.starts, self.sessions)))
            .series(Series::new("end", by_part(&self.ends, self.sessions)))
            .series(Series::new("pause", by_part(&self.pauses, self.sessions)))
    }
}

fn by_part(counts: &[u64], total: u64) -> impl Iterator<Item = (f64, f64)> {
    let share = move |count: &u64| per_cent(*count as f64, total as f64);
    counts
        .iter()
        .enumerate()
        .map(move |(part, count)| (part as f64 + 0.5, share(count)))
}

/// The hundredth that contains a byte; positions beyond the end belong to the last.
fn part(at: u64, size: u64) -> usize {
    let part = u128::from(at) * PARTS as u128 / u128::from(size.max(1));
    part.min(PARTS as u128 - 1) as usize
}

fn part_of(log: &LogContext, file: u32, at: u64) -> usize {
    part(at, log.file(file).size_bytes)
}

fn mask(first: usize, last: usize) -> u128 {
    (u128::MAX >> (127 - (last - first))) << first
}

/// The first chain that reads content; the first chain if there is none. A segment table is read
/// separately: a short read at offset zero that continues is content (A18).
fn start_of<'a>(log: &LogContext, view: &SessionView<'a>) -> Option<&'a Chain> {
    let first = view.chains.iter().find(|chain| !log.is_header(chain));
    first.or(view.chains.first())
}

/// Chains that were continued at their end more than 40 s later.
fn pauses(chains: &[Chain]) -> Vec<&Chain> {
    let mut starts: Vec<((u32, u64), i64)> = chains
        .iter()
        .map(|chain| ((chain.file, chain.start), chain.start_ms))
        .collect();
    starts.sort_unstable();
    let is_taken_up = |chain: &&Chain| {
        let after = chain.end_ms.saturating_add(PAUSE_MS);
        let key = (chain.file, chain.start.saturating_add(chain.length));
        let next = starts.partition_point(|start| *start <= (key, after));
        starts.get(next).is_some_and(|start| start.0 == key)
    };
    chains.iter().filter(is_taken_up).collect()
}
