//! `headlong trace characterise` on common server logs.

use std::fmt::Write as _;
use std::path::Path;

use headlong_testkit::ProgramRun;

use super::command;

/// Lines in nginx's `combined`: 30 viewers, each reading one of ten films in parts of 512 KiB.
fn combined() -> String {
    let mut log = String::new();
    for viewer in 0..30 {
        for part in 0..10 {
            let second = viewer * 10 + part;
            let _ = writeln!(
                log,
                "192.0.2.{viewer} - - [24/Nov/2026:10:{:02}:{:02} +0000] \"GET /films/film{}.mp4 \
                 HTTP/1.1\" 206 524288 \"-\" \"Player/1.0\"",
                second / 60,
                second % 60,
                viewer % 10,
            );
        }
    }
    log
}

/// The same in the suggested log format.
fn with_ranges() -> String {
    let lines = combined();
    let lines = lines.lines().enumerate().map(|(line, text)| {
        let start = line % 10 * 524_288;
        format!(
            "{text} rt=0.100 range=\"bytes={start}-{}\"\n",
            start + 524_287
        )
    });
    lines.collect()
}

fn run_trace(log: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    run(folder.path(), log, arguments)
}

fn run(folder: &Path, log: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    std::fs::write(folder.join("access.log"), log).expect("written");
    let all = [&["trace", "characterise", "access.log"], arguments].concat();
    let run = ProgramRun::of(command(all).current_dir(folder));
    (run.code, run.stdout, run.stderr)
}

#[test]
fn log_without_ranges_reports_remedy_and_other_figures() {
    let (code, out, _) = run_trace(&combined(), &[]);
    assert_eq!(code, Some(0), "{out}");
    let lines: Vec<&str> = out.lines().collect();
    assert!(
        lines[0].starts_with("read as combined: 300 lines, of which 300 are requests"),
        "{out}"
    );
    assert!(
        lines[1].starts_with("300 of 300 requests are for a part of a file"),
        "{out}"
    );
    assert!(
        out.contains("  nginx: log_format video '$remote_addr"),
        "{out}"
    );
    assert!(
        out.contains("rt=$request_time range=\"$http_range\"';"),
        "{out}"
    );
    assert!(
        out.contains("titles: 10 files, 10 by their own names"),
        "{out}"
    );
    for row in [
        "Number of sessions",
        "Number of unique titles",
        "Average throughput",
    ] {
        assert!(out.contains(row), "{out}");
    }
    assert!(!out.contains("chain (s)"), "chains must be missing: {out}");
    assert!(out.contains("157 MB"), "in a readable unit: {out}");
}

#[test]
fn suggested_log_format_gives_all_figures() {
    let folder = tempfile::tempdir().expect("a folder");
    let (code, out, _) = run(folder.path(), &with_ranges(), &["--html", "page.html"]);
    assert_eq!(code, Some(0), "{out}");
    assert!(
        !out.contains("is written by") && out.contains("NTT/chain (s)"),
        "{out}"
    );
    let page = || std::fs::read_to_string(folder.path().join("page.html")).expect("written");
    for text in [&out, &page()] {
        assert!(!text.to_lowercase().contains("thesis"), "{text}");
        assert!(
            !text.contains("Table 5.") && !text.contains("Figure 5."),
            "{text}"
        );
    }
    let (code, out, _) = run(
        folder.path(),
        &with_ranges(),
        &["--html", "page.html", "--thesis"],
    );
    assert_eq!(code, Some(0), "{out}");
    assert!(page().contains("Beside the thesis") && page().contains("Table 5.4"));
}

#[test]
fn counts_sessions_that_start_at_beginning() {
    let (_, json, _) = run_trace(&with_ranges(), &["--json"]);
    let told: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let sections = told["sections"].as_array().expect("a list");
    let tables = || {
        sections
            .iter()
            .flat_map(|section| section["tables"].as_array())
    };
    let table = |id: &str| {
        let mut tables = tables().flatten();
        tables
            .find(|table| table["id"] == id)
            .expect("a table")
            .clone()
    };
    let value = |id: &str, row: &str| {
        let table = table(id);
        let mut rows = table["rows"].as_array().expect("a list").iter();
        let row = rows.find(|known| known["key"] == row).expect("a row");
        row["values"][0].as_f64().expect("a number")
    };
    assert_eq!(value("table-viewing", "start-1"), 100.0);
    assert_eq!(value("table-5.1", "sessions"), 30.0);
    let rates = table("table-bit-rates");
    let rows = rates["rows"].as_array().expect("a list");
    assert!(
        rows.iter()
            .all(|row| !row["key"].as_str().unwrap_or("-0").ends_with("-0"))
    );
}

