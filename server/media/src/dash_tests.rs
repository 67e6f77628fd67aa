use super::*;
use proptest::prelude::*;
use std::string::ToString;
use std::{format, vec};

use crate::title_builder::tests::all_there;

fn dash_title(path: &str, mpd: &Mpd) -> Title {
    all_there(|builder| super::dash_title(path, mpd, builder))
}

fn template(media: &str) -> SegmentTemplate {
    SegmentTemplate {
        media: Some(media.to_string()),
        ..SegmentTemplate::default()
    }
}

fn representation(id: &str, addressing: Addressing) -> Representation {
    Representation {
        id: id.to_string(),
        bandwidth: Some(BitRate::from_kbps(800)),
        addressing,
        ..Representation::default()
    }
}

fn mpd(seconds: u64, period: Addressing, representations: Vec<Representation>) -> Mpd {
    let set = AdaptationSet {
        representations,
        ..AdaptationSet::default()
    };
    Mpd {
        duration: Some(Duration::from_secs(seconds)),
        periods: vec![Period {
            addressing: period,
            adaptation_sets: vec![set],
            ..Period::default()
        }],
        ..Mpd::default()
    }
}

fn templated(template: SegmentTemplate) -> Addressing {
    Addressing {
        template: Some(template),
        ..Addressing::default()
    }
}

fn source(url: &str) -> UrlRange {
    UrlRange {
        url: Some(url.to_string()),
        range: None,
    }
}

fn paths(title: &Title, rendition: usize) -> Vec<&str> {
    let segments = title.renditions[rendition].segments.list.iter();
    segments.map(|segment| &*segment.path).collect()
}

#[test]
fn numbered_template_is_inherited_and_fills_period() {
    let above = SegmentTemplate {
        initialization: Some("$RepresentationID$/init.mp4".to_string()),
        timescale: Some(1000),
        duration: Some(4000),
        ..SegmentTemplate::default()
    };
    let below = SegmentTemplate {
        start_number: Some(0),
        ..template("$RepresentationID$/$Number%03d$.m4s")
    };
    let mpd = mpd(
        10,
        templated(above),
        vec![representation("v", templated(below))],
    );
    let title = dash_title("t/m.mpd", &mpd);
    assert_eq!(
        paths(&title, 0),
        ["t/v/init.mp4", "t/v/000.m4s", "t/v/001.m4s", "t/v/002.m4s"]
    );
    let last = title.renditions[0].segments.list.last().map(|s| s.duration);
    assert_eq!(last, Some(Duration::from_secs(2)));
    assert_eq!(title.duration, Some(Duration::from_secs(10)));
    assert!(title.notes.is_empty(), "{:?}", title.notes);
}

#[test]
fn timeline_names_segments_by_time() {
    let timeline = vec![
        TimelineEntry {
            time: Some(500),
            duration: 1000,
            repeat: 1,
        },
        TimelineEntry {
            time: None,
            duration: 2000,
            repeat: -1,
        },
    ];
    let template = SegmentTemplate {
        timescale: Some(1000),
        time_offset: Some(500),
        timeline: Some(timeline.into()),
        ..template("$Time$.m4s")
    };
    let mpd = mpd(
        5,
        Addressing::default(),
        vec![representation("v", templated(template))],
    );
    let title = dash_title("m.mpd", &mpd);
    assert_eq!(
        paths(&title, 0),
        ["500.m4s", "1500.m4s", "2500.m4s", "4500.m4s"]
    );
}

#[test]
fn list_names_segments_and_ranges() {
    let url = |url: Option<&str>, range| UrlRange {
        url: url.map(ToString::to_string),
        range,
    };
    let list = SegmentList {
        initialization: Some(url(None, Some(ByteRange::new(0, 100)))),
        duration: Some(5),
        urls: [
            url(None, Some(ByteRange::new(100, 200))),
            url(Some("b.m4s"), None),
        ]
        .into(),
        ..SegmentList::default()
    };
    let addressing = Addressing {
        list: Some(list),
        ..Addressing::default()
    };
    let mut representation = representation("v", addressing);
    representation.base_urls = vec!["v/a.mp4".to_string()];
    let title = dash_title(
        "t/m.mpd",
        &mpd(10, Addressing::default(), vec![representation]),
    );
    // The init segment and the first one are one run of bytes.
    assert_eq!(paths(&title, 0), ["t/v/a.mp4", "t/v/b.m4s"]);
    let range = title.renditions[0].segments.list[0].range;
    assert_eq!(range, Some(ByteRange::new(0, 200)));
    assert_eq!(
        title.renditions[0].segments.duration,
        Duration::from_secs(10)
    );
}

#[test]
fn base_urls_chain_and_first_local_one_counts() {
    let mut mpd = mpd(
        10,
        Addressing::default(),
        vec![representation("v", Addressing::default())],
    );
    mpd.base_urls = vec!["https://cdn.example/".to_string(), "media/".to_string()];
    mpd.periods[0].base_urls = vec!["p1/".to_string()];
    mpd.periods[0].adaptation_sets[0].representations[0].base_urls = vec!["v.mp4".to_string()];
    let title = dash_title("t/m.mpd", &mpd);
    assert_eq!(paths(&title, 0), ["t/media/p1/v.mp4"]);
    assert_eq!(title.renditions[0].peak, Some(BitRate::from_kbps(800)));

    mpd.base_urls.pop();
    let title = dash_title("t/m.mpd", &mpd);
    assert!(title.renditions.is_empty() && !title.notes.is_empty());
}

