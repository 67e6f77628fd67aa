//! Interprets the fields of a line: a request, or the reason why it is none.
//!
//! The range of a request comes from offset and size if the log has them; otherwise from the
//! `Range` header; otherwise from the `Content-Range` of the reply. Otherwise a reply of status 200
//! is the file from its first byte, and the offset of a 206, or of an empty offset column, is
//! unknown unless the whole file was sent.

use std::borrow::Cow;

use super::number::{amount, any_moment, calendar_ms, clock_ms, moment, service_ms, thousandths};
use super::reason::DropReason;
use super::row::{Field, LineFields, unescape};
use super::viewer::{ClientIdentity, ViewerRules};

/// One request, as parsed from a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogEntry<'a> {
    pub(crate) received_ms: i64,
    pub(crate) completed_ms: i64,
    pub(crate) who: ClientIdentity<'a>,
    pub(crate) file: Cow<'a, [u8]>,
    /// `None` if unknown; it can be inferred if the request is for the whole file.
    pub(crate) offset: Option<u64>,
    pub(crate) asked_bytes: Option<u64>,
    pub(crate) sent_bytes: u64,
    /// Size of the file, if the line has it.
    pub(crate) file_bytes: Option<u64>,
    /// Bit rate of the file, if the line has it, kbit/s.
    pub(crate) kbps: Option<u32>,
    pub(crate) disk: &'a [u8],
    pub(crate) device: &'a [u8],
    pub(crate) agent: &'a [u8],
    /// Whether the line has the duration of the request.
    pub(crate) is_timed: bool,
}

impl LogEntry<'_> {
    /// Whether the line has a session id.
    pub(crate) const fn is_named(&self) -> bool {
        matches!(self.who, ClientIdentity::Session(_))
    }
}

/// Interprets the fields of a line; `rules` identify the viewer.
///
/// Nonsensical values mean that the line has another format: it may be split by chance, but then
/// its time, status or method is invalid.
pub(crate) fn interpret<'a>(
    row: &LineFields<'a>,
    rules: &ViewerRules,
) -> Result<LogEntry<'a>, DropReason> {
    if row.has(Field::Summary) {
        return Err(DropReason::NotARequest);
    }
    let (received_ms, completed_ms, is_timed) = times(row)?;
    let status = status(row)?;
    let (method, target) = request_line(row);
    match method {
        None | Some(b"GET") => {}
        // A malformed request can have any method.
        Some(method) if status.is_none_or(is_success) && !is_method(method) => {
            return Err(DropReason::Shape);
        }
        Some(_) => return Err(DropReason::NotGet),
    }
    if let Some(status) = status.filter(|status| !matches!(status, 200 | 206)) {
        // At most 599.
        return Err(DropReason::Status(status as u16));
    }
    let file = file(row, target)?;
    if is_of_page(&file) {
        return Err(DropReason::PageFile);
    }
    let who = rules.who(row, target)?;
    let span = span(row, status)?;
    let sent_bytes = sent(row, &span)?;
    // A part as long as the file is all of it.
    let is_all = sent_bytes > 0 && span.file_bytes == Some(sent_bytes);
    Ok(LogEntry {
        received_ms,
        completed_ms,
        who,
        file,
        offset: span.offset.or(is_all.then_some(0)),
        asked_bytes: span.asked_bytes,
        sent_bytes,
        file_bytes: span.file_bytes,
        kbps: kbps(row),
        disk: row.known(Field::Disk).unwrap_or_default(),
        device: row.known(Field::Device).unwrap_or_default(),
        agent: row.known(Field::Agent).unwrap_or_default(),
        is_timed,
    })
}

/// File extensions of web pages and their resources.
const PAGE_ENDINGS: [&[u8]; 17] = [
    b"avif", b"css", b"gif", b"htm", b"html", b"ico", b"jpeg", b"jpg", b"js", b"map", b"mjs",
    b"png", b"svg", b"ttf", b"webp", b"woff", b"woff2",
];
/// The longest of them.
const PAGE_ENDING_MAX: usize = 5;

/// Whether a file is a web page or a resource of one, and so not a title.
fn is_of_page(file: &[u8]) -> bool {
    let last = &file[file.len().saturating_sub(PAGE_ENDING_MAX + 1)..];
    let Some(point) = memchr::memrchr(b'.', last) else {
        return false;
    };
    let ending = &last[point + 1..];
    let mut known = PAGE_ENDINGS.iter();
    known.any(|known| ending.eq_ignore_ascii_case(known))
}

