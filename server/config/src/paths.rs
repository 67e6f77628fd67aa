//! Settings per path: access control and caching.
//!
//! As with nginx's `location` by prefix, only the table with the longest matching prefix of the
//! decoded path applies; tables are never combined.
//!
//! The same function derives the access check when a rule is checked and when it is used.

use std::collections::BTreeMap;

use headlong_http::fingerprint;
use headlong_settings::Tier::Expert;
use headlong_settings::{Document, Rows, flag, named, size, text, time, whole};
use headlong_units::Duration;

use crate::kinds::{
    asked_field, field, field_value, of_query, one_or_more_paths, origin, path, secure_link, site,
    token_place,
};
use crate::path_rule::{AccessPolicy, AuthBy, ListingFormat, Packaging, PathRule, TokenLocation};
use crate::settings::SessionKeys;

/// Settings of one path.
#[rustfmt::skip]
pub(crate) fn path_rows() -> Rows<PathRule> {
    let mut rows = Rows::<PathRule>::default();
    rows.add("alias", one_or_more_paths(), |p| &mut p.alias,
        "Folder that is served at this path, or a list of several, as nginx's `alias`: with `[path.\"/films/\"]` and `alias = \"/mnt/films\"`, `/films/a.mp4` is `/mnt/films/a.mp4`. `roots` are not searched there. Applies to everything below the path, whatever other tables there are.").restart();
    rows.add("access", named(AccessPolicy::ALL, AccessPolicy::name), |p| &mut p.access,
        "Access to the files: open to everyone, closed to all, or limited to clients with a link signed as by nginx's `secure_link`, with an HMAC-SHA256 token (`signed`), with a JSON Web Token for the URI (`jwt`, RFC 9246), or to clients that another server authorises (`auth-request`, as nginx's). An invalid token is answered with 403, an expired one with 410. See access.md.");
    rows.add("secure_link_md5", text().optional(), |p| &mut p.secure_link_md5,
        "The expression of nginx's `secure_link_md5` with its secret; `$secure_link_expires`, `$uri` and `$remote_addr` are supported. Without the first, links do not expire. This is a secret: make this file readable only by the server's user.").secret(hidden);
    rows.add("secure_link", secure_link(), |p| &mut p.secure_link,
        "nginx's `secure_link`: the query arguments that hold the MD5 and the expiry time, in seconds since 1970.");
    rows.add("keys", text().list(), |p| &mut p.keys,
        "One or two keys of HMAC-SHA256 tokens. Tokens signed with either are accepted, so that a key can be replaced while URLs signed with the old one are in use. With `jwt`, keys of HS256. These are secrets, too.").secret(hidden);
    rows.add("bind_address", flag(), |p| &mut p.bind_address,
        "Whether such a token is valid only for the client address signed in it.");
    rows.add("clock_skew", time(), |p| &mut p.clock_skew,
        "Tolerance for the expiry time of a token, if the clocks of the signer and of the server differ.").tier(Expert);
    rows.add("jwt_public_keys", path().list(), |p| &mut p.jwt_public_keys,
        "Files with public keys in PEM of the issuers of JSON Web Tokens: RSA (for RS256), P-256 (ES256) or Ed25519 (EdDSA). At most four, together with `keys`. Read at start and on SIGHUP.");
    rows.add("jwt_issuers", text().list(), |p| &mut p.jwt_issuers,
        "Accepted issuers (`iss`) of such a token; if the list is empty, any or none is accepted.");
    rows.add("jwt_audience", text().optional(), |p| &mut p.jwt_audience,
        "Required audience (`aud`) of such a token, if it has one; without this setting, tokens with an audience are refused.");
    rows.add("jwt_from", token_place().list(), |p| &mut p.jwt_from,
        "Where a request may carry such a token: `query:NAME`, `header:NAME` (with or without the prefix `Bearer`) or `cookie:NAME`. The first one present is used.");
    rows.add("auth_url", text().optional(), |p| &mut p.auth_url,
        "The server that `auth-request` queries, by a numeric address and without TLS, like `http://127.0.0.1:9000/auth`. It receives a GET with X-Original-URI, X-Original-Host, X-Original-Method, X-Real-IP and X-Request-Id. 2xx grants access, 401 (with its WWW-Authenticate) and 403 are forwarded, any other status results in 500, and no answer within `auth_timeout` in 503.");
    rows.add("auth_headers", asked_field().list(), |p| &mut p.auth_headers,
        "Request headers that are forwarded to it. A cached answer applies only to requests with the same values.");
    rows.add("auth_by", named(AuthBy::ALL, AuthBy::name).list(), |p| &mut p.auth_by,
        "Properties its answers depend on besides `auth_headers`: `uri`, with its query, and the client's `address`. Without `uri`, one positive answer grants access to everything below this path.");
    rows.add("auth_cache", time(), |p| &mut p.auth_cache,
        "How long an answer is cached; \"0s\" shares it only among concurrent requests. At most 4096 answers are kept per path.");
    rows.add("auth_timeout", time().at_least(Duration::from_millis(1)), |p| &mut p.auth_timeout,
        "Time limit for an answer.");
    rows.add("secret_arguments", of_query().list(), |p| &mut p.secret_arguments,
        "Additional query arguments whose values are written as `-` in logs. Those that hold tokens of `access` always are.").tier(Expert);
    rows.add("cache_control", field_value().optional(), |p| &mut p.cache_control,
        "The Cache-Control sent with files below this path, overriding the global one; empty for none.");
    rows.add("listing", named(ListingFormat::ALL, ListingFormat::name).optional(), |p| &mut p.listing,
        "As at the top, for this folder and those below it.");
    rows.add("package", named(Packaging::ALL, Packaging::name).optional(), |p| &mut p.package,
        "As at the top, for files below this path.");
    rows.add("headers", field().list(), |p| &mut p.headers,
        "Additional fields of replies with files below this path, like `\"X-Frame-Options: DENY\"`.");
    rows.add("expires", time().optional(), |p| &mut p.expires,
        "How long caches may keep files below this path: sent as Expires, and as `max-age` if there is no Cache-Control. As nginx's `expires`.");
    rows.add("referers", site().list(), |p| &mut p.referers,
        "Sites whose pages may use files below this path, by the Referer field: hosts, `*.example.org` for all subdomains, `none` for requests without the field and `blocked` for requests in which it was removed or masked; others receive 403. An empty list for all. As nginx's `valid_referers`.");
    rows.add("cors_origins", origin().list(), |p| &mut p.cors_origins,
        "Origins whose pages may read files below this path, overriding `cors.origins`.");
    rows.add("pace_percent", whole().optional(), |p| &mut p.pace_percent,
        "As at the top, for files below this path.");
    rows.add("pace_burst", time().optional(), |p| &mut p.pace_burst,
        "As at the top, for files below this path.");
    rows.add("bytes_per_second_max", size().optional(), |p| &mut p.bytes_per_second_max,
        "As at the top, for files below this path.");
    rows
}

