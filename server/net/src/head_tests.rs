use proptest::prelude::*;

use super::*;

/// Parses a request with an empty response-head cache.
fn take_from(buffer: &mut BytesMut) -> Result<Option<ParsedHead>, StatusCode> {
    let taken = take_head(buffer, &ConnectionLimits::default(), |_| None::<()>)?;
    Ok(taken.map(|taken| match taken {
        HeadOutcome::Request(head) => head,
        HeadOutcome::AtHand(()) => panic!("the cache is empty"),
    }))
}

fn take(text: &str) -> Result<Option<ParsedHead>, StatusCode> {
    take_from(&mut BytesMut::from(text))
}

fn status_of(text: &str) -> StatusCode {
    take(text).expect_err("refused")
}

fn head(text: &str) -> ParsedHead {
    take(text).expect("understood").expect("whole")
}

#[test]
fn only_complete_http11_get_is_looked_up_in_head_cache() {
    let taken = |text: &str, is_at_hand: bool| {
        let mut buffer = BytesMut::from(text);
        let mut asked = Vec::new();
        let at_hand = |head: &RawHead<'_>| {
            asked.push(head.target.to_owned());
            asked.extend(head.pairs().map(|(name, _)| name.to_owned()));
            is_at_hand.then_some(())
        };
        let taken = take_head(&mut buffer, &ConnectionLimits::default(), at_hand);
        let is_taken = matches!(taken, Ok(Some(HeadOutcome::AtHand(()))));
        (is_taken, asked.join(" "), buffer)
    };
    let text = "\r\nGET /a?b HTTP/1.1\r\nHost: h\r\nRange: x\r\n\r\nGET /next";
    let (is_taken, asked, rest) = taken(text, true);
    assert_eq!((is_taken, asked.as_str()), (true, "/a?b Host Range"));
    assert_eq!(&rest[..], b"GET /next");
    let (is_taken, asked, rest) = taken(text, false);
    assert_eq!((is_taken, asked.as_str()), (false, "/a?b Host Range"));
    assert_eq!(
        &rest[..],
        b"GET /next",
        "the service gets the whole request"
    );
    for other in [
        "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET / HTTP/1.0\r\nHost: h\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\n",
    ] {
        assert_eq!(taken(other, true).1, "", "{other}");
    }
}

#[test]
fn take_head_leaves_following_bytes_in_buffer() {
    let text = "\r\nGET /a?b HTTP/1.1\r\nHost: h\r\nX:  1 \r\nx: 2\r\n\r\nGET /next";
    let mut buffer = BytesMut::from(text);
    let taken = take_from(&mut buffer);
    let request = taken.expect("understood").expect("whole").request;
    assert_eq!(request.uri(), "/a?b");
    assert_eq!(request.version(), Version::HTTP_11);
    let fields: Vec<_> = request.headers().get_all("x").iter().collect();
    assert_eq!(fields, ["1", "2"]);
    assert_eq!(&buffer[..], b"GET /next");
}

#[test]
fn characters_that_no_uri_has_are_escaped_in_target() {
    for (target, uri) in [
        ("/f.mp4?CMCD=sid=\"a\"", "/f.mp4?CMCD=sid=%22a%22"),
        ("/f.mp4?a=<b>", "/f.mp4?a=%3Cb%3E"),
        ("/`<f>`.mp4", "/%60%3Cf%3E%60.mp4"),
        ("http://h/f.mp4?\"%22", "http://h/f.mp4?%22%22"),
    ] {
        let text = format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(head(&text).request.uri(), uri, "{target}");
    }
    let text = "GET http://<h>/f.mp4 HTTP/1.1\r\nHost: h\r\n\r\n";
    assert_eq!(status_of(text), StatusCode::BAD_REQUEST);
}

#[test]
fn incomplete_head_stays_in_buffer() {
    let text = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    for cut in 0..text.len() {
        let mut buffer = BytesMut::from(&text[..cut]);
        let taken = take_from(&mut buffer);
        assert!(taken.expect("not wrong yet").is_none(), "cut at {cut}");
        assert_eq!(&buffer[..], &text.as_bytes()[..cut]);
    }
}

