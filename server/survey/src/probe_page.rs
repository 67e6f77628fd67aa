//! The page of `headlong disk probe`.

use headlong_report::{Cell, Page, Section, Series, Table, divergence_by_size, latency_cdf};
use headlong_stats::Cdf;
use headlong_units::Bytes;

use crate::decimal_bytes::decimal_bytes;
use crate::output::command_line;
use crate::probe::BlockSizes;
use crate::probe_report::{ProbeReport, phase_name, rates_mb, times_ms};

const MIB: f64 = 1024.0 * 1024.0;

/// The page.
pub fn page(probe: &ProbeReport) -> Page {
    let measured = &probe.seeks.measured;
    let mut figures = Table::new(["Figure", "MB/s", "ms"]);
    for (name, rate) in rates_mb(measured) {
        figures.push([name.into(), Cell::number(rate, 1)]);
    }
    for (name, ms) in times_ms(measured) {
        figures.push([name.into(), Cell::Missing, Cell::number(ms, 2)]);
    }
    let turning = match probe.turns {
        true => format!("{} rpm", measured.rpm),
        false => "does not rotate".to_string(),
    };
    let lead = format!("{}: {}, {turning}.", probe.kind, decimal_bytes(probe.bytes));
    let mut page = Page::new(format!("Probe of {}", probe.name))
        .lead(lead)
        .section(seeks(probe).table(figures).command(command_line()));
    if let Some(blocks) = &probe.blocks {
        page = page.section(block_sizes(blocks, probe.threshold));
    }
    if let Some(model) = &probe.model {
        let text = "A drive with the same measurements; properties that cannot be measured are \
                    assumed. `headlong disk emulate` takes it as a drive.";
        page = page.section(Section::new("Model").text(text).command(model.as_str()));
    }
    page.footer(concat!("headlong ", env!("CARGO_PKG_VERSION")))
}

fn seeks(probe: &ProbeReport) -> Section {
    let phases = probe
        .seeks
        .phases
        .iter()
        .filter(|(phase, _)| !phase.is_rate());
    let cdfs = phases.filter_map(|(phase, times)| {
        let seconds = times.iter().map(|time| time.as_secs_f64());
        Some((phase_name(*phase), Cdf::of(seconds).ok()?))
    });
    let cdfs: Vec<(&str, Cdf)> = cdfs.collect();
    let chart = latency_cdf(
        "Reads of one sector",
        "Reads",
        cdfs.iter().map(|(name, cdf)| (*name, cdf)),
    );
    Section::new("Rates and seeks").figure(
        chart.caption("On a disk, the width of a curve is the rotational latency: up to one turn."),
    )
}

fn block_sizes(blocks: &BlockSizes, threshold: f64) -> Section {
    let points = blocks
        .sizes
        .iter()
        .map(|size| (size.bytes as f64 / MIB, size.divergence));
    let mut chart = divergence_by_size("Random against sequential writes", threshold)
        .series(Series::new("divergence", points))
        .caption("Flashstream Figure 3. MB are 2^20 bytes.");
    let text = match blocks.optimal_bytes {
        Some(bytes) => {
            chart = chart.line_at_x(bytes as f64 / MIB, "optimal");
            format!(
                "The optimal block size is {}: the smallest at which random writes take as long as \
                 sequential ones, with a divergence below {threshold}.",
                Bytes(bytes)
            )
        }
        None => format!(
            "At no tested size are random writes like sequential ones: no divergence is below \
             {threshold}."
        ),
    };
    let mut section = Section::new("Block size").text(text).figure(chart);
    for size in &blocks.sizes {
        let cdfs = [
            ("sequential", &size.sequential_s),
            ("random", &size.random_s),
        ]
        .map(|(name, times)| (name, Cdf::of(times.iter().copied())));
        let known = cdfs
            .iter()
            .filter_map(|(name, cdf)| Some((*name, cdf.as_ref().ok()?)));
        let title = format!("Writes of {}", Bytes(size.bytes));
        section = section.figure(latency_cdf(title, "Writes", known));
    }
    section
}
