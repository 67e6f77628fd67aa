//! Cross-origin access (Fetch standard): which origins may read replies.
//!
//! An origin may read either everything or nothing, so one fixed list of fields suffices. Cookies
//! are only accepted from listed origins: for `*` browsers refuse them.
//!
//! Invariant: if any origin is listed, every reply has `vary: origin`, even without an origin in the
//! request; otherwise a shared cache would apply one origin's permission to another.

use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use crate::fields::{FieldList, is_token};
use crate::reply::{PlannedBody, ReplyPlan};
use crate::status::{Method, Status};

/// Request fields of players that require a preflight.
const ALLOW_HEADERS: &str = "Range, If-Range, If-None-Match, If-Modified-Since, Cache-Control, \
     CMCD-Object, CMCD-Request, CMCD-Session, CMCD-Status, X-Playback-Session-Id";

/// Reply fields exposed to scripts, in addition to those that are always readable.
const EXPOSE_HEADERS: &str = "Content-Length, Content-Range, Accept-Ranges, ETag, Date, Server-Timing, CMSD-Static, CMSD-Dynamic";

/// Allowed origins.
#[derive(Debug, Clone, PartialEq, Eq)]
enum OriginRule {
    /// Any origin; replies are equal for all, so caches need not distinguish them.
    Any,
    /// Listed origins, in the form `scheme://host[:port]`.
    Only(Vec<String>),
}

/// CORS policy of a listener or path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorsPolicy {
    origins: OriginRule,
    allow_headers: String,
    allow_credentials: bool,
    max_age_seconds: u64,
}

impl CorsPolicy {
    /// A policy for `origins` (`*` means any) that also allows the request fields `extra_headers`,
    /// and lets browsers cache a preflight for `max_age_seconds`.
    ///
    /// # Errors
    /// All invalid entries of the two lists, in order.
    pub fn new(
        origins: &[String],
        extra_headers: &[String],
        max_age_seconds: u64,
    ) -> Result<Self, Vec<CorsError>> {
        let wrong_origins = origins
            .iter()
            .filter(|origin| *origin != "*" && !is_origin(origin))
            .map(|origin| CorsError::Origin(origin.clone()));
        let wrong_headers = extra_headers
            .iter()
            .filter(|name| !is_token(name))
            .map(|name| CorsError::Header(name.clone()));
        let errors: Vec<CorsError> = wrong_origins.chain(wrong_headers).collect();
        if !errors.is_empty() {
            return Err(errors);
        }
        let mut allow_headers = String::from(ALLOW_HEADERS);
        for name in extra_headers {
            allow_headers.push_str(", ");
            allow_headers.push_str(name);
        }
        let any = origins.iter().any(|origin| origin == "*");
        Ok(Self {
            origins: if any {
                OriginRule::Any
            } else {
                OriginRule::Only(origins.to_vec())
            },
            allow_headers,
            allow_credentials: false,
            max_age_seconds,
        })
    }

    /// The same policy, whose listed origins may send cookies and read the replies.
    #[must_use]
    pub fn with_credentials(self) -> Self {
        Self {
            allow_credentials: self.origins != OriginRule::Any,
            ..self
        }
    }

    /// The fields of every reply to `origin` (the value of that field), errors included: a player
    /// that cannot read the status of an error mistakes it for a network failure.
    pub fn reply_fields(&self, origin: Option<&str>) -> FieldList {
        let mut fields = self.permission(origin);
        if self.allows(origin) {
            fields.push((
                "access-control-expose-headers",
                Cow::Borrowed(EXPOSE_HEADERS),
            ));
        }
        fields
    }

