//! The `Range` and `Content-Range` headers (RFC 9110, section 14).

use super::number::amount;
use super::reason::DropReason;

/// The requested range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestedRange {
    /// Its first byte; `None` if unknown.
    pub(crate) offset: Option<u64>,
    /// Its length; `None` if open-ended.
    pub(crate) asked_bytes: Option<u64>,
    /// Size of the file, if known.
    pub(crate) file_bytes: Option<u64>,
}

/// Parses `bytes=100-199`; some CDNs (Akamai) log it without the unit. A suffix range needs the
/// range of the reply.
pub(crate) fn from_range(
    text: &[u8],
    answered: Option<RequestedRange>,
) -> Result<RequestedRange, DropReason> {
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
    let (first, last) = (number(&set[..dash])?, number(&set[dash + 1..])?);
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

/// Parses `bytes 100-199/1000`. A reply up to the end of the file is treated as the reply
/// to an open-ended request, which most of them are.
pub(crate) fn from_content_range(text: &[u8]) -> Result<RequestedRange, DropReason> {
    let set = text
        .strip_prefix(b"bytes ")
        .or_else(|| text.strip_prefix(b"bytes="))
        .ok_or(DropReason::BadRange)?;
    let slash = memchr::memchr(b'/', set).unwrap_or(set.len());
    let file_bytes = match set.get(slash + 1..) {
        None | Some(b"*") => None,
        Some(size) => number(size)?,
    };
    let dash = memchr::memchr(b'-', &set[..slash]).ok_or(DropReason::BadRange)?;
    let first = number(&set[..dash])?.ok_or(DropReason::BadRange)?;
    let last = number(&set[dash + 1..slash])?.ok_or(DropReason::BadRange)?;
    let asked = (last + 1).checked_sub(first).ok_or(DropReason::BadRange)?;
    let is_to_the_end = file_bytes == Some(last + 1);
    Ok(RequestedRange {
        offset: Some(first),
        asked_bytes: (!is_to_the_end).then_some(asked),
        file_bytes,
    })
}

fn number(text: &[u8]) -> Result<Option<u64>, DropReason> {
    match text {
        b"-" => Err(DropReason::BadRange),
        _ => amount(text.trim_ascii()).map_err(|reason| match reason {
            DropReason::Absurd => DropReason::Absurd,
            _ => DropReason::BadRange,
        }),
    }
}
