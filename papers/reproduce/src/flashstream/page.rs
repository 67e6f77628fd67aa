//! Tables and HTML page.

use headlong_bench::{BenchError, BenchOptions, CommandOutcome};
use headlong_published::PublishedComparison;
use headlong_report::{
    Axis, Bars, Cell, Chart, Page, Section, Series, Table, divergence_by_size, latency_cdf,
};
use headlong_stats::Cdf;

use super::results::FlashstreamResult;
use super::tiered_systems::BlockRun;
use super::writes::SizeLatencies;

const WORDS: &str = "The paper's own system, ZFS and flashcache are models of this repository, \
                     over its drive models; measurements on a real kernel are reported elsewhere. \
                     The paper's disk is only known to have 7,200 rpm; ours is a Seagate of 1 TB, \
                     which is faster, so ratios count and not rates. A scale divides titles, \
                     memory and flash; rates are not scaled.";
const ZIPF: &str = "\"Zipf with 0.2\" can be 1/rank^0.2, or 1/rank^(1-0.2), as in the literature \
                    that uses parameters of 0.2 to 0.4. With the first, 75 GB of 545 get a fifth \
                    of the requests and no cache could double a rate; the published share of hits, \
                    34 %, corresponds to the second, which is used here unless --alpha is set.";

/// Writes the page and prints the tables.
pub(super) fn publish(
    streamed: &FlashstreamResult,
    options: &BenchOptions,
) -> Result<CommandOutcome, BenchError> {
    let mut json = serde_json::to_value(streamed).unwrap_or_default();
    json["beside"] = serde_json::to_value(streamed.beside()).unwrap_or_default();
    options.keep(&json)?;
    let text = text(streamed);
    let section = format!("    {}\n\n{text}", options.command_line);
    let page = page(streamed, options);
    options.publish(page, ("flashstream", &section), (&json, &text))?;
    Ok(match streamed.holds() {
        true => CommandOutcome::Done,
        false => CommandOutcome::Missed,
    })
}

fn text(streamed: &FlashstreamResult) -> String {
    let seeds: Vec<String> = streamed.seeds.iter().map(ToString::to_string).collect();
    let mut tables = vec![beside(&streamed.beside())];
    tables.extend(
        [limits(streamed), fills(streamed), ours(streamed)]
            .into_iter()
            .flatten(),
    );
    let tables: Vec<String> = tables.iter().map(Table::to_markdown).collect();
    format!(
        "Scale {}, Zipf's exponent {}, seeds {}, {:.0} s\n\n{}",
        streamed.scale,
        streamed.alpha,
        seeds.join(", "),
        streamed.seconds,
        tables.join("\n")
    )
}

fn beside(lines: &[PublishedComparison]) -> Table {
    let heads = PublishedComparison::HEADS.into_iter().chain(["Holds"]);
    let mut table = Table::new(heads).caption("Comparison with published figures");
    for line in lines {
        let holds = line.judgement().words().map(str::to_owned);
        table.push(line.cells().into_iter().chain([holds]).map(Cell::from));
    }
    table
}

fn per_cent(share: f64) -> Cell {
    Cell::number(share * 100.0, 1)
}

/// Figure 7.
fn limits(streamed: &FlashstreamResult) -> Option<Table> {
    let heads = "System | Requests per second without a miss | From the SSD (%) | From memory \
        (%) | Longest wait (s)";
    let caption = "Highest rate without a missed segment, and its sources (Figure 7)";
    let mut table = Table::headed(heads).caption(caption);
    for limit in &streamed.limits {
        table.push([
            limit.name.into(),
            Cell::maybe(limit.requests_per_s, 0),
            per_cent(limit.ssd_share),
            per_cent(limit.memory_share),
            Cell::number(limit.longest_s, 2),
        ]);
    }
    (!table.is_empty()).then_some(table)
}

fn fills(streamed: &FlashstreamResult) -> Option<Table> {
    let heads = ["System", "Requests per second", "Minutes to fill 75 GB"];
    let mut table = Table::new(heads).caption(
        "From empty, at the rate of the machine without an SSD, or the system's own if lower",
    );
    for fill in &streamed.fills {
        table.push([
            fill.name.into(),
            Cell::number(fill.requests_per_s, 0),
            Cell::maybe(fill.minutes, 0),
        ]);
    }
    (!table.is_empty()).then_some(table)
}

