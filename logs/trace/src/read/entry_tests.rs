use super::*;

const BASE: [(Field, &str); 5] = [
    (Field::End, "1000.5"),
    (Field::ServiceS, "0.250"),
    (Field::Session, "s"),
    (Field::File, "f"),
    (Field::Bytes, "10"),
];

/// A row of the usual fields, except one, and of more.
fn row<'a>(without: Option<Field>, more: &[(Field, &'a str)]) -> LineFields<'a> {
    let mut row = LineFields::new();
    let is_given = |field| more.iter().any(|(given, _)| *given == field);
    let usual = BASE
        .iter()
        .filter(|(field, _)| Some(*field) != without && !is_given(*field));
    for (field, text) in usual.chain(more) {
        row.set(*field, text.as_bytes());
    }
    row
}

fn with<'a>(more: &[(Field, &'a str)]) -> Result<LogEntry<'a>, DropReason> {
    interpret(&row(None, more), &ViewerRules::default())
}

fn place(more: &[(Field, &str)]) -> Result<(Option<u64>, Option<u64>, u64), DropReason> {
    with(more).map(|entry| (entry.offset, entry.asked_bytes, entry.sent_bytes))
}

#[test]
fn arrival_is_completion_minus_service_time() {
    let entry = with(&[]).expect("a request");
    assert_eq!(
        (entry.received_ms, entry.completed_ms),
        (1_000_250, 1_000_500)
    );
    let of = |more: &[(Field, &str)]| {
        with(more).map(|entry| (entry.received_ms, entry.completed_ms, entry.is_timed))
    };
    let start = (Field::StartMs, "999000");
    assert_eq!(
        of(&[start]),
        Ok((999_000, 999_250, true)),
        "start is finer than the end"
    );
    let untimed = (Field::ServiceS, "-");
    assert_eq!(of(&[start, untimed]), Ok((999_000, 1_000_500, true)));
    assert_eq!(of(&[untimed]), Ok((1_000_500, 1_000_500, false)));
}

#[test]
fn finest_valid_service_time_is_used() {
    let took = |more: &[(Field, &str)]| {
        let entry = with(more).expect("a request");
        entry.completed_ms - entry.received_ms
    };
    let (whole, fine) = ((Field::ServiceS, "3"), (Field::ServiceUs, "2750000"));
    assert_eq!(took(&[whole, fine]), 2750, "Apache's %T and %D");
    assert_eq!(took(&[whole, (Field::ServiceUs, "-")]), 3000);
}

#[test]
fn range_header_gives_the_bytes() {
    let of = |range, status| place(&[(Field::Range, range), (Field::Status, status)]);
    assert_eq!(of("bytes=100-199", "206"), Ok((Some(100), Some(100), 10)));
    assert_eq!(of("bytes=100-", "206"), Ok((Some(100), None, 10)));
    assert_eq!(of("-", "206"), Ok((None, None, 10)));
    assert_eq!(of("-", "200"), Ok((Some(0), None, 10)));
    assert_eq!(
        of("bytes=100-", "200"),
        Ok((Some(0), None, 10)),
        "range ignored by the server"
    );
    assert_eq!(of("bytes=0-1,5-6", "206"), Err(DropReason::ManyRanges));
    assert_eq!(of("bytes=9-1", "206"), Err(DropReason::BadRange));
    assert_eq!(of("bytes=-5", "206"), Err(DropReason::UnknownOffset));
}

#[test]
fn content_range_is_used_without_a_range_header() {
    let of = |range| place(&[(Field::ContentRange, range), (Field::Status, "206")]);
    assert_eq!(of("bytes 100-199/1000"), Ok((Some(100), Some(100), 10)));
    assert_eq!(
        of("bytes 100-999/1000"),
        Ok((Some(100), None, 10)),
        "up to the end: open-ended"
    );
    let suffix = [
        (Field::ContentRange, "bytes 990-999/1000"),
        (Field::Range, "bytes=-10"),
    ];
    assert_eq!(place(&suffix), Ok((Some(990), Some(10), 10)));
}

#[test]
fn offset_and_size_take_precedence() {
    let fields = [
        (Field::Offset, "7"),
        (Field::Size, ""),
        (Field::Range, "bytes=1-2"),
    ];
    assert_eq!(place(&fields), Ok((Some(7), None, 10)));
    assert_eq!(place(&[(Field::Offset, "")]), Ok((None, None, 10)));
    let whole = [(Field::Offset, ""), (Field::Status, "200")];
    assert_eq!(place(&whole), Ok((Some(0), None, 10)));
    let fields = [(Field::Offset, "7"), (Field::Size, "20")];
    assert_eq!(place(&fields), Ok((Some(7), Some(20), 10)));
    assert_eq!(place(&[(Field::Offset, "-7")]), Err(DropReason::Negative));
    let fields = [(Field::Offset, "7"), (Field::Size, "99999999999999999")];
    assert_eq!(place(&fields), Err(DropReason::Absurd));
}

#[test]
fn path_excludes_query_and_host() {
    let of = |target: &'static str| {
        let row = row(Some(Field::File), &[(Field::Target, target)]);
        interpret(&row, &ViewerRules::default())
            .map(|entry| String::from_utf8_lossy(&entry.file).into_owned())
    };
    assert_eq!(of("/a/b.mp4?token=1").as_deref(), Ok("/a/b.mp4"));
    assert_eq!(of("http://example.org/a.mp4#t=5").as_deref(), Ok("/a.mp4"));
    assert_eq!(of("http://example.org"), Err(DropReason::NoFile));
    assert_eq!(of("?x"), Err(DropReason::NoFile));
    assert_eq!(of("-"), Err(DropReason::NoFile));
}

