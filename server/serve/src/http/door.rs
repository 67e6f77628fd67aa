//! Access checks of a rule: signed URLs and other gates, web tokens, auth subrequests. This module
//! extracts the inputs of each check from a request.

use std::time::Duration;

use headlong_http::{
    Asker, Gate, PathToken, Peer, Refused, RelativePath, Status, cookie_value, only_value,
    query_without,
};
use http::HeaderName;
use http::header::{COOKIE, HOST};
use http::request::Parts;

use crate::auth_subrequest::{self, Answer, AuthServer, ServerUrl};
use crate::config::{self, AuthBy, PathRule, TokenPlace};
use crate::log::RequestId;
use crate::tokens::{self, Expected, PublicKey, Secret, Trust, Uri};

/// A request for access to a file.
#[derive(Debug, Clone, Copy)]
pub struct AccessRequest<'a> {
    /// Path of the file, without the token.
    pub path: &'a RelativePath,
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
pub(super) enum Door {
    Gate(Gate),
    Jwt(Box<JwtDoor>),
    Server(AuthServer),
}

/// Why access is denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denied {
    /// The client's credentials are not sufficient.
    Status(Status),
    /// The client has to authenticate, by this challenge.
    Challenge(String),
    /// The auth server did not decide; with the reason.
    Unanswered(Status, String),
}

/// Trusted tokens, and where a request may carry one.
#[derive(Debug, Clone)]
pub(super) struct JwtDoor {
    trust: Trust,
    places: Vec<TokenPlace>,
}

impl Door {
    /// The configuration was validated; a key file that has become invalid since closes the path
    /// and is logged.
    pub(super) fn new(prefix: &str, rule: &PathRule) -> Self {
        match rule.door() {
            Ok(config::Door::Gate(gate)) => Self::Gate(gate),
            Ok(config::Door::Server(url)) => Self::Server(AuthServer::new(asking(url, rule))),
            Ok(config::Door::Jwt) => match JwtDoor::new(rule) {
                Ok(door) => Self::Jwt(Box::new(door)),
                Err(error) => {
                    tracing::error!(
                        "path.{prefix}.jwt_public_keys: {error}; path closed until a reload"
                    );
                    Self::Gate(Gate::Closed)
                }
            },
            Err(_) => Self::Gate(Gate::Closed),
        }
    }

    /// Checks access; `skew` is the tolerated clock difference in seconds.
    ///
    /// # Errors
    /// Why access is denied.
    pub(super) async fn ask(&self, asks: &AccessRequest<'_>, skew: u64) -> Result<(), Denied> {
        let answer = match self {
            Self::Gate(Gate::Open) => Ok(()),
            Self::Gate(gate) => gate.verify(&Asker {
                path: &format!("/{}", asks.path),
                query: asks.head.uri.query().unwrap_or_default(),
                path_token: asks.path_token,
                address: &asks.client.host().to_string(),
                now: asks.now,
                skew,
            }),
            Self::Jwt(door) => door.ask(asks, skew),
            Self::Server(server) => {
                return judge(server.ask(asks.head, asks.client, asks.id).await);
            }
        };
        answer.map_err(|refused| Denied::Status(refused.status()))
    }
}

fn asking(url: ServerUrl, rule: &PathRule) -> auth_subrequest::Asking {
    let fields = rule.auth_headers.iter();
    auth_subrequest::Asking {
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

fn judge(answer: Answer) -> Result<(), Denied> {
    match answer {
        Answer::Allowed => Ok(()),
        Answer::Forbidden => Err(Denied::Status(Status::Forbidden)),
        Answer::Unauthorized(challenge) => Err(Denied::Challenge(challenge)),
        Answer::Unfit(status) => {
            let what = format!("answered with status {}", status.as_u16());
            Err(Denied::Unanswered(Status::InternalError, what))
        }
        Answer::None(what) => Err(Denied::Unanswered(Status::Unavailable, what.to_owned())),
    }
}

impl JwtDoor {
    fn new(rule: &PathRule) -> Result<Self, String> {
        let public = rule
            .jwt_public_keys
            .iter()
            .map(|path| PublicKey::read(path));
        Ok(Self {
            trust: Trust {
                secrets: rule.keys.iter().map(|key| Secret::new(key)).collect(),
                public: public.collect::<Result<_, _>>()?,
                expected: Expected {
                    issuers: rule.jwt_issuers.clone(),
                    audience: rule.jwt_audience.clone(),
                },
            },
            places: rule.jwt_from.clone(),
        })
    }

    fn ask(&self, asks: &AccessRequest<'_>, skew: u64) -> Result<(), Refused> {
        let head = asks.head;
        let query = head.uri.query().unwrap_or_default();
        let token = self.token(head, query)?;
        let arguments = self.places.iter().filter_map(TokenPlace::argument);
        let query = arguments.fold(query.to_owned(), |query, name| {
            query_without(&query, name).into_owned()
        });
        let uri = Uri::new(
            host_of(head).unwrap_or_default(),
            &format!("/{}", asks.path),
            &query,
        );
        let asker = tokens::Asker {
            uri: &uri,
            address: asks.client.ip(),
            now: asks.now,
            skew,
        };
        self.trust.verify(token, &asker)
    }

    /// The token of a request, at the first place that has one.
    fn token<'a>(&self, head: &'a Parts, query: &'a str) -> Result<&'a str, Refused> {
        let field = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
        for place in &self.places {
            let token = match place {
                TokenPlace::Query(name) => only_value(query, name)?,
                TokenPlace::Header(name) => field(name).map(without_bearer),
                TokenPlace::Cookie(name) => {
                    field(COOKIE.as_str()).and_then(|cookies| cookie_value(cookies, name))
                }
            };
            if let Some(token) = token {
                return Ok(token);
            }
        }
        Err(Refused::Forbidden)
    }
}

/// A token without the scheme of `Authorization`.
fn without_bearer(value: &str) -> &str {
    match value.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
        _ => value,
    }
}

/// The host of a request; a host in the target takes precedence over the field (RFC 9112 3.2.2).
fn host_of(head: &Parts) -> Option<&str> {
    let in_target = head.uri.authority().map(|authority| authority.as_str());
    in_target.or_else(|| head.headers.get(HOST)?.to_str().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_in_target_takes_precedence_over_field() {
        let host = |target: &str| {
            let request = http::Request::get(target).header(HOST, "b").body(());
            let head = request.expect("a request").into_parts().0;
            host_of(&head).map(str::to_owned)
        };
        assert_eq!(host("http://a:80/x").as_deref(), Some("a:80"));
        assert_eq!(host("/x").as_deref(), Some("b"));
    }
}
