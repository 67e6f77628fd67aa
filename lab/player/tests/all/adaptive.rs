//! Sessions of adaptive players on a network of known speed, in virtual time.

use std::sync::Arc;

use crate::rig::net::TestNetwork;
use crate::rig::{PlayerRig, at, ms};
use headlong_player::{
    AdaptivePlan, CallEnd, Command, ObjectId, ObjectRange, PlanError, PlayerConfig, RateRule,
    Rendition, RequestExtent, SegmentTable, SessionPlan, Title, TransportEnd, ViewerAction,
};
use headlong_units::{BitRate, ByteRange, Duration, Instant};

const SEGMENT: Duration = Duration::from_secs(2);
const KBPS: [u64; 4] = [500, 1_000, 2_000, 4_000];

/// A title of 2-second segments, with one file per rendition: object 0 is the lowest.
fn title(segments: u32) -> Title {
    let rendition = |(object, kbps): (u32, u64)| {
        let rate = BitRate::from_kbps(kbps);
        let segment_bytes = rate.bytes_in(SEGMENT);
        Rendition {
            bit_rate: rate,
            header: None,
            segments: SegmentTable::OneFile {
                object: ObjectId(object),
                start: 0,
                segment_bytes,
                file_bytes: segment_bytes * u64::from(segments),
            },
        }
    };
    Title {
        segment: SEGMENT,
        segments,
        renditions: (0..).zip(KBPS).map(rendition).collect(),
    }
}

fn with_headers(mut title: Title) -> Title {
    for (rendition, object) in title.renditions.iter_mut().zip(0..) {
        rendition.header = Some(ObjectRange::part(
            ObjectId(object),
            ByteRange::new(0, 1_000),
        ));
    }
    title
}

