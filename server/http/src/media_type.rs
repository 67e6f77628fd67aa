//! Media type of a file, by its extension.

/// Default type.
const UNKNOWN: &str = "application/octet-stream";

/// Value of `content-type` for a file name; the case of the extension is ignored.
///
/// Players select their parser by it: HLS requires `application/vnd.apple.mpegurl` (RFC 8216 4),
/// DASH `application/dash+xml` and `video/iso.segment` (ISO 23009-1), transport streams
/// `video/mp2t` (RFC 3555). Texts declare UTF-8, which WebVTT requires.
pub fn media_type(file_name: &str) -> &'static str {
    let Some((_, extension)) = file_name.rsplit_once('.') else {
        return UNKNOWN;
    };
    let matches = |(extensions, _): &&(&[&str], &str)| {
        extensions.iter().any(|e| e.eq_ignore_ascii_case(extension))
    };
    TYPES.iter().find(matches).map_or(UNKNOWN, |(_, name)| name)
}

/// Types in a video library, most requested first.
const TYPES: &[(&[&str], &str)] = &[
    (&["ts", "m2t", "m2ts", "mts"], "video/mp2t"),
    (&["m4s"], "video/iso.segment"),
    (&["mp4", "m4v", "cmfv", "mp4v", "init"], "video/mp4"),
    (&["m3u8", "m3u"], "application/vnd.apple.mpegurl"),
    (&["mpd"], "application/dash+xml"),
    (&["m4a", "m4b", "cmfa", "mp4a"], "audio/mp4"),
    (&["cmft", "cmfm"], "application/mp4"),
    (&["webm"], "video/webm"),
    (&["mkv", "mk3d"], "video/x-matroska"),
    (&["mka"], "audio/x-matroska"),
    (&["weba"], "audio/webm"),
    (&["mov", "qt"], "video/quicktime"),
    (&["ogv"], "video/ogg"),
    (&["ogg", "oga", "opus", "spx"], "audio/ogg"),
    (&["ogx"], "application/ogg"),
    (&["avi"], "video/x-msvideo"),
    (&["wmv"], "video/x-ms-wmv"),
    (&["asf"], "video/x-ms-asf"),
    (&["flv"], "video/x-flv"),
    // MP4 of Flash; the type is that of Apache's table.
    (&["f4v"], "video/x-f4v"),
    (&["3gp"], "video/3gpp"),
    (&["3g2"], "video/3gpp2"),
    (&["mpg", "mpeg", "mpe", "m1v", "m2v", "vob"], "video/mpeg"),
    (&["aac", "adts"], "audio/aac"),
    (&["mp3", "mp2", "mpga"], "audio/mpeg"),
    (&["flac"], "audio/flac"),
    (&["wav"], "audio/wav"),
    (&["ac3"], "audio/ac3"),
    (&["ec3", "eac3"], "audio/eac3"),
    (&["ac4"], "audio/ac4"),
    (&["aif", "aiff"], "audio/aiff"),
    (&["vtt", "webvtt"], "text/vtt; charset=utf-8"),
    (&["srt"], "application/x-subrip"),
    (&["ttml", "dfxp"], "application/ttml+xml"),
    (&["ass", "ssa"], "text/x-ssa; charset=utf-8"),
    (&["ismc"], "application/vnd.ms-sstr+xml"),
    (&["f4m"], "application/f4m+xml"),
    (&["xspf"], "application/xspf+xml"),
    (&["jpg", "jpeg", "jpe", "jfif"], "image/jpeg"),
    (&["png"], "image/png"),
    (&["webp"], "image/webp"),
    (&["avif"], "image/avif"),
    (&["gif"], "image/gif"),
    (&["svg"], "image/svg+xml"),
    (&["bmp"], "image/bmp"),
    (&["ico"], "image/vnd.microsoft.icon"),
    (&["heic"], "image/heic"),
    (&["jxl"], "image/jxl"),
    (&["json", "map"], "application/json"),
    (&["webmanifest"], "application/manifest+json"),
    (&["html", "htm"], "text/html; charset=utf-8"),
    (&["css"], "text/css; charset=utf-8"),
    (&["js", "mjs"], "text/javascript; charset=utf-8"),
    (&["txt", "log", "nfo"], "text/plain; charset=utf-8"),
    (&["md"], "text/markdown; charset=utf-8"),
    (&["csv"], "text/csv; charset=utf-8"),
    (&["xml"], "application/xml"),
    (&["wasm"], "application/wasm"),
    (&["pdf"], "application/pdf"),
    (&["zip"], "application/zip"),
    (&["woff2"], "font/woff2"),
    (&["woff"], "font/woff"),
    (&["ttf"], "font/ttf"),
    (&["otf"], "font/otf"),
    (&["key", "bin", "iso", "img"], UNKNOWN),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_those_that_players_require() {
        for (name, expected) in [
            ("master.m3u8", "application/vnd.apple.mpegurl"),
            ("manifest.mpd", "application/dash+xml"),
            ("0001.ts", "video/mp2t"),
            ("0001.m4s", "video/iso.segment"),
            ("Film.MP4", "video/mp4"),
            ("old.f4v", "video/x-f4v"),
            ("audio.cmfa", "audio/mp4"),
            ("de.vtt", "text/vtt; charset=utf-8"),
            ("my.film.2019.mkv", "video/x-matroska"),
            ("key.key", "application/octet-stream"),
            ("README", "application/octet-stream"),
            ("odd.", "application/octet-stream"),
            ("mp4", "application/octet-stream"),
        ] {
            assert_eq!(media_type(name), expected, "{name}");
        }
    }

    #[test]
    fn extensions_are_unique_and_texts_declare_utf8() {
        let mut seen = alloc::collections::BTreeSet::new();
        for (extensions, name) in TYPES {
            for extension in *extensions {
                assert!(seen.insert(*extension), "{extension} occurs twice");
            }
            assert_eq!(
                name.starts_with("text/"),
                name.ends_with("; charset=utf-8"),
                "{name}"
            );
        }
    }
}
