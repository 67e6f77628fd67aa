//! A request before its file is looked up: what its head and its connection say.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use headlong_engine::{ConnectionId, Hints, ReaderIdentity, ViewerId};
use headlong_http::{Cmcd, IdSource, Method, Peer, Viewer};
use headlong_net::{ConnectionInfo, Remote};
use headlong_telemetry::{REQUEST_ID, RequestId, RequestRecord, SessionKey, SessionSource};
use headlong_units::Duration;
use http::header;

use super::account::Account;
use super::stages::StageTiming;
use super::state::{HttpSettings, MediaState};

/// Longest logged part of a header field. A client may send 16 KiB, and requests in progress and
/// open sessions hold the logged part.
const LOGGED_FIELD_BYTES_MAX: usize = 1024;

/// A parsed request, before its file is looked up.
pub(super) struct ParsedRequest {
    pub(super) method: Method,
    pub(super) cmcd: Cmcd,
    pub(super) identity: ReaderIdentity,
    pub(super) settings: Arc<HttpSettings>,
    /// Boxed, because it is passed on several times.
    pub(super) account: Box<Account>,
}

impl ParsedRequest {
    pub(super) fn new(state: &Arc<MediaState>, head: &http::request::Parts) -> Self {
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
        let viewer = viewer(&settings, &cmcd, fields, query, client);
        let is_proxy = remote.address.is_trusted(is_trusted);
        // A proxy's connection serves many clients, even if it does not name them. Unix sockets
        // have no addresses, so there the connection is the only distinction.
        let is_own = !is_proxy || client == Peer::Local;
        let number = info.filter(|_| is_own).map(|info| info.number());
        let identity = match viewer.found_by {
            IdSource::Address => ReaderIdentity::Unnamed {
                origin: ViewerId(viewer.id),
                connection: number.map(ConnectionId),
            },
            _ => ReaderIdentity::Named(ViewerId(viewer.id)),
        };
        let ends = Remote {
            address: client,
            // The nearest of several proxies.
            proxy: remote
                .proxy
                .or((client != remote.address).then_some(remote.address)),
        };
        let said = is_logged(state, &settings).then(|| {
            let field = |name| head.headers.get(name).map(http::HeaderValue::as_bytes);
            let target = head.uri.path_and_query();
            LoggedTexts {
                method: head.method.as_str(),
                target: target.map_or("", |target| target.as_str()),
                range: field(header::RANGE),
                user_agent: field(header::USER_AGENT),
                referer: field(header::REFERER),
                session: session_key(&viewer),
            }
        });
        let named = is_proxy.then(|| head.headers.get(REQUEST_ID)).flatten();
        let id = named.and_then(RequestId::named);
        let id = id.unwrap_or_else(|| state.request_ids.next());
        let record = record(id, said, head.version, ends, &cmcd);
        let account = begin(state, &settings, record, connection);
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
            // Measured throughput and requested maximum: the smaller one limits.
            throughput: [cmcd.throughput, cmcd.throughput_max]
                .into_iter()
                .flatten()
                .min(),
        }
    }
}

/// Header fields as plain text, the form that the core parses.
pub(super) fn fields_of(head: &http::request::Parts) -> Vec<(&str, &[u8])> {
    head.headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .collect()
}

/// A GET that is fully described by its target and range.
pub(super) struct PlainRequest<'a, F> {
    pub(super) target: &'a str,
    pub(super) fields: F,
    pub(super) version: http::Version,
}

/// The account of such a request; its client is the connection's peer.
pub(super) fn plain_account<'a, F>(
    state: &Arc<MediaState>,
    settings: &HttpSettings,
    wanted: &PlainRequest<'a, F>,
    info: &Arc<ConnectionInfo>,
) -> Box<Account>
where
    F: Iterator<Item = (&'a str, &'a [u8])> + Clone,
{
    let (remote, cmcd) = (info.remote(), Cmcd::default());
    let said = is_logged(state, settings).then(|| {
        let query = wanted.target.split_once('?').map(|(_, query)| query);
        let fields = || wanted.fields.clone();
        let viewer = viewer(settings, &cmcd, fields(), query, remote.address);
        let field = |name: header::HeaderName| {
            let field = fields().find(|(known, _)| known.eq_ignore_ascii_case(name.as_str()));
            field.map(|(_, value)| value)
        };
        LoggedTexts {
            method: "GET",
            target: wanted.target,
            range: field(header::RANGE),
            user_agent: field(header::USER_AGENT),
            referer: field(header::REFERER),
            session: session_key(&viewer),
        }
    });
    // The id only appears in logs, so it is not drawn without one.
    let id = said.as_ref().map(|_| state.request_ids.next());
    let id = id.unwrap_or(RequestId::Own(0));
    let record = record(id, said, wanted.version, remote, &cmcd);
    begin(state, settings, record, Some(Arc::clone(info)))
}

