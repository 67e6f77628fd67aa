//! Access rules of paths: which rule applies to a file, and what it decides.
//!
//! Invariants: a rule is chosen by the path that the file is looked up by, decoded once, so that no
//! spelling of a URL bypasses it; rules are checked before any disk access; tokens, as a rule
//! defines them, do not appear in any log, whichever path they were sent to.

use std::borrow::Cow;

use headlong_http::{
    CorsPolicy, HttpDate, Pace, PathError, PathToken, RefererRule, Status, UrlVerifier,
    is_same_argument, mask,
};
use headlong_library::composed;
use headlong_telemetry::RequestRecord;
use headlong_units::path_text;
use http::header::{CACHE_CONTROL, EXPIRES, Entry};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::access_check::{AccessCheck, AccessDenial, AccessRequest};
use super::site::TreePath;
use headlong_config::{Config, ListingFormat, Pacing, Packaging, PathRule, site_prefix};

/// A rule of a path.
#[derive(Debug, Clone)]
struct PathAccessRule {
    /// In the tree of all sites.
    prefix: String,
    /// The prefix in composed form.
    composed: String,
    door: AccessCheck,
    /// Arguments whose values are masked in logs.
    secret_arguments: Vec<String>,
    skew_seconds: u64,
    cache_control: Option<String>,
    pace: Pace,
    fields: Vec<(HeaderName, HeaderValue)>,
    expires: Option<u64>,
    referers: RefererRule,
    cors: Option<CorsPolicy>,
    listing: Option<ListingFormat>,
    package: Option<Packaging>,
}

/// All rules, the longest prefix first.
#[derive(Debug, Clone)]
pub struct AccessRules {
    rules: Vec<PathAccessRule>,
    /// Listings of folders without a rule.
    listing: ListingFormat,
    /// Packaging of files without a rule.
    package: Packaging,
    /// Pacing of files without a rule.
    pace: Pace,
    /// Token arguments of all rules.
    token_arguments: Vec<String>,
}

/// Parses a header field of the configuration, which was validated there.
fn field(text: &str) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = text.split_once(':')?;
    let name = HeaderName::try_from(name).ok()?;
    Some((name, HeaderValue::try_from(value.trim()).ok()?))
}

fn pace(pacing: Pacing) -> Pace {
    Pace {
        percent: pacing.pace_percent,
        burst: pacing.pace_burst,
        bytes_per_second_max: pacing.bytes_per_second_max,
    }
}

impl PathAccessRule {
    fn new(prefix: String, rule: &PathRule, config: &Config) -> Self {
        let pacing = config.pacing;
        Self {
            door: AccessCheck::new(&format!("/{prefix}"), rule),
            composed: composed(&prefix).into_owned(),
            prefix,
            secret_arguments: rule.all_secret_arguments(),
            skew_seconds: rule.clock_skew.0 / 1_000_000_000,
            cache_control: rule.cache_control.clone(),
            fields: rule.headers.iter().filter_map(|text| field(text)).collect(),
            expires: rule.expires.map(|time| time.0 / 1_000_000_000),
            referers: RefererRule::new(&rule.referers),
            listing: rule.listing,
            package: rule.package,
            cors: config.cors_of(rule),
            pace: pace(Pacing {
                pace_percent: rule.pace_percent.unwrap_or(pacing.pace_percent),
                pace_burst: rule.pace_burst.unwrap_or(pacing.pace_burst),
                bytes_per_second_max: rule
                    .bytes_per_second_max
                    .unwrap_or(pacing.bytes_per_second_max),
                ..pacing
            }),
        }
    }
}

