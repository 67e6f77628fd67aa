use super::*;
use crate::read::entry::{ClientIdentity, LogEntry, interpret};
use crate::read::variables::{apache, nginx};
use proptest::prelude::*;

fn entry<'a>(template: &Template, line: &'a str) -> Result<LogEntry<'a>, DropReason> {
    let mut row = LineFields::new();
    template.read(line.as_bytes(), &mut row)?;
    interpret(&row, None)
}

fn combined() -> Template {
    Template::known("combined", None).expect("known")
}

const LINE: &str = "93.180.71.3 - - [17/May/2015:08:05:32 +0000] \"GET /downloads/product_1 \
                    HTTP/1.1\" 200 490 \"-\" \"Debian APT-HTTP/1.3 (0.8.16~exp12ubuntu10.21)\"";

#[test]
fn combined_line_is_read() {
    let entry = entry(&combined(), LINE).expect("a request");
    assert_eq!(entry.completed_ms, 1_431_849_932_000);
    assert_eq!(&entry.file[..], b"/downloads/product_1");
    assert_eq!(entry.who, ClientIdentity::Address(b"93.180.71.3"));
    assert_eq!(
        (entry.offset, entry.asked_bytes, entry.sent_bytes),
        (Some(0), None, 490)
    );
    assert!(entry.agent.starts_with(b"Debian APT"));
}

#[test]
fn own_fields_after_combined_are_read() {
    let line = "192.0.2.7 - - [06/Nov/1994:08:49:38 +0000] \
        \"GET /films/a.mp4?token=1 HTTP/1.1\" 206 1000 \"-\" \
        \"Player/1.0 (a \\x22b\\x22)\" start=784111777.123 service=1.234 first_byte=0.012 \
        range=\"bytes=0-999\" ram=600 disk=400 queue=0.003 disk_time=0.008 \
        session=\"6e2fb550-c457\" session_from=cmcd device=\"sda\" br=2000 failure=-";
    let entry = entry(&combined(), line).expect("a request");
    assert_eq!(entry.received_ms, 784_111_777_123);
    assert_eq!(entry.completed_ms, 784_111_778_357);
    assert_eq!(entry.asked_bytes, Some(1000));
    assert_eq!(
        entry.who,
        ClientIdentity::Session(b"6e2fb550-c457"[..].into())
    );
    assert_eq!((entry.disk, entry.kbps), (&b"sda"[..], Some(2000)));
}

#[test]
fn self_explanatory_fields_after_combined_are_read() {
    let line = format!(
        "{} 0.123 MISS \"bytes=5-9\" rt=0.500 \"a b\"",
        LINE.replace(" 200 ", " 206 ")
    );
    let entry = entry(&combined(), &line).expect("a request");
    assert_eq!((entry.offset, entry.asked_bytes), (Some(5), Some(5)));
    assert_eq!(entry.completed_ms - entry.received_ms, 500);
}

#[test]
fn traefik_date_is_that_of_arrival() {
    let line = format!("{LINE} 1 \"files@docker\" \"http://172.18.0.3:80\" 1250ms");
    let entry = entry(&combined(), &line).expect("a request");
    assert_eq!(entry.received_ms, 1_431_849_932_000);
    assert_eq!(entry.completed_ms, 1_431_849_933_250);
}

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
fn nginx_pattern_is_used_for_reading() {
    let pattern = "$remote_addr|${msec}|$request_method $request_uri|$status|$bytes_sent|\
                   $request_time|$http_range|$cookie_uid;";
    let template = nginx(pattern, Some("cookie_uid")).expect("a pattern");
    let line = "::1|1700000000.250|GET /a b.mp4|206|1500|0.250|bytes=1000-1999|u1;";
    let entry = entry(&template, line).expect("a request");
    assert_eq!(entry.received_ms, 1_700_000_000_000);
    assert_eq!((entry.offset, entry.sent_bytes), (Some(1000), 1000));
    assert_eq!(entry.who, ClientIdentity::Session(b"u1"[..].into()));
    assert_eq!(&entry.file[..], b"/a b.mp4");
}

#[test]
fn apache_time_is_that_of_arrival() {
    let template = apache("combined", None).expect("a pattern");
    let entry_of = entry(&template, LINE).expect("a request");
    assert_eq!(entry_of.received_ms, 1_431_849_932_000);
    let pattern = "%a %{end:msec}t %D \\\"%r\\\" %>s %O \"%{Range}i\" \"%{User-Agent}i\" %{sid}C";
    let template = apache(pattern, None).expect("a pattern");
    let line = "192.0.2.1 1700000000250 250000 \"GET /a.mp4 HTTP/1.1\" 206 700 \"bytes=0-99\" \
                \"say \\\"hi\\\"\" s1";
    let entry = entry(&template, line).expect("a request");
    assert_eq!(entry.received_ms, 1_700_000_000_000);
    assert_eq!(entry.agent, br#"say \"hi\""#);
    assert_eq!(entry.who, ClientIdentity::Session(b"s1"[..].into()));
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
