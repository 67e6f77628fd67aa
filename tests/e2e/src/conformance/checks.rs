//! Assertions on a response.

use headlong_testkit::client::Response;
use headlong_testkit::pattern;

/// Size of the title that most cases request: not a multiple of any block size.
pub const SIZE: u64 = 1_000_003;
/// Its pattern number.
pub const TITLE: u64 = 77;

pub(super) fn has_status(response: &Response, statuses: &[u16]) -> Result<(), String> {
    if statuses.contains(&response.status()) {
        return Ok(());
    }
    Err(format!(
        "status {}, not one of {statuses:?}",
        response.status()
    ))
}

pub(super) fn is_whole(response: &Response) -> Result<(), String> {
    has_status(response, &[200])?;
    if response.body.len() as u64 != SIZE || response.field("content-range").is_some() {
        return Err(format!(
            "{} bytes, {:?}",
            response.body.len(),
            response.head
        ));
    }
    pattern::verify(TITLE, 0, &response.body).map_err(|error| error.to_string())
}

pub(super) fn is_range(response: &Response, first: u64, last: u64) -> Result<(), String> {
    has_status(response, &[206])?;
    if response.head.content_range() != Some((first, last, SIZE)) {
        return Err(format!(
            "content-range {:?}",
            response.field("content-range")
        ));
    }
    if response.head.content_length() != Some(last - first + 1) {
        return Err(format!(
            "content-length {:?}",
            response.head.content_length()
        ));
    }
    pattern::verify(TITLE, first, &response.body).map_err(|error| error.to_string())
}

pub(super) fn is_parts(response: &Response, ranges: &[(u64, u64)]) -> Result<(), String> {
    has_status(response, &[206])?;
    if response.field("content-range").is_some() {
        return Err("a multipart reply has no Content-Range of its own".to_owned());
    }
    let parts = response
        .byte_range_parts()
        .map_err(|error| error.to_string())?;
    let found: Vec<_> = parts
        .iter()
        .map(|part| (part.first, part.first + part.body.len() as u64 - 1))
        .collect();
    if found != ranges {
        return Err(format!("parts {found:?}, not {ranges:?}"));
    }
    for part in &parts {
        if part.size != SIZE || part.content_type.is_none() {
            return Err(format!(
                "part's size {} or type {:?}",
                part.size, part.content_type
            ));
        }
        pattern::verify(TITLE, part.first, &part.body).map_err(|error| error.to_string())?;
    }
    Ok(())
}

pub(super) fn is_unsatisfiable(response: &Response) -> Result<(), String> {
    has_status(response, &[416])?;
    match response.field("content-range") {
        Some("bytes */1000003") => Ok(()),
        other => Err(format!("content-range {other:?}")),
    }
}

pub(super) fn is_not_modified(response: &Response) -> Result<(), String> {
    has_status(response, &[304])?;
    if !response.body.is_empty() || response.field("etag").is_none() {
        return Err(format!("{response:?}"));
    }
    Ok(())
}

pub(super) fn is_failed_condition(response: &Response) -> Result<(), String> {
    has_status(response, &[412])
}

pub(super) fn is_refused(response: &Response) -> Result<(), String> {
    has_status(response, &[400, 403, 404])?;
    let secret = pattern::bytes(666, 0..64);
    if response
        .body
        .windows(secret.len())
        .any(|window| window == secret)
    {
        return Err("it served a file outside the root".to_owned());
    }
    Ok(())
}

pub(super) fn is_not_found(response: &Response) -> Result<(), String> {
    has_status(response, &[404])
}

pub(super) fn is_bad_request(response: &Response) -> Result<(), String> {
    has_status(response, &[400])
}

pub(super) fn is_head_of_whole(response: &Response) -> Result<(), String> {
    has_status(response, &[200])?;
    let has = |name| response.field(name).is_some();
    let complete = has("etag") && has("last-modified") && has("content-type") && has("date");
    let accepts = response.field("accept-ranges") == Some("bytes");
    let strong = response
        .field("etag")
        .is_some_and(|etag| etag.starts_with('"'));
    let right = response.head.content_length() == Some(SIZE) && response.body.is_empty();
    if complete && accepts && strong && right {
        Ok(())
    } else {
        Err(format!("{response:?}"))
    }
}

pub(super) fn is_empty_file(response: &Response) -> Result<(), String> {
    has_status(response, &[200])?;
    match (response.head.content_length(), response.body.len()) {
        (Some(0), 0) => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

pub(super) fn allows_any_origin(response: &Response) -> Result<(), String> {
    let exposed = response
        .field("access-control-expose-headers")
        .unwrap_or_default();
    let exposed = exposed.to_ascii_lowercase();
    let origin = response.field("access-control-allow-origin");
    if origin == Some("*") && exposed.contains("content-range") {
        return Ok(());
    }
    Err(format!("origin {origin:?}, exposed {exposed:?}"))
}

pub(super) fn is_preflight(response: &Response) -> Result<(), String> {
    has_status(response, &[200, 204])?;
    let lists = |name: &str, word: &str| {
        let value = response
            .field(name)
            .unwrap_or_default()
            .to_ascii_lowercase();
        value.split(',').any(|item| item.trim() == word)
    };
    let allows = response.field("access-control-allow-origin") == Some("*")
        && lists("access-control-allow-headers", "range")
        && lists("access-control-allow-headers", "cmcd-session")
        && lists("access-control-allow-methods", "get");
    if allows {
        Ok(())
    } else {
        Err(format!("{:?}", response.head))
    }
}

/// Bytes, in a reply of either kind, that are all correct.
pub(super) fn is_whole_or_right_parts(response: &Response) -> Result<(), String> {
    match response.status() {
        200 => is_whole(response),
        206 => {
            let parts = response
                .byte_range_parts()
                .map_err(|error| error.to_string())?;
            for part in &parts {
                pattern::verify(TITLE, part.first, &part.body).map_err(|e| e.to_string())?;
            }
            Ok(())
        }
        416 => is_unsatisfiable(response),
        other => Err(format!("status {other}")),
    }
}
