//! Entity tags: creation, and comparison with tags of clients (RFC 9110 8.8.3).

use alloc::string::String;
use core::fmt::Write as _;

use crate::fields::trim_ows;

/// Identity of a version of a file, from the `stat` of any machine that has a copy with its times,
/// so that a download can continue at another replica.
///
/// Machine-specific values (inode, change time) are excluded, so a version that is restored with
/// its size and time gets its old tag; unless these are not enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct VersionIdentity {
    /// Size in bytes.
    pub size: u64,
    /// Last modification since 1970, in nanoseconds or in seconds.
    pub mtime: i64,
    /// Whether other content may have the same size and time.
    pub is_weak: bool,
    /// A number that distinguishes it from other versions with the same size and time.
    pub distinction: Option<u64>,
}

/// Entity tag of a version, with quotes. A weak one keeps clients from combining ranges of two
/// versions.
///
/// Nothing is hashed, so different identities never share a tag.
pub fn entity_tag(identity: &VersionIdentity) -> String {
    let VersionIdentity { size, mtime, .. } = identity;
    // A single allocation, because this runs for each reply.
    let mut tag = String::with_capacity(56);
    if identity.is_weak {
        tag.push_str("W/");
    }
    let _ = match identity.distinction {
        None => write!(tag, "\"{size:x}-{mtime:x}\""),
        Some(number) => write!(tag, "\"{size:x}-{mtime:x}-{number:x}\""),
    };
    tag
}

/// A tag of a request: the quoted part with its quotes, and whether `W/` precedes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EntityTag<'a> {
    pub(crate) weak: bool,
    pub(crate) quoted: &'a str,
}

impl<'a> EntityTag<'a> {
    /// Parses the tag at the start of `text`; also returns the rest.
    pub(crate) fn take(text: &'a str) -> Option<(Self, &'a str)> {
        let (weak, rest) = match text.strip_prefix("W/") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let inner = rest.strip_prefix('"')?;
        let length = inner.find('"')?;
        // Visible characters and anything beyond ASCII; no spaces, no control characters.
        if inner[..length].bytes().any(|b| b <= b' ' || b == 0x7f) {
            return None;
        }
        let (quoted, after) = rest.split_at(length + 2);
        Some((Self { weak, quoted }, after))
    }

    /// Parses a text that consists of one tag.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let (tag, rest) = Self::take(text)?;
        rest.is_empty().then_some(tag)
    }

    /// Strong comparison (RFC 9110 8.8.3.2). A weak tag of ours begins with `W/`, so it equals no
    /// quoted tag.
    pub(crate) fn matches_strongly(self, ours: &str) -> bool {
        !self.weak && self.quoted == ours
    }

    /// Whether `if-match` with this tag accepts a version of ours: strong comparison; and VLC sends
    /// a weak tag without its mark, or it could not seek in a file that is new, or has no usable
    /// time.
    pub(crate) fn expects(self, ours: &str) -> bool {
        !self.weak && self.matches_weakly(ours)
    }

    /// Weak comparison.
    pub(crate) fn matches_weakly(self, ours: &str) -> bool {
        self.quoted == ours.strip_prefix("W/").unwrap_or(ours)
    }
}

/// Value of `if-match` or `if-none-match`.
#[derive(Clone, Copy)]
pub(crate) enum TagList<'a> {
    /// `*`: any version of the file.
    Any,
    /// A list of tags, unparsed.
    Tags(&'a str),
}

impl<'a> TagList<'a> {
    pub(crate) fn parse(value: &'a str) -> Self {
        match trim_ows(value) {
            "*" => Self::Any,
            list => Self::Tags(list),
        }
    }

