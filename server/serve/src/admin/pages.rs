//! The web pages, embedded in the binary as built by npm.

use std::fmt::Write as _;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::Full;
use rust_embed::{EmbeddedFile, RustEmbed};

#[derive(RustEmbed)]
#[folder = "../../web/dist"]
#[allow_missing = true]
struct Web;

const NOT_BUILT: &str = "<!doctype html><title>Headlong</title><p>This build has no pages: \
    run <code>npm ci && npm run build</code> in <code>web/</code>, then build the server again. \
    <a href=\"/status\">/status</a> and <a href=\"/metrics\">/metrics</a> work without them.\n";

/// Media come from the media listener, which is another origin; players create `blob:` URLs of them
/// and run in workers. All code comes from here.
pub(super) const CONTENT_SECURITY_POLICY: &str = "default-src 'self'; script-src 'self'; \
    worker-src 'self' blob:; style-src 'self' 'unsafe-inline'; img-src * data: blob:; \
    font-src 'self' data:; media-src * blob: data:; connect-src * blob: data:; \
    object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The page at `path`, if it exists.
pub(super) fn answer(path: &str, headers: &HeaderMap) -> Option<Response<Full<Bytes>>> {
    let name = match path.strip_prefix('/')? {
        "" => "index.html",
        name => name,
    };
    let Some(file) = Web::get(name) else {
        let is_front = name == "index.html";
        return is_front.then(|| with_type("text/html; charset=utf-8", Bytes::from(NOT_BUILT)));
    };
    Some(file_answer(name, file, headers))
}

fn file_answer(name: &str, file: EmbeddedFile, headers: &HeaderMap) -> Response<Full<Bytes>> {
    let tag = entity_tag(&file);
    let is_known = headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|known| known.trim().trim_start_matches("W/"))
        .any(|known| known == tag || known == "*");
    let mut response = if is_known {
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        let bytes = match file.data {
            std::borrow::Cow::Borrowed(bytes) => Bytes::from_static(bytes),
            std::borrow::Cow::Owned(bytes) => Bytes::from(bytes),
        };
        with_type(media_type(name), bytes)
    };
    // The bundler puts a content hash into the names of assets, so those never change.
    let lasting = "public, max-age=31536000, immutable";
    let cache = if name.starts_with("assets/") {
        lasting
    } else {
        "no-cache"
    };
    let fields = response.headers_mut();
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        fields.insert(header::ETAG, tag);
    }
    response
}

fn with_type(media_type: &'static str, bytes: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(bytes));
    let value = HeaderValue::from_static(media_type);
    response.headers_mut().insert(header::CONTENT_TYPE, value);
    response
}

/// Half of the content's SHA-256, quoted.
fn entity_tag(file: &EmbeddedFile) -> String {
    let mut tag = String::from("\"");
    for byte in &file.metadata.sha256_hash()[..16] {
        // Writing to a string does not fail.
        let _ = write!(tag, "{byte:02x}");
    }
    tag.push('"');
    tag
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("json" | "map") => "application/json",
        Some("webmanifest") => "application/manifest+json",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("woff2") => "font/woff2",
        Some("wasm") => "application/wasm",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
#[path = "pages_tests.rs"]
mod tests;
