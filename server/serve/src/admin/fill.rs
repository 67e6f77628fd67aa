//! `POST /fill?path=/films/a.mp4&rate=20000000`: fetches a title from its origin ahead of viewers,
//! at a rate in bytes a second, and reports the progress. The fill stops when the client stops
//! polling.

use std::sync::Arc;

use bytes::Bytes;
use headlong_edge::Pulls;
use headlong_http::query_value;
use http::StatusCode;
use http::header;

use super::purge::PurgeReply;

const USAGE: &str =
    "name path=/films/a.mp4, percent-encoded, and rate=20000000, in bytes a second\n";

/// Starts or continues the fill of the title in the query.
pub(super) fn answer(pulls: &Arc<Pulls>, request: &http::request::Parts) -> PurgeReply {
    let said = |status, text: &'static str| (status, Bytes::from_static(text.as_bytes()));
    // Prevents cross-site requests from an operator's browser, which always have an Origin field.
    if request.headers.contains_key(header::ORIGIN) {
        return said(
            StatusCode::FORBIDDEN,
            "requests from web pages are refused: use headlong fill\n",
        );
    }
    let query = request.uri.query().unwrap_or_default();
    let rate = query_value(query, "rate").and_then(|rate| rate.parse::<u64>().ok());
    let path = query_value(query, "path");
    let (Some(path), Some(rate)) = (path, rate.filter(|rate| *rate > 0)) else {
        return said(StatusCode::BAD_REQUEST, USAGE);
    };
    let (path, of_title) = match path.split_once('?') {
        Some((path, of_title)) => (path, Some(of_title)),
        None => (path.as_str(), None),
    };
    let below = path.strip_prefix('/').and_then(|path| pulls.of(path));
    let Some((pull, below)) = below else {
        return said(
            StatusCode::NOT_FOUND,
            "this path is not below a [pull] of the configuration\n",
        );
    };
    let Some(name) = pull.name(below, of_title, |_| false) else {
        return said(
            StatusCode::BAD_REQUEST,
            "the query string of the title is too long\n",
        );
    };
    let Some(view) = pull.fill(&name, rate) else {
        return said(
            StatusCode::TOO_MANY_REQUESTS,
            "too many titles are being filled; try again later\n",
        );
    };
    match serde_json::to_vec(&view) {
        Ok(text) => (StatusCode::OK, Bytes::from(text)),
        Err(_) => said(
            StatusCode::INTERNAL_SERVER_ERROR,
            "cannot write the reply as JSON\n",
        ),
    }
}
