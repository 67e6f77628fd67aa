//! Conformance with RFC 9110, as a table: fields of a request, and an abbreviated reply.
//!
//! The file has 1000 bytes, the tag `"v1"` and was modified on Sun, 06 Nov 1994 08:49:37 GMT; the
//! requests arrive an hour later. A reply is abbreviated to its status and distinctive parts: `200`
//! all bytes, `206 0-99` one range, `206 0-0 999-999` several in a multipart body, `304`, `412`,
//! `416`. Every reply is also checked against general invariants ([`check_reply`]).

use std::borrow::Cow;
use std::fmt::Write;

use headlong_http::{
    Boundary, HttpDate, Method, RangeLimits, ReplyPlan, Representation, RequestHead, Status,
    Validators, plan,
};

const MODIFIED: i64 = 784_111_777;
const NOW: i64 = MODIFIED + 3600;

fn date(seconds: i64) -> HttpDate {
    HttpDate::from_unix_seconds(seconds).expect("a year with four digits")
}

fn file(size: u64) -> Representation<'static> {
    Representation {
        size,
        validators: Validators {
            entity_tag: "\"v1\"",
            modified: Some(date(MODIFIED)),
        },
        media_type: "video/mp4",
        cache_control: Some("max-age=60"),
    }
}

/// Plans the reply to a method and fields in the form `name: value`.
fn reply_at(now: i64, method: Method, lines: &[&str], size: u64) -> ReplyPlan {
    let fields = lines.iter().map(|line| {
        let (name, value) = line.split_once(": ").expect("a field");
        (name, value.as_bytes())
    });
    let boundary = Boundary { seed: 0xfeed };
    let request = RequestHead::read(method, date(now), boundary, fields);
    let representation = file(size);
    let reply = plan(&request, &representation, &RangeLimits::default());
    check_reply(method, &reply, size);
    reply
}

fn in_short(reply: &ReplyPlan) -> String {
    let mut text = reply.status.code().to_string();
    if reply.status == Status::PartialContent {
        for part in &reply.body.parts {
            let last = part.range.end - 1;
            write!(text, " {}-{last}", part.range.start).expect("a string");
        }
    }
    text
}

/// Invariants of every reply.
fn check_reply(method: Method, reply: &ReplyPlan, size: u64) {
    let length = reply
        .field("content-length")
        .map(|l| l.parse::<u64>().expect("a number"));
    match (method, reply.status) {
        (_, Status::NotModified) => assert_eq!((length, reply.body.length()), (None, 0)),
        (Method::Head, _) => assert!(reply.body.length() == 0 && length.is_some()),
        _ => assert_eq!(length, Some(reply.body.length())),
    }
    if matches!(reply.status, Status::Ok | Status::PartialContent) {
        assert_eq!(reply.field("accept-ranges"), Some("bytes"));
        assert_eq!(
            reply.field("last-modified"),
            Some("Sun, 06 Nov 1994 08:49:37 GMT")
        );
    }
    if matches!(
        reply.status,
        Status::Ok | Status::PartialContent | Status::NotModified
    ) {
        assert_eq!(reply.field("etag"), Some("\"v1\""));
        assert_eq!(reply.field("cache-control"), Some("max-age=60"));
    }
    match (reply.status, reply.body.parts.as_slice()) {
        (Status::PartialContent, [part]) => {
            let (start, last) = (part.range.start, part.range.end - 1);
            let expected = format!("bytes {start}-{last}/{size}");
            assert_eq!(reply.field("content-range"), Some(&*expected));
            assert_eq!(reply.field("content-type"), Some("video/mp4"));
            assert_eq!(part.preamble, b"");
        }
        // With this field a multipart reply would be mistaken for a single range.
        (Status::PartialContent, _) => assert_eq!(reply.field("content-range"), None),
        (Status::RangeNotSatisfiable, _) => {
            let expected = format!("bytes */{size}");
            assert_eq!(reply.field("content-range"), Some(&*expected));
        }
        _ => assert_eq!(reply.field("content-range"), None),
    }
    let mut names: Vec<_> = reply.fields.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count, "a field occurs twice: {names:?}");
}

