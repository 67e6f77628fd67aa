//! One request, from its head to the head of its reply.

use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use headlong_engine::{
    ConnectionId, Failure, Hints, Identity, Refusal, Request as EngineRequest, StreamId, ViewerId,
};
use headlong_http::{
    Boundary, Cmcd, FileIdentity, FoundBy, HttpDate, Method, RelativePath, ReplyPlan,
    Representation, RequestHead, Status, Validators, Viewer, entity_tag, error_reply, media_type,
    plan,
};
use headlong_library::{FileEntry, ResolveError};
use headlong_pull::Fault;
use headlong_units::Duration;
use http::{HeaderValue, Request, Response, header};
use hyper::service::Service;
use rustix::io::Errno;

use super::asking::{Asking, Begun};
use super::body::{Account, ReplyBody, failure_name, refusal_name};
use super::pulled::{self, FromOrigin};
use super::source::LibrarySource;
use super::state::{HttpSettings, MediaState};
use crate::config;
use crate::disk::{Piece, PieceInfo};
use crate::log::{RequestRecord, ServerTiming, SessionKey, SessionSource};
use crate::net::{ConnectionInfo, NoBody, Remote};

/// The media listener's service. Clones share everything.
#[derive(Debug, Clone)]
pub struct MediaService {
    state: Arc<MediaState>,
}

impl MediaService {
    /// Serves what the state has.
    pub fn new(state: Arc<MediaState>) -> Self {
        Self { state }
    }
}

impl Service<Request<NoBody>> for MediaService {
    type Response = Response<ReplyBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<NoBody>) -> Self::Future {
        let state = Arc::clone(&self.state);
        Box::pin(async move { Ok(respond(state, request).await) })
    }
}

/// What is known of a request before any file is looked at.
pub(super) struct Asked {
    method: Method,
    pub(super) cmcd: Cmcd,
    pub(super) identity: Identity,
    pub(super) settings: Arc<HttpSettings>,
    pub(super) account: Account,
}

/// A reply's plan with what has been fetched of its body.
pub(super) struct Answer {
    pub(super) plan: ReplyPlan,
    pub(super) first: Option<(Begun, Piece, Asking)>,
    /// What is said of an origin.
    pub(super) from: Option<FromOrigin>,
}

/// Why there is no file to send.
pub(super) enum NoAnswer {
    Status(Status, Option<String>),
    Refused(Refusal),
    Failed(Failure),
    /// What comes from an origin did not.
    Origin(Fault),
    /// Its address has as many requests as one may.
    TooMany,
}

/// A file that changes while it is looked at is looked at again, this often.
pub(super) const VERSIONS_TRIED_MAX: u32 = 3;
/// Most of a header field that is kept for the log: a client may send 16 KiB, and a request in
/// progress, and an open session, hold what is kept.
const LOGGED_FIELD_BYTES_MAX: usize = 1024;

