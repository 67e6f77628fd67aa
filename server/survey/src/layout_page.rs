//! The page of `headlong disk layout`: thesis Figure 3.6 of the titles at hand.

use headlong_report::{Axis, Chart, Page, Section, Series, disk_layout};
use headlong_stats::Cdf;

use crate::decimal_bytes::decimal_bytes;
use crate::layout::{Divergence, Layout};
use crate::layout_tables::{table, tell_apart};
use crate::output::command_line;

/// Most titles listed on a page.
const LISTED_MAX: usize = 100;

pub(crate) fn page(first: &Layout, second: Option<&Layout>, apart: Option<&Divergence>) -> Page {
    let layouts: Vec<&Layout> = [Some(first), second].into_iter().flatten().collect();
    let names: Vec<String> = layouts
        .iter()
        .map(|layout| layout.directory.display().to_string())
        .collect();
    let places: Vec<Vec<f64>> = layouts
        .iter()
        .map(|layout| {
            layout
                .titles
                .iter()
                .map(|title| title.mean_lba.unwrap_or(f64::NAN))
                .collect()
        })
        .collect();
    let pairs = names
        .iter()
        .map(String::as_str)
        .zip(places.iter().map(Vec::as_slice));
    let chart = disk_layout("Where titles lie", pairs).caption(
        "Mean address of each title in sectors of 512 bytes, in the order in which titles were made: a \
         rising line if those made later lie behind those made earlier.",
    );
    let mut where_they_lie = Section::new("Places").figure(chart);
    if let Some(apart) = apart {
        where_they_lie = where_they_lie.text(tell_apart(apart));
    }
    let mut runs = Chart::steps(
        "Titles by the length of their runs",
        Axis::new("Mean length of a title's runs", "KiB").log2(),
        "Titles",
    );
    for (name, layout) in names.iter().zip(&layouts) {
        let titles = layout.titles.iter().filter(|title| title.runs > 0);
        let means = titles.map(|title| title.bytes as f64 / title.runs as f64);
        if let Ok(cdf) = Cdf::of(means) {
            runs = runs.series(Series::of_cdf(name.as_str(), &cdf, 1.0 / 1024.0));
        }
    }
    let runs = runs.caption(
        "A run is what is contiguous on the disk when a title's files are read in order; between two \
         runs the head moves.",
    );
    let mut page = Page::new(format!("Layout of {}", names.join(" and ")))
        .section(where_they_lie.command(command_line()))
        .section(Section::new("Fragmentation").figure(runs));
    for (name, layout) in names.iter().zip(&layouts) {
        page = page.section(details(name, layout));
    }
    page.footer(concat!("headlong ", env!("CARGO_PKG_VERSION")))
}

fn details(name: &str, layout: &Layout) -> Section {
    let summary = layout.summary();
    let text = format!(
        "{} titles in {} files, {} on {}. {} files are in more than one extent, {} titles lie in one \
         run; a run holds {} on average. {} titles are out of sequence by more than 1 % of the disk.",
        summary.titles,
        summary.files,
        decimal_bytes(summary.bytes),
        layout.device,
        summary.fragmented_files,
        summary.contiguous_titles,
        decimal_bytes(summary.bytes_per_run as u64),
        summary.outliers,
    );
    let remarkable = layout
        .titles
        .iter()
        .filter(|title| title.is_outlier || title.runs > 1);
    let list = table(remarkable.take(LISTED_MAX));
    let section = Section::new(name).text(text);
    match list.is_empty() {
        true => section,
        false => section.table(list.caption(format!(
            "Titles in more than one run or out of sequence, the first {LISTED_MAX}"
        ))),
    }
}
