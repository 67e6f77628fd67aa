//! All kinds of charts with synthetic data, for visual inspection: `cargo run -p headlong-report
//! --example gallery -- gallery.html`.

use std::path::PathBuf;

use headlong_report::{
    Axis, Bar, Cell, Chart, DiskAccess, Page, Section, Series, Table, divergence_by_size,
    latency_cdf, lba_over_transactions, maximum_rates,
};
use headlong_stats::{Access, Cdf, ConfidenceInterval, Sequences, Summary};

/// A value that looks irregular but is always the same for the same index.
fn noise(index: u64) -> f64 {
    let mixed = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) as f64 / u64::MAX as f64
}

fn interval(mean: f64, spread: f64) -> ConfidenceInterval {
    let runs: Summary = [mean - spread, mean, mean + spread].into_iter().collect();
    runs.interval(0.95).expect("three runs")
}

fn trace(streams: u64, run: u64) -> Vec<DiskAccess> {
    let access = |index: u64| {
        let (stream, step) = (
            (index / run) % streams,
            index / (run * streams) * run + index % run,
        );
        let start_bytes = (noise(stream) * 140e6) as u64 * 512 + step * 131_072;
        let access = Access {
            start_bytes,
            length_bytes: 131_072,
            is_write: false,
        };
        DiskAccess {
            started_ns: index,
            ended_ns: None,
            access,
        }
    };
    (0..250).map(access).collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os()
        .nth(1)
        .map_or("gallery.html".into(), PathBuf::from);
    let rates = [20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0];
    let line = |limit: f64| rates.map(|rate| (rate, f64::min(rate * 1.9, limit)));
    let lines = throughput_over_rate("Throughput by server, SD")
        .series(Series::new("headlong", line(130.0)))
        .series(Series::new("nginx, aio threads", line(62.0)))
        .series(Series::new("Apache, event", line(48.0)))
        .series(
            Series::new(
                "userver, published",
                rates.map(|rate| (rate, f64::min(rate * 1.8, 110.0))),
            )
            .reference(),
        )
        .caption("Synthetic data. Whiskers are 95 % confidence intervals of three runs.");
    let failures = failures_over_rate("Sessions that failed")
        .series(Series::new(
            "headlong",
            rates.map(|rate| (rate, f64::max(0.0, rate - 65.0))),
        ))
        .series(Series::new(
            "nginx, aio threads",
            rates.map(|rate| (rate, f64::max(0.0, rate - 33.0) * 1.6)),
        ))
        .line_at_y(0.3, "0.3 %");
    let bars = maximum_rates("Maximum failure-free rate, WD Red")
        .group("headlong", [Some(Bar::from(interval(83.1, 1.2))), None])
        .group(
            "nginx, aio threads, read_ahead_kb 512, max_sectors_kb 1280",
            [Some(interval(27.8, 0.6).into()), Some(58.29.into())],
        )
        .group(
            "nginx, default",
            [Some(interval(24.9, 0.4).into()), Some(25.11.into())],
        )
        .group(
            "Apache, default",
            [Some(interval(19.0, 1.4).into()), Some(25.18.into())],
        );
    let vanilla = trace(24, 2);
    let asap = trace(24, 16);
    let sequences = |trace: &[DiskAccess]| {
        trace
            .iter()
            .map(|access| access.access)
            .collect::<Sequences>()
    };
    let (a, b) = (sequences(&vanilla), sequences(&asap));
    let latencies = |scale: f64| Cdf::of((0..5000).map(|i| scale * (0.2 - (1.0 - noise(i)).ln())));
    let (fast, slow) = (latencies(0.004)?, latencies(0.02)?);
    let cold: Vec<f64> = (0..20_000)
        .map(|i| (0.002 + 0.2 * noise(i)) * (1.0 + 3.0 * (-(i as f64) / 3000.0).exp()))
        .collect();
    let warm: Vec<f64> = (0..20_000).map(|i| 0.002 + 0.1 * noise(i + 7)).collect();
    let sizes = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];
    let divergence = divergence_by_size("Optimal block size", 0.1)
        .series(Series::new(
            "drive",
            sizes.map(|size| (size, 3.0 * (-size / 4.0f64).exp())),
        ))
        .line_at_x(16.0, "16 MB");
    let table = Table::new(["Server", "Rate (MB/s)", "Ratio", "Runs"])
        .caption("Synthetic data")
        .row([
            "headlong".into(),
            Cell::interval(&interval(83.1, 1.2), 1),
            Cell::ends(&interval(3.3, 0.1), 2),
            3u64.into(),
        ])
        .row([
            "nginx, default".into(),
            Cell::interval(&interval(24.9, 0.4), 1),
            Cell::Missing,
            3u64.into(),
        ]);
    Page::new("Chart gallery")
        .lead("Synthetic data, for visual inspection of the charts.")
        .section(
            Section::new("Rates")
                .note("This run is invalid: the generator lagged by 12 ms at the 99th percentile.")
                .table(table)
                .command("headlong bench compare experiment.toml\nheadlong report result.json")
                .figure(lines)
                .figure(failures)
                .figure(bars),
        )
        .section(
            Section::new("Disk")
                .figure(lba_over_transactions("Vanilla", &vanilla))
                .figure(lba_over_transactions("ASAP", &asap))
                .figure(sequentiality_cdf(
                    "Sequentiality",
                    [("vanilla", &a), ("ASAP", &b)],
                )),
        )
        .section(
            Section::new("Times")
                .figure(latency_cdf(
                    "Time to first byte",
                    "Requests",
                    [("headlong", &fast), ("nginx", &slow)],
                ))
                .figure(response_over_order(
                    "Warming",
                    [("cold", &cold[..]), ("warmed", &warm[..])],
                ))
                .figure(divergence)
                .figure(Chart::lines(
                    "Nothing",
                    Axis::new("x", ""),
                    Axis::new("y", ""),
                )),
        )
        .footer("headlong, gallery of charts")
        .write(&path)?;
    Ok(())
}

