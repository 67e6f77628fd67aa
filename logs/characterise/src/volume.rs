//! Volume and arrivals: thesis Table 5.1 and Figure 5.1. Includes sessions that start in the last
//! hour.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use crate::histograms::spread;
use crate::merge::sums;
use crate::tables::{Captions, Figure, ReportItems, Series};
use crate::view::{LogContext, SessionView};

/// Widths of bins over the time of the log; the thesis uses 5 minutes.
const WIDTHS_MS: [i64; 7] = [1000, 5000, 10_000, 30_000, 60_000, 120_000, 300_000];
/// Number of bins needed to show a day.
const BINS_WANTED: i64 = 288;
/// Most bins: two months of five minutes. A longer log has wider bins, so that a line with a wrong
/// date, which turns a day into centuries, costs no memory.
pub(crate) const BINS_MAX: i64 = 20_000;

/// Bins over the time of a log: their width and the start of the first, ms, and their number.
pub(crate) fn bins(log: &LogContext) -> (i64, i64, usize) {
    let span = (log.span_ms.1 - log.span_ms.0).max(1);
    let fits = |width: &i64| span / width < BINS_WANTED;
    let width_ms = WIDTHS_MS.into_iter().find(fits);
    let width_ms = width_ms.unwrap_or_else(|| WIDTHS_MS[6].max(span / BINS_MAX + 1));
    let origin_ms = log.span_ms.0.div_euclid(width_ms) * width_ms;
    (width_ms, origin_ms, (span / width_ms + 2) as usize)
}

sums! {
    /// Requests, sessions and bytes over the time of the log.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub(crate) struct LogVolume {
        bytes: Vec<u64>,
        starts: Vec<u64>,
        requests: u64,
        sessions: u64,
        left_out: u64,
        titles: Vec<bool>,
        files: Vec<bool>,
        ; same
        width_ms: i64,
        origin_ms: i64,
    }
}

impl LogVolume {
    /// An empty accumulator.
    pub(crate) fn new(log: &LogContext) -> Self {
        let (width_ms, origin_ms, count) = bins(log);
        Self {
            width_ms,
            origin_ms,
            bytes: vec![0; count],
            starts: vec![0; count],
            titles: vec![false; log.titles],
            files: vec![false; log.files.len()],
            ..Self::default()
        }
    }

    /// Adds a session.
    pub(crate) fn add(&mut self, log: &LogContext, view: &SessionView<'_>) {
        self.sessions += 1;
        self.left_out += u64::from(log.is_left_out(view.span));
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
                (self.origin_ms, self.width_ms, bytes.len()),
                |bin, part| {
                    if let Some(bytes) = bytes.get_mut(bin) {
                        *bytes += part;
                    }
                },
            );
        }
    }

    /// The number of sessions, and of those that start too near the end.
    pub(crate) const fn sessions(&self) -> (u64, u64) {
        (self.sessions, self.left_out)
    }

    /// Sessions that started in each bin, and the width of bins, ms.
    pub(crate) fn arrivals(&self) -> (&[u64], i64) {
        (&self.starts, self.width_ms)
    }

    /// Table 5.1 and Figure 5.1.
    pub(crate) fn finish(&self, log: &LogContext, captions: &Captions) -> ReportItems {
        let span_ms = log.span_ms.1 - log.span_ms.0;
        let seconds = span_ms.max(1) as f64 / 1000.0;
        let bytes: u64 = self.bytes.iter().sum();
        let gbps = |bytes: u64, seconds: f64| bytes as f64 * 8.0 / seconds / 1e9;
        let bin_s = self.width_ms as f64 / 1000.0;
        let peak = self.bytes.iter().copied().max().unwrap_or(0);
        let seen = |all: &[bool]| all.iter().filter(|seen| **seen).count();
        let table = captions.table("table-5.1").filled([
            [(bytes as f64 / 1e12).into()],
            [gbps(bytes, seconds).into()],
            [gbps(peak, bin_s.min(seconds)).into()],
            [self.sessions.into()],
            [seen(&self.titles).into()],
            [seen(&self.files).into()],
            [self.requests.into()],
            [(span_ms as f64 / 3.6e6).into()],
        ]);
        let clock = log.clock();
        let over_time = |figure: Figure, name, counts: &[u64], rate: &dyn Fn(u64) -> f64| {
            let points = counts.iter().enumerate();
            let points = points.map(|(bin, n)| {
                let start_ms = self.origin_ms + bin as i64 * self.width_ms;
                (clock.hours(start_ms), rate(*n))
            });
            let mut figure = figure.series(Series::new(name, self.until_end(points)));
            clock.name(&mut figure.x);
            figure
        };
        let sent = captions.figure("figure-5.1").telling(&format!("{bin_s}"));
        let starts = captions.figure("figure-arrivals");
        ReportItems {
            tables: vec![table],
            figures: vec![
                over_time(sent, "sent", &self.bytes, &|bytes| gbps(bytes, bin_s)),
                over_time(starts, "starts", &self.starts, &|n| n as f64 * 60.0 / bin_s),
            ],
        }
    }

    /// Without the bins beyond the end of the log.
    fn until_end<T>(&self, points: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
        let used = self.bytes.iter().rposition(|bytes| *bytes > 0);
        let started = self.starts.iter().rposition(|starts| *starts > 0);
        points.take(used.max(started).map_or(0, |last| last + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: i64 = 86_400_000;

    #[test]
    fn bins_are_limited_for_wrong_dates() {
        let of = |days: i64| LogVolume::new(&LogContext::new(Vec::new(), (0, days * DAY_MS)));
        let (width_ms, bins) = (
            |of: &LogVolume| of.width_ms,
            |of: &LogVolume| of.starts.len(),
        );
        let (day, weeks, ages) = (of(1), of(60), of(8000 * 365));
        assert_eq!((width_ms(&day), width_ms(&weeks)), (300_000, 300_000));
        assert_eq!(bins(&weeks), 60 * 288 + 2);
        assert!(bins(&ages) as i64 <= BINS_MAX + 2, "{}", bins(&ages));
        assert!(width_ms(&ages) * bins(&ages) as i64 > 8000 * 365 * DAY_MS);
    }
}
