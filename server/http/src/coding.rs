//! Content codings: whether a reply may be compressed with gzip (RFC 9110 8.4).
//!
//! Only texts that players request repeatedly are: playlists, manifests, subtitles. Video is
//! already compressed. A gzip reply is another representation with its own tag; ranges apply to the
//! uncompressed file.

use alloc::string::String;

use crate::fields::trim_ows;

/// Media types of texts, without parameters.
const TEXTS: [&str; 14] = [
    "application/vnd.apple.mpegurl",
    "application/dash+xml",
    "application/vnd.ms-sstr+xml",
    "application/f4m+xml",
    "application/xspf+xml",
    "application/ttml+xml",
    "application/x-subrip",
    "application/json",
    "application/manifest+json",
    "application/xml",
    "image/svg+xml",
    "text/vtt",
    "text/x-ssa",
    "text/plain",
];

/// Whether files of this media type are worth compressing.
pub fn is_text(media_type: &str) -> bool {
    let name = media_type.split(';').next().unwrap_or_default();
    TEXTS.contains(&trim_ows(name))
}

/// Whether an `accept-encoding` field accepts gzip: by name, or else by `*`.
pub fn accepts_gzip(accept_encoding: &str) -> bool {
    let (mut named, mut any) = (None, None);
    for member in accept_encoding.split(',') {
        let (coding, weight) = member.split_once(';').unwrap_or((member, ""));
        let is_taken = weighs_something(trim_ows(weight));
        let coding = trim_ows(coding);
        if coding.eq_ignore_ascii_case("gzip") || coding.eq_ignore_ascii_case("x-gzip") {
            named = Some(is_taken);
        } else if coding == "*" {
            any = Some(is_taken);
        }
    }
    named.or(any).unwrap_or(false)
}

/// Whether a weight such as `q=0.5` is above zero; an invalid one is not.
fn weighs_something(weight: &str) -> bool {
    if weight.is_empty() {
        return true;
    }
    let value = weight
        .strip_prefix("q=")
        .or_else(|| weight.strip_prefix("Q="));
    let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    value.is_some_and(|text| is_number(text) && text.bytes().any(|b| (b'1'..=b'9').contains(&b)))
}

/// Tag of the gzip representation, derived from that of the file.
pub fn gzip_tag(tag: &str) -> String {
    let mut tag = String::from(tag.strip_suffix('"').unwrap_or(tag));
    tag.push_str("-gz\"");
    tag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_accepted_by_name_or_wildcard_with_weight() {
        for taken in [
            "gzip",
            "deflate, gzip;q=0.5",
            "br,GZIP",
            "*",
            "gzip;q=1.0, *;q=0",
            "x-gzip",
        ] {
            assert!(accepts_gzip(taken), "{taken}");
        }
        for not in [
            "",
            "br",
            "gzip;q=0",
            "gzip; q=0.000",
            "*;q=0",
            "gzip;q=0, *",
            "gzip;q=x",
            "gzipped",
        ] {
            assert!(!accepts_gzip(not), "{not}");
        }
    }

    #[test]
    fn texts_are_compressed_and_video_is_not() {
        for name in ["a.m3u8", "a.mpd", "a.vtt", "a.srt", "a.json"] {
            assert!(is_text(crate::media_type(name)), "{name}");
        }
        for name in ["a.ts", "a.mp4", "a.jpg", "a.key", "a"] {
            assert!(!is_text(crate::media_type(name)), "{name}");
        }
        assert_eq!(gzip_tag("\"v1\""), "\"v1-gz\"");
    }
}