fn check_table(method: Method, size: u64, rows: &[(&[&str], &str)]) {
    for (lines, expected) in rows {
        let reply = reply_at(NOW, method, lines, size);
        assert_eq!(in_short(&reply), *expected, "{method:?} {lines:?}");
    }
}

#[test]
fn ranges_of_a_file() {
    check_table(
        Method::Get,
        1000,
        &[
            (&[], "200"),
            // One range, in its three forms.
            (&["Range: bytes=0-0"], "206 0-0"),
            (&["Range: bytes=0-499"], "206 0-499"),
            (&["Range: bytes=500-999"], "206 500-999"),
            (&["Range: bytes=999-999"], "206 999-999"),
            (&["Range: bytes=0-"], "206 0-999"),
            (&["Range: bytes=999-"], "206 999-999"),
            (&["Range: bytes=-1"], "206 999-999"),
            (&["Range: bytes=-1000"], "206 0-999"),
            // Beyond the end: truncated, or refused if nothing remains.
            (&["Range: bytes=900-1000"], "206 900-999"),
            (&["Range: bytes=0-99999999999999999999999"], "206 0-999"),
            (&["Range: bytes=-1001"], "206 0-999"),
            (&["Range: bytes=1000-"], "416"),
            (&["Range: bytes=1000-1000"], "416"),
            (&["Range: bytes=99999999999999999999999-"], "416"),
            (
                &["Range: bytes=18446744073709551615-18446744073709551615"],
                "416",
            ),
            (&["Range: bytes=-0"], "416"),
            (&["Range: bytes=1000-,-0"], "416"),
            // Other spellings of the same.
            (&["range: BYTES=0-9"], "206 0-9"),
            (&["Range:  bytes=0-9 "], "206 0-9"),
            (&["Range: bytes= 0-9 ,"], "206 0-9"),
            (&["Range: bytes=000-0009"], "206 0-9"),
        ],
    );
}

#[test]
fn invalid_range_is_ignored() {
    check_table(
        Method::Get,
        1000,
        &[
            (&["Range: "], "200"),
            (&["Range: bytes"], "200"),
            (&["Range: bytes="], "200"),
            (&["Range: bytes=,"], "200"),
            (&["Range: bytes=-"], "200"),
            (&["Range: bytes=--5"], "200"),
            (&["Range: bytes=5"], "200"),
            (&["Range: bytes=9-5"], "200"),
            (
                &["Range: bytes=99999999999999999999991-99999999999999999999990"],
                "200",
            ),
            (&["Range: bytes=a-b"], "200"),
            (&["Range: bytes=0x0-0x9"], "200"),
            (&["Range: bytes=+0-9"], "200"),
            (&["Range: bytes=0 - 9"], "200"),
            (&["Range: bytes=0-9-"], "200"),
            (&["Range: bytes =0-9"], "200"),
            (&["Range: bytes:0-9"], "200"),
            (&["Range: bytes=0-9;5"], "200"),
            (&["Range: bytes=٠-٩"], "200"),
            (&["Range: seconds=0-9"], "200"),
            (&["Range: items=0-9"], "200"),
            // One malformed range invalidates the set.
            (&["Range: bytes=0-9,x"], "200"),
            (&["Range: bytes=0-9,9-5"], "200"),
            // Two fields where only one is allowed.
            (&["Range: bytes=0-9", "Range: bytes=20-29"], "200"),
        ],
    );
}

