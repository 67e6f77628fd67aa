//! HTTP client for an origin: the current version of a title, and the bytes of a slice.
//!
//! Invariants: every wait has a timeout; of a viewer's request only the title's name and the
//! request id are forwarded; at most three redirects are followed, and only to hosts that the rules
//! allow.

use std::error::Error as _;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use headlong_kernel::time_scale::TimeScale;
use headlong_pull::{OriginBackoff, OriginVersion, ResponseFault, TargetRules, ToldFreshness};
use headlong_telemetry::{CDN_LOOP, REQUEST_ID, RequestId, TRACEPARENT};
use headlong_units::{ByteRange, path_bytes};
use http::header::{self, HeaderValue};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use super::connect::{Connector, tls};
use super::incoming_slice::IncomingSlice;
use super::origin_health::OriginHealth;
use super::response_head::{field, head_of};
use super::s3::{Signer, is_refusal};
use super::title;
use crate::pull_rule::{PullRule, target_of};

/// Time limit for a connection to an origin, including TLS.
pub(super) const CONNECT_TIMEOUT: headlong_units::Duration = headlong_units::Duration::from_secs(5);
/// Concurrent fetches from one origin; each holds a slice in memory until it is written.
pub(super) const FETCHES_MAX: usize = 16;
const REDIRECTS_MAX: u32 = 3;
const HEAD_BYTES_MAX: usize = 64 << 10;
const HEADERS_MAX: usize = 100;
/// Time limit of one attempt to fetch a slice, as a multiple of the idle timeout.
const PAUSES_MAX: u32 = 30;
/// Bytes of a slice that have to arrive within each idle timeout: a server that sends a byte from
/// time to time would otherwise hold its fetch, and the viewers that wait for it, for minutes.
const PROGRESS_BYTES_MIN: u64 = 64 << 10;
/// Characters that are not encoded in a path.
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// One origin.
pub(super) struct Origin {
    client: Client<Connector, Empty<Bytes>>,
    base: Uri,
    rules: Arc<TargetRules>,
    idle_timeout: Duration,
    usual_freshness: headlong_units::Duration,
    /// Set for a bucket with keys.
    signer: Option<Signer>,
    /// URL as configured.
    written: String,
    trouble: OriginHealth,
    backoff: Mutex<OriginBackoff>,
    scale: TimeScale,
    started: std::time::Instant,
    /// Whether it is another box of the fleet, which sends stored bytes only.
    is_peer: bool,
    /// `Host` of its requests, instead of the host and port of the URL.
    host: Option<HeaderValue>,
}

/// The header field of a peer's answer: for how many more seconds its version is fresh.
pub const FRESH_FOR: &str = "headlong-fresh-for";

/// The name of this process in `CDN-Loop`.
pub fn own_cdn_id() -> &'static str {
    static OWN: OnceLock<String> = OnceLock::new();
    OWN.get_or_init(|| format!("headlong-{:016x}", RandomState::new().hash_one(0_u8)))
}

impl Origin {
    /// Creates the client for a peer: the origin of the rule. `host` is the name of the site to which
    /// the path belongs; without it, the peer would answer for hosts of no site.
    pub(super) fn of_peer(
        rule: &PullRule,
        host: Option<HeaderValue>,
        scale: TimeScale,
    ) -> Result<Self, String> {
        let origin = Self::new(rule, scale)?;
        Ok(Self {
            is_peer: true,
            host,
            ..origin
        })
    }

