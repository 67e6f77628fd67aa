//! `POST /purge?path=/films/a.mp4` or `?prefix=/films/`: removes titles that were fetched from an
//! origin.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use http::header;
use percent_encoding::percent_decode_str;
use tokio::task::spawn_blocking;

use headlong_edge::Pulls;
use headlong_units::path_text;

/// Status and text of an answer.
pub(super) type PurgeReply = (StatusCode, Bytes);

/// Purges the titles that the query names.
pub(super) async fn answer(pulls: &Arc<Pulls>, request: &http::request::Parts) -> PurgeReply {
    let said = |status, text: &'static str| (status, Bytes::from_static(text.as_bytes()));
    // Prevents cross-site requests from an operator's browser, which always have an Origin field.
    if request.headers.contains_key(header::ORIGIN) {
        return said(
            StatusCode::FORBIDDEN,
            "requests from web pages are refused: use curl -X POST\n",
        );
    }
    let usage = "name one path=/films/a.mp4 or prefix=/films/, percent-encoded\n";
    let query = request.uri.query().unwrap_or_default();
    let Some((name, value)) = query
        .split_once('=')
        .filter(|(_, value)| !value.contains('&'))
    else {
        return said(StatusCode::BAD_REQUEST, usage);
    };
    let is_prefix = match name {
        "prefix" => true,
        "path" => false,
        _ => return said(StatusCode::BAD_REQUEST, usage),
    };
    let path: Cow<'_, [u8]> = percent_decode_str(value).into();
    let path = path_text(&path).into_owned();
    if !path.starts_with('/') {
        return said(StatusCode::BAD_REQUEST, usage);
    }
    let pulls = Arc::clone(pulls);
    let purged = spawn_blocking(move || pulls.purge(&path, is_prefix)).await;
    let purged = purged
        .ok()
        .and_then(|purged| serde_json::to_vec(&purged).ok());
    match purged {
        Some(text) => (StatusCode::OK, Bytes::from(text)),
        None => said(
            StatusCode::INTERNAL_SERVER_ERROR,
            "purge failed; see the log\n",
        ),
    }
}