/// Method and target, from any field that has them.
fn request_line<'a>(row: &LineFields<'a>) -> (Option<&'a [u8]>, Option<&'a [u8]>) {
    let Some(line) = row.known(Field::RequestLine) else {
        // An empty method field: not a GET.
        let method = Some(row.get(Field::Method)).filter(|method| !method.is_empty());
        return (method, row.known(Field::Target));
    };
    let Some(space) = memchr::memchr(b' ', line) else {
        return (Some(line), None);
    };
    let (method, rest) = (&line[..space], &line[space + 1..]);
    // The version is the last word; a path that contains a space is kept whole.
    let end = memchr::memrchr(b' ', rest).filter(|end| rest[end + 1..].starts_with(b"HTTP/"));
    (Some(method), Some(&rest[..end.unwrap_or(rest.len())]))
}

/// The status of the reply; 0 if there was no reply.
fn status(row: &LineFields<'_>) -> Result<Option<u64>, DropReason> {
    let text = match row.get(Field::Status) {
        b"" => return Ok(None),
        // No reply: no bytes count as sent.
        b"-" => return Ok(Some(0)),
        text => text,
    };
    let text = match memchr::memchr(b'/', text) {
        Some(slash) => &text[slash + 1..],
        None => text,
    };
    match (text, amount(text)) {
        // HAProxy logs -1 for a client that aborted.
        (b"-1", _) => Ok(Some(0)),
        (_, Ok(Some(status @ (0 | 100..=599)))) => Ok(Some(status)),
        _ => Err(DropReason::Shape),
    }
}

const fn is_success(status: u64) -> bool {
    matches!(status, 200..=299)
}

/// Whether it is a method of HTTP, WebDAV or a cache.
fn is_method(text: &[u8]) -> bool {
    (3..=16).contains(&text.len())
        && text
            .iter()
            .all(|byte| byte.is_ascii_uppercase() || *byte == b'-')
}

/// No HTTP log is older, ms since 1970: HTTP started in 1990.
const EPOCH_MS_MIN: i64 = 631_152_000_000;

/// Times of arrival and completion, and whether the line has the duration (A1).
fn times(row: &LineFields<'_>) -> Result<(i64, i64, bool), DropReason> {
    let service = service(row)?;
    let is_timed = service.is_some();
    let took = service.unwrap_or(0) as i64;
    match (start(row)?, end(row)?) {
        // Both are finer than an end in whole seconds.
        (Some(start), _) if is_timed => Ok((start, start + took, true)),
        (Some(start), Some(end)) => Ok((start, end.max(start), true)),
        (Some(start), None) => Ok((start, start, false)),
        (None, Some(end)) => Ok((end - took, end, is_timed)),
        (None, None) => Err(DropReason::BadTime),
    }
}

fn service(row: &LineFields<'_>) -> Result<Option<u64>, DropReason> {
    // The finest first: Apache's `%T` is in whole seconds, `%D` beside it is not.
    const UNITS: [(Field, i32); 5] = [
        (Field::Timers, 0),
        (Field::ServiceNs, -6),
        (Field::ServiceUs, -3),
        (Field::ServiceMs, 0),
        (Field::ServiceS, 3),
    ];
    for (field, places) in UNITS {
        if row.has(field) {
            let text = row.get(field);
            // HAProxy's total is the last of its timers, with a sign under `option logasap`.
            let text = match memchr::memrchr(b'/', text) {
                Some(stroke) => {
                    let last = &text[stroke + 1..];
                    last.strip_prefix(b"+").unwrap_or(last)
                }
                None => text,
            };
            // Google writes "0.123s".
            let text = text.strip_suffix(b"s").unwrap_or(text);
            if let Some(took) = service_ms(text, places)? {
                return Ok(Some(took));
            }
        }
    }
    Ok(None)
}

/// A time in seconds since 1970, in ms.
fn since_1970(text: &[u8]) -> Result<i64, DropReason> {
    moment(thousandths(text, 3).filter(|ms| *ms > EPOCH_MS_MIN))
}

