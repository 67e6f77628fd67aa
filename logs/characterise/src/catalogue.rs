//! Contents of the catalogue and their popularity: thesis Figures 5.2 to 5.4.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use crate::merge::sums;
use crate::observations::DURATION_PARTS;
use crate::tables::{Captions, Figure, ReportItems, Series, per_cent};
use crate::view::{LogContext, RateClass, SessionView, nominal_us};

/// Most points of a popularity curve, equally spaced on a logarithmic axis.
const RANKS_MAX: usize = 300;

sums! {
    /// Bytes and time by bit rate; sessions by title and file.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct CatalogueUse {
        rate_bytes: Vec<u64>,
        rate_us: Vec<u64>,
        title_sessions: Vec<u32>,
        file_sessions: Vec<u32>,
    }
}

impl CatalogueUse {
    /// An empty accumulator.
    pub(crate) fn new(log: &LogContext) -> Self {
        let rates = log.rates.classes().len();
        Self {
            rate_bytes: vec![0; rates],
            rate_us: vec![0; rates],
            title_sessions: vec![0; log.titles],
            file_sessions: vec![0; log.files.len()],
        }
    }

    /// Adds a session.
    pub(crate) fn add(&mut self, log: &LogContext, view: &SessionView<'_>) {
        let mut titles: Vec<u32> = Vec::new();
        for (file, requests) in view.files() {
            let info = log.file(file);
            let bytes: u64 = requests.map(|request| request.sent_bytes).sum();
            let class = log.rates.of_file(file);
            if let Some(sum) = self.rate_bytes.get_mut(class) {
                *sum += bytes;
                self.rate_us[class] += nominal_us(bytes, info.kbps);
            }
            if let Some(sessions) = self.file_sessions.get_mut(file as usize) {
                *sessions += 1;
                titles.push(info.title);
            }
        }
        titles.sort_unstable();
        titles.dedup();
        for title in titles {
            self.title_sessions[title as usize] += 1;
        }
    }

    /// Bit rates with their shares (of 1) of bytes and of nominal time.
    pub(crate) fn rate_shares(&self, log: &LogContext) -> Vec<(RateClass, f64, f64)> {
        let share = |all: &[u64], place: usize| {
            per_cent(all[place] as f64, all.iter().sum::<u64>() as f64) / 100.0
        };
        let classes = log.rates.classes().iter().enumerate();
        let shares = classes.map(|(place, class)| {
            (
                *class,
                share(&self.rate_bytes, place),
                share(&self.rate_us, place),
            )
        });
        shares.collect()
    }

    /// Sessions of each title with at least one, in descending order.
    pub(crate) fn title_counts(&self) -> Vec<u32> {
        falling(&self.title_sessions)
    }

    /// Number of files requested at least once.
    pub(crate) fn files_requested(&self) -> usize {
        self.file_sessions
            .iter()
            .filter(|sessions| **sessions > 0)
            .count()
    }

    /// Durations of the requested titles, s.
    pub(crate) fn durations(&self, log: &LogContext) -> Vec<f64> {
        let all = self.durations_with_sessions(log).into_iter();
        all.map(|(duration, _)| duration).collect()
    }

    /// Shares of sessions by equal groups of those titles, shortest first.
    pub(crate) fn duration_shares(&self, log: &LogContext) -> Vec<f64> {
        let all = self.durations_with_sessions(log);
        if all.len() < DURATION_PARTS {
            return Vec::new();
        }
        let mut shares = vec![0.0; DURATION_PARTS];
        let sum: f64 = all.iter().map(|(_, sessions)| f64::from(*sessions)).sum();
        for (place, (_, sessions)) in all.iter().enumerate() {
            shares[place * DURATION_PARTS / all.len()] += f64::from(*sessions) / sum;
        }
        shares
    }

    /// Durations of the requested titles, s, shortest first, with their sessions.
    fn durations_with_sessions(&self, log: &LogContext) -> Vec<(f64, u32)> {
        let mut of_title = vec![0f64; log.titles];
        for (number, file) in (0..).zip(&log.files) {
            let longest = &mut of_title[file.title as usize];
            *longest = longest.max(log.seconds(number));
        }
        let asked = of_title.into_iter().zip(&self.title_sessions);
        let mut all: Vec<(f64, u32)> = asked
            .map(|(duration, sessions)| (duration, *sessions))
            .filter(|(duration, sessions)| *sessions > 0 && *duration > 0.0)
            .collect();
        all.sort_by(|one, other| one.0.total_cmp(&other.0));
        all
    }

