use super::*;
use crate::read::entry::{LogEntry, interpret};
use crate::read::viewer::{ClientIdentity, ViewerRules};
use proptest::prelude::*;

fn entry<'a>(reader: &JsonReader, line: &'a str) -> Result<LogEntry<'a>, DropReason> {
    let mut row = LineFields::new();
    reader.read(line.as_bytes(), &mut row)?;
    interpret(&row, &ViewerRules::default())
}

fn usual() -> JsonReader {
    JsonReader::mapped(&FieldMap::default(), None)
}

#[test]
fn caddy_messages_are_skipped_and_others_rejected() {
    let message = r#"{"level":"info","ts":1795613368.5,"msg":"serving initial configuration"}"#;
    let caddy = JsonReader::dialect("caddy", None).expect("known");
    assert_eq!(entry(&caddy, message).err(), Some(DropReason::NotARequest));
    let other = r#"{"RequestPath":"/a","level":"info","msg":"","time":"2026-11-25T10:00:00Z"}"#;
    assert_eq!(entry(&caddy, other).err(), Some(DropReason::Shape));
}

#[test]
fn query_keys_are_found_behind_json_escapes() {
    let who = |line: &str, key: Option<&str>| {
        let mut row = LineFields::new();
        usual().read(line.as_bytes(), &mut row).expect("a line");
        let who = interpret(&row, &ViewerRules::new(key))
            .expect("a request")
            .who;
        match who {
            ClientIdentity::Session(name) => String::from_utf8_lossy(&name).into_owned(),
            ClientIdentity::Address(_) => "an address".to_owned(),
        }
    };
    let line = |query: &str| {
        format!(r#"{{"time":"2023-11-14T22:16:12Z","client_ip":"192.0.2.1","bytes":9,{query}}}"#)
    };
    let target = line(r#""url":"/a.mp4?token=1\u0026vid=x7\u0026b""#);
    assert_eq!(who(&target, Some("vid")), "x7");
    let query = line(r#""url":"/a.mp4","args":"a=1\u0026vid=x\/7""#);
    assert_eq!(who(&query, Some("vid")), "x/7");
    let cmcd = line(r#""url":"/a.mp4?a=1\u0026CMCD=sid%3D%22x8%22\u0026b""#);
    assert_eq!(who(&cmcd, None), "x8");
}

#[test]
fn broken_json_is_rejected() {
    for line in [
        "",
        "{",
        "[]",
        "{}x",
        r#"{"a"}"#,
        r#"{"a":}"#,
        r#"{"a":"b}"#,
        r#"{"a":"b\"#,
        r#"{"a":1,}"#,
    ] {
        assert_eq!(entry(&usual(), line), Err(DropReason::Shape), "{line}");
    }
    let deep = "{\"a\":".repeat(200);
    assert_eq!(entry(&usual(), &deep), Err(DropReason::Shape));
    assert_eq!(entry(&usual(), "{}"), Err(DropReason::BadTime));
}

proptest! {
    #[test]
    fn no_line_makes_it_panic(line in r#"[{}\[\]":,a\\0 .]{0,40}"#) {
        let _ = entry(&usual(), &line);
    }
}
