//! Published figures of single hard disks.

use headlong_drive::{Direction, Request};
use headlong_drive::{
    DriveSpec, Measurements, closed_loop, measure, preset, random_rate, sequential_rate,
};
use headlong_units::Instant;

use super::PublishedFigure;

/// The preset of this name.
pub(crate) fn spec(name: &str) -> DriveSpec {
    preset(name).expect("a preset")
}

/// The two rows of the table, measured on the models with the same procedure.
pub(crate) fn diskinfo_figures() -> Vec<PublishedFigure> {
    let rows = [
        ("hp-146-10k-sas", [122.0, 107.0, 73.0], [10.5, 8.0, 6.8]),
        ("wd-red-wd10efrx", [133.0, 115.0, 67.0], [32.6, 23.1, 18.9]),
    ];
    let row = |(drive, rates, strokes): (&'static str, [f64; 3], [f64; 3])| {
        let Measurements {
            rates: found,
            full_stroke_us,
            half_stroke_us,
            quarter_stroke_us,
            ..
        } = measure(&spec(drive));
        let modelled = [
            found.outer_bytes_per_s as f64 / 1e6,
            found.middle_bytes_per_s as f64 / 1e6,
            found.inner_bytes_per_s as f64 / 1e6,
            full_stroke_us / 1e3,
            half_stroke_us / 1e3,
            quarter_stroke_us / 1e3,
        ];
        let names = [
            "outer, MB/s",
            "middle, MB/s",
            "inner, MB/s",
            "full stroke, ms",
            "half stroke, ms",
            "quarter stroke, ms",
        ];
        let published = rates.into_iter().chain(strokes);
        let figures = names.into_iter().zip(published).zip(modelled);
        figures.map(move |((what, published), modelled)| PublishedFigure {
            drive,
            what: what.to_string(),
            published,
            modelled,
            bound: 0.03,
        })
    };
    rows.into_iter().flat_map(row).collect()
}

/// Megabytes per second of random reads, one at a time.
fn random(drive: &str, block_bytes: u64) -> f64 {
    random_rate(&mut *spec(drive).build(), block_bytes, 4_000, 1) / 1e6
}

/// Megabytes per second of sequential reads at the start.
fn sequential(drive: &str) -> f64 {
    sequential_rate(&mut *spec(drive).build(), 0, 2_000_000, 200) / 1e6
}

/// The Hitachi drive of thesis 5.6.2, equation 5.4, and the dual-actuator drive.
pub(crate) fn thesis_figures() -> Vec<PublishedFigure> {
    let hitachi = "hitachi-5k3000";
    let (outer, at_random) = (sequential(hitachi), random(hitachi, 2_000_000));
    let seeks_per_s = at_random / 2.0 * outer / (outer - at_random);
    let figure = |drive, what: &str, published, modelled, bound| PublishedFigure {
        drive,
        what: what.to_string(),
        published,
        modelled,
        bound,
    };
    vec![
        figure(hitachi, "sequential 2 MB, MB/s", 125.5, outer, 0.02),
        figure(
            hitachi,
            "random 2 MB, MB/s (fitted to)",
            48.4,
            at_random,
            0.02,
        ),
        figure(
            hitachi,
            "repositionings/s by equation 5.4",
            39.4,
            seeks_per_s,
            0.02,
        ),
        figure(
            "nearline-20tb",
            "sequential, MB/s",
            285.0,
            sequential("nearline-20tb"),
            0.02,
        ),
        figure(
            "dual-actuator-14tb",
            "sequential with both arms, MB/s",
            524.0,
            both_arms(),
            0.02,
        ),
    ]
}

/// Two alternating sequential readers, one at the start of each half.
fn both_arms() -> f64 {
    let mut drive = spec("dual-actuator-14tb").build();
    let half = drive.capacity_sectors() / 2;
    let requests = (0..400u64).map(|i| Request {
        sector: (i % 2) * half + (i / 2) * 2_048,
        sectors: 2_048,
        direction: Direction::Read,
    });
    closed_loop(&mut *drive, Instant::ZERO, 4, requests, |_| ()).bytes_per_s() / 1e6
}

/// Reposition over a third of the stroke, transfer at the middle rate: a rough external check.
pub(crate) fn prediction_figures() -> Vec<PublishedFigure> {
    let rows = [
        ("wd-red-wd10efrx", [20.0, 53.0, 73.0, 89.0]),
        ("nearline-20tb", [36.0, 97.0, 134.0, 167.0]),
    ];
    let row = |(drive, rates): (&'static str, [f64; 4])| {
        let sizes = [500_000, 2_000_000, 4_000_000, 8_000_000];
        sizes
            .into_iter()
            .zip(rates)
            .map(move |(bytes, published)| PublishedFigure {
                drive,
                what: format!("random {} MB, MB/s", bytes as f64 / 1e6),
                published,
                modelled: random(drive, bytes),
                bound: 0.10,
            })
    };
    rows.into_iter().flat_map(row).collect()
}
