//! What is known of a request before any file is looked at: from its head, and from who sent it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use headlong_engine::{ConnectionId, Hints, Identity, ViewerId};
use headlong_http::{Cmcd, FoundBy, Method, Peer, Viewer};
use headlong_units::Duration;
use http::header;

use super::body::Account;
use super::stages::Tracing;
use super::state::{HttpSettings, MediaState};
use crate::log::{REQUEST_ID, RequestId, RequestRecord, SessionKey, SessionSource};
use crate::net::{ConnectionInfo, Remote};

/// Most of a header field that is kept for the log: a client may send 16 KiB, and a request in
/// progress, and an open session, hold what is kept.
const LOGGED_FIELD_BYTES_MAX: usize = 1024;

/// What is known of a request before any file is looked at.
pub(super) struct Asked {
    pub(super) method: Method,
    pub(super) cmcd: Cmcd,
    pub(super) identity: Identity,
    pub(super) settings: Arc<HttpSettings>,
    pub(super) account: Account,
}

impl Asked {
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
        let viewer = match client.ip() {
            Some(IpAddr::V4(ip)) => settings.session.viewer(&cmcd, fields, query, &ip.octets()),
            Some(IpAddr::V6(ip)) => settings.session.viewer(&cmcd, fields, query, &ip.octets()),
            None => settings.session.viewer(&cmcd, fields, query, b"unix:"),
        };
        let is_proxy = remote.address.is_trusted(is_trusted);
        // A proxy's connection is many clients', also if it does not say whose. Where there are no
        // addresses, connections are all that tells them apart.
        let is_own = !is_proxy || client == Peer::Local;
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
        let is_logged = state.log.is_on() || settings.slow_after.is_some();
        let logged = is_logged.then_some(head);
        let named = is_proxy.then(|| head.headers.get(REQUEST_ID)).flatten();
        let id = named.and_then(RequestId::named);
        let id = id.unwrap_or_else(|| state.request_ids.next());
        let mut record = record((id, logged), head.version, ends, &viewer, &cmcd);
        settings.access.spare(&mut record);
        state.log.begun(&record.session);
        let started = Instant::now();
        let time_scale = settings.time_scale;
        let trace = settings.slow_after.map(|after| {
            let connection = connection.as_deref();
            Box::new(Tracing::begin(
                after,
                connection,
                head.version,
                (started, time_scale),
            ))
        });
        let account = Account {
            state: Arc::clone(state),
            record,
            trace,
            connection,
            held: None,
            gzip_turn: None,
            started,
            time_scale,
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
pub(super) fn fields_of(head: &http::request::Parts) -> Vec<(&str, &[u8])> {
    head.headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .collect()
}

/// What is known so far; without the head's texts if it is not given.
fn record(
    (id, head): (RequestId, Option<&http::request::Parts>),
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
        id,
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
        stages: None,
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

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
            (RequestId::Own(1), Some(&head)),
            head.version,
            remote.into(),
            &viewer,
            &Cmcd::default(),
        );
        assert_eq!(kept.user_agent.as_deref(), Some(&long[..1024]));
        assert_eq!(kept.referer.as_deref(), Some("short"));
    }
}
