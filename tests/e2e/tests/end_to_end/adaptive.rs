//! Adaptive players, and devices of a workload of phases, end to end: a trace is generated from a
//! specification, its files are created, real servers serve them, and every byte is verified.

use std::path::Path;
use std::process::{Command, Stdio};

use headlong_e2e_tests::nginx::Nginx;
use headlong_testkit::server::{ServerBuilder, binary};
use headlong_testkit::{ProgramRun, Scratch};
use serde_json::Value;

/// Three bit rates: the slow network carries only the lowest, the fast network all. Two kinds of
/// players.
const SPECIFICATION: &str = r#"
name = "small"
[title.dash]
count = 4
durations = "40s"
segment_time = "2s"
renditions = ["100kbps", "400kbps", "1600kbps"]
segment_variation = 0
table_entry_bytes = 16
[sessions]
count = 24
rate = "2/s"
[viewing]
fraction = [[0.3, 0], [0.7, 1]]
pause = 0.05
pause_time = "2s"
skip = 0.05
[player.phone]
share = 2
buffer_high = "10s"
timeout = "off"
[player.tv]
share = 1
rule = "buffer"
buffer_high = "10s"
timeout = "off"
connections = 2
request_segments = "open-ended"
[network.slow]
bandwidth = "300kbps"
delay = "20ms"
[network.fast]
bandwidth = "8Mbps"
delay = "20ms"
"#;

fn headlong(arguments: &[&str]) -> String {
    let mut command = Command::new(binary());
    let run = ProgramRun::of(command.args(arguments).stdin(Stdio::null()));
    run.exits_with(0).stdout
}

fn word(path: &Path) -> &str {
    path.to_str().expect("a path of letters")
}

#[test]
fn adaptive_viewers_get_correct_bytes_within_their_bandwidth() {
    watch(&[]);
}

#[test]
fn adaptive_viewers_get_correct_bytes_from_segment_files() {
    let one = "player.tv.request_segments=1";
    watch(&["--set", "catalogue.chunk=segment", "--set", one]);
}

/// Generates, fills, serves and plays the workload with these changes.
fn watch(changes: &[&str]) {
    let folder = Scratch::new("adaptive").expect("a folder");
    let file = |name: &str| folder.path().join(name);
    let (specification, trace, titles) = (file("small.toml"), file("small.trace"), file("titles"));
    std::fs::write(&specification, SPECIFICATION).expect("written");
    let (name, generate) = (word(&specification), ["workload", "generate"]);
    headlong(&[&generate[..], &[name, "-o", word(&trace)], changes].concat());
    let fill = ["workload", "fill", word(&titles), "--spec", name];
    headlong(&[&fill[..], changes].concat());
    let server = ServerBuilder::new([&titles]).start();
    let url = format!("http://{}/", server.address());
    // The machine may be busy; its speed is not under test.
    let patient = ["--time-scale", "4", "--late-max", "600s", "--json", "-"];
    let mut arguments = vec!["load", word(&trace), &url];
    arguments.extend(patient);
    let result: Value = serde_json::from_str(&headlong(&arguments)).expect("JSON");

    assert_eq!(result["sessions"]["steady"], 24, "{result}");
    assert_eq!(result["failure_share"], 0.0, "{result}");
    assert_eq!(result["wrong_bytes"], 0);
    let number = |value: &Value| {
        value
            .as_f64()
            .unwrap_or_else(|| panic!("{value}: {result}"))
    };
    let classes = result["classes"].as_array().expect("classes");
    let bytes: f64 = classes.iter().map(|class| number(&class["bytes"])).sum();
    assert!(bytes > 0.0 && number(&result["checked_bytes"]) >= bytes);
    let of = |name: &str, figure: &str| {
        let class = classes.iter().find(|class| class["name"] == name);
        number(&class.expect("the class is in the report")[figure])
    };
    // The slow network carries one rendition at most for longer periods.
    assert!(of("slow", "bit_rate_bps") < 300_000.0, "{result}");
    assert!(
        of("fast", "bit_rate_bps") > 2.0 * of("slow", "bit_rate_bps"),
        "{result}"
    );
    for name in ["slow", "fast"] {
        // Each viewer watches 12 to 28 s of 40 s, completely.
        let played = of(name, "played_s") / of(name, "sessions");
        assert!((10.0..30.0).contains(&played), "{result}");
        assert_eq!(of(name, "gave_up"), 0.0);
    }
}