impl AccessRules {
    /// Creates the rules from the configuration's tables and its defaults for all other files.
    pub fn new(config: &Config) -> Self {
        let mut rules = Vec::new();
        let of_sites = config.site.iter();
        let of_sites = of_sites.map(|(name, site)| (site_prefix(name), &site.path));
        for (site, paths) in std::iter::once((String::new(), &config.path)).chain(of_sites) {
            rules.extend(paths.iter().map(|(prefix, rule)| {
                let below = prefix.strip_prefix('/').unwrap_or(prefix);
                let below = path_text(below.as_bytes());
                PathAccessRule::new(format!("{site}{below}"), rule, config)
            }));
        }
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.prefix.len()));
        let all = config.rules();
        Self {
            rules,
            listing: config.listing,
            package: config.package,
            pace: pace(config.pacing),
            token_arguments: all.flat_map(|(_, rule)| rule.token_arguments()).collect(),
        }
    }

    /// CORS policy for a file; `of_all` if no rule sets one.
    pub fn cors<'a>(&'a self, path: &str, of_all: &'a CorsPolicy) -> &'a CorsPolicy {
        let rule = self.rule(path);
        rule.and_then(|rule| rule.cors.as_ref()).unwrap_or(of_all)
    }

    /// Parses a request target into the file's path, below the prefix of its site, and the token in
    /// front of it. A token that no rule would check is treated as part of the path: an auth server
    /// that receives the path as written would otherwise judge another file. Folders that are not
    /// listed have no path.
    pub fn read_path<'a>(
        &self,
        site: &str,
        written: &'a str,
    ) -> (Option<PathToken<'a>>, Result<TreePath, PathError>) {
        let (token, behind) = PathToken::split(written);
        let path = self.parse(site, behind);
        match &path {
            Ok(file) if token.is_some() && !self.takes_path_token(file.as_str()) => {
                (None, self.parse(site, written))
            }
            _ => (token, path),
        }
    }

    fn parse(&self, site: &str, written: &str) -> Result<TreePath, PathError> {
        let path = TreePath::parse(site, written)?;
        match path.is_folder() && self.listing(path.as_str()) == ListingFormat::Off {
            true => Err(PathError::Directory),
            false => Ok(path),
        }
    }

    /// Form of the listing of a folder, whose path ends in a slash; for a file, that of its folder.
    pub fn listing(&self, path: &str) -> ListingFormat {
        let rule = self.rule(path);
        rule.and_then(|rule| rule.listing).unwrap_or(self.listing)
    }

    /// Whether playlists and segments are made from an MP4 file.
    pub fn packages(&self, path: &str) -> bool {
        let rule = self.rule(path);
        let of_rule = rule.and_then(|rule| rule.package);
        of_rule.unwrap_or(self.package) == Packaging::On
    }

    /// Whether the same rule, or none, applies to two files.
    pub fn have_same_rule(&self, path: &str, other: &str) -> bool {
        match (self.rule(path), self.rule(other)) {
            (Some(rule), Some(other)) => std::ptr::eq(rule, other),
            (rule, other) => rule.is_none() && other.is_none(),
        }
    }

    /// Whether a listing of a folder may name an entry, both by their paths. A client that may list
    /// the folder must be served the entry: it has the same rule, or one that is open to all, and a
    /// folder is listed itself.
    pub fn may_be_named(&self, folder: &str, entry: &str) -> bool {
        let (of_folder, of_entry) = (self.rule(folder), self.rule(entry));
        let is_open = |rule: &PathAccessRule| {
            matches!(rule.door, AccessCheck::Gate(UrlVerifier::Open)) && rule.referers.is_open()
        };
        let may_be_read = match (of_folder, of_entry) {
            (Some(folder), Some(entry)) => std::ptr::eq(folder, entry) || is_open(entry),
            (None, Some(entry)) => is_open(entry),
            (_, None) => true,
        };
        may_be_read && (!entry.ends_with('/') || self.listing(entry) != ListingFormat::Off)
    }

    /// Whether a path token may open the file, or is not needed. A playlist opened by a token may
    /// refer to files that need none.
    fn takes_path_token(&self, path: &str) -> bool {
        let door = self.rule(path).map(|rule| &rule.door);
        matches!(
            door,
            None | Some(AccessCheck::Gate(
                UrlVerifier::Open | UrlVerifier::SignedUrl(_)
            ))
        )
    }

    /// Checks whether the referring page may use a file.
    ///
    /// # Errors
    /// The status of the refusal.
    pub fn check_referer(&self, path: &str, referer: Option<&[u8]>) -> Result<(), Status> {
        match self.rule(path) {
            Some(rule) if !rule.referers.allows(referer) => Err(Status::Forbidden),
            _ => Ok(()),
        }
    }

    /// Adds the header fields of the file's rule to a reply.
    pub fn add_fields(&self, path: &str, now: u64, headers: &mut HeaderMap) {
        let Some(rule) = self.rule(path) else {
            return;
        };
        for (name, value) in &rule.fields {
            match name == CACHE_CONTROL {
                // Two fields would be combined into one.
                true => headers.insert(name.clone(), value.clone()).is_some(),
                false => headers.append(name.clone(), value.clone()),
            };
        }
        let Some(seconds) = rule.expires else {
            return;
        };
        let end = i64::try_from(now.saturating_add(seconds)).ok();
        let date = end.and_then(HttpDate::from_unix_seconds);
        if let Some(date) = date.and_then(|date| HeaderValue::try_from(date.to_string()).ok()) {
            headers.insert(EXPIRES, date);
        }
        if let Entry::Vacant(cache_control) = headers.entry(CACHE_CONTROL)
            && let Ok(value) = HeaderValue::try_from(format!("max-age={seconds}"))
        {
            cache_control.insert(value);
        }
    }

    /// Pacing of replies for a file.
    pub fn pace(&self, path: &str) -> Pace {
        self.rule(path).map_or(self.pace, |rule| rule.pace)
    }

    /// Whether every client gets the file at full speed, with header fields that do not change over
    /// time.
    pub fn is_open(&self, path: &str) -> bool {
        let Some(rule) = self.rule(path) else {
            return self.pace.is_none();
        };
        let is_open =
            matches!(rule.door, AccessCheck::Gate(UrlVerifier::Open)) && rule.referers.is_open();
        is_open && rule.expires.is_none() && rule.pace.is_none()
    }

    fn rule(&self, path: &str) -> Option<&PathAccessRule> {
        // The other normal form of a name leads to the same file.
        let composed = composed(path);
        // A rule for all paths of other hosts is none for those of a site.
        let is_of = |rule: &&PathAccessRule| {
            let is_same = rule.prefix.starts_with('/') == path.starts_with('/');
            is_same && (path.starts_with(&rule.prefix) || composed.starts_with(&rule.composed))
        };
        self.rules.iter().find(is_of)
    }

    /// Checks access to the file.
    ///
    /// # Errors
    /// Why access is denied.
    pub async fn check(&self, asks: &AccessRequest<'_>) -> Result<(), AccessDenial> {
        match self.rule(asks.path.as_str()) {
            None => Ok(()),
            Some(rule) => rule.door.ask(asks, rule.skew_seconds).await,
        }
    }

    /// Whether an argument, as written, belongs to a token.
    pub fn is_of_token(&self, argument: &str) -> bool {
        let mut names = self.token_arguments.iter();
        names.any(|name| is_same_argument(argument, name))
    }

    /// Whether the file's rule uses an auth subrequest.
    pub fn uses_auth_server(&self, path: &str) -> bool {
        let door = self.rule(path).map(|rule| &rule.door);
        matches!(door, Some(AccessCheck::Server(_)))
    }

    /// `Cache-Control` of a file: that of its rule, or else `of_all`.
    pub fn cache_control<'a>(&'a self, path: &str, of_all: Option<&'a str>) -> Option<&'a str> {
        match self
            .rule(path)
            .and_then(|rule| rule.cache_control.as_deref())
        {
            None => of_all,
            Some("") => None,
            of_rule => of_rule,
        }
    }

    /// Masks tokens in a record before it is logged. The referrer may be a playlist that was
    /// requested with a token.
    pub fn spare(&self, record: &mut RequestRecord) {
        if self.rules.is_empty() {
            return;
        }
        let referer = record.referer.iter_mut();
        for text in referer.chain([&mut record.target]) {
            *text = self.masked(text).into_owned();
        }
    }

    /// A target or referrer with masked tokens, for logs.
    fn masked<'a>(&self, target: &'a str) -> Cow<'a, str> {
        mask(target, |name| {
            let mut secrets = self.rules.iter().flat_map(|rule| &rule.secret_arguments);
            secrets.any(|secret| is_same_argument(name, secret))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, SocketAddr};
    use std::path::Path;

    use headlong_http::Peer;
    use http::request::Parts;

    use super::*;
    use headlong_config::Flags;

    const RULES: &str = r#"
roots = ["/srv"]
[path."/"]
cache_control = "no-store"
[path."/films/"]
access = "secure-link"
secure_link_md5 = "$secure_link_expires$uri$remote_addr secret"
secure_link = "$arg_st,$arg_expires"
clock_skew = "5s"
[path."/films/v1.0/"]
pace_percent = 125
access = "closed"
cache_control = ""
[path."/signed/"]
access = "signed"
keys = ["0123456789abcdef0123456789abcdef"]
[path."/asked/"]
access = "auth-request"
auth_url = "http://127.0.0.1:9000/auth"
[path."/café/"]
access = "closed"
[path."/web/"]
access = "jwt"
keys = ["0123456789abcdef0123456789abcdef"]
"#;

    fn rules() -> AccessRules {
        let config = Config::from_text(Path::new("/x.toml"), RULES, &Flags::default());
        let config = config.expect("right");
        AccessRules::new(&config)
    }

    fn head(query: &str) -> Parts {
        let request = http::Request::get(format!("/x?{query}")).body(());
        request.expect("a request").into_parts().0
    }

    fn at(address: impl Into<IpAddr>) -> Peer {
        Peer::At(SocketAddr::new(address.into(), 9))
    }

    static ID: headlong_telemetry::RequestId = headlong_telemetry::RequestId::own(1);

    fn access_request<'a>(path: &'a TreePath, head: &'a Parts) -> AccessRequest<'a> {
        AccessRequest {
            path,
            path_token: None,
            head,
            client: at(Ipv4Addr::LOCALHOST),
            now: 1,
            id: &ID,
        }
    }

    #[tokio::test]
    async fn rule_applies_to_both_normal_forms_of_its_prefix() {
        let rules = rules();
        for target in ["/caf%C3%A9/a.mp4", "/cafe%CC%81/a.mp4"] {
            let path = TreePath::parse("", target).expect("a path");
            let answer = rules.check(&access_request(&path, &head(""))).await;
            assert!(answer.is_err(), "{target}");
        }
    }

    #[tokio::test]
    async fn longest_prefix_applies_to_every_spelling_of_path() {
        let rules = rules();
        let ask = async |target| {
            let path = TreePath::parse("", target).expect("a path");
            rules.check(&access_request(&path, &head(""))).await
        };
        assert_eq!(ask("/trailers/a.mp4").await, Ok(()));
        for target in ["/films/a.mp4", "//films//a.mp4", "/f%69lms/a.mp4"] {
            let forbidden = Err(AccessDenial::Status(Status::Forbidden));
            assert_eq!(ask(target).await, forbidden, "{target}");
        }
        assert_eq!(rules.cache_control("a.mp4", None), Some("no-store"));
        assert_eq!(rules.cache_control("films/v1.0/a", Some("x")), None);
        assert_eq!(rules.cache_control("films/a", Some("x")), Some("x"));
        assert_eq!(rules.pace("films/v1.0/a").percent, 125);
        assert_eq!(rules.pace("films/a").percent, 0);
    }

    #[tokio::test]
    async fn rules_of_a_site_and_of_other_hosts_are_separate() {
        let text = "roots = [\"/srv\"]\n[path.\"/\"]\naccess = \"closed\"\n\
                    cache_control = \"no-store\"\n\
                    [site.\"a.example\"]\nroots = [\"/a\"]\n\
                    [site.\"b.example\"]\nroots = [\"/b\"]\n\
                    [site.\"b.example\".path.\"/x/\"]\naccess = \"closed\"\n";
        let config = Config::from_text(Path::new("/x.toml"), text, &Flags::default());
        let rules = AccessRules::new(&config.expect("right"));
        let ask = async |site, target| {
            let path = TreePath::parse(site, target).expect("a path");
            rules.check(&access_request(&path, &head(""))).await
        };
        let closed = Err(AccessDenial::Status(Status::Forbidden));
        for (site, target, expected) in [
            ("", "/x/m.mp4", closed.clone()),
            ("", "/b.example/m.mp4", closed.clone()),
            ("/a.example/", "/x/m.mp4", Ok(())),
            ("/b.example/", "/x/m.mp4", closed),
            ("/b.example/", "/y/m.mp4", Ok(())),
        ] {
            assert_eq!(ask(site, target).await, expected, "{site}{target}");
        }
        assert_eq!(rules.cache_control("m.mp4", None), Some("no-store"));
        assert_eq!(rules.cache_control("/a.example/m.mp4", None), None);
    }

    #[test]
    fn path_token_is_recognised_only_where_it_can_apply() {
        let rules = rules();
        let name = format!("1.0.{}", "x".repeat(43));
        for (path, is_token) in [
            ("signed/a.ts", true),
            ("trailers/a.ts", true),
            ("films/a.ts", false),
            ("films/v1.0/a.ts", false),
            ("asked/a.ts", false),
            ("web/a.ts", false),
        ] {
            let written = format!("/t/{name}/{path}");
            let (token, file) = rules.read_path("", &written);
            assert_eq!(token.is_some(), is_token, "{path}");
            let expected = match is_token {
                true => path,
                false => &written[1..],
            };
            assert_eq!(file.expect("a path").as_str(), expected);
        }
    }

    #[test]
    fn listing_names_only_entries_that_its_reader_is_served() {
        let text = "roots = [\"/srv\"]\nlisting = \"html\"\n[path.\"/films/\"]\n\
                    access = \"closed\"\n[path.\"/films/free/\"]\nlisting = \"json\"\n\
                    [path.\"/quiet/\"]\nlisting = \"off\"\n";
        let config = Config::from_text(Path::new("/x.toml"), text, &Flags::default());
        let config = config.expect("right");
        let rules = AccessRules::new(&config);
        for (folder, entry, expected) in [
            ("", "a.mp4", true),
            ("", "shows/", true),
            ("", "films/", false),
            ("", "quiet/", false),
            ("", "quiet", true),
            ("films/", "films/a.mp4", true),
            ("films/", "films/free/", true),
            ("films/free/", "films/free/a.mp4", true),
        ] {
            assert_eq!(rules.may_be_named(folder, entry), expected, "{entry}");
        }
        assert_eq!(rules.listing("films/free/"), ListingFormat::Json);
        let path = |target| rules.read_path("", target).1;
        assert_eq!(path("/shows/").expect("listed").as_str(), "shows/");
        assert_eq!(path("/quiet/"), Err(PathError::Directory));
    }

    #[test]
    fn cache_control_of_rule_replaces_default() {
        let text = "roots = [\"/srv\"]\n[path.\"/\"]\nexpires = \"1h\"\n\
                    headers = [\"Cache-Control: no-cache\", \"Link: <a>\", \"Link: <b>\"]\n";
        let config = Config::from_text(Path::new("/x.toml"), text, &Flags::default());
        let config = config.expect("right");
        let rules = AccessRules::new(&config);
        let mut headers = HeaderMap::new();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
        rules.add_fields("a.mp4", 0, &mut headers);
        let all = |name| headers.get_all(name).iter().collect::<Vec<_>>();
        assert_eq!(all("cache-control"), ["no-cache"]);
        assert_eq!(all("link"), ["<a>", "<b>"]);
    }

    #[tokio::test]
    async fn nginx_secure_link_is_valid_until_expiry_plus_skew() {
        let rules = rules();
        // printf '2000000000/films/a b.mp4127.0.0.1 secret' | openssl md5 -binary | ...
        let head = head("st=MBOeFJ0i-v6ENsNql4ADNQ&expires=2000000000");
        let path = TreePath::parse("", "/films/a%20b.mp4").expect("a path");
        let client = at(Ipv4Addr::LOCALHOST.to_ipv6_mapped());
        let ask = async |now| {
            let asks = AccessRequest {
                client,
                now,
                ..access_request(&path, &head)
            };
            rules.check(&asks).await
        };
        assert_eq!(ask(2_000_000_005).await, Ok(()));
        let gone = Err(AccessDenial::Status(Status::Gone));
        assert_eq!(ask(2_000_000_006).await, gone);
        let masked = rules.masked("/x?ST=abc&a=1");
        assert_eq!(masked, "/x?ST=-&a=1");
    }
}
