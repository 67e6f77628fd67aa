//! Throughput of a drive for one program that reads whole titles one after another (thesis Table
//! 3.4).

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::Instant;

use headlong_bench::{Bench, Experiment, MB, RigError};
use headlong_report::{Cell, Table, say};
use headlong_stats::{Summary, USUAL_CONFIDENCE};
use headlong_units::Duration;
use headlong_workload::Catalogue;

/// Read size of `wc`.
const BUFFER_BYTES: usize = 64 << 10;
/// Titles are divided into this many parts in order of creation; the first part is at low and the
/// last at high addresses.
const PARTS: usize = 4;

pub(super) const WORDS: &str = "One program reads whole titles in random order, as wc did (thesis \
    3.5.4). Low and high are the first and the last quarter of the titles in the order in which \
    they were stored, at the outer and the inner tracks; the papers stored the same titles twice. \
    The drive runs in real time for this: if it were accelerated, one program with the kernel's \
    default readahead would be limited by the kernel, not by the drive.";

/// Thesis Table 3.4, in MB/s: workload of the file set, whether at high addresses, mean.
const PUBLISHED: [(&str, &str, bool, f64); 6] = [
    ("Low unchunked", "whole", false, 94.9),
    ("Low 2 MB chunks", "chunks-2m", false, 57.3),
    ("Low 0.5 MB chunks", "chunks-512k", false, 34.8),
    ("High unchunked", "whole", true, 77.7),
    ("High 2 MB chunks", "chunks-2m", true, 50.0),
    ("High 0.5 MB chunks", "chunks-512k", true, 31.9),
];

/// One row of the table.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ReadThroughput {
    name: &'static str,
    published_mb: f64,
    rates: Vec<f64>,
}

/// Measures each file set at low and high addresses, for the given time and number of repetitions.
pub(super) fn measure(
    bench: &mut Bench,
    experiment: &Experiment,
    time: Duration,
    times: u32,
) -> Result<Vec<ReadThroughput>, RigError> {
    let mut readings = Vec::new();
    for (name, workload, is_high, published_mb) in PUBLISHED {
        let server = experiment.servers.keys().next().map(String::as_str);
        let cell = experiment.cell(server, Some(workload));
        let Ok(cell) = cell else {
            continue;
        };
        let catalogue = cell.files.catalogue().map_err(|errors| RigError::Failed {
            what: "reading the catalogue".into(),
            words: errors.join("; "),
        })?;
        let mut rates = Vec::new();
        for repeat in 0..times {
            let order = order(&catalogue, is_high, experiment.seed + u64::from(repeat));
            let rate = bench.read(&cell, |root| read_titles(root, &catalogue, &order, time))?;
            rates.push(rate);
        }
        say!(
            "{name}: {:.1} MB/s, published {published_mb}",
            mean(&rates) / MB
        );
        readings.push(ReadThroughput {
            name,
            published_mb,
            rates,
        });
    }
    Ok(readings)
}

fn mean(rates: &[f64]) -> f64 {
    let summary: Summary = rates.iter().copied().collect();
    summary.mean().unwrap_or(f64::NAN)
}

/// Catalogue indices of the titles in one part of the drive, in random order.
fn order(catalogue: &Catalogue, is_high: bool, seed: u64) -> Vec<u32> {
    let all = &catalogue.creation_order;
    let part = (all.len() / PARTS).max(1);
    let part = match is_high {
        true => &all[all.len() - part..],
        false => &all[..part],
    };
    let mut order = part.to_vec();
    headlong_random::Generator::new(seed).shuffle(&mut order);
    order
}

/// Reads titles; returns bytes per second. Ends after the file during which the time expires.
fn read_titles(
    root: &Path,
    catalogue: &Catalogue,
    order: &[u32],
    time: Duration,
) -> std::io::Result<f64> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut bytes = 0u64;
    let started = Instant::now();
    let passed = || started.elapsed().as_secs_f64();
    for number in order {
        let Some(title) = catalogue.titles.get(*number as usize) else {
            continue;
        };
        for file in catalogue.files(title) {
            let mut file = File::open(root.join(&file.path))?;
            loop {
                match file.read(&mut buffer)? {
                    0 => break,
                    read => bytes += read as u64,
                }
            }
            if passed() >= time.as_secs_f64() {
                return Ok(bytes as f64 / passed());
            }
        }
    }
    Ok(bytes as f64 / passed())
}

pub(super) fn table(readings: &[ReadThroughput]) -> Table {
    let half_width = |reading: &ReadThroughput| {
        let summary: Summary = reading.rates.iter().map(|rate| rate / MB).collect();
        summary
            .interval(USUAL_CONFIDENCE)
            .map(|interval| interval.half_width())
    };
    Table::of(
        readings,
        &[
            ("File set", &|reading| reading.name.into()),
            ("Here (MB/s)", &|reading| {
                Cell::number(mean(&reading.rates) / MB, 1)
            }),
            ("95 %", &|reading| Cell::maybe(half_width(reading), 2)),
            ("Published (MB/s)", &|reading| {
                Cell::number(reading.published_mb, 1)
            }),
            ("Here / published", &|reading| {
                Cell::number(mean(&reading.rates) / MB / reading.published_mb, 2)
            }),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use headlong_workload::Specification;

    #[test]
    fn low_and_high_titles_are_first_and_last_stored() {
        let few = [("title.sd.count".to_owned(), "40".to_owned())];
        let specification = Specification::preset("youtube-2011", &few).expect("right");
        let catalogue = Catalogue::of(&specification);
        let (low, high) = (order(&catalogue, false, 1), order(&catalogue, true, 1));
        assert_eq!((low.len(), high.len()), (10, 10));
        assert!(
            low.iter()
                .all(|title| catalogue.creation_order[..10].contains(title))
        );
        assert!(
            high.iter()
                .all(|title| catalogue.creation_order[30..].contains(title))
        );
        assert_ne!(order(&catalogue, false, 2), low);
        assert_eq!(order(&catalogue, false, 1), low);
    }

    #[test]
    fn counts_bytes_to_end_of_titles() {
        let few = [
            ("title.sd.count".to_owned(), "2".to_owned()),
            ("catalogue.chunk".to_owned(), "512KiB".to_owned()),
        ];
        let specification = Specification::preset("youtube-2011", &few).expect("right");
        let catalogue = Catalogue::of(&specification);
        let root = tempfile::tempdir().expect("a folder");
        for title in &catalogue.titles {
            for file in catalogue.files(title) {
                let path = root.path().join(&file.path);
                std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
                std::fs::write(path, b"short").expect("written");
            }
        }
        let hour = Duration::from_secs(3600);
        let rate = read_titles(root.path(), &catalogue, &[0, 1], hour).expect("readable");
        assert!(rate > 0.0 && rate.is_finite());
    }
}
