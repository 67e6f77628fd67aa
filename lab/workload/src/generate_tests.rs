use std::collections::BTreeMap;
use std::string::{String, ToString as _};

use headlong_random::Empirical;

use super::*;
use crate::trace::WarmupRange;

fn with(name: &str, overrides: &[(&str, &str)]) -> Specification {
    let overrides: Vec<(String, String)> = overrides
        .iter()
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect();
    let read = Specification::preset(name, &overrides);
    read.unwrap_or_else(|errors| panic!("{errors}"))
}

fn workload(name: &str, overrides: &[(&str, &str)]) -> Workload {
    generate(&with(name, overrides), 1)
}

fn calls(trace: &Trace) -> impl Iterator<Item = &ScriptCall> {
    trace.sessions.iter().flat_map(Session::calls)
}

/// FNV-1a.
fn hash(text: &str) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// Kolmogorov-Smirnov statistic: the largest distance of a sample's distribution from a
/// distribution function, times the square root of its size. It exceeds 1.95 by chance in one of a
/// thousand samples.
fn distance(mut sample: Vec<f64>, share_below: impl Fn(f64) -> f64) -> f64 {
    sample.sort_by(f64::total_cmp);
    let count = sample.len() as f64;
    let mut largest = 0.0f64;
    for tie in sample.chunk_by(|one, other| one == other) {
        // At a step of the distribution function both of its limits count.
        let below = sample.partition_point(|value| *value < tie[0]);
        let above = below + tie.len();
        let (law, before) = (share_below(tie[0]), share_below(tie[0] - 1e-6));
        largest = largest.max(libm::fabs(before - below as f64 / count));
        largest = largest.max(libm::fabs(law - above as f64 / count));
    }
    largest * libm::sqrt(count)
}

fn law(curve: &Empirical) -> impl Fn(f64) -> f64 + '_ {
    |value| curve.share_below(value)
}

#[test]
fn golden_trace_is_unchanged() {
    let overrides = [
        ("sessions.count", "500"),
        ("viewing.pause", "0.05"),
        ("viewing.skip", "0.05"),
    ];
    let text = |seed| {
        let trace = generate(&with("youtube-sd", &overrides), seed).trace;
        trace.to_text()
    };
    assert_eq!(text(1), text(1));
    assert_ne!(text(1), text(2));
    assert_eq!(hash(&text(1)), GOLDEN, "traces of old seeds changed");
}

/// Depends on the format and the draws only: a change invalidates all recorded results.
const GOLDEN: u64 = 4_047_164_264_475_303_793;

#[test]
fn rate_changes_only_arrivals() {
    let slow = workload("youtube-sd", &[("sessions.count", "300")]);
    let fast = workload(
        "youtube-sd",
        &[("sessions.count", "300"), ("sessions.rate", "40MiB/s")],
    );
    assert_eq!(slow.catalogue, fast.catalogue);
    for (slow, fast) in slow.trace.sessions.iter().zip(&fast.trace.sessions) {
        assert_eq!((&slow.plan, slow.class), (&fast.plan, fast.class));
        assert!(slow.arrival.0.abs_diff(2 * fast.arrival.0) <= 2, "{slow:?}");
    }
}

#[test]
fn network_and_seed_change_only_their_own_draws() {
    let base = workload("youtube-sd", &[("sessions.count", "300")]);
    let free = workload(
        "youtube-sd",
        &[("sessions.count", "300"), ("requests.throttled", "false")],
    );
    let plans = |workload: &Workload| -> Vec<SessionPlan> {
        workload
            .trace
            .sessions
            .iter()
            .map(|session| session.plan.clone())
            .collect()
    };
    assert_eq!(plans(&base), plans(&free));
    assert!(
        free.trace
            .classes
            .iter()
            .all(|class| class.bandwidth.is_none())
    );
    let other = generate(&with("youtube-sd", &[("sessions.count", "300")]), 2);
    assert_eq!(base.catalogue, other.catalogue);
    assert_ne!(plans(&base), plans(&other));
}