fn end(row: &LineFields<'_>) -> Result<Option<i64>, DropReason> {
    if row.has(Field::EndS) {
        return moment(thousandths(row.get(Field::EndS), 3)).map(Some);
    }
    if row.has(Field::EpochS) {
        return since_1970(row.get(Field::EpochS)).map(Some);
    }
    if row.has(Field::EndMs) {
        return moment(thousandths(row.get(Field::EndMs), 0)).map(Some);
    }
    if let Some(text) = row.known(Field::EndUs) {
        return moment(thousandths(text, 0).map(|us| us / 1000)).map(Some);
    }
    let end = row.known(Field::End);
    let clock = row.known(Field::Clock);
    let clock = clock.or(end.filter(|end| matches!(end, [_, _, b':', ..])));
    if let Some(text) = end.filter(|_| clock.is_none() || !row.has(Field::Date)) {
        return any_moment(text).map(Some);
    }
    if let (Some(date), Some(clock)) = (row.known(Field::Date), clock) {
        let ms = calendar_ms(date).zip(clock_ms(clock));
        return moment(ms.map(|(date, clock)| date + clock)).map(Some);
    }
    Ok(None)
}

fn start(row: &LineFields<'_>) -> Result<Option<i64>, DropReason> {
    if row.has(Field::EpochStartS) {
        return since_1970(row.get(Field::EpochStartS)).map(Some);
    }
    if let Some(text) = row.known(Field::StartMs) {
        return moment(thousandths(text, 0)).map(Some);
    }
    row.known(Field::Start).map(any_moment).transpose()
}

fn file<'a>(row: &LineFields<'a>, target: Option<&'a [u8]>) -> Result<Cow<'a, [u8]>, DropReason> {
    if let Some(name) = row.known(Field::File) {
        return Ok(unescape(name, row.escape));
    }
    let target = target.ok_or(DropReason::NoFile)?;
    // JSON may escape slashes as `\/`; the other escapes do not matter here.
    match unescape(target, row.escape) {
        Cow::Borrowed(target) => path(target).map(Cow::Borrowed),
        Cow::Owned(target) => path(&target).map(|path| Cow::Owned(path.to_vec())),
    }
    .ok_or(DropReason::NoFile)
}

/// The path of a target, without scheme, host, query and fragment.
fn path(target: &[u8]) -> Option<&[u8]> {
    let mut path = target;
    if path.first() != Some(&b'/')
        && let Some(scheme) = memchr::memmem::find(path, b"://")
    {
        let rest = &path[scheme + 3..];
        let slash = memchr::memchr(b'/', rest)?;
        path = &rest[slash..];
    }
    let end = memchr::memchr2(b'?', b'#', path).unwrap_or(path.len());
    (end > 0).then(|| &path[..end])
}

fn span(row: &LineFields<'_>, status: Option<u64>) -> Result<RequestedRange, DropReason> {
    let mut content = None;
    if let Some(text) = row.known(Field::ContentRange) {
        content = Some(from_content_range(&unescape(text, row.escape))?);
    }
    let file_bytes = match content.and_then(|span| span.file_bytes) {
        None => amount(row.get(Field::FileBytes))?,
        known => known,
    };
    if let Some(offset) = amount(row.get(Field::Offset))? {
        return Ok(RequestedRange {
            offset: Some(offset),
            asked_bytes: amount(row.get(Field::Size))?,
            file_bytes,
        });
    }
    let is_whole = status == Some(200);
    let asked = row.known(Field::Range).filter(|_| !is_whole);
    if let Some(text) = asked {
        let span = from_range(&unescape(text, row.escape), content)?;
        return Ok(RequestedRange { file_bytes, ..span });
    }
    if let Some(content) = content.filter(|_| !is_whole) {
        return Ok(RequestedRange {
            file_bytes,
            ..content
        });
    }
    let ends = (
        amount(row.get(Field::RangeStart))?,
        amount(row.get(Field::RangeEnd))?,
    );
    if let (Some(start), end) = ends {
        if is_whole && start > 0 {
            return Err(DropReason::BadRange);
        }
        let asked = end.map(|end| (end + 1).checked_sub(start).ok_or(DropReason::BadRange));
        return Ok(RequestedRange {
            offset: Some(start),
            asked_bytes: asked.transpose()?,
            file_bytes,
        });
    }
    // An empty offset column means that the offset is unknown.
    let is_at_start = is_whole || (status != Some(206) && !row.has(Field::Offset));
    Ok(RequestedRange {
        offset: is_at_start.then_some(0),
        asked_bytes: None,
        file_bytes,
    })
}

