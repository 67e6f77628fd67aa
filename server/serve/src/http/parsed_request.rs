//! A request before its file is looked up: what its head and its connection say.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use headlong_engine::{ConnectionId, Hints, ReaderIdentity, ViewerId};
use headlong_http::{Cmcd, IdSource, Method, Peer, Viewer};
use headlong_net::{ConnectionInfo, Remote};
use headlong_telemetry::{
    CDN_LOOP, LoggedHeader, REQUEST_ID, RequestId, RequestRecord, SessionKey, SessionSource,
    TRACEPARENT,
};
use headlong_units::Duration;
use http::header;
use http::uri::Authority;

use super::account::Account;
use super::host::requested_host;
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
    /// The prefix of its site; empty without one.
    pub(super) site: Arc<str>,
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
        let host = requested_host(head).unwrap_or_default();
        let site: Arc<str> = settings.sites.prefix(host).into();
        let viewer = viewer(&settings, &cmcd, fields.clone(), query, client);
        let viewer = of_site(viewer, &site);
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
                headers: logged_headers(&settings, fields, head.uri.authority()),
                session: session_key(&viewer),
            }
        });
        let trace = head.headers.get(TRACEPARENT);
        let trace = trace.map(http::HeaderValue::as_bytes);
        let named = is_proxy.then(|| head.headers.get(REQUEST_ID)).flatten();
        let id = named.and_then(RequestId::named);
        let id = id.unwrap_or_else(|| state.request_ids.next());
        let passed = head.headers.get_all(CDN_LOOP).iter();
        let passed = passed.map(http::HeaderValue::as_bytes);
        let id = id.with_trace(trace).with_passed(passed);
        let record = record(id, said, head.version, ends, &cmcd);
        let account = begin(state, &settings, record, connection);
        Self {
            method,
            cmcd,
            identity,
            settings,
            site,
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
    /// `:authority` of HTTP/2; HTTP/1.1 has a field.
    pub(super) authority: &'a str,
    pub(super) version: http::Version,
}

/// The account of such a request; its client is the connection's peer.
pub(super) fn plain_account<'a, F>(
    state: &Arc<MediaState>,
    settings: &HttpSettings,
    wanted: &PlainRequest<'a, F>,
    site: &str,
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
        let viewer = of_site(viewer, site);
        let field = |name: header::HeaderName| field_of(fields(), name.as_str());
        LoggedTexts {
            method: "GET",
            target: wanted.target,
            range: field(header::RANGE),
            user_agent: field(header::USER_AGENT),
            referer: field(header::REFERER),
            headers: logged_headers(settings, fields(), None),
            session: session_key(&viewer),
        }
    });
    // The id only appears in logs, so it is not drawn without one.
    let id = said.as_ref().map(|_| state.request_ids.next());
    let id = id.unwrap_or(RequestId::own(0));
    let id = id.with_trace(field_of(wanted.fields.clone(), TRACEPARENT));
    let record = record(id, said, wanted.version, remote, &cmcd);
    begin(state, settings, record, Some(Arc::clone(info)))
}

/// The value of the first field with this name.
fn field_of<'a>(
    mut fields: impl Iterator<Item = (&'a str, &'a [u8])>,
    name: &str,
) -> Option<&'a [u8]> {
    let field = fields.find(|(known, _)| known.eq_ignore_ascii_case(name));
    field.map(|(_, value)| value)
}

/// The fields of `log.headers` that a request has. Over HTTP/2, `Host` is the authority.
fn logged_headers<'a>(
    settings: &HttpSettings,
    fields: impl Iterator<Item = (&'a str, &'a [u8])> + Clone,
    authority: Option<&Authority>,
) -> Vec<LoggedHeader> {
    let value_of = |name: &Arc<str>| {
        let same = fields
            .clone()
            .filter(|(known, _)| known.eq_ignore_ascii_case(name));
        let mut values: Vec<String> = same.map(|(_, value)| kept(value)).collect();
        if values.is_empty() && **name == *"host" {
            values.extend(authority.map(|authority| kept(authority.as_str().as_bytes())));
        }
        let value = kept(values.join(", ").as_bytes());
        (!values.is_empty()).then(|| LoggedHeader {
            name: Arc::clone(name),
            value,
        })
    };
    settings
        .logged_headers
        .iter()
        .filter_map(value_of)
        .collect()
}

/// A field for the log, truncated.
fn kept(value: &[u8]) -> String {
    let kept = &value[..value.len().min(LOGGED_FIELD_BYTES_MAX)];
    String::from_utf8_lossy(kept).into_owned()
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
        generated: None,
        is_packaged: false,
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

/// A viewer of a site: another one than that of the same name or address at other hosts, so that
/// sessions never contain requests of two sites.
fn of_site(viewer: Viewer, site: &str) -> Viewer {
    if site.is_empty() {
        return viewer;
    }
    let id = xxhash_rust::xxh3::xxh3_64_with_seed(site.as_bytes(), viewer.id);
    let name = viewer.name.map(|name| format!("{}{name}", &site[1..]));
    Viewer { id, name, ..viewer }
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
    headers: Vec<LoggedHeader>,
    session: SessionKey,
}

/// Creates the record of a request that begins; `said` is `None` if nothing is logged.
fn record(
    id: RequestId,
    mut said: Option<LoggedTexts<'_>>,
    version: http::Version,
    remote: Remote,
    cmcd: &Cmcd,
) -> RequestRecord {
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
        headers: said
            .as_mut()
            .map(|said| std::mem::take(&mut said.headers))
            .unwrap_or_default(),
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
            headers: Vec::new(),
            session: SessionKey {
                id: String::new(),
                source: SessionSource::Address,
            },
        };
        let remote = SocketAddr::from(([127, 0, 0, 1], 9));
        let kept = record(
            RequestId::own(1),
            Some(said),
            http::Version::HTTP_11,
            remote.into(),
            &Cmcd::default(),
        );
        assert_eq!(kept.user_agent.as_deref(), Some(&long[..1024]));
        assert_eq!(kept.referer.as_deref(), Some("short"));
    }
}