    /// Whether any tag of the list satisfies `matches`. An invalid member is skipped up to the next
    /// comma and does not affect the others.
    pub(crate) fn any(self, matches: impl Fn(EntityTag<'_>) -> bool) -> bool {
        let Self::Tags(mut rest) = self else {
            return true;
        };
        loop {
            rest = rest.trim_start_matches([' ', '\t', ',']);
            if rest.is_empty() {
                return false;
            }
            let after = match EntityTag::take(rest) {
                Some((tag, after)) if ends_member(after) => {
                    if matches(tag) {
                        return true;
                    }
                    after
                }
                _ => rest,
            };
            rest = match after.split_once(',') {
                Some((_, next)) => next,
                None => return false,
            };
        }
    }
}

fn ends_member(after: &str) -> bool {
    let after = after.trim_start_matches([' ', '\t']);
    after.is_empty() || after.starts_with(',')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_identity_changes_tag() {
        let base = VersionIdentity {
            size: 0x2000,
            mtime: -1,
            is_weak: false,
            distinction: None,
        };
        assert_eq!(entity_tag(&base), "\"2000-ffffffffffffffff\"");
        for other in [
            VersionIdentity {
                size: 0x2001,
                ..base
            },
            VersionIdentity {
                mtime: 0x34,
                ..base
            },
            VersionIdentity {
                is_weak: true,
                ..base
            },
            VersionIdentity {
                distinction: Some(7),
                ..base
            },
        ] {
            assert_ne!(entity_tag(&other), entity_tag(&base));
        }
        let tag = entity_tag(&base);
        assert!(EntityTag::parse(&tag).is_some_and(|t| t.matches_strongly(&tag)));
    }

    #[test]
    fn unsettled_version_matches_only_itself_and_weakly() {
        let tag = |distinction: Option<u64>| {
            entity_tag(&VersionIdentity {
                size: 1,
                mtime: 2,
                is_weak: distinction.is_some(),
                distinction,
            })
        };
        let early = tag(Some(7));
        let sent = EntityTag::parse(&early).unwrap();
        assert!(sent.matches_weakly(&early) && !sent.matches_strongly(&early));
        let unmarked = EntityTag::parse("\"1-2-7\"").unwrap();
        assert!(unmarked.expects(&early) && !unmarked.matches_strongly(&early));
        assert!(!sent.expects(&early) && !unmarked.expects(&tag(Some(8))));
        for later in [tag(None), tag(Some(8))] {
            assert!(!sent.matches_weakly(&later), "{later}");
        }
    }

    #[test]
    fn strong_and_weak_comparison_follow_rfc_9110() {
        // RFC 9110 8.8.3.2, table 3; the server's tag is never weak here.
        let weak = EntityTag::parse("W/\"1\"").unwrap();
        let strong = EntityTag::parse("\"1\"").unwrap();
        assert!(!weak.matches_strongly("\"1\"") && weak.matches_weakly("\"1\""));
        assert!(strong.matches_strongly("\"1\"") && strong.matches_weakly("\"1\""));
        assert!(!strong.matches_weakly("\"2\""));
    }

    #[test]
    fn refuses_invalid_tags() {
        for text in [
            "", "a", "\"a", "a\"", "w/\"a\"", "W/a", "\"a\"b", "\"a b\"", "'a'",
        ] {
            assert_eq!(EntityTag::parse(text), None, "{text}");
        }
        assert!(EntityTag::parse("\"\"").is_some());
        assert!(EntityTag::parse("\"é,\\\"").is_some());
    }

    #[test]
    fn list_search_skips_invalid_members() {
        let finds = |list: &str| TagList::parse(list).any(|t| t.matches_strongly("\"x\""));
        for list in [
            "*",
            " * ",
            "\"x\"",
            "\"a\",\"x\"",
            "\"a\" ,\t\"x\" , ",
            ",,\"x\"",
            "oops, \"x\"",
            "\"a\" \"b\", \"x\"",
            "\"a,b\", \"x\"",
        ] {
            assert!(finds(list), "{list}");
        }
        for list in [
            "",
            "x",
            "W/\"x\"",
            "\"a\"",
            "\"x\"y",
            "\"a\" \"x\"",
            "*, \"a\"",
            "\"x",
        ] {
            assert!(!finds(list), "{list}");
        }
    }
}
