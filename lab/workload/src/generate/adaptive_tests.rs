use std::collections::{BTreeMap, BTreeSet};
use std::string::ToString as _;

use headlong_player::RateRule;

use super::*;
use crate::specification::{Mistakes, Specification};
use crate::summary::TraceSummary;
use crate::trace::{Session, Trace, WarmupRange};
use crate::{SessionStream, Workload, generate, ideal_server};
use headlong_player::{AdaptivePlan, SessionPlan};
use headlong_units::BitRate;

fn read(overrides: &[(&str, &str)]) -> Result<Specification, Mistakes> {
    let overrides: Vec<_> = overrides
        .iter()
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect();
    Specification::preset("dash-vod", &overrides)
}

fn with(overrides: &[(&str, &str)]) -> Specification {
    read(overrides).unwrap_or_else(|errors| panic!("{errors}"))
}

fn workload(overrides: &[(&str, &str)]) -> Workload {
    let mut all = std::vec![("sessions.count", "300"), ("title.dash.count", "100")];
    all.extend(overrides);
    generate(&with(&all), 1)
}

fn plans(trace: &Trace) -> impl Iterator<Item = (&Session, &AdaptivePlan)> {
    trace
        .sessions
        .iter()
        .filter_map(|session| match &session.plan {
            SessionPlan::Adaptive(plan) => Some((session, plan)),
            _ => None,
        })
}

/// FNV-1a.
fn hash(text: &str) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// Depends on the format and the draws only: a change invalidates all recorded results.
const GOLDEN: u64 = 7_506_596_730_306_391_509;

#[test]
fn adaptive_golden_trace_is_unchanged() {
    let text = |seed| {
        let trace = generate(&with(&[("sessions.count", "200")]), seed).trace;
        trace.to_text()
    };
    assert_eq!(text(1), text(1));
    assert_ne!(text(1), text(2));
    assert_eq!(hash(&text(1)), GOLDEN, "traces of old seeds changed");
}

#[test]
fn generated_trace_round_trips() {
    for overrides in [
        &[][..],
        &[("title.dash.segment_variation", "0.4")],
        &[("player.rule", "throughput")],
    ] {
        let trace = workload(overrides).trace;
        let text = trace.to_text();
        let back = Trace::read(text.as_bytes()).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(back, trace);
    }
}

#[test]
fn rendition_is_a_title_that_leads_to_its_work() {
    let catalogue = workload(&[]).catalogue;
    assert_eq!(catalogue.titles.len(), 500);
    for title in &catalogue.titles {
        assert_eq!(
            (title.rank, title.rendition),
            (title.number / 5, title.number % 5)
        );
        let work = catalogue.renditions(title);
        assert_eq!(work.len(), 5);
        assert_eq!(&work[title.rendition as usize], title);
        assert!(work.iter().all(|other| other.duration == title.duration));
        assert_eq!(
            title.duration,
            title.segment_time.times(u64::from(title.segments()))
        );
        assert_eq!(title.header_bytes, 16 * u64::from(title.segments()));
        let segments = u64::from(title.segments()) * title.segment_bytes;
        assert_eq!(title.bytes, segments);
        assert!(title.file_bytes >= title.header_bytes + segments);
    }
    let kbps = |title: &Title| bit_rate(title.segment_bytes, title.segment_time).0 / 1000;
    let ladder: Vec<u64> = catalogue.titles[..5].iter().map(kbps).collect();
    assert_eq!(ladder, [235, 560, 1050, 2350, 4300]);
}

#[test]
fn variable_segment_sizes_agree_across_renditions() {
    let catalogue = workload(&[("title.dash.segment_variation", "0.4")]).catalogue;
    for work in catalogue.titles.chunks(5) {
        let lowest = &work[0];
        for title in work {
            assert_eq!(title.segments(), lowest.segments());
            let ratio = title.segment_bytes as f64 / lowest.segment_bytes as f64;
            for (end, low) in title.segment_ends.iter().zip(&lowest.segment_ends) {
                let off = *end as f64 / (*low as f64 * ratio) - 1.0;
                assert!(libm::fabs(off) < 1e-3, "{off}");
            }
        }
    }
}