#[test]
fn representation_continues_in_next_period() {
    let template = SegmentTemplate {
        duration: Some(5),
        ..template("$Number$.m4s")
    };
    let mut mpd = mpd(
        20,
        templated(template),
        vec![representation("v", Addressing::default())],
    );
    let mut second = mpd.periods[0].clone();
    second.start = Some(Duration::from_secs(10));
    second.base_urls = vec!["two/".to_string()];
    mpd.periods.push(second);
    let title = dash_title("m.mpd", &mpd);
    assert_eq!(title.renditions.len(), 1);
    assert_eq!(
        paths(&title, 0),
        ["1.m4s", "2.m4s", "two/1.m4s", "two/2.m4s"]
    );
}

#[test]
fn live_manifest_without_end_has_note_and_no_segments() {
    let template = SegmentTemplate {
        duration: Some(5),
        ..template("$Number$.m4s")
    };
    let mut mpd = mpd(
        0,
        templated(template),
        vec![representation("v", Addressing::default())],
    );
    mpd.duration = None;
    let title = dash_title("m.mpd", &mpd);
    assert!(title.renditions[0].segments.list.is_empty());
    assert_eq!(title.notes.iter().count(), 1);
}

#[test]
fn invalid_template_has_note_and_no_segments() {
    let regular = |template| SegmentTemplate {
        duration: Some(5),
        ..template
    };
    let long = "x".repeat(crate::PATH_BYTES_MAX);
    let cases = [
        (template("$Segment$.m4s"), "uses an identifier"),
        (template("$Number.m4s"), "without its partner"),
        (template("$Number%x$.m4s"), "number format"),
        (template(&format!("$Number${long}")), "longer than any path"),
        (
            template(&format!("{long}$Number$/a")),
            "longer than any path",
        ),
        (SegmentTemplate::default(), "without media"),
    ];
    for (template, note) in cases {
        let addressing = templated(regular(template));
        let title = dash_title(
            "m.mpd",
            &mpd(
                5,
                addressing,
                vec![representation("v", Addressing::default())],
            ),
        );
        assert!(title.renditions[0].segments.list.is_empty(), "{note}");
        let notes: Vec<&str> = title.notes.iter().collect();
        assert!(
            notes.len() == 1 && notes[0].contains(note),
            "{note}: {notes:?}"
        );
    }
}

#[test]
fn invalid_initialization_is_left_out_alone() {
    let template = SegmentTemplate {
        initialization: Some("$Number.mp4".to_string()),
        duration: Some(5),
        ..template("$Number$.m4s")
    };
    let mpd = mpd(
        10,
        templated(template),
        vec![representation("v", Addressing::default())],
    );
    let title = dash_title("m.mpd", &mpd);
    assert_eq!(paths(&title, 0), ["1.m4s", "2.m4s"]);
    assert_eq!(title.notes.iter().count(), 1);
}

#[test]
fn excess_over_bounds_is_left_out_with_a_note() {
    let one = Addressing {
        list: Some(SegmentList {
            urls: [source("a.m4s")].into(),
            ..SegmentList::default()
        }),
        ..Addressing::default()
    };
    let max = RENDITIONS_PER_TITLE_MAX;
    let many = (0..max + 5).map(|id| representation(&id.to_string(), one.clone()));
    let title = dash_title("m.mpd", &mpd(10, Addressing::default(), many.collect()));
    assert_eq!(title.renditions.len(), max);
    let notes: Vec<&str> = title.notes.iter().collect();
    assert!(
        notes.iter().any(|note| note.contains("renditions")),
        "{notes:?}"
    );
}

#[test]
fn list_inherits_missing_fields_from_level_above() {
    let list = |url: Option<&str>, timescale, timeline| SegmentList {
        urls: url.into_iter().map(source).collect(),
        timescale,
        timeline,
        ..SegmentList::default()
    };
    let entry = TimelineEntry {
        time: Some(0),
        duration: 3000,
        repeat: 0,
    };
    let nothing = TimelineEntry {
        duration: 0,
        ..entry
    };
    let above = list(Some("above.m4s"), Some(1000), Some([nothing, entry].into()));
    for (own, path) in [(Some("own.m4s"), "own.m4s"), (None, "above.m4s")] {
        let below = Addressing {
            list: Some(list(own, None, None)),
            ..Addressing::default()
        };
        let period = Addressing {
            list: Some(above.clone()),
            ..Addressing::default()
        };
        let title = dash_title("m.mpd", &mpd(10, period, vec![representation("v", below)]));
        assert_eq!(paths(&title, 0), [path]);
        let length = title.renditions[0].segments.list[0].duration;
        assert_eq!(length, Duration::from_secs(3));
        let notes: Vec<&str> = title.notes.iter().collect();
        assert!(
            notes.len() == 1 && notes[0].contains("no length"),
            "{notes:?}"
        );
    }
}

proptest! {
    // A case may make 200,000 segments, so a few dozen are enough.
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn no_numbers_make_manifest_unbounded(
        seconds in any::<u64>(),
        timescale: Option<u64>,
        duration: Option<u64>,
        start_number: Option<u64>,
        end_number: Option<u64>,
        time_offset: Option<u64>,
        entry in proptest::option::of((any::<Option<u64>>(), any::<u64>(), any::<i64>())),
    ) {
        let timeline = entry.map(|(time, duration, repeat)| {
            [TimelineEntry { time, duration, repeat }].into()
        });
        let template = SegmentTemplate {
            timescale, duration, start_number, end_number, time_offset, timeline,
            ..template("a")
        };
        let mut numbered = template.clone();
        numbered.media = Some("$Number$-$Time$".to_string());
        for template in [template, numbered] {
            let mpd = mpd(seconds, templated(template), vec![representation("v", Addressing::default())]);
            let title = dash_title("m.mpd", &mpd);
            let count = title.renditions[0].segments.list.len();
            prop_assert!(count <= crate::SEGMENTS_PER_RENDITION_MAX);
        }
    }
}
