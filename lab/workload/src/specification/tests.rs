use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::preset;

fn errors(text: &str, overrides: &[(&str, &str)]) -> String {
    let overrides: Vec<(String, String)> = overrides
        .iter()
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect();
    Specification::read("my.toml", text, &overrides)
        .expect_err("it is wrong")
        .to_string()
}

fn read(text: &str) -> Specification {
    Specification::read("my.toml", text, &[]).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn presets_parse_and_have_their_name() {
    for name in preset::names() {
        let read = Specification::preset(name, &[]);
        let specification = read.unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(specification.name, name);
    }
}

#[test]
fn youtube_2011_has_values_of_thesis_tables() {
    let specification = Specification::preset("youtube-2011", &[]).expect("a preset");
    let group = &specification.groups[0];
    assert_eq!((group.count, group.zipf_alpha), (10_000, 0.8));
    assert_eq!(group.segment_bytes, [(524_288, 1.0)]);
    assert_eq!(specification.sessions.extent, TraceExtent::Sessions(7200));
    assert_eq!(specification.sessions.ramp_up.sessions, 200);
    assert_eq!(specification.sessions.ramp_down.sessions, 100);
    assert_eq!(specification.sessions.warming_count, 3500);
    assert_eq!(
        specification.requests.timeout,
        Some(Duration::from_secs(10))
    );
    let classes: Vec<(u64, u64)> = specification
        .classes
        .iter()
        .map(|class| {
            (
                class.bandwidth.map_or(0, |rate| rate.0 / 1000),
                (class.share * 12.0 + 0.5) as u64,
            )
        })
        .collect();
    assert_eq!(classes, [(10_000, 5), (3_500, 5), (1_000, 2)]);
    assert!(
        specification
            .classes
            .iter()
            .all(|class| class.delay == Duration::from_millis(50))
    );
}

#[test]
fn groups_keep_order_of_text() {
    let specification = read("[title.z]\ncount = 1\n[title.a]\ncount = 2\n");
    let names: Vec<&str> = specification
        .groups
        .iter()
        .map(|group| group.name.as_str())
        .collect();
    assert_eq!(names, ["z", "a"]);
    assert_eq!(specification.classes, [NetworkClass::unlimited()]);
}

#[test]
fn accepts_alternative_spellings() {
    let specification = read(
        "[title.a]\ncount = 10\ndurations = [[0, 0], [60, 0.5], [120, 1]]\n\
         segment_bytes = [[\"1MiB\", 3], [\"2MiB\", 1]]\n\
         [title.b]\ncount = 10\ndurations = \"2min\"\nsegment_bytes = [\"1MiB\", \"2MiB\"]\n\
         [requests]\nsize = \"1MiB\"\ntimeout = \"off\"\n[sessions]\nrate = \"2.5/s\"\n",
    );
    assert_eq!(
        specification.groups[0].segment_bytes,
        [(1 << 20, 0.75), (2 << 20, 0.25)]
    );
    assert_eq!(
        specification.groups[1].segment_bytes,
        [(1 << 20, 0.5), (2 << 20, 0.5)]
    );
    assert_eq!(specification.groups[1].durations.law.mean(), 120.0);
    assert_eq!(specification.requests.size, RequestSize::Bytes(1 << 20));
    assert_eq!(specification.requests.timeout, None);
    assert_eq!(specification.sessions.rate, ArrivalRate::Sessions(2.5));
    assert_eq!("60MiB/s".parse(), Ok(ArrivalRate::Bytes(62_914_560.0)));
    for text in ["2.5/s", "60MiB/s"] {
        assert_eq!(
            text.parse::<ArrivalRate>()
                .map(|rate| rate.to_string())
                .as_deref(),
            Ok(text)
        );
    }
}

#[test]
fn override_replaces_value_without_quotes() {
    let text = "[title.a]\ncount = 10\n[sessions]\nlength = \"1h\"\n";
    let overrides = [
        ("sessions.count", "50"),
        ("requests.size", "1MiB"),
        ("requests.pacing", "false"),
        ("title.a.durations", "[[1, 0], [2, 1]]"),
    ];
    let overrides = overrides.map(|(key, value)| (key.to_string(), value.to_string()));
    let specification = Specification::read("my.toml", text, &overrides).expect("good values");
    assert_eq!(specification.sessions.extent, TraceExtent::Sessions(50));
    assert_eq!(specification.requests.size, RequestSize::Bytes(1 << 20));
    assert!(!specification.requests.pacing);
    assert_eq!(specification.groups[0].durations.law.mean(), 1.5);
}

#[test]
fn override_of_missing_table_is_the_only_mistake() {
    let read = |key: &str, value: &str| {
        let overrides = [(key.to_string(), value.to_string())];
        let read = Specification::preset("youtube-sd", &overrides);
        read.map_err(|mistakes| mistakes.to_string())
    };
    let told = read("title.sb.count", "3").expect_err("there is no such group");
    assert!(
        told.contains("there is no title.sb to change; there are sd, hd"),
        "{told}"
    );
    let told = read("network.dls.bandwidth", "16Mbps").expect_err("there is no such class");
    assert!(told.contains("there is no network.dls to change"), "{told}");
    assert_eq!(
        read("title.sd.count", "3").map(|read| read.groups.len()),
        Ok(2)
    );
    let text = "[title.a]\ncount = 10\n[sessions]\nlength = \"1h\"\n";
    let one = [("network.cable.bandwidth".to_string(), "8Mbps".to_string())];
    let made = Specification::read("my.toml", text, &one).expect("the only network");
    assert_eq!(made.classes.len(), 1);
}

#[test]
fn reports_all_mistakes_with_line() {
    let text = "\
name = \"my workload\"
[title.sd]
cuont = 5
zipf_alpha = -1
durations = \"youtube-2011-durations\"
segment_bytes = 12
[title.7]
count = 0
weight = \"heavy\"
[catalogue]
chunk = \"1KiB\"
[sessions]
count = 5
length = \"1h\"
rate = \"20\"
arrivals = \"random\"
[viewing]
fraction = [[0, 0], [2, 1]]
pause = 3
[requests]
size = \"10 minuets\"
[network.a]
share = 0
";
    let expected = "\
my.toml:1: name: `my workload` is not a name; a name is 1 to 64 letters, digits, - and _, not digits alone
my.toml:2: title.sd.count: is missing; write how many titles there are
my.toml:3: title.sd.cuont: unknown key; did you mean `title.sd.count`?
my.toml:4: title.sd.zipf_alpha: `-1` is out of range; write from 0 to 10
my.toml:5: title.sd.durations: no curve is called `youtube-2011-durations`; did you mean youtube-2011-duration?; write points like [[0, 0], [60, 0.5], [120, 1]], or one of youtube-2011-duration, youtube-2011-fraction, whole, uniform
my.toml:6: title.sd.segment_bytes: `12` has no unit; write a size such as \"2MiB\", from 4KiB to 1TiB
my.toml:8: title.7.count: `0` is out of range; write from 1 to 5000000
my.toml:8: title.7.count: `7` is not a name; a name is 1 to 64 letters, digits, - and _, not digits alone
my.toml:9: title.7.weight: `heavy` does not fit; write a number such as 0.5, from 0 to 1000000000
my.toml:11: catalogue.chunk: out of bounds; write 4KiB to 1TiB, or segment, or off
my.toml:13: sessions.count: contradicts sessions.length; write one of the two
my.toml:15: sessions.rate: `20` is not a rate; write sessions like 2.5/s, or bytes like 60MiB/s
my.toml:16: sessions.arrivals: `random` is unknown; the names are poisson, constant
my.toml:18: viewing.fraction: goes from 0 to 2; values lie from 0 to 1
my.toml:19: viewing.pause: `3` is out of range; write from 0 to 1
my.toml:21: requests.size: `10 minuets` is not a size; write a playing time like 10s, or bytes like 512KiB
my.toml:22: network: no class has a share; write share = 1 for one of them";
    assert_eq!(errors(text, &[]), expected);
}

#[test]
fn rejects_inconsistent_values() {
    for (overrides, expected) in [
        (
            vec![("title.sd.count", "6000000")],
            "`6000000` is out of range; write from 1 to 5000000",
        ),
        (vec![("title.sd.weight", "0")], "every group has weight 0"),
        (
            vec![("requests.size", "1KiB")],
            "1024 bytes in group sd; write 4KiB to 1TiB",
        ),
        (
            vec![
                ("title.sd.segment_variation", "0.5"),
                ("catalogue.chunk", "512KiB"),
            ],
            "cannot be cut into equal chunk files",
        ),
        (
            vec![
                ("requests.connections", "2"),
                ("requests.size", "40s"),
                ("catalogue.chunk", "512KiB"),
            ],
            "a request over several files uses one connection",
        ),
        (
            vec![
                ("requests.connections", "2"),
                ("requests.size", "20s"),
                ("catalogue.chunk", "segment"),
            ],
            "a request over several files uses one connection",
        ),
        (
            vec![
                ("requests.open_ended", "true"),
                ("requests.timeout", "off"),
                ("catalogue.chunk", "segment"),
            ],
            "an open-ended request ends where its file does",
        ),
        (
            vec![("requests.open_ended", "true")],
            "lasts as long as the title's download; write requests.timeout = \"off\"",
        ),
        (
            vec![("sessions.length", "10h"), ("sessions.rate", "1000/s")],
            "more than 10000000 sessions",
        ),
        (
            vec![
                ("title.sd.durations", "1000000s"),
                ("requests.size", "4KiB"),
            ],
            "more than a million requests",
        ),
        (
            vec![("title.sd.durations", "whole")],
            "`whole` is a curve of shares",
        ),
    ] {
        let message = errors(preset::text("youtube-2011").expect("a preset"), &overrides);
        assert!(message.contains(expected), "{overrides:?}: {message}");
    }
}

#[test]
fn reports_toml_error_with_line() {
    let message = errors("[title.sd]\ncount = = 5\n", &[]);
    assert!(message.starts_with("my.toml:2: not TOML: "), "{message}");
    assert!(errors("", &[]).contains("there are no titles; write a table like [title.sd]"));
    let message = errors("[title.a]\ncount = 1\n[[title.b]]\ncount = 1\n", &[]);
    assert!(
        message.contains("title.b: is a table; write [title.b]"),
        "{message}"
    );
}

#[test]
fn unknown_preset_suggests_nearest() {
    let message = Specification::preset("yuotube-sd", &[])
        .expect_err("unknown")
        .to_string();
    assert!(
        message.starts_with("yuotube-sd: no such preset; did you mean youtube-sd?")
            && message.ends_with("the name of a file ends in .toml"),
        "{message}"
    );
}

proptest! {
    #[test]
    fn specification_parser_never_panics(text in "(\\[|\\]|title|\\.a|count|=|\"|[0-9]|-|\n|,| |s|size|requests|\\PC){0,50}") {
        let _ = Specification::read("x", &text, &[("requests.size".to_string(), text.clone())]);
    }
}

#[test]
fn resume_time_needs_paced_requests() {
    let read = |key: &str, value: &str| {
        let overrides = [("sessions.resume_time", "60s"), (key, value)];
        let overrides = overrides.map(|(key, value)| (key.to_string(), value.to_string()));
        Specification::preset("youtube-sd", &overrides)
    };
    let paced = read("requests.pacing", "true").expect("right");
    assert_eq!(paced.sessions.resume_time, Duration::from_secs(60));
    let mistakes = read("requests.pacing", "false").expect_err("a mistake");
    assert!(
        alloc::format!("{mistakes}").contains("sessions.resume_time"),
        "{mistakes}"
    );
}
