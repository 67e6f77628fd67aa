//! The report as an HTML page and as text.

use headlong_report::{Axis, Cell, Chart, Page, Section, Series, Table};

use crate::claims::Claim;
use crate::point::CostPoint;
use crate::report::SimulationReport;
use crate::survival::{SurvivalFit, SurvivalLaw};

/// Rules of Figure 5.22.
const BY_BIT_RATE: [&str; 3] = ["fixed", "proportional", "square-root"];

/// Published figures of utilisation.
const PUBLISHED_UTIL: &str = "Published: fixed 57 % at 7 MB, square-root 54 % at 8 MB, \
    first-grow-sr 50 % at 16 MB, of one private log.";
/// Published figures of memory.
const PUBLISHED_MEM: &str = "Published: fixed 47 GB at 7 MB, proportional 29, square-root 31; \
    first-grow-sr 52 GB at 16 MB.";

/// The report as one page.
pub fn page(report: &SimulationReport) -> Page {
    let page = Page::new("Prefetching on the chains of a log").lead(lead(report));
    sections(report).into_iter().fold(page, Page::section)
}

/// Its sections, for a page with further content.
pub fn sections(report: &SimulationReport) -> Vec<Section> {
    let mut sections = vec![method(report), rules(report)];
    sections.push(claims_section(report));
    sections.push(first_sizes(report));
    sections.push(survival(report));
    sections.push(
        Section::new("All points")
            .text("The data of the charts.")
            .table(points_table(report)),
    );
    sections
}

/// The points as text.
pub fn text(report: &SimulationReport) -> String {
    let mut text = points_table(report).to_markdown();
    text.push('\n');
    text.push_str(&first_sizes_table(report).to_markdown());
    if let Some(multiplier) = report.survival.multiplier {
        text.push_str(&format!(
            "\nWith a probability of {}, a chain of 1 to 200 MB continues for \
             {multiplier:.2} times its length (published {:.2}).{}\n",
            report.survival.survival,
            report.survival.published_multiplier,
            raised(&report.survival)
        ));
    }
    if report.claims.iter().any(|claim| claim.worst.is_some()) {
        text.push('\n');
        text.push_str(&claims_table(report).to_markdown());
    }
    text
}

fn lead(report: &SimulationReport) -> String {
    let source = &report.source;
    let best = report
        .points
        .points
        .iter()
        .min_by(|one, other| one.util_busiest.total_cmp(&other.util_busiest));
    let best = best.map_or(String::new(), |best| {
        format!(
            " The lowest utilisation is that of {} at {} MB: {:.1} % of the busiest minute, with \
             {:.1} GB of memory.",
            best.algorithm,
            best.size,
            best.util_busiest * 100.0,
            best.mem
        )
    });
    format!(
        "{} chains of {} from {} drives over {} minutes.{best}",
        source.chains, source.name, source.drives, source.minutes
    )
}

fn method(report: &SimulationReport) -> Section {
    let (source, given) = (&report.source, &report.given);
    let mut section = Section::new("Method").text(format!(
        "Each chain is consumed evenly from its first arrival to its last completion, and read by \
         prefetches with the sizes of the server's own rules, each issued when the earlier ones \
         are consumed. A prefetch costs a seek and its bytes, in the minute of its issue; a drive \
         is busy for bytes / {:.1} MB/s + seeks / {:.1} per second. Memory is a chain's latest \
         prefetch until 40 s after its end. There is no queue and no sharing (thesis 5.6.2). A MB \
         is {} bytes.",
        given.drive.bytes_per_s / given.mb as f64,
        given.drive.seeks_per_s,
        given.mb
    ));
    if source.without_bit_rate > 0 {
        section = section.note(format!(
            "{} chains have no bit rate and were sized as if it were 2,000 kbit/s.",
            source.without_bit_rate
        ));
    }
    if source.unlisted > 0 {
        section = section.note(format!(
            "{} chains are of files missing in the files table.",
            source.unlisted
        ));
    }
    if source.dropped.lines > 0 {
        section = section.note(format!(
            "{} lines were dropped; the first: {}.",
            source.dropped.lines,
            source.dropped.samples.join("; ")
        ));
    }
    section
}

/// A chart of one figure of each rule over the size.
fn over_size(
    report: &SimulationReport,
    title: &str,
    axis: Axis,
    wanted: impl Fn(&str) -> bool,
    of: impl Fn(&CostPoint) -> f64,
) -> Chart {
    let chart = Chart::lines(title, Axis::new("Prefetch size", "MB").from(0.0), axis);
    let names = report.points.algorithms().into_iter();
    names
        .filter(|name| wanted(name))
        .fold(chart, |chart, name| {
            let points = report.points.of(name);
            chart.series(Series::new(
                name,
                points.map(|point| (point.size, of(point))),
            ))
        })
}

fn is_by_bit_rate(name: &str) -> bool {
    BY_BIT_RATE.contains(&name)
}

fn is_by_chain(name: &str) -> bool {
    name == "fixed" || name.starts_with("first-grow")
}

