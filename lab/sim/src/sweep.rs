//! Grids of experiments: every combination of some values, at given rates or at the highest.
//!
//! The one idea: a combination is a job of its own, done by one thread from beginning to end, and
//! nothing in it depends on another. So the rows are the same however many threads there are, in
//! the order of the grid, and what was done before need not be done again.

use std::io::{self, BufRead as _, Write as _};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use serde::{Deserialize, Serialize};

use crate::experiment::Experiment;
use crate::record::Record;
use crate::search::Search;
use crate::setup::SetupError;

/// One thing that is varied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// What.
    pub name: String,
    /// Its values, in the order in which they are shown.
    pub values: Vec<String>,
}

/// What is looked for at each point of a grid.
#[derive(Debug, Clone, PartialEq)]
pub enum Aim {
    /// What happens at these rates, MiB/s.
    Rates(Vec<f64>),
    /// The highest rate without a failure.
    Maximum {
        /// Where to begin, MiB/s.
        guess_mib_s: f64,
        /// How exactly it is to be known, MiB/s.
        resolution_mib_s: f64,
    },
}

/// How a grid is gone through.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep {
    /// What is looked for.
    pub aim: Aim,
    /// The first seed.
    pub seed: u64,
    /// How many, from the first on.
    pub seeds: u64,
    /// Points worked on at once.
    pub threads: NonZeroUsize,
}

/// A point of a grid.
#[derive(Debug, Clone)]
pub struct Point {
    /// Its value on each axis.
    pub values: Vec<String>,
    /// What is run there.
    pub experiment: Experiment,
}

/// What was found at a point of the grid, for one rate if rates were given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its value on each axis.
    pub values: Vec<String>,
    /// The rate that was given, or the highest that passed: `None` if none did.
    pub rate_mib_s: Option<f64>,
    /// The lowest rate that failed in a search.
    pub failed_mib_s: Option<f64>,
    /// Calls that failed at the rate, over all seeds.
    pub failures: u64,
    /// Worlds that were run for it.
    pub worlds: usize,
    /// Figures at the rate, one record for each seed, without their series.
    pub records: Vec<Record>,
}

impl Row {
    /// The mean of a figure over the seeds; `None` if no rate passed.
    pub fn mean(&self, figure: impl Fn(&Record) -> f64) -> Option<f64> {
        let sum: f64 = self.records.iter().map(figure).sum();
        (!self.records.is_empty()).then(|| sum / self.records.len() as f64)
    }
}

/// All combinations of the values of some axes, the last axis changing fastest; one empty one of no
/// axes.
pub fn combinations(axes: &[Axis]) -> Vec<Vec<String>> {
    axes.iter().fold(vec![Vec::new()], |combined, axis| {
        let with = |before: &Vec<String>| {
            let before = before.clone();
            axis.values.iter().map(move |value| {
                let mut values = before.clone();
                values.push(value.clone());
                values
            })
        };
        combined.iter().flat_map(with).collect()
    })
}

/// Does jobs on some threads. Answers come in the order of the jobs; `tell` hears of each as soon as
/// it is there, on the calling thread, with its place among the jobs.
pub fn in_parallel<J: Sync, R: Send>(
    jobs: &[J],
    threads: NonZeroUsize,
    work: impl Fn(&J) -> R + Sync,
    mut tell: impl FnMut(usize, &R),
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let mut answers: Vec<Option<R>> = jobs.iter().map(|_| None).collect();
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        let (next, work) = (&next, &work);
        for _ in 0..threads.get().min(jobs.len()) {
            let sender = sender.clone();
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(index) else {
                        return;
                    };
                    if sender.send((index, work(job))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for (index, answer) in receiver {
            tell(index, &answer);
            answers[index] = Some(answer);
        }
    });
    // A thread that panicked has made the scope panic.
    answers.into_iter().flatten().collect()
}

impl Sweep {
    /// Goes through the points. What the journal knows is taken from there, and what is new is
    /// written to it; `tell` hears how many points are done and of all.
    ///
    /// # Errors
    /// The first point, in their order, that cannot be, or a journal that cannot be written.
    pub fn run(
        &self,
        points: &[Point],
        mut journal: Option<&mut Journal>,
        mut tell: impl FnMut(usize, usize),
    ) -> Result<Vec<Row>, SweepError> {
        let keys: Vec<String> = points.iter().map(|point| self.key(point)).collect();
        let known = |index: usize| {
            let journal = journal.as_ref()?;
            journal.find(&keys[index]).cloned()
        };
        let mut rows: Vec<Option<Vec<Row>>> = (0..points.len()).map(known).collect();
        let missing: Vec<usize> = (0..points.len())
            .filter(|index| rows[*index].is_none())
            .collect();
        let mut done = points.len() - missing.len();
        tell(done, points.len());
        let mut written = Ok(());
        let found = in_parallel(
            &missing,
            self.threads,
            |index| self.point(&points[*index]),
            |place, found| {
                done += 1;
                tell(done, points.len());
                if let (Some(journal), Ok(rows)) = (journal.as_deref_mut(), found)
                    && written.is_ok()
                {
                    written = journal.add(&keys[missing[place]], rows);
                }
            },
        );
        written?;
        for (index, found) in missing.iter().zip(found) {
            rows[*index] = Some(found?);
        }
        Ok(rows.into_iter().flatten().flatten().collect())
    }

    /// What the answer for a point depends on, as a name.
    fn key(&self, point: &Point) -> String {
        // FNV-1a of everything that an experiment is made of.
        let words = format!(
            "{:?} {:?} {} {}",
            point.experiment, self.aim, self.seed, self.seeds
        );
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let hash = words.bytes().fold(0xcbf2_9ce4_8422_2325, mix);
        format!("{} {hash:016x}", point.values.join(" "))
    }

