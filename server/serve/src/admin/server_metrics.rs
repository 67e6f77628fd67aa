//! `/metrics`: a registry for each scrape, filled with current values.

use std::fmt;

use headlong_net::{CertificateValidity, ConnectionCounts};
use headlong_storage::DeviceSnapshot;
use headlong_telemetry::LogCounts;
use headlong_telemetry::degraded_parts::DegradedPartKind;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use super::device_metrics::DeviceCollector;
use super::encode::{MetricRow, count, encode_family, encode_rows, gauge};
use super::metrics::STATUS_CLASSES;
use super::pull_metrics::PullCollector;
use super::state::AdminState;

/// Renders all metrics as OpenMetrics.
pub(super) fn render(
    state: &AdminState,
    devices: Vec<DeviceSnapshot>,
) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("headlong");
    let build = Info::new(vec![("version", state.version)]);
    registry.register("build", "The running program", build);
    registry.register_with_unit(
        "start_time",
        "Start time of the server, since 1970",
        Unit::Seconds,
        ConstGauge::new(state.started_unix_ms as f64 / 1e3),
    );
    registry.register_collector(Box::new(state.requests.collector()));
    registry.register_collector(Box::new(ServerCollector {
        is_draining: state.draining.is_draining(),
        responses: state.requests.counts_by_class(),
        connections: state.connections.counts(),
        log: state.log.counts(),
        degraded: state.degraded.counts().collect(),
        certificates: match &state.certificates {
            Some(certificates) => certificates.validities(),
            None => Vec::new(),
        },
    }));
    registry.register_collector(Box::new(DeviceCollector(devices)));
    registry.register_collector(Box::new(PullCollector(state.pulls.counts())));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct ServerCollector {
    is_draining: bool,
    responses: [u64; STATUS_CLASSES.len()],
    connections: ConnectionCounts,
    log: LogCounts,
    degraded: Vec<(DegradedPartKind, u64)>,
    certificates: Vec<CertificateValidity>,
}

/// Metrics without labels.
#[rustfmt::skip]
const ROWS: [MetricRow<ServerCollector>; 14] = [
    gauge("draining", "1 while the server drains", |s| u64::from(s.is_draining)),
    gauge("connections_open", "Connections of viewers open", |s| s.connections.open),
    gauge("requests_active", "Requests in progress", |s| s.connections.requests_active),
    count("connections_accepted", "Connections accepted", |s| s.connections.accepted),
    count("accept_errors", "Connections that could not be accepted", |s| s.connections.accept_errors),
    count("connection_limit_waits", "Times that accepting waited because of the connection limit", |s| s.connections.limit_waits),
    count("tls_failures", "TLS handshakes that failed", |s| s.connections.tls_failures),
    count("proxy_refusals", "Connections to PROXY protocol ports without a PROXY header, or from untrusted addresses",
        |s| s.connections.proxy_refusals),
    count("address_refusals", "Connections closed on accept because their address was at its limit or had flooded",
        |s| s.connections.address_refusals),
    count("request_memory_refusals", "HTTP/2 requests answered 503 because requests in progress used all their memory",
        |s| s.connections.request_memory_refusals),
    count("heads_refused", "Malformed or too long requests, answered 400, 414 or 431; they are not logged",
        |s| s.connections.heads_refused),
    count("cached_head_replies", "Replies from memory that used a cached response head",
        |s| s.connections.cached_head_replies),
    count("log_records_dropped", "Records that the access log lost", |s| s.log.dropped),
    count("log_write_errors", "Failed writes of the logs", |s| s.log.write_errors),
];

impl Collector for ServerCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        encode_rows(&mut encoder, &ROWS, self)?;
        let of = &self.connections;
        let cut = [
            ([("reason", "header-timeout")], of.header_timeouts),
            ([("reason", "idle-timeout")], of.idle_timeouts),
            ([("reason", "send-timeout")], of.send_timeouts),
            ([("reason", "drain")], of.drain_aborts),
            ([("reason", "flood")], of.floods),
        ];
        let help = "Connections ended by the server, by reason";
        let family = ("connections_cut", help, None, MetricType::Counter);
        encode_family(&mut encoder, family, cut)?;
        let help = "Parts that are out of service while the server runs, by kind";
        let family = ("degraded_parts", help, None, MetricType::Gauge);
        let by_kind = self.degraded.iter();
        let by_kind = by_kind.map(|(kind, count)| ([("kind", kind.name())], *count));
        encode_family(&mut encoder, family, by_kind)?;
        if !self.certificates.is_empty() {
            let help = "When a certificate expires, since 1970, by its file";
            let unit = Some(Unit::Seconds);
            let family = ("certificate_expires", help, unit, MetricType::Gauge);
            let by_file = self.certificates.iter().map(|one| {
                let file = one.file.display().to_string();
                let expires = u64::try_from(one.expires_unix_s).unwrap_or(0);
                ([("file", file)], expires)
            });
            encode_family(&mut encoder, family, by_file)?;
        }
        let by_class = STATUS_CLASSES.map(|class| [("class", class)]);
        let help = "Replies to viewers, by status class";
        let family = ("responses", help, None, MetricType::Counter);
        encode_family(
            &mut encoder,
            family,
            by_class.into_iter().zip(self.responses),
        )
    }
}
