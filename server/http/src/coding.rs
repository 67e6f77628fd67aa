//! Content codings: whether and how a reply may be compressed (RFC 9110 8.4 and 12.5.3).
//!
//! Only texts that players request repeatedly are: playlists, manifests, subtitles. Video is
//! already compressed. A compressed reply is another representation with its own tag; ranges apply to the
//! uncompressed file.

use alloc::string::String;
use alloc::vec::Vec;

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

/// A content coding of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentCoding {
    /// Brotli (RFC 7932).
    Brotli,
    /// Zstandard (RFC 8878).
    Zstd,
    /// gzip (RFC 1952).
    Gzip,
}

impl ContentCoding {
    /// All of them, the one that usually gives the smallest texts first.
    pub const ALL: [Self; 3] = [Self::Brotli, Self::Zstd, Self::Gzip];

    /// Its name in `content-encoding`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
        }
    }

    /// Extension of a file with this coding, behind the name of the text.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Brotli => ".br",
            Self::Zstd => ".zst",
            Self::Gzip => ".gz",
        }
    }

    /// Tag of the representation with this coding, derived from that of the file.
    pub fn tag(self, tag: &str) -> String {
        let mut tag = String::from(tag.strip_suffix('"').unwrap_or(tag));
        tag.push('-');
        tag.push_str(self.extension().trim_start_matches('.'));
        tag.push('"');
        tag
    }

    fn is_named(self, coding: &str) -> bool {
        coding.eq_ignore_ascii_case(self.name())
            || (self == Self::Gzip && coding.eq_ignore_ascii_case("x-gzip"))
    }
}

/// The codings that an `accept-encoding` field accepts, by name or else by `*`: those of the highest
/// weight first, and of equal weight in the order of [`ContentCoding::ALL`]. Codings that weigh less
/// than the uncompressed text are left out.
pub fn accepted_codings(accept_encoding: &str) -> Vec<ContentCoding> {
    let weight_of = |is_named: &dyn Fn(&str) -> bool| {
        let mut weight = None;
        for member in accept_encoding.split(',') {
            let (coding, parameter) = member.split_once(';').unwrap_or((member, ""));
            if is_named(trim_ows(coding)) {
                weight = Some(thousandths(trim_ows(parameter)));
            }
        }
        weight
    };
    let any = weight_of(&|coding| coding == "*").unwrap_or(0);
    let plain = weight_of(&|coding| coding.eq_ignore_ascii_case("identity")).unwrap_or(0);
    let weighed = ContentCoding::ALL.map(|coding| {
        let named = weight_of(&|name| coding.is_named(name));
        (named.unwrap_or(any), coding)
    });
    let mut accepted: Vec<_> = weighed
        .into_iter()
        .filter(|(weight, _)| *weight > 0 && *weight >= plain)
        .collect();
    accepted.sort_by_key(|(weight, _)| core::cmp::Reverse(*weight));
    accepted.into_iter().map(|(_, coding)| coding).collect()
}

/// A weight such as `q=0.5` in thousandths; zero for an invalid one.
fn thousandths(weight: &str) -> u16 {
    if weight.is_empty() {
        return 1000;
    }
    let value = weight
        .strip_prefix("q=")
        .or_else(|| weight.strip_prefix("Q="));
    let (whole, part) = value.map_or(("x", ""), |value| {
        value.split_once('.').unwrap_or((value, ""))
    });
    let is_number = part.len() <= 3 && part.bytes().all(|b| b.is_ascii_digit());
    match (whole, is_number) {
        ("1", true) => 1000,
        ("0", true) => {
            let digits = part.bytes().chain(core::iter::repeat(b'0')).take(3);
            digits.fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'))
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codings_are_accepted_in_order_of_their_weights() {
        use ContentCoding::{Brotli, Gzip, Zstd};
        let cases: [(&str, &[ContentCoding]); 17] = [
            ("gzip", &[Gzip]),
            ("deflate, gzip;q=0.5", &[Gzip]),
            ("gzip, deflate, br, zstd", &[Brotli, Zstd, Gzip]),
            ("br;q=0.2, gzip;q=0.9, zstd;q=0.901", &[Zstd, Gzip, Brotli]),
            ("br,GZIP", &[Brotli, Gzip]),
            ("*", &[Brotli, Zstd, Gzip]),
            ("gzip;q=1.0, *;q=0", &[Gzip]),
            ("br;q=0, *;q=0.1, gzip;q=0.05", &[Zstd, Gzip]),
            ("x-gzip", &[Gzip]),
            ("identity, gzip;q=0.5, br", &[Brotli]),
            ("identity;q=0, gzip;q=0.001", &[Gzip]),
            ("", &[]),
            ("gzip;q=0", &[]),
            ("gzip; q=0.000", &[]),
            ("*;q=0", &[]),
            ("gzip;q=x, zstd;q=2, br;q=0.1234", &[]),
            ("gzipped, brotli", &[]),
        ];
        for (field, expected) in cases {
            assert_eq!(accepted_codings(field), expected, "{field}");
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
        let tags = ContentCoding::ALL.map(|coding| coding.tag("\"v1\""));
        assert_eq!(tags, ["\"v1-br\"", "\"v1-zst\"", "\"v1-gz\""]);
    }
}