#[test]
fn plans_are_valid_and_within_their_files() {
    for overrides in [
        &[][..],
        &[("title.dash.segment_variation", "0.4")],
        &[("viewing.start", "random-segment")],
        &[("viewing.early_end", "0.2"), ("viewing.skip", "0.3")],
        &[
            ("catalogue.pad", "1B"),
            ("title.dash.table_entry_bytes", "0"),
        ],
    ] {
        let Workload { catalogue, trace } = workload(overrides);
        assert_eq!(plans(&trace).count(), 300);
        for (_, plan) in plans(&trace) {
            assert_eq!(plan.check(), []);
            assert!(!plan.acts.is_empty());
            for index in 0..plan.title.renditions.len() {
                let mut end = None;
                for segment in 0..plan.title.segments {
                    let place = plan.title.place(index, segment).expect("a place");
                    let range = place.range.expect("a range");
                    let path = &trace.objects[place.object.0 as usize];
                    let (number, _) = crate::locate(path, None).expect("a title");
                    let title = &catalogue.titles[number as usize];
                    assert_eq!(title.rendition as usize, index);
                    assert_eq!(range.start, end.unwrap_or(title.header_bytes));
                    end = Some(range.end);
                    assert!(range.end <= title.file_bytes);
                }
            }
        }
    }
}

#[test]
fn viewers_act_with_specified_probabilities() {
    let count = |overrides: &[(&str, &str)]| {
        let mut overrides = overrides.to_vec();
        overrides.push(("viewing.fraction", "whole"));
        let trace = workload(&overrides).trace;
        let mut counts = (0, 0, 0.0, 0.0);
        for (_, plan) in plans(&trace) {
            counts.3 += plan.title.length().as_secs_f64();
            for act in &plan.acts {
                match act {
                    ViewerAction::Watch(time) => counts.2 += time.as_secs_f64(),
                    ViewerAction::Pause(time) => {
                        assert_eq!(*time, Duration::from_secs(7));
                        counts.0 += 1;
                    }
                    ViewerAction::Skip(segment) => {
                        assert!(*segment < plan.title.segments);
                        counts.1 += 1;
                    }
                }
            }
        }
        counts
    };
    let none = [("viewing.pause", "0"), ("viewing.skip", "0")];
    let (pauses, skips, watched, length) = count(&none);
    assert_eq!((pauses, skips, watched), (0, 0, length));
    let pausing = [
        ("viewing.pause", "0.1"),
        ("viewing.pause_time", "7s"),
        none[1],
    ];
    let (pauses, _, watched, _) = count(&pausing);
    assert_eq!(watched, length);
    // Before each segment but the first.
    let chances = length / 4.0 - 300.0;
    let expected = 0.1 * chances;
    assert!(
        libm::fabs(f64::from(pauses) - expected) < 4.0 * libm::sqrt(expected),
        "{pauses}"
    );
    let (_, skips, ..) = count(&[("viewing.skip", "0.02"), none[0]]);
    assert!(skips > 100, "{skips}");
    let (.., watched, _) = count(&[("viewing.early_end", "0.25"), none[0], none[1]]);
    // Four segments on average, and fewer where titles are short.
    assert!(
        (0.85..1.02).contains(&(watched / 300.0 / 16.0)),
        "{watched}"
    );
}

#[test]
fn session_stream_equals_generated_adaptive_trace() {
    let specification = with(&[("sessions.count", "300"), ("title.dash.count", "100")]);
    let whole = generate(&specification, 7);
    let mut stream = SessionStream::new(&specification, &whole.catalogue, 7);
    let drawn: Vec<Session> = (&mut stream).collect();
    assert_eq!(drawn, whole.trace.sessions);
    assert_eq!(stream.object_count(), whole.trace.objects.len());
    let titles: BTreeSet<_> = plans(&whole.trace)
        .map(|(_, plan)| Arc::as_ptr(&plan.title))
        .collect();
    assert_eq!(
        titles.len() * 5,
        whole.trace.objects.len(),
        "titles are shared"
    );
    // A viewer who arrives after others have left gets the same title.
    let mut stream = SessionStream::new(&specification, &whole.catalogue, 7);
    for session in &whole.trace.sessions {
        assert_eq!(stream.next().as_ref(), Some(session));
    }
}

#[test]
fn rate_network_and_player_do_not_change_titles() {
    let base = workload(&[]);
    let acts = |workload: &Workload| -> Vec<Vec<ViewerAction>> {
        plans(&workload.trace)
            .map(|(_, plan)| plan.acts.clone())
            .collect()
    };
    for overrides in [
        ("sessions.rate", "40MiB/s"),
        ("requests.throttled", "false"),
        ("player.buffer_high", "60s"),
    ] {
        let other = workload(&[overrides]);
        assert_eq!(acts(&base), acts(&other), "{overrides:?}");
    }
    let other = workload(&[("sessions.rate", "40MiB/s")]);
    for (slow, fast) in base.trace.sessions.iter().zip(&other.trace.sessions) {
        assert!(slow.arrival.0.abs_diff(2 * fast.arrival.0) <= 2);
    }
}