#[test]
fn several_ranges() {
    let cap = |count: usize| {
        let ranges: Vec<String> = (0..count)
            .map(|i| format!("{}-{}", i * 10, i * 10))
            .collect();
        format!("Range: bytes={}", ranges.join(","))
    };
    let at_cap: String = (0..16).fold("206".into(), |text, i| format!("{text} {0}-{0}", i * 10));
    check_table(
        Method::Get,
        1000,
        &[
            (&["Range: bytes=0-0,-1"], "206 0-0 999-999"),
            (
                &["Range: bytes=0-0, 500-599 ,-1"],
                "206 0-0 500-599 999-999",
            ),
            // In the requested order.
            (&["Range: bytes=500-599,0-0"], "206 500-599 0-0"),
            // Ranges beyond the end are dropped; a single remaining one is not a multipart reply.
            (&["Range: bytes=0-0,1000-"], "206 0-0"),
            (&["Range: bytes=2000-,0-0,-0,500-500"], "206 0-0 500-500"),
            // Overlapping and touching ranges are merged, at the position of the first.
            (&["Range: bytes=0-99,50-149"], "206 0-149"),
            (&["Range: bytes=0-99,100-149"], "206 0-149"),
            (&["Range: bytes=100-149,0-99"], "206 0-149"),
            (&["Range: bytes=0-99,101-149"], "206 0-99 101-149"),
            (&["Range: bytes=500-599,0-0,550-649"], "206 500-649 0-0"),
            (&["Range: bytes=0-,0-,0-,0-"], "206 0-999"),
            (&["Range: bytes=5-5,5-5"], "206 5-5"),
            // At the limit, and one beyond it.
            (&[&cap(16)], &at_cap),
            (&[&cap(17)], "200"),
            (&[&cap(1000)], "200"),
        ],
    );
}

#[test]
fn ranges_of_empty_file() {
    check_table(
        Method::Get,
        0,
        &[
            (&[], "200"),
            (&["Range: bytes=0-"], "200"),
            (&["Range: bytes=0-0"], "200"),
            (&["Range: bytes=0-1048575"], "200"),
            (&["Range: bytes=1-"], "416"),
            (&["Range: bytes=1-5"], "416"),
            (&["Range: bytes=-0"], "416"),
            (&["Range: bytes=-1"], "200"),
            (&["Range: bytes=0-,-1"], "200"),
        ],
    );
}

#[test]
fn preconditions_are_evaluated_in_order_of_rfc_9110() {
    const AT: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";
    let unmodified = |when| format!("If-Unmodified-Since: {when}");
    let modified = |when| format!("If-Modified-Since: {when}");
    let rows: &[(&[&str], &str)] = &[
        // Step 1: If-Match compares strongly.
        (&["If-Match: \"v1\""], "200"),
        (&["If-Match: *"], "200"),
        (&["If-Match: \"v0\", \"v1\""], "200"),
        (&["If-Match: \"v0\"", "If-Match: \"v1\""], "200"),
        (&["If-Match: \"v0\""], "412"),
        (&["If-Match: W/\"v1\""], "412"),
        (&["If-Match: v1"], "412"),
        (&["If-Match: "], "412"),
        // Step 2: If-Unmodified-Since, only without If-Match.
        (&[&unmodified(AT)], "200"),
        (&[&unmodified(AFTER)], "200"),
        (&[&unmodified(BEFORE)], "412"),
        (&["If-Unmodified-Since: yesterday"], "200"),
        (&["If-Match: \"v1\"", &unmodified(BEFORE)], "200"),
        (&["If-Match: \"v0\"", &unmodified(AFTER)], "412"),
        // Step 3: If-None-Match compares weakly.
        (&["If-None-Match: \"v1\""], "304"),
        (&["If-None-Match: W/\"v1\""], "304"),
        (&["If-None-Match: *"], "304"),
        (&["If-None-Match: \"v0\", W/\"v1\""], "304"),
        (&["If-None-Match: \"v0\""], "200"),
        (&["If-None-Match: v1"], "200"),
        // Step 4: If-Modified-Since, only without If-None-Match.
        (&[&modified(AT)], "304"),
        (&[&modified(AFTER)], "304"),
        (&[&modified(BEFORE)], "200"),
        (&["If-Modified-Since: 784111777"], "200"),
        (&["If-None-Match: \"v0\"", &modified(AFTER)], "200"),
        (&["If-None-Match: \"v1\"", &modified(BEFORE)], "304"),
        // Earlier steps take precedence over later ones.
        (&["If-Match: \"v0\"", "If-None-Match: \"v1\""], "412"),
        (&["If-Match: \"v1\"", "If-None-Match: \"v1\""], "304"),
        (&[&unmodified(BEFORE), &modified(AFTER)], "412"),
        (&[&unmodified(AT), &modified(AT)], "304"),
    ];
    check_table(Method::Get, 1000, rows);
    check_table(Method::Head, 1000, rows);
    // None of this depends on the size.
    check_table(Method::Get, 0, rows);
}

