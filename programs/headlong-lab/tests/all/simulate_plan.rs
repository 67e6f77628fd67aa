//! `headlong simulate plan` on logs: the same viewers in every form, few sessions, no ranges.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::run_in;

/// A request of a viewer for a megabyte.
struct Segment {
    /// Completion, seconds from the start of the log; it took 0.3 s.
    done_s: u32,
    viewer: u32,
    title: u32,
    number: u64,
}

/// 300 viewers of 60 titles, a megabyte every 4 s, in the order of completion.
fn segments() -> Vec<Segment> {
    let mut segments = Vec::new();
    for viewer in 0..300_u32 {
        let (start, title) = (viewer * 37 % 2_000, viewer * viewer * 7 % 60);
        let count = 20 + u64::from(viewer * 53 % 90);
        segments.extend((0..count).map(|number| Segment {
            done_s: start + number as u32 * 4,
            viewer,
            title,
            number,
        }));
    }
    segments.sort_by_key(|segment| segment.done_s);
    segments
}

/// How the content is stored: what is requested, and the range.
#[derive(Clone, Copy)]
enum Storage {
    File,
    Hls,
    Dash,
}

impl Segment {
    fn path(&self, storage: Storage) -> String {
        let (title, number) = (self.title, self.number);
        match storage {
            Storage::File => format!("/films/t{title:02}.mp4"),
            Storage::Hls => format!("/hls/t{title:02}/seg{number:05}.ts"),
            Storage::Dash => format!("/dash/t{title:02}/chunk-stream0-{number:05}.m4s"),
        }
    }

    fn range(&self, storage: Storage) -> String {
        let start = self.number * 1_000_000;
        match storage {
            Storage::File => format!("bytes={start}-{}", start + 999_999),
            Storage::Hls | Storage::Dash => "-".to_owned(),
        }
    }

    fn status(storage: Storage) -> u16 {
        match storage {
            Storage::File => 206,
            Storage::Hls | Storage::Dash => 200,
        }
    }

    fn address(&self) -> String {
        format!("198.51.{}.{}", self.viewer / 250, self.viewer % 250)
    }

    fn clock(&self) -> String {
        let second = self.done_s;
        format!(
            "{:02}:{:02}:{:02}",
            10 + second / 3600,
            second / 60 % 60,
            second % 60
        )
    }

    fn common(&self, address: &str, storage: Storage) -> String {
        format!(
            "{address} - - [26/Oct/2026:{} +0000] \"GET {} HTTP/1.1\" {} 1000000 \"-\" \"P/1\"",
            self.clock(),
            self.path(storage),
            Self::status(storage)
        )
    }
}

/// The log of a server, a line for each segment.
fn log(storage: Storage, head: &str, line: impl Fn(&Segment, Storage) -> String) -> String {
    let mut log = head.to_owned();
    for segment in segments() {
        let _ = writeln!(log, "{}", line(&segment, storage));
    }
    log
}

fn nginx(segment: &Segment, storage: Storage) -> String {
    let range = segment.range(storage);
    format!(
        "{} rt=0.300 range=\"{range}\"",
        segment.common(&segment.address(), storage)
    )
}

/// The same viewers in logs with other facts about them.
fn logs() -> [(&'static str, String); 6] {
    use Storage::{Dash, File, Hls};
    let behind_proxy = |segment: &Segment, storage| {
        format!(
            "{} \"{}\"",
            segment.common("10.0.0.9", storage),
            segment.address()
        )
    };
    let plain = |segment: &Segment, storage| {
        let (offset, done) = (segment.number * 1_000_000, segment.done_s);
        let (path, viewer) = (segment.path(storage), segment.viewer);
        format!("{done},300,{viewer},{path},{offset},1000000,1000000")
    };
    let plain_head = "ts,service_ms,session,file,offset,size,bytes\n";
    [
        ("ranges", log(File, "", nginx)),
        ("HLS", log(Hls, "", nginx)),
        ("DASH", log(Dash, "", nginx)),
        ("HLS behind a proxy", log(Hls, "", behind_proxy)),
        ("DASH behind a proxy", log(Dash, "", behind_proxy)),
        ("sessions", log(File, plain_head, plain)),
    ]
}

/// The options of all plans here.
const WANTED: &str = "--peak 10Gbit/s --drives nearline-20tb --algorithm fixed --size 8 --json";

fn plan(folder: &Path, source: &str) -> Value {
    let run = run_in(folder, &format!("simulate plan {source} {WANTED}"));
    run.exits_with(0).json()
}

/// Work of drives, memory and viewers of a plan.
fn figures(plan: &Value) -> [f64; 3] {
    let need = &plan["needs"][0];
    let busy = need["drives"]["utilisation"]["value"].as_f64();
    let drives = need["drives"]["count"]["value"].as_f64();
    let busy = busy.zip(drives).map(|(busy, drives)| busy * drives);
    let memory = need["ram_gb"]["value"].as_f64();
    let viewers = plan["viewers"]["value"].as_f64();
    [busy, memory, viewers].map(|figure| figure.expect("a figure"))
}

fn are_near(one: [f64; 3], other: [f64; 3], within: f64) -> bool {
    let pairs = one.into_iter().zip(other);
    pairs
        .map(|(one, other)| (one / other - 1.0).abs())
        .all(|off| off <= within)
}

#[test]
fn same_viewers_give_same_plan_for_ranges_hls_and_dash() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut first = None;
    for (name, log) in logs() {
        fs::write(folder.path().join("access.log"), log).expect("written");
        let plan = plan(folder.path(), "--log access.log");
        assert_eq!(plan["sessions"], 300, "{name}");
        let found = figures(&plan);
        let first = *first.get_or_insert(found);
        assert!(
            are_near(found, first, 0.05),
            "{name}: {found:?}, not {first:?}"
        );
    }
}