fn ours(streamed: &FlashstreamResult) -> Option<Table> {
    let heads = "Server | Requests per second without a miss | Bytes from flash (%) | Bytes from \
        memory (%) | Written (GB per day)";
    let mut table = Table::headed(heads).caption("This server in place of the paper's");
    for of in &streamed.ours {
        table.push([
            of.name.into(),
            Cell::maybe(of.requests_per_s, 1),
            per_cent(of.flash_share),
            per_cent(of.memory_share),
            Cell::number(of.written_gb_per_day, 1),
        ]);
    }
    (!table.is_empty()).then_some(table)
}

fn page(streamed: &FlashstreamResult, options: &BenchOptions) -> Page {
    let mut page = Page::new("FlashStream")
        .lead(format!(
            "Scale {}, run time {:.0} s.",
            streamed.scale, streamed.seconds
        ))
        .section(
            Section::new("Comparison with published figures")
                .text(WORDS)
                .text(ZIPF)
                .command(options.command_line.as_str())
                .table(beside(&streamed.beside())),
        );
    if let Some(table) = limits(streamed) {
        let mut bars = Bars::new(
            "Highest rate without a missed segment (Figure 7a)",
            Axis::new("Requests", "1/s").from(0.0),
        )
        .series("here");
        for limit in &streamed.limits {
            bars = bars.group(
                limit.name,
                [limit.requests_per_s.map(headlong_report::Bar::from)],
            );
        }
        let mut section = Section::new("Systems").figure(bars).table(table);
        if let Some(fills) = fills(streamed) {
            section = section.table(fills);
        }
        page = page.section(section);
    }
    if let Some(table) = ours(streamed) {
        page = page.section(Section::new("This server").table(table));
    }
    if !streamed.blocks.is_empty() {
        page = page.section(block_section(&streamed.blocks));
    }
    if let Some(ssds) = &streamed.ssds {
        let mut section = Section::new("SSDs and block sizes");
        for latencies in &ssds.latencies {
            section = latency_charts(section, latencies);
        }
        let mut chart = divergence_by_size("Random against sequential writes (Figure 3)", 0.1);
        for blocks in &ssds.blocks {
            let points = blocks.divergences.iter().copied();
            chart = chart.series(Series::new(blocks.drive.as_str(), points));
        }
        page = page.section(section.figure(chart));
    }
    page.footer(concat!("headlong ", env!("CARGO_PKG_VERSION")))
}

fn latency_charts(section: Section, latencies: &SizeLatencies) -> Section {
    let mib = latencies.bytes >> 20;
    let x = Axis::new("Write", "").from(0.0);
    let y = Axis::new("Latency", "ms").from(0.0);
    let in_order = |values: &[f64]| -> Vec<(f64, f64)> {
        let numbered = values.iter().enumerate();
        numbered.map(|(index, s)| (index as f64, s * 1e3)).collect()
    };
    let chart = Chart::scatter(format!("Consecutive writes of {mib} MB"), x, y)
        .series(Series::new("sequential", in_order(&latencies.sequential_s)))
        .series(Series::new("random", in_order(&latencies.random_s)));
    let cdfs = [&latencies.sequential_s, &latencies.random_s].map(|of| Cdf::of(of.clone()));
    match cdfs {
        [Ok(sequential), Ok(random)] => section.figure(chart).figure(latency_cdf(
            format!("The same, as a distribution ({mib} MB)"),
            "writes",
            [("sequential", &sequential), ("random", &random)],
        )),
        _ => section.figure(chart),
    }
}

fn block_section(runs: &[BlockRun]) -> Section {
    let mut section = Section::new("Effect of block sizes (Figure 8)")
        .text("An hour from a cold cache, with free blocks selected at random; scaled.");
    for (title, unit, of) in [
        ("Read from the SSD", "MB/s", 0),
        ("Written to the SSD", "MB/s", 1),
        ("SSD busy", "%", 2),
    ] {
        let x = Axis::new("Time", "min").from(0.0);
        let mut chart = Chart::lines(title, x, Axis::new(title, unit).from(0.0));
        for run in runs {
            let value = |stretch: &super::machine::SsdSample| match of {
                0 => stretch.read_mb_s,
                1 => stretch.written_mb_s,
                _ => stretch.busy * 100.0,
            };
            let points = run.stretches.iter().map(|of| (of.minute, value(of)));
            let name = match run.block_bytes {
                4096 => "4 KB blocks",
                _ => "16 MB blocks",
            };
            chart = chart.series(Series::new(name, points));
        }
        section = section.figure(chart);
    }
    section
}