#[test]
fn preconditions_accept_all_three_date_forms() {
    check_table(
        Method::Get,
        1000,
        &[
            (&["If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"], "304"),
            (
                &["If-Modified-Since: Sunday, 06-Nov-94 08:49:37 GMT"],
                "304",
            ),
            (&["If-Modified-Since: Sun Nov  6 08:49:37 1994"], "304"),
            (
                &["If-Modified-Since: Sunday, 06-Nov-94 08:49:36 GMT"],
                "200",
            ),
            (&["If-Modified-Since: Sun Nov  6 08:49:36 1994"], "200"),
            (
                &[
                    "Range: bytes=0-9",
                    "If-Range: Sun, 06 Nov 1994 08:49:37 GMT",
                ],
                "206 0-9",
            ),
            (
                &[
                    "Range: bytes=0-9",
                    "If-Range: Sunday, 06-Nov-94 08:49:37 GMT",
                ],
                "206 0-9",
            ),
            (
                &["Range: bytes=0-9", "If-Range: Sun Nov  6 08:49:37 1994"],
                "206 0-9",
            ),
        ],
    );
}

#[test]
fn if_range_and_preconditions_apply_before_ranges() {
    const RANGE: &str = "Range: bytes=0-9";
    check_table(
        Method::Get,
        1000,
        &[
            // If-Range: a range of the same version, or all of the new one; strong comparison,
            // exact date.
            (&[RANGE, "If-Range: \"v1\""], "206 0-9"),
            (&[RANGE, "If-Range: \"v0\""], "200"),
            (&[RANGE, "If-Range: W/\"v1\""], "200"),
            (&[RANGE, "If-Range: *"], "200"),
            (&[RANGE, "If-Range: \"v0\", \"v1\""], "200"),
            (&[RANGE, "If-Range: nonsense"], "200"),
            (&[RANGE, "If-Range: Sun, 06 Nov 1994 08:49:36 GMT"], "200"),
            (&[RANGE, "If-Range: Sun, 06 Nov 1994 08:49:38 GMT"], "200"),
            (&["If-Range: \"v0\""], "200"),
            (
                &["Range: bytes=0-0,-1", "If-Range: \"v1\""],
                "206 0-0 999-999",
            ),
            // An unsatisfiable range is no error if it was for another version.
            (&["Range: bytes=1000-", "If-Range: \"v0\""], "200"),
            (&["Range: bytes=1000-", "If-Range: \"v1\""], "416"),
            (&["Range: bytes=x", "If-Range: \"v1\""], "200"),
            // Preconditions come before ranges.
            (&[RANGE, "If-None-Match: \"v1\""], "304"),
            (&[RANGE, "If-None-Match: \"v0\""], "206 0-9"),
            (&[RANGE, "If-Match: \"v0\""], "412"),
            (&[RANGE, "If-Match: \"v1\""], "206 0-9"),
            (&["Range: bytes=1000-", "If-None-Match: \"v1\""], "304"),
            (&["Range: bytes=1000-", "If-Match: \"v0\""], "412"),
            (&[RANGE, "If-None-Match: \"v1\"", "If-Range: \"v0\""], "304"),
            (
                &[RANGE, "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"],
                "304",
            ),
            (
                &[RANGE, "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT"],
                "206 0-9",
            ),
        ],
    );
}

