//! Kind of a file, by its name.

/// Role of a file in the library, by its extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// `.m3u8`, or `.m3u`
    Hls,
    /// `.mpd`
    Dash,
    /// A file with MP4 headers.
    Mp4,
    /// A file with Matroska headers.
    Matroska,
    /// Another directly playable file.
    Playable,
    /// A picture.
    Image,
    /// Anything else: chunks, subtitles, pages.
    Other,
}

/// Extensions of pictures, searched beside a title.
pub(crate) const IMAGES: [&str; 5] = ["jpg", "jpeg", "png", "webp", "avif"];
const MP4: [&str; 6] = ["mp4", "m4v", "mov", "m4a", "3gp", "f4v"];
const MATROSKA: [&str; 3] = ["webm", "mkv", "mka"];
const PLAYABLE: [&str; 10] = [
    "ogv", "avi", "mpg", "mpeg", "mp3", "flac", "ogg", "oga", "opus", "wav",
];

/// The file name without its directories, and its last extension.
pub(crate) fn split_name(path: &str) -> (&str, &str) {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() => (stem, extension),
        _ => (name, ""),
    }
}

pub(crate) fn file_kind(path: &str) -> FileKind {
    let (_, extension) = split_name(path);
    let is = |known: &&str| known.eq_ignore_ascii_case(extension);
    if is(&"m3u8") || is(&"m3u") {
        FileKind::Hls
    } else if is(&"mpd") {
        FileKind::Dash
    } else if MP4.iter().any(is) {
        FileKind::Mp4
    } else if MATROSKA.iter().any(is) {
        FileKind::Matroska
    } else if PLAYABLE.iter().any(is) {
        FileKind::Playable
    } else if IMAGES.iter().any(is) {
        FileKind::Image
    } else {
        FileKind::Other
    }
}

/// Whether its headers can be parsed.
pub(crate) fn has_header(path: &str) -> bool {
    matches!(file_kind(path), FileKind::Mp4 | FileKind::Matroska)
}

/// Whether it is a title of its own unless a manifest names it.
pub(crate) fn is_film(path: &str) -> bool {
    use FileKind::{Matroska, Mp4, Playable};
    matches!(file_kind(path), Mp4 | Matroska | Playable)
}

/// Whether it tells which files belong to one title.
pub(crate) fn is_manifest(path: &str) -> bool {
    matches!(file_kind(path), FileKind::Hls | FileKind::Dash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_extension_counts_in_any_case() {
        assert_eq!(file_kind("a/b.c/Film.MP4"), FileKind::Mp4);
        assert_eq!(file_kind("a/master.m3u8"), FileKind::Hls);
        assert_eq!(file_kind("a/v.M3U"), FileKind::Hls);
        assert_eq!(file_kind("a/v.webm"), FileKind::Matroska);
        assert_eq!(file_kind("a.mp4/readme"), FileKind::Other);
        assert_eq!(split_name("a/.mp4"), (".mp4", ""));
    }
}
