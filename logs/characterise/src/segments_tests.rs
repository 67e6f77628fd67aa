//! Titles in segment files.

use alloc::vec;
use alloc::vec::Vec;

use headlong_chains::{ChainRules, ContentKind, FileInfo, Request};

use super::*;

const PIECES: u32 = 300;
const PIECE_BYTES: u64 = 700_000;

/// A playlist, and the segment files of one title.
fn files() -> Vec<FileInfo> {
    let file = |size_bytes, kbps, duration_s| FileInfo {
        title: 0,
        kind: ContentKind::Combined,
        kbps,
        size_bytes,
        disk: 0,
        duration_s,
        is_estimated: true,
    };
    let pieces = (0..PIECES).map(|_| file(PIECE_BYTES, 1400, 4.0));
    core::iter::once(file(5000, 0, 0.0)).chain(pieces).collect()
}

/// One viewer that reads the playlist and then these segment files, each once.
fn characterise_segments(pieces: core::ops::Range<u32>) -> Characterisation {
    let mut log = LogContext::new(files(), (0, 4_000_000));
    let stream: Vec<u32> = (1..=PIECES).collect();
    log.lay_end_to_end([stream.as_slice()]);
    let read = core::iter::once(0).chain(pieces.map(|piece| piece + 1));
    let requests = read.zip(0..).map(|(file, line)| Request {
        line,
        session: 0,
        file,
        received_ms: line as i64 * 4000,
        completed_ms: line as i64 * 4000 + 500,
        offset: 0,
        asked_bytes: None,
        sent_bytes: log.file(file).size_bytes,
        disk: 0,
        device: 0,
    });
    let mut sums = Accumulators::new(&log);
    let mut splitter = SessionSplitter::new(ChainRules::default());
    let mut requests: Vec<Request> = requests.collect();
    splitter.split(&log, &mut requests, |view| sums.add(&log, view));
    sums.finish(&log, Provenance::default())
}

fn points<'a>(told: &'a Characterisation, figure: &str, series: &str) -> &'a [Vec<f64>] {
    let figure = told.figures().find(|one| one.id == figure);
    let series = figure.and_then(|one| one.series.iter().find(|one| one.name == series));
    series.map_or(&[], |series| &series.points)
}

#[test]
fn fetching_each_segment_once_is_one_title() {
    let told = characterise_segments(0..PIECES);
    let fractions = points(&told, "figure-5.5", "combined");
    let most = fractions.last().map(|point| point[0]);
    assert_eq!(most, Some(99.5), "between 99.5 % and 100 %");
    let seen = &told.observed;
    let durations = &seen.titles.durations_s;
    assert!(durations.iter().all(|(seconds, _)| *seconds == 1200.0));
    let fraction = seen.viewing.fraction_downloaded[0].0;
    assert!((0.97..1.03).contains(&fraction), "{fraction}");
}

#[test]
fn session_positions_are_those_in_the_title() {
    let told = characterise_segments(75..150);
    let at = |series| {
        let points = points(&told, "figure-5.7", series);
        let found: Vec<f64> = points.iter().filter(|p| p[1] > 0.0).map(|p| p[0]).collect();
        found
    };
    assert_eq!((at("start"), at("end")), (vec![25.5], vec![49.5]));
    let parts = points(&told, "figure-5.6", "any");
    assert_eq!(parts.iter().filter(|part| part[1] > 0.0).count(), 25);
    let start = told.observed.viewing.start_share[0].0;
    assert!((0.24..0.26).contains(&start), "{start}");
}

#[test]
fn other_files_are_wholes_by_themselves() {
    let mut log = LogContext::new(files(), (0, 1));
    let key = |log: &LogContext, file| log.whole(file).key(5);
    assert_eq!(key(&log, 7), (7, 5));
    log.lay_end_to_end([&[3, 5, 7][..]]);
    assert_eq!(key(&log, 7), (3, 2 * PIECE_BYTES + 5));
    assert_eq!((key(&log, 6), key(&log, 9999)), ((6, 5), (9999, 5)));
    log.lay_end_to_end([&[2, 9999, 4][..], &[]]);
    assert_eq!(
        key(&log, 4),
        (2, PIECE_BYTES + 5),
        "unknown files are ignored"
    );
}