#[test]
fn sd_and_hd_viewers_share_one_disk() {
    let [sd, hd] = ["youtube-sd", "youtube-hd"].map(|name| Catalogue::of(&with(name, &[])));
    assert_eq!(sd, hd);
    assert_eq!(sd.titles.len(), 28_000);
    // 1 TB drives hold 931 GiB; emulated catalogues had 755 GiB.
    let gibibytes = sd.file_bytes() >> 30;
    assert!((740..800).contains(&gibibytes), "{gibibytes}");
    // Intermixed: every tenth of the disk has its share of HD.
    for tenth in sd.creation_order.chunks(2800) {
        let hd_count = tenth.iter().filter(|number| **number >= 20_000).count();
        assert!((700..900).contains(&hd_count), "{hd_count} of 2800");
    }
}

#[test]
fn storage_forms_get_same_bytes_at_same_times() {
    let forms = ["off", "512KiB", "2MiB"].map(|chunk| {
        workload(
            "youtube-2011",
            &[("sessions.count", "200"), ("catalogue.chunk", chunk)],
        )
    });
    let bytes = |workload: &Workload| -> Vec<u64> {
        let asked = |session: &Session| {
            session
                .calls()
                .iter()
                .filter_map(|call| call.expected_bytes)
                .sum()
        };
        workload.trace.sessions.iter().map(asked).collect()
    };
    let arrivals = |workload: &Workload| -> Vec<Duration> {
        workload
            .trace
            .sessions
            .iter()
            .map(|session| session.arrival)
            .collect()
    };
    for form in &forms[1..] {
        assert_eq!(bytes(&forms[0]), bytes(form));
        assert_eq!(arrivals(&forms[0]), arrivals(form));
        assert_eq!(
            forms[0].catalogue.fingerprint(),
            form.catalogue.fingerprint()
        );
        assert_eq!(forms[0].catalogue.file_bytes(), form.catalogue.file_bytes());
    }
    // 0.5 MB files are requested whole, parts of larger ones by ranges.
    assert!(calls(&forms[1].trace).all(|call| call.range.is_none()));
    assert!(calls(&forms[2].trace).all(|call| call.range.is_some()));
}

#[test]
fn request_larger_than_chunk_file_becomes_several_calls() {
    let overrides = [("sessions.count", "50"), ("catalogue.chunk", "512KiB")];
    let small = workload("youtube-2011-2mb", &overrides);
    let large = workload("youtube-2011-2mb", &overrides[..1]);
    assert_eq!(calls(&small.trace).count(), 4 * calls(&large.trace).count());
    let paced = |trace: &Trace| calls(trace).filter(|call| call.pace.is_some()).count();
    assert_eq!(paced(&small.trace), paced(&large.trace));
}

#[test]
fn ranges_stay_in_files_and_paths_locate_titles() {
    let mixes: [&[(&str, &str)]; 5] = [
        &[
            ("viewing.pause", "0.1"),
            ("viewing.skip", "0.2"),
            ("viewing.early_end", "0.1"),
        ],
        &[("catalogue.chunk", "700000B"), ("requests.size", "300000B")],
        &[("catalogue.pad", "1B"), ("requests.connections", "3")],
        &[("title.sd.segment_variation", "0.5")],
        &[
            ("title.sd.segment_variation", "0.5"),
            ("viewing.start", "random-segment"),
        ],
    ];
    for mix in mixes {
        let mut overrides = mix.to_vec();
        overrides.extend([("sessions.count", "300"), ("title.sd.count", "50")]);
        let Workload { catalogue, trace } = workload("youtube-2011", &overrides);
        let mut sizes = BTreeMap::new();
        for title in &catalogue.titles {
            assert!(title.file_bytes >= title.bytes && title.bytes > 0);
            for file in catalogue.files(title) {
                let place = crate::locate(&file.path, catalogue.form.chunk_bytes());
                assert_eq!(place, Some((u64::from(title.number), file.range.start)));
                sizes.insert(file.path, file.range.len());
            }
        }
        for call in calls(&trace) {
            let size = sizes[&trace.objects[call.object.0 as usize]];
            let range = call.range.unwrap_or(ByteRange::new(0, size));
            assert!(
                range.end <= size && !range.is_empty(),
                "{mix:?}: {call:?} of {size}"
            );
            assert_eq!(call.expected_bytes, Some(range.len()));
        }
        assert!(
            trace
                .sessions
                .iter()
                .all(|session| !session.calls().is_empty())
        );
    }
}

