//! Logs of real servers, read without options.
//!
//! The samples of nginx, Apache, HAProxy, lighttpd, Varnish, Caddy and Traffic Server were written
//! by these servers (Debian 12), the others from their documentation, and so was `ats-video`:
//! Traffic Server does not escape quotes within an agent, so such a line is ambiguous. All contain
//! the same fourteen requests: two viewers, one at an IPv6 address, request the whole film, four
//! parts of it and of another one, a HEAD and a file that does not exist. Those named `...-video`
//! are written by the configurations that a summary offers.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use headlong_trace::{
    DropReason, Format, Intake, IntakeError, IntakeResult, SilentProgress, summary, take_in,
};

/// Bytes of the ten requests.
const BYTES: u64 = 2 * (4096 + 512 + 512 + 3072 + 100);

/// The samples: name, recognised format, information they contain (`exact`: byte counts exclude
/// headers), and the configurations offered if some is missing.
const SAMPLES: &str = "\
nginx-combined | combined | exact | log_format video; LogFormat
nginx-video | combined | ranges timed exact |
nginx-json | json | ranges timed exact |
apache-common | common | exact | LogFormat; %<chi>
apache-combined | combined | exact | LogFormat
apache-video | combined | ranges timed exact |
lighttpd | combined | exact | accesslog.format
lighttpd-video | combined | ranges timed exact |
varnish | combined | exact | varnishncsa -F
varnish-video | combined | ranges timed exact |
traefik | combined | timed exact | log_format video
haproxy | haproxy | timed | capture request header Range
haproxy-video | haproxy | ranges timed |
squid | squid | timed | logformat video
squid-video | combined | ranges timed |
ats-squid | ats | timed | %<{Range}cqh>
ats-extended | common | exact | %<{Range}cqh>
ats-video | combined | ranges timed exact |
envoy | envoy | timed exact | %REQ(RANGE)%
envoy-video | envoy | ranges timed exact |
envoy-json | envoy-json | ranges timed exact |
caddy | caddy | ranges timed exact |
cloudfront | w3c | ranges timed exact |
iis | w3c | ranges timed |";

/// A line of [`SAMPLES`].
#[derive(Clone, Copy)]
struct FormatSample {
    name: &'static str,
    format: &'static str,
    has_ranges: bool,
    is_timed: bool,
    is_exact: bool,
    offers: &'static str,
}

fn samples() -> impl Iterator<Item = FormatSample> {
    SAMPLES.lines().map(|line| {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        FormatSample {
            name: fields[0],
            format: fields[1],
            has_ranges: fields[2].contains("ranges"),
            is_timed: fields[2].contains("timed"),
            is_exact: fields[2].contains("exact"),
            offers: fields[3],
        }
    })
}

/// The most complete sample of each format: `-video` if there is one.
fn richest() -> impl Iterator<Item = FormatSample> {
    let has_richer = |sample: &FormatSample| {
        let richer = |other: &FormatSample| other.name.strip_suffix("-video") == Some(sample.name);
        samples().any(|other| richer(&other))
    };
    samples().filter(move |sample| !has_richer(sample))
}

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
        // With more, most of the time is spent on an empty table of numbers.
        memory_bytes_max: 64 << 20,
        keep_unplaced: true,
        ..Intake::default()
    }
}

fn taken(text: &[u8]) -> IntakeResult {
    let folder = tempfile::tempdir().expect("a folder");
    take_in(&intake(folder.path(), text), &SilentProgress).expect("read")
}

/// Offset, bytes requested and sent of each request, in order.
fn request_fields(taken: &IntakeResult) -> Vec<(u64, Option<u64>, u64)> {
    let parts = taken.parts.each_unsorted(1, |_, requests| requests.clone());
    let all = parts.expect("parts").concat();
    let mut told: Vec<_> = all
        .iter()
        .map(|one| (one.offset, one.asked_bytes, one.sent_bytes))
        .collect();
    told.sort_unstable();
    told
}

fn sessions(taken: &IntakeResult) -> Vec<String> {
    let numbers = 0..taken.sessions;
    numbers
        .map(|number| taken.session_names.get(number).to_string())
        .collect()
}