#[test]
fn log_tables_and_specification_agree() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    fs::write(at.join("access.log"), log(Storage::Hls, "", nginx)).expect("written");
    let words = "trace characterise access.log --tables tables --spec s.toml";
    run_in(at, words).exits_with(0);
    let of_log = plan(at, "--log access.log");
    let of_tables = plan(at, "tables");
    assert!(are_near(figures(&of_tables), figures(&of_log), 1e-9));
    let of_spec = plan(at, "s.toml");
    let remarks = of_spec["remarks"].to_string();
    assert!(
        remarks.contains("generated from a specification"),
        "{remarks}"
    );
    // What is known of the titles stays as it is.
    for of in [&of_log, &of_tables, &of_spec] {
        assert_eq!(of["catalogue_is_least"], true, "{of}");
    }
    assert_eq!(of_spec["catalogue_bytes"], of_log["catalogue_bytes"]);
    assert!(
        are_near(figures(&of_spec), figures(&of_log), 0.1),
        "{of_spec}, not {of_log}"
    );
}

#[test]
fn one_session_gives_no_plan() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut log = String::new();
    for index in 0..100 {
        let (minute, second) = (index / 60, index % 60);
        let (start, end) = (index * 1000, index * 1000 + 999);
        let _ = writeln!(
            log,
            "192.0.2.1 - - [26/Oct/2026:10:{minute:02}:{second:02} +0000] \"GET /v/a.mp4 HTTP/1.1\" \
             206 1000 \"-\" \"UA/1\" rt=1.000 range=\"bytes={start}-{end}\""
        );
    }
    fs::write(folder.path().join("one.log"), log).expect("written");
    let words = "trace characterise one.log --tables t --spec one.toml";
    run_in(folder.path(), words).exits_with(0);
    for source in ["--log one.log", "t", "one.toml"] {
        let words = format!("simulate plan {source} {WANTED}");
        let output = run_in(folder.path(), &words).exits_with(5);
        let stderr = &output.stderr;
        let says = "at least 200 sessions (2000 for narrow intervals), and the log has 1;";
        assert!(
            stderr.contains(says) && output.stdout.is_empty(),
            "{source}: {stderr}"
        );
    }
}

#[test]
fn shuffled_log_gives_same_plan() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = log(Storage::File, "", nginx);
    let mut lines: Vec<&str> = log.lines().collect();
    fs::write(folder.path().join("a.log"), lines.join("\n")).expect("written");
    let in_order = plan(folder.path(), "--log a.log");
    // Multiplication by a number without common factors is a permutation.
    let count = lines.len();
    assert_ne!(count % 7_919, 0);
    lines = (0..count)
        .map(|place| lines[place * 7_919 % count])
        .collect();
    fs::write(folder.path().join("a.log"), lines.join("\n")).expect("written");
    assert_eq!(plan(folder.path(), "--log a.log"), in_order);
}

#[test]
fn log_without_ranges_gives_bounds_around_the_truth() {
    let folder = tempfile::tempdir().expect("a folder");
    let with = plan_of(folder.path(), log(Storage::File, "", nginx));
    let without = plan_of(
        folder.path(),
        log(Storage::File, "", |segment, storage| {
            segment.common(&segment.address(), storage)
        }),
    );
    let remarks = without["remarks"].to_string();
    assert!(remarks.contains("no byte ranges"), "{remarks}");
    for figure in ["ram_gb", "cost"] {
        let truth = with["needs"][0][figure]["value"]
            .as_f64()
            .expect("a figure");
        let bound = |end: &str| without["needs"][0][figure][end].as_f64().expect("a bound");
        assert!(
            bound("low") <= truth * 1.001 && truth <= bound("high"),
            "{figure}: {without}"
        );
        assert!(bound("high") > 1.3 * bound("low"), "{figure}: {without}");
    }
}

fn plan_of(folder: &Path, log: String) -> Value {
    fs::write(folder.join("access.log"), log).expect("written");
    plan(folder, "--log access.log")
}

#[test]
fn table_of_chains_without_sessions_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let table = "start,length,t_start,t_end,open\n0,1000000,0,1000,1\n";
    fs::write(folder.path().join("c.csv"), table).expect("written");
    let words = format!("simulate plan c.csv {WANTED}");
    let stderr = run_in(folder.path(), &words).exits_with(64).stderr;
    assert!(stderr.contains("no column `session`"), "{stderr}");
}
