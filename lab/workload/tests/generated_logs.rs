//! Generated logs: measured with and without files, and reproduced by a fitted specification.

use std::io::Write as _;
use std::path::Path;

use headlong_characterise::{Characterisation, DistributionPoints, Observations};
use headlong_random::Generator;
use headlong_trace::{CharacteriseSettings, Intake, SilentProgress, take_in};
use headlong_workload::phased::{
    self, FILES_HEADER, LOG_HEADER, PhasedCatalogue, PhasedSpecification, RequestLog, fit,
};

fn preset(sessions: u64, changes: &[(&str, &str)]) -> PhasedSpecification {
    let changes: Vec<(String, String)> = changes
        .iter()
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect();
    let preset = PhasedSpecification::preset("netflix-2014-catalog", &changes);
    preset.expect("well formed").scaled(sessions)
}

/// Characterises the log of a specification without an intermediate file.
fn measured(specification: &PhasedSpecification, seed: u64) -> Characterisation {
    let catalogue = PhasedCatalogue::of(&specification.catalogue);
    phased::characterise(specification, &catalogue, seed)
}

/// The same through files, as a user would do it.
fn measured_from_files(
    specification: &PhasedSpecification,
    seed: u64,
    folder: &Path,
) -> Characterisation {
    let catalogue = PhasedCatalogue::of(&specification.catalogue);
    let mut text = format!("{LOG_HEADER}\n").into_bytes();
    for entry in RequestLog::new(specification, &catalogue, seed) {
        entry.write_csv(&catalogue, &mut text);
    }
    let mut table = format!("{FILES_HEADER}\n").into_bytes();
    for file in 0..catalogue.files.len() as u32 {
        catalogue.write_file_csv(file, &mut table);
    }
    characterised(&text, &table, folder)
}

/// Characterises a log and a files table.
fn characterised(text: &[u8], table: &[u8], folder: &Path) -> Characterisation {
    let (log, files) = (folder.join("log.csv"), folder.join("files.csv"));
    for (path, bytes) in [(&log, text), (&files, table)] {
        let mut file = std::fs::File::create(path).expect("created");
        file.write_all(bytes).expect("written");
    }
    let intake = Intake {
        logs: vec![log],
        files: Some(files),
        threads: 2,
        ..Intake::default()
    };
    let taken = take_in(&intake, &SilentProgress).expect("the intake succeeds");
    let settings = CharacteriseSettings {
        rules: headlong_chains::ChainRules::default(),
        threads: 2,
        tables: None,
        title: String::new(),
        command: String::new(),
    };
    headlong_trace::characterise(&taken, &settings, |_| ()).expect("the characterisation succeeds")
}

/// Largest difference of two distributions at any value.
fn distance(one: &DistributionPoints, other: &DistributionPoints) -> f64 {
    let law = |points: &DistributionPoints| {
        headlong_random::Empirical::new(points.clone()).expect("a curve")
    };
    let (one, other) = (law(one), law(other));
    let values = one.points().iter().chain(other.points());
    let apart = values.map(|point| (one.share_below(point.0) - other.share_below(point.0)).abs());
    apart.fold(0.0, f64::max)
}

fn median(points: &DistributionPoints) -> f64 {
    let law = headlong_random::Empirical::new(points.clone()).expect("a curve");
    let at = law.points().iter().find(|point| point.1 >= 0.5);
    at.expect("a median").0
}

/// Mean of a distribution of straight lines between its points.
fn mean(points: &DistributionPoints) -> f64 {
    let pieces = points.windows(2);
    pieces
        .map(|pair| (pair[0].0 + pair[1].0) / 2.0 * (pair[1].1 - pair[0].1))
        .sum()
}