#[test]
fn samples_are_recognised_or_get_advice() {
    for sample in samples() {
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
            let parts: Vec<_> = request_fields(&taken)
                .iter()
                .map(|one| (one.0, one.1))
                .collect();
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
        for offer in sample.offers.split("; ") {
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

/// The lines of the manual, with the names under which they are recognised.
fn lines_of_the_manual() -> Vec<(String, String)> {
    let page = include_str!("../../../../docs/lab/trace.md");
    let list = page.split("```text\n=== ").nth(1).expect("the list");
    let list = list.split("\n```").next().unwrap_or_default();
    let samples = list.split("\n=== ");
    samples
        .map(|sample| {
            let (name, lines) = sample.split_once('\n').expect("a line");
            let format = name.split(',').next().unwrap_or_default();
            (format.to_owned(), format!("{lines}\n"))
        })
        .collect()
}

#[test]
fn every_line_of_the_manual_is_the_same_request() {
    let samples = lines_of_the_manual();
    assert!(samples.len() >= 40);
    for (format, lines) in samples {
        let taken = taken(lines.as_bytes());
        assert_eq!(taken.told_format, format, "{lines}");
        assert_eq!((taken.requests, taken.dropped.count()), (1, 0), "{lines}");
        let fields = request_fields(&taken);
        let (offset, _, bytes) = fields[0];
        assert_eq!(offset, 0, "{lines}");
        // Where headers are counted, there are 400 bytes of them.
        assert!([1_000_000, 1_000_400].contains(&bytes), "{bytes}: {lines}");
        assert_eq!(taken.bytes, bytes);
        let ten_ms = 1_795_773_600_000;
        let (first, last) = taken.span_ms;
        assert!(first >= ten_ms - 500 && last <= ten_ms + 500, "{lines}");
        let file = taken.file_names.get(fields[0].0 as u32).to_string();
        assert_eq!(file, "/films/t.mp4", "{lines}");
        let sessions = sessions(&taken);
        assert!(
            sessions[0].starts_with("192.0.2.10"),
            "{sessions:?}: {lines}"
        );
    }
}

#[test]
fn formats_of_apache_are_known_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let line = "www.example.org:443 192.0.2.10 - - [27/Nov/2026:10:00:00 +0000] \
                \"GET /films/t.mp4 HTTP/1.1\" 200 1000400 \"-\" \"P/1\"\n";
    let mut intake = intake(folder.path(), line.as_bytes());
    intake.format = Some("apache:vhost_combined".parse().expect("a name"));
    let taken = take_in(&intake, &SilentProgress).expect("read");
    assert!(sessions(&taken)[0].starts_with("192.0.2.10~"));
    for (name, known) in [
        (
            "apache:vhost",
            "no format of Apache is named `vhost`; there are common, combined,",
        ),
        (
            "nginx:mainly",
            "no format of nginx is named `mainly`; there are combined, main",
        ),
    ] {
        let error = name.parse::<Format>().expect_err("no name").to_string();
        assert!(error.contains(known), "{error}");
    }
}

/// Twelve requests of four clients, the third field of each line made by `line`.
fn behind_proxy(line: impl Fn(&str) -> String) -> String {
    let lines = (0..12).map(|number| {
        let client = format!("192.0.2.{}", 10 + number % 4);
        line(&client).replace(
            "TIME",
            &format!("27/Nov/2026:10:00:{:02} +0000", 3 * number),
        )
    });
    lines.collect()
}

#[test]
fn viewers_behind_a_proxy_are_told_apart_by_forwarded_addresses() {
    const REQUEST: &str = "[TIME] \"GET /films/t.mp4 HTTP/1.1\" 200 1000000 \"-\" \"P/1\"";
    let main = behind_proxy(|client| format!("10.0.0.1 - - {REQUEST} \"{client}\"\n"));
    let first = behind_proxy(|client| format!("{client}, 10.0.0.9 - - {REQUEST}\n"));
    let lone = behind_proxy(|client| format!("{client} {REQUEST}\n"));
    let folder = tempfile::tempdir().expect("a folder");
    for (log, format) in [
        (&main, None),
        (&first, None),
        (
            &main,
            Some(
                "$remote_addr - - [$time_local] \"$request\" $status $body_bytes_sent \
                 \"$http_referer\" \"$http_user_agent\" \"$http_x_forwarded_for\"",
            ),
        ),
        (
            &first,
            Some(
                "%{X-Forwarded-For}i %l %u %t \\\"%r\\\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\"",
            ),
        ),
        (
            &lone,
            Some("$http_x_real_ip [$time_local] \"$request\" $status $bytes_sent \"$x\" \"$y\""),
        ),
        (
            &lone,
            Some(
                "$proxy_protocol_addr [$time_local] \"$request\" $status $bytes_sent \"$x\" \"$y\"",
            ),
        ),
        (
            &lone,
            Some("%{CF-Connecting-IP}i %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\""),
        ),
        (
            &lone,
            Some("%{True-Client-IP}i %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\""),
        ),
    ] {
        let mut intake = intake(folder.path(), log.as_bytes());
        let format = format.map(Format::from_configuration);
        intake.format = format.transpose().expect("a format");
        let taken = take_in(&intake, &SilentProgress).expect("read");
        assert_eq!(
            (taken.requests, taken.sessions),
            (12, 4),
            "{:?}",
            intake.format
        );
        let summary = summary(&taken).join("\n");
        assert!(!summary.contains("come from one address"), "{summary}");
        assert!(
            !summary.contains("not used: $http_x_forwarded_for"),
            "{summary}"
        );
    }
    // By name alone, and with proxies that are not trusted.
    let mut intake = intake(folder.path(), main.as_bytes());
    intake.session_field = Some("http_x_forwarded_for".to_owned());
    let taken = take_in(&intake, &SilentProgress).expect("read");
    assert_eq!(sessions(&taken)[0], "192.0.2.10");
    intake.session_field = None;
    intake.trusted = "198.51.100.0/24".parse().expect("a network");
    let taken = take_in(&intake, &SilentProgress).expect("read");
    assert_eq!(taken.sessions, 1);
    let summary = summary(&taken).join("\n");
    let remark = "12 of 12 requests come from one address, 10.0.0.1, and count as 1 viewer;";
    assert!(summary.contains(remark), "{summary}");
}

#[test]
fn first_line_may_be_longer_than_the_usual_head() {
    let line = "192.0.2.10 - - [27/Nov/2026:10:00:00 +0000] \"GET /t.mp4 HTTP/1.1\" 200 9 \"-\" ";
    let long = format!("{line}\"{}\"\n", "P".repeat(100_000));
    let taken = taken(format!("{long}{line}\"P/1\"\n").as_bytes());
    assert_eq!((taken.requests, taken.dropped.count()), (2, 0));
}

#[test]
fn name_that_cloudfront_escaped_twice_is_the_same_file() {
    let fields = "#Fields: date time x-edge-location sc-bytes c-ip cs-method cs-uri-stem sc-status \
                  cs(User-Agent)\n";
    let line =
        |name: &str| format!("2026-11-27\t10:00:00\tFRA\t9\t192.0.2.1\tGET\t{name}\t200\tP\n");
    let log = [fields, &line("/a%2520b.mp4"), &line("/a%20b.mp4")].concat();
    let taken = taken(log.as_bytes());
    assert_eq!((taken.requests, taken.files.len()), (2, 1));
    assert_eq!(taken.file_names.get(0).to_string(), "/a%20b.mp4");
}

#[test]
fn values_without_a_name_are_shown() {
    let line =
        "192.0.2.1 - - [27/Nov/2026:10:00:00 +0000] \"GET /t HTTP/1.1\" 200 9 \"-\" \"P\" 210\n";
    let summary = summary(&taken(line.as_bytes())).join("\n");
    assert!(
        summary.contains("values without a name behind it (210)"),
        "{summary}"
    );
}

#[test]
fn arrival_and_completion_times_are_distinguished() {
    // The first line of each is a timed request; its time is that of arrival, except in Squid's
    // format.
    for (name, span) in [
        ("ats-squid", (1_795_613_742_653, 1_795_613_742_655)),
        ("traefik", (1_795_519_182_000, 1_795_519_182_012)),
        ("squid", (1_795_519_182_501, 1_795_519_182_513)),
    ] {
        let text = text(name);
        let end = text.iter().position(|byte| *byte == b'\n').expect("a line");
        assert_eq!(taken(&text[..=end]).span_ms, span, "{name}");
    }
}

#[test]
fn compressed_joined_and_cut_logs_agree() {
    for sample in samples() {
        let plain = text(sample.name);
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(&plain).expect("packed");
        let whole = taken(&plain);
        assert_eq!(
            request_fields(&taken(&packed.finish().expect("packed"))),
            request_fields(&whole)
        );
        // A log rotated in the middle of a line, and two concatenated logs.
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
fn custom_format_must_be_given() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut intake = intake(folder.path(), &text("nginx-custom"));
    let refused = take_in(&intake, &SilentProgress)
        .expect_err("unknown")
        .to_string();
    assert!(
        refused.contains("is in no known format") && refused.contains("--log-format"),
        "{refused}"
    );
    let format = "log_format custom '$remote_addr [$time_iso8601] \"$request\" $status $bytes_sent \
                  $request_tme \"$http_range\" \"$http_user_agent\" \"$upstream_addr\"';";
    intake.format = Some(Format::from_configuration(format).expect("a format"));
    let taken = take_in(&intake, &SilentProgress).expect("read");
    assert_eq!((taken.requests, taken.unplaced), (10, 0));
    let summary = summary(&taken);
    let unused = "not used: $request_tme (request_time?), $upstream_addr";
    assert!(summary.iter().any(|line| line == unused), "{summary:#?}");
}

#[test]
fn session_field_is_found_wherever_it_is() {
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
            let taken = take_in(&intake, &SilentProgress).expect("read");
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
        let Err(IntakeError::Logs(errors)) = take_in(&intake, &SilentProgress) else {
            panic!("{name}: the field does not exist");
        };
        let error = errors[0].to_string();
        assert!(
            error.contains("`nonsense`") && error.contains("sid"),
            "{error}"
        );
    }
    // A name of another session field is listed.
    let mut intake = intake(folder.path(), &text("nginx-custom"));
    let format = "$remote_addr [$time_iso8601] \"$request\" $status $bytes_sent $x \"$http_range\" \
                  \"$cookie_session\" \"$y\"";
    intake.format = Some(Format::from_configuration(format).expect("a format"));
    intake.session_field = Some("nonsense".to_owned());
    let error = take_in(&intake, &SilentProgress)
        .expect_err("no session")
        .to_string();
    assert!(error.contains("$cookie_session"), "{error}");
    let headers = text("nginx-json");
    let headers =
        String::from_utf8_lossy(&headers).replace("ssl_cipher\":\"\"", "http_x_who\":\"me\"");
    let mut intake = self::intake(folder.path(), headers.as_bytes());
    intake.session_field = Some("http_x_who".to_owned());
    let taken = take_in(&intake, &SilentProgress).expect("read");
    assert_eq!(sessions(&taken), ["me"]);
}

/// Offset, bytes requested and bytes sent of a request.
type RequestFields = (u64, Option<u64>, u64);

/// Checks the invariants for a damaged log: every line is accounted for; no request is reported
/// that is not in `true_ones`; and if more than a tenth was dropped, the first line says so, and
/// the report is refused.
fn check(what: &str, log: &[u8], true_ones: &[RequestFields]) -> Option<String> {
    let lines = log.split(|byte| *byte == b'\n');
    let lines = lines.filter(|line| !line.trim_ascii().is_empty());
    let folder = tempfile::tempdir().expect("a folder");
    let Ok(taken) = take_in(&intake(folder.path(), log), &SilentProgress) else {
        return None;
    };
    let (requests, dropped) = (taken.requests, taken.dropped.count());
    let all = requests + dropped + taken.dropped.others();
    assert_eq!(all, lines.count() as u64, "{what}");
    if requests * 10 < (requests + dropped) * 9 {
        assert!(taken.is_mostly_dropped(), "{what}");
        let first = &summary(&taken)[0];
        let words = format!("of which {requests} are requests, {dropped} were dropped (");
        assert!(first.contains(&words), "{what}: {first}");
    }
    let mut left = true_ones.to_vec();
    let is_told = |words: &str| summary(&taken).iter().any(|line| line.contains(words));
    let strange = request_fields(&taken).into_iter().find(|one| {
        // Tolerated if reported: nothing was sent, or the offset is unknown.
        let is_same = |other: &&RequestFields| match *one {
            (_, _, 0) if taken.bytes == 0 => is_told("no request sent a byte"),
            // Where headers are counted, their share of the bytes is unknown.
            (u64::MAX, _, sent) => {
                (other.2..other.2 + 400).contains(&sent) && is_told("at an unknown offset")
            }
            one => one == **other,
        };
        let place = left.iter().position(|other| is_same(&other));
        place.map(|place| left.swap_remove(place)).is_none()
    });
    strange.map(|one| format!("{what}: {one:?} was never requested"))
}

/// The value after a JSON key, if there is one.
fn value(word: &str) -> &str {
    word.split_once(": ").map_or(word, |(_, value)| value)
}

/// The lines of a log with two of their columns, or two JSON values, exchanged.
fn swapped(log: &str, is_json: bool, one: usize, other: usize) -> Option<String> {
    let mut any = false;
    let has_header = log.starts_with('#');
    let lines = log.lines().map(|line| {
        let (separator, mut words) = match (line.starts_with('#'), is_json, line.contains('\t')) {
            (true, ..) => return line.to_owned(),
            (_, true, _) => (", \"", line.split(", \"").collect::<Vec<_>>()),
            (_, _, true) => ("\t", line.split('\t').collect()),
            (..) => (" ", line.split(' ').collect()),
        };
        // Two numbers cannot be distinguished, nor a number from an optional empty column.
        let is_number = |word: &str| {
            let plain = word.trim_matches(|c: char| "\",}]".contains(c));
            plain.parse::<f64>().is_ok()
                || has_header && plain == "-"
                || is_json && plain.is_empty()
        };
        if one >= words.len() || is_number(value(words[one])) && is_number(value(words[other])) {
            return line.to_owned();
        }
        any = true;
        if !is_json {
            words.swap(one, other);
            return words.join(separator);
        }
        let key = |word: &str| {
            word.split_once(": ")
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
        };
        let (Some(first), Some(second)) = (key(words[one]), key(words[other])) else {
            return line.to_owned();
        };
        let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        words[one] = format!("{}: {}", first.0, second.1);
        words[other] = format!("{}: {}", second.0, first.1);
        words.join(separator)
    });
    let lines: Vec<String> = lines.collect();
    any.then(|| lines.join("\n"))
}

#[test]
fn swapped_columns_are_never_misread() {
    let mut strange = Vec::new();
    for sample in richest() {
        let log = text(sample.name);
        let true_ones = request_fields(&taken(&log));
        let log = String::from_utf8_lossy(&log);
        let is_json = log.starts_with('{');
        for (one, other) in (0..40).flat_map(|one| (0..one).map(move |other| (one, other))) {
            if let Some(swapped) = swapped(&log, is_json, one, other) {
                let what = format!("{} {one} {other}", sample.name);
                strange.extend(check(&what, swapped.as_bytes(), &true_ones));
            }
        }
    }
    assert!(strange.is_empty(), "{strange:#?}");
}

#[test]
fn joined_formats_are_read_line_by_line() {
    for sample in samples() {
        let log = text(sample.name);
        for other in samples() {
            let second = text(other.name);
            let true_ones = [
                request_fields(&taken(&log)),
                request_fields(&taken(&second)),
            ]
            .concat();
            let what = format!("{} and {}", sample.name, other.name);
            let joined = [log.as_slice(), &second].concat();
            assert_eq!(check(&what, &joined, &true_ones), None);
        }
    }
}

#[test]
fn lines_cut_at_every_byte_are_accounted_for() {
    for sample in richest() {
        let log = text(sample.name);
        let true_ones = request_fields(&taken(&log));
        let lines: Vec<&[u8]> = log.split(|byte| *byte == b'\n').collect();
        let longest = lines.iter().map(|line| line.len()).max().unwrap_or(0);
        for at in 0..longest {
            let cut = lines.iter().map(|line| match line.starts_with(b"#") {
                true => line,
                false => &line[..at.min(line.len())],
            });
            let cut: Vec<&[u8]> = cut.collect();
            // A truncated size is another valid size.
            check(
                &format!("{} at {at}", sample.name),
                &cut.join(&b'\n'),
                &true_ones,
            );
        }
    }
}

/// The last lines of a log and its header lines, because a test that reads the log once for each
/// byte of its last line needs no more.
fn last_lines(log: &[u8], count: usize) -> Vec<u8> {
    let lines: Vec<&[u8]> = log.split_inclusive(|byte| *byte == b'\n').collect();
    let from = lines.len().saturating_sub(count);
    let lines = lines.iter().enumerate();
    let lines = lines.filter(|(at, line)| *at >= from || line.starts_with(b"#"));
    lines.flat_map(|(_, line)| line.iter().copied()).collect()
}

#[test]
fn truncated_last_line_is_never_another_method() {
    for sample in richest() {
        let log = last_lines(&text(sample.name), 4);
        let before = log.trim_ascii_end().iter().rposition(|byte| *byte == b'\n');
        let before = before.expect("several lines") + 1;
        let others = |taken: &IntakeResult| taken.dropped.count_of(DropReason::NotGet);
        let whole = taken(&log[..before]);
        // Every fifth place: a field has more bytes than that, or its neighbours are tried.
        for end in (before + 1..log.len() - 1).step_by(5) {
            let cut = taken(&log[..end]);
            let what = format!("{} at {end}: {:?}", sample.name, cut.dropped);
            assert_eq!(others(&cut), others(&whole), "{what}");
            // It adds one line: truncated, or valid if everything that counts is left.
            let lines = |taken: &IntakeResult| {
                taken.requests + taken.dropped.count() + taken.dropped.others()
            };
            assert_eq!(lines(&cut), lines(&whole) + 1, "{what}");
        }
    }
}

#[test]
fn rotated_and_compressed_logs_are_one() {
    for sample in samples() {
        let plain = text(sample.name);
        let whole = taken(&plain);
        let folder = tempfile::tempdir().expect("a folder");
        let lines: Vec<&[u8]> = plain.split_inclusive(|byte| *byte == b'\n').collect();
        let is_header = |line: &&&[u8]| line.starts_with(b"#");
        let header: Vec<&[u8]> = lines
            .iter()
            .copied()
            .filter(|line| is_header(&line))
            .collect();
        let rest = &lines[header.len()..];
        let mut intake = intake(
            folder.path(),
            &[header.concat(), rest[11..].concat()].concat(),
        );
        let packed = std::fs::File::create(folder.path().join("access.log.2.gz"));
        let mut packed =
            flate2::write::GzEncoder::new(packed.expect("a file"), flate2::Compression::fast());
        let oldest = [header.concat(), rest[..4].concat()].concat();
        packed.write_all(&oldest).expect("packed");
        packed.finish().expect("packed");
        let middle = [header.concat(), rest[4..11].concat()].concat();
        std::fs::write(folder.path().join("access.log.1"), middle).expect("written");
        for name in ["access.log.1", "access.log.2.gz"] {
            intake.logs.push(folder.path().join(name));
        }
        let rotated = take_in(&intake, &SilentProgress).expect("read");
        assert_eq!(
            request_fields(&rotated),
            request_fields(&whole),
            "{}",
            sample.name
        );
        assert_eq!(rotated.sessions, whole.sessions, "{}", sample.name);
        assert_eq!(rotated.dropped.count(), 0, "{}", sample.name);
    }
}

#[test]
fn unplaced_and_untimed_counts_exclude_duplicates() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = text("nginx-combined");
    let parts: Vec<&[u8]> = log
        .split_inclusive(|byte| *byte == b'\n')
        .filter(|line| line.windows(5).any(|part| part == b" 206 "))
        .collect();
    // Two overlapping logs: their common requests count once.
    let mut intake = intake(folder.path(), &parts[..6].concat());
    let other = folder.path().join("other.log");
    std::fs::write(&other, parts[2..].concat()).expect("written");
    intake.logs.push(other);
    let taken = take_in(&intake, &SilentProgress).expect("read");
    assert_eq!((taken.requests, taken.unplaced, taken.untimed), (8, 8, 8));
    assert!(
        summary(&taken)
            .iter()
            .any(|line| line.starts_with("8 of 8 requests")),
        "{:#?}",
        summary(&taken)
    );
}
