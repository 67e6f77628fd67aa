//! Entity tags: making ours, and comparing with those that clients send (RFC 9110 8.8.3).

use alloc::string::String;
use core::fmt::Write as _;

use crate::fields::trim_ows;

/// What tells one version of a file from every other, as `stat` gives it on every machine that has a
/// copy with its times: a download goes on at another replica.
///
/// What only one machine knows (inode, change time) is not in it, so that a version that is put back
/// with its size and time has its tag back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FileIdentity {
    /// Size in bytes.
    pub size: u64,
    /// Last modification, in nanoseconds since 1970.
    pub mtime_ns: i64,
    /// Of a file written so recently that other bytes may yet come under the same size and time: a
    /// number that this server gives to nothing else.
    pub unsettled: Option<u64>,
}

/// The entity tag of a version of a file, in its quotes: strong, or weak as long as it is unsettled,
/// so that no ranges of two versions are joined; and then no later tag is the same.
///
/// Nothing is hashed, so two different identities never share a tag.
pub fn entity_tag(identity: &FileIdentity) -> String {
    let FileIdentity {
        size,
        mtime_ns,
        unsettled,
    } = identity;
    // In one piece: it is made for each reply.
    let mut tag = String::with_capacity(56);
    let _ = match unsettled {
        None => write!(tag, "\"{size:x}-{mtime_ns:x}\""),
        Some(number) => write!(tag, "W/\"{size:x}-{mtime_ns:x}-{number:x}\""),
    };
    tag
}

/// A tag from a request: the part in quotes, with its quotes, and whether `W/` stood before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tag<'a> {
    pub(crate) weak: bool,
    pub(crate) quoted: &'a str,
}

impl<'a> Tag<'a> {
    /// Reads the tag at the start of `text`; also gives what follows it.
    pub(crate) fn take(text: &'a str) -> Option<(Self, &'a str)> {
        let (weak, rest) = match text.strip_prefix("W/") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let inner = rest.strip_prefix('"')?;
        let length = inner.find('"')?;
        // Visible characters and anything beyond ASCII: no spaces, no control characters.
        if inner[..length].bytes().any(|b| b <= b' ' || b == 0x7f) {
            return None;
        }
        let (quoted, after) = rest.split_at(length + 2);
        Some((Self { weak, quoted }, after))
    }

    /// Reads a text that is one tag and nothing else.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let (tag, rest) = Self::take(text)?;
        rest.is_empty().then_some(tag)
    }

    /// Both strong and the same (RFC 9110 8.8.3.2). One of ours that is weak begins with `W/`, so it
    /// is nobody's.
    pub(crate) fn matches_strongly(self, ours: &str) -> bool {
        !self.weak && self.quoted == ours
    }

    /// The same but for weakness.
    pub(crate) fn matches_weakly(self, ours: &str) -> bool {
        self.quoted == ours.strip_prefix("W/").unwrap_or(ours)
    }
}

/// The value of `if-match` or `if-none-match`.
#[derive(Clone, Copy)]
pub(crate) enum TagList<'a> {
    /// `*`: any version of the file.
    Any,
    /// Tags, with whatever else stood between them.
    Tags(&'a str),
}

impl<'a> TagList<'a> {
    pub(crate) fn parse(value: &'a str) -> Self {
        match trim_ows(value) {
            "*" => Self::Any,
            list => Self::Tags(list),
        }
    }

    /// Whether any tag of the list satisfies `matches`. What is not a tag is passed over up to the
    /// next comma: a mistake in one member does not spoil the others.
    pub(crate) fn any(self, matches: impl Fn(Tag<'_>) -> bool) -> bool {
        let Self::Tags(mut rest) = self else {
            return true;
        };
        loop {
            rest = rest.trim_start_matches([' ', '\t', ',']);
            if rest.is_empty() {
                return false;
            }
            let after = match Tag::take(rest) {
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
    fn every_part_of_the_identity_changes_the_tag() {
        let base = FileIdentity {
            size: 0x2000,
            mtime_ns: -1,
            unsettled: None,
        };
        assert_eq!(entity_tag(&base), "\"2000-ffffffffffffffff\"");
        for other in [
            FileIdentity {
                size: 0x2001,
                ..base
            },
            FileIdentity {
                mtime_ns: 0x34,
                ..base
            },
            FileIdentity {
                unsettled: Some(7),
                ..base
            },
        ] {
            assert_ne!(entity_tag(&other), entity_tag(&base));
        }
        let tag = entity_tag(&base);
        assert!(Tag::parse(&tag).is_some_and(|t| t.matches_strongly(&tag)));
    }

    #[test]
    fn a_version_that_may_yet_change_matches_itself_weakly_and_nothing_that_comes_later() {
        let tag = |unsettled| {
            entity_tag(&FileIdentity {
                size: 1,
                mtime_ns: 2,
                unsettled,
            })
        };
        let early = tag(Some(7));
        let sent = Tag::parse(&early).unwrap();
        assert!(sent.matches_weakly(&early) && !sent.matches_strongly(&early));
        for later in [tag(None), tag(Some(8))] {
            assert!(!sent.matches_weakly(&later), "{later}");
        }
    }

    #[test]
    fn strong_and_weak_comparison_follow_the_table_of_the_standard() {
        // RFC 9110 8.8.3.2, table 3; ours is never weak.
        let weak = Tag::parse("W/\"1\"").unwrap();
        let strong = Tag::parse("\"1\"").unwrap();
        assert!(!weak.matches_strongly("\"1\"") && weak.matches_weakly("\"1\""));
        assert!(strong.matches_strongly("\"1\"") && strong.matches_weakly("\"1\""));
        assert!(!strong.matches_weakly("\"2\""));
    }

    #[test]
    fn what_is_not_a_tag_is_none() {
        for text in [
            "", "a", "\"a", "a\"", "w/\"a\"", "W/a", "\"a\"b", "\"a b\"", "'a'",
        ] {
            assert_eq!(Tag::parse(text), None, "{text}");
        }
        assert!(Tag::parse("\"\"").is_some());
        assert!(Tag::parse("\"é,\\\"").is_some());
    }

    #[test]
    fn lists_are_searched_past_their_mistakes() {
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