/// Without a log, the log record's texts are not collected.
fn is_logged(state: &MediaState, settings: &HttpSettings) -> bool {
    state.log.is_on() || settings.slow_after.is_some()
}

/// Starts the account of a request.
fn begin(
    state: &Arc<MediaState>,
    settings: &HttpSettings,
    mut record: RequestRecord,
    connection: Option<Arc<ConnectionInfo>>,
) -> Box<Account> {
    settings.access.spare(&mut record);
    state.log.request_started(&record.session);
    let (started, time_scale) = (Instant::now(), settings.time_scale);
    let trace = settings.slow_after.map(|after| {
        let clock = (started, time_scale);
        let trace = StageTiming::begin(after, connection.as_deref(), record.version, clock);
        Box::new(trace)
    });
    Box::new(Account {
        state: Arc::clone(state),
        record,
        trace,
        connection,
        held: None,
        gzip_turn: None,
        listing_units: None,
        unsent_bytes: 0,
        started,
        time_scale,
    })
}

fn viewer<'a, F>(
    settings: &HttpSettings,
    cmcd: &Cmcd,
    fields: F,
    query: Option<&str>,
    client: Peer,
) -> Viewer
where
    F: IntoIterator<Item = (&'a str, &'a [u8])> + Clone,
{
    let rule = &settings.session;
    match client.ip() {
        Some(IpAddr::V4(ip)) => rule.viewer(cmcd, fields, query, &ip.octets()),
        Some(IpAddr::V6(ip)) => rule.viewer(cmcd, fields, query, &ip.octets()),
        None => rule.viewer(cmcd, fields, query, b"unix:"),
    }
}

fn session_key(viewer: &Viewer) -> SessionKey {
    let name = viewer.name.clone();
    SessionKey {
        id: name.unwrap_or_else(|| format!("{:016x}", viewer.id)),
        source: match viewer.found_by {
            IdSource::Cmcd => SessionSource::Cmcd,
            IdSource::Header => SessionSource::Header,
            IdSource::Cookie => SessionSource::Cookie,
            IdSource::Query => SessionSource::Query,
            IdSource::Address => SessionSource::Address,
        },
    }
}

/// Texts of a request for the log.
struct LoggedTexts<'a> {
    method: &'a str,
    target: &'a str,
    range: Option<&'a [u8]>,
    user_agent: Option<&'a [u8]>,
    referer: Option<&'a [u8]>,
    session: SessionKey,
}

/// Creates the record of a request that begins; `said` is `None` if nothing is logged.
fn record(
    id: RequestId,
    said: Option<LoggedTexts<'_>>,
    version: http::Version,
    remote: Remote,
    cmcd: &Cmcd,
) -> RequestRecord {
    let kept = |value: &[u8]| {
        let kept = &value[..value.len().min(LOGGED_FIELD_BYTES_MAX)];
        String::from_utf8_lossy(kept).into_owned()
    };
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    RequestRecord {
        id,
        start_unix_ms: u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX),
        service_time: Duration::ZERO,
        first_byte_time: None,
        remote: remote.address,
        proxy: remote.proxy,
        method: said.as_ref().map_or("", |said| said.method).to_owned(),
        target: said.as_ref().map_or("", |said| said.target).to_owned(),
        version,
        range: said.as_ref().and_then(|said| said.range).map(kept),
        status: 0,
        bytes_sent: 0,
        bytes_from_ram: 0,
        bytes_from_flash: 0,
        bytes_from_disk: 0,
        user_agent: said.as_ref().and_then(|said| said.user_agent).map(kept),
        referer: said.as_ref().and_then(|said| said.referer).map(kept),
        session: said.map(|said| said.session),
        device: None,
        chain: None,
        cache: None,
        queue_time: Duration::ZERO,
        disk_time: Duration::ZERO,
        bit_rate: cmcd.bit_rate,
        failure: None,
        stages: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_fields_are_truncated_for_log() {
        let long = "x".repeat(15_000);
        let said = LoggedTexts {
            method: "GET",
            target: "/",
            range: None,
            user_agent: Some(long.as_bytes()),
            referer: Some(b"short"),
            session: SessionKey {
                id: String::new(),
                source: SessionSource::Address,
            },
        };
        let remote = SocketAddr::from(([127, 0, 0, 1], 9));
        let kept = record(
            RequestId::Own(1),
            Some(said),
            http::Version::HTTP_11,
            remote.into(),
            &Cmcd::default(),
        );
        assert_eq!(kept.user_agent.as_deref(), Some(&long[..1024]));
        assert_eq!(kept.referer.as_deref(), Some("short"));
    }
}
