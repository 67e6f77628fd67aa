use super::*;
use crate::read::entry::{ClientIdentity, LogEntry, interpret};
use proptest::prelude::*;

fn entry<'a>(reader: &JsonReader, line: &'a str) -> Result<LogEntry<'a>, DropReason> {
    let mut row = LineFields::new();
    reader.read(line.as_bytes(), &mut row)?;
    interpret(&row, None)
}

fn usual() -> JsonReader {
    JsonReader::mapped(&FieldMap::default(), None)
}

#[test]
fn own_access_log_is_read() {
    let line = concat!(
        r#"{"start_unix_ms":784111777123,"service_seconds":1.234,"first_byte_seconds":0.0125,"#,
        r#""remote":"192.0.2.7:40000","method":"GET","target":"/films/a.mp4?token=1","#,
        r#""version":"HTTP/1.1","range":"bytes=0-999","status":206,"bytes_sent":1000,"#,
        r#""bytes_from_ram":600,"bytes_from_disk":400,"session":"6e2fb550-c457","#,
        r#""session_from":"cmcd","device":"sda","user_agent":"Player/1.0 (a \"b\")","#,
        r#""queue_seconds":0.003,"disk_seconds":0.0081,"bit_rate_bps":2000000}"#,
    );
    let entry =
        entry(&JsonReader::dialect("headlong", None).expect("known"), line).expect("a request");
    assert_eq!(entry.received_ms, 784_111_777_123);
    assert_eq!(entry.completed_ms, 784_111_778_357);
    assert_eq!(
        entry.who,
        ClientIdentity::Session(b"6e2fb550-c457"[..].into())
    );
    assert_eq!(&entry.file[..], b"/films/a.mp4");
    assert_eq!((entry.offset, entry.asked_bytes), (Some(0), Some(1000)));
    assert_eq!((entry.disk, entry.kbps), (&b"sda"[..], Some(2000)));
}

#[test]
fn session_summary_is_not_a_request() {
    let line = r#"{"session":"a","start_unix_ms":1,"end_unix_ms":2,"ended":"idle","requests":3}"#;
    assert_eq!(
        entry(&JsonReader::dialect("headlong", None).expect("known"), line),
        Err(DropReason::NotARequest)
    );
}

#[test]
fn nested_keys_of_caddy_are_read() {
    let line = concat!(
        r#"{"level":"info","ts":1646861401.5241024,"logger":"http.log.access","msg":"handled","#,
        r#""request":{"remote_ip":"127.0.0.1","remote_port":"41342","proto":"HTTP/2.0","#,
        r#""method":"GET","host":"localhost","uri":"/a\/b.mp4","headers":{"#,
        r#""User-Agent":["curl/7.82.0"],"Range":["bytes=100-"],"Accept":["*/*"]}},"#,
        r#""bytes_read":0,"duration":0.25,"size":10900,"status":206,"#,
        r#""resp_headers":{"Server":["Caddy"]}}"#,
    );
    let caddy = JsonReader::dialect("caddy", None).expect("known");
    let entry = entry(&caddy, line).expect("a request");
    assert_eq!(entry.completed_ms, 1_646_861_401_524);
    assert_eq!(entry.received_ms, 1_646_861_401_274);
    assert_eq!(&entry.file[..], b"/a/b.mp4");
    assert_eq!((entry.offset, entry.asked_bytes), (Some(100), None));
    assert_eq!(
        (entry.sent_bytes, entry.agent),
        (10_900, &b"curl/7.82.0"[..])
    );
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
fn nginx_variables_are_known_keys() {
    let line = concat!(
        r#"{"time_iso8601":"2024-05-01T10:00:00+00:00","remote_addr":"192.0.2.1","#,
        r#""request_uri":"/a.mp4","status":"206","bytes_sent":"1300","http_range":"bytes=0-999","#,
        r#""request_time":"0.010","http_user_agent":"x","nothing":null,"a":[1,{"b":[]}]}"#,
    );
    let entry = entry(&usual(), line).expect("a request");
    assert_eq!(entry.sent_bytes, 1000);
}

#[test]
fn keys_of_cdns_are_known() {
    let akamai = concat!(
        r#"{"version":2,"reqTimeSec":"1700000172.405","bytes":"524288","cliIP":"192.0.2.1","#,
        r#""statusCode":"206","reqMethod":"GET","reqPath":"films/a.mp4","queryStr":"sid=7","#,
        r#""range":"100-524387","UA":"x","transferTimeMSec":"185","totalBytes":"524688"}"#,
    );
    let cloudflare = concat!(
        r#"{"ClientIP":"192.0.2.1","ClientRequestMethod":"GET","ClientRequestURI":"/films/a.mp4","#,
        r#""EdgeStartTimestamp":"2023-11-14T22:16:12.405Z","EdgeResponseStatus":206,"#,
        r#""EdgeEndTimestamp":"2023-11-14T22:16:12.590Z","EdgeResponseBytes":524688,"#,
        r#""ClientRequestUserAgent":"x","RequestHeaders":{"range":"bytes=100-524387"}}"#,
    );
    for line in [akamai, cloudflare] {
        let entry = entry(&usual(), line).expect(line);
        assert_eq!(
            (entry.received_ms, entry.completed_ms),
            (1_700_000_172_405, 1_700_000_172_590)
        );
        assert_eq!(
            (entry.offset, entry.asked_bytes),
            (Some(100), Some(524_288))
        );
        assert_eq!(entry.sent_bytes, 524_288);
        assert!(entry.file.ends_with(b"films/a.mp4"));
    }
    let fastly = concat!(
        r#"{"timestamp":"2023-11-14T22:16:12Z","client_ip":"192.0.2.1","url":"/a.mp4","#,
        r#""request_method":"GET","request_user_agent":"x","response_status":200,"#,
        r#""response_body_size":1000}"#,
    );
    assert_eq!(entry(&usual(), fastly).expect("a request").sent_bytes, 1000);
}

#[test]
fn query_keys_are_found_behind_json_escapes() {
    let who = |line: &str, key: Option<&[u8]>| {
        let mut row = LineFields::new();
        usual().read(line.as_bytes(), &mut row).expect("a line");
        let who = interpret(&row, key).expect("a request").who;
        match who {
            ClientIdentity::Session(name) => String::from_utf8_lossy(&name).into_owned(),
            ClientIdentity::Address(_) => "an address".to_owned(),
        }
    };
    let line = |query: &str| {
        format!(r#"{{"time":"2023-11-14T22:16:12Z","client_ip":"192.0.2.1","bytes":9,{query}}}"#)
    };
    let target = line(r#""url":"/a.mp4?token=1\u0026vid=x7\u0026b""#);
    assert_eq!(who(&target, Some(b"vid")), "x7");
    let query = line(r#""url":"/a.mp4","args":"a=1\u0026vid=x\/7""#);
    assert_eq!(who(&query, Some(b"vid")), "x/7");
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
