use headlong_player::PlaybackSpec;
use headlong_units::BitRate;

use super::*;
use crate::{Specification, generate};

/// Figures of a preset as shipped, with the groups that have viewers.
fn figures_of(name: &str) -> Vec<(&'static str, f64)> {
    let read = Specification::preset(name, &[]);
    let specification = read.unwrap_or_else(|errors| panic!("{errors}"));
    let workload = generate(&specification, 1);
    let mut groups = CatalogueSummary::of(&workload.catalogue);
    groups.retain(|summary| {
        let group = specification
            .groups
            .iter()
            .find(|group| group.name == summary.group);
        group.is_some_and(|group| group.weight > 0.0)
    });
    figures(Some(&groups), &TraceSummary::of(&workload.trace))
}

/// Checks all published figures of a preset; `exempt` lists those with their own tolerance.
fn assert_published(name: &str, tolerance: f64, exempt: &[(&str, f64)]) {
    let ours = figures_of(name);
    for figure in published(name) {
        let found = ours.iter().find(|(known, _)| *known == figure.figure);
        let (_, value) = found.unwrap_or_else(|| panic!("{} is not known", figure.figure));
        let own = exempt.iter().find(|(known, _)| *known == figure.figure);
        let tolerance = own.map_or(tolerance, |(_, tolerance)| *tolerance);
        let off = value / figure.value - 1.0;
        assert!(
            libm::fabs(off) <= tolerance,
            "{name} {}: {value} is {:.1} % off {}",
            figure.figure,
            off * 100.0,
            figure.value
        );
    }
}

#[test]
fn youtube_2011_is_within_5_percent_of_table_3_3() {
    assert_published("youtube-2011", 0.05, &[]);
}

#[test]
fn youtube_2011_2mb_is_within_12_percent() {
    // The thesis has two figures for requests per session, 3.766 in the table and 4.3 in 3.7.3;
    // rounding durations up to 40 s gives one between them.
    assert_published(
        "youtube-2011-2mb",
        0.05,
        &[
            ("requests_per_session_mean", 0.12),
            ("session_seconds_mean", 0.12),
            ("requests", 0.12),
            ("ranges", 0.12),
            ("ranges_once", 0.12),
        ],
    );
    let requests = figures_of("youtube-2011-2mb");
    let mean = requests
        .iter()
        .find(|(name, _)| *name == "requests_per_session_mean");
    let (_, mean) = mean.expect("a figure");
    assert!((3.766..4.3).contains(mean), "{mean}");
}

#[test]
fn youtube_sd_and_hd_match_published_figures() {
    // Concurrency follows from the rate, which the experiment sets.
    let at_a_time = ("concurrent_max", f64::INFINITY);
    // 92 GB in 12,000 sessions are 146 s each, as in Table 3.3, and not the 162 s printed.
    assert_published(
        "youtube-sd",
        0.05,
        &[at_a_time, ("session_seconds_mean", 0.1)],
    );
    assert_published(
        "youtube-hd",
        0.05,
        &[at_a_time, ("session_seconds_mean", 0.12)],
    );
    assert_published("flashstream", 0.05, &[]);
}

#[test]
fn small_trace_matches_manual_count() {
    let text = "/sd/000001.bin range=0-99\n/sd/000001.bin range=100-199 pacing=5\n\n\
        /sd/000001.bin range=0-99\n\n/sd/000002.bin range=0-99\n";
    let mut trace = Trace::read(text.as_bytes()).unwrap_or_else(|errors| panic!("{errors}"));
    for (session, arrival) in trace.sessions.iter_mut().zip([1, 2, 7]) {
        session.arrival = Duration::from_secs(arrival);
        if let SessionPlan::Script(script) = &mut session.plan {
            script.playback = Some(PlaybackSpec {
                bit_rate: BitRate(800),
                start_bytes: 1,
            });
        }
    }
    let summary = TraceSummary::of(&trace);
    assert_eq!(
        (summary.sessions, summary.requests, summary.bytes),
        (3, 4, 400)
    );
    assert_eq!((summary.titles, summary.titles_once), (2, 1));
    assert_eq!((summary.ranges, summary.ranges_once), (3, 2));
    assert_eq!(summary.session_seconds_mean, Some(4.0 / 3.0));
    assert_eq!(summary.concurrent_max, 2);
    assert_eq!(summary.length, Duration::from_secs(7));
    assert_eq!(summary.requests_per_session, [(1, 2), (2, 1)].into());
    assert_eq!(summary.sessions_per_title, [(1, 1), (2, 1)].into());
}
