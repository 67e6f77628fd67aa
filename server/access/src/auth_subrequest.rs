//! Authorization subrequests: asks another server whether a request may have its file, like nginx's
//! `auth_request`.
//!
//! An answer is cached by a key of the request properties that the operator configured. Concurrent
//! requests with the same key share one subrequest, and later ones its answer.
//!
//! Invariants: waiting is bounded by the configured timeout; concurrent subrequests and cached
//! answers are limited; a key is stored as its SHA-256; failures are not cached. Host names are not
//! resolved, because DNS look-ups may hang and cannot be cancelled.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use headlong_http::Peer;
use http::header::{HOST, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderName, Request, Response, StatusCode, Uri};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use ring::digest::{Context, SHA256};
use tokio::net::TcpStream;
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::{Instant, timeout};

use headlong_telemetry::{REQUEST_ID, RequestId, TRACEPARENT};

/// Concurrent subrequests to one server.
const AT_ONCE_MAX: usize = 64;
/// Cached answers of one server.
const ANSWERS_MAX: usize = 4096;
/// Longest head of an answer.
const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// URL of an authorization server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerUrl {
    address: SocketAddr,
    uri: Uri,
}

impl ServerUrl {
    /// Parses `http://ADDRESS:PORT/PATH`.
    ///
    /// # Errors
    /// The expected form.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let form = "write an address like http://127.0.0.1:9000/auth; for names and https use a \
                    proxy on this machine";
        let uri: Uri = text.parse().map_err(|_| form)?;
        let authority = uri.authority().ok_or(form)?;
        let host = match authority.host() {
            "localhost" => "127.0.0.1",
            host => host.trim_matches(['[', ']']),
        };
        let ip: IpAddr = host.parse().map_err(|_| form)?;
        if uri.scheme_str() != Some("http") || authority.as_str().contains('@') {
            return Err(form);
        }
        let address = SocketAddr::new(ip, authority.port_u16().unwrap_or(80));
        Ok(Self { address, uri })
    }
}

/// Configuration of subrequests.
#[derive(Debug, Clone)]
pub struct AuthSubrequestConfig {
    /// The authentication server.
    pub url: ServerUrl,
    /// Fields of the client's request that are forwarded, and part of the key.
    pub fields: Vec<HeaderName>,
    /// Whether answers depend on the URI.
    pub by_uri: bool,
    /// Whether answers depend on the client's address.
    pub by_address: bool,
    /// Lifetime of a cached answer.
    pub keep: Duration,
    /// Timeout of a subrequest.
    pub patience: Duration,
}

/// Result of a subrequest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthDecision {
    /// 2xx.
    Allowed,
    /// 401, with the challenge for the client.
    Unauthorized(String),
    /// 403.
    Forbidden,
    /// Another status.
    Unfit(StatusCode),
    /// No answer in time, or a connection error; with the reason.
    None(&'static str),
}

impl AuthDecision {
    fn of(response: &Response<hyper::body::Incoming>) -> Self {
        match response.status() {
            status if status.is_success() => Self::Allowed,
            // A 401 requires a challenge (RFC 9110 15.5.2), and an invented one would make browsers
            // prompt for a password that does not exist.
            StatusCode::UNAUTHORIZED => match challenge_of(response) {
                Some(challenge) => Self::Unauthorized(challenge.to_owned()),
                None => Self::Forbidden,
            },
            StatusCode::FORBIDDEN => Self::Forbidden,
            status => Self::Unfit(status),
        }
    }

    fn is_failure(&self) -> bool {
        matches!(self, Self::Unfit(_) | Self::None(_))
    }
}

fn challenge_of(response: &Response<hyper::body::Incoming>) -> Option<&str> {
    response.headers().get(WWW_AUTHENTICATE)?.to_str().ok()
}

type DecisionKey = [u8; 32];
/// An answer, or the slot of a pending one.
type DecisionSlot = Arc<OnceCell<(AuthDecision, Instant)>>;

/// An authorization server. Clones share all state.
#[derive(Clone)]
pub struct AuthServer(Arc<AuthServerState>);

struct AuthServerState {
    asking: AuthSubrequestConfig,
    at_once: Semaphore,
    answers: Mutex<HashMap<DecisionKey, DecisionSlot>>,
}

impl fmt::Debug for AuthServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AuthServer")
            .field(&self.0.asking.url)
            .finish()
    }
}

impl AuthServer {
    /// A client of one authentication server.
    pub fn new(asking: AuthSubrequestConfig) -> Self {
        Self(Arc::new(AuthServerState {
            asking,
            at_once: Semaphore::new(AT_ONCE_MAX),
            answers: Mutex::default(),
        }))
    }

    /// Whether a client's request is authorized.
    pub async fn decide(&self, head: &Parts, client: Peer, id: &RequestId) -> AuthDecision {
        let shared = &self.0;
        let key = shared.asking.key(head, client);
        let place = shared.place(key);
        let ask = async || {
            let answer = shared.send_with_timeout(head, client, id).await;
            (answer, Instant::now())
        };
        // If the waiter that runs the subrequest is cancelled, the next one runs it.
        let (answer, _) = place.get_or_init(ask).await.clone();
        if answer.is_failure() {
            shared.forget(key, &place);
        }
        answer
    }
}