fn rules(report: &SimulationReport) -> Section {
    let util = || Axis::new("Utilisation", "%");
    let mem = || Axis::new("Memory", "GB").from(0.0);
    let mut section = Section::new("Comparison of rules").text(
        "The size is the prefetch itself (fixed), that for 2,000 kbit/s (proportional, \
         square-root), the largest (first-grow) or the largest for 2,000 kbit/s (first-grow-sr). \
         The thesis reports the worst drive in its worst minute, a noisy maximum; the mean over \
         drives in the busiest minute is steadier.",
    );
    for (figure, wanted) in [
        ("Figure 5.22", is_by_bit_rate as fn(&str) -> bool),
        ("Figure 5.23", is_by_chain),
    ] {
        let title = |what: &str| format!("{figure}: {what}");
        let worst = title("worst drive, worst minute");
        let busiest = title("busiest minute, mean over drives");
        let memory = title("memory, highest mean of a minute");
        let worst = over_size(report, &worst, util(), wanted, |point| point.util * 100.0);
        let busiest = over_size(report, &busiest, util(), wanted, |point| {
            point.util_busiest * 100.0
        });
        let memory = over_size(report, &memory, mem(), wanted, |point| point.mem);
        section = section
            .figure(worst.caption(PUBLISHED_UTIL))
            .figure(busiest)
            .figure(memory.caption(PUBLISHED_MEM));
    }
    section
}

fn claims_section(report: &SimulationReport) -> Section {
    Section::new("Claims of the thesis")
        .text(
            "Relative claims of thesis 5.6.3, by three definitions of utilisation, judged at the \
             busiest minute. Its percentages belong to one private log; each comes out if it is \
             within a quarter.",
        )
        .table(claims_table(report))
}

fn claims_table(report: &SimulationReport) -> Table {
    let cell = |claim: &&Claim, value: Option<f64>| match claim.unit.as_str() {
        "yes/no" => value.map(|value| value == 1.0).into(),
        _ => Cell::maybe(value, 1),
    };
    Table::of(
        &report.claims,
        &[
            ("Claim", &|claim| claim.claim.as_str().into()),
            ("Unit", &|claim| claim.unit.as_str().into()),
            ("Thesis", &|claim| {
                let value = claim.published.value.as_ref();
                cell(claim, value.map(|value| value.number))
            }),
            ("Worst drive and minute", &|claim| cell(claim, claim.worst)),
            ("Busiest minute", &|claim| cell(claim, claim.busiest)),
            ("All time", &|claim| cell(claim, claim.mean)),
            ("Comes out", &|claim| claim.verdict().word().into()),
        ],
    )
}

fn first_sizes(report: &SimulationReport) -> Section {
    Section::new("The first prefetch of a chain (Table 5.6)")
        .text(format!(
            "The size with the lowest ratio of cost to benefit. The benefit of a size is the bytes \
             of it that viewers consume; the cost is the bytes they do not, and {:.2} MB for each \
             longer chain, the bytes that could be transferred in the time of a seek. The \
             published 1,049,212 bytes cannot be the best by this rule for chains of which 84 % \
             are exactly 786,432 bytes long.",
            report.first_sizes.seek_bytes / report.given.mb as f64
        ))
        .table(first_sizes_table(report))
}

fn first_sizes_table(report: &SimulationReport) -> Table {
    Table::of(
        &report.first_sizes.classes,
        &[
            ("Chain starts", &|first| first.class.into()),
            ("Chains", &|first| first.chains.into()),
            ("Best size (bytes)", &|first| first.best_bytes.into()),
            ("No longer (%)", &|first| {
                Cell::maybe(first.within.map(|share| share * 100.0), 1)
            }),
            ("Cost/benefit", &|first| Cell::maybe(first.ratio, 3)),
            ("Published size (bytes)", &|first| {
                first.published_bytes.into()
            }),
            ("Its cost/benefit here", &|first| {
                Cell::maybe(first.published_ratio, 3)
            }),
        ],
    )
}

/// Start and end of a power law among the observed lengths; it starts where it gives a share of at
/// most 100 %.
fn ends(law: &SurvivalLaw, survival: &SurvivalFit) -> [f64; 2] {
    let starts = survival.laws.iter().map(|law| law.from_bytes);
    let next = starts.filter(|start| *start > law.from_bytes).min();
    let least = survival.longer.first().map_or(1, |point| point.0);
    let greatest = survival.longer.last().map_or(1, |point| point.0);
    let to = next.unwrap_or(greatest).min(greatest) as f64;
    let all_longer = law.a.powf(1.0 / law.c);
    let from = (law.from_bytes.max(least) as f64).max(all_longer);
    [from.min(to), to]
}

/// `0`, `1 M`, `200 M`.
fn plain(bytes: u64) -> String {
    match bytes / 1_000_000 {
        0 => bytes.to_string(),
        millions => format!("{millions} M"),
    }
}