async fn respond(state: Arc<MediaState>, request: Request<NoBody>) -> Response<ReplyBody> {
    let (head, _) = request.into_parts();
    let mut asked = Asked::new(&state, &head);
    let origin = head
        .headers
        .get(header::ORIGIN)
        .and_then(|value| value.to_str().ok());
    let settings = Arc::clone(&asked.settings);
    let path = RelativePath::parse(head.uri.path()).ok();
    let path = path.as_ref().map_or("", RelativePath::as_str);
    let cors = settings.access.cors(path, &settings.cors);
    let cors_fields = match asked.method {
        Method::Options => Vec::new(),
        _ => cors.reply_fields(origin),
    };
    let answer = match asked.method {
        Method::Options => {
            let wanted = head.headers.get(header::ACCESS_CONTROL_REQUEST_METHOD);
            let wanted = wanted.and_then(|value| value.to_str().ok());
            let plan = cors.options_reply(origin, wanted);
            Ok(Answer::without_bytes(plan))
        }
        Method::Other => Err(NoAnswer::Status(Status::MethodNotAllowed, None)),
        _ if !has_host(&head) => {
            let detail = "a request must name exactly one host";
            Err(NoAnswer::Status(
                Status::BadRequest,
                Some(detail.to_owned()),
            ))
        }
        Method::Get | Method::Head => answer_read(&state, &head, &mut asked).await,
    };
    let is_file = answer.is_ok() && asked.method != Method::Options;
    let now = asked.account.record.start_unix_ms / 1000;
    let mut retry_after = None;
    let answer = answer.unwrap_or_else(|none| {
        if let NoAnswer::TooMany = none {
            let address = asked.account.record.remote.ip();
            state.warn(|| {
                tracing::warn!(
                    %address,
                    "refused a request: its address has as many in progress as one may; if it is a \
                     proxy, write it in proxies.trusted, or raise requests_per_address_max"
                );
            });
        }
        let (plan, after) = explain(none, asked.method, &mut asked.account.record);
        retry_after = after;
        Answer::without_bytes(plan)
    });
    let mut response = build(answer, &asked.settings, &head, asked.account);
    let status = response.status();
    let headers = response.headers_mut();
    if is_file && matches!(status.as_u16(), 200 | 206 | 304) {
        settings.access.add_fields(path, now, headers);
    }
    for (name, value) in cors_fields {
        append(headers, name, &value);
    }
    if let Some(after) = retry_after {
        let seconds = after.0.div_ceil(1_000_000_000).max(1);
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// HTTP/1.1 demands one `Host` field (RFC 9112 3.2).
fn has_host(head: &http::request::Parts) -> bool {
    let count = head.headers.get_all(header::HOST).iter().count();
    head.version != http::Version::HTTP_11 || count == 1
}

impl Asked {
    fn new(state: &Arc<MediaState>, head: &http::request::Parts) -> Self {
        let settings = state.settings();
        let method = Method::parse(head.method.as_str());
        let query = head.uri.query();
        let fields = fields_of(head);
        let fields = fields.iter().copied();
        let cmcd = Cmcd::read(fields.clone(), query);
        let info = head.extensions.get::<Arc<ConnectionInfo>>();
        let connection = info.cloned();
        let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
        let remote = info.map_or(unknown.into(), |info| info.remote());
        let proxies = &settings.proxies;
        let is_trusted = |address| proxies.trust(address);
        let client = proxies
            .header
            .client(remote.address, fields.clone(), is_trusted);
        let viewer = match client.ip() {
            IpAddr::V4(ip) => settings.session.viewer(&cmcd, fields, query, &ip.octets()),
            IpAddr::V6(ip) => settings.session.viewer(&cmcd, fields, query, &ip.octets()),
        };
        // A proxy's connection is many clients', also if it does not say whose.
        let is_own = !is_trusted(remote.address.ip().to_canonical());
        let number = info.filter(|_| is_own).map(|info| info.number());
        let identity = match viewer.found_by {
            FoundBy::Address => Identity::Unnamed {
                origin: ViewerId(viewer.id),
                connection: number.map(ConnectionId),
            },
            _ => Identity::Named(ViewerId(viewer.id)),
        };
        let ends = Remote {
            address: client,
            // The one that is nearest, of several.
            proxy: remote
                .proxy
                .or((client != remote.address).then_some(remote.address)),
        };
        // Who writes no log does not pay for what it would say.
        let logged = state.log.is_on().then_some(head);
        let mut record = record(logged, head.version, ends, &viewer, &cmcd);
        settings.access.spare(&mut record);
        state.log.begun(&record.session);
        let account = Account {
            state: Arc::clone(state),
            record,
            connection,
            held: None,
            started: Instant::now(),
            time_scale: settings.time_scale,
        };
        Self {
            method,
            cmcd,
            identity,
            settings,
            account,
        }
    }

    pub(super) fn hints(&self) -> Hints {
        let cmcd = &self.cmcd;
        Hints {
            buffer: cmcd.buffer,
            deadline: cmcd.deadline,
            startup: cmcd.startup || cmcd.starved,
            bit_rate: cmcd.bit_rate,
            // What it measures, and what it asks not to be exceeded: the smaller bounds it.
            throughput: [cmcd.throughput, cmcd.throughput_max]
                .into_iter()
                .flatten()
                .min(),
        }
    }
}

/// The fields as plain text, which is how the core reads them.
fn fields_of(head: &http::request::Parts) -> Vec<(&str, &[u8])> {
    head.headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .collect()
}

/// What is known so far; without the head's texts if it is not given.
fn record(
    head: Option<&http::request::Parts>,
    version: http::Version,
    remote: Remote,
    viewer: &Viewer,
    cmcd: &Cmcd,
) -> RequestRecord {
    let field = |name: header::HeaderName| {
        let value = head?.headers.get(name)?.as_bytes();
        let kept = &value[..value.len().min(LOGGED_FIELD_BYTES_MAX)];
        Some(String::from_utf8_lossy(kept).into_owned())
    };
    let source = match viewer.found_by {
        FoundBy::Cmcd => SessionSource::Cmcd,
        FoundBy::Header => SessionSource::Header,
        FoundBy::Cookie => SessionSource::Cookie,
        FoundBy::Query => SessionSource::Query,
        FoundBy::Address => SessionSource::Address,
    };
    let session = head.map(|_| SessionKey {
        id: viewer
            .name
            .clone()
            .unwrap_or_else(|| format!("{:016x}", viewer.id)),
        source,
    });
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    RequestRecord {
        start_unix_ms: u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX),
        service_time: Duration::ZERO,
        first_byte_time: None,
        remote: remote.address,
        proxy: remote.proxy,
        method: head.map_or_else(String::new, |head| head.method.as_str().to_owned()),
        target: head
            .and_then(|head| head.uri.path_and_query())
            .map_or_else(String::new, ToString::to_string),
        version,
        range: field(header::RANGE),
        status: 0,
        bytes_sent: 0,
        bytes_from_ram: 0,
        bytes_from_flash: 0,
        bytes_from_disk: 0,
        session,
        device: None,
        chain: None,
        cache: None,
        user_agent: field(header::USER_AGENT),
        referer: field(header::REFERER),
        queue_time: Duration::ZERO,
        disk_time: Duration::ZERO,
        bit_rate: cmcd.bit_rate,
        failure: None,
    }
}

/// GET and HEAD.
async fn answer_read(
    state: &Arc<MediaState>,
    head: &http::request::Parts,
    asked: &mut Asked,
) -> Result<Answer, NoAnswer> {
    let path = RelativePath::parse(head.uri.path())
        .map_err(|error| NoAnswer::Status(error.status(), None))?;
    let record = &asked.account.record;
    let (address, now) = (record.remote.ip(), record.start_unix_ms / 1000);
    let access = &asked.settings.access;
    let refused = |status| NoAnswer::Status(status, None);
    let referer = head.headers.get(header::REFERER).map(HeaderValue::as_bytes);
    let may_use = access.ask_referer(path.as_str(), referer);
    may_use.map_err(refused)?;
    let allowed = access.ask(&path, head.uri.query(), address, now);
    allowed.map_err(refused)?;
    if let Some(below) = state.pulls.of(path.as_str()) {
        return pulled::answer(state, head, asked, below).await;
    }
    for tried in 1.. {
        let file = resolve(state, &path, asked.settings.lookup_timeout.min(LOOKUP_MAX)).await?;
        match fetch(state, head, asked, &file).await {
            Err(NoAnswer::Failed(Failure::Changed) | NoAnswer::Refused(Refusal::UnknownStream))
                if tried < VERSIONS_TRIED_MAX =>
            {
                state.library.distrust(path.as_str());
            }
            answer => return answer,
        }
    }
    Err(NoAnswer::Failed(Failure::Changed))
}

/// A look-up that takes longer than the patience of any client.
const LOOKUP_MAX: std::time::Duration = std::time::Duration::from_secs(60);

async fn resolve(
    state: &Arc<MediaState>,
    path: &RelativePath,
    within: std::time::Duration,
) -> Result<Arc<FileEntry>, NoAnswer> {
    if let Some(file) = state.library.recall(path.as_str()) {
        return Ok(file);
    }
    // A disk that is out of service is not asked; what is in memory is still served.
    let is_offline = |file: &Arc<FileEntry>| {
        state
            .devices
            .get(file.device)
            .is_some_and(|device| device.is_offline())
    };
    if let Some(file) = state.library.remember(path.as_str()).filter(is_offline) {
        return Ok(file);
    }
    let found = state.lookups.resolve(path.as_str(), within).await;
    found.map_err(|error| match error {
        ResolveError::Io { path, source } => {
            // A name may hold anything; quoted, it stays on its line.
            state.warn(|| tracing::warn!(?path, error = %source, "cannot look up a file"));
            NoAnswer::Failed(match is_short_of_resources(&source) {
                true => Failure::NoResources,
                false => Failure::Device,
            })
        }
        ResolveError::NoAnswer(_) => NoAnswer::Failed(Failure::TimedOut),
        ResolveError::Forbidden(path) => {
            let remedy = "let the server's user read it and enter the folders above it";
            state.warn(|| tracing::warn!(?path, remedy, "a file may not be read"));
            NoAnswer::Status(Status::Forbidden, None)
        }
        _ => NoAnswer::Status(Status::NotFound, None),
    })
}

fn is_short_of_resources(error: &std::io::Error) -> bool {
    let short = [Errno::MFILE, Errno::NFILE, Errno::NOMEM];
    short
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Plans the reply for a file and waits for the first bytes of its body.
async fn fetch(
    state: &Arc<MediaState>,
    head: &http::request::Parts,
    asked: &mut Asked,
    file: &Arc<FileEntry>,
) -> Result<Answer, NoAnswer> {
    let plan = plan_for(head, asked, &Shown::of(file));
    let Some(device) = state.devices.get(file.device) else {
        let detail = "its device was mounted after the server started; restart the server";
        return Err(NoAnswer::Status(
            Status::Unavailable,
            Some(detail.to_owned()),
        ));
    };
    asked.account.record.device = Some(Arc::clone(device.name()));
    let Some(first_part) = plan.body.parts.first() else {
        return Ok(Answer::without_bytes(plan));
    };
    let address = asked.account.record.remote.ip();
    // A file that is looked at again is one request still.
    asked.account.held = None;
    let held = state.hold(&asked.settings, file.device, address);
    asked.account.held = held.ok_or(NoAnswer::TooMany)?;
    let request = EngineRequest {
        viewer: asked.identity,
        stream: StreamId(file.stream.id),
        part: file.part,
        offset: 0,
        length: 0,
        open_ended: false,
        hints: asked.hints(),
    };
    let files = Arc::clone(&file.stream);
    state.note_stream(&files);
    let source = Arc::new(LibrarySource {
        files,
        direct: asked.settings.direct,
    });
    // Who names neither a range nor an end may stop reading anywhere.
    let whole = plan.status == Status::Ok;
    let mut asking = Asking {
        device: device.clone(),
        source,
        request,
        whole,
        pacer: None,
        bringing: None,
    };
    let mut begun = asking
        .ask(first_part, false)
        .await
        .map_err(NoAnswer::from)?;
    asked.account.record.chain = begun.reply.chain().map(|chain| chain.0);
    match begun.reply.next().await {
        Some(Ok(piece)) => {
            // By now the headers were read, on a thread that may wait for the disk.
            let bit_rate = file.stream.bit_rate_if_read().or(asked.cmcd.bit_rate);
            let pace = asked.settings.access.pace(&file.path);
            asking.pacer = pace.pacer(headlong_units::Instant::ZERO, bit_rate);
            Ok(Answer {
                plan,
                first: Some((begun, piece, asking)),
                from: None,
            })
        }
        Some(Err(failure)) => Err(NoAnswer::Failed(failure)),
        None => Err(NoAnswer::Failed(Failure::Device)),
    }
}

/// What a reply says of a file, wherever it comes from.
pub(super) struct Shown<'a> {
    /// Its path, by which its kind is known and what is said of it.
    pub(super) path: &'a str,
    /// Bytes.
    pub(super) size: u64,
    /// Its tag, with quotes.
    pub(super) entity_tag: String,
    /// When it was changed.
    pub(super) modified: Option<HttpDate>,
    /// The number of its stream.
    pub(super) number: u64,
}

impl<'a> Shown<'a> {
    fn of(file: &'a FileEntry) -> Self {
        let identity = &file.identity;
        let entity_tag = entity_tag(&FileIdentity {
            size: identity.size,
            mtime_ns: narrow(identity.mtime_ns),
            // Until its time has settled, other bytes may come under it.
            unsettled: (!identity.is_settled).then_some(file.stream.id),
        });
        let modified = file.mtime.duration_since(UNIX_EPOCH).ok();
        let seconds = modified.and_then(|since| i64::try_from(since.as_secs()).ok());
        Self {
            path: &file.path,
            size: file.size,
            entity_tag,
            modified: seconds.and_then(HttpDate::from_unix_seconds),
            number: file.stream.id,
        }
    }
}

impl Answer {
    fn without_bytes(plan: ReplyPlan) -> Self {
        Self {
            plan,
            first: None,
            from: None,
        }
    }
}

pub(super) fn plan_for(head: &http::request::Parts, asked: &Asked, file: &Shown<'_>) -> ReplyPlan {
    let of_all = asked.settings.cache_control.as_deref();
    let representation = Representation {
        size: file.size,
        validators: Validators {
            entity_tag: &file.entity_tag,
            modified: file.modified,
        },
        media_type: media_type(file.path),
        cache_control: asked.settings.access.cache_control(file.path, of_all),
    };
    let now = i64::try_from(asked.account.record.start_unix_ms / 1000).unwrap_or(i64::MAX);
    let received = HttpDate::from_unix_seconds(now).unwrap_or(HttpDate::EPOCH);
    // Keyed with randomness of the system: no content can hold it on purpose.
    let seed = RandomState::new().hash_one(file.number);
    let fields = fields_of(head);
    let request = RequestHead::read(
        asked.method,
        received,
        Boundary { seed },
        fields.iter().copied(),
    );
    plan(&request, &representation, &asked.settings.ranges)
}

/// Times beyond the year 2262 all look alike, which only makes a tag less sharp.
fn narrow(nanoseconds: i128) -> i64 {
    i64::try_from(nanoseconds).unwrap_or(i64::MAX)
}

/// What a reply says of a disk that is not asked any more.
const OFFLINE: &str = "the disk is out of service; try again later";

/// The reply that says why there is nothing else.
fn explain(
    none: NoAnswer,
    method: Method,
    record: &mut RequestRecord,
) -> (ReplyPlan, Option<Duration>) {
    let soon = Duration::from_secs(1);
    match none {
        NoAnswer::Status(status, detail) => (error_reply(status, method, detail.as_deref()), None),
        NoAnswer::Refused(refusal) => {
            record.failure = Some(refusal_name(refusal));
            let after = match refusal {
                Refusal::Overloaded { retry_after } | Refusal::Offline { retry_after } => {
                    retry_after
                }
                Refusal::Full | Refusal::UnknownStream | Refusal::OutOfBounds => soon,
            };
            let detail = match refusal {
                Refusal::Overloaded { .. } => {
                    "the disk is busy with other viewers; try again later"
                }
                Refusal::Offline { .. } => OFFLINE,
                Refusal::Full => "too many requests wait for the disk; try again later",
                Refusal::UnknownStream | Refusal::OutOfBounds => CHANGING,
            };
            let reply = error_reply(Status::Unavailable, method, Some(detail));
            (reply, Some(after))
        }
        NoAnswer::Origin(fault) => {
            record.failure = Some(fault.name());
            let (status, detail, after) = pulled::explain(fault);
            (
                error_reply(status, method, detail),
                after.map(Duration::from_secs),
            )
        }
        NoAnswer::TooMany => {
            record.failure = Some("address");
            let detail = "too many requests from this address are in progress; try again later";
            (
                error_reply(Status::Unavailable, method, Some(detail)),
                Some(soon),
            )
        }
        NoAnswer::Failed(failure) => {
            record.failure = Some(failure_name(failure));
            let (status, detail, after) = match failure {
                Failure::Device => (Status::InternalError, None, None),
                Failure::TimedOut => (Status::GatewayTimeout, None, None),
                Failure::Changed => (Status::Unavailable, Some(CHANGING), Some(soon)),
                Failure::Offline => (Status::Unavailable, Some(OFFLINE), Some(soon)),
                Failure::NoResources => (
                    Status::Unavailable,
                    Some("the server is short of memory or open files; try again later"),
                    Some(soon),
                ),
            };
            (error_reply(status, method, detail), after)
        }
    }
}

/// To the client of a file that is being written or taken away.
const CHANGING: &str = "the file is being changed; try again later";

fn build(
    answer: Answer,
    settings: &HttpSettings,
    head: &http::request::Parts,
    mut account: Account,
) -> Response<ReplyBody> {
    let ReplyPlan {
        status,
        fields,
        body,
    } = answer.plan;
    account.record.status = status.code();
    let timing = timing_field(
        settings,
        head,
        answer.first.as_ref().map(|(_, piece, _)| piece.info()),
    );
    let came_from = answer.first.as_ref().map(|(_, piece, _)| piece.info());
    let cache_status = came_from
        .filter(|_| settings.cache_status && answer.from.is_none())
        .map(cache_status);
    let body = match answer.first {
        Some((begun, piece, asking)) => ReplyBody::parts(body, (begun, piece), asking, account),
        None => ReplyBody::text(body.closing, account),
    };
    let mut response = Response::new(body);
    *response.status_mut() = http::StatusCode::from_u16(status.code())
        .unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in fields {
        append(response.headers_mut(), name, &value);
    }
    if let Some(cache_status) = cache_status {
        let value = HeaderValue::from_static(cache_status);
        response.headers_mut().insert("cache-status", value);
    }
    if let Some(from) = &answer.from {
        from.add_fields(response.headers_mut(), settings.cache_status);
    }
    if let Some(timing) = timing {
        response.headers_mut().insert("server-timing", timing);
    }
    response
}

fn append(headers: &mut http::HeaderMap, name: &'static str, value: &str) {
    // What the plan says is ASCII without control characters; anything else would be a bug of it.
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.append(name, value);
    }
}

