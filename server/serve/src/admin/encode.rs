//! Encoding of metric families and their series.

use std::fmt;

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

/// Name, help, unit and kind of a family.
pub(super) type Family<'a> = (&'a str, &'a str, Option<Unit>, MetricType);

/// A family with one value for each item, and the function that reads it.
pub(super) struct MetricRow<T>(Family<'static>, fn(&T) -> u64);

type Text = &'static str;

pub(super) const fn gauge<T>(name: Text, help: Text, read: fn(&T) -> u64) -> MetricRow<T> {
    MetricRow((name, help, None, MetricType::Gauge), read)
}

pub(super) const fn gauge_bytes<T>(name: Text, help: Text, read: fn(&T) -> u64) -> MetricRow<T> {
    MetricRow((name, help, Some(Unit::Bytes), MetricType::Gauge), read)
}

pub(super) const fn count<T>(name: Text, help: Text, read: fn(&T) -> u64) -> MetricRow<T> {
    MetricRow((name, help, None, MetricType::Counter), read)
}

pub(super) const fn count_bytes<T>(name: Text, help: Text, read: fn(&T) -> u64) -> MetricRow<T> {
    MetricRow((name, help, Some(Unit::Bytes), MetricType::Counter), read)
}

/// Encodes all rows of one item, without a label.
pub(super) fn encode_rows<T>(
    encoder: &mut DescriptorEncoder<'_>,
    rows: &[MetricRow<T>],
    of: &T,
) -> fmt::Result {
    for MetricRow((name, help, unit, kind), read) in rows {
        let metric = encoder.encode_descriptor(name, help, unit.as_ref(), *kind)?;
        read(of).encode(metric, *kind)?;
    }
    Ok(())
}

/// Encodes all rows, with one labelled series for each item.
pub(super) fn encode_each<'i, T: 'i>(
    encoder: &mut DescriptorEncoder<'_>,
    prefix: &str,
    label: &'static str,
    rows: &[MetricRow<T>],
    items: impl Iterator<Item = (&'i str, &'i T)> + Clone,
) -> fmt::Result {
    for MetricRow((name, help, unit, kind), read) in rows {
        let name = format!("{prefix}_{name}");
        let series = items.clone().map(|(name, of)| ([(label, name)], read(of)));
        encode_family(encoder, (&name, help, unit.clone(), *kind), series)?;
    }
    Ok(())
}

/// Encodes a family with these series.
pub(super) fn encode_family<const N: usize, S: AsRef<str>>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help, unit, kind): Family<'_>,
    series: impl IntoIterator<Item = ([(&'static str, S); N], impl MetricValue)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
    for (labels, value) in series {
        let labels = labels.each_ref().map(|(name, of)| (*name, of.as_ref()));
        value.encode(family.encode_family(&labels)?, kind)?;
    }
    Ok(())
}

/// A value of a series.
pub(super) trait MetricValue {
    fn encode(self, metric: MetricEncoder<'_>, kind: MetricType) -> fmt::Result;
}

impl MetricValue for u64 {
    fn encode(self, metric: MetricEncoder<'_>, kind: MetricType) -> fmt::Result {
        encode_number(metric, kind, self)
    }
}

impl MetricValue for f64 {
    fn encode(self, metric: MetricEncoder<'_>, kind: MetricType) -> fmt::Result {
        encode_number(metric, kind, self)
    }
}

fn encode_number(
    mut metric: MetricEncoder<'_>,
    kind: MetricType,
    number: impl EncodeCounterValue + EncodeGaugeValue,
) -> fmt::Result {
    match kind {
        MetricType::Counter => metric.encode_counter::<NoLabelSet, _, u64>(&number, None),
        _ => metric.encode_gauge(&number),
    }
}