#[test]
fn first_requests_are_unpaced_and_others_paced() {
    let trace = workload("youtube-2011-2mb", &[("sessions.count", "100")]).trace;
    for session in &trace.sessions {
        for (index, call) in session.calls().iter().enumerate() {
            assert_eq!(call.pace, (index >= 3).then_some(Duration::from_secs(40)));
            assert_eq!(call.timeout, Some(Duration::from_secs(40)));
        }
    }
    let trace = workload(
        "youtube-2011",
        &[("sessions.count", "50"), ("requests.pacing", "false")],
    )
    .trace;
    assert!(calls(&trace).all(|call| call.pace.is_none()));
}

#[test]
fn parallel_connections_request_in_bursts() {
    let overrides = [("sessions.count", "50"), ("requests.connections", "2")];
    let trace = workload("youtube-2011", &overrides).trace;
    for session in &trace.sessions {
        for (index, call) in session.calls().iter().enumerate() {
            assert_eq!(call.with_previous, index % 2 == 1);
            let pace = (index >= 4 && index % 2 == 0).then_some(Duration::from_secs(20));
            assert_eq!(call.pace, pace, "call {index}");
        }
    }
}

#[test]
fn open_ended_session_sends_one_request() {
    let overrides = [
        ("sessions.count", "50"),
        ("requests.open_ended", "true"),
        ("requests.timeout", "off"),
    ];
    let Workload { catalogue, trace } = workload("youtube-2011", &overrides);
    for session in &trace.sessions {
        let [call] = session.calls() else {
            panic!("{session:?}");
        };
        let path = &trace.objects[call.object.0 as usize];
        let (title, _) = crate::locate(path, None).expect("a title");
        assert_eq!(call.range, Some(ByteRange::new(0, u64::MAX)));
        let bytes = catalogue.titles[title as usize].file_bytes;
        assert_eq!((call.expected_bytes, call.timeout), (Some(bytes), None));
    }
}

#[test]
fn pause_delays_and_skip_refills_buffer() {
    let overrides = [
        ("sessions.count", "400"),
        ("viewing.pause", "0.2"),
        ("viewing.pause_time", "30s"),
    ];
    let trace = workload("youtube-2011", &overrides).trace;
    let waits: BTreeMap<u64, usize> = calls(&trace).fold(BTreeMap::new(), |mut waits, call| {
        *waits
            .entry(call.pace.unwrap_or_default().0 / 1_000_000_000)
            .or_default() += 1;
        waits
    });
    assert_eq!(waits.keys().copied().collect::<Vec<_>>(), [0, 10, 30, 40]);
    let overrides = [("sessions.count", "100"), ("viewing.skip", "1.0")];
    let trace = workload("youtube-2011", &overrides).trace;
    assert!(
        calls(&trace).all(|call| call.pace.is_none()),
        "every request follows a skip"
    );
}

#[test]
fn durations_fractions_and_arrivals_follow_distributions() {
    let specification = with("youtube-2011", &[("title.sd.median_durations", "0")]);
    let Workload { catalogue, trace } = generate(&specification, 7);
    let durations = catalogue
        .titles
        .iter()
        .map(|title| title.duration.as_secs_f64())
        .collect();
    let duration = &specification.groups[0].durations.law;
    assert!(distance(durations, law(duration)) < 1.95);
    let mut gaps = Vec::new();
    let mut before = Duration::ZERO;
    for session in &trace.sessions {
        gaps.push((session.arrival - before).as_secs_f64());
        before = session.arrival;
    }
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let exponential = |gap: f64| 1.0 - libm::exp(-gap.max(0.0) / mean);
    assert!(distance(gaps, exponential) < 1.95);
    // A title of 1000 requests resolves the fraction to a thousandth.
    let overrides = [
        ("title.sd.durations", "10000s"),
        ("title.sd.count", "1"),
        ("viewing.start", "beginning"),
    ];
    let trace = workload("youtube-2011", &overrides).trace;
    let requests = trace
        .sessions
        .iter()
        .map(|session| session.calls().len() as f64);
    let fractions = requests.map(|requests| requests / 1000.0).collect();
    let fraction = &specification.viewing.fraction.law;
    assert!(distance(fractions, law(fraction)) < 1.95);
}

