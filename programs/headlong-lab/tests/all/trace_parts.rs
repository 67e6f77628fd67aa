//! `headlong trace split`, `characterise --partial` and `merge`: the report of one run.

use std::fmt::Write as _;
use std::path::Path;

use super::run_in;

/// Viewers with and without a session id, whose films overlap in time; some lines are unreadable.
fn log() -> String {
    let mut text = String::new();
    for viewer in 0..80 {
        for part in 0..12 + viewer * 7 % 30 {
            let second = viewer * 31 + part * 5;
            let (start, end) = (part * 524_288, part * 524_288 + 524_287);
            let session = match viewer % 3 {
                0 => String::new(),
                _ => format!(" session=s{viewer}"),
            };
            let _ = writeln!(
                text,
                "192.0.2.{viewer} - - [24/Nov/2026:{:02}:{:02}:{:02} +0000] \"GET /films/film{}.mp4 \
                 HTTP/1.1\" 206 524288 \"-\" \"Player/{}.0\" rt=0.250 \
                 range=\"bytes={start}-{end}\"{session}",
                10 + second / 3600,
                second / 60 % 60,
                second % 60,
                viewer * viewer % 11,
                viewer % 4,
            );
        }
        if viewer % 20 == 0 {
            text.push_str("what is this line\n");
        }
    }
    text
}

/// Standard output of a run without an error.
fn told(folder: &Path, words: &str) -> String {
    let run = run_in(folder, &format!("trace {words}"));
    run.exits_with(0).stdout
}

/// Standard error of a run that must refuse its command line.
fn refused(folder: &Path, words: &str) -> String {
    let run = run_in(folder, &format!("trace {words}"));
    run.exits_with(64).stderr
}

/// A folder with a log, its three shards and their sums.
fn split_log() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    std::fs::write(path.join("a.log"), log()).expect("written");
    told(path, "split a.log --into 3 --by session --out shards");
    for number in 0..3 {
        told(
            path,
            &format!("characterise shards/shard-00{number} --partial {number}.sums"),
        );
    }
    folder
}

#[test]
fn merged_report_equals_that_of_one_run() {
    let folder = split_log();
    let path = folder.path();
    let page = || std::fs::read(path.join("page.html")).expect("written");
    let options = "--html page.html --thesis --title Films";
    let (text, html) = (told(path, &format!("characterise a.log {options}")), page());
    assert_eq!(
        told(path, &format!("merge 2.sums 0.sums 1.sums {options}")),
        text
    );
    assert_eq!(page(), html);
    let json = told(path, "characterise a.log --json");
    assert_eq!(told(path, "merge 1.sums 2.sums 0.sums --json"), json);
    assert!(json.contains("headlong trace characterise a.log --json"));
    told(path, "split a.log --into 1 --out one");
    told(
        path,
        "characterise one/shard-000 --partial one.sums --link component",
    );
    let json = told(path, "characterise a.log --link component --json");
    assert_eq!(told(path, "merge one.sums --json"), json);
}

#[test]
fn parts_that_do_not_fit_are_refused_by_name() {
    let folder = split_log();
    let path = folder.path();
    told(path, "split a.log --into 2 --out two");
    told(path, "characterise two/shard-001 --partial other.sums");
    told(
        path,
        "characterise shards/shard-001 --partial idle.sums --gap idle",
    );
    let bytes = std::fs::read(path.join("1.sums")).expect("readable");
    std::fs::write(path.join("cut.sums"), &bytes[..bytes.len() - 9]).expect("written");
    for (arguments, words) in [
        (
            "merge 0.sums 1.sums",
            "0.sums: only 2 of 3 shards are here, shard 2 is missing",
        ),
        (
            "merge 0.sums 1.sums 1.sums",
            "1.sums: shard 1 of 3 is already in 1.sums",
        ),
        (
            "merge 0.sums other.sums",
            "other.sums: is part of another log or split",
        ),
        (
            "merge 0.sums idle.sums",
            "idle.sums: chains were joined by other rules",
        ),
        ("merge 0.sums cut.sums", "cut.sums: is cut or damaged"),
        ("merge a.log", "a.log: is not a partial sum"),
        ("merge shards/shard-000", "shard-000: is not a partial sum"),
        (
            "characterise a.log --partial x.sums",
            "a.log: is not a shard of a log",
        ),
        (
            "characterise shards/shard-000",
            "shard-000: is a shard of a log; sum it by --partial",
        ),
        (
            "characterise shards/shard-000 shards/shard-001 --partial x.sums",
            "name one shard",
        ),
        (
            "characterise shards/shard-000 --partial x.sums --json",
            "cannot be used with",
        ),
    ] {
        let told = refused(path, arguments);
        assert!(told.contains(words), "{arguments}: {told}");
    }
    assert!(!path.join("x.sums").exists());
}
