//! Which replies are sent by gzip: small texts, whole, to who takes it.

use headlong_http::{Method, accepts_gzip, combined, is_text, media_type};
use headlong_library::FileEntry;
use http::header;

use super::asked::{Asked, fields_of};
use super::gzip::Turn;
use super::state::{HttpSettings, MediaState};

/// Whether files of this type and size may be sent by gzip.
pub(super) fn may_be_gzipped(settings: &HttpSettings, file: &FileEntry) -> bool {
    (1..=settings.gzip_max).contains(&file.size) && is_text(media_type(&file.path))
}

/// A turn if the reply is to be by gzip: all of a small text, to who takes it.
pub(super) fn gzip_turn(
    state: &MediaState,
    head: &http::request::Parts,
    asked: &Asked,
    file: &FileEntry,
) -> Option<Turn> {
    let is_whole = asked.method == Method::Get && !head.headers.contains_key(header::RANGE);
    if !is_whole || !may_be_gzipped(&asked.settings, file) {
        return None;
    }
    let fields = fields_of(head);
    let accepted = combined(fields.iter().copied(), "accept-encoding")?;
    accepts_gzip(&accepted).then(|| state.gzip_turns.take())?
}