#[test]
fn request_with_ambiguous_length_is_refused() {
    for fields in [
        "Content-Length: 1\r\nContent-Length: 2",
        "Content-Length: 1\r\nContent-Length: 1",
        "Content-Length: 1\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked, gzip",
        "Transfer-Encoding: gzip",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Content-Length: +1",
        "Content-Length: -1",
        "Content-Length: 1, 1",
        "Content-Length: 0x1",
        "Content-Length:",
        "Content-Length: 99999999999999999999",
        "Content-Length : 1",
        " folded: 1",
        "X: 1\r\n folded",
        "X\0: 1",
    ] {
        let text = format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n\r\n");
        assert_eq!(status_of(&text), StatusCode::BAD_REQUEST, "{fields}");
    }
    let old = "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(status_of(old), StatusCode::BAD_REQUEST);
}

#[test]
fn fields_decide_whether_body_follows() {
    for (fields, has_body) in [
        ("X: 1", false),
        ("Content-Length: 0", false),
        ("Content-Length: 00", false),
        ("Content-Length: 5", true),
        ("Transfer-Encoding: chunked", true),
        ("Transfer-Encoding: gzip, Chunked", true),
    ] {
        let text = format!("GET / HTTP/1.1\r\n{fields}\r\n\r\n");
        assert_eq!(head(&text).has_body, has_body, "{fields}");
    }
}

#[test]
fn version_and_connection_field_decide_keep_alive() {
    for (version, field, goes_on) in [
        ("1.1", "X: 1", true),
        ("1.1", "Connection: close", false),
        ("1.1", "Connection: upgrade, CLOSE", false),
        ("1.1", "Connection: keep-alive", true),
        ("1.0", "X: 1", false),
        ("1.0", "Connection: Keep-Alive", true),
        ("1.0", "Connection: keep-alive, close", false),
    ] {
        let text = format!("GET / HTTP/{version}\r\n{field}\r\n\r\n");
        assert_eq!(head(&text).keeps_alive, goes_on, "{version} {field}");
    }
}

#[test]
fn oversized_head_gets_431_or_414() {
    let many = "x: 1\r\n".repeat(101);
    let long = "a".repeat(20_000);
    for (text, status) in [
        (format!("GET / HTTP/1.1\r\n{many}\r\n"), 431),
        (format!("GET / HTTP/1.1\r\nx: {long}\r\n\r\n"), 431),
        (format!("GET / HTTP/1.1\r\nx: {long}"), 431),
        (format!("GET /{long} HTTP/1.1\r\nx: 1\r\n\r\n"), 414),
        (format!("GET /{long}"), 414),
    ] {
        assert_eq!(status_of(&text), status);
    }
    // With a limit above what the library accepts.
    let limits = ConnectionLimits {
        header_bytes_max: 1 << 20,
        ..ConnectionLimits::default()
    };
    let text = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(70_000));
    let taken = take_head(&mut BytesMut::from(&*text), &limits, |_| None::<()>);
    assert_eq!(taken.expect_err("refused"), StatusCode::URI_TOO_LONG);
}

#[test]
fn reply_head_has_length_date_and_connection() {
    let mut headers = HeaderMap::new();
    headers.insert("etag", HeaderValue::from_static("\"1\""));
    let write = |version, length, keeps_alive| {
        let framing = Framing {
            version,
            length,
            keeps_alive,
        };
        let mut out = Vec::new();
        write_head(StatusCode::PARTIAL_CONTENT, &headers, framing, &mut out);
        String::from_utf8(out).expect("text")
    };
    let text = write(Version::HTTP_11, Some(7), true);
    assert!(
        text.starts_with(
            "HTTP/1.1 206 Partial Content\r\netag: \"1\"\r\ncontent-length: 7\r\ndate: "
        )
    );
    assert!(text.ends_with(" GMT\r\n\r\n") && !text.contains("connection"));
    let text = write(Version::HTTP_11, None, false);
    assert!(text.contains("\r\nconnection: close\r\n") && !text.contains("length"));
    let text = write(Version::HTTP_10, None, true);
    assert!(text.starts_with("HTTP/1.0 206 ") && text.contains("\r\nconnection: keep-alive\r\n"));
}

proptest! {
    #[test]
    fn any_bytes_have_an_answer(
        line in prop::sample::select(vec!["", "GET / HTTP/1.1\r\n", "GET * HTTP/1.0\r\nHost: h\r\n"]),
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        end in prop::sample::select(vec!["", "\r\n\r\n"]),
    ) {
        let whole = [line.as_bytes(), &bytes, end.as_bytes()].concat();
        let mut buffer = BytesMut::from(&whole[..]);
        if let Ok(Some(_)) = take_from(&mut buffer) {
            prop_assert!(whole.ends_with(&buffer), "bytes after the head are untouched");
        }
    }
}