#[test]
fn other_methods_and_statuses_are_skipped() {
    assert_eq!(
        with(&[(Field::RequestLine, "POST /a HTTP/1.1")]),
        Err(DropReason::NotGet)
    );
    assert_eq!(
        with(&[(Field::Status, "304")]),
        Err(DropReason::Status(304))
    );
    assert_eq!(with(&[(Field::Status, "-1")]), Err(DropReason::Status(0)));
    assert_eq!(with(&[(Field::Status, "-")]), Err(DropReason::Status(0)));
    let broken = [(Field::RequestLine, "\\x16\\x03"), (Field::Status, "400")];
    assert_eq!(with(&broken), Err(DropReason::NotGet));
    assert!(with(&[(Field::Status, "TCP_HIT/200")]).is_ok());
    assert_eq!(
        with(&[(Field::Summary, "idle")]),
        Err(DropReason::NotARequest)
    );
}

#[test]
fn page_resources_are_not_titles() {
    let of = |file: &str| with(&[(Field::File, file)]).map(drop);
    for file in [
        "/poster.jpg",
        "/a/B.PNG",
        "/p/app.js",
        "/favicon.ico",
        "/x.woff2",
        "/i.html",
    ] {
        assert_eq!(of(file), Err(DropReason::PageFile), "{file}");
    }
    for file in [
        "/a.mp4",
        "/js",
        "/a.jsx/b",
        "/film.css.mp4",
        "/master.m3u8",
        "/sub.vtt",
        "7",
    ] {
        assert!(of(file).is_ok(), "{file}");
    }
}

#[test]
fn nonsensical_values_mean_another_format() {
    for (field, text) in [
        (Field::Status, "1000"),
        (Field::Status, "99"),
        (Field::Status, "GET"),
        (Field::Method, "206"),
        (Field::RequestLine, "/a.mp4 GET HTTP/1.1"),
    ] {
        assert_eq!(with(&[(field, text)]), Err(DropReason::Shape), "{text}");
    }
}

#[test]
fn haproxy_ports_and_timers_are_parsed() {
    let mut row = LineFields::new();
    row.set(Field::Start, b"06/Feb/2009:12:14:14.655");
    row.set(Field::Timers, b"10/0/30/69/+109");
    row.set(Field::Client, b"2001:db8::7:33317");
    row.set(Field::Target, b"/a.mp4");
    row.set(Field::BytesAll, b"5");
    let entry = interpret(&row, &ViewerRules::default()).expect("a request");
    assert_eq!(entry.completed_ms - entry.received_ms, 109);
    assert_eq!(entry.who, ClientIdentity::Address(b"2001:db8::7"));
}

#[test]
fn session_key_is_found_in_query_or_cookie() {
    let of = |fields: &[(Field, &'static str)]| {
        let mut row = row(Some(Field::Session), fields);
        row.set(Field::Address, b"192.0.2.1");
        interpret(&row, &ViewerRules::new(Some("vid"))).map(|entry| entry.who)
    };
    let name = |name: &'static str| Ok(ClientIdentity::Session(name.as_bytes().into()));
    assert_eq!(of(&[(Field::Target, "/a?avid=1&vid=x7&b")]), name("x7"));
    assert_eq!(of(&[(Field::Query, "vid=x7")]), name("x7"));
    assert_eq!(of(&[(Field::Cookie, "a=1; vid=x7; b=2")]), name("x7"));
    assert_eq!(
        of(&[(Field::Target, "/vid=x7")]),
        Ok(ClientIdentity::Address(b"192.0.2.1"))
    );
}

#[test]
fn viewer_is_identified_by_id_cmcd_or_address() {
    let of = |more: &[(Field, &'static str)]| {
        let row = row(Some(Field::Session), more);
        interpret(&row, &ViewerRules::default()).map(|entry| entry.who)
    };
    let name = |name: &'static str| Ok(ClientIdentity::Session(name.as_bytes().into()));
    assert_eq!(
        of(&[
            (Field::Cmcd, "cid=\"sid=\\\"no\\\"\",sid=\"6e2f\""),
            (Field::Address, "::1")
        ]),
        name("6e2f")
    );
    let query = "a=1&CMCD=br%3D3200%2Csid%3D%226e2f%22&b";
    assert_eq!(of(&[(Field::Query, query)]), name("6e2f"));
    assert_eq!(of(&[(Field::Target, "/a?CMCD=sid%3D%22x%22")]), name("x"));
    let address = |text: &'static str| of(&[(Field::Address, text)]);
    for (text, expected) in [
        ("192.0.2.7:40000", "192.0.2.7"),
        ("[2001:db8::1]:4", "2001:db8::1"),
        ("2001:db8::1", "2001:db8::1"),
        ("2001:db8::1, 10.0.0.1", "2001:db8::1"),
        ("192.0.2.7, 10.0.0.1", "192.0.2.7"),
    ] {
        let expected = ClientIdentity::Address(expected.as_bytes());
        assert_eq!(address(text), Ok(expected), "{text}");
    }
    assert_eq!(address("-"), Err(DropReason::NoSession));
}

#[test]
fn bytes_with_headers_are_limited_to_the_reply() {
    let mut row = row(Some(Field::Bytes), &[]);
    assert_eq!(
        interpret(&row, &ViewerRules::default()),
        Err(DropReason::NoBytes)
    );
    row.set(Field::BytesAll, b"1300");
    assert_eq!(
        interpret(&row, &ViewerRules::default()).map(|entry| entry.sent_bytes),
        Ok(1300)
    );
    row.set(Field::Range, b"bytes=0-999");
    row.set(Field::Status, b"206");
    assert_eq!(
        interpret(&row, &ViewerRules::default()).map(|entry| entry.sent_bytes),
        Ok(1000)
    );
}
