//! HTTP/1.1 heads (RFC 9112): parsing of requests, writing of replies.
//!
//! Invariant: a request whose end is ambiguous (two lengths, a length and a coding, a last coding
//! that is not `chunked`) is refused, which prevents request smuggling.

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::{Buf, Bytes, BytesMut};
use headlong_http::HttpDate;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, Version, header};
use percent_encoding::{AsciiSet, CONTROLS, percent_encode};

use super::NoBody;
use super::head_cache_service::RawHead;
use super::limits::{ConnectionLimits, FIELDS_MAX};

/// Longest target that the `http` library accepts.
const URI_BYTES_MAX: usize = u16::MAX as usize - 1;

/// A parsed request without its body, which is never read.
#[derive(Debug)]
pub(super) struct ParsedHead {
    pub(super) request: Request<NoBody>,
    /// Whether the client wants to keep the connection open.
    pub(super) keeps_alive: bool,
    /// Whether a body follows.
    pub(super) has_body: bool,
}

/// Result of parsing a head.
#[expect(
    clippy::large_enum_variant,
    reason = "consumed immediately, and a box costs more than the copy"
)]
#[derive(Debug)]
pub(super) enum HeadOutcome<R> {
    /// Answered from the response-head cache.
    AtHand(R),
    /// The service has to answer.
    Request(ParsedHead),
}

/// Positions of a field's name and value.
type FieldPositions = (Range<usize>, Range<usize>);

