//! CORS policies of the configuration: that of all files, and those of rules.

use headlong_http::CorsPolicy;
use headlong_settings::Document;

use crate::path_rule::{AccessPolicy, PathRule, TokenLocation};
use crate::settings::Config;

/// How long a browser may cache the answer to a preflight request. Browsers themselves limit it to
/// two hours or a day.
const PREFLIGHT_SECONDS: u64 = 24 * 3600;

/// Request headers that the checks of a rule read. Cookies are not sent as a header of a script.
fn headers_of(rule: &PathRule) -> Vec<String> {
    let header = |place: &TokenLocation| match place {
        TokenLocation::Header(name) => Some(name.clone()),
        TokenLocation::Query(_) | TokenLocation::Cookie(_) => None,
    };
    match rule.access {
        AccessPolicy::Jwt => rule.jwt_from.iter().filter_map(header).collect(),
        AccessPolicy::AuthRequest => {
            let names = rule.auth_headers.iter();
            let names = names.filter(|name| !name.eq_ignore_ascii_case("cookie"));
            names.cloned().collect()
        }
        _ => Vec::new(),
    }
}

impl Config {
    /// The policy of files without a rule.
    pub fn cors_policy(&self) -> CorsPolicy {
        self.policy(&self.cors.origins, Vec::new())
    }

    /// The policy of a rule, if it differs from that of other files.
    pub fn cors_of(&self, rule: &PathRule) -> Option<CorsPolicy> {
        let headers = headers_of(rule);
        if rule.cors_origins.is_empty() && headers.is_empty() {
            return None;
        }
        let origins = match rule.cors_origins.is_empty() {
            true => &self.cors.origins,
            false => &rule.cors_origins,
        };
        Some(self.policy(origins, headers))
    }

    fn policy(&self, origins: &[String], of_rule: Vec<String>) -> CorsPolicy {
        let mut headers: Vec<String> = Vec::new();
        let all = self.cors.headers.iter().chain(&self.session.header);
        for name in all.chain(&of_rule) {
            if !headers.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                headers.push(name.clone());
            }
        }
        // The configuration was checked with the same function, so this cannot fail.
        let none = |_| CorsPolicy::new(&[], &[], 0);
        let policy = CorsPolicy::new(origins, &headers, PREFLIGHT_SECONDS).or_else(none);
        let policy =
            policy.unwrap_or_else(|_| unreachable!("an empty policy has nothing wrong in it"));
        match self.cors.credentials {
            true => policy.with_credentials(),
            false => policy,
        }
    }
}

/// Reports lists of origins with which browsers send no cookies.
pub(crate) fn contradictions(document: &mut Document, config: &Config) {
    let is_any = |origins: &[String]| origins.iter().any(|origin| origin == "*");
    if !config.cors.credentials {
        return;
    }
    let remedy = "name the origins, like \"https://player.example\"";
    if is_any(&config.cors.origins) {
        let text =
            format!("needs a list of origins, as browsers send no cookies for \"*\"; {remedy}");
        document.wrong_too("cors.credentials", text);
    }
    for (table, rule) in config.rules() {
        if is_any(&rule.cors_origins) {
            let text = format!(
                "is \"*\", for which browsers send no cookies, but cors.credentials is set; {remedy}"
            );
            document.wrong_too(&format!("{table}.cors_origins"), text);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{Flags, Mistakes};

    fn load(text: &str) -> Result<Config, Mistakes> {
        Config::from_text(Path::new("/etc/h.toml"), text, &Flags::default())
    }

    fn allowed(policy: &CorsPolicy, name: &str) -> usize {
        let reply = policy.options_reply(Some("https://p.example"), Some("GET"));
        let names = reply.field("access-control-allow-headers");
        let names = names.expect("a preflight").split(", ");
        names.filter(|one| one.eq_ignore_ascii_case(name)).count()
    }

    #[test]
    fn preflight_names_headers_that_checks_of_the_path_read() {
        let config = load(
            "roots = [\"/srv\"]\n[session]\nheader = \"X-Session\"\n[cors]\n\
             origins = [\"https://p.example\"]\nheaders = [\"authorization\"]\n\
             [path.\"/jwt/\"]\naccess = \"jwt\"\njwt_public_keys = [\"k\"]\n\
             jwt_from = [\"cookie:C\", \"header:X-Token\"]\n\
             [path.\"/auth/\"]\naccess = \"auth-request\"\nauth_url = \"http://127.0.0.1:9/\"\n\
             [path.\"/open/\"]\njwt_from = [\"header:X-Unused\"]\n",
        );
        let config = config.expect("valid");
        let rule = |prefix: &str| config.cors_of(&config.path[prefix]);
        let jwt = rule("/jwt/").expect("its own");
        assert_eq!((allowed(&jwt, "X-Token"), allowed(&jwt, "C")), (1, 0));
        assert_eq!(allowed(&jwt, "X-Session"), 1);
        let auth = rule("/auth/").expect("its own");
        assert_eq!(allowed(&auth, "Authorization"), 1, "once");
        assert_eq!(allowed(&auth, "Cookie"), 0);
        assert_eq!(rule("/open/"), None);
        let other = config.cors_policy();
        assert_eq!(
            (allowed(&other, "X-Session"), allowed(&other, "X-Token")),
            (1, 0)
        );
    }

    #[test]
    fn credentials_need_listed_origins() {
        let with = |origins: &str, of_path: &str| {
            load(&format!(
                "roots = [\"/srv\"]\n[cors]\n{origins}credentials = true\n\
                 [path.\"/a/\"]\ncors_origins = [{of_path}]\n"
            ))
        };
        let listed = "origins = [\"https://p.example\"]\n";
        let config = with(listed, "\"https://q.example\"").expect("valid");
        let fields = config.cors_policy().reply_fields(Some("https://p.example"));
        assert!(fields.contains(&("access-control-allow-credentials", "true".into())));
        let wrong = with("", "\"*\"").expect_err("two mistakes").to_string();
        assert!(wrong.contains("cors.credentials: needs a list"), "{wrong}");
        assert!(wrong.contains("path./a/.cors_origins: is \"*\""), "{wrong}");
    }
}