fn survival(report: &SimulationReport) -> Section {
    let survival = &report.survival;
    let points = survival
        .longer
        .iter()
        .map(|(length, share)| (*length as f64, share * 100.0));
    let mut chart = Chart::lines(
        "Survival of chains (Figure 5.13)",
        Axis::new("Length", "bytes").log(),
        Axis::new("Longer chains", "%").log(),
    )
    .series(Series::new("chains", points));
    for law in &survival.laws {
        let ends = ends(law, survival).map(|length| (length, law.at(length) * 100.0));
        let name = format!("from {} B: x^-{:.3}", plain(law.from_bytes), law.c);
        chart = chart.series(Series::new(name, ends).reference());
    }
    let format_multiplier = |multiplier: Option<f64>| {
        multiplier.map_or("no fit".to_owned(), |multiplier| format!("{multiplier:.2}"))
    };
    Section::new("Survival of chains")
        .text(format!(
            "With a probability of {}, a chain between 1 MB and 200 MB continues for {} times its \
             length (Eq. 5.3; fitted to all distinct lengths; {} from 200 equally spaced points). \
             Published: {}.{}",
            survival.survival,
            format_multiplier(survival.multiplier),
            format_multiplier(survival.multiplier_grid),
            survival.published_multiplier,
            raised(survival)
        ))
        .figure(chart)
}

/// Growth used by fitted rules if the fit is below 1.
fn raised(survival: &SurvivalFit) -> &'static str {
    match survival.is_raised() {
        true => " Fitted rules grow by 1, because prefetches never shrink.",
        false => "",
    }
}

fn points_table(report: &SimulationReport) -> Table {
    let gigabyte = report.given.gb as f64;
    let first_minute = report.source.first_minute as u64;
    let decimals = |size: f64| if size.fract() == 0.0 { 0 } else { 3 };
    Table::of(
        &report.points.points,
        &[
            ("Rule", &|point| point.algorithm.as_str().into()),
            ("MB", &|point| {
                Cell::number(point.size, decimals(point.size))
            }),
            ("Prefetches", &|point| point.prefetches.into()),
            ("Read (GB)", &|point| {
                Cell::number(point.read as f64 / gigabyte, 1)
            }),
            ("Worst (%)", &|point| Cell::number(point.util * 100.0, 2)),
            ("Drive", &|point| point.util_drive.into()),
            // A log's own times count from 1970.
            ("Minute", &|point| {
                point.util_minute.saturating_sub(first_minute).into()
            }),
            ("Busiest (%)", &|point| {
                Cell::number(point.util_busiest * 100.0, 2)
            }),
            ("All time (%)", &|point| {
                Cell::number(point.util_mean * 100.0, 2)
            }),
            ("Mem (GB)", &|point| Cell::number(point.mem, 2)),
            ("Touched (GB)", &|point| Cell::number(point.mem_touch, 2)),
            ("1 s (GB)", &|point| Cell::number(point.mem_peak, 2)),
        ],
    )
}

#[cfg(test)]
mod tests {
    use headlong_engine::Policy;

    use super::*;
    use crate::{Algorithm, ChainRow, ChainTable, SimulationSettings, Sweep, TableSource};

    fn report() -> SimulationReport {
        let rows = (0..300_i64).map(|index| ChainRow {
            session: 0,
            file: index as u32 % 7,
            start: index as u64 % 3,
            length: 1 + index as u64 * index as u64 * 800,
            start_ms: index * 1_700,
            end_ms: index * 1_700 + 90_000,
            is_open: index % 2 == 0,
            bit_rate: None,
            disk: (index % 3) as u16,
        });
        let table = ChainTable::new(rows).expect("chains");
        let settings = SimulationSettings::default();
        let sweep = Sweep {
            algorithms: Policy::ALL.iter().copied().map(Algorithm::plain).collect(),
            sizes_mb: vec![1.0, 2.5, 7.0],
        };
        let source = TableSource::of("a <log>", &table, &settings);
        SimulationReport::make(source, &table, &sweep, &settings, true, |_| ()).expect("a report")
    }

    #[test]
    fn page_has_all_figures_tables_and_rules() {
        let html = page(&report()).to_html();
        for part in [
            "Figure 5.22",
            "Figure 5.23",
            "Table 5.6",
            "Figure 5.13",
            "first-grow-sr-fitted",
            "a &lt;log&gt;",
            "300 chains have no bit rate",
        ] {
            assert!(html.contains(part), "{part} is missing");
        }
    }

    #[test]
    fn text_has_line_per_point() {
        let report = report();
        let text = text(&report);
        let lines = text.lines().filter(|line| line.starts_with("| fixed "));
        assert_eq!(lines.count(), 3);
        assert_eq!(report.points.points.len(), (Policy::ALL.len() + 2) * 3);
        assert!(text.contains("131073"));
    }

    #[test]
    fn json_has_documented_field_names() {
        let json = serde_json::to_value(report()).expect("JSON");
        let point = &json["points"][0];
        for name in [
            "algorithm",
            "size",
            "prefetches",
            "read",
            "util",
            "util_drive",
            "util_minute",
            "util_mean",
            "util_busiest",
            "mem",
            "mem_touch",
            "mem_peak",
        ] {
            assert!(!point[name].is_null(), "{name} is missing in {point}");
        }
        assert_eq!(json["given"]["mb"], 1_048_576);
    }
}
