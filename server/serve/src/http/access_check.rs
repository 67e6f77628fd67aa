//! Access checks of a rule: signed URLs and other gates, web tokens, auth subrequests. This module
//! extracts the inputs of each check from a request.

use std::time::Duration;

use headlong_access::auth_subrequest::{self, AuthDecision, AuthServer, ServerUrl};
use headlong_access::tokens::{self, ExpectedClaims, PublicKey, SharedSecret, TokenVerifier, Uri};
use headlong_http::{
    AccessRefusal, Credentials, PathToken, Peer, Status, UrlVerifier, cookie_value, only_value,
    query_without,
};
use headlong_telemetry::RequestId;
use http::HeaderName;
use http::header::COOKIE;
use http::request::Parts;

use super::host::requested_host;
use super::site::TreePath;
use headlong_config::{AuthBy, PathRule, TokenLocation};

/// A request for access to a file.
#[derive(Debug, Clone, Copy)]
pub struct AccessRequest<'a> {
    /// Path of the file, without the token.
    pub path: &'a TreePath,
    /// Token in front of the path.
    pub path_token: Option<PathToken<'a>>,
    /// Head of the request.
    pub head: &'a Parts,
    /// The client.
    pub client: Peer,
    /// Seconds since 1970.
    pub now: u64,
    /// Request id.
    pub id: &'a RequestId,
}

/// The access check of a rule.
#[derive(Debug, Clone)]
pub(super) enum AccessCheck {
    Gate(UrlVerifier),
    Jwt(Box<JwtCheck>),
    Server(AuthServer),
}

/// Why access is denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessDenial {
    /// The client's credentials are not sufficient.
    Status(Status),
    /// The client has to authenticate, by this challenge.
    Challenge(String),
    /// The auth server did not decide; with the reason.
    Unanswered(Status, String),
}

/// Trusted tokens, and where a request may carry one.
#[derive(Debug, Clone)]
pub(super) struct JwtCheck {
    trust: TokenVerifier,
    places: Vec<TokenLocation>,
}

impl AccessCheck {
    /// The configuration was validated; a key file that has become invalid since closes the path
    /// and is logged.
    pub(super) fn new(prefix: &str, rule: &PathRule) -> Self {
        match rule.door() {
            Ok(headlong_config::AccessCheckRule::Gate(gate)) => Self::Gate(gate),
            Ok(headlong_config::AccessCheckRule::Server(url)) => {
                Self::Server(AuthServer::new(asking(url, rule)))
            }
            Ok(headlong_config::AccessCheckRule::Jwt) => match JwtCheck::new(rule) {
                Ok(door) => Self::Jwt(Box::new(door)),
                Err(error) => {
                    tracing::error!(
                        "path.{prefix}.jwt_public_keys: {error}; path closed until a reload"
                    );
                    Self::Gate(UrlVerifier::Closed)
                }
            },
            Err(_) => Self::Gate(UrlVerifier::Closed),
        }
    }

    /// Checks access; `skew` is the tolerated clock difference in seconds.
    ///
    /// # Errors
    /// Why access is denied.
    pub(super) async fn ask(
        &self,
        asks: &AccessRequest<'_>,
        skew: u64,
    ) -> Result<(), AccessDenial> {
        let answer = match self {
            Self::Gate(UrlVerifier::Open) => Ok(()),
            Self::Gate(gate) => gate.verify(&Credentials {
                path: &format!("/{}", asks.path.below_site()),
                query: asks.head.uri.query().unwrap_or_default(),
                path_token: asks.path_token,
                address: &asks.client.host().to_string(),
                now: asks.now,
                skew,
            }),
            Self::Jwt(door) => door.ask(asks, skew),
            Self::Server(server) => {
                return judge(server.decide(asks.head, asks.client, asks.id).await);
            }
        };
        answer.map_err(|refused| AccessDenial::Status(refused.status()))
    }
}

fn asking(url: ServerUrl, rule: &PathRule) -> auth_subrequest::AuthSubrequestConfig {
    let fields = rule.auth_headers.iter();
    auth_subrequest::AuthSubrequestConfig {
        url,
        fields: fields
            .filter_map(|name| HeaderName::try_from(name).ok())
            .collect(),
        by_uri: rule.auth_by.contains(&AuthBy::Uri),
        by_address: rule.auth_by.contains(&AuthBy::Address),
        keep: Duration::from_nanos(rule.auth_cache.0),
        patience: Duration::from_nanos(rule.auth_timeout.0),
    }
}

fn judge(answer: AuthDecision) -> Result<(), AccessDenial> {
    match answer {
        AuthDecision::Allowed => Ok(()),
        AuthDecision::Forbidden => Err(AccessDenial::Status(Status::Forbidden)),
        AuthDecision::Unauthorized(challenge) => Err(AccessDenial::Challenge(challenge)),
        AuthDecision::Unfit(status) => {
            let what = format!("answered with status {}", status.as_u16());
            Err(AccessDenial::Unanswered(Status::InternalError, what))
        }
        AuthDecision::None(what) => Err(AccessDenial::Unanswered(
            Status::Unavailable,
            what.to_owned(),
        )),
    }
}

impl JwtCheck {
    fn new(rule: &PathRule) -> Result<Self, String> {
        let public = rule
            .jwt_public_keys
            .iter()
            .map(|path| PublicKey::read(path));
        Ok(Self {
            trust: TokenVerifier {
                secrets: rule.keys.iter().map(|key| SharedSecret::new(key)).collect(),
                public: public.collect::<Result<_, _>>()?,
                expected: ExpectedClaims {
                    issuers: rule.jwt_issuers.clone(),
                    audience: rule.jwt_audience.clone(),
                },
            },
            places: rule.jwt_from.clone(),
        })
    }

    fn ask(&self, asks: &AccessRequest<'_>, skew: u64) -> Result<(), AccessRefusal> {
        let head = asks.head;
        let query = head.uri.query().unwrap_or_default();
        let token = self.token(head, query)?;
        let arguments = self.places.iter().filter_map(TokenLocation::argument);
        let query = arguments.fold(query.to_owned(), |query, name| {
            query_without(&query, name).into_owned()
        });
        let uri = Uri::new(
            requested_host(head).unwrap_or_default(),
            &format!("/{}", asks.path.below_site()),
            &query,
        );
        let asker = tokens::TokenRequest {
            uri: &uri,
            address: asks.client.ip(),
            now: asks.now,
            skew,
        };
        self.trust.verify(token, &asker)
    }

    /// The token of a request, at the first place that has one.
    fn token<'a>(&self, head: &'a Parts, query: &'a str) -> Result<&'a str, AccessRefusal> {
        let field = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
        for place in &self.places {
            let token = match place {
                TokenLocation::Query(name) => only_value(query, name)?,
                TokenLocation::Header(name) => field(name).map(without_bearer),
                TokenLocation::Cookie(name) => {
                    field(COOKIE.as_str()).and_then(|cookies| cookie_value(cookies, name))
                }
            };
            if let Some(token) = token {
                return Ok(token);
            }
        }
        Err(AccessRefusal::Forbidden)
    }
}

/// A token without the scheme of `Authorization`.
fn without_bearer(value: &str) -> &str {
    match value.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
        _ => value,
    }
}
