//! `POST /detach?root=/srv/videos` and `/attach?root=...`: takes a root out of service, and back.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use bytes::Bytes;
use http::{StatusCode, header};
use percent_encoding::percent_decode_str;

use crate::root_attachment::{AttachmentChange, RootAttachments};

/// Attaches or detaches the root that the query names.
pub(super) async fn answer(
    roots: &RootAttachments,
    request: &http::request::Parts,
    is_attached: bool,
) -> (StatusCode, Bytes) {
    let said = |status, text: String| (status, Bytes::from(text));
    // Prevents cross-site requests from an operator's browser, which always have an Origin field.
    if request.headers.contains_key(header::ORIGIN) {
        let text = "requests from web pages are refused: use curl -X POST\n";
        return said(StatusCode::FORBIDDEN, text.to_owned());
    }
    let query = request.uri.query().unwrap_or_default();
    let Some(root) = query.strip_prefix("root=").filter(|of| !of.contains('&')) else {
        let text = "name one root=/srv/videos, as configured and percent-encoded\n";
        return said(StatusCode::BAD_REQUEST, text.to_owned());
    };
    let path = PathBuf::from(OsString::from_vec(percent_decode_str(root).collect()));
    let done = match is_attached {
        true => "attached",
        false => "detached",
    };
    match roots.set(&path, is_attached).await {
        AttachmentChange::Done => {
            tracing::info!(root = %path.display(), "root {done} by the operator");
            let text = serde_json::json!({"root": path.display().to_string(), "state": done});
            said(StatusCode::OK, text.to_string())
        }
        AttachmentChange::Scanning => {
            let text = format!(
                "the root is {done} for new requests, but its scan has not ended: its disk may \
                 not respond; ask again later\n"
            );
            said(StatusCode::SERVICE_UNAVAILABLE, text)
        }
        AttachmentChange::Unknown => {
            let roots = roots.paths().map(|root| root.display().to_string());
            let roots = roots.collect::<Vec<_>>().join(", ");
            let text = format!("no root is called {}; there are: {roots}\n", path.display());
            said(StatusCode::NOT_FOUND, text)
        }
    }
}
