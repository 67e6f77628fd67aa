//! What thesis chapter 5 prints of its log, each beside the same of what was measured.
//!
//! The one idea: one list of figures serves the command line, the page of documentation and the
//! tests. Where the thesis contradicts itself, the note says which of its numbers is here.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use super::observed::{ChainRow, Observed, Points};
use super::specification::SESSIONS_FULL;

/// One figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Its name.
    pub name: String,
    /// What was measured here.
    pub ours: f64,
    /// What the thesis prints; `None` if it prints nothing.
    pub published: Option<f64>,
    /// Where.
    pub source: &'static str,
}

/// The value of a distribution function at `value`.
fn share_below(points: &Points, value: f64) -> f64 {
    headlong_random::Empirical::new(points.clone()).map_or(0.0, |law| law.share_below(value))
}

/// A curve of shares at lengths, read between its points on logarithmic axes.
fn at_length(curve: &Points, length: f64) -> f64 {
    let after = curve.partition_point(|point| point.0 < length);
    let (Some(from), Some(to)) = (curve.get(after.saturating_sub(1)), curve.get(after)) else {
        return 0.0;
    };
    if to.0 <= length || from.1 <= 0.0 || to.1 <= 0.0 {
        return to.1;
    }
    let along = libm::log(length / from.0) / libm::log(to.0 / from.0);
    libm::exp(libm::log(from.1) + along * libm::log(to.1 / from.1))
}

