//! Logs of real servers, without any option.
//!
//! Samples of nginx, Apache, HAProxy and lighttpd were written by these servers (Debian 12), the
//! others by their documents. All are of the same fourteen requests: from two viewers, one of them
//! at an IPv6 address, the whole film, four parts of it and of another one, a HEAD and a file that
//! is not there. Those called `...-video` are written by the lines that a summary offers for copying.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use headlong_trace::{Format, Intake, IntakeError, Silent, TakenIn, summary, take_in, understand};

/// Bytes of the ten requests.
const BYTES: u64 = 2 * (4096 + 512 + 512 + 3072 + 100);

/// What a sample is recognised as, what it tells, and what is offered for copying if it tells too
/// little.
struct Sample {
    name: &'static str,
    format: &'static str,
    has_ranges: bool,
    is_timed: bool,
    /// Whether bytes are without headers.
    is_exact: bool,
    offers: &'static [&'static str],
}

const fn sample(
    name: &'static str,
    format: &'static str,
    [has_ranges, is_timed, is_exact]: [bool; 3],
    offers: &'static [&'static str],
) -> Sample {
    Sample {
        name,
        format,
        has_ranges,
        is_timed,
        is_exact,
        offers,
    }
}

const ALL: [bool; 3] = [true; 3];
const WITH_HEADERS: [bool; 3] = [true, true, false];
const SAMPLES: [Sample; 24] = [
    sample(
        "nginx-combined",
        "combined",
        [false, false, true],
        &["log_format video", "LogFormat"],
    ),
    sample("nginx-video", "combined", ALL, &[]),
    sample("nginx-json", "json", ALL, &[]),
    sample(
        "apache-common",
        "common",
        [false, false, true],
        &["LogFormat", "%<chi>"],
    ),
    sample(
        "apache-combined",
        "combined",
        [false, false, true],
        &["LogFormat"],
    ),
    sample("apache-video", "combined", ALL, &[]),
    sample(
        "lighttpd",
        "combined",
        [false, false, true],
        &["accesslog.format"],
    ),
    sample("lighttpd-video", "combined", ALL, &[]),
    sample(
        "varnish",
        "combined",
        [false, false, true],
        &["varnishncsa -F"],
    ),
    sample("varnish-video", "combined", ALL, &[]),
    sample(
        "traefik",
        "combined",
        [false, true, true],
        &["log_format video"],
    ),
    sample(
        "haproxy",
        "haproxy",
        [false, true, false],
        &["capture request header Range"],
    ),
    sample("haproxy-video", "haproxy", WITH_HEADERS, &[]),
    sample(
        "squid",
        "squid",
        [false, true, false],
        &["logformat video", "%<chi>"],
    ),
    sample("squid-video", "combined", WITH_HEADERS, &[]),
    sample(
        "ats-squid",
        "squid",
        [false, true, false],
        &["%<{Range}cqh>"],
    ),
    sample(
        "ats-extended",
        "common",
        [false, false, true],
        &["%<{Range}cqh>"],
    ),
    sample("ats-video", "combined", ALL, &[]),
    sample("envoy", "envoy", [false, true, true], &["%REQ(RANGE)%"]),
    sample("envoy-video", "envoy", ALL, &[]),
    sample("envoy-json", "envoy-json", ALL, &[]),
    sample("caddy", "caddy", ALL, &[]),
    sample("cloudfront", "w3c", ALL, &[]),
    sample("iis", "w3c", WITH_HEADERS, &[]),
];

fn text(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats");
    std::fs::read(folder.join(format!("{name}.log"))).expect("a sample")
}

fn intake(folder: &Path, text: &[u8]) -> Intake {
    let path: PathBuf = folder.join("access.log");
    std::fs::write(&path, text).expect("written");
    Intake {
        logs: vec![path],
        threads: 1,
        memory_bytes_max: 128 << 20,
        keep_unplaced: true,
        ..Intake::default()
    }
}

fn taken(text: &[u8]) -> TakenIn {
    let folder = tempfile::tempdir().expect("a folder");
    take_in(&intake(folder.path(), text), &Silent).expect("it is taken in")
}

