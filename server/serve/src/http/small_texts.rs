//! Selection of gzip replies: whole texts, for clients that accept gzip. Small ones are compressed
//! here; for any text there may be a gzip file beside it.

use headlong_http::{Method, accepts_gzip, combined, is_text, media_type};
use headlong_library::FileEntry;
use http::header;

use super::asked::{Asked, fields_of};
use super::gzip::Turn;
use super::state::{HttpSettings, MediaState};

/// Whether a file's type and size allow gzip.
pub(super) fn may_be_gzipped(settings: &HttpSettings, file: &FileEntry) -> bool {
    let is_small = (1..=settings.gzip_max).contains(&file.size);
    (is_small || settings.gzip_static) && is_text(media_type(&file.path))
}

/// A gzip slot, if the reply should be compressed: a whole small text for a client that accepts
/// gzip.
pub(super) fn gzip_turn(
    state: &MediaState,
    head: &http::request::Parts,
    asked: &Asked,
    file: &FileEntry,
) -> Option<Turn> {
    let is_small = (1..=asked.settings.gzip_max).contains(&file.size);
    let may_be = is_small && takes_gzip(head, asked, file);
    may_be.then(|| state.gzip_turns.take())?
}

/// Path of the gzip file that may replace the file at `path`.
pub(super) fn packed_path(
    head: &http::request::Parts,
    asked: &Asked,
    (path, file): (&str, &FileEntry),
) -> Option<String> {
    let may_be = asked.settings.gzip_static && takes_gzip(head, asked, file);
    may_be.then(|| format!("{path}.gz"))
}

/// Whether the file found beside a text is its gzip file and, by mtime, up to date.
pub(super) fn is_packed(packed: &FileEntry, file: &FileEntry) -> bool {
    packed.size > 0 && packed.mtime >= file.mtime
}

/// Whether a client that accepts gzip requests the whole text.
fn takes_gzip(head: &http::request::Parts, asked: &Asked, file: &FileEntry) -> bool {
    // HEAD ignores ranges and describes the reply to a GET.
    let has_range = asked.method == Method::Get && head.headers.contains_key(header::RANGE);
    if has_range || !may_be_gzipped(&asked.settings, file) {
        return false;
    }
    let fields = fields_of(head);
    let accepted = combined(fields.iter().copied(), "accept-encoding");
    accepted.is_some_and(|accepted| accepts_gzip(&accepted))
}