/// All figures. Counts and bytes that grow with the number of sessions are set against as many as
/// the thesis' log has.
pub fn figures(seen: &Observed) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut row = |name: &str, ours: f64, published: f64, source: &'static str| {
        let published = (!published.is_nan()).then_some(published);
        figures.push(Figure {
            name: name.to_string(),
            ours,
            published,
            source,
        });
    };
    let none = f64::NAN;
    let full = SESSIONS_FULL as f64 / seen.sessions.max(1) as f64;
    let chains = &seen.chains;
    let all = |rows: &[ChainRow; 3], of: fn(&ChainRow) -> f64| rows.iter().map(of).sum::<f64>();
    let both = |of: fn(&ChainRow) -> f64| all(&chains.open, of) + all(&chains.chunk, of);
    let asked =
        |of: fn(&ChainRow) -> f64| all(&chains.open_requests, of) + all(&chains.chunk_requests, of);
    let (count, requests) = (
        |row: &ChainRow| row.chains as f64,
        |row: &ChainRow| row.requests as f64,
    );
    let bytes = |row: &ChainRow| row.bytes as f64;
    let (all_chains, all_bytes) = (both(count), asked(bytes));
    let tib = 1_099_511_627_776.0;
    let gib = 1_073_741_824.0;
    let mib = 1_048_576.0;

    row("sessions", seen.sessions as f64, none, "");
    row(
        "data sent, TiB",
        all_bytes / tib * full,
        30.8,
        "Table 5.1, binary units (T3)",
    );
    row(
        "requests, million",
        asked(requests) / 1e6 * full,
        64.99,
        "Table 5.1; 65.34 in Table 5.2 (T1)",
    );
    row(
        "average throughput, Gbit/s",
        all_bytes * 8.0 / seen.length_s / 1e9 * full,
        2.9,
        "Table 5.1",
    );
    row(
        "titles asked for",
        seen.titles.requested as f64 * full,
        9793.0,
        "Table 5.1",
    );
    row(
        "files asked for",
        seen.titles.files_requested as f64 * full,
        102_386.0,
        "Table 5.1",
    );
    row(
        "slope of popularity",
        seen.titles.popularity.slope,
        none,
        "Figure 5.4 (picture)",
    );

    let kinds = ["audio", "video", "combined"];
    for (form, rows, shares) in [
        ("open", &chains.open_requests, [0.3, 0.7, 0.3]),
        ("chunk", &chains.chunk_requests, [4.1, 82.3, 12.4]),
    ] {
        for ((kind, one), published) in kinds.iter().zip(rows).zip(shares) {
            let share = 100.0 * requests(one) / asked(requests);
            row(
                &format!("{form} {kind}, % of requests"),
                share,
                published,
                "Table 5.2",
            );
        }
    }
    for (form, rows, published) in [
        ("open", &chains.open_requests, [1095.7, 5828.1, 4033.0]),
        ("chunk", &chains.chunk_requests, [299.2, 18_411.5, 1832.2]),
    ] {
        for ((kind, one), published) in kinds.iter().zip(rows).zip(published) {
            row(
                &format!("{form} {kind}, GiB"),
                bytes(one) / gib * full,
                published,
                "Table 5.2 (T3)",
            );
        }
    }
    for (index, published) in [41.9, 18.0, 33.0, 6.0, 0.8, 0.3].into_iter().enumerate() {
        let name = format!(
            "files over {}{} connections, %",
            index + 1,
            if index == 5 { "+" } else { "" }
        );
        row(
            &name,
            100.0 * chains.parallel[index],
            published,
            "Table 5.3",
        );
    }
    row(
        "chains, million",
        all_chains / 1e6 * full,
        2.3,
        "5.3 (text)",
    );
    let table = [
        (
            "open",
            &chains.open,
            [
                [7.2, 1.3, 6.8, 534.1],
                [17.3, 1.1, 15.1, 63.7],
                [7.0, 1.0, 25.5, 148.5],
            ],
        ),
        (
            "chunk",
            &chains.chunk,
            [
                [10.7, 10.8, 1.3, 134.7],
                [54.6, 43.0, 15.1, 51.6],
                [3.2, 109.5, 25.5, 147.6],
            ],
        ),
    ];
    for (form, rows, published) in table {
        for ((kind, one), published) in kinds.iter().zip(rows).zip(published) {
            let chains = count(one).max(1.0);
            let name = |what: &str| format!("{form} {kind}, {what}");
            row(
                &name("% of chains"),
                100.0 * count(one) / all_chains,
                published[0],
                "Table 5.4",
            );
            row(
                &name("requests/chain"),
                requests(one) / chains,
                published[1],
                "Table 5.4",
            );
            row(
                &name("MiB/chain"),
                bytes(one) / mib / chains,
                published[2],
                "Table 5.4",
            );
            row(
                &name("nominal s/chain"),
                one.seconds / chains,
                published[3],
                "Table 5.4",
            );
        }
    }
    let longer = |length| 100.0 * at_length(&chains.survival, length);
    row(
        "chains longer than 1 MB, %",
        longer(1e6),
        40.0,
        "5.3.1: below 40 (T5)",
    );
    row(
        "chains longer than 10 MB, %",
        longer(1e7),
        15.0,
        "5.3.1 (text)",
    );
    row(
        "chains longer than 20 MB, %",
        longer(2e7),
        10.0,
        "5.3.3 (text)",
    );
    row(
        "chains longer than 450 MB, %",
        longer(4.5e8),
        1.0,
        "5.3.3 (text)",
    );
    let in_longer = |length| 100.0 * at_length(&chains.bytes_survival, length);
    row(
        "bytes in chains beyond 10 MB, %",
        in_longer(1e7),
        90.0,
        "5.3.1; 95 in 5.7 (T7)",
    );
    row(
        "bytes in chains up to 1 MB, %",
        100.0 - in_longer(1e6),
        2.0,
        "5.3.1: below 2",
    );
    row(
        "exponent below 1 MB",
        chains.slopes[0],
        none,
        "Figure 5.13 (picture)",
    );
    row(
        "exponent 1-200 MB",
        chains.slopes[1],
        0.543,
        "5.3.3: from 3.35 at 45 % (T5)",
    );
    row(
        "exponent beyond 200 MB",
        chains.slopes[2],
        none,
        "Figure 5.13 (picture)",
    );
    row(
        "chains from offset zero, %",
        100.0 * chains.at_zero,
        24.0,
        "5.3.2",
    );
    row(
        "open at zero of 768 KiB, %",
        100.0 * chains.open_zero_lump[0],
        84.0,
        "5.3.2",
    );
    row(
        "open at zero, shorter, %",
        100.0 * chains.open_zero_lump[1],
        0.4,
        "5.3.2",
    );
    row(
        "chunk at zero < 16 KiB, %",
        100.0 * chains.chunk_zero_below[0],
        49.0,
        "5.3.2",
    );
    row(
        "chunk at zero < 128 KiB, %",
        100.0 * chains.chunk_zero_below[1],
        98.0,
        "5.3.2",
    );
    row(
        "later chains < 768 KiB, %",
        100.0 * chains.later_below,
        33.0,
        "5.3.2",
    );

    let viewing = &seen.viewing;
    let started = |share| 100.0 * share_below(&viewing.start_share, share);
    row("start in the first 1 %, %", started(0.01), 36.0, "5.2.2");
    row("start in the first 5 %, %", started(0.05), 60.0, "5.2.2");
    let fraction = |share| 100.0 * share_below(&viewing.fraction_downloaded, share);
    row(
        "download up to 20 %, %",
        fraction(0.2),
        50.0,
        "5.2.2: about half",
    );
    row(
        "download over 100 %, %",
        100.0 - fraction(1.0),
        10.0,
        "5.2.2",
    );
    row(
        "sessions up to 40 s, %",
        100.0 * viewing.glance_share,
        33.0,
        "5.4.3",
    );
    row(
        "session length, median s",
        quantile(&viewing.session_s, 0.5),
        none,
        "",
    );
    row(
        "session length, 90 % s",
        quantile(&viewing.session_s, 0.9),
        none,
        "",
    );

    let phases = &seen.phases;
    let per_session = |count: u64| count as f64 * full / 1000.0;
    row(
        "sessions with a stable phase, %",
        100.0 * phases.sessions_with_stable,
        56.0,
        "5.4.3",
    );
    row(
        "clusters, content, thousand",
        per_session(phases.clusters),
        272.0,
        "5.4.3: 97 % + 150,290 (T6)",
    );
    row(
        "clusters, all files, thousand",
        per_session(phases.clusters_all),
        none,
        "",
    );
    row(
        "long chains, content, thousand",
        per_session(phases.stable),
        none,
        "5.4.3: about as many as clusters",
    );
    row(
        "long chains, all files, thousand",
        per_session(phases.stable_all),
        none,
        "likewise (A12)",
    );
    row(
        "stable phase, content, mean min",
        phases.stable_s_mean / 60.0,
        8.5,
        "5.4.4",
    );
    row(
        "stable phase, all files, mean min",
        phases.stable_all_s_mean / 60.0,
        8.5,
        "5.4.4 (A12)",
    );
    row(
        "transient time, %",
        100.0 * phases.transient_share,
        5.2,
        "5.4.6; 4 in 5.7 (T7)",
    );
    row("stable time, %", 100.0 * phases.stable_share, 79.1, "5.4.6");
    row(
        "inactive time, %",
        100.0 * phases.inactive_share,
        16.4,
        "5.4.6",
    );
    row(
        "transient time, all files, %",
        100.0 * phases.transient_all_share,
        5.2,
        "5.4.6 (A12)",
    );
    row(
        "stable time, all files, %",
        100.0 * phases.stable_all_share,
        79.1,
        "5.4.6 (A12)",
    );
    row(
        "transient bytes, %",
        100.0 * phases.transient_bytes_share,
        7.6,
        "5.4.6",
    );
    row(
        "bit rate higher after, %",
        100.0 * viewing.up_share,
        29.0,
        "5.4.3",
    );
    row(
        "bit rate lower after, %",
        100.0 * viewing.down_share,
        17.0,
        "5.4.3",
    );
    let both = seen
        .devices
        .iter()
        .map(|one| one.both_share * one.sessions as f64)
        .sum::<f64>();
    row(
        "sessions of both forms, %",
        100.0 * both / seen.sessions.max(1) as f64,
        10.0,
        "5.2.4",
    );
    let seconds: f64 = both_seconds(chains);
    let rate = |kbps| {
        let found = seen.renditions.iter().filter(move |one| one.kbps == kbps);
        found.map(|one| one.bytes as f64).sum::<f64>()
    };
    let time = |kbps: u32| 100.0 * rate(kbps) / (f64::from(kbps) * 125.0) / seconds;
    row("title time at 1,750 kbit/s, %", time(1750), 11.0, "5.2.1");
    row("title time at 3,000 kbit/s, %", time(3000), 6.0, "5.2.1");
    row(
        "bytes at 5,800 kbit/s, %",
        100.0 * rate(5800) / all_bytes,
        25.0,
        "5.2.1",
    );
    figures
}

fn both_seconds(chains: &super::ChainsSeen) -> f64 {
    chains
        .open
        .iter()
        .chain(&chains.chunk)
        .map(|row| row.seconds)
        .sum()
}

fn quantile(points: &Points, share: f64) -> f64 {
    headlong_random::Empirical::new(points.clone()).map_or(0.0, |law| law.quantile(share))
}