    /// The reply to OPTIONS: the allowed methods and, for a preflight (it has an `origin` and an
    /// `access-control-request-method`), the permission.
    pub fn options_reply(
        &self,
        origin: Option<&str>,
        access_control_request_method: Option<&str>,
    ) -> ReplyPlan {
        let mut fields: FieldList = vec![("allow", Cow::Borrowed(Method::ALLOWED))];
        fields.extend(self.permission(origin));
        let is_preflight = origin.is_some() && access_control_request_method.is_some();
        if is_preflight && self.allows(origin) {
            let allow_headers = Cow::Owned(self.allow_headers.clone());
            let max_age = Cow::Owned(self.max_age_seconds.to_string());
            fields.extend([
                (
                    "access-control-allow-methods",
                    Cow::Borrowed(Method::ALLOWED),
                ),
                ("access-control-allow-headers", allow_headers),
                ("access-control-max-age", max_age),
            ]);
        }
        ReplyPlan {
            status: Status::NoContent,
            fields,
            body: PlannedBody::default(),
        }
    }

    fn allows(&self, origin: Option<&str>) -> bool {
        match &self.origins {
            OriginRule::Any => true,
            OriginRule::Only(origins) => {
                origin.is_some_and(|origin| origins.iter().any(|o| o.eq_ignore_ascii_case(origin)))
            }
        }
    }

    fn permission(&self, origin: Option<&str>) -> FieldList {
        let mut fields = FieldList::new();
        let allowed = match &self.origins {
            OriginRule::Any => Some(Cow::Borrowed("*")),
            // All replies are equal.
            OriginRule::Only(origins) if origins.is_empty() => None,
            OriginRule::Only(_) => {
                fields.push(("vary", Cow::Borrowed("origin")));
                let listed = origin.filter(|_| self.allows(origin));
                listed.map(|origin| Cow::Owned(String::from(origin)))
            }
        };
        if let Some(allowed) = allowed {
            fields.push(("access-control-allow-origin", allowed.clone()));
            fields.push(("timing-allow-origin", allowed));
            if self.allow_credentials {
                fields.push(("access-control-allow-credentials", Cow::Borrowed("true")));
            }
        }
        fields
    }
}

/// Whether `text` has the form of an origin: scheme, host, optional port, no path.
fn is_origin(text: &str) -> bool {
    let Some((scheme, authority)) = text.split_once("://") else {
        return false;
    };
    let is_scheme_byte = |b: u8| b.is_ascii_alphanumeric() || b"+-.".contains(&b);
    let is_authority_byte = |b: u8| b.is_ascii_alphanumeric() || b"-._~[]:".contains(&b);
    !scheme.is_empty()
        && scheme.bytes().all(is_scheme_byte)
        && !authority.is_empty()
        && authority.bytes().all(is_authority_byte)
}