    fn point(&self, point: &Point) -> Result<Vec<Row>, SetupError> {
        match &self.aim {
            Aim::Rates(rates) => rates
                .iter()
                .map(|rate| self.at_rate(point, *rate))
                .collect(),
            Aim::Maximum {
                guess_mib_s,
                resolution_mib_s,
            } => {
                let search = Search {
                    guess_mib_s: *guess_mib_s,
                    is_near: false,
                    resolution_mib_s: *resolution_mib_s,
                    seed: self.seed,
                    seeds: self.seeds.max(1),
                    threads: NonZeroUsize::MIN,
                };
                let mut experiment = point.experiment.clone();
                experiment.setup.stops_at_failure = true;
                let found = search.run(|rate, seed| experiment.run(rate, seed), |_| {})?;
                Ok(vec![Row {
                    values: point.values.clone(),
                    rate_mib_s: found.passed_mib_s,
                    failed_mib_s: found.failed_mib_s,
                    failures: 0,
                    worlds: found.worlds,
                    records: found.records,
                }])
            }
        }
    }

    fn at_rate(&self, point: &Point, rate_mib_s: f64) -> Result<Row, SetupError> {
        let seeds = self.seed..self.seed + self.seeds.max(1);
        let mut records = Vec::new();
        for seed in seeds {
            let mut record = point.experiment.run(rate_mib_s, seed)?;
            record.series.clear();
            records.push(record);
        }
        Ok(Row {
            values: point.values.clone(),
            rate_mib_s: Some(rate_mib_s),
            failed_mib_s: None,
            failures: records.iter().map(|record| record.failures).sum(),
            worlds: records.len(),
            records,
        })
    }
}

/// Why a grid could not be gone through.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// A world of it cannot be.
    #[error("{0}")]
    Setup(#[from] SetupError),
    /// Its journal cannot be read or written.
    #[error("{path}: {source}; name a file in a folder that exists and can be written to")]
    Journal {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// Rows that are done, in a file: one line of JSON for each point. A line that was cut off when a
/// run was ended is done again.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    known: Vec<Entry>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    point: String,
    rows: Vec<Row>,
}

impl Journal {
    /// What a file holds; nothing if there is none yet.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn open(path: &Path) -> Result<Self, SweepError> {
        let failed = |source| SweepError::Journal {
            path: path.to_path_buf(),
            source,
        };
        let mut known = Vec::new();
        match std::fs::File::open(path) {
            Ok(file) => {
                for line in io::BufReader::new(file).lines() {
                    known.extend(serde_json::from_str(&line.map_err(failed)?));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        Ok(Self {
            path: path.to_path_buf(),
            known,
        })
    }

    fn find(&self, point: &str) -> Option<&Vec<Row>> {
        let mut entries = self.known.iter();
        entries
            .find(|entry| entry.point == point)
            .map(|entry| &entry.rows)
    }

    fn add(&mut self, point: &str, rows: &[Row]) -> Result<(), SweepError> {
        let entry = Entry {
            point: point.to_owned(),
            rows: rows.to_vec(),
        };
        let write = || -> io::Result<()> {
            // A line that was cut off stays a line of its own.
            let text = format!("\n{}\n", serde_json::to_string(&entry)?);
            let mut file = std::fs::File::options()
                .create(true)
                .append(true)
                .open(&self.path)?;
            file.write_all(text.as_bytes())
        };
        write().map_err(|source| SweepError::Journal {
            path: self.path.clone(),
            source,
        })
    }
}

/// A figure of a row: its name in tables and charts, its unit, and how it is taken from a record.
pub type FigureOf = (&'static str, fn(&Record) -> f64);

/// The figures that tables of rows show.
pub const FIGURES: &[FigureOf] = &[
    ("served_mib_s", |r| r.served_mib_s),
    ("disk_mib_s", |r| r.disk_mib_s),
    ("busy", |r| r.busy),
    ("viewers", |r| r.viewers_mean),
    ("reads_per_s", |r| r.reads as f64 / r.seconds.max(1e-9)),
    ("read_kib", |r| r.read_kib),
    ("read_ms", |r| r.read_ms),
    ("hit_ratio", |r| r.hit_ratio),
    ("waste_ratio", |r| r.waste_ratio),
    ("evicted_ratio", |r| r.evicted_ratio),
    ("prefetch_mib", |r| r.prefetch_mib),
    ("wait_p99_ms", |r| r.wait_ms.p99),
    ("response_max_ms", |r| r.response_ms.max),
];

/// The rows as comma-separated values with a head.
pub fn to_csv(axes: &[Axis], rows: &[Row]) -> String {
    let heads = axes.iter().map(|axis| axis.name.as_str());
    let fixed = ["rate_mib_s", "failed_mib_s", "failures", "worlds"];
    let figures = FIGURES.iter().map(|(name, _)| *name);
    let mut text = heads
        .chain(fixed)
        .chain(figures)
        .map(quoted)
        .collect::<Vec<_>>()
        .join(",");
    text.push('\n');
    for row in rows {
        let rate = |rate: Option<f64>| rate.map_or(String::new(), |rate| format!("{rate:.3}"));
        let cells = row.values.iter().map(|value| quoted(value));
        let fixed = [
            rate(row.rate_mib_s),
            rate(row.failed_mib_s),
            row.failures.to_string(),
            row.worlds.to_string(),
        ];
        let figures = FIGURES.iter().map(|(_, figure)| {
            row.mean(figure)
                .map_or(String::new(), |mean| format!("{mean:.4}"))
        });
        text += &cells
            .chain(fixed)
            .chain(figures)
            .collect::<Vec<_>>()
            .join(",");
        text.push('\n');
    }
    text
}

fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
#[path = "sweep_tests.rs"]
mod tests;
