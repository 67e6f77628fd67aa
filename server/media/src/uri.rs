//! Resolves a URI in a manifest to a path inside the tree, or to none.
//!
//! RFC 3986 section 5, restricted to a tree of files. Every segment is percent-decoded separately,
//! so an encoded slash never becomes a separator, and dot segments are recognised after decoding,
//! as in browsers.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use headlong_units::{path_bytes, path_text};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

/// Longest path, bytes (PATH_MAX of Linux).
pub const PATH_BYTES_MAX: usize = 4096;
/// Longest name of one file, bytes (NAME_MAX of Linux).
const NAME_BYTES_MAX: usize = 255;

/// Why a URI names no file of this tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UriError {
    /// It has a scheme or a host: another server serves it.
    #[error(
        "is an absolute URL of another server (if the host is this server's, name it in `server_names`)"
    )]
    Elsewhere,
    /// Its dot segments climb above the root.
    #[error("climbs out of the tree")]
    Outside,
    /// It decodes to a name that no file can have: NUL, a slash, or too long.
    #[error("decodes to a name that no file can have")]
    Unnameable,
    /// It names a directory.
    #[error("names a directory")]
    Directory,
}

/// Resolves `reference` against `base`, both relative to the root of the tree.
///
/// `base` is a decoded path without a leading slash; the part after its last slash is replaced, as
/// in every browser. The result is decoded too, has no leading slash, and ends in a slash (or is
/// empty) when it names a directory. Query and fragment are dropped. A `base` that begins with a
/// slash and the name of a site, `/films.example/`, has its own tree below that.
pub fn resolve(base: &str, reference: &str) -> Result<String, UriError> {
    if let Some(site) = site_of(base) {
        let path = resolve(&base[site.len()..], reference)?;
        return Ok(format!("{site}{path}"));
    }
    let end = reference.find(['?', '#']).unwrap_or(reference.len());
    let reference = &reference[..end];
    if has_scheme(reference) || reference.starts_with("//") {
        return Err(UriError::Elsewhere);
    }
    if reference.is_empty() {
        return join(base.split('/').map(PathSegment::Already));
    }
    let directory = match base.rfind('/') {
        _ if reference.starts_with('/') => "",
        Some(slash) => &base[..slash],
        None => "",
    };
    let segments = directory.split('/').map(PathSegment::Already);
    join(segments.chain(reference.split('/').map(PathSegment::Not)))
}

/// The part of a path that names its site: `/films.example/`; `None` for the usual tree.
pub fn site_of(path: &str) -> Option<&str> {
    let name = path.strip_prefix('/')?;
    let end = name.find('/').filter(|end| *end > 0)?;
    Some(&path[..end + 2])
}

/// As [`resolve`], and the result must be able to name a file.
pub fn resolve_file(base: &str, reference: &str) -> Result<String, UriError> {
    let path = resolve(base, reference)?;
    if path.is_empty() || path.ends_with('/') {
        return Err(UriError::Directory);
    }
    Ok(path)
}

/// The path, from the root, of an HTTP URL whose host is one of `own_hosts`, on any port; any other
/// reference stays.
///
/// ```
/// let own = ["films.example".to_string()];
/// let path = |uri| headlong_media::without_own_host(uri, &own);
/// assert_eq!(path("https://films.example:8443/v/1.ts"), "/v/1.ts");
/// assert_eq!(path("https://cdn.example/v/1.ts"), "https://cdn.example/v/1.ts");
/// ```
pub fn without_own_host<'r>(reference: &'r str, own_hosts: &[String]) -> &'r str {
    let is_http = |scheme: &str| {
        let mut known = ["", "http:", "https:"].into_iter();
        known.any(|known| known.eq_ignore_ascii_case(scheme))
    };
    let rest = match reference.split_once("//") {
        Some((scheme, rest)) if is_http(scheme) => rest,
        _ => return reference,
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let host = authority
        .split_once(':')
        .map_or(authority, |(host, _)| host);
    match own_hosts.iter().any(|own| own.eq_ignore_ascii_case(host)) {
        true if path.starts_with('/') => path,
        true => "/",
        false => reference,
    }
}

/// The URL path of a file by its text: a leading slash, and all bytes except unreserved characters
/// and slashes percent-encoded.
pub fn encode_path(path: &str) -> String {
    const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~')
        .remove(b'/');
    format!("/{}", percent_encode(&path_bytes(path), ENCODED))
}

