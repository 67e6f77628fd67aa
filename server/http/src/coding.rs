//! Content codings: whether a reply may be sent by gzip (RFC 9110 8.4).
//!
//! Only texts that players ask for again and again are: playlists, manifests, subtitles. Video is
//! compressed already. What is sent by gzip is another representation with a tag of its own, and
//! ranges are of the file as it is.

use alloc::string::String;

use crate::fields::trim_ows;

/// Types of texts, without their parameters.
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

/// Whether files of this `content-type` are worth it.
pub fn is_text(media_type: &str) -> bool {
    let name = media_type.split(';').next().unwrap_or_default();
    TEXTS.contains(&trim_ows(name))
}

/// Whether an `accept-encoding` field takes gzip: by its name, or by `*` if it is not named.
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

/// Whether a weight such as `q=0.5` is more than nothing; one that cannot be read is not.
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

/// The tag of a representation by gzip, from that of the file.
pub fn gzip_tag(tag: &str) -> String {
    let mut tag = String::from(tag.strip_suffix('"').unwrap_or(tag));
    tag.push_str("-gz\"");
    tag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_taken_by_who_names_it_or_anything_and_not_by_who_weighs_it_nothing() {
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