#[test]
fn byte_rate_is_met_with_ideal_server() {
    let trace = generate(&with(&[("sessions.count", "3000")]), 1).trace;
    let summary = TraceSummary::of(&trace);
    let mib = summary.bytes_per_second() / 1_048_576.0;
    assert!((18.5..21.5).contains(&mib), "{mib}");
    let adaptive = summary.adaptive.expect("players that adapt");
    assert_eq!(adaptive.sessions, 3000);
    assert_eq!((adaptive.stalled, adaptive.calls_failed), (0, 0));
    assert!(
        (1000.0..4300.0).contains(&adaptive.kbps_mean),
        "{adaptive:?}"
    );
}

#[test]
fn faster_network_gets_higher_bit_rate() {
    let trace = workload(&[]).trace;
    let mut means = std::vec![(0.0, 0.0); trace.classes.len()];
    for session in &trace.sessions {
        let class = &trace.classes[session.class as usize];
        let end = ideal_server::watch(&session.plan, class, &mut |_| {}).end;
        let rate = end.and_then(|end| end.bit_rate).expect("it watched");
        let mean = &mut means[session.class as usize];
        *mean = (mean.0 + rate.0 as f64 / 1e3, mean.1 + 1.0);
    }
    let [high, bband, medium] = means[..] else {
        panic!("{means:?}");
    };
    let mean = |(sum, count): (f64, f64)| sum / count;
    assert!(mean(high) > 1.3 * mean(bband), "{means:?}");
    assert!(mean(bband) > 1.3 * mean(medium), "{means:?}");
}

#[test]
fn simple_player_selects_sustainable_rendition() {
    let text = "name = \"mixed\"\n[title.a]\ncount = 20\nsegment_time = \"10s\"\n\
                renditions = [\"500kbps\", \"1Mbps\", \"3Mbps\"]\ntable_entry_bytes = 8\n\
                [player.tv]\nkind = \"simple\"\nshare = 3\n[player.phone]\nrule = \"bola\"\n\
                [network.slow]\nbandwidth = \"400kbps\"\n[network.middle]\nbandwidth = \"2Mbps\"\n\
                [network.fast]\nshare = 1\n";
    let specification = Specification::read("a.toml", text, &[]);
    let specification = specification.unwrap_or_else(|errors| panic!("{errors}"));
    let Workload { catalogue, trace } = generate(&specification, 1);
    let adaptive = plans(&trace).count();
    assert!((200..300).contains(&adaptive), "{adaptive} of 1000");
    let phone = specification.players[1].make.as_ref().expect("it adapts");
    assert_eq!(
        phone.rule,
        RateRule::Bola {
            low: Duration::from_secs(10)
        }
    );
    let mut seen = BTreeSet::new();
    for session in &trace.sessions {
        for call in session.calls() {
            let path = &trace.objects[call.object.0 as usize];
            let (number, _) = crate::locate(path, None).expect("a title");
            let title = &catalogue.titles[number as usize];
            assert_eq!(title.rendition, session.class);
            let range = call.range.expect("a range");
            let behind = range.start - title.header_bytes;
            assert_eq!(behind % title.segment_bytes, 0);
            assert!(range.end <= title.file_bytes);
            seen.insert(title.rendition);
        }
        if let SessionPlan::Script(script) = &session.plan {
            let rate = script.playback.expect("it is shown").bit_rate;
            assert_eq!(
                rate,
                [500, 1000, 3000].map(BitRate::from_kbps)[session.class as usize]
            );
        }
    }
    assert_eq!(seen.len(), 3);
    let text = trace.to_text();
    assert_eq!(Trace::read(text.as_bytes()).as_ref(), Ok(&trace));
}