/// The simplest player: throughput only.
fn make() -> PlayerConfig {
    PlayerConfig {
        rule: RateRule::Throughput,
        ..PlayerConfig::default()
    }
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn plan(title: Title, acts: &[ViewerAction], make: PlayerConfig) -> SessionPlan {
    let plan = AdaptivePlan {
        title: Arc::new(title),
        acts: acts.to_vec(),
        make: Arc::new(make),
    };
    assert_eq!(plan.check(), []);
    SessionPlan::Adaptive(plan)
}

/// Plays on a network with these rates: start in seconds, rate in kb/s.
fn played(plan: SessionPlan, rates: &[(u64, u64)]) -> PlayerRig {
    let mut rig = PlayerRig::new(plan);
    TestNetwork::new(rates).play(&mut rig, at(3_600_000));
    assert!(
        rig.player.end().is_some(),
        "the session has not ended after an hour"
    );
    rig
}

/// Requests for content: time in seconds, rendition, first segment, number of segments.
fn asked(rig: &PlayerRig) -> Vec<(u64, u32, u64, u64)> {
    let sends = rig.given.iter().filter_map(|given| match &given.command {
        Command::Send {
            object,
            range: Some(range),
            ..
        } => {
            let bytes = BitRate::from_kbps(KBPS[object.0 as usize]).bytes_in(SEGMENT);
            let count = if range.end == u64::MAX {
                0
            } else {
                range.len() / bytes
            };
            Some((
                given.at.0 / 1_000_000_000,
                object.0,
                range.start / bytes,
                count,
            ))
        }
        _ => None,
    });
    sends.collect()
}

/// Checks that everything planned was watched without failure; calls in progress at the end do not
/// count.
fn whole(rig: &PlayerRig) {
    assert_eq!(rig.end().end, CallEnd::Whole);
    let failed = |end: &CallEnd| end.is_failure();
    assert!(!rig.ends().iter().any(failed), "{:?}", rig.ends());
}

#[test]
fn title_is_requested_once_and_in_order() {
    let rig = played(
        plan(title(60), &[ViewerAction::Watch(seconds(1_000))], make()),
        &[(0, 10_000)],
    );
    whole(&rig);
    let segments: Vec<u64> = asked(&rig)
        .iter()
        .map(|(_, _, segment, _)| *segment)
        .collect();
    assert_eq!(segments, (0..60).collect::<Vec<_>>());
    let end = rig.end();
    assert_eq!((end.played, end.stalls), (seconds(120), 0));
    let startup = end.startup_delay.expect("playback started");
    assert_eq!(end.ended, Instant::ZERO + startup + seconds(120));
}

#[test]
fn header_is_requested_once_before_first_segment_of_rendition() {
    let title = with_headers(title(100));
    let watch = [ViewerAction::Watch(seconds(100))];
    let rig = played(plan(title, &watch, make()), &[(0, 3_000)]);
    whole(&rig);
    let mut seen = vec![];
    for (_, object, _, count) in asked(&rig) {
        if count == 0 {
            seen.push(object);
        } else {
            assert!(seen.contains(&object), "no header of {object}: {seen:?}");
        }
    }
    seen.sort_unstable();
    let renditions = seen.len();
    seen.dedup();
    assert!(renditions > 1 && renditions == seen.len(), "{seen:?}");
}

#[test]
fn playback_starts_at_start_buffer() {
    let rig = played(
        plan(title(60), &[ViewerAction::Watch(seconds(10))], make()),
        &[(0, 1_000)],
    );
    // Two segments of 500 kb/s at 1 Mb/s: a second each, and the delays.
    let startup = rig.end().startup_delay.expect("playback started");
    assert!((ms(2_150)..ms(2_250)).contains(&startup), "{startup:?}");
}

#[test]
fn full_buffer_is_topped_up_segment_by_segment() {
    let rig = played(
        plan(title(60), &[ViewerAction::Watch(seconds(1_000))], make()),
        &[(0, 20_000)],
    );
    let late: Vec<u64> = asked(&rig)
        .iter()
        .filter(|(when, ..)| *when >= 20)
        .map(|(when, ..)| *when)
        .collect();
    assert!(late.len() > 20);
    assert!(
        late.windows(2).all(|pair| pair[1] - pair[0] == 2),
        "{late:?}"
    );
    // Half a minute ahead, not more: at 20 s no segment beyond second 54 has been requested.
    let far = asked(&rig)
        .iter()
        .filter(|(when, ..)| *when < 20)
        .map(|(_, _, s, _)| *s)
        .max();
    assert!(far.is_some_and(|far| (23..=27).contains(&far)), "{far:?}");
}

#[test]
fn low_mark_far_below_high_gives_bursts() {
    let bursts = PlayerConfig {
        buffer_low: seconds(10),
        buffer_high: seconds(30),
        ..make()
    };
    let rig = played(
        plan(title(60), &[ViewerAction::Watch(seconds(1_000))], bursts),
        &[(0, 20_000)],
    );
    let times: Vec<u64> = asked(&rig).iter().map(|(when, ..)| *when).collect();
    let gaps: Vec<u64> = times
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .filter(|g| *g > 5)
        .collect();
    assert!(
        gaps.len() >= 3 && gaps.iter().all(|gap| (10..=21).contains(gap)),
        "{gaps:?}"
    );
    whole(&rig);
}

#[test]
fn throughput_determines_bit_rate() {
    for (kbps, object) in [(700, 0), (1_500, 1), (3_000, 2), (10_000, 3)] {
        let rig = played(
            plan(title(60), &[ViewerAction::Watch(seconds(100))], make()),
            &[(0, kbps)],
        );
        let last = asked(&rig).last().map(|(_, object, ..)| *object);
        assert_eq!(last, Some(object), "at {kbps} kb/s");
        assert_eq!(rig.end().stalls, 0, "at {kbps} kb/s");
    }
}

#[test]
fn rules_follow_changes_of_throughput() {
    let low = seconds(10);
    let rules = [
        RateRule::Throughput,
        RateRule::Buffer {
            reservoir: seconds(6),
            cushion: seconds(18),
        },
        RateRule::Bola { low },
        RateRule::Dynamic { low },
    ];
    for rule in rules {
        let make = PlayerConfig { rule, ..make() };
        let rates = [(0, 8_000), (60, 800), (240, 8_000)];
        let rig = played(
            plan(title(200), &[ViewerAction::Watch(seconds(380))], make),
            &rates,
        );
        let at_most = |from: u64, until: u64| {
            let asked = asked(&rig);
            let part = asked
                .iter()
                .filter(|(when, ..)| (from..until).contains(when));
            part.map(|(_, object, ..)| *object).collect::<Vec<_>>()
        };
        assert_eq!(at_most(40, 60).iter().max(), Some(&3), "{rule:?}");
        assert!(
            at_most(120, 240).iter().all(|o| *o <= 1),
            "{rule:?}: {:?}",
            at_most(120, 240)
        );
        assert!(at_most(120, 240).contains(&0), "{rule:?}");
        assert_eq!(at_most(320, 380).iter().max(), Some(&3), "{rule:?}");
        assert!(rig.end().switches >= 3, "{rule:?}");
        assert_eq!(rig.end().end, CallEnd::Whole, "{rule:?}");
    }
}

#[test]
fn fixed_rule_never_switches() {
    let make = PlayerConfig {
        rule: RateRule::Fixed(2),
        start_rendition: 2,
        timeout: None,
        ..make()
    };
    let rig = played(
        plan(title(20), &[ViewerAction::Watch(seconds(40))], make),
        &[(0, 1_000)],
    );
    assert!(asked(&rig).iter().all(|(_, object, ..)| *object == 2));
    let end = rig.end();
    assert_eq!(
        (end.switches, end.bit_rate),
        (0, Some(BitRate::from_kbps(2_000)))
    );
    // 40 s of 2 Mb/s take 80 s and 20 delays at 1 Mb/s: about half of the time is spent waiting.
    assert!(end.stalls > 3, "{end:?}");
    let waited = end.stall_time + end.startup_delay.expect("playback started");
    assert_eq!(end.ended, Instant::ZERO + waited + seconds(40));
    assert!((seconds(40)..seconds(48)).contains(&waited), "{waited:?}");
}

#[test]
fn stall_switches_to_lowest_bit_rate() {
    let rates = [(0, 10_000), (20, 0), (60, 10_000)];
    let patient = PlayerConfig {
        timeout: None,
        ..make()
    };
    let rig = played(
        plan(title(100), &[ViewerAction::Watch(seconds(150))], patient),
        &rates,
    );
    let end = rig.end();
    assert_eq!(end.stalls, 1, "{end:?}");
    let first_after = asked(&rig)
        .iter()
        .find(|(when, ..)| *when >= 60)
        .map(|(_, o, ..)| *o);
    assert_eq!(first_after, Some(0));
}

#[test]
fn playback_resumes_at_resume_buffer() {
    let stalled = |resume| {
        let make = PlayerConfig {
            rule: RateRule::Fixed(1),
            start_rendition: 1,
            resume_buffer: seconds(resume),
            timeout: None,
            ..make()
        };
        let rates = [(0, 10_000), (20, 0), (60, 2_000)];
        let rig = played(
            plan(title(100), &[ViewerAction::Watch(seconds(80))], make),
            &rates,
        );
        assert_eq!(rig.end().stalls, 1);
        rig.end().stall_time
    };
    // Three more segments, each a second at twice the bit rate, with its delay.
    let longer = stalled(8) - stalled(2);
    assert!((ms(3_200)..ms(3_400)).contains(&longer), "{longer:?}");
}

#[test]
fn early_departure_wastes_buffer() {
    let rig = played(
        plan(title(60), &[ViewerAction::Watch(seconds(11))], make()),
        &[(0, 20_000)],
    );
    let end = rig.end();
    assert_eq!((end.end, end.played), (CallEnd::Whole, seconds(11)));
    assert!(
        asked(&rig).len() > 15,
        "the player does not know when its viewer leaves"
    );
}

#[test]
fn requests_stop_when_buffer_is_full_during_pause() {
    let acts = [
        ViewerAction::Watch(seconds(10)),
        ViewerAction::Pause(seconds(100)),
        ViewerAction::Watch(seconds(20)),
    ];
    let rig = played(plan(title(60), &acts, make()), &[(0, 4_000)]);
    let end = rig.end();
    assert_eq!((end.played, end.stalls), (seconds(30), 0));
    let times: Vec<u64> = asked(&rig).iter().map(|(when, ..)| *when).collect();
    let gap = times.windows(2).map(|pair| pair[1] - pair[0]).max();
    assert!(gap.is_some_and(|gap| gap > 40), "{times:?}");
    assert_eq!(
        asked(&rig)
            .windows(2)
            .filter(|pair| pair[0].2 == pair[1].2)
            .count(),
        0
    );
}

#[test]
fn skip_drops_buffer_and_abandons_calls() {
    let acts = [
        ViewerAction::Watch(seconds(3)),
        ViewerAction::Skip(50),
        ViewerAction::Watch(seconds(10)),
        ViewerAction::Skip(0),
        ViewerAction::Watch(seconds(4)),
    ];
    let rig = played(plan(title(60), &acts, make()), &[(0, 1_000)]);
    let end = rig.end();
    assert_eq!(
        (end.end, end.played, end.stalls),
        (CallEnd::Whole, seconds(17), 0)
    );
    let segments: Vec<u64> = asked(&rig)
        .iter()
        .map(|(_, _, segment, _)| *segment)
        .collect();
    let first = segments
        .iter()
        .position(|s| *s == 50)
        .expect("a request after the skip");
    assert!(
        segments[first..first + 4] == [50, 51, 52, 53],
        "{segments:?}"
    );
    assert_eq!(segments.iter().filter(|s| **s == 0).count(), 2);
    assert!(rig.ends().contains(&CallEnd::Abandoned));
}

#[test]
fn skip_within_buffer_requests_nothing_again() {
    let acts = [
        ViewerAction::Watch(seconds(10)),
        ViewerAction::Skip(9),
        ViewerAction::Watch(seconds(60)),
    ];
    let rig = played(plan(title(60), &acts, make()), &[(0, 20_000)]);
    whole(&rig);
    assert_eq!(rig.end().played, seconds(70));
    let mut segments: Vec<u64> = asked(&rig).iter().map(|(_, _, s, _)| *s).collect();
    segments.dedup();
    assert_eq!(segments.len(), asked(&rig).len());
}

#[test]
fn parallel_connections_carry_consecutive_segments() {
    let four = PlayerConfig {
        connections: 4,
        ..make()
    };
    let rig = played(
        plan(title(30), &[ViewerAction::Watch(seconds(60))], four),
        &[(0, 5_000)],
    );
    whole(&rig);
    let sent = rig.sent();
    let connections: Vec<u32> = sent.iter().map(|(.., connection)| *connection).collect();
    assert_eq!(connections[..4], [0, 1, 2, 3]);
    assert_eq!(connections.iter().max(), Some(&3));
    assert_eq!(asked(&rig).len(), 30);
}

#[test]
fn request_covers_several_segments() {
    let runs = PlayerConfig {
        shape: RequestExtent::Segments(3),
        rule: RateRule::Fixed(1),
        start_rendition: 1,
        ..make()
    };
    let rig = played(
        plan(title(30), &[ViewerAction::Watch(seconds(60))], runs),
        &[(0, 3_000)],
    );
    whole(&rig);
    assert!(
        asked(&rig)
            .iter()
            .all(|(_, _, first, count)| first % 3 == 0 && *count == 3)
    );
    // Playback starts when two of the three segments have arrived: 500 kB at 3 Mb/s, and the delay.
    let startup = rig.end().startup_delay.expect("playback started");
    assert!((ms(1_400)..ms(1_500)).contains(&startup), "{startup:?}");
}

#[test]
fn full_buffer_abandons_open_ended_request() {
    let open = PlayerConfig {
        shape: RequestExtent::OpenEnded,
        rule: RateRule::Fixed(1),
        start_rendition: 1,
        buffer_low: seconds(10),
        ..make()
    };
    let rig = played(
        plan(title(60), &[ViewerAction::Watch(seconds(1_000))], open),
        &[(0, 5_000)],
    );
    let end = rig.end();
    assert_eq!(
        (end.end, end.stalls, end.played),
        (CallEnd::Whole, 0, seconds(120))
    );
    let asked = asked(&rig);
    assert!((4..8).contains(&asked.len()), "{asked:?}");
    assert!(asked.iter().all(|(.., count)| *count == 0));
    let ends = rig.ends();
    assert!(
        ends[..ends.len() - 1]
            .iter()
            .all(|end| *end == CallEnd::Abandoned),
        "{ends:?}"
    );
    assert_eq!(ends.last(), Some(&CallEnd::Whole));
}

#[test]
fn trickling_open_ended_request_times_out() {
    let open = PlayerConfig {
        shape: RequestExtent::OpenEnded,
        retries: 0,
        ..make()
    };
    let rates = [(0, 5_000), (3, 10)];
    let rig = played(
        plan(title(600), &[ViewerAction::Watch(seconds(1_000))], open),
        &rates,
    );
    assert_eq!(rig.end().end, CallEnd::TimedOut);
    let ended = rig.end().ended;
    assert!((at(11_900)..at(13_100)).contains(&ended), "{ended:?}");
}

#[test]
fn failed_call_is_retried_after_delay() {
    let mut rig = PlayerRig::new(plan(title(10), &[ViewerAction::Watch(seconds(20))], make()));
    rig.wait_until(at(500));
    rig.ended(0, TransportEnd::Broken);
    rig.wait_until(at(1_499));
    assert_eq!(rig.sent().len(), 1);
    rig.wait_until(at(2_000));
    assert_eq!(rig.sent(), [(0, 0, 0), (1_500, 0, 0)]);
    assert_eq!(asked(&rig)[1].2, 0);
    TestNetwork::new(&[(0, 5_000)]).play(&mut rig, at(60_000));
    assert_eq!(rig.end().end, CallEnd::Whole);
    assert_eq!(rig.ends()[..2], [CallEnd::Broken, CallEnd::Whole]);
}

#[test]
fn failed_parallel_segment_is_requested_first() {
    let two = PlayerConfig {
        connections: 2,
        rule: RateRule::Fixed(0),
        ..make()
    };
    let mut rig = PlayerRig::new(plan(title(10), &[ViewerAction::Watch(seconds(20))], two));
    rig.wait_until(at(100));
    rig.reply(at(100), 1, 125_000);
    rig.head(0, 503, None);
    rig.wait_until(at(1_200));
    let segments: Vec<u64> = asked(&rig)
        .iter()
        .map(|(_, _, segment, _)| *segment)
        .collect();
    assert_eq!(segments, [0, 1, 2, 0]);
    assert!(
        rig.given
            .iter()
            .any(|g| matches!(g.command, Command::Abandon { call } if call.0 == 0))
    );
}

#[test]
fn failures_beyond_retries_end_session() {
    let none = PlayerConfig {
        retries: 2,
        ..make()
    };
    let mut rig = PlayerRig::new(plan(title(10), &[ViewerAction::Watch(seconds(20))], none));
    for call in 0..3 {
        rig.wait_until(at(u64::from(call) * 1_000));
        rig.head(call, 503, None);
    }
    assert_eq!(
        (rig.end().end, rig.ends().len()),
        (CallEnd::Refused(503), 3)
    );
    assert_eq!(rig.end().ended, at(2_000));
}

#[test]
fn distant_failures_do_not_end_open_ended_session() {
    let open = PlayerConfig {
        shape: RequestExtent::OpenEnded,
        rule: RateRule::Fixed(1),
        start_rendition: 1,
        retries: 2,
        ..make()
    };
    // Little faster than playback: one request would last, and none completes before the last.
    let mut net = TestNetwork::new(&[(0, 1_200)]);
    let mut rig = PlayerRig::new(plan(title(60), &[ViewerAction::Watch(seconds(120))], open));
    for nth in 1..=5 {
        net.play(&mut rig, at(nth * 15_000));
        net.cut(&mut rig);
    }
    net.play(&mut rig, at(3_600_000));
    assert_eq!(rig.end().end, CallEnd::Whole);
    let ends = rig.ends();
    assert_eq!(ends[..5], [CallEnd::Broken; 5], "{ends:?}");
}

#[test]
fn viewer_leaves_after_patience() {
    let impatient = PlayerConfig {
        patience: Some(seconds(5)),
        timeout: None,
        ..make()
    };
    let start = played(
        plan(
            title(10),
            &[ViewerAction::Watch(seconds(20))],
            impatient.clone(),
        ),
        &[(0, 10)],
    );
    assert_eq!(
        (start.end().end, start.end().ended),
        (CallEnd::Abandoned, at(5_000))
    );
    assert_eq!(start.end().startup_delay, None);
    let rates = [(0, 10_000), (10, 0)];
    let later = played(
        plan(title(100), &[ViewerAction::Watch(seconds(200))], impatient),
        &rates,
    );
    let end = later.end();
    assert_eq!(
        (end.end, end.stalls, end.stall_time),
        (CallEnd::Abandoned, 1, seconds(5))
    );
}

#[test]
fn separate_segment_files_are_requested_whole() {
    let mut files = title(5);
    for (first, rendition) in [0, 5, 10, 15].into_iter().zip(&mut files.renditions) {
        rendition.segments = SegmentTable::Files {
            first: ObjectId(first),
            file_bytes: rendition.bit_rate.bytes_in(SEGMENT),
            last_bytes: 77,
        };
    }
    let rig = played(
        plan(files, &[ViewerAction::Watch(seconds(20))], make()),
        &[(0, 700)],
    );
    whole(&rig);
    let objects: Vec<u32> = rig.sent().iter().map(|(_, object, _)| *object).collect();
    assert_eq!(objects, [0, 1, 2, 3, 4]);
    assert_eq!(rig.records.last().map(|record| record.bytes), Some(77));
}

#[test]
fn late_session_records_intended_start() {
    let mut rig = PlayerRig::waiting(
        plan(title(10), &[ViewerAction::Watch(seconds(20))], make()),
        at(1_000),
    );
    rig.now = at(1_300);
    rig.start();
    TestNetwork::new(&[(0, 5_000)]).play(&mut rig, at(60_000));
    assert_eq!(
        (rig.records[0].intended, rig.records[0].sent),
        (at(1_000), at(1_300))
    );
    assert_eq!(rig.end().end, CallEnd::Whole);
}

#[test]
fn empty_plan_sends_no_request() {
    let rig = PlayerRig::new(plan(title(10), &[], make()));
    assert_eq!((rig.end().end, rig.records.len()), (CallEnd::Whole, 0));
}

#[test]
fn invalid_plan_reports_all_errors() {
    let mut title = title(5);
    title.renditions[1].bit_rate = BitRate::from_kbps(400);
    title.renditions[2].segments = SegmentTable::Table(vec![ObjectRange::whole(ObjectId(1), 7); 3]);
    let plan = AdaptivePlan {
        title: Arc::new(title),
        acts: vec![ViewerAction::Skip(5)],
        make: Arc::new(PlayerConfig {
            start_buffer: seconds(31),
            resume_buffer: seconds(32),
            safety: f64::NAN,
            ..make()
        }),
    };
    let expected = [
        PlanError::BitRate(1),
        PlanError::NoPlace {
            rendition: 2,
            segment: 3,
        },
        PlanError::StartBuffer,
        PlanError::ResumeBuffer,
        PlanError::Safety,
        PlanError::Skip(5),
    ];
    assert_eq!(plan.check(), expected);
}