fn has_scheme(reference: &str) -> bool {
    let Some((scheme, _)) = reference.split_once(':') else {
        return false;
    };
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

enum PathSegment<'a> {
    Already(&'a str),
    Not(&'a str),
}

fn join<'a>(segments: impl Iterator<Item = PathSegment<'a>>) -> Result<String, UriError> {
    let mut stack: Vec<String> = Vec::new();
    let mut directory = true;
    for segment in segments {
        let name = match segment {
            PathSegment::Already(name) => String::from(name),
            PathSegment::Not(name) => decode(name),
        };
        directory = true;
        match name.as_str() {
            "" | "." => {}
            ".." => {
                stack.pop().ok_or(UriError::Outside)?;
            }
            _ if path_bytes(&name).len() > NAME_BYTES_MAX || name.contains(['/', '\0']) => {
                return Err(UriError::Unnameable);
            }
            _ => {
                directory = false;
                stack.push(name);
            }
        }
    }
    let mut path = stack.join("/");
    if directory && !path.is_empty() {
        path.push('/');
    }
    if path_bytes(&path).len() > PATH_BYTES_MAX {
        return Err(UriError::Unnameable);
    }
    Ok(path)
}

/// Percent-decodes one segment; a `%` that starts no escape stands for itself, since such names
/// occur unescaped in playlists.
fn decode(segment: &str) -> String {
    let bytes: Cow<'_, [u8]> = percent_decode_str(segment).into();
    path_text(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;

    #[test]
    fn relative_uris_start_at_the_manifest() {
        for (base, reference, path) in [
            ("a/m.m3u8", "seg1.ts", "a/seg1.ts"),
            ("a/m.m3u8", "./v/seg1.ts", "a/v/seg1.ts"),
            ("a/b/m.m3u8", "../v/seg1.ts", "a/v/seg1.ts"),
            ("a/m.m3u8", "/v/seg1.ts", "v/seg1.ts"),
            ("m.m3u8", "seg%201.ts?token=1#t", "seg 1.ts"),
            ("m.m3u8", "100%.ts", "100%.ts"),
            ("a/b/m.mpd", "%2e%2E/x.mp4", "a/x.mp4"),
            ("a//m.mpd", "b//x.mp4", "a/b/x.mp4"),
            ("a/m.mpd", "", "a/m.mpd"),
            ("a/video/", "1.m4s", "a/video/1.m4s"),
            ("a/m.mpd", "video/", "a/video/"),
            ("/s.example/a/m.mpd", "../v.mp4", "/s.example/v.mp4"),
            ("/s.example/a/m.mpd", "/v.mp4", "/s.example/v.mp4"),
            ("a/m.mpd", ".", "a/"),
            ("a/m.mpd", "..", ""),
            ("a/m.mpd", "b/c:d.ts", "a/b/c:d.ts"),
            ("ä/m.mpd", "%C3%BC.mp4", "ä/ü.mp4"),
            ("m.m3u8", "caf%E9.ts", "caf\u{efe9}.ts"),
        ] {
            assert_eq!(
                resolve(base, reference),
                Ok(path.to_string()),
                "{reference}"
            );
        }
    }

    #[test]
    fn external_uris_are_refused_with_reason() {
        for (reference, reason) in [
            ("https://cdn.example/seg1.ts", UriError::Elsewhere),
            ("//cdn.example/seg1.ts", UriError::Elsewhere),
            ("data:video/mp4;base64,AA", UriError::Elsewhere),
            ("../../seg1.ts", UriError::Outside),
            ("%2e%2e/%2e%2e/etc/passwd", UriError::Outside),
            ("a%2fb.ts", UriError::Unnameable),
            ("a%00b.ts", UriError::Unnameable),
            ("v/", UriError::Directory),
        ] {
            assert_eq!(
                resolve_file("a/m.m3u8", reference),
                Err(reason),
                "{reference}"
            );
        }
        let long = "x".repeat(256);
        assert_eq!(resolve("m", &long), Err(UriError::Unnameable));
    }

    #[test]
    fn encoded_path_resolves_to_itself() {
        let path = "a b/ü%41?#.mp4";
        assert_eq!(encode_path(path), "/a%20b/%C3%BC%2541%3F%23.mp4");
        assert_eq!(resolve("", &encode_path(path)), Ok(path.to_string()));
    }

    #[test]
    fn url_of_own_host_becomes_path_and_others_stay() {
        let own = ["films.example", "127.0.77.1"].map(str::to_string);
        for (reference, path) in [
            ("http://films.example/v/1.ts?t=1", "/v/1.ts?t=1"),
            ("HTTPS://Films.Example:444/v/", "/v/"),
            ("//films.example/1.ts", "/1.ts"),
            ("http://127.0.77.1:8080/1.ts", "/1.ts"),
            ("https://films.example", "/"),
            ("https://films.example?x=/y", "/"),
        ] {
            assert_eq!(without_own_host(reference, &own), path, "{reference}");
        }
        for other in [
            "http://films.example.evil/1.ts",
            "http://user@films.example/1.ts",
            "ftp://films.example/1.ts",
            "a//films.example/1.ts",
            "/films.example/1.ts",
            "v/1.ts",
            "",
        ] {
            assert_eq!(without_own_host(other, &own), other);
        }
    }

    fn inside(path: &str) -> bool {
        path.is_empty()
            || path
                .strip_suffix('/')
                .unwrap_or(path)
                .split('/')
                .all(|name| !["", ".", ".."].contains(&name) && !name.contains('\0'))
    }

    proptest! {
        #[test]
        fn no_uri_leaves_the_tree(
            base in "([a-z]{1,3}/){0,3}[a-z]{1,3}",
            reference in "(\\.|\\.\\.|/|%2e|%2E%2f|%5c|%00|%|a|é|:|\\?|#|[a-f0-9]){0,24}",
        ) {
            if let Ok(path) = resolve(&base, &reference) {
                prop_assert!(inside(&path), "{path}");
            }
        }

        #[test]
        fn no_text_makes_resolution_panic(base in "[^\u{0}]*", reference in ".*") {
            if let Ok(path) = resolve(&base, &reference) {
                // The slash in front of a site.
                let below = path.strip_prefix('/').filter(|_| site_of(&base).is_some());
                prop_assert!(inside(below.unwrap_or(&path)), "{path}");
            }
        }

        #[test]
        fn every_file_name_survives_encoding(names in proptest::collection::vec("[^/\u{0}]{1,8}", 1..4)) {
            let path = names.join("/");
            prop_assume!(names.iter().all(|name| name != "." && name != ".."));
            let path = path_text(path.as_bytes()).into_owned();
            prop_assert_eq!(resolve_file("x/y", &encode_path(&path)), Ok(path));
        }
    }
}