/// Displayed in place of a secret: enough to see whether two servers have the same one.
fn hidden(written: &str) -> String {
    format!("not shown; SHA-256 {}", fingerprint(written))
}

/// Session ids, which appear in logs, that are configured at the same place as a token.
fn sessions_that_are_secrets(
    rule: &PathRule,
    session: &SessionKeys,
) -> Vec<(&'static str, &'static str)> {
    let is = |name: &Option<String>, place: fn(String) -> TokenLocation| {
        let place = name.clone().map(place);
        place.is_some_and(|place| {
            let written = place.to_string();
            let mut tokens = rule.jwt_from.iter().map(TokenLocation::to_string);
            rule.access == AccessPolicy::Jwt
                && tokens.any(|token| token.eq_ignore_ascii_case(&written))
        })
    };
    let query = session.query.as_deref();
    let found = [
        (
            query.is_some_and(|name| rule.is_secret(name)),
            "argument",
            "session.query",
        ),
        (
            is(&session.header, TokenLocation::Header),
            "header",
            "session.header",
        ),
        (
            is(&session.cookie, TokenLocation::Cookie),
            "cookie",
            "session.cookie",
        ),
    ];
    let found = found.into_iter().filter(|(is_same, _, _)| *is_same);
    found.map(|(_, place, setting)| (place, setting)).collect()
}

