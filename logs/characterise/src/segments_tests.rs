//! Titles in segment files.

use alloc::vec;
use alloc::vec::Vec;

use headlong_chains::{ChainRules, ContentKind, FileInfo, Request};

use super::*;

const PIECES: u64 = 300;
const PIECE_BYTES: u64 = 700_000;

/// A playlist, the stream of one title, and a small file of another one.
fn files() -> Vec<FileInfo> {
    let file = |title, size_bytes, kbps, duration_s| FileInfo {
        title,
        kind: ContentKind::Combined,
        kbps,
        size_bytes,
        disk: 0,
        duration_s,
        is_estimated: true,
    };
    let stream = file(0, PIECES * PIECE_BYTES, 1400, 1200.0);
    Vec::from([file(0, 5000, 0, 0.0), stream, file(1, 5000, 0, 0.0)])
}

/// One viewer that reads the playlist and then these segments, each once.
fn characterise_segments(pieces: core::ops::Range<u64>) -> Characterisation {
    let mut log = LogContext::new(files(), (0, 4_000_000));
    log.mark_streams(&[1]);
    let of_stream = pieces.map(|piece| (1, piece * PIECE_BYTES, PIECE_BYTES));
    let read = core::iter::once((0, 0, 5000)).chain(of_stream);
    let requests = read.zip(0..).map(|((file, offset, bytes), line)| Request {
        line,
        session: 0,
        file,
        received_ms: line as i64 * 4000,
        completed_ms: line as i64 * 4000 + 500,
        offset,
        asked_bytes: Some(bytes),
        sent_bytes: bytes,
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
fn small_file_beside_a_stream_has_no_place() {
    let mut log = LogContext::new(files(), (0, 1));
    let places = |log: &LogContext| [0, 1, 2, 9999].map(|file| log.has_places(file));
    assert_eq!(places(&log), [true; 4], "no streams");
    log.mark_streams(&[1, 9999]);
    assert_eq!(places(&log), [false, true, true, true]);
}
