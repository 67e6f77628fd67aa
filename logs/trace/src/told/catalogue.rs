//! What is in the catalogue and how popular it is: thesis Figures 5.2 to 5.4.

use super::outcome::{Axis, Figure, Form, Outcome, Series, Table, per_cent};
use super::view::{Log, RateClass, SessionView, kind_name, nominal_us};

/// Most points of a popularity curve: ranks equally far apart on a logarithmic axis.
const RANKS_MAX: usize = 300;

/// Bytes and time by bit rate; sessions by title and file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogueUse {
    rate_bytes: Vec<u64>,
    rate_us: Vec<u64>,
    title_sessions: Vec<u32>,
    file_sessions: Vec<u32>,
}

impl CatalogueUse {
    /// Nothing yet.
    pub fn new(log: &Log) -> Self {
        let rates = log.rates.classes().len();
        Self {
            rate_bytes: vec![0; rates],
            rate_us: vec![0; rates],
            title_sessions: vec![0; log.titles],
            file_sessions: vec![0; log.files.len()],
        }
    }

    /// One session more.
    pub fn add(&mut self, log: &Log, view: &SessionView<'_>) {
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

    /// Those of another part too.
    pub fn merge(&mut self, other: &Self) {
        let add = |mine: &mut [u64], other: &[u64]| {
            mine.iter_mut().zip(other).for_each(|(a, b)| *a += b);
        };
        add(&mut self.rate_bytes, &other.rate_bytes);
        add(&mut self.rate_us, &other.rate_us);
        let add = |mine: &mut [u32], other: &[u32]| {
            mine.iter_mut().zip(other).for_each(|(a, b)| *a += b);
        };
        add(&mut self.title_sessions, &other.title_sessions);
        add(&mut self.file_sessions, &other.file_sessions);
    }

    /// Bit rates with their shares of bytes and of nominal time, both of 1.
    pub fn rate_shares(&self, log: &Log) -> Vec<(RateClass, f64, f64)> {
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

    /// Sessions of each title that had any, most popular first.
    pub fn title_counts(&self) -> Vec<u32> {
        falling(&self.title_sessions)
    }

    /// Files that somebody asked for.
    pub fn files_requested(&self) -> usize {
        self.file_sessions
            .iter()
            .filter(|sessions| **sessions > 0)
            .count()
    }

    /// Lengths of the titles that were asked for, s.
    pub fn durations(&self, log: &Log) -> Vec<f64> {
        let mut of_title = vec![0f64; log.titles];
        for file in &log.files {
            let longest = &mut of_title[file.title as usize];
            *longest = longest.max(file.duration_s);
        }
        let asked = of_title.into_iter().zip(&self.title_sessions);
        let mut all: Vec<f64> = asked
            .filter(|(duration, sessions)| **sessions > 0 && *duration > 0.0)
            .map(|(duration, _)| duration)
            .collect();
        all.sort_by(f64::total_cmp);
        all
    }

    /// Figures 5.2, 5.3 and 5.4 with their tables.
    pub fn finish(&self, log: &Log) -> Outcome {
        let shares = self.rate_shares(log);
        let mut table = Table::new(
            "table-bit-rates",
            "Bit rates",
            "The numbers of Figure 5.2. Nominal title time is bytes by nominal bit rate.",
            &[("bytes", "Bytes (%)"), ("time", "Nominal title time (%)")],
        );
        for (class, bytes, time) in &shares {
            let key = format!("{}-{}", kind_name(class.kind), class.kbps);
            let name = format!("{} kbps, {}", class.kbps, kind_name(class.kind));
            table.push(&key, &name, [(bytes * 100.0).into(), (time * 100.0).into()]);
        }
        Outcome {
            tables: vec![table],
            figures: vec![
                choices(log, &shares),
                durations_figure(&self.durations(log)),
                self.popularity(),
            ],
        }
    }

    fn popularity(&self) -> Figure {
        Figure::new(
            "figure-5.4",
            "Popularity of titles and files",
            Form::Lines,
            Axis::new("Rank", "").log(),
            Axis::new("Sessions", "").log(),
        )
        .reading(
            "How many sessions asked for each title, and for each file, the most popular first. A \
             straight line is a Zipf law; a curve that bends down at the right has a cut-off tail.",
        )
        .series(Series::new(
            "titles",
            ranked(&falling(&self.title_sessions)),
        ))
        .series(Series::new("files", ranked(&falling(&self.file_sessions))))
    }
}

fn falling(counts: &[u32]) -> Vec<u32> {
    let mut used: Vec<u32> = counts.iter().copied().filter(|count| *count > 0).collect();
    used.sort_unstable_by(|a, b| b.cmp(a));
    used
}

/// Rank and count, at ranks that a logarithmic axis shows apart.
pub(super) fn ranked(falling: &[u32]) -> Vec<(f64, f64)> {
    let mut points = Vec::new();
    let step = (falling.len().max(2) as f64).powf(1.0 / RANKS_MAX as f64);
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

fn choices(log: &Log, shares: &[(RateClass, f64, f64)]) -> Figure {
    let used = shares.iter().filter(|share| share.1 > 0.0).copied();
    let shares: Vec<_> = used.collect();
    let names = shares
        .iter()
        .map(|(class, _, _)| format!("{} kbps, {}", class.kbps, kind_name(class.kind)));
    let points = |pick: fn(&(RateClass, f64, f64)) -> f64| {
        let all = shares.iter().enumerate();
        all.map(move |(place, share)| (place as f64, pick(share) * 100.0))
    };
    let merged = match log.rates.is_merged {
        true => " There are too many different rates, so neighbours within half an octave are one.",
        false => "",
    };
    Figure::new(
        "figure-5.2",
        "Bit rates that viewers chose",
        Form::Bars,
        Axis::new("Bit rate", "").named(names.collect()),
        Axis::new("Share", "%"),
    )
    .reading(format!(
        "Where a rate's time bar is longer than its bytes bar, it is cheap to watch: sound, and low \
         rates.{merged}"
    ))
    .series(Series::new("of nominal title time", points(|share| share.2)))
    .series(Series::new("of bytes", points(|share| share.1)))
}

fn durations_figure(durations: &[f64]) -> Figure {
    let longest = durations.last().copied().unwrap_or(0.0);
    // A minute as in the thesis, or finer for clips.
    let width_s = if longest > 1200.0 { 60.0 } else { 10.0 };
    // Longer than a day is a mistake of the table; it goes into the last bin.
    let bins = ((longest / width_s) as usize).min(1440) + 1;
    let mut counts = vec![0u64; bins];
    for duration in durations {
        counts[((duration / width_s) as usize).min(bins - 1)] += 1;
    }
    let points = counts.iter().enumerate().map(|(bin, count)| {
        let minutes = (bin as f64 + 0.5) * width_s / 60.0;
        (minutes, per_cent(*count as f64, durations.len() as f64))
    });
    Figure::new(
        "figure-5.3",
        "Lengths of the titles viewed",
        Form::Lines,
        Axis::new("Length of the title", "min"),
        Axis::new("Titles", "%"),
    )
    .reading(format!(
        "Titles that at least one session asked for, in bins of {width_s} s. Peaks are forms: 22 and \
         43 minutes are television, 90 are films."
    ))
    .series(Series::new("titles", points))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_ranks_are_all_there_and_many_are_thinned() {
        assert_eq!(ranked(&[9, 3, 1]), [(1.0, 9.0), (2.0, 3.0), (3.0, 1.0)]);
        let many = ranked(&vec![1; 100_000]);
        assert!(many.len() <= RANKS_MAX + 2);
        assert_eq!(many.last(), Some(&(100_000.0, 1.0)));
    }
}