#[test]
fn popularity_follows_zipf_and_classes_their_shares() {
    let trace = workload("youtube-2011", &[("title.sd.count", "500")]).trace;
    let zipf = Zipf::new(500, 0.8);
    let (mut ranks, mut classes) = (std::vec![0u32; 500], [0u32; 3]);
    for session in &trace.sessions {
        let path = &trace.objects[session.calls()[0].object.0 as usize];
        let (title, _) = crate::locate(path, None).expect("a title");
        ranks[title as usize] += 1;
        classes[session.class as usize] += 1;
    }
    let (mut expected, mut seen, mut largest) = (0.0, 0.0, 0.0f64);
    for (rank, count) in ranks.iter().enumerate() {
        expected += zipf.probability(rank);
        seen += f64::from(*count) / 7200.0;
        largest = largest.max(libm::fabs(expected - seen));
    }
    assert!(largest * libm::sqrt(7200.0) < 1.95, "{largest}");
    // Four standard deviations of 7,200 draws with 5, 5 and 2 chances in 12.
    for (count, expected) in classes.iter().zip([3000u32, 3000, 1200]) {
        assert!(count.abs_diff(expected) < 170, "{classes:?}");
    }
}

#[test]
fn two_most_popular_titles_have_median_duration() {
    let catalogue = Catalogue::of(&with("youtube-2011", &[]));
    let median = with("youtube-2011", &[]).groups[0]
        .durations
        .law
        .quantile(0.5);
    for title in &catalogue.titles[..2] {
        assert!(libm::fabs(title.duration.as_secs_f64() - median) < 0.001);
    }
    assert_ne!(catalogue.titles[2].duration, catalogue.titles[1].duration);
}

#[test]
fn flashstream_requests_single_segments_at_constant_rate() {
    let Workload { catalogue, trace } = workload("flashstream", &[("sessions.count", "5000")]);
    let gigabytes = catalogue.file_bytes() as f64 / 1e9;
    assert!(
        (520.0..570.0).contains(&gigabytes),
        "{gigabytes}: FlashStream 5.1 has 545 GB"
    );
    let gap = trace.sessions[1].arrival - trace.sessions[0].arrival;
    assert!(gap.0.abs_diff(1_000_000_000 / 26) <= 1);
    let mut sizes: Vec<u64> = calls(&trace)
        .filter_map(|call| call.expected_bytes)
        .collect();
    assert_eq!(sizes.len(), 5000);
    sizes.sort_unstable();
    sizes.dedup();
    assert!(sizes.len() > 1000, "segments of variable bit rate differ");
    let ends: BTreeMap<u64, &Title> = catalogue
        .titles
        .iter()
        .map(|title| (u64::from(title.number), title))
        .collect();
    for call in calls(&trace) {
        let (number, _) =
            crate::locate(&trace.objects[call.object.0 as usize], None).expect("a title");
        let range = call.range.expect("a range");
        let title = ends[&number];
        assert!(title.segment_ends.contains(&range.end));
        assert!(range.start == 0 || title.segment_ends.contains(&range.start));
    }
}

#[test]
fn most_requested_ranges_warm_cache() {
    let trace = workload(
        "youtube-2011",
        &[("sessions.count", "2000"), ("sessions.warming", "10")],
    )
    .trace;
    assert_eq!(trace.about.warming.len(), 10);
    let times = |warming: &WarmupRange| {
        calls(&trace)
            .filter(|call| (call.object, call.range) == (warming.object, warming.range))
            .count()
    };
    let times: Vec<usize> = trace.about.warming.iter().map(times).collect();
    assert!(
        times.is_sorted_by(|a, b| a >= b) && times[9] > 10,
        "{times:?}"
    );
}

#[test]
fn session_stream_equals_generated_trace() {
    for name in ["youtube-sd", "youtube-2011", "flashstream"] {
        let overrides: &[_] = match name {
            "flashstream" => &[("sessions.length", "60s")],
            "youtube-2011" => &[("sessions.count", "300"), ("catalogue.chunk", "512KiB")],
            _ => &[("sessions.count", "300")],
        };
        let specification = with(name, overrides);
        let whole = generate(&specification, 7);
        let mut stream = SessionStream::new(&specification, &whole.catalogue, 7);
        let drawn: Vec<Session> = (&mut stream).collect();
        assert_eq!(drawn, whole.trace.sessions, "{name}");
        assert_eq!(stream.object_count(), whole.trace.objects.len());
        for (path, id) in whole.trace.objects.iter().zip(0..) {
            let (number, start) = stream.object(ObjectId(id)).expect("named");
            let title = &whole.catalogue.titles[number as usize];
            let mut files = whole.catalogue.files(title);
            let file = files
                .find(|file| file.range.start == start)
                .expect("a file");
            assert_eq!(&file.path, path);
        }
    }
}

