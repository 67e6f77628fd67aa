//! Published figures of SSDs.

use headlong_drive::{Direction, DriveSpec, Request, SECTOR_BYTES, closed_loop, random_rate};
use headlong_random::Generator;
use headlong_units::Instant;

use super::PublishedFigure;
use super::spinning::spec;

/// Writes per run (flashstream 3.1).
const WRITES: u64 = 640;
/// Bins of a histogram of latencies.
const BINS: usize = 50;

fn write(start_byte: u64, bytes: u64) -> Request {
    Request {
        sector: start_byte / SECTOR_BYTES,
        sectors: (bytes / SECTOR_BYTES) as u32,
        direction: Direction::Write,
    }
}

/// Latencies in milliseconds of 640 writes to a full drive of 32 GB: sequential, or at random
/// multiples of their size.
fn latencies(preset: &str, bytes: u64, is_random: bool) -> Vec<f64> {
    let spec: DriveSpec = spec(preset).scaled_to(32 << 30);
    let mut drive = spec.build();
    let fill = (0..(32u64 << 10)).map(|i| write(i << 20, 1 << 20));
    let filled = closed_loop(&mut *drive, Instant::ZERO, 1, fill, |_| ());
    let places = (32u64 << 30) / bytes;
    let mut generator = Generator::new(bytes);
    let writes = (0..WRITES).map(|i| {
        let place = if is_random {
            generator.below(places)
        } else {
            i % places
        };
        write(place * bytes, bytes)
    });
    let mut found = Vec::new();
    closed_loop(&mut *drive, filled.ended, 1, writes, |done| {
        found.push(done.ended.since(done.started).as_secs_f64() * 1e3);
    });
    found
}

/// The Kullback-Leibler divergence of random from sequential writes of this size: histograms of
/// latencies over the range of both, with half a count added to every bin so that none is empty.
pub(crate) fn divergence_of(preset: &str, bytes: u64) -> f64 {
    let random = latencies(preset, bytes, true);
    let sequential = latencies(preset, bytes, false);
    let both = || random.iter().chain(&sequential).copied();
    let (least, most) = (
        both().fold(f64::INFINITY, f64::min),
        both().fold(0.0, f64::max),
    );
    let width = ((most - least) / BINS as f64).max(1e-9);
    let histogram = |values: &[f64]| {
        let mut counts = vec![0.5; BINS];
        for value in values {
            counts[(((value - least) / width) as usize).min(BINS - 1)] += 1.0;
        }
        let total: f64 = counts.iter().sum();
        counts
            .into_iter()
            .map(|count| count / total)
            .collect::<Vec<f64>>()
    };
    let (p, q) = (histogram(&random), histogram(&sequential));
    p.iter().zip(&q).map(|(p, q)| p * (p / q).ln()).sum()
}

/// The smallest of 1 to 64 MiB for which the divergence of this and all larger sizes is below 0.1.
fn optimal_block_mebibytes(preset: &str) -> f64 {
    let sizes = [1u64, 2, 4, 8, 16, 32, 64];
    let too_small = sizes
        .into_iter()
        .rev()
        .find(|size| divergence_of(preset, size << 20) >= 0.1);
    too_small.map_or(1.0, |size| (size * 2) as f64)
}

/// Figures of flashstream, of vendors and of testers.
pub(crate) fn flash_figures() -> Vec<PublishedFigure> {
    let ocz = "ssd-ocz-core-v2";
    let figure = |drive, what: &str, published, modelled, bound| PublishedFigure {
        drive,
        what: what.to_string(),
        published,
        modelled,
        bound,
    };
    let reads =
        |name: &str, depth| random_rate(&mut *spec(name).build(), 4_096, 20_000, depth) / 1e6;
    let spike = latencies(ocz, 8 << 20, true)
        .into_iter()
        .fold(0.0, f64::max);
    let small: f64 = latencies(ocz, 4_096, true).iter().sum::<f64>() / WRITES as f64;
    let p4500 = "ssd-nvme-data-centre";
    vec![
        figure(ocz, "4 KB random reads, MB/s", 14.8, reads(ocz, 1), 0.05),
        figure(
            ocz,
            "4 KB random writes, MB/s (fitted to)",
            0.02,
            4.096 / small,
            0.10,
        ),
        figure(
            ocz,
            "longest random write of 8 MB, ms (fitted to)",
            900.0,
            spike,
            0.11,
        ),
        figure(
            ocz,
            "optimal block, MiB",
            16.0,
            optimal_block_mebibytes(ocz),
            0.0,
        ),
        figure(
            p4500,
            "4 KB random reads, 1000/s",
            490.0,
            reads(p4500, 256) / 4.096,
            0.10,
        ),
    ]
}
