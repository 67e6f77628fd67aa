//! The next request that a player announces (CMCD `nor` and `nrr`), as a request target.
//!
//! `nor` is a reference relative to the requested object and is resolved like in a browser (RFC
//! 3986 5.2). The result is an ordinary target: it passes the same checks as a request and gives no
//! additional access. A reference that leaves the site or its root is ignored.

use alloc::string::String;
use alloc::vec::Vec;

use headlong_units::ByteRange;
use percent_encoding::percent_decode_str;

use crate::cmcd::Cmcd;

/// The announced next request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextRequest {
    /// Path of the target from the root, percent-encoded.
    pub path: String,
    /// Query of the target.
    pub query: Option<String>,
    range: Option<NextRange>,
}

/// The range in `nrr`: the value of a `Range` field without its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextRange {
    From(u64),
    FromTo(u64, u64),
    Last(u64),
}

impl NextRequest {
    /// The next request announced by a request for `path`; `None` if there is none, or none that
    /// this server could answer.
    pub fn read(said: &Cmcd, path: &str) -> Option<Self> {
        let range = said.next_range.as_deref();
        let Some(object) = said.next_object.as_deref() else {
            // Without an object it is a range of the requested one.
            return Some(Self {
                path: path.into(),
                query: None,
                range: Some(NextRange::parse(range?)?),
            });
        };
        let object = percent_decode_str(object).decode_utf8().ok()?;
        let object = object.split('#').next().unwrap_or_default();
        let (relative, query) = match object.split_once('?') {
            Some((relative, query)) => (relative, Some(query)),
            None => (object, None),
        };
        let before_slash = relative.split('/').next().unwrap_or_default();
        let is_elsewhere = relative.starts_with("//") || before_slash.contains(':');
        if relative.is_empty() || is_elsewhere {
            return None;
        }
        Some(Self {
            path: resolve(path, relative)?,
            query: query.map(String::from),
            // An invalid range must not turn into the whole object.
            range: match range {
                Some(range) => Some(NextRange::parse(range)?),
                None => None,
            },
        })
    }

    /// The announced bytes of an object of that size; `None` if it has none of them.
    pub fn range(&self, size: u64) -> Option<ByteRange> {
        let (start, end) = match self.range {
            None => (0, size),
            Some(NextRange::From(first)) => (first, size),
            Some(NextRange::FromTo(first, last)) => (first, last.saturating_add(1).min(size)),
            Some(NextRange::Last(count)) => (size.saturating_sub(count), size),
        };
        (start < end).then(|| ByteRange::new(start, end))
    }
}

impl NextRange {
    fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.split_once('-')?;
        let number = |text: &str| {
            let is_number = text.bytes().all(|b| b.is_ascii_digit());
            text.parse::<u64>().ok().filter(|_| is_number)
        };
        match (first, last) {
            ("", last) => number(last).map(Self::Last),
            (first, "") => number(first).map(Self::From),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Self::FromTo(first, last))
            }
        }
    }
}