#[test]
fn load_steps_change_only_arrivals() {
    let specification = with("youtube-sd", &[("sessions.count", "4000")]);
    let catalogue = Catalogue::of(&specification);
    let stream = || SessionStream::new(&specification, &catalogue, 3);
    let steps = [(Duration::ZERO, 0.5), (Duration::from_secs(600), 2.0)];
    let plain: Vec<Session> = stream().collect();
    let stepped: Vec<Session> = stream().with_steps(steps).collect();
    assert!(
        plain
            .iter()
            .zip(&stepped)
            .all(|(a, b)| a.plan == b.plan && a.class == b.class)
    );
    let within = |sessions: &[Session], from: u64, to: u64| {
        let (from, to) = (Duration::from_secs(from), Duration::from_secs(to));
        sessions
            .iter()
            .filter(|s| (from..to).contains(&s.arrival))
            .count() as f64
    };
    let (before, after) = (
        within(&stepped, 0, 600) / within(&plain, 0, 600),
        within(&stepped, 600, 900) / within(&plain, 600, 900),
    );
    assert!((0.4..0.6).contains(&before), "{before}");
    assert!((1.7..2.3).contains(&after), "{after}");
}

#[test]
fn resumed_viewers_raise_load_to_steady_state() {
    let sets = [("sessions.length", "1200s"), ("sessions.rate", "40MiB/s")];
    let specification = with("youtube-sd", &sets);
    let resuming = [&sets[..], &[("sessions.resume_time", "100s")]].concat();
    let resuming = with("youtube-sd", &resuming);
    let catalogue = Catalogue::of(&specification);
    let of = |specification| SessionStream::new(specification, &catalogue, 3).collect();
    let (plain, with_resumed): (Vec<Session>, Vec<Session>) = (of(&specification), of(&resuming));
    assert!(with_resumed.is_sorted_by_key(|session| session.arrival));
    // New viewers stay the same.
    let known = |session: &Session| (session.arrival, session.class, session.calls().len());
    let mut rest = with_resumed.iter().map(known);
    let comes = |session: &Session| rest.any(|other| other == known(session));
    assert!(plain.iter().all(comes));
    // Bytes watched in each minute, at one call for each ten seconds.
    let watched = |sessions: &[Session], from: u64, to: u64| {
        let range = Duration::from_secs(from)..Duration::from_secs(to);
        let calls = sessions.iter().map(|session| {
            let places = 0..session.calls().len() as u64;
            let at = |place: u64| session.arrival + Duration::from_secs(10 * place);
            places.filter(|place| range.contains(&at(*place))).count()
        });
        calls.sum::<usize>() as f64
    };
    let steady = watched(&plain, 600, 1_200) / 10.0;
    let resumed = |from| watched(&with_resumed, from, from + 60) / steady;
    assert!(watched(&plain, 0, 60) / steady < 0.35);
    assert!((0.4..0.75).contains(&resumed(0)), "{}", resumed(0));
    for from in [120, 180, 240, 300] {
        assert!((0.9..1.12).contains(&resumed(from)), "{}", resumed(from));
    }
}

#[test]
fn resumed_viewer_continues_with_empty_buffer() {
    let sets = [
        ("sessions.length", "1s"),
        ("sessions.rate", "40MiB/s"),
        ("sessions.resume_time", "1s"),
    ];
    let trace = workload("youtube-sd", &sets).trace;
    assert!(trace.sessions.len() > 400, "{}", trace.sessions.len());
    let mut in_midst = 0;
    for session in &trace.sessions {
        let calls = session.calls();
        let starts = calls.iter().map(|call| call.range.expect("a range").start);
        assert!(starts.clone().is_sorted());
        in_midst += usize::from(starts.min() > Some(0));
        assert!(calls.iter().take(3).all(|call| call.pace.is_none()));
        assert!(calls.iter().skip(3).all(|call| call.pace.is_some()));
    }
    assert!(in_midst * 10 > trace.sessions.len() * 8, "{in_midst}");
}