#[test]
fn segment_files_are_requested_without_ranges() {
    for variation in ["0", "0.4"] {
        let workload = |chunk| {
            workload(&[
                ("catalogue.chunk", chunk),
                ("title.dash.segment_variation", variation),
            ])
        };
        let Workload { catalogue, trace } = workload("segment");
        let files: BTreeMap<_, _> = catalogue
            .titles
            .iter()
            .flat_map(|title| catalogue.files(title))
            .map(|file| (file.path.clone(), file))
            .collect();
        let mut odd = 0;
        for (_, plan) in plans(&trace) {
            assert_eq!(plan.check(), []);
            for rendition in &plan.title.renditions {
                let SegmentTable::Table(places) = &rendition.segments else {
                    panic!("{:?}", rendition.segments);
                };
                for place in places.iter().chain(&rendition.header) {
                    let path = &trace.objects[place.object.0 as usize];
                    let file = &files[path];
                    assert_eq!((place.range, place.bytes), (None, Some(file.range.len())));
                    let said = (u64::from(file.title), file.content_offset);
                    assert_eq!(crate::locate(path, None), Some(said));
                    odd += u64::from(file.range.start != file.content_offset);
                }
            }
        }
        assert!(odd > 0, "segments are not whole words");
        // Viewers act independently of the form of storage. They arrive at the same rate in bytes;
        // the padding is requested with the last file, and of single files only with equal
        // segments.
        let single = workload("off").trace;
        let acts = |trace| plans(trace).map(|(_, plan)| plan.acts.clone());
        assert!(acts(&trace).eq(acts(&single)));
        let arrivals = |trace| plans(trace).map(|(session, _)| session.arrival);
        assert_eq!(arrivals(&trace).eq(arrivals(&single)), variation == "0");
        let text = trace.to_text();
        assert_eq!(Trace::read(text.as_bytes()).as_ref(), Ok(&trace));
    }
}

#[test]
fn files_of_a_title_cover_it_consecutively() {
    for chunk in ["off", "segment"] {
        let changes = [("catalogue.chunk", chunk), ("title.dash.count", "20")];
        let catalogue = Catalogue::of(&with(&changes));
        for title in &catalogue.titles {
            let mut end = 0;
            for file in catalogue.files(title) {
                assert_eq!(file.range.start, end);
                assert!(file.content_offset % 8 == 0 && end - file.content_offset < 8);
                // A byte leads to its file.
                let last = ByteRange::new(file.range.end - 1, file.range.end);
                assert!(catalogue.files_of(title, last).eq([file.clone()]));
                end = file.range.end;
            }
            assert_eq!(end, title.file_bytes);
            let count = catalogue.files(title).count() as u64;
            assert_eq!(catalogue.file_count(title), count);
            let (header, segments) = (1, u64::from(title.segments()));
            assert_eq!(count, if chunk == "off" { 1 } else { header + segments });
        }
    }
}

#[test]
fn warming_uses_requests_to_an_ideal_server() {
    for chunk in ["off", "segment"] {
        let trace = workload(&[("catalogue.chunk", chunk), ("sessions.warming", "40")]).trace;
        let mut asked = BTreeMap::new();
        for session in &trace.sessions {
            let class = &trace.classes[session.class as usize];
            ideal_server::watch(&session.plan, class, &mut |sent| {
                *asked.entry((sent.object, sent.range)).or_insert(0) += 1;
            });
        }
        let times = |warming: &WarmupRange| asked[&(warming.object, warming.range)];
        let warmed: Vec<u32> = trace.about.warming.iter().map(times).collect();
        let mut most: Vec<u32> = asked.values().copied().collect();
        most.sort_by_key(|times| core::cmp::Reverse(*times));
        assert_eq!(warmed, most[..40]);
        assert!(warmed[0] > warmed[39], "{warmed:?}");
    }
}

#[test]
fn reports_all_conflicts_with_adaptive_players() {
    let errors = read(&[
        ("catalogue.chunk", "512KiB"),
        ("sessions.warming", "10"),
        ("requests.pacing", "false"),
        ("player.request_segments", "open-ended"),
        ("title.dash.segment_variation", "0.3"),
        ("player.rule", "dynamc"),
        ("player.safety", "high"),
        ("player.start_buffer", "2min"),
        ("player.probing_every", "5min"),
        ("player.bufer_high", "40s"),
        ("player.cushion", "40s"),
        ("title.dash.renditions", "[\"2Mbps\", \"1Mbps\"]"),
    ])
    .expect_err("all of it is wrong")
    .to_string();
    let expected = "\
--set catalogue.chunk: adaptive players request whole segments; write \"segment\" or \"off\"
--set player.bufer_high: unknown key; did you mean `player.buffer_high`?
--set player.cushion: is valid only with rule buffer; remove it, or set that
--set player.probing_every: is no longer a setting; remove it, or generate the trace again; devices of workloads of phases try several files
--set player.rule: `dynamc` is unknown (did you mean `dynamic`?); the names are fixed, throughput, buffer, bola, dynamic
--set player.safety: `high` does not fit; write a number such as 0.5
--set player.start_buffer: start_buffer is more than buffer_high
--set requests.pacing: is for simple players, but all are adaptive; remove it, or see the keys of [player]
--set sessions.warming: adaptive players may abandon an open-ended request at any byte, so its range is unknown; write 0, or request_segments = 1
--set title.dash.renditions: 1000kbps is not above 2000kbps; write them upwards
--set title.dash.segment_variation: open-ended requests of adaptive players need segments of one size; write 0, or request_segments = 1";
    assert_eq!(errors, expected);
}