#[test]
fn mostly_dropped_log_needs_allow_dropped() {
    let log = combined()
        .lines()
        .enumerate()
        .fold(String::new(), |mut log, (line, text)| {
            let text = if line % 5 == 0 { &text[..60] } else { text };
            log.push_str(text);
            log.push('\n');
            log
        });
    let (code, out, err) = run_trace(&log, &[]);
    assert_eq!((code, out.as_str()), (Some(5), ""), "{err}");
    assert!(
        err.contains("60 were dropped (20.0 %)") && err.contains("--allow-dropped"),
        "{err}"
    );
    let (code, out, _) = run_trace(&log, &["--allow-dropped"]);
    assert_eq!(code, Some(0));
    assert!(
        out.starts_with("read as combined: 300 lines, of which 240 are requests"),
        "{out}"
    );
}

#[test]
fn check_reads_only_first_lines() {
    let log = combined().repeat(60);
    let (code, out, _) = run_trace(&log, &["--check"]);
    assert_eq!(code, Some(0));
    assert!(out.starts_with("read as combined: 10000 lines"), "{out}");
    assert!(!out.contains("Number of sessions"), "{out}");
}

#[test]
fn reports_impossible_options_with_alternatives() {
    let custom =
        "192.0.2.1 [2026-11-24T10:00:00+00:00] \"GET /a.mp4 HTTP/1.1\" 206 5 0.1\n".repeat(9);
    let (code, _, err) = run_trace(&custom, &[]);
    assert_eq!(code, Some(64));
    assert!(err.contains("--log-format"), "{err}");
    let format = "$remote_addr [$time_iso8601] \"$request\" $status $body_bytes_sent $request_time";
    let (code, out, _) = run_trace(&custom, &["--log-format", format]);
    assert_eq!(code, Some(0), "{out}");
    let (code, _, err) = run_trace(&combined(), &["--session-field", "nonsense"]);
    assert_eq!(code, Some(64));
    assert!(err.contains("`nonsense`"), "{err}");
    let (code, _, err) = run_trace(&combined(), &["--title-rule", "film"]);
    assert_eq!(code, Some(64));
    assert!(err.contains("0 groups"), "{err}");
}

#[test]
fn lists_unused_columns_once() {
    let lines = (0..300).map(|line| {
        let start = line * 1000;
        format!(
            "{{\"ts\":{},\"remote_addr\":\"192.0.2.7\",\"method\":\"GET\",\"uri\":\"/film.mp4\",\
             \"status\":206,\"bytes_sent\":1000,\"range\":\"bytes={start}-{}\",\
             \"request_tme\":0.1,\"colour\":\"red\"}}\n",
            1_716_000_000 + line,
            start + 999
        )
    });
    let (code, out, err) = run_trace(&lines.collect::<String>(), &[]);
    assert_eq!(code, Some(0), "{err}");
    let unused = "not used: colour, request_tme (request_time?)";
    assert!(out.lines().any(|line| line == unused), "{out}");
    let mut said: Vec<&str> = out
        .lines()
        .take_while(|line| !line.is_empty())
        .chain(err.lines())
        .collect();
    let all = said.len();
    said.sort_unstable();
    said.dedup();
    assert_eq!(said.len(), all, "{said:#?}");
}

#[test]
fn times_are_hours_of_the_first_day() {
    let (_, json, _) = run_trace(&with_ranges(), &["--json"]);
    let told: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let sections = told["sections"].as_array().expect("a list").iter();
    let figures = sections.filter_map(|section| section["figures"].as_array());
    let mut places = 0;
    for figure in figures.flatten() {
        if figure["x"]["quantity"] != "Time of day, UTC; 0 is Tue, 24 Nov 2026" {
            continue;
        }
        let series = figure["series"].as_array().expect("a list").iter();
        for point in series.flat_map(|one| one["points"].as_array().expect("points")) {
            let hours = point[0].as_f64().expect("a number");
            assert!((9.99..10.1).contains(&hours), "{figure}");
            places += 1;
        }
    }
    assert!(places > 2, "{json}");
}