    /// Creates the client for a checked rule.
    pub(super) fn new(rule: &PullRule, scale: TimeScale) -> Result<Self, String> {
        let (base, origin) = rule.target()?;
        let signer = Signer::open(rule).map_err(|(key, text)| format!("{key} {text}"))?;
        let rules = Arc::new(TargetRules {
            origin,
            hosts: rule
                .redirect_hosts
                .iter()
                .map(|host| host.to_ascii_lowercase())
                .collect(),
            may_be_private: rule.private_addresses,
        });
        let connector = Connector {
            rules: Arc::clone(&rules),
            tls: tls(),
            timeout: scale.wall(CONNECT_TIMEOUT),
        };
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(30))
            .pool_max_idle_per_host(FETCHES_MAX)
            .http1_max_buf_size(HEAD_BYTES_MAX)
            .http1_max_headers(HEADERS_MAX)
            .build(connector);
        Ok(Self {
            client,
            base,
            rules,
            idle_timeout: scale.wall(rule.idle_timeout),
            usual_freshness: rule.fresh,
            signer,
            written: rule.origin.clone(),
            trouble: OriginHealth::default(),
            backoff: Mutex::default(),
            scale,
            started: std::time::Instant::now(),
            is_peer: false,
            host: None,
        })
    }

    /// Returns the current version of a title and its freshness.
    pub(super) async fn query_version(
        &self,
        name: &str,
        by: Option<&RequestId>,
    ) -> Result<(OriginVersion, ToldFreshness), ResponseFault> {
        let response = self.request(&Method::HEAD, name, &[], by).await?;
        let version = head_of(&response).version()?;
        let headers = response.headers();
        let age = field(headers, header::AGE);
        let freshness = match self.is_peer {
            true => {
                let left = headers.get(FRESH_FOR).and_then(|value| value.to_str().ok());
                ToldFreshness::of_peer(left, age)
            }
            false => {
                let control = field(headers, header::CACHE_CONTROL);
                ToldFreshness::of_origin(control, age, self.usual_freshness)
            }
        };
        Ok((version, freshness))
    }

    /// Appends the rest of a range to `slice`, which holds its beginning. Bytes received before a
    /// failure are kept.
    pub(super) async fn fetch(
        &self,
        name: &str,
        version: &OriginVersion,
        range: ByteRange,
        by: Option<&RequestId>,
        slice: &watch::Sender<IncomingSlice>,
    ) -> Result<(), ResponseFault> {
        let received = || slice.borrow().received();
        let left = ByteRange::new(range.start + received(), range.end);
        if left.is_empty() {
            // A peer sent all of it, and more.
            return Ok(());
        }
        let until = Instant::now() + self.idle_timeout * PAUSES_MAX;
        let span = format!("bytes={}-{}", left.start, left.end - 1);
        let validators = &version.validators;
        let condition = validators
            .strong_tag()
            .or(validators.last_modified.as_deref());
        let mut fields = vec![(header::RANGE, span.as_str())];
        fields.extend(condition.map(|value| (header::IF_RANGE, value)));
        let response = self.request(&Method::GET, name, &fields, by).await?;
        let is_success = response.status().is_success();
        if let Err(fault) = head_of(&response).check_range(version, left) {
            if is_success {
                self.note_answer();
            }
            return Err(fault);
        }
        let mut body = response.into_body();
        let (mut deadline, mut marked_bytes) = (Instant::now() + self.idle_timeout, received());
        while received() < range.len() {
            if received() - marked_bytes >= PROGRESS_BYTES_MIN {
                (deadline, marked_bytes) = (Instant::now() + self.idle_timeout, received());
            }
            let frame = timeout_at(until.min(deadline), body.frame()).await;
            let frame = frame.map_err(|_| {
                // Bytes came until the end of the attempt: the origin is slow, but does not fail.
                if deadline <= until {
                    self.note_failure(ResponseFault::TimedOut);
                }
                ResponseFault::TimedOut
            })?;
            let frame = frame
                .ok_or(ResponseFault::Short)?
                .map_err(|_| ResponseFault::Short)?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            let mut is_fit = false;
            slice.send_modify(|slice| is_fit = slice.add(&data));
            if !is_fit {
                self.note_answer();
                return Err(ResponseFault::WrongLength);
            }
        }
        self.note_answer();
        // Read the end of the reply, so that the connection can be reused.
        match timeout(self.idle_timeout, body.frame()).await {
            Ok(Some(Ok(frame))) if frame.data_ref().is_some_and(|data| !data.is_empty()) => {
                Err(ResponseFault::WrongLength)
            }
            _ => Ok(()),
        }
    }

    async fn request(
        &self,
        method: &Method,
        name: &str,
        fields: &[(header::HeaderName, &str)],
        by: Option<&RequestId>,
    ) -> Result<Response<Incoming>, ResponseFault> {
        if !self.backoff().admit(self.now()) {
            return Err(ResponseFault::Unreachable);
        }
        let answer = self.request_uncached(method, name, fields, by).await;
        match &answer {
            Err(fault @ (ResponseFault::Unreachable | ResponseFault::TimedOut)) => {
                self.note_failure(*fault);
            }
            // Noted by `fetch` with the outcome of its body: each retry's head would otherwise end
            // the count of failures of an origin whose bodies stall. A body that is cut short
            // neither counts as a failure nor ends the count.
            Ok(response) if *method == Method::GET && response.status().is_success() => {}
            Err(fault) => {
                self.backoff().note_answer();
                self.trouble.failed(&self.written, fault.name());
            }
            // The title is not stored there.
            Ok(response) if self.is_peer && response.status() == StatusCode::GATEWAY_TIMEOUT => {
                self.backoff().note_answer();
            }
            Ok(response) if response.status().is_server_error() => {
                self.backoff().note_answer();
                let what = response.status();
                self.trouble.failed(&self.written, what.as_str());
            }
            Ok(_) => self.note_answer(),
        }
        answer
    }

    fn backoff(&self) -> MutexGuard<'_, OriginBackoff> {
        self.backoff.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_failure(&self, fault: ResponseFault) {
        let jitter = RandomState::new().hash_one(0_u8);
        self.backoff().note_failure(self.now(), jitter);
        self.trouble.failed(&self.written, fault.name());
    }

    fn note_answer(&self) {
        self.backoff().note_answer();
        self.trouble.answered(&self.written);
    }

    /// Model time since the start.
    fn now(&self) -> headlong_units::Instant {
        headlong_units::Instant::ZERO + self.scale.model(self.started.elapsed())
    }

    async fn request_uncached(
        &self,
        method: &Method,
        name: &str,
        fields: &[(header::HeaderName, &str)],
        by: Option<&RequestId>,
    ) -> Result<Response<Incoming>, ResponseFault> {
        let uri = match &self.signer {
            Some(signer) => {
                (signer.sign(*method == Method::HEAD, name)).ok_or(ResponseFault::Absent)
            }
            None => self.plain(name).ok_or(ResponseFault::Redirect),
        };
        let mut uri = uri?;
        for _ in 0..=REDIRECTS_MAX {
            let mut request = Request::builder()
                .method(method)
                .uri(&uri)
                .header(header::ACCEPT_ENCODING, "identity")
                .header(
                    header::USER_AGENT,
                    concat!("headlong/", env!("CARGO_PKG_VERSION")),
                );
            for (name, value) in fields {
                request = request.header(name, *value);
            }
            let passed = by.and_then(RequestId::passed);
            request = match passed {
                Some(passed) => request.header(CDN_LOOP, format!("{passed}, {}", own_cdn_id())),
                None => request.header(CDN_LOOP, own_cdn_id()),
            };
            if let Some(host) = &self.host {
                request = request.header(header::HOST, host);
            }
            if self.is_peer {
                request = request.header(header::CACHE_CONTROL, "only-if-cached");
            }
            if let Some(by) = by {
                request = request.header(REQUEST_ID, by.to_string());
                if let Some(trace) = by.traceparent() {
                    request = request.header(TRACEPARENT, trace);
                }
            }
            let request = request
                .body(Empty::new())
                .map_err(|_| ResponseFault::Redirect)?;
            let answered = timeout(self.idle_timeout, self.client.request(request)).await;
            let response = match answered {
                Err(_) => return Err(ResponseFault::TimedOut),
                Ok(Err(error)) => return Err(fault_of(&error)),
                Ok(Ok(response)) => response,
            };
            if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
                let signer = self.signer.as_ref();
                if let Some(signer) = signer.filter(|_| is_refusal(response.status())) {
                    signer.refused(response.status(), response.headers());
                }
                return Ok(response);
            }
            let next = response.headers().get(header::LOCATION);
            uri = self.follow(&uri, next).ok_or(ResponseFault::Redirect)?;
        }
        Err(ResponseFault::Redirect)
    }

    /// The URL of a title without a signature.
    fn plain(&self, name: &str) -> Option<Uri> {
        let (path, query) = title::split(name);
        let mut target = self.base.path().to_owned();
        target.extend(percent_encode(&path_bytes(path), IN_PATH));
        if let Some(query) = query {
            target.push('?');
            target.push_str(query);
        }
        with_path(&self.base, &target)
    }

    /// The target of a redirect, if it may be followed.
    fn follow(&self, from: &Uri, location: Option<&HeaderValue>) -> Option<Uri> {
        let location = location?.to_str().ok()?;
        let location = location.split('#').next().unwrap_or_default();
        let is_path = location.starts_with('/') && !location.starts_with("//");
        let uri = match is_path {
            true => with_path(from, location)?,
            false => location.parse().ok()?,
        };
        let target = target_of(&uri)?;
        self.rules.may_follow(&target).then_some(uri)
    }
}

