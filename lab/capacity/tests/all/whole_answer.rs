//! A whole answer from a small log: the limit, what one more part brings, nginx, the curve.

use std::fmt::Write as _;
use std::num::NonZeroUsize;

use headlong_capacity::{
    AnswerError, CapacityAnswer, CapacityOptions, LimitError, LogFacts, Machine, RunLengths,
    ViewerSample, capacity, page, text,
};
use headlong_trace::{Intake, SilentProgress, take_in};
use headlong_units::{Duration, MIB};

/// 210 viewers, two thirds of them of a title of their own, 2 MB every 4 s, as lines in the
/// suggested format of nginx; the others watch one of so many titles.
fn log(shared_titles: u32, are_all_shared: bool) -> Vec<String> {
    let mut lines = Vec::new();
    for viewer in 0..210_u32 {
        let is_shared = are_all_shared || viewer.is_multiple_of(3);
        let title = if is_shared {
            viewer % shared_titles
        } else {
            1_000 + viewer
        };
        for part in 0..10 + viewer * 53 % 30 {
            let second = viewer * 37 % 2_000 + part * 4;
            let start = part * 2_000_000;
            let mut line = String::new();
            let _ = write!(
                line,
                "198.51.100.{viewer} - - [26/Oct/2026:10:{:02}:{:02} +0000] \"GET /f/t-{title}.mp4 \
                 HTTP/1.1\" 206 2000000 \"-\" \"P/1\" rt=0.200 range=\"bytes={start}-{}\"",
                second / 60,
                second % 60,
                start + 1_999_999
            );
            lines.push((second, line));
        }
    }
    lines.sort();
    lines.into_iter().map(|(_, line)| line).collect()
}

fn answer(lines: &[String], is_whole: bool, threads: usize) -> Result<CapacityAnswer, AnswerError> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("access.log");
    std::fs::write(&path, lines.join("\n") + "\n").expect("written");
    let intake = Intake {
        logs: vec![path],
        threads,
        ..Intake::default()
    };
    let log = take_in(&intake, &SilentProgress).expect("a log");
    let sample = ViewerSample::of(&log, threads).expect("sessions");
    let span_s = (log.span_ms.1 - log.span_ms.0) as f64 / 1000.0;
    let machine = Machine {
        disks: 1,
        drive: headlong_drive::preset("wd-red-wd10efrx").expect("a preset"),
        memory_bytes: 256 * MIB,
        flash: None,
    };
    let options = CapacityOptions {
        samples: 3,
        // Much shorter than those of the program, for the time that the test takes.
        lengths: RunLengths {
            ramp: Duration::from_secs(5),
            window: Duration::from_secs(15),
        },
        threads: NonZeroUsize::new(threads).expect("some"),
        ssd: headlong_drive::preset("ssd-nvme-data-centre").expect("a preset"),
        is_whole,
    };
    let facts = LogFacts::new(&sample, span_s, log.catalogue_bytes());
    capacity(&sample, facts, &machine, &options, &mut || {})
}

/// The text of the answer before its method, with a `#` for every number.
const TEXT: &str = "\
# x wd-red-wd#efrx, #MiB of memory bears # (# to #) viewers, # (# to #) Mbit/s, without a failed \
request. The log has # sessions, # viewers and # Mbit/s in the mean.

What limits it: one more wd-red-wd#efrx brings most; the busiest disk is # % busy, # % of the \
memory holds bytes read ahead.

| With | Limit (Mbit/s) | of that without |
| one more wd-red-wd#efrx | # | # [#, #] |
| one more SSD, ssd-nvme-data-centre | # | # [#, #] |
| # GiB more memory | # | # [#, #] |

| Server | Limit (Mbit/s) | Viewers | of Headlong's |
| Headlong | # | # | - |
| nginx, readahead #KiB | # | # | # [#, #] |

Remarks:
- the log has # sessions, fewer than #: intervals are wide
- of the titles at least #GiB are known; whether all fit on the disks is not (--catalogue tells)
";

/// Lines without the blanks and rules that widths of tables determine, and without numbers.
fn masked(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with("| --"));
    let lines = lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let mut masked = String::new();
    for letter in lines.flat_map(|line| (line + "\n").chars().collect::<Vec<_>>()) {
        let is_number = letter.is_ascii_digit() || letter == '.' && masked.ends_with('#');
        match is_number {
            true if masked.ends_with('#') => {}
            true => masked.push('#'),
            false => masked.push(letter),
        }
    }
    masked
}

#[test]
fn answer_has_limit_changes_nginx_and_curve() {
    let lines = log(60, false);
    let found = answer(&lines, true, 2).expect("an answer");
    for figure in [found.mbit_s, found.viewers] {
        assert!(figure.low <= figure.value && figure.contains(figure.value));
        assert!(
            figure.value > 0.0 && figure.high < 10.0 * figure.value,
            "{figure:?}"
        );
    }
    // 2 MB every 4 s are 4 Mbit/s a viewer.
    let each = found.mbit_s.value / found.viewers.value;
    assert!((3.5..4.6).contains(&each), "{each}");
    assert!(
        (0.5..1.1).contains(&found.at_limit.busiest_disk),
        "{:?}",
        found.at_limit
    );
    let gain = |part: &str| {
        let mut changes = found.changes.iter();
        let change = changes.find(|change| change.what.contains(part));
        change.expect("a change").gain.value
    };
    let disk = gain("one more wd-red");
    assert!((1.4..2.6).contains(&disk), "{disk}");
    assert!(
        gain("memory") > 0.9 && gain("SSD") > 0.9,
        "{:?}",
        found.changes
    );
    let nginx = found.nginx.as_ref().expect("nginx");
    assert!((0.05..1.0).contains(&nginx.share.value), "{nginx:?}");
    let failed = |factor: f64| {
        let mut points = found
            .curve
            .iter()
            .filter(|point| point.server == "Headlong");
        let at = points.find(|point| (point.mbit_s / found.mbit_s.value - factor).abs() < 1e-6);
        at.expect("a point").failed_share
    };
    assert_eq!(failed(0.25), 0.0);
    assert!(failed(1.5) > 0.0);
    assert_eq!(found.curve.len(), 16);
    let told = text(&found);
    let (before, method) = told
        .split_once("\nHow this came about:\n")
        .expect("a method");
    assert_eq!(masked(before), TEXT, "{told}");
    assert!(method.contains("Good and Turing"), "{method}");
    let page = page(&found, "headlong capacity access.log").to_html();
    assert!(
        page.contains("Failures over the rate") && page.contains(&found.limited_by),
        "{page}"
    );
}

#[test]
fn answer_does_not_depend_on_order_of_lines_or_threads() {
    let mut lines = log(60, false);
    let found = answer(&lines, false, 2).expect("an answer");
    let count = lines.len();
    assert_ne!(count % 7_919, 0);
    lines = (0..count)
        .map(|place| lines[place * 7_919 % count].clone())
        .collect();
    assert_eq!(answer(&lines, false, 1).expect("an answer"), found);
}

#[test]
fn log_of_few_titles_gives_no_limit() {
    let found = answer(&log(3, true), false, 2);
    assert!(
        matches!(found, Err(AnswerError::Limit(LimitError::Unlimited { .. }))),
        "{found:?}"
    );
}
