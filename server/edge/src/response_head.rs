//! The response head of an origin, in the form the core expects.

use headlong_pull::ResponseHead;
use http::HeaderMap;
use http::header::{self, HeaderName};

/// If a field occurs several times, the first one counts.
pub(super) fn field(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

pub(super) fn head_of<B>(response: &http::Response<B>) -> ResponseHead<'_> {
    let headers = response.headers();
    ResponseHead {
        status: response.status().as_u16(),
        content_length: field(headers, header::CONTENT_LENGTH),
        content_range: field(headers, header::CONTENT_RANGE),
        content_encoding: field(headers, header::CONTENT_ENCODING),
        entity_tag: field(headers, header::ETAG),
        last_modified: field(headers, header::LAST_MODIFIED),
    }
}