/// Resolves a relative path from the object at `base`, removing `.` and `..`; `None` if it leaves
/// the root.
fn resolve(base: &str, relative: &str) -> Option<String> {
    let folder = match (relative.starts_with('/'), base.rsplit_once('/')) {
        (true, _) | (_, None) => "",
        (false, Some((folder, _))) => folder,
    };
    let mut segments: Vec<&str> = folder.split('/').skip(1).collect();
    for segment in relative.strip_prefix('/').unwrap_or(relative).split('/') {
        match segment {
            "." => {}
            ".." => drop(segments.pop()?),
            segment => segments.push(segment),
        }
    }
    let mut path = String::new();
    for segment in segments {
        path.push('/');
        path.push_str(segment);
    }
    (!path.is_empty()).then_some(path)
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use proptest::prelude::*;

    use super::*;
    use crate::path::RelativePath;

    fn next(said: &str) -> Option<NextRequest> {
        let mut cmcd = Cmcd::default();
        cmcd.absorb(said);
        NextRequest::read(&cmcd, "/t/1.2.x/films/a/seg-1.m4s")
    }

    fn path(said: &str) -> Option<String> {
        next(said).map(|next| next.path)
    }

    #[test]
    fn reference_is_resolved_like_in_browser() {
        for (said, expected) in [
            ("seg-2.m4s", "/t/1.2.x/films/a/seg-2.m4s"),
            (
                "..%2F300kbps%2Fsegment35.m4v",
                "/t/1.2.x/films/300kbps/segment35.m4v",
            ),
            ("./b/../seg-2.m4s", "/t/1.2.x/films/a/seg-2.m4s"),
            ("/b.mp4", "/b.mp4"),
            ("seg%25202.m4s", "/t/1.2.x/films/a/seg%202.m4s"),
            ("seg-2.m4s#t=5", "/t/1.2.x/films/a/seg-2.m4s"),
        ] {
            let found = path(&format!("nor=\"{said}\""));
            assert_eq!(found.as_deref(), Some(expected), "{said}");
        }
        let with_query = next("nor=\"b.m4s%3Ftoken%3Dx%26y\"").expect("a name");
        assert_eq!(with_query.query.as_deref(), Some("token=x&y"));
    }

    #[test]
    fn reference_outside_site_or_root_is_ignored() {
        for said in [
            "https://evil.example/a",
            "//evil.example/a",
            "javascript:a",
            "../../../../../etc/passwd",
            "..%2F..%2F..%2F..%2F..%2Fetc%2Fpasswd",
            "%ff",
            "",
            "?a",
        ] {
            assert_eq!(path(&format!("nor=\"{said}\"")), None, "{said}");
        }
        // A doubly encoded dot stays encoded, and no path has such a segment.
        let twice = path("nor=\"%252e%252e/%252e%252e/x\"").expect("a path");
        assert!(RelativePath::parse(&twice).is_err());
    }

    #[test]
    fn range_applies_to_next_object_or_to_this_one() {
        let range = |said: &str| {
            next(said)?
                .range(1000)
                .map(|range| (range.start, range.end))
        };
        assert_eq!(range("nor=\"b\",nrr=\"100-199\""), Some((100, 200)));
        assert_eq!(range("nor=\"b\",nrr=\"100-\""), Some((100, 1000)));
        assert_eq!(range("nor=\"b\",nrr=\"-100\""), Some((900, 1000)));
        assert_eq!(range("nor=\"b\",nrr=\"900-5000\""), Some((900, 1000)));
        assert_eq!(range("nor=\"b\""), Some((0, 1000)));
        let this = next("nrr=\"100-199\"").expect("a range");
        assert_eq!(this.path, "/t/1.2.x/films/a/seg-1.m4s");
        for said in [
            "nrr=\"x-1\"",
            "nrr=\"5-1\"",
            "nrr=\"+1-2\"",
            "nrr=\"-\"",
            "nrr=\"1000-\"",
        ] {
            assert_eq!(range(&format!("nor=\"b\",{said}")), None, "{said}");
        }
        assert_eq!(next("br=5"), None);
    }

    #[test]
    fn version_2_list_has_range_as_parameter() {
        let next = next("nor=(\"b.m4s\";r=\"0-99\" \"c.m4s\")").expect("a name");
        assert_eq!(next.path, "/t/1.2.x/films/a/b.m4s");
        assert_eq!(next.range(1000), Some(ByteRange::new(0, 100)));
    }

    proptest! {
        #[test]
        fn no_reference_leaves_the_root(said in "[a./%2F5e?#:\\-]{0,40}") {
            if let Some(path) = path(&format!("nor=\"{said}\"")) {
                prop_assert!(path.starts_with('/'));
                prop_assert!(!path.split('/').any(|segment| segment == ".." || segment == "."));
            }
        }
    }
}