#[test]
fn head_has_fields_of_whole_reply_and_ignores_ranges() {
    for lines in [
        &[][..],
        &["Range: bytes=0-9"],
        &["Range: bytes=0-0,-1"],
        &["Range: bytes=1000-"],
        &["Range: bytes=0-9", "If-Range: \"v1\""],
    ] {
        let head = reply_at(NOW, Method::Head, lines, 1000);
        let get = reply_at(NOW, Method::Get, &[], 1000);
        assert_eq!(
            (head.status, &head.fields),
            (Status::Ok, &get.fields),
            "{lines:?}"
        );
        assert_eq!(head.field("content-length"), Some("1000"));
    }
}

#[test]
fn other_methods_are_refused_first() {
    for method in [Method::Other, Method::Options] {
        let reply = reply_at(
            NOW,
            method,
            &["If-Match: \"v0\"", "Range: bytes=1000-"],
            1000,
        );
        assert_eq!(reply.status, Status::MethodNotAllowed);
        assert_eq!(reply.field("allow"), Some("GET, HEAD, OPTIONS"));
    }
}

#[test]
fn multipart_body_is_framed_as_in_rfc_9110() {
    let reply = reply_at(NOW, Method::Get, &["Range: bytes=500-599,-1"], 1000);
    let content_type = reply.field("content-type");
    assert_eq!(
        content_type,
        Some("multipart/byteranges; boundary=headlong-000000000000feed")
    );
    let mut wire = String::new();
    for part in &reply.body.parts {
        wire.push_str(std::str::from_utf8(&part.preamble).expect("text"));
        let last = part.range.end - 1;
        write!(wire, "<{}-{last}>", part.range.start).expect("a string");
    }
    wire.push_str(std::str::from_utf8(&reply.body.closing).expect("text"));
    assert_eq!(
        wire,
        "--headlong-000000000000feed\r\n\
         Content-Type: video/mp4\r\n\
         Content-Range: bytes 500-599/1000\r\n\
         \r\n\
         <500-599>\r\n\
         --headlong-000000000000feed\r\n\
         Content-Type: video/mp4\r\n\
         Content-Range: bytes 999-999/1000\r\n\
         \r\n\
         <999-999>\r\n\
         --headlong-000000000000feed--\r\n"
    );
    assert_eq!(reply.file_bytes(), 101);
}

#[test]
fn only_range_without_end_is_open_ended() {
    for (line, expected) in [
        ("Range: bytes=5-", &[true][..]),
        ("Range: bytes=5-999", &[false]),
        ("Range: bytes=-5", &[false]),
        ("Range: bytes=0-0,5-", &[false, true]),
        ("Accept: */*", &[false]),
    ] {
        let reply = reply_at(NOW, Method::Get, &[line], 1000);
        let open: Vec<bool> = reply.body.parts.iter().map(|p| p.open_ended).collect();
        assert_eq!(open, expected, "{line}");
    }
}

#[test]
fn file_changed_in_current_second_has_only_entity_tag() {
    let fields = |now: i64, lines: &[(&'static str, &'static [u8])]| {
        let boundary = Boundary { seed: 0 };
        let fields = lines.iter().copied();
        let request = RequestHead::read(Method::Get, date(now), boundary, fields);
        plan(&request, &file(1000), &RangeLimits::default())
    };
    let early = fields(MODIFIED, &[]);
    assert_eq!(early.field("last-modified"), None);
    assert_eq!(early.field("etag"), Some("\"v1\""));
    let later = fields(MODIFIED + 1, &[]);
    assert_eq!(
        later.field("last-modified"),
        Some("Sun, 06 Nov 1994 08:49:37 GMT")
    );
}

#[test]
fn request_can_be_built_field_by_field() {
    let boundary = Boundary { seed: 1 };
    let mut request = RequestHead::new(Method::Get, date(NOW), boundary);
    request.range = Some(Cow::Borrowed("bytes=0-9"));
    let reply = plan(&request, &file(1000), &RangeLimits::default());
    assert_eq!(in_short(&reply), "206 0-9");
}
