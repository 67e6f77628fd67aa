//! Selection of compressed replies: whole texts, for clients that accept a coding. Small ones are
//! compressed here with gzip; for any text there may be compressed files beside it.

use headlong_http::{ContentCoding, Method, accepted_codings, combined, is_text, media_type};
use headlong_library::FileEntry;
use http::header;

use super::gzip::GzipSlot;
use super::parsed_request::{ParsedRequest, fields_of};
use super::state::{HttpSettings, MediaState};
use headlong_config::Gzip;

/// Largest text that is compressed as it is sent: it is in memory as a whole, and takes
/// milliseconds of a processor.
const TEXT_BYTES_MAX: u64 = 512 << 10;

/// Whether a file's type and size allow a compressed reply.
pub(super) fn may_be_compressed(settings: &HttpSettings, file: &FileEntry) -> bool {
    let is_ready_made = ContentCoding::ALL
        .iter()
        .any(|coding| settings.gzip.contains(&ready_made(*coding)));
    (is_ready_made || is_small(settings, file)) && is_text(media_type(&file.path))
}

/// The value of the setting that allows files of a coding.
fn ready_made(coding: ContentCoding) -> Gzip {
    match coding {
        ContentCoding::Brotli => Gzip::StaticBrotli,
        ContentCoding::Zstd => Gzip::StaticZstd,
        ContentCoding::Gzip => Gzip::Static,
    }
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
    let may_be = is_small(&asked.settings, file)
        && accepted(head, asked, file).contains(&ContentCoding::Gzip);
    may_be.then(|| state.gzip_turns.take())?
}

/// The codings whose files may replace a text, the preferred one first.
pub(super) fn ready_made_codings(
    head: &http::request::Parts,
    asked: &ParsedRequest,
    file: &FileEntry,
) -> Vec<ContentCoding> {
    let mut codings = accepted(head, asked, file);
    codings.retain(|coding| asked.settings.gzip.contains(&ready_made(*coding)));
    codings
}

/// Whether the file found beside a text is its compressed file and, by mtime, up to date.
pub(super) fn is_up_to_date(packed: &FileEntry, file: &FileEntry) -> bool {
    packed.size > 0 && packed.mtime >= file.mtime
}

/// The codings that a client accepts for a text that it requests as a whole.
fn accepted(
    head: &http::request::Parts,
    asked: &ParsedRequest,
    file: &FileEntry,
) -> Vec<ContentCoding> {
    // HEAD ignores ranges and describes the reply to a GET.
    let has_range = asked.method == Method::Get && head.headers.contains_key(header::RANGE);
    if has_range || !may_be_compressed(&asked.settings, file) {
        return Vec::new();
    }
    let fields = fields_of(head);
    let accepted = combined(fields.iter().copied(), "accept-encoding");
    accepted.map_or_else(Vec::new, |accepted| accepted_codings(&accepted))
}