#[test]
fn overridden_rule_ignores_keys_of_old_rule() {
    let rule = |overrides: &[(&str, &str)]| {
        let specification = with(overrides);
        specification.players[0].make.as_ref().map(|make| make.rule)
    };
    assert_eq!(
        rule(&[("player.rule", "throughput")]),
        Some(RateRule::Throughput)
    );
    // Shares of a buffer of 30 s as Huang et al. have of theirs of 240 s.
    let buffer = RateRule::Buffer {
        reservoir: Duration::from_millis(11_250),
        cushion: Duration::from_millis(15_750),
    };
    assert_eq!(rule(&[("player.rule", "buffer")]), Some(buffer));
    assert_eq!(rule(&[("player.kind", "simple")]), None);
    let trace = workload(&[("player.kind", "simple")]).trace;
    assert!(
        trace
            .sessions
            .iter()
            .all(|session| !session.calls().is_empty())
    );
}

#[test]
fn renditions_and_sizes_exclude_each_other() {
    let with_sizes = [("title.dash.segment_bytes", "256KiB")];
    let specification = with(&with_sizes);
    assert_eq!(specification.groups[0].renditions, []);
    assert_eq!(specification.groups[0].files_per_work(), 1);
    // One rendition is enough to adapt nothing and keep a buffer.
    let plan = workload(&with_sizes).trace.sessions[0].plan.clone();
    assert!(matches!(plan, SessionPlan::Adaptive(plan) if plan.title.renditions.len() == 1));
    let text = "[title.a]\ncount = 1\nsegment_bytes = \"1MiB\"\nrenditions = [\"1Mbps\"]\n\
                [title.b]\ncount = 1\nrenditions = []\n\
                [title.c]\ncount = 1\nrenditions = [\"1Mbps\", 5]\n\
                [player]\nkind = \"simple\"\nlow = \"5s\"\n";
    let errors = Specification::read("a.toml", text, &[]).expect_err("wrong");
    let expected = "\
a.toml:4: title.a.renditions: contradicts title.a.segment_bytes; write one of the two
a.toml:7: title.b.renditions: is empty; write bit rates, upwards, or remove it
a.toml:10: title.c.renditions: `5` has no unit; write a bit rate such as \"2000kbps\"
a.toml:13: player.low: is for adaptive players; remove it, or write kind = \"adaptive\"";
    assert_eq!(errors.to_string(), expected);
}

#[test]
fn catalogue_without_renditions_keeps_fingerprint() {
    // The fingerprint in all traces and folders of the preset.
    let specification = Specification::preset("youtube-sd", &[]).expect("a preset");
    assert_eq!(
        Catalogue::of(&specification).fingerprint(),
        0xc64c_15a4_86bc_52b6
    );
}

#[test]
fn resumed_adaptive_viewer_starts_at_its_segment() {
    let segment = Duration::from_secs(4);
    let seconds = Duration::from_secs;
    let acts = || {
        alloc::vec![
            ViewerAction::Watch(seconds(10)),
            ViewerAction::Pause(seconds(50)),
            ViewerAction::Skip(30),
            ViewerAction::Watch(seconds(9))
        ]
    };
    let left = |seen| after(acts(), seconds(seen), segment);
    assert_eq!(left(0), acts());
    let rest = [
        ViewerAction::Pause(seconds(50)),
        ViewerAction::Skip(30),
        ViewerAction::Watch(seconds(9)),
    ];
    assert_eq!(
        left(5),
        [
            &[ViewerAction::Skip(1), ViewerAction::Watch(seconds(5))],
            &rest[..]
        ]
        .concat()
    );
    assert_eq!(
        left(65),
        [ViewerAction::Skip(31), ViewerAction::Watch(seconds(4))]
    );
    assert_eq!(left(69), []);
}
