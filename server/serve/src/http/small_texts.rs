//! Which replies are sent by gzip: texts, whole, to who takes it. Small ones are compressed here; of any
//! there may be a file by gzip beside it.

use headlong_http::{Method, accepts_gzip, combined, is_text, media_type};
use headlong_library::FileEntry;
use http::header;

use super::asked::{Asked, fields_of};
use super::gzip::Turn;
use super::state::{HttpSettings, MediaState};

/// Whether files of this type and size may be sent by gzip.
pub(super) fn may_be_gzipped(settings: &HttpSettings, file: &FileEntry) -> bool {
    let is_small = (1..=settings.gzip_max).contains(&file.size);
    (is_small || settings.gzip_static) && is_text(media_type(&file.path))
}

/// A turn if the reply is to be compressed: all of a small text, to who takes it.
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

/// Where the file by gzip would be that is sent in the place of the one at `path`.
pub(super) fn packed_path(
    head: &http::request::Parts,
    asked: &Asked,
    (path, file): (&str, &FileEntry),
) -> Option<String> {
    let may_be = asked.settings.gzip_static && takes_gzip(head, asked, file);
    may_be.then(|| format!("{path}.gz"))
}

/// Whether what was found beside a file is that file by gzip, as far as their times tell.
pub(super) fn is_packed(packed: &FileEntry, file: &FileEntry) -> bool {
    packed.size > 0 && packed.mtime >= file.mtime
}

/// Whether all of a text is asked for by who takes gzip.
fn takes_gzip(head: &http::request::Parts, asked: &Asked, file: &FileEntry) -> bool {
    // HEAD knows no ranges, and is told of what GET would get.
    let has_range = asked.method == Method::Get && head.headers.contains_key(header::RANGE);
    if has_range || !may_be_gzipped(&asked.settings, file) {
        return false;
    }
    let fields = fields_of(head);
    let accepted = combined(fields.iter().copied(), "accept-encoding");
    accepted.is_some_and(|accepted| accepts_gzip(&accepted))
}