/// Logged request fields in which clients of a path send credentials.
fn logged_secrets<'a>(
    rule: &'a PathRule,
    logged: &'a [String],
) -> impl Iterator<Item = &'a String> {
    logged.iter().filter(|name| {
        let is_it = |field: &str| field.eq_ignore_ascii_case(name);
        let mut places = rule.jwt_from.iter();
        let holds_token =
            places.any(|place| matches!(place, TokenLocation::Header(of) if is_it(of)));
        match rule.access {
            AccessPolicy::Jwt => holds_token,
            AccessPolicy::AuthRequest => rule.auth_headers.iter().any(|of| is_it(of)),
            _ => false,
        }
    })
}

/// Reads the rules below a table, such as every `[path."PREFIX"]`, and reports their mistakes.
pub(crate) fn read_rules(
    document: &mut Document,
    above: &str,
    session: &SessionKeys,
    logged: &[String],
) -> BTreeMap<String, PathRule> {
    let mut rules = BTreeMap::new();
    for prefix in document.children(above) {
        let table = format!("{above}.{prefix}");
        let mut rule = PathRule::default();
        path_rows().read(document, &table, &mut rule);
        if !prefix.starts_with('/') || prefix.contains("//") || prefix.contains('%') {
            let text = "is not a path; write it decoded and from the root, like \"/films/\"";
            document.wrong(&table, text);
        }
        for (setting, text) in rule.mistakes() {
            document.wrong_too(&format!("{table}.{setting}"), text);
        }
        for name in logged_secrets(&rule, logged) {
            let text =
                format!("{name} holds tokens of [{table}], so logs would show them; remove it");
            document.wrong_too("log.headers", text);
        }
        for (place, setting) in sessions_that_are_secrets(&rule, session) {
            let text = format!(
                "is the {place} of tokens of [{table}], so logs would show them; use another"
            );
            document.wrong_too(setting, text);
        }
        let is_folder = prefix.len() > 1 && prefix.ends_with('/');
        if !rule.alias.is_empty() && !is_folder {
            let text =
                "needs a prefix with a slash at its end, like \"/films/\"; for `/` use roots";
            document.wrong_too(&format!("{table}.alias"), text);
        }
        rules.insert(prefix, rule);
    }
    rules
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::{Config, Flags};

    #[test]
    fn reports_all_mistakes_in_path_rules_without_secrets() {
        let text = "roots = [\"/srv\"]\n[session]\nquery = \"Token\"\ncookie = \"sid\"\n\
            [path.films]\n[path.\"/a/\"]\naccess = \"signed\"\nkeys = [\"tooshort\"]\n\
            [path.\"/b/\"]\naccess = \"secure-link\"\nsecure_link_md5 = \"$arg_x$uri hush\"\n\
            [path.\"/c/\"]\naccess = \"signed\"\nkeys = [\"0123456789abcdef\"]\n\
            [path.\"/d/\"]\naccess = \"jwt\"\nkeys = [\"0123456789abcdef\"]\njwt_from = [\"cookie:sid\"]\n\
            [path.\"/e/\"]\naccess = \"jwt\"\n\
            [path.\"/f/\"]\naccess = \"auth-request\"\nauth_headers = [\"Host\"]\n\
            [path.\"/g/\"]\naccess = \"auth-request\"\nauth_url = \"https://auth.example/\"\n";
        let wrong = Config::from_text(Path::new("x.toml"), text, &Flags::default());
        let wrong = wrong.expect_err("ten mistakes").to_string();
        for said in [
            "path.films",
            "path./a/.keys",
            "path./b/.secure_link_md5",
            "path./d/.keys",
            "path./e/.jwt_public_keys",
            "path./f/.auth_headers",
            "path./f/.auth_url",
            "path./g/.auth_url",
            "session.query",
            "session.cookie",
        ] {
            assert!(wrong.contains(said), "{said} in {wrong}");
        }
        assert!(
            !wrong.contains("tooshort") && !wrong.contains("hush"),
            "{wrong}"
        );
    }

    #[test]
    fn rejects_missing_secrets_and_too_many_keys() {
        let keys = |count: u32| {
            let keys: Vec<String> = (0..count).map(|n| format!("{n:032}")).collect();
            format!("keys = {keys:?}\n")
        };
        let cases = [
            ("signed", String::new(), "must hold a key"),
            ("signed", keys(3), "holds more than two keys"),
            ("secure-link", String::new(), "secure_link_md5: must be set"),
            ("jwt", keys(5), "makes more than four keys"),
            ("auth-request", String::new(), "auth_url: must be set"),
        ];
        for (access, rest, said) in cases {
            let text = format!("roots = [\"/srv\"]\n[path.\"/a/\"]\naccess = \"{access}\"\n{rest}");
            let wrong = Config::from_text(Path::new("x.toml"), &text, &Flags::default());
            let wrong = wrong.expect_err(access).to_string();
            assert!(wrong.contains(said), "{said} in {wrong}");
        }
    }

    #[test]
    fn rejects_secret_that_access_does_not_use() {
        let key = "0123456789abcdef";
        let rules = [
            (
                "secure_link_md5 = \"$secure_link_expires$uri hush\"",
                "secure-link",
            ),
            (&format!("keys = [\"{key}\"]") as &str, "signed"),
            ("jwt_public_keys = [\"a.pem\"]", "jwt"),
            ("auth_url = \"http://127.0.0.1:9/\"", "auth-request"),
            ("bind_address = true", "signed"),
        ];
        for (rule, kind) in rules {
            let text =
                |access: &str| format!("roots = [\"/srv\"]\n[path.\"/a/\"]\n{access}{rule}\n");
            let read = |text: &str| Config::from_text(Path::new("x.toml"), text, &Flags::default());
            for access in ["", "access = \"open\"\n"] {
                let wrong = read(&text(access)).expect_err(rule).to_string();
                let (setting, _) = rule.split_once(' ').expect("a setting");
                assert!(wrong.contains(&format!("path./a/.{setting}")), "{wrong}");
                assert!(wrong.contains(&format!("access = \"{kind}\"")), "{wrong}");
                assert!(!wrong.contains("hush") && !wrong.contains(key), "{wrong}");
            }
            read(&text("access = \"closed\"\n")).expect("a closed path is valid");
        }
    }

    #[test]
    fn reports_every_setting_that_access_does_not_use() {
        let text = "roots = [\"/srv\"]\n[path.\"/a/\"]\naccess = \"open\"\n\
            secure_link_md5 = \"$uri hush\"\nkeys = [\"0123456789abcdef\"]\n\
            auth_url = \"http://127.0.0.1:9/\"\njwt_issuers = [\"x\"]\njwt_audience = \"y\"\n";
        let wrong = Config::from_text(Path::new("x.toml"), text, &Flags::default());
        let wrong = wrong.expect_err("five mistakes");
        let keys: Vec<&str> = wrong.iter().map(|mistake| mistake.key.as_str()).collect();
        let names = [
            "secure_link_md5",
            "keys",
            "auth_url",
            "jwt_issuers",
            "jwt_audience",
        ];
        assert_eq!(keys, names.map(|name| format!("path./a/.{name}")));
    }

    #[test]
    fn header_with_credentials_is_not_logged() {
        let of = |logged: &str, rule: &str| {
            let text =
                format!("roots = [\"/srv\"]\nlog.headers = [\"{logged}\"]\n[path.\"/a/\"]\n{rule}");
            Config::from_text(Path::new("x.toml"), &text, &Flags::default())
        };
        let jwt = "access = \"jwt\"\nkeys = [\"0123456789abcdef0123456789abcdef\"]\n\
            jwt_from = [\"header:X-Ticket\"]\n";
        let auth = "access = \"auth-request\"\nauth_url = \"http://127.0.0.1:9/\"\n\
            auth_headers = [\"X-Api-Key\"]\n";
        for (logged, rule) in [("cookie", ""), ("X-ticket", jwt), ("x-api-key", auth)] {
            let wrong = of(logged, rule).expect_err(logged).to_string();
            assert!(wrong.contains("x.toml:2: log.headers: "), "{wrong}");
        }
        of("Host", jwt).expect("valid");
    }

    #[test]
    fn unusable_public_keys_are_reported_at_load() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("other.pem"), "x").expect("a file");
        let text = "[path.\"/a/\"]\naccess = \"jwt\"\njwt_public_keys = [\"missing.pem\", \"other.pem\"]\n";
        std::fs::write(path("h.toml"), text).expect("a file");
        let flags = Flags {
            roots: vec![folder.path().into()],
            memory: Some("8MiB".into()),
            ..Flags::default()
        };
        let wrong = Config::load(Some(&path("h.toml")), &flags).expect_err("two mistakes");
        let lines: Vec<String> = wrong.iter().map(ToString::to_string).collect();
        assert_eq!(lines.len(), 2, "{wrong}");
        assert!(
            lines[0].contains("h.toml:3: path./a/.jwt_public_keys: "),
            "{wrong}"
        );
        assert!(lines[0].contains("missing.pem cannot be read"), "{wrong}");
        assert!(
            lines[1].contains("other.pem contains no public key in PEM"),
            "{wrong}"
        );
    }

    #[test]
    fn shown_settings_have_fingerprints_instead_of_secrets() {
        let shown = |secret: &str| {
            let text = format!(
                "roots = [\"/srv\"]\n[path.\"/a/\"]\naccess = \"signed\"\nkeys = [\"{secret}\"]\n\
                 [path.\"/b/\"]\naccess = \"secure-link\"\nsecure_link_md5 = \"$uri {secret}\"\n"
            );
            let config = Config::from_text(Path::new("x.toml"), &text, &Flags::default());
            config.expect("right").show()
        };
        let (one, other) = (shown("0123456789abcdef"), shown("0123456789abcdee"));
        assert!(!one.contains("0123"), "{one}");
        assert_eq!(
            one.matches("# keys is not shown; SHA-256 ").count(),
            1,
            "{one}"
        );
        assert_eq!(
            one.matches("# secure_link_md5 is not shown").count(),
            1,
            "{one}"
        );
        assert_ne!(one, other);
        assert_eq!(one, shown("0123456789abcdef"));
    }

    #[test]
    fn rejects_invalid_or_reserved_fields_by_name() {
        let wrong = [
            ("headers", "[\"Content-Length: 3\"]"),
            (
                "headers",
                "[\"Access-Control-Allow-Origin: https://a.example\"]",
            ),
            ("headers", "[\"no colon\"]"),
            ("headers", "[\"X-A: a\\r\\nX-B: b\"]"),
            ("referers", "[\"https://example.org\"]"),
            ("cors_origins", "[\"example.org\"]"),
            ("expires", "\"soon\""),
        ];
        for (name, value) in wrong {
            let text = format!("roots = [\"/srv\"]\n[path.\"/a/\"]\n{name} = {value}\n");
            let wrong = Config::from_text(Path::new("x.toml"), &text, &Flags::default());
            let wrong = wrong.expect_err(value).to_string();
            assert!(
                wrong.contains(&format!("path./a/.{name}")),
                "{value}: {wrong}"
            );
        }
    }
}