/// Takes a complete head from the front of `buffer`; `None` if it is not complete yet. `at_hand` is
/// tried first: it looks the raw head up in the response-head cache.
///
/// # Errors
/// The status to answer with before the connection is closed.
pub(super) fn take_head<R>(
    buffer: &mut BytesMut,
    limits: &ConnectionLimits,
    at_hand: impl FnOnce(&RawHead<'_>) -> Option<R>,
) -> Result<Option<HeadOutcome<R>>, StatusCode> {
    let bytes_max = limits.header_bytes_max.max(8192);
    let mut fields = [const { MaybeUninit::<httparse::Header<'_>>::uninit() }; FIELDS_MAX];
    let mut parsed = httparse::Request::new(&mut []);
    let length = match parsed.parse_with_uninit_headers(buffer, &mut fields) {
        Ok(httparse::Status::Complete(length)) if length <= bytes_max => length,
        Ok(httparse::Status::Partial) if buffer.len() < bytes_max => return Ok(None),
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return Err(too_large(buffer, bytes_max)),
        Err(_) => return Err(StatusCode::BAD_REQUEST),
    };
    if let (Some("GET"), Some(1), Some(target)) = (parsed.method, parsed.version, parsed.path) {
        let fields = &*parsed.headers;
        if let Some(reply) = at_hand(&RawHead { target, fields }) {
            buffer.advance(length);
            return Ok(Some(HeadOutcome::AtHand(reply)));
        }
    }
    let start = buffer.as_ptr().addr();
    let place = |part: &[u8]| {
        let from = part.as_ptr().addr() - start;
        from..from + part.len()
    };
    let method = parsed.method.unwrap_or_default();
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| StatusCode::BAD_REQUEST)?;
    let target = place(parsed.path.unwrap_or_default().as_bytes());
    let version = match parsed.version {
        Some(0) => Version::HTTP_10,
        _ => Version::HTTP_11,
    };
    let mut places = [const { (0..0, 0..0) }; FIELDS_MAX];
    let count = parsed.headers.len();
    for (field, known) in places.iter_mut().zip(&*parsed.headers) {
        *field = (place(known.name.as_bytes()), place(known.value));
    }
    let block = buffer.split_to(length).freeze();
    let head = head_of(&block, method, target, version, &places[..count])?;
    Ok(Some(HeadOutcome::Request(head)))
}

/// Whether the target alone (RFC 9112 3), or the fields, make a head too large.
fn too_large(head: &[u8], bytes_max: usize) -> StatusCode {
    // A line without an end is as long as the buffer.
    let line = head.split(|byte| *byte == b'\n').next();
    match line.is_some_and(|line| line.len() >= bytes_max) {
        true => StatusCode::URI_TOO_LONG,
        false => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
    }
}

fn head_of(
    block: &Bytes,
    method: Method,
    target: Range<usize>,
    version: Version,
    fields: &[FieldPositions],
) -> Result<ParsedHead, StatusCode> {
    let bad = |_| StatusCode::BAD_REQUEST;
    let mut request = Request::new(NoBody::new());
    *request.method_mut() = method;
    if target.len() > URI_BYTES_MAX {
        return Err(StatusCode::URI_TOO_LONG);
    }
    let target = block.slice(target);
    let uri = Uri::from_maybe_shared(target.clone());
    let uri = uri.or_else(|_| Uri::from_maybe_shared(escaped(&target)));
    *request.uri_mut() = uri.map_err(|_| bad(()))?;
    *request.version_mut() = version;
    let headers = request.headers_mut();
    headers.reserve(fields.len());
    for (name, value) in fields {
        let name = HeaderName::from_bytes(&block[name.clone()]).map_err(|_| bad(()))?;
        let value = HeaderValue::from_maybe_shared(block.slice(value.clone()));
        headers.append(name, value.map_err(|_| bad(()))?);
    }
    let has_body = has_body(headers, version)?;
    let keeps_alive = keeps_alive(headers, version);
    Ok(ParsedHead {
        request,
        keeps_alive,
        has_body,
    })
}

/// A target with the characters escaped that no URI has: command lines and old clients send them
/// as they are, most often quotes in a query.
fn escaped(target: &[u8]) -> Bytes {
    const NOT_IN_URIS: &AsciiSet = &CONTROLS.add(b'"').add(b'<').add(b'>').add(b'`').add(b'^');
    Bytes::from(percent_encode(target, NOT_IN_URIS).to_string())
}

/// Whether a body follows (RFC 9112 6.1 to 6.3).
fn has_body(headers: &HeaderMap, version: Version) -> Result<bool, StatusCode> {
    let mut lengths = headers.get_all(header::CONTENT_LENGTH).iter();
    let length = lengths.next();
    let coding = headers
        .get_all(header::TRANSFER_ENCODING)
        .iter()
        .next_back();
    let is_doubtful = lengths.next().is_some()
        || (coding.is_some() && (length.is_some() || version < Version::HTTP_11));
    if is_doubtful {
        return Err(StatusCode::BAD_REQUEST);
    }
    if let Some(coding) = coding {
        let last = coding.as_bytes().rsplit(|byte| *byte == b',').next();
        let last = last.unwrap_or_default().trim_ascii();
        return match last.eq_ignore_ascii_case(b"chunked") {
            true => Ok(true),
            false => Err(StatusCode::BAD_REQUEST),
        };
    }
    let Some(length) = length else {
        return Ok(false);
    };
    let text = length.as_bytes();
    let is_number = !text.is_empty() && text.len() <= 19 && text.iter().all(u8::is_ascii_digit);
    match is_number {
        true => Ok(text.iter().any(|digit| *digit != b'0')),
        false => Err(StatusCode::BAD_REQUEST),
    }
}

/// Whether another request may follow (RFC 9112 9.3).
fn keeps_alive(headers: &HeaderMap, version: Version) -> bool {
    let mut says_close = false;
    let mut says_keep = false;
    for value in headers.get_all(header::CONNECTION) {
        for option in value.as_bytes().split(|byte| *byte == b',') {
            let option = option.trim_ascii();
            says_close |= option.eq_ignore_ascii_case(b"close");
            says_keep |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }
    !says_close && (version == Version::HTTP_11 || says_keep)
}

/// Fields of a reply's head about the connection and the body's length.
#[derive(Debug, Clone, Copy)]
pub(super) struct Framing {
    /// Version of the request.
    pub(super) version: Version,
    /// Bytes of the body, if a `content-length` has to be added.
    pub(super) length: Option<u64>,
    /// Whether the connection stays open.
    pub(super) keeps_alive: bool,
}

/// First bytes of every reply to a request of that version.
pub(super) fn opening(version: Version) -> &'static [u8] {
    match version {
        Version::HTTP_10 => b"HTTP/1.0 ",
        _ => b"HTTP/1.1 ",
    }
}

/// Writes a reply's head.
pub(super) fn write_head(
    status: StatusCode,
    headers: &HeaderMap,
    framing: Framing,
    out: &mut Vec<u8>,
) {
    let is_old = framing.version == Version::HTTP_10;
    write_fields(status, headers, framing.version, out);
    if let Some(length) = framing.length {
        write_field(out, "content-length", length.to_string().as_bytes());
    }
    match (framing.keeps_alive, is_old) {
        (false, _) => write_field(out, "connection", b"close"),
        (true, true) => write_field(out, "connection", b"keep-alive"),
        (true, false) => {}
    }
    if !headers.contains_key(header::DATE) {
        write_date(out);
    }
    out.extend_from_slice(b"\r\n");
}

fn write_fields(status: StatusCode, headers: &HeaderMap, version: Version, out: &mut Vec<u8>) {
    out.extend_from_slice(opening(version));
    out.extend_from_slice(status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(status.canonical_reason().unwrap_or_default().as_bytes());
    out.extend_from_slice(b"\r\n");
    for (name, value) in headers {
        write_field(out, name.as_str(), value.as_bytes());
    }
}

/// Text of a reply's head for the response-head cache (HTTP/1.1); `None` if it has a date, or no
/// length.
pub fn head_text(status: StatusCode, headers: &HeaderMap) -> Option<Vec<u8>> {
    let is_fit =
        headers.contains_key(header::CONTENT_LENGTH) && !headers.contains_key(header::DATE);
    is_fit.then(|| {
        let mut text = Vec::with_capacity(512);
        write_fields(status, headers, Version::HTTP_11, &mut text);
        text
    })
}

/// Bodies up to this size are copied behind the head, which costs less than a vectored write.
pub(super) const JOINED_BYTES_MAX: usize = 8 << 10;
/// Room for the date and the `connection` field.
const END_BYTES: usize = 128;

/// Copies a cached head into a buffer with room for its end, and for the body if that is small.
pub fn begin_head(head: &[u8], body_bytes: u64) -> Vec<u8> {
    let joined = usize::try_from(body_bytes).ok();
    let joined = joined.filter(|bytes| *bytes <= JOINED_BYTES_MAX);
    let mut text = Vec::with_capacity(head.len() + END_BYTES + joined.unwrap_or(0));
    text.extend_from_slice(head);
    text
}

/// Appends the end of a cached head.
pub(super) fn end_head(keeps_alive: bool, out: &mut Vec<u8>) {
    if !keeps_alive {
        write_field(out, "connection", b"close");
    }
    write_date(out);
    out.extend_from_slice(b"\r\n");
}

fn write_field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

fn write_date(out: &mut Vec<u8>) {
    with_date(|text| write_field(out, "date", text.as_bytes()));
}

/// The value of the `date` field.
pub(super) fn date_value() -> HeaderValue {
    with_date(|text| HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static("")))
}

/// Formats the current date; each thread caches the text for a second.
fn with_date<T>(with: impl FnOnce(&str) -> T) -> T {
    thread_local! {
        static LAST: RefCell<(u64, String)> = const { RefCell::new((u64::MAX, String::new())) };
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = since.unwrap_or_default().as_secs();
    LAST.with_borrow_mut(|(known, text)| {
        if *known != seconds {
            let date = i64::try_from(seconds).ok();
            let date = date.and_then(HttpDate::from_unix_seconds);
            *text = date.unwrap_or(HttpDate::EPOCH).to_string();
            *known = seconds;
        }
        with(text)
    })
}

#[cfg(test)]
#[path = "head_tests.rs"]
mod tests;