    /// Figures 5.2, 5.3 and 5.4 with their tables.
    pub(crate) fn finish(&self, log: &LogContext, captions: &Captions) -> ReportItems {
        let mut shares = self.rate_shares(log);
        // A bit rate that is unknown and could not be estimated is not shown.
        shares.retain(|(class, ..)| class.kbps > 0);
        let mut table = captions.table("table-bit-rates");
        for (class, bytes, time) in &shares {
            let key = format!("{}-{}", class.kind.name(), class.kbps);
            table.push(
                &key,
                &class.long_name(),
                [(bytes * 100.0).into(), (time * 100.0).into()],
            );
        }
        let popularity = captions.figure("figure-5.4");
        ReportItems {
            tables: vec![table],
            figures: vec![
                choices(log, &shares, captions.figure("figure-5.2")),
                durations_figure(&self.durations(log), captions.figure("figure-5.3")),
                popularity
                    .series(Series::new(
                        "titles",
                        ranked(&falling(&self.title_sessions)),
                    ))
                    .series(Series::new("files", ranked(&falling(&self.file_sessions)))),
            ],
        }
    }
}

fn falling(counts: &[u32]) -> Vec<u32> {
    let mut used: Vec<u32> = counts.iter().copied().filter(|count| *count > 0).collect();
    used.sort_unstable_by(|a, b| b.cmp(a));
    used
}

/// Rank and count, at ranks that are distinct on a logarithmic axis.
fn ranked(falling: &[u32]) -> Vec<(f64, f64)> {
    let mut points = Vec::new();
    let step = libm::pow(falling.len().max(2) as f64, 1.0 / RANKS_MAX as f64);
    let mut next = 1.0f64;
    for (place, count) in falling.iter().enumerate() {
        let rank = (place + 1) as f64;
        if rank >= next || place + 1 == falling.len() {
            points.push((rank, f64::from(*count)));
            next = (rank * step).max(rank + 1.0);
        }
    }
    points
}

fn choices(log: &LogContext, shares: &[(RateClass, f64, f64)], figure: Figure) -> Figure {
    let used = shares.iter().filter(|share| share.1 > 0.0).copied();
    let shares: Vec<_> = used.collect();
    let names = shares.iter().map(|(class, _, _)| class.long_name());
    let points = |pick: fn(&(RateClass, f64, f64)) -> f64| {
        let all = shares.iter().enumerate();
        all.map(move |(place, share)| (place as f64, pick(share) * 100.0))
    };
    let merged = match log.rates.is_merged {
        true => " The log has too many distinct rates, so rates within half an octave are merged.",
        false => "",
    };
    figure
        .across(names.collect())
        .telling(merged)
        .series(Series::new(
            "of nominal title time",
            points(|share| share.2),
        ))
        .series(Series::new("of bytes", points(|share| share.1)))
}

fn durations_figure(durations: &[f64], figure: Figure) -> Figure {
    let longest = durations.last().copied().unwrap_or(0.0);
    // One minute as in the thesis, or less for short titles.
    let width_s = if longest > 1200.0 { 60.0 } else { 10.0 };
    // A duration of more than a day is an error in the table, and counts in the last bin.
    let bins = ((longest / width_s) as usize).min(1440) + 1;
    let mut counts = vec![0u64; bins];
    for duration in durations {
        counts[((duration / width_s) as usize).min(bins - 1)] += 1;
    }
    let points = counts.iter().enumerate().map(|(bin, count)| {
        let minutes = (bin as f64 + 0.5) * width_s / 60.0;
        (minutes, per_cent(*count as f64, durations.len() as f64))
    });
    figure
        .telling(&format!("{width_s}"))
        .series(Series::new("titles", points))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_counted_by_title_duration() {
        let file = |title| headlong_chains::FileInfo {
            title,
            kind: headlong_chains::ContentKind::Combined,
            kbps: 1000,
            size_bytes: 1,
            disk: 0,
            duration_s: f64::from(100 - title),
            is_estimated: false,
        };
        let log = LogContext::new((0..21).map(file).collect(), (0, 1));
        let mut seen = CatalogueUse::new(&log);
        // A title without requests is not counted.
        seen.title_sessions = (0..21).map(|title| title % 21).collect();
        let shares = seen.duration_shares(&log);
        let parts = (1..=DURATION_PARTS as u32).map(|part| f64::from(43 - 4 * part) / 210.0);
        assert_eq!(shares.len(), DURATION_PARTS);
        for (share, part) in shares.iter().zip(parts) {
            assert!((share - part).abs() < 1e-9, "{shares:?}");
        }
        seen.title_sessions[9..].fill(0);
        assert!(seen.duration_shares(&log).is_empty());
    }

    #[test]
    fn few_ranks_are_kept_and_many_are_thinned() {
        assert_eq!(ranked(&[9, 3, 1]), [(1.0, 9.0), (2.0, 3.0), (3.0, 1.0)]);
        let many = ranked(&vec![1; 100_000]);
        assert!(many.len() <= RANKS_MAX + 2);
        assert_eq!(many.last(), Some(&(100_000.0, 1.0)));
    }
}