/// Three devices, one for each form of requests, whose viewers skip and pause often.
const PHASES: &str = r#"
model = "phases"
name = "phases"
[catalogue]
titles = 4
head_titles = 1
drives = 1
durations = [[40, 0], [60, 1]]
audio = [[256, 1, 1]]
video = [[200, 1, 1], [400, 1, 1], [800, 1, 1]]
combined = [[300, 1, 1], [900, 1, 1]]
[sessions]
length = "60s"
rate = "0.4/s"
[viewing]
skips_per_hour = 120
pauses_per_hour = 120
pause_time = [[2, 0], [6, 1]]
[network]
headroom = [[2, 0], [6, 1]]
[device.tv]
buffer = "10s"
audio_buffer = "20s"
[device.disc-player]
buffer = "10s"
audio_buffer = "20s"
[device.browser]
buffer = "10s"
"#;

#[test]
fn phased_viewers_get_correct_bytes_from_headlong_and_nginx() {
    let folder = Scratch::new("phases").expect("a folder");
    let file = |name: &str| folder.path().join(name);
    let (specification, trace, titles) = (file("small.toml"), file("small.trace"), file("titles"));
    std::fs::write(&specification, PHASES).expect("written");
    let name = word(&specification);
    headlong(&["workload", "generate", name, "-o", word(&trace)]);
    headlong(&["workload", "fill", word(&titles), "--spec", name]);
    let headlong_server = ServerBuilder::new([&titles]).start();
    let nginx = Nginx::start(&titles).expect("nginx");
    let play = |address: std::net::SocketAddr, name: &str| -> (Value, u64) {
        let (url, records) = (format!("http://{address}/"), file(name));
        let patient = ["--time-scale", "4", "--late-max", "600s", "--json", "-"];
        let mut arguments = vec!["load", word(&trace), &url, "--records", word(&records)];
        arguments.extend(patient);
        let result: Value = serde_json::from_str(&headlong(&arguments)).expect("JSON");
        let rows = std::fs::read_to_string(&records).expect("records");
        (result, rows.lines().count() as u64 - 1)
    };
    let text = std::fs::read_to_string(&trace).expect("a trace");
    let sessions = text.lines().filter(|line| line.starts_with("{\"session\""));
    let sessions = sessions.count();
    let calls = text.matches("\"takes\":").count() as u64;
    assert!(sessions > 10 && calls > 400, "{sessions} and {calls}");
    assert!(text.contains("\"buffer\":") && text.contains(",null]"));
    for (address, name) in [
        (headlong_server.address(), "h.csv"),
        (nginx.address(), "n.csv"),
    ] {
        let (result, requests) = play(address, name);
        assert_eq!(result["sessions"]["steady"], sessions, "{name}: {result}");
        assert_eq!(result["failure_share"], 0.0, "{name}: {result}");
        assert_eq!(result["wrong_bytes"], 0, "{name}: {result}");
        assert_eq!(
            requests, calls,
            "{name}: the same requests for every server"
        );
        let classes = result["classes"].as_array().expect("classes");
        let bytes = classes.iter().filter_map(|class| class["bytes"].as_u64());
        let bytes: u64 = bytes.sum();
        assert!(
            bytes > 0 && result["checked_bytes"].as_u64() >= Some(bytes),
            "{result}"
        );
    }
}