/// Offset, bytes asked for and sent of each request, in order.
fn told(taken: &TakenIn) -> Vec<(u64, Option<u64>, u64)> {
    let parts = taken.parts.each(1, |_, requests| requests.clone());
    let all = parts.expect("parts").concat();
    let mut told: Vec<_> = all
        .iter()
        .map(|one| (one.offset, one.asked_bytes, one.sent_bytes))
        .collect();
    told.sort_unstable();
    told
}

fn sessions(taken: &TakenIn) -> Vec<String> {
    let numbers = 0..taken.sessions;
    numbers
        .map(|number| taken.session_names.get(number).to_string())
        .collect()
}

#[test]
fn each_is_recognised_and_told_or_says_what_to_write_instead() {
    for sample in SAMPLES {
        let name = sample.name;
        let taken = taken(&text(name));
        assert_eq!(taken.told_format, sample.format, "{name}");
        assert_eq!((taken.requests, taken.dropped.count()), (10, 0), "{name}");
        assert_eq!(
            taken.unplaced,
            if sample.has_ranges { 0 } else { 8 },
            "{name}"
        );
        assert_eq!(
            taken.untimed,
            if sample.is_timed { 0 } else { 10 },
            "{name}"
        );
        assert_eq!(taken.has_offsets(), sample.has_ranges, "{name}");
        if sample.is_exact {
            assert_eq!(taken.bytes, BYTES, "{name}");
        }
        if sample.has_ranges {
            let parts: Vec<_> = told(&taken).iter().map(|one| (one.0, one.1)).collect();
            let asked = [
                (0, None),
                (0, None),
                (0, Some(100)),
                (0, Some(100)),
                (0, Some(512)),
                (0, Some(512)),
                (512, Some(512)),
                (512, Some(512)),
            ];
            assert_eq!(parts[..8], asked, "{name}");
            assert_eq!((parts[8].0, parts[9].0), (1024, 1024), "{name}");
        }
        let summary = summary(&taken);
        assert!(
            summary[0].contains("10 are requests, 0 were dropped"),
            "{summary:?}"
        );
        for offer in sample.offers {
            assert!(
                summary.iter().any(|line| line.contains(offer)),
                "{name}: {summary:#?}"
            );
        }
        assert_eq!(
            summary.iter().any(|line| line.contains("is written by")),
            !sample.offers.is_empty(),
            "{name}: {summary:#?}"
        );
        let sessions = sessions(&taken);
        assert!(
            sessions
                .iter()
                .any(|name| name.starts_with("::1~") || name.starts_with("2001:db8::7~")),
            "{name}: {sessions:?}"
        );
    }
}

#[test]
fn packed_joined_and_cut_logs_say_the_same() {
    for sample in SAMPLES {
        let plain = text(sample.name);
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(&plain).expect("packed");
        let whole = taken(&plain);
        assert_eq!(
            told(&taken(&packed.finish().expect("packed"))),
            told(&whole)
        );
        // A log that was rotated in the middle of a line, and one that goes on behind another.
        let joined = taken(&[plain.as_slice(), &plain].concat());
        assert_eq!(
            (joined.requests, joined.dropped.count()),
            (20, 0),
            "{}",
            sample.name
        );
        let cut = taken(&plain[..plain.len() - 20]);
        assert!(
            cut.requests >= 10 && cut.dropped.count() <= 1,
            "{}",
            sample.name
        );
    }
}

#[test]
fn a_custom_log_format_is_refused_until_it_is_given_word_for_word() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut intake = intake(folder.path(), &text("nginx-custom"));
    let refused = take_in(&intake, &Silent).expect_err("unknown").to_string();
    assert!(
        refused.contains("is in no known format") && refused.contains("--log-format"),
        "{refused}"
    );
    let format = "log_format custom '$remote_addr [$time_iso8601] \"$request\" $status $bytes_sent \
                  $request_tme \"$http_range\" \"$http_user_agent\" \"$upstream_addr\"';";
    intake.format = Some(Format::from_configuration(format).expect("a format"));
    let taken = take_in(&intake, &Silent).expect("it is taken in");
    assert_eq!((taken.requests, taken.unplaced), (10, 0));
    let summary = summary(&taken);
    let unused = "not used: $request_tme (request_time?), $upstream_addr";
    assert!(summary.iter().any(|line| line == unused), "{summary:#?}");
}