/// Throughput over the target request rate (thesis Figures 3.9 to 3.15). Points: requests/s, MB/s.
fn throughput_over_rate(title: impl Into<String>) -> Chart {
    let x = Axis::new("Target request rate", "requests/s").from(0.0);
    Chart::lines(title, x, Axis::new("Throughput", "MB/s").from(0.0))
}

/// Failed sessions over the target request rate (thesis Figure 3.11b). Points: requests/s, per
/// cent.
fn failures_over_rate(title: impl Into<String>) -> Chart {
    let x = Axis::new("Target request rate", "requests/s").from(0.0);
    Chart::lines(title, x, Axis::new("Failed sessions", "%").from(0.0))
}

/// The fraction of bytes in sequences of adjacent requests up to a certain length (libception
/// Figure 6), with one curve per named trace; a trace without requests has none.
fn sequentiality_cdf<'a>(
    title: impl Into<String>,
    traces: impl IntoIterator<Item = (&'a str, &'a Sequences)>,
) -> Chart {
    let x = Axis::new("Length of sequence", "KiB").log2();
    let mut chart = Chart::steps(title, x, "Bytes");
    for (name, sequences) in traces {
        if let Ok(cdf) = sequences.cdf() {
            chart = chart.series(Series::of_cdf(name, &cdf, 1.0 / 1024.0));
        }
    }
    chart
}

/// Response times in seconds, in the order of the requests (thesis Figure 3.7: how warm the cache
/// is, and whether a steady state was reached).
fn response_over_order<'a>(
    title: impl Into<String>,
    runs: impl IntoIterator<Item = (&'a str, &'a [f64])>,
) -> Chart {
    let x = Axis::new("Requests so far", "").from(0.0);
    let mut chart = Chart::scatter(title, x, Axis::new("Response time", "ms").from(0.0));
    for (name, seconds) in runs {
        let times = seconds.iter().enumerate();
        let points = times.map(|(index, seconds)| (index as f64, seconds * 1e3));
        chart = chart.series(Series::new(name, points));
    }
    chart
}