/// An invalid entry in the configuration of a [`CorsPolicy`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CorsError {
    /// Not an origin.
    #[error(
        "`{0}` is not an origin; write * or one like https://tv.example.org (scheme, host and optional \
         port; no path, no trailing slash)"
    )]
    Origin(String),
    /// Not a field name.
    #[error("`{0}` is not the name of a header field; write one like X-Player-Version")]
    Header(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(origins: &[&str]) -> CorsPolicy {
        let origins: Vec<String> = origins.iter().map(ToString::to_string).collect();
        CorsPolicy::new(&origins, &["X-Token".to_string()], 600).unwrap()
    }

    fn field<'a>(fields: &'a FieldList, name: &str) -> Option<&'a str> {
        fields.iter().find(|(n, _)| *n == name).map(|(_, v)| &**v)
    }

    #[test]
    fn wildcard_allows_every_origin_without_vary() {
        let fields = policy(&["*"]).reply_fields(None);
        assert_eq!(field(&fields, "access-control-allow-origin"), Some("*"));
        assert_eq!(field(&fields, "timing-allow-origin"), Some("*"));
        assert_eq!(field(&fields, "vary"), None);
        let exposed = field(&fields, "access-control-expose-headers").unwrap();
        assert!(exposed.contains("Content-Range") && exposed.contains("Server-Timing"));
    }

    #[test]
    fn replies_that_no_origin_may_read_do_not_vary() {
        let policy = CorsPolicy::new(&[], &[], 1).expect("valid");
        for origin in [None, Some("https://a.example")] {
            assert_eq!(policy.reply_fields(origin), [], "{origin:?}");
        }
    }

    #[test]
    fn only_listed_origins_are_allowed_and_replies_vary() {
        let policy = policy(&["https://a.example", "http://b.example:8080"]);
        let fields = policy.reply_fields(Some("http://b.example:8080"));
        let allowed = field(&fields, "access-control-allow-origin");
        assert_eq!(allowed, Some("http://b.example:8080"));
        assert_eq!(field(&fields, "vary"), Some("origin"));
        for origin in [
            None,
            Some("https://a.example.evil"),
            Some("http://a.example"),
            Some("null"),
            Some(""),
        ] {
            let fields = policy.reply_fields(origin);
            assert_eq!(fields, [("vary", Cow::Borrowed("origin"))], "{origin:?}");
        }
    }

    #[test]
    fn preflight_reply_has_methods_headers_and_max_age() {
        let reply = policy(&["*"]).options_reply(Some("https://x.example"), Some("GET"));
        assert_eq!(reply.status, Status::NoContent);
        assert_eq!(reply.field("access-control-max-age"), Some("600"));
        let methods = reply.field("access-control-allow-methods");
        assert_eq!(methods, Some("GET, HEAD, OPTIONS"));
        let headers = reply.field("access-control-allow-headers").unwrap();
        for name in ["Range", "If-Range", "CMCD-Session", "X-Token"] {
            assert!(headers.split(", ").any(|h| h == name), "{name}");
        }
        assert_eq!(reply.body.length(), 0);
    }

    #[test]
    fn preflight_of_unlisted_origin_gets_no_permission() {
        let reply = policy(&["https://a.example"]).options_reply(Some("https://b"), Some("GET"));
        assert_eq!(reply.status, Status::NoContent);
        assert_eq!(reply.field("access-control-allow-methods"), None);
        assert_eq!(reply.field("access-control-allow-origin"), None);
        assert_eq!(reply.field("vary"), Some("origin"));
    }

    #[test]
    fn only_listed_origins_may_send_credentials() {
        let listed = policy(&["https://a.example"]).with_credentials();
        let name = "access-control-allow-credentials";
        let fields = listed.reply_fields(Some("https://a.example"));
        assert_eq!(field(&fields, name), Some("true"));
        let allowed = field(&fields, "access-control-allow-origin");
        assert_eq!(allowed, Some("https://a.example"));
        assert_eq!(field(&fields, "vary"), Some("origin"));
        let preflight = listed.options_reply(Some("https://a.example"), Some("GET"));
        assert_eq!(preflight.field(name), Some("true"));
        for origin in [None, Some("https://b.example")] {
            assert_eq!(field(&listed.reply_fields(origin), name), None);
            let preflight = listed.options_reply(origin, Some("GET"));
            assert_eq!(preflight.field(name), None);
        }
        let all = policy(&["*"]).with_credentials();
        let fields = all.reply_fields(Some("https://a.example"));
        assert_eq!(field(&fields, name), None);
        let without = policy(&["https://a.example"]);
        let fields = without.reply_fields(Some("https://a.example"));
        assert_eq!(field(&fields, name), None);
    }

    #[test]
    fn plain_options_reply_has_allow() {
        let reply = policy(&["*"]).options_reply(None, None);
        assert_eq!(reply.field("allow"), Some("GET, HEAD, OPTIONS"));
        assert_eq!(reply.field("access-control-max-age"), None);
    }

    #[test]
    fn all_invalid_entries_are_reported() {
        let origins = ["https://a.example/", "example.org", "*", "https://ok"];
        let origins: Vec<String> = origins.iter().map(ToString::to_string).collect();
        let headers = ["X Bad".to_string(), String::new()];
        let errors = CorsPolicy::new(&origins, &headers, 0).unwrap_err();
        assert_eq!(errors.len(), 4);
        assert!(errors[0].to_string().contains("`https://a.example/`"));
        assert!(errors[2].to_string().contains("`X Bad`"));
    }
}
