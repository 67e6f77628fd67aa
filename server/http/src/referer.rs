//! Restricts which sites' pages may use a file, by the `Referer` field.
//!
//! This does not stop clients that write their own requests; it prevents other sites' pages from
//! using the server, like nginx's `valid_referers`.

use alloc::string::String;
use alloc::vec::Vec;

/// The allowed sites.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RefererRule {
    /// Host names, `*.example.org` for subdomains, and the keywords `none` and `blocked`.
    sites: Vec<String>,
}

impl RefererRule {
    /// Keyword for requests without a referrer.
    pub const NONE: &'static str = "none";
    /// Keyword for requests whose field was masked by a proxy or firewall: it is not a `http://` or
    /// `https://` URL.
    pub const BLOCKED: &'static str = "blocked";

    /// Allows pages of these sites, or of all sites if the list is empty.
    pub fn new(sites: &[String]) -> Self {
        Self {
            sites: sites.to_vec(),
        }
    }

    /// Whether all sites are allowed.
    pub fn is_open(&self) -> bool {
        self.sites.is_empty()
    }

    /// Whether a request with this field is allowed.
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

/// The host of a URL, if it has one.
fn host_of(address: &str) -> Option<&str> {
    let (_, rest) = address.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    if authority.contains('\\') {
        // Browsers and other parsers interpret a backslash differently.
        return None;
    }
    // Everything before `@` is a user name.
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
    fn allows_only_pages_of_listed_sites() {
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
    fn masked_field_is_allowed_only_with_blocked() {
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
    fn missing_field_is_allowed_only_with_none() {
        for nothing in [None, Some(&b""[..])] {
            assert!(!rule(&["example.org"]).allows(nothing));
            assert!(rule(&["none", "example.org"]).allows(nothing));
            assert!(rule(&[]).allows(nothing));
        }
        assert!(!rule(&["none"]).allows(Some(b"https://none/")));
    }
}