fn with_path(base: &Uri, path: &str) -> Option<Uri> {
    let mut parts = base.clone().into_parts();
    parts.path_and_query = Some(path.parse().ok()?);
    Uri::from_parts(parts).ok()
}

/// Classifies an error without a response.
fn fault_of(error: &hyper_util::client::legacy::Error) -> ResponseFault {
    let mut cause = error.source();
    while let Some(of) = cause {
        if let Some(io) = of.downcast_ref::<std::io::Error>() {
            match io.kind() {
                std::io::ErrorKind::TimedOut => return ResponseFault::TimedOut,
                std::io::ErrorKind::PermissionDenied => return ResponseFault::Redirect,
                _ => {}
            }
        }
        cause = of.source();
    }
    ResponseFault::Unreachable
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use headlong_pull::Validators;

    use super::*;

    /// The outcome of a fetch of 1 MiB from a server that sends `step` bytes every 250 ms, with an
    /// idle timeout of two seconds.
    async fn fetched_in_steps(step: usize) -> Result<(), ResponseFault> {
        const SLICE_BYTES: usize = 1 << 20;
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let rule = PullRule {
            origin: format!("http://{}/", listener.local_addr().expect("an address")),
            idle_timeout: headlong_units::Duration::from_secs(2),
            ..PullRule::default()
        };
        let sender = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a request");
            let mut head = [0; 4096];
            assert!(stream.read(&mut head).expect("a head") > 0);
            let reply = format!(
                "HTTP/1.1 206 Partial Content\r\nETag: \"a\"\r\nContent-Length: {SLICE_BYTES}\r\n\
                Content-Range: bytes 0-{}/{SLICE_BYTES}\r\n\r\n",
                SLICE_BYTES - 1
            );
            stream.write_all(reply.as_bytes()).expect("sent");
            for _ in 0..SLICE_BYTES / step {
                std::thread::sleep(Duration::from_millis(250));
                if stream.write_all(&vec![7; step]).is_err() {
                    return;
                }
            }
        });
        let origin = Origin::new(&rule, TimeScale::ONE).expect("a client");
        let version = OriginVersion {
            size_bytes: SLICE_BYTES as u64,
            validators: Validators {
                entity_tag: Some("\"a\"".to_owned()),
                last_modified: None,
            },
        };
        let range = ByteRange::new(0, SLICE_BYTES as u64);
        let (slice, _incoming) = watch::channel(IncomingSlice::new(range.len()));
        let fetched = origin
            .fetch("film.mp4", &version, range, None, &slice)
            .await;
        drop(origin);
        // Not on this thread, which closes the connection.
        let ended = tokio::task::spawn_blocking(|| sender.join()).await;
        ended.expect("joined").expect("it has ended");
        fetched
    }

    #[tokio::test]
    async fn trickling_origin_is_given_up_and_slow_one_is_not() {
        let (trickling, slow) = tokio::join!(fetched_in_steps(16), fetched_in_steps(64 << 10));
        assert_eq!(trickling, Err(ResponseFault::TimedOut));
        assert_eq!(slow, Ok(()));
    }

    #[tokio::test]
    async fn stalled_bodies_count_as_failures_in_succession() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let rule = PullRule {
            origin: format!("http://{}/", listener.local_addr().expect("an address")),
            idle_timeout: headlong_units::Duration::from_millis(200),
            ..PullRule::default()
        };
        // Each request gets a head and half of its body, on a connection that stays open.
        std::thread::spawn(move || {
            let mut streams = Vec::new();
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let mut head = [0; 4096];
                let reply = b"HTTP/1.1 206 Partial Content\r\nETag: \"a\"\r\n\
                    Content-Length: 4\r\nContent-Range: bytes 0-3/8\r\n\r\nab";
                let is_sent = stream.read(&mut head).is_ok_and(|count| count > 0)
                    && stream.write_all(reply).is_ok();
                streams.extend(is_sent.then_some(stream));
            }
        });
        let origin = Origin::new(&rule, TimeScale::ONE).expect("a client");
        let version = OriginVersion {
            size_bytes: 8,
            validators: Validators {
                entity_tag: Some("\"a\"".to_owned()),
                last_modified: None,
            },
        };
        let start = headlong_units::Instant::ZERO;
        for _ in 0..4 {
            assert!(origin.backoff().admit(start), "a pause came too early");
            let (slice, _incoming) = watch::channel(IncomingSlice::new(4));
            let range = ByteRange::new(0, 4);
            let fetched = origin
                .fetch("film.mp4", &version, range, None, &slice)
                .await;
            assert_eq!(fetched, Err(ResponseFault::TimedOut));
        }
        assert!(!origin.backoff().admit(start), "no pause");
        assert!(origin.trouble.is_failing());
    }

    #[tokio::test]
    async fn reply_that_is_too_long_leaves_nothing_to_fetch() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let rule = PullRule {
            origin: format!("http://{}/", listener.local_addr().expect("an address")),
            ..PullRule::default()
        };
        let peer = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a request");
            let mut head = [0; 4096];
            assert!(stream.read(&mut head).expect("a head") > 0);
            let reply = "HTTP/1.1 206 Partial Content\r\nETag: \"a\"\r\n\
                Content-Range: bytes 0-3/8\r\nTransfer-Encoding: chunked\r\n\r\n\
                4\r\nabcd\r\n2\r\nef\r\n0\r\n\r\n";
            stream.write_all(reply.as_bytes()).expect("sent");
        });
        let origin = Origin::of_peer(&rule, None, TimeScale::ONE).expect("a client");
        let version = OriginVersion {
            size_bytes: 8,
            validators: Validators {
                entity_tag: Some("\"a\"".to_owned()),
                last_modified: None,
            },
        };
        let (slice, _incoming) = watch::channel(IncomingSlice::new(4));
        let range = ByteRange::new(0, 4);
        let fetched = origin
            .fetch("film.mp4", &version, range, None, &slice)
            .await;
        assert_eq!(fetched, Err(ResponseFault::WrongLength));
        peer.join().expect("it has answered");
        // The next one, which is out of reach, gets no request.
        let fetched = origin
            .fetch("film.mp4", &version, range, None, &slice)
            .await;
        assert_eq!(fetched, Ok(()));
        assert_eq!(slice.borrow().received(), 4);
    }
}
