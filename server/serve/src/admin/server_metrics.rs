//! `/metrics`: one registry for each scrape, filled with what is true at that moment.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use super::device_metrics::DeviceCollector;
use super::encode::{gauge, labelled_counter};
use super::metrics::STATUS_CLASSES;
use super::pull_metrics::PullCollector;
use super::state::AdminState;
use crate::disk::DeviceSnapshot;
use crate::log::LogCounts;
use crate::net::ConnectionCounts;

/// The whole text, as OpenMetrics.
pub(super) fn render(
    state: &AdminState,
    devices: Vec<DeviceSnapshot>,
) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("headlong");
    let build = Info::new(vec![("version", state.version)]);
    registry.register("build", "The program that is running", build);
    registry.register_with_unit(
        "start_time",
        "When the server started, since 1970",
        Unit::Seconds,
        ConstGauge::new(state.started_unix_ms as f64 / 1e3),
    );
    state.requests.register(&mut registry);
    registry.register_collector(Box::new(ServerCollector {
        is_draining: state.draining.is_draining(),
        responses: state.requests.counts_by_class(),
        connections: state.connections.counts(),
        log: state.log.counts(),
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
}

impl Collector for ServerCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let of = &self.connections;
        let draining = u64::from(self.is_draining);
        gauge(
            &mut encoder,
            "draining",
            "1 while the server drains",
            draining,
        )?;
        gauge(
            &mut encoder,
            "connections_open",
            "Connections of viewers open",
            of.open,
        )?;
        gauge(
            &mut encoder,
            "requests_active",
            "Requests in progress",
            of.requests_active,
        )?;
        for (name, help, value) in [
            ("connections_accepted", "Connections accepted", of.accepted),
            (
                "accept_errors",
                "Connections that could not be accepted",
                of.accept_errors,
            ),
            (
                "connection_limit_waits",
                "Times that accepting waited for the limit",
                of.limit_waits,
            ),
            (
                "tls_failures",
                "TLS handshakes that failed",
                of.tls_failures,
            ),
            (
                "proxy_refusals",
                "Connections for proxies without a header of the PROXY protocol, or from strangers",
                of.proxy_refusals,
            ),
            (
                "address_refusals",
                "Connections closed at once because their address had as many as it may",
                of.address_refusals,
            ),
            (
                "heads_refused",
                "Requests that could not be understood, answered 400 or 431; no log has them",
                of.heads_refused,
            ),
            (
                "log_records_dropped",
                "Records the access log had no time for",
                self.log.dropped,
            ),
            (
                "log_write_errors",
                "Writes of the logs that failed",
                self.log.write_errors,
            ),
        ] {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(value).encode(metric)?;
        }
        labelled_counter(
            &mut encoder,
            (
                "connections_cut",
                "Connections ended by the server, by reason",
            ),
            "reason",
            [
                ("header-timeout", of.header_timeouts),
                ("idle-timeout", of.idle_timeouts),
                ("send-timeout", of.send_timeouts),
                ("drain", of.drain_aborts),
            ],
        )?;
        let help = "Replies to viewers, by class of status";
        let by_class = STATUS_CLASSES.into_iter().zip(self.responses);
        labelled_counter(&mut encoder, ("responses", help), "class", by_class)
    }
}
