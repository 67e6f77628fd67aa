use super::*;
use crate::read::entry::{LogEntry, interpret};
use crate::read::variables::{apache, nginx};
use crate::read::viewer::ViewerRules;
use proptest::prelude::*;

fn entry<'a>(template: &Template, line: &'a str) -> Result<LogEntry<'a>, DropReason> {
    let mut row = LineFields::new();
    template.read(line.as_bytes(), &mut row)?;
    interpret(&row, &ViewerRules::default())
}

fn combined() -> Template {
    Template::known("combined", None).expect("known")
}

const LINE: &str = "93.180.71.3 - - [17/May/2015:08:05:32 +0000] \"GET /downloads/product_1 \
                    HTTP/1.1\" 200 490 \"-\" \"Debian APT-HTTP/1.3 (0.8.16~exp12ubuntu10.21)\"";

#[test]
fn agent_is_found_among_headers_captured_by_haproxy() {
    let haproxy = Template::known("haproxy", None).expect("known");
    let agent = |groups: &str| {
        let line = format!(
            "192.0.2.7:35870 [24/Nov/2026:11:19:48.484] video files/one 0/0/0/0/9 206 739 - - ---- \
             1/1/0/0/0 0/0 {groups} \"GET /film.mp4 HTTP/1.1\""
        );
        let entry = entry(&haproxy, &line).expect("a request");
        String::from_utf8_lossy(entry.agent).into_owned()
    };
    assert_eq!(
        agent("{bytes=0-511|Player/1.0 (x; y)}"),
        "Player/1.0 (x; y)"
    );
    assert_eq!(agent("{example.org||Roku/DVP-9.10}"), "Roku/DVP-9.10");
    let others = "{https://example.org/a|sid=a/b|*/*|/x} {bytes 0-9/99|video/3gpp|W/\"1\"}";
    assert_eq!(agent(others), "");
    assert_eq!(agent("{Player/1.0} {nginx/1.22}"), "Player/1.0");
}

#[test]
fn invalid_patterns_are_rejected() {
    let error = |text: &str| nginx(text, None).expect_err("a mistake").to_string();
    assert_eq!(
        error("$remote_addr$request $msec $bytes_sent"),
        "no text between `$remote_addr` and `$request`, so the end of the first is undefined"
    );
    assert_eq!(
        error("$remote_addr $request $bytes_sent"),
        "it has no time, which is required to make a request of a line"
    );
    assert_eq!(error(""), "the pattern must not be empty");
    assert_eq!(error("a ${b"), "`${b` is not a directive");
    assert_eq!(
        apache("%h %t %", None).expect_err("a mistake").to_string(),
        "`%` is not a directive"
    );
}

#[test]
fn lines_of_another_format_are_rejected() {
    for line in [
        "",
        "a",
        "a - - [",
        &LINE[..LINE.len() - 1],
        &format!("{LINE}x"),
    ] {
        assert_eq!(entry(&combined(), line), Err(DropReason::Shape), "{line}");
    }
}

proptest! {
    #[test]
    fn no_line_makes_it_panic(line in r#"[a\[\]" \\=\-0-9]{0,60}"#) {
        let _ = entry(&combined(), &line);
        let _ = entry(&combined(), &format!("{LINE} {line}"));
    }

    #[test]
    fn no_pattern_makes_it_panic(text in r#"[$%{}a-z"\\ \^<]{0,30}"#) {
        let _ = nginx(&text, None);
        let _ = apache(&text, None);
    }
}
