//! Metrics as the encoder wants them: a family, then its series.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// A gauge without labels.
pub(super) fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: u64,
) -> fmt::Result {
    let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    ConstGauge::new(value).encode(metric)
}

/// A counter with one series for each value of a label.
pub(super) fn labelled_counter(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    label: &'static str,
    values: impl IntoIterator<Item = (&'static str, u64)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (value, count) in values {
        let labels = [(label, value)];
        encode_one(&mut family, &labels, &ConstCounter::new(count))?;
    }
    Ok(())
}

/// One series of a family.
pub(super) fn encode_one(
    family: &mut MetricEncoder<'_>,
    labels: &impl EncodeLabelSet,
    metric: &impl EncodeMetric,
) -> fmt::Result {
    metric.encode(family.encode_family(labels)?)
}