#[test]
fn reports_binary_file_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = std::fs::read(env!("CARGO_BIN_EXE_headlong-lab")).expect("read");
    std::fs::write(folder.path().join("film.bin"), &program[..100_000]).expect("written");
    let (code, _, err) = run(folder.path(), &combined(), &["film.bin"]);
    assert_eq!(code, Some(64));
    assert_eq!(
        err.matches("film.bin is not a text log").count(),
        1,
        "{err}"
    );
}

#[test]
fn log_without_requests_gives_one_line() {
    let (code, out, err) = run_trace("", &[]);
    assert_eq!((code, &out[..]), (Some(5), ""));
    assert!(err.ends_with("headlong: the log is empty\n"), "{err}");
    let missing = with_ranges().replace(" 206 ", " 404 ");
    let (code, out, err) = run_trace(&missing, &[]);
    assert_eq!(code, Some(5));
    assert!(err.contains("there is no request in the log"), "{err}");
    assert!(!out.contains("Sessions"), "{out}");
}

#[test]
fn failures_are_counted_by_status_and_numbers_agree() {
    let mut log = with_ranges();
    let first = log.lines().next().expect("a line").to_owned();
    for (status, count) in [(" 404 ", 3), (" 503 ", 1), (" 304 ", 2)] {
        log.push_str(&format!("{}\n", first.replace(" 206 ", status)).repeat(count));
    }
    log.push_str(&format!("{}\n", first.replace("\"GET ", "\"HEAD ")));
    let folder = tempfile::tempdir().expect("a folder");
    let (code, text, err) = run(folder.path(), &log, &["--html", "page.html"]);
    assert_eq!(code, Some(0), "{err}");
    let page = std::fs::read_to_string(folder.path().join("page.html")).expect("written");
    assert!(!page.contains("-0 %"), "a share that is not negative");
    let (_, json, _) = run(folder.path(), &log, &["--json"]);
    let told: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    // What is left out as intended is not dropped.
    assert_eq!(told["about"]["dropped"], serde_json::json!([]));
    let sections = told["sections"].as_array().expect("a list").iter();
    let tables: Vec<&serde_json::Value> = sections
        .flat_map(|section| section["tables"].as_array().expect("a list"))
        .collect();
    let value = |id: &str, row: &str, column: usize| {
        let mut tables = tables.iter().filter(|table| table["id"] == id);
        let rows = tables.next().expect("a table")["rows"].as_array();
        let mut rows = rows.expect("rows").iter();
        let row = rows.find(|known| known["key"] == row).expect("a row");
        row["values"][column].as_f64().expect("a number")
    };
    assert_eq!(value("table-failures", "status 404", 0), 3.0);
    assert_eq!(value("table-failures", "status 503", 0), 1.0);
    let requests = [
        value("table-5.1", "requests", 0),
        value("table-5.2", "total", 0),
    ];
    assert_eq!(requests, [300.0; 2]);
    // 30 viewers, 10 s apart, of 9.1 s each.
    let peak = value("table-viewers", "peak", 0);
    assert!((0.9..=1.0).contains(&peak), "{peak}");
    // Each row of a table of the text is a row of the page.
    let mut rows = 0;
    for line in text.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        if cells[0].is_empty() || cells[0].starts_with("--") {
            continue;
        }
        let number = cells[1];
        let has_both = page.lines().any(|row| {
            row.contains(&format!(">{}<", cells[0])) && row.contains(&format!(">{number}<"))
        });
        assert!(has_both || number.contains('"'), "{line}");
        rows += 1;
    }
    assert!(rows > 40, "{text}");
    for told in ["status 404", "/films/film0.mp4", "Peak of viewers at once"] {
        assert!(text.contains(told) && page.contains(told), "{told}");
    }
}

#[test]
fn counts_page_resources_as_left_out() {
    let mut log = with_ranges();
    for name in ["poster.jpg", "player.js", "site.css", "favicon.ico"] {
        let like = with_ranges();
        let line = like.lines().next().expect("a line");
        log.push_str(&line.replace("films/film0.mp4", name));
        log.push('\n');
    }
    let (code, out, _) = run_trace(&log, &[]);
    assert_eq!(code, Some(0));
    let mut lines = out.lines();
    let first = lines.next().expect("a line");
    assert!(
        first.contains("300 are requests") && first.contains("4 were left out"),
        "{out}"
    );
    assert!(
        out.contains("4 lines left out: a web page, or an image"),
        "{out}"
    );
    assert!(out.contains("titles: 10 files"), "{out}");
}
