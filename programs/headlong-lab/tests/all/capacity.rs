//! `headlong capacity` from the command line: an answer, and logs and machines without one.

use std::fmt::Write as _;
use std::fs;

use super::run_in;

/// Viewers of `titles` titles, `kilobytes` every 4 s, in the suggested format of nginx.
fn log(viewers: u32, titles: u32, kilobytes: u32) -> String {
    let mut lines = Vec::new();
    for viewer in 0..viewers {
        let title = viewer * viewer * 7 % titles;
        for part in 0..20 + viewer * 53 % 60 {
            let second = viewer * 37 % 2_000 + part * 4;
            let bytes = kilobytes * 1000;
            let (start, end) = (part * bytes, (part + 1) * bytes - 1);
            let mut line = String::new();
            let _ = write!(
                line,
                "198.51.{}.{} - - [26/Oct/2026:10:{:02}:{:02} +0000] \"GET /f/t{title:02}.mp4 \
                 HTTP/1.1\" 206 {bytes} \"-\" \"P/1\" rt=0.200 range=\"bytes={start}-{end}\"",
                viewer / 250,
                viewer % 250,
                second / 60,
                second % 60
            );
            lines.push((second, line));
        }
    }
    lines.sort();
    lines.iter().map(|(_, line)| format!("{line}\n")).collect()
}

#[test]
fn logs_without_an_answer_have_exit_codes_and_remedies() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        fs::write(folder.path().join(name), text).expect("written");
    };
    write("few.log", &log(150, 40, 250));
    let whole = log(250, 40, 250);
    write("whole.log", &whole);
    let plain = whole.lines().map(|line| {
        let end = line.find(" rt=").expect("a time");
        format!("{}\n", &line[..end])
    });
    write("plain.log", &plain.collect::<String>());
    let drives = "--drives 2xwd-red-wd10efrx --memory 1GiB";
    for (arguments, code, says) in [
        (format!("few.log {drives}"), 5, "at least 200 sessions"),
        (format!("plain.log {drives}"), 5, "no byte ranges"),
        (
            format!("whole.log {drives} --catalogue 5TB"),
            4,
            "at least 5 of them are needed",
        ),
        (
            "whole.log --drives 0xwd-red-wd10efrx --memory 1GiB".to_owned(),
            64,
            "1 to 256",
        ),
        (
            format!("whole.log {drives} --flash wd-red-wd10efrx"),
            64,
            "is no SSD",
        ),
    ] {
        let output = run_in(folder.path(), &format!("capacity {arguments}"));
        let stderr = &output.stderr;
        assert_eq!(output.code, Some(code), "{arguments}: {stderr}");
        assert!(stderr.contains(says), "{arguments}: {stderr}");
    }
}