#[test]
fn sessions_are_by_what_the_user_names_wherever_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in [
        "nginx-combined",
        "haproxy",
        "iis",
        "cloudfront",
        "caddy",
        "squid",
        "envoy-json",
    ] {
        for field in ["sid", "arg_sid"] {
            let mut intake = intake(folder.path(), &text(name));
            intake.session_field = Some(field.to_owned());
            let taken = take_in(&intake, &Silent).expect("it is taken in");
            for session in ["v1", "v2"] {
                let all = sessions(&taken);
                assert!(
                    all.iter().any(|one| one == session),
                    "{name} {field} {all:?}"
                );
            }
        }
        let mut intake = intake(folder.path(), &text(name));
        intake.session_field = Some("nonsense".to_owned());
        let Err(IntakeError::Logs(errors)) = take_in(&intake, &Silent) else {
            panic!("{name}: nothing is called so");
        };
        let error = errors[0].to_string();
        assert!(
            error.contains("`nonsense`") && error.contains("sid"),
            "{error}"
        );
    }
    // Another name of a session is none.
    let mut intake = intake(folder.path(), &text("nginx-custom"));
    let format = "$remote_addr [$time_iso8601] \"$request\" $status $bytes_sent $x \"$http_range\" \
                  \"$cookie_session\" \"$y\"";
    intake.format = Some(Format::from_configuration(format).expect("a format"));
    intake.session_field = Some("nonsense".to_owned());
    let error = take_in(&intake, &Silent)
        .expect_err("no session")
        .to_string();
    assert!(error.contains("$cookie_session"), "{error}");
    let headers = text("nginx-json");
    let headers =
        String::from_utf8_lossy(&headers).replace("ssl_cipher\":\"\"", "http_x_who\":\"me\"");
    let mut intake = self::intake(folder.path(), headers.as_bytes());
    intake.session_field = Some("http_x_who".to_owned());
    let taken = take_in(&intake, &Silent).expect("it is taken in");
    assert_eq!(sessions(&taken), ["me"]);
}

/// Whatever was done to a log, every line is told of, and what is not told as it was is not told.
fn check(what: &str, log: &[u8], bytes_max: u64) {
    let lines = log.split(|byte| *byte == b'\n');
    let lines = lines.filter(|line| !line.is_empty()).count() as u64;
    let Ok(understood) = understand(log, None) else {
        return;
    };
    let dropped = understood.dropped.by_reason().iter();
    let dropped: u64 = dropped.map(|lines| lines.count).sum();
    assert_eq!(understood.requests + dropped, lines, "{what}");
    assert!(
        understood.bytes <= bytes_max,
        "{what}: {} bytes",
        understood.bytes
    );
}

#[test]
fn columns_in_another_order_are_never_taken_for_what_they_are_not() {
    for sample in SAMPLES {
        let log = text(sample.name);
        let log = String::from_utf8_lossy(&log);
        if sample.format.contains("json") || sample.format == "caddy" {
            continue;
        }
        for (one, other) in (0..14).flat_map(|one| (0..one).map(move |other| (one, other))) {
            let swapped: Vec<String> = log
                .lines()
                .filter(|line| !line.starts_with('#'))
                .map(|line| {
                    let mut words: Vec<&str> = line.split(' ').collect();
                    if one < words.len() {
                        words.swap(one, other);
                    }
                    words.join(" ")
                })
                .collect();
            let what = format!("{} {one} {other}", sample.name);
            check(&what, swapped.join("\n").as_bytes(), BYTES + 10 * 400);
        }
    }
}

#[test]
fn joined_formats_and_lines_cut_at_every_byte_are_told_line_by_line() {
    for sample in SAMPLES {
        let log = text(sample.name);
        for other in SAMPLES {
            let joined = [log.as_slice(), &text(other.name)].concat();
            let what = format!("{} and {}", sample.name, other.name);
            check(&what, &joined, 2 * (BYTES + 10 * 400));
        }
        let lines: Vec<&[u8]> = log.split(|byte| *byte == b'\n').collect();
        let longest = lines.iter().map(|line| line.len()).max().unwrap_or(0);
        for at in 0..longest {
            let cut: Vec<&[u8]> = lines
                .iter()
                .map(|line| &line[..at.min(line.len())])
                .collect();
            check(
                &format!("{} at {at}", sample.name),
                &cut.join(&b'\n'),
                BYTES + 10 * 400,
            );
        }
    }
}