impl AuthSubrequestConfig {
    fn key(&self, head: &Parts, client: Peer) -> DecisionKey {
        let mut hash = Context::new(&SHA256);
        let mut add = |text: &[u8]| {
            hash.update(&(text.len() as u64).to_le_bytes());
            hash.update(text);
        };
        // The server may decide by it, and the client chooses it.
        add(host(head));
        if self.by_uri {
            add(head.method.as_str().as_bytes());
            add(target(head).as_bytes());
        }
        if self.by_address {
            add(client.host().to_string().as_bytes());
        }
        for name in &self.fields {
            add(&head.headers.get_all(name).iter().count().to_le_bytes());
            for value in head.headers.get_all(name) {
                add(value.as_bytes());
            }
        }
        let mut key = DecisionKey::default();
        key.copy_from_slice(hash.finish().as_ref());
        key
    }

    /// The subrequest for a request.
    fn request(
        &self,
        head: &Parts,
        client: Peer,
        id: &RequestId,
    ) -> Result<Request<Empty<Bytes>>, http::Error> {
        let path = self
            .url
            .uri
            .path_and_query()
            .map_or("/", |path| path.as_str());
        let mut request = Request::get(path)
            .header(HOST, self.url.address.to_string())
            .header("x-original-host", host(head))
            .header("x-original-uri", target(head))
            .header("x-original-method", head.method.as_str())
            .header("x-real-ip", client.host().to_string());
        if !self.fields.iter().any(|name| name == REQUEST_ID) {
            request = request.header(REQUEST_ID, id.to_string());
        }
        if let Some(trace) = id.traceparent()
            && !self.fields.iter().any(|name| name == TRACEPARENT)
        {
            request = request.header(TRACEPARENT, trace);
        }
        for name in &self.fields {
            for value in head.headers.get_all(name) {
                request = request.header(name, value);
            }
        }
        request.body(Empty::new())
    }
}

/// Target of the request, as written.
fn target(head: &Parts) -> &str {
    head.uri
        .path_and_query()
        .map_or("/", |target| target.as_str())
}

/// The host that the request names, with its port as written; HTTP/2 has it in the target.
fn host(head: &Parts) -> &[u8] {
    let of_target = head.uri.authority().map(|of| of.as_str().as_bytes());
    let of_field = || head.headers.get(HOST).map(|value| value.as_bytes());
    of_target.or_else(of_field).unwrap_or_default()
}

impl AuthServerState {
    /// The slot of the answer for a key.
    fn place(&self, key: DecisionKey) -> DecisionSlot {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let is_of_use = |place: &DecisionSlot| match place.get() {
            Some((_, since)) => since.elapsed() < self.asking.keep,
            // A request waits for it.
            None => Arc::strong_count(place) > 1,
        };
        if let Some(place) = answers.get(&key).filter(|place| is_of_use(place)) {
            return Arc::clone(place);
        }
        if answers.len() >= ANSWERS_MAX {
            answers.retain(|_, place| is_of_use(place));
        }
        let place = DecisionSlot::default();
        if answers.len() < ANSWERS_MAX {
            answers.insert(key, Arc::clone(&place));
        }
        place
    }

    fn forget(&self, key: DecisionKey, place: &DecisionSlot) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if answers
            .get(&key)
            .is_some_and(|kept| Arc::ptr_eq(kept, place))
        {
            answers.remove(&key);
        }
    }

    async fn send_with_timeout(&self, head: &Parts, client: Peer, id: &RequestId) -> AuthDecision {
        let asked = timeout(self.asking.patience, self.send_subrequest(head, client, id)).await;
        asked.unwrap_or(AuthDecision::None("no answer within the timeout"))
    }

    async fn send_subrequest(&self, head: &Parts, client: Peer, id: &RequestId) -> AuthDecision {
        let Ok(_one_of_all) = self.at_once.acquire().await else {
            return AuthDecision::None("shut down");
        };
        let Ok(request) = self.asking.request(head, client, id) else {
            return AuthDecision::None("cannot build the subrequest");
        };
        let Ok(socket) = TcpStream::connect(self.asking.url.address).await else {
            return AuthDecision::None("cannot connect");
        };
        let mut settings = http1::Builder::new();
        settings.max_buf_size(ANSWER_BYTES_MAX);
        let Ok((mut sender, connection)) = settings.handshake(TokioIo::new(socket)).await else {
            return AuthDecision::None("cannot connect");
        };
        // Both are dropped at the end: the body is not read, and the connection is closed. The
        // connection may end before the answer is polled, so it is awaited in that case.
        let mut answered = pin!(sender.send_request(request));
        let answered = tokio::select! {
            answered = &mut answered => answered,
            _ = connection => answered.await,
        };
        match answered {
            Ok(response) => AuthDecision::of(&response),
            Err(_) => AuthDecision::None("invalid HTTP response"),
        }
    }
}

#[cfg(test)]
mod tests;
