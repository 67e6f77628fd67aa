//! Selection of gzip replies: whole texts, for clients that accept gzip. Small ones are compressed
//! here; for any text there may be a gzip file beside it.

use headlong_http::{Method, accepts_gzip, combined, is_text, media_type};
use headlong_library::FileEntry;
use http::header;

use super::gzip::GzipSlot;
use super::parsed_request::{ParsedRequest, fields_of};
use super::state::{HttpSettings, MediaState};
use crate::config::Gzip;

/// Largest text that is compressed as it is sent: it is in memory as a whole, and takes
/// milliseconds of a processor.
const TEXT_BYTES_MAX: u64 = 512 << 10;

/// Whether a file's type and size allow gzip.
pub(super) fn may_be_gzipped(settings: &HttpSettings, file: &FileEntry) -> bool {
    let may_be = settings.gzip.contains(&Gzip::Static) || is_small(settings, file);
    may_be && is_text(media_type(&file.path))
}

/// Whether a file may be compressed as it is sent.
fn is_small(settings: &HttpSettings, file: &FileEntry) -> bool {
    settings.gzip.contains(&Gzip::Dynamic) && (1..=TEXT_BYTES_MAX).contains(&file.size)
}

/// A gzip slot, if the reply should be compressed: a whole small text for a client that accepts
/// gzip.
pub(super) fn gzip_turn(
    state: &MediaState,
    head: &http::request::Parts,
    asked: &ParsedRequest,
    file: &FileEntry,
) -> Option<GzipSlot> {
    let may_be = is_small(&asked.settings, file) && takes_gzip(head, asked, file);
    may_be.then(|| state.gzip_turns.take())?
}

/// Path of the gzip file that may replace the file at `path`.
pub(super) fn packed_path(
    head: &http::request::Parts,
    asked: &ParsedRequest,
    path: &str,
    file: &FileEntry,
) -> Option<String> {
    let may_be = asked.settings.gzip.contains(&Gzip::Static) && takes_gzip(head, asked, file);
    may_be.then(|| format!("{path}.gz"))
}

/// Whether the file found beside a text is its gzip file and, by mtime, up to date.
pub(super) fn is_packed(packed: &FileEntry, file: &FileEntry) -> bool {
    packed.size > 0 && packed.mtime >= file.mtime
}

/// Whether a client that accepts gzip requests the whole text.
fn takes_gzip(head: &http::request::Parts, asked: &ParsedRequest, file: &FileEntry) -> bool {
    // HEAD ignores ranges and describes the reply to a GET.
    let has_range = asked.method == Method::Get && head.headers.contains_key(header::RANGE);
    if has_range || !may_be_gzipped(&asked.settings, file) {
        return false;
    }
    let fields = fields_of(head);
    let accepted = combined(fields.iter().copied(), "accept-encoding");
    accepted.is_some_and(|accepted| accepts_gzip(&accepted))
}
