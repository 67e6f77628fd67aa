//! What an operator asks first: viewers at once over the time of the log, titles by bytes, replies
//! that failed, and the share of the bytes that a store of a size would have sent. Includes sessions
//! that start near the end of the log.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;

use crate::histograms::spread;
use crate::merge::sums;
use crate::report::DroppedLines;
use crate::tables::{Captions, CellValue, ReportItems, Series, Table, per_cent};
use crate::view::{LogContext, SessionView};
use crate::volume::bins;

/// Titles in the table.
const TITLES_SHOWN: usize = 20;
/// The smallest store of the curve, bytes; each further one is twice as large.
const STORE_MIN: u64 = 1_000_000_000;

sums! {
    /// Viewers by time, and bytes and sessions by title and file.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub(crate) struct Audience {
        /// Time that viewers are present, by time of the log, ms.
        present_ms: Vec<u64>,
        title_sessions: Vec<u32>,
        title_bytes: Vec<u64>,
        file_bytes: Vec<u64>,
        /// Requests with both ends.
        bounded: u64,
        /// Those whose reply ended before the requested end and before that of the file.
        short: u64,
        ; same
        width_ms: i64,
        origin_ms: i64,
    }
}

/// The share of bytes that a store of a size would have sent.
#[derive(Debug, Clone, Copy, PartialEq)]
struct StoreShare {
    store_bytes: u64,
    percent: f64,
}

impl Audience {
    /// An empty accumulator.
    pub(crate) fn new(log: &LogContext) -> Self {
        let (width_ms, origin_ms, count) = bins(log);
        Self {
            width_ms,
            origin_ms,
            present_ms: vec![0; count],
            title_sessions: vec![0; log.titles],
            title_bytes: vec![0; log.titles],
            file_bytes: vec![0; log.files.len()],
            ..Self::default()
        }
    }

    /// Adds a session.
    pub(crate) fn add(&mut self, log: &LogContext, view: &SessionView<'_>) {
        let present_ms = &mut self.present_ms;
        spread(
            view.span.ms(),
            (view.span.start_ms, view.span.end_ms),
            (self.origin_ms, self.width_ms, present_ms.len()),
            |bin, part| {
                if let Some(present_ms) = present_ms.get_mut(bin) {
                    *present_ms += part;
                }
            },
        );
        let mut titles: Vec<u32> = Vec::new();
        for (file, requests) in view.files() {
            let info = log.file(file);
            let mut bytes = 0;
            for request in requests {
                bytes += request.sent_bytes;
                let Some(asked) = request.asked_bytes.filter(|_| request.is_placed()) else {
                    continue;
                };
                let end = request.offset.saturating_add(asked).min(info.size_bytes);
                self.bounded += 1;
                self.short += u64::from(request.offset.saturating_add(request.sent_bytes) < end);
            }
            if let Some(sum) = self.file_bytes.get_mut(file as usize) {
                *sum += bytes;
                self.title_bytes[info.title as usize] += bytes;
                titles.push(info.title);
            }
        }
        titles.sort_unstable();
        titles.dedup();
        for title in titles {
            self.title_sessions[title as usize] += 1;
        }
    }

    /// The titles with the most bytes, most first.
    pub(crate) fn top_titles(&self) -> Vec<u32> {
        let mut all: Vec<u32> = (0..self.title_bytes.len() as u32).collect();
        all.retain(|title| self.title_sessions[*title as usize] > 0);
        let bytes = |title: u32| self.title_bytes[title as usize];
        all.sort_unstable_by(|one, other| (bytes(*other), one).cmp(&(bytes(*one), other)));
        all.truncate(TITLES_SHOWN);
        all
    }

    /// Stores of growing size, up to the first that holds all files that are worth it. A store
    /// holds the files from which it sends the most bytes for each of its own, and a disk reads
    /// each of them once.
    fn stores(&self, log: &LogContext) -> Vec<StoreShare> {
        let gain = |place: usize| {
            let size = log.files[place].size_bytes;
            self.file_bytes[place].saturating_sub(size)
        };
        let density = |place: &usize| gain(*place) as f64 / log.files[*place].size_bytes as f64;
        let mut files: Vec<usize> = (0..self.file_bytes.len()).collect();
        files.retain(|place| log.files[*place].size_bytes > 0 && gain(*place) > 0);
        files.sort_by(|one, other| density(other).total_cmp(&density(one)).then(one.cmp(other)));
        let all: u64 = self.file_bytes.iter().sum();
        let (mut shares, mut store_bytes) = (Vec::new(), STORE_MIN);
        let (mut held, mut sent) = (0_u64, 0_u64);
        let share = |store_bytes, sent: u64| StoreShare {
            store_bytes,
            percent: per_cent(sent as f64, all as f64),
        };
        for place in files {
            let size = log.files[place].size_bytes;
            while held.saturating_add(size) > store_bytes {
                // A part of the next file is worth as much for each byte as all of it.
                let part = (store_bytes - held) as f64 * density(&place);
                shares.push(share(store_bytes, sent + part as u64));
                let Some(next) = store_bytes.checked_mul(2) else {
                    return shares;
                };
                store_bytes = next;
            }
            held += size;
            sent += gain(place);
        }
        shares.push(share(store_bytes, sent));
        shares
    }

