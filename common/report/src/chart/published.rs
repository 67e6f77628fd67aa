//! The charts of the papers with the same axes, so that results can be compared directly.

use headlong_stats::Cdf;

use super::{Axis, Bars, Chart, Series};

const MS_PER_SECOND: f64 = 1e3;

/// The maximum failure-free rate of each configuration in MB/s, as measured and, if known, as
/// published.
pub fn maximum_rates(title: impl Into<String>) -> Bars {
    Bars::new(title, Axis::new("Maximum failure-free rate", "MB/s"))
        .series("measured here")
        .reference("published")
}

/// The address of each request, in the order in which the drive executed them (libception Figures 2
/// to 5). A few hundred requests best show the access pattern of a server.
pub fn lba_over_transactions(
    title: impl Into<String>,
    lbas: impl IntoIterator<Item = u64>,
) -> Chart {
    let x = Axis::new("Transaction number", "").from(0.0);
    let y = Axis::new("Logical block address", "").from(0.0);
    let points = lbas.into_iter().enumerate();
    let points = points.map(|(index, lba)| (index as f64, lba as f64));
    Chart::scatter(title, x, y).series(Series::new("requests", points))
}

/// Distributions of latencies given in seconds, shown in milliseconds. A logarithmic axis shows
/// both the tail and the bulk.
pub fn latency_cdf<'a>(
    title: impl Into<String>,
    what: impl Into<String>,
    latencies: impl IntoIterator<Item = (&'a str, &'a Cdf)>,
) -> Chart {
    let mut chart = Chart::steps(title, Axis::new("Latency", "ms").log(), what);
    for (name, cdf) in latencies {
        chart = chart.series(Series::of_cdf(name, cdf, MS_PER_SECOND));
    }
    chart
}

/// The divergence of random from sequential writes by request size (FlashStream Figure 3). Points:
/// MB, nats.
pub fn divergence_by_size(title: impl Into<String>, threshold: f64) -> Chart {
    let x = Axis::new("Request size", "MB").log2();
    let y = Axis::new("Divergence of random from sequential", "nats").from(0.0);
    Chart::lines(title, x, y).line_at_y(threshold, "threshold")
}