/// The requested range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RequestedRange {
    /// Its first byte; `None` if unknown.
    offset: Option<u64>,
    /// Its length; `None` if open-ended.
    asked_bytes: Option<u64>,
    /// Size of the file, if known.
    file_bytes: Option<u64>,
}

/// Parses a `Range` header (RFC 9110, section 14), `bytes=100-199`; some CDNs (Akamai) log it without the unit. A suffix range needs the
/// range of the reply.
fn from_range(text: &[u8], answered: Option<RequestedRange>) -> Result<RequestedRange, DropReason> {
    let is_bare = text.first().is_some_and(u8::is_ascii_digit);
    let set = text.strip_prefix(b"bytes=");
    let set = set
        .or(is_bare.then_some(text))
        .ok_or(DropReason::BadRange)?;
    let set = set.trim_ascii();
    if memchr::memchr(b',', set).is_some() {
        return Err(DropReason::ManyRanges);
    }
    let dash = memchr::memchr(b'-', set).ok_or(DropReason::BadRange)?;
    let (first, last) = (range_end(&set[..dash])?, range_end(&set[dash + 1..])?);
    let asked_bytes = match (first, last) {
        (Some(first), Some(last)) if last >= first => Some(last - first + 1),
        (Some(_), None) => None,
        (None, Some(last)) => {
            let offset = answered.and_then(|span| span.offset);
            return Ok(RequestedRange {
                offset: Some(offset.ok_or(DropReason::UnknownOffset)?),
                asked_bytes: Some(last),
                file_bytes: None,
            });
        }
        _ => return Err(DropReason::BadRange),
    };
    Ok(RequestedRange {
        offset: first,
        asked_bytes,
        file_bytes: None,
    })
}

/// Parses a `Content-Range` header, `bytes 100-199/1000`. A reply up to the end of the file is treated as the reply
/// to an open-ended request, which most of them are.
fn from_content_range(text: &[u8]) -> Result<RequestedRange, DropReason> {
    let set = text
        .strip_prefix(b"bytes ")
        .or_else(|| text.strip_prefix(b"bytes="))
        .ok_or(DropReason::BadRange)?;
    let slash = memchr::memchr(b'/', set).unwrap_or(set.len());
    let file_bytes = match set.get(slash + 1..) {
        None | Some(b"*") => None,
        Some(size) => range_end(size)?,
    };
    let dash = memchr::memchr(b'-', &set[..slash]).ok_or(DropReason::BadRange)?;
    let first = range_end(&set[..dash])?.ok_or(DropReason::BadRange)?;
    let last = range_end(&set[dash + 1..slash])?.ok_or(DropReason::BadRange)?;
    let asked = (last + 1).checked_sub(first).ok_or(DropReason::BadRange)?;
    let is_to_the_end = file_bytes == Some(last + 1);
    Ok(RequestedRange {
        offset: Some(first),
        asked_bytes: (!is_to_the_end).then_some(asked),
        file_bytes,
    })
}

fn range_end(text: &[u8]) -> Result<Option<u64>, DropReason> {
    match text {
        b"-" => Err(DropReason::BadRange),
        _ => amount(text.trim_ascii()).map_err(|reason| match reason {
            DropReason::Absurd => DropReason::Absurd,
            _ => DropReason::BadRange,
        }),
    }
}

/// Body bytes sent. Where the log includes headers, limited to the length of the reply.
fn sent(row: &LineFields<'_>, span: &RequestedRange) -> Result<u64, DropReason> {
    if row.has(Field::Bytes) {
        return Ok(amount(row.get(Field::Bytes))?.unwrap_or(0));
    }
    let length = amount(row.get(Field::ContentLength))?;
    let length = length.or(span.asked_bytes);
    let all = amount(row.get(Field::BytesAll))?;
    match (all, length) {
        (Some(all), Some(length)) => Ok(all.min(length)),
        (Some(all), None) => Ok(all),
        (None, Some(length)) if row.has(Field::ContentLength) => Ok(length),
        _ => Err(DropReason::NoBytes),
    }
}

fn kbps(row: &LineFields<'_>) -> Option<u32> {
    let rate = match row.known(Field::RateKbps) {
        Some(text) => thousandths(text, 0)?,
        None => thousandths(row.known(Field::RateBps)?, 0)? / 1000,
    };
    u32::try_from(rate).ok().filter(|rate| *rate > 0)
}

#[cfg(test)]
#[path = "entry_tests.rs"]
mod tests;
