//! Which sites' pages may use a file, by the field `Referer`.
//!
//! No protection against those who write their own requests; it keeps other sites' pages from using
//! the server, as nginx's `valid_referers` does.

use alloc::string::String;
use alloc::vec::Vec;

/// The sites whose pages may.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RefererRule {
    /// Names of hosts, `*.example.org` for those below one, and the words `none` and `blocked`.
    sites: Vec<String>,
}

impl RefererRule {
    /// The word for requests that name no page.
    pub const NONE: &'static str = "none";
    /// The word for requests whose field a proxy or a firewall has blotted out: it names no page by
    /// `http://` or `https://`.
    pub const BLOCKED: &'static str = "blocked";

    /// Pages of these sites; with an empty list, of all.
    pub fn new(sites: &[String]) -> Self {
        Self {
            sites: sites.to_vec(),
        }
    }

    /// Whether the pages of all sites may.
    pub fn is_open(&self) -> bool {
        self.sites.is_empty()
    }

    /// Whether a request with this field may have what it asks for.
    pub fn allows(&self, referer: Option<&[u8]>) -> bool {
        if self.is_open() {
            return true;
        }
        let Some(referer) = referer.filter(|referer| !referer.is_empty()) else {
            return self.has(Self::NONE) || (referer.is_some() && self.has(Self::BLOCKED));
        };
        if !has_scheme(referer) {
            return self.has(Self::BLOCKED);
        }
        let host = core::str::from_utf8(referer).ok().and_then(host_of);
        host.is_some_and(|host| self.sites.iter().any(|site| is_of(site, host)))
    }

    fn has(&self, word: &str) -> bool {
        self.sites.iter().any(|site| site == word)
    }
}

fn has_scheme(referer: &[u8]) -> bool {
    let begins = |scheme: &[u8]| {
        let first = referer.get(..scheme.len());
        first.is_some_and(|first| first.eq_ignore_ascii_case(scheme))
    };
    begins(b"http://") || begins(b"https://")
}

/// The host of an address of a page; `None` if it has none.
fn host_of(address: &str) -> Option<&str> {
    let (_, rest) = address.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    if authority.contains('\\') {
        // Browsers and others read it differently.
        return None;
    }
    // What comes before is a name of a user, whatever it looks like.
    let host = authority.rsplit('@').next()?;
    let host = match host.strip_prefix('[') {
        Some(address) => address.split(']').next()?,
        None => host.split(':').next()?,
    };
    Some(host.trim_end_matches('.')).filter(|host| !host.is_empty())
}

fn is_word(site: &str) -> bool {
    [RefererRule::NONE, RefererRule::BLOCKED].contains(&site)
}

fn is_of(site: &str, host: &str) -> bool {
    match site.strip_prefix("*.") {
        None => !is_word(site) && host.eq_ignore_ascii_case(site),
        Some(parent) => {
            let cut = host.len().checked_sub(parent.len());
            let parts = cut.and_then(|cut| host.split_at_checked(cut));
            parts.is_some_and(|(below, end)| {
                end.eq_ignore_ascii_case(parent) && below.len() > 1 && below.ends_with('.')
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(sites: &[&str]) -> RefererRule {
        let sites: Vec<String> = sites.iter().map(|site| String::from(*site)).collect();
        RefererRule::new(&sites)
    }

    #[test]
    fn pages_of_listed_sites_may_and_no_others() {
        let rule = rule(&["example.org", "*.tv.example"]);
        for good in [
            "https://example.org/",
            "http://EXAMPLE.org:8080/a?b",
            "https://example.org.",
            "https://a.tv.example/x",
            "https://a.b.TV.example",
        ] {
            assert!(rule.allows(Some(good.as_bytes())), "{good}");
        }
        for bad in [
            "https://example.org.evil/",
            "https://evil/example.org/",
            "https://evil/?https://example.org/",
            "https://example.org@evil/",
            "https://example.org\\@evil/..",
            "https://notexample.org/",
            "https://tv.example/",
            "https://.tv.example/",
            "https://eviltv.example/",
            "example.org",
            "none",
            "https://none/",
            "https:///",
            "\u{e9}",
        ] {
            assert!(!rule.allows(Some(bad.as_bytes())), "{bad}");
        }
        assert!(!rule.allows(Some(&[0xff, 0xfe])));
    }

    #[test]
    fn a_field_that_was_blotted_out_may_only_if_that_is_said() {
        for blotted in ["", "-", "XXXX", "example.org", "ftp://example.org/"] {
            let referer = Some(blotted.as_bytes());
            assert!(!rule(&["example.org"]).allows(referer), "{blotted}");
            assert!(
                rule(&["blocked", "example.org"]).allows(referer),
                "{blotted}"
            );
        }
        assert!(!rule(&["blocked"]).allows(Some(b"https://blocked/")));
        assert!(!rule(&["blocked"]).allows(None));
    }

    #[test]
    fn who_names_no_page_may_only_if_that_is_said() {
        for nothing in [None, Some(&b""[..])] {
            assert!(!rule(&["example.org"]).allows(nothing));
            assert!(rule(&["none", "example.org"]).allows(nothing));
            assert!(rule(&[]).allows(nothing));
        }
        assert!(!rule(&["none"]).allows(Some(b"https://none/")));
    }
}