/// Where the first bytes came from, as caches say it (RFC 9211): what the disk was not asked for is a
/// hit.
fn cache_status(first: PieceInfo) -> &'static str {
    match (first.from_ram, first.from_flash) {
        (true, _) => "headlong; hit; detail=ram",
        (false, true) => "headlong; hit; detail=flash",
        (false, false) => "headlong; fwd=miss; detail=disk",
    }
}

/// Where the first bytes came from, if the configuration or the request wants to know.
fn timing_field(
    settings: &HttpSettings,
    head: &http::request::Parts,
    first: Option<PieceInfo>,
) -> Option<HeaderValue> {
    let is_wanted = match settings.server_timing {
        config::ServerTiming::Always => true,
        config::ServerTiming::OnRequest => head.headers.contains_key("server-timing"),
        config::ServerTiming::Off => false,
    };
    let info = first.filter(|_| is_wanted)?;
    let timing = ServerTiming {
        queue_time: info.queue_time,
        disk_time: info.disk_time,
        is_from_ram: info.from_ram,
        is_from_flash: info.from_flash,
    };
    timing.header_value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_keeps_the_beginning_of_long_fields_only() {
        let long = "x".repeat(15_000);
        let request = Request::builder()
            .header(header::USER_AGENT, &long)
            .header(header::REFERER, "short");
        let (head, _) = request.body(()).expect("a request").into_parts();
        let viewer = Viewer {
            id: 1,
            found_by: FoundBy::Address,
            name: None,
        };
        let remote = SocketAddr::from(([127, 0, 0, 1], 9));
        let kept = record(
            Some(&head),
            head.version,
            remote.into(),
            &viewer,
            &Cmcd::default(),
        );
        assert_eq!(kept.user_agent.as_deref(), Some(&long[..1024]));
        assert_eq!(kept.referer.as_deref(), Some("short"));
    }
}