    /// The tables and figures.
    pub(crate) fn finish(
        &self,
        log: &LogContext,
        failures: &[DroppedLines],
        captions: &Captions,
    ) -> ReportItems {
        let clock = log.clock();
        let width = self.width_ms as f64;
        let at_once: Vec<f64> = self
            .present_ms
            .iter()
            .map(|ms| *ms as f64 / width)
            .collect();
        let used = self.present_ms.iter().rposition(|ms| *ms > 0);
        let used = used.map_or(0, |last| last + 1);
        let peak = (0..used).max_by(|one, other| {
            let earlier = other.cmp(one);
            at_once[*one].total_cmp(&at_once[*other]).then(earlier)
        });
        let start_ms = |bin: usize| self.origin_ms + bin as i64 * self.width_ms;
        let when = peak.map(|bin| clock.told(start_ms(bin).max(log.span_ms.0)));
        let span_ms = (log.span_ms.1 - log.span_ms.0).max(1) as f64;
        let present: u64 = self.present_ms.iter().sum();
        let viewers = captions.table("table-viewers").filled([
            [peak.map(|bin| at_once[bin]).into()],
            [when.map_or(CellValue::None, CellValue::Text)],
            [(present as f64 / span_ms).into()],
        ]);
        let points = (0..used).map(|bin| (clock.hours(start_ms(bin)), at_once[bin]));
        let mut over_time = captions
            .figure("figure-viewers")
            .telling(&format!("{}", width / 1000.0))
            .series(Series::new("viewers", points));
        clock.name(&mut over_time.x);
        let stores = self.stores(log);
        let curve = stores
            .iter()
            .map(|share| (share.store_bytes as f64 / 1e9, share.percent));
        let curve = captions
            .figure("figure-stores")
            .series(Series::new("sent from it", curve));
        ReportItems {
            tables: vec![
                viewers,
                self.titles_table(log, captions),
                self.failures_table(failures, captions),
                stores_table(&stores, captions),
            ],
            figures: vec![over_time, curve],
        }
    }

    fn titles_table(&self, log: &LogContext, captions: &Captions) -> Table {
        let mut table = captions.table("table-titles");
        let all: u64 = self.title_bytes.iter().sum();
        for title in self.top_titles() {
            let bytes = self.title_bytes[title as usize];
            let name = log.title_names.get(&title);
            table.push(
                &title.to_string(),
                &name.map_or_else(|| format!("title {title}"), String::clone),
                [
                    (bytes as f64 / 1e9).into(),
                    per_cent(bytes as f64, all as f64).into(),
                    u64::from(self.title_sessions[title as usize]).into(),
                ],
            );
        }
        table
    }

    fn failures_table(&self, failures: &[DroppedLines], captions: &Captions) -> Table {
        let mut table = captions.table("table-failures");
        for lines in failures {
            table.push(
                &lines.reason,
                &lines.reason,
                [lines.count.into(), lines.sample.as_str().into()],
            );
        }
        let share = per_cent(self.short as f64, self.bounded as f64);
        let told = format!("{share:.2} % of the requests with both ends");
        table.push(
            "short",
            "Replies that end before the requested end",
            [self.short.into(), told.into()],
        );
        table
    }
}

/// Every second store of the curve.
fn stores_table(stores: &[StoreShare], captions: &Captions) -> Table {
    let mut table = captions.table("table-stores");
    let last = stores.len().saturating_sub(1);
    for (place, share) in stores.iter().enumerate() {
        if place % 2 == 0 || place == last {
            let gigabytes = share.store_bytes / 1_000_000_000;
            table.push(
                &format!("{gigabytes}-gb"),
                &format!("{gigabytes} GB"),
                [share.percent.into()],
            );
        }
    }
    table
}