/// Checks that named pairs of numbers are close.
fn agree(pairs: &[(&str, f64, f64, f64)]) {
    let wrong: Vec<_> = pairs
        .iter()
        .filter(|(_, one, other, within)| {
            (one - other).abs() > *within || one.is_nan() || other.is_nan()
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn chain_numbers(seen: &Observations) -> Vec<f64> {
    let chains = &seen.chains;
    let rows = [&chains.open, &chains.chunk];
    let rows = rows.into_iter().flatten();
    let mut numbers: Vec<f64> = rows
        .flat_map(|row| [row.chains as f64, row.requests as f64, row.bytes as f64])
        .collect();
    let requests = [&chains.open_requests, &chains.chunk_requests];
    let requests = requests.into_iter().flatten();
    numbers.extend(requests.flat_map(|row| [row.requests as f64, row.bytes as f64]));
    numbers.extend(chains.survival.iter().map(|point| point.1));
    numbers.extend(chains.slopes);
    numbers.extend(chains.parallel);
    numbers.extend([chains.at_zero, chains.later_below]);
    numbers.extend(chains.open_zero_lump);
    numbers.extend(chains.chunk_zero_below);
    numbers
}

fn phase_numbers(seen: &Observations) -> [f64; 13] {
    let of = &seen.phases;
    [
        of.clusters as f64,
        of.stable as f64,
        of.stable_s_mean,
        of.clusters_all as f64,
        of.stable_all as f64,
        of.stable_all_s_mean,
        of.sessions_with_stable,
        of.transient_share,
        of.stable_share,
        of.inactive_share,
        of.stable_all_share,
        of.transient_all_share,
        of.transient_bytes_share,
    ]
}

fn are_equal(what: &str, one: &[f64], other: &[f64]) {
    assert_eq!(one.len(), other.len());
    for (place, (one, other)) in one.iter().zip(other).enumerate() {
        let near = (one - other).abs() <= 1e-6 * one.abs().max(1e-3);
        assert!(near, "{what}, number {place}: {one} and {other}");
    }
}

#[test]
fn generated_log_measures_equal_with_and_without_files() {
    let specification = preset(150, &[]);
    let folder = tempfile::tempdir().expect("a folder");
    let (one, other) = (
        measured(&specification, 9),
        measured_from_files(&specification, 9, folder.path()),
    );
    assert_eq!(other.about.dropped, []);
    assert_eq!(one.about.requests, other.about.requests);
    let (one, other) = (one.observed, other.observed);
    // The log that was read begins with its first request and ends with its last, so a session at
    // the edge of the last hour may be counted in only one of them.
    let apart = one.sessions_kept.abs_diff(other.sessions_kept);
    assert!(apart <= 2, "{} {}", one.sessions_kept, other.sessions_kept);
    if apart == 0 {
        are_equal("chains", &chain_numbers(&one), &chain_numbers(&other));
        are_equal("phases", &phase_numbers(&one), &phase_numbers(&other));
    }
}

/// From a log to a specification, and to a log of that: checks the agreement stated in the manual
/// (docs/lab/trace-characterise.md, "There and back").
fn there_and_back(meant: &PhasedSpecification) {
    let first = measured(meant, 21);
    let text = fit(&first.observed).to_toml();
    let fitted = PhasedSpecification::read("fitted", &text, &[]).expect("it reads back");
    let (one, other) = (&first.observed, &measured(&fitted, 22).observed);
    let lengths = (&one.viewing.session_s, &other.viewing.session_s);
    let ratio = |of: fn(&DistributionPoints) -> f64| of(lengths.1) / of(lengths.0);
    let (here, there) = (&one.phases, &other.phases);
    let slope = |seen: &Observations| seen.titles.popularity.slope;
    let mut pairs = vec![
        ("popularity", slope(one), slope(other), 0.1),
        ("session lengths", distance(lengths.0, lengths.1), 0.0, 0.06),
        ("mean length", ratio(mean), 1.0, 0.15),
        ("median length", ratio(median), 1.0, 0.2),
        (
            "transient",
            here.transient_share,
            there.transient_share,
            0.04,
        ),
        ("stable", here.stable_share, there.stable_share, 0.04),
        ("inactive", here.inactive_share, there.inactive_share, 0.04),
    ];
    let survival = one.chains.survival.iter().zip(&other.chains.survival);
    pairs.extend(survival.map(|(one, other)| ("survival", one.1, other.1, 0.06)));
    agree(&pairs);
}

/// Sessions of plain films, with one file of one bit rate each, from an independent generator:
/// ranges of 1 MiB in sequence, the first three at once and the others paced by playback,
/// occasional skips and pauses, and an early end. `steps` assign bit rates and lengths: 7 and 37
/// put slow and short films at the head of popularity, 3 and 1163 slow and long ones.
fn plain_films(seed: u64, steps: [u64; 2]) -> (Vec<u8>, Vec<u8>) {
    const RATES: [u64; 4] = [800, 1500, 3000, 6000];
    const STEP: u64 = 1 << 20;
    let (sessions, titles) = (2500, 400);
    let mut dice = Generator::new(seed);
    let kbps = |title: u64| RATES[(title * steps[0] % 11 % 4) as usize];
    let seconds = |title: u64| 240 + title * steps[1] % 1200;
    let size = |title: u64| kbps(title) * 125 * seconds(title);
    let mut table = format!("{FILES_HEADER}\n").into_bytes();
    let mut shares = vec![0.0];
    for title in 0..titles {
        let (rate, bytes, long) = (kbps(title), size(title), seconds(title));
        writeln!(table, "{title},{title},2,{rate},{bytes},0,{long}").expect("memory");
        shares.push(shares[title as usize] + 1.0 / (title as f64 + 1.0));
    }
    let mut lines: Vec<(u64, String)> = Vec::new();
    for session in 1..=sessions {
        let unit = dice.unit() * shares[titles as usize];
        let title = shares.partition_point(|share| *share <= unit).max(1) as u64 - 1;
        let (mut now, mut at) = ((dice.unit() * 86_400_000.0) as u64 + 10_000, 0);
        let watched = dice.unit().powf(1.5);
        let mut left = (watched * size(title) as f64) as u64 / STEP + 1;
        let step_ms = STEP * 8 / kbps(title);
        for place in 0.. {
            if left == 0 || at >= size(title) {
                break;
            }
            let (bytes, took) = (STEP.min(size(title) - at), 100 + dice.below(400));
            let done = now + took;
            let second = done / 1000;
            let line = format!("{second},{took},{session},tv,{title},{at},{bytes},{bytes},0\n");
            lines.push((done, line));
            (at, left) = (at + bytes, left - 1);
            now = if place < 3 {
                done
            } else {
                now + step_ms.max(took)
            };
            let unit = dice.unit();
            if unit < 0.01 {
                at += (10 + dice.below(20)) * STEP + 777;
            } else if unit < 0.013 {
                now += 60_000 + dice.below(240_000);
            }
        }
    }
    lines.sort();
    let mut text = format!("{LOG_HEADER}\n").into_bytes();
    lines
        .iter()
        .for_each(|(_, line)| text.extend(line.as_bytes()));
    (text, table)
}

/// Bit rates, popularity and chains of a library without adaptive players.
#[test]
fn fitted_specification_reproduces_single_rate_films() {
    films_there_and_back(5, [7, 37]);
}

#[test]
fn fitted_specification_reproduces_long_popular_films() {
    films_there_and_back(8, [3, 1163]);
}

fn films_there_and_back(seed: u64, steps: [u64; 2]) {
    let folder = tempfile::tempdir().expect("a folder");
    let (text, table) = plain_films(seed, steps);
    let first = characterised(&text, &table, folder.path());
    let text = fit(&first.observed).to_toml();
    let fitted = PhasedSpecification::read("fitted", &text, &[]).expect("it reads back");
    let (one, other) = (&first.observed, &measured(&fitted, 22).observed);
    let bytes = |seen: &Observations| -> f64 {
        let sent: u64 = seen.renditions.iter().map(|one| one.bytes).sum();
        sent as f64 / seen.sessions_kept as f64
    };
    let rates = |seen: &Observations| -> Vec<_> {
        let rates = seen.renditions.iter().map(|one| (one.kind, one.kbps));
        rates.collect()
    };
    assert_eq!(rates(one), rates(other));
    let part = |seen: &Observations, place: usize| {
        seen.renditions[place].bytes as f64 / bytes(seen) / seen.sessions_kept as f64
    };
    let duration = |seen: &Observations| mean(&seen.titles.durations_s);
    let slope = |seen: &Observations| seen.titles.popularity.slope;
    let length = |seen: &Observations| mean(&seen.viewing.session_s);
    let mut pairs = vec![
        ("bytes", bytes(other) / bytes(one), 1.0, 0.1),
        ("popularity", slope(one), slope(other), 0.1),
        ("mean length", length(other) / length(one), 1.0, 0.1),
        ("durations", duration(other) / duration(one), 1.0, 0.05),
    ];
    pairs.extend((0..4).map(|place| ("of a rate", part(one, place), part(other, place), 0.1)));
    let survival = one.chains.survival.iter().zip(&other.chains.survival);
    pairs.extend(survival.map(|(one, other)| ("survival", one.1, other.1, 0.06)));
    agree(&pairs);
}

/// Sessions near the end of a log, a tenth of what it has beyond two hours, are measured only by
/// their number, which must be preserved.
#[test]
fn fitted_specification_keeps_session_count() {
    let (minutes, size) = (180, 3 << 20);
    let mut text = format!("{LOG_HEADER}\n");
    for session in 1..=minutes {
        let second = session * 60;
        text += &format!("{second},500,{session},tv,0,0,{size},{size},0\n");
    }
    let table = format!("{FILES_HEADER}\n0,0,2,1500,{size},0,600\n");
    let folder = tempfile::tempdir().expect("a folder");
    let told = characterised(text.as_bytes(), table.as_bytes(), folder.path());
    assert_eq!((told.sessions, told.observed.sessions), (180, 180));
    assert!((5..=7).contains(&told.sessions_left_out));
    let fitted = fit(&told.observed);
    assert_eq!(fitted.sessions.count, 180);
    assert_eq!(fit(&told.observed), fitted, "it depends on the log alone");
}

#[test]
fn fitted_specification_reproduces_netflix_log() {
    there_and_back(&preset(2000, &[]));
}

/// A workload unlike the preset, so that returning the preset would fail.
#[test]
fn fitted_specification_reproduces_other_log() {
    let changes = [
        ("sessions.count", "3000"),
        ("catalogue.zipf_alpha", "0.9"),
        ("catalogue.titles", "400"),
        ("catalogue.head_titles", "0"),
        ("viewing.glance_share", "0.2"),
        ("viewing.stay", "[[0, 0], [0.3, 0.5], [0.9, 0.9], [1, 1]]"),
        ("viewing.pauses_per_hour", "3"),
        ("viewing.changes_per_hour", "5"),
        ("device.tv.probes_first", "3"),
        ("device.tv.buffer", "60s"),
        ("device.browser.share", "40"),
    ];
    let meant = preset(3000, &changes);
    let stable = |meant: &PhasedSpecification| measured(meant, 21).observed.phases.stable_share;
    assert!(stable(&preset(2000, &[])) - stable(&meant) > 0.06);
    there_and_back(&meant);
}
