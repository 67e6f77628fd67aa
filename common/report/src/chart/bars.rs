//! Bar charts: one quantity for several configurations, measured and published.
//!
//! The bars are horizontal, because the names of configurations are long and must remain readable.

use std::fmt::Write as _;

use headlong_stats::ConfidenceInterval;

use super::axis::{Axis, plain};
use super::frame::{
    COLOURS, LegendEntry, LegendSymbol, MARGIN, PlotArea, WIDTH, draw_head, draw_lower_axis,
    head_height,
};
use super::svg::{Svg, TextAnchor, text_width};
use crate::table::{Cell, Table};

const BAR_HEIGHT: f64 = 17.0;
const GROUP_GAP: f64 = 14.0;
const TEXT_SIZE: f64 = 13.0;
const TEXT_LINE: f64 = 16.0;
/// Maximum width of the column of names; longer names are truncated.
const NAMES_WIDTH_MAX: f64 = 300.0;
/// Space after the longest bar for its number.
const VALUE_ROOM: f64 = 96.0;

/// One bar.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar {
    pub(crate) value: f64,
    interval: Option<(f64, f64)>,
}

impl Bar {
    /// A value without a known interval.
    pub const fn new(value: f64) -> Self {
        Self {
            value,
            interval: None,
        }
    }
}

impl From<f64> for Bar {
    fn from(value: f64) -> Self {
        Self::new(value)
    }
}

impl From<ConfidenceInterval> for Bar {
    fn from(interval: ConfidenceInterval) -> Self {
        Self {
            value: interval.estimate,
            interval: Some((interval.low, interval.high)),
        }
    }
}

/// A chart of bars in groups: one group per configuration, with one bar per series.
#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    title: String,
    pub(crate) caption: String,
    pub(crate) axis: Axis,
    /// Name, and whether it is a published reference.
    pub(crate) series: Vec<(String, bool)>,
    pub(crate) groups: Vec<(String, Vec<Option<Bar>>)>,
}

impl Bars {
    /// Bars for the quantity of `axis`, starting at zero.
    pub fn new(title: impl Into<String>, axis: Axis) -> Self {
        Self {
            title: title.into(),
            caption: String::new(),
            axis: axis.from(0.0),
            series: Vec::new(),
            groups: Vec::new(),
        }
    }

    /// Sets a sentence that is shown below the chart.
    pub fn caption(mut self, caption: impl Into<String>) -> Self {
        self.caption = caption.into();
        self
    }

    /// Adds a series of measured values, which is one bar in each group.
    pub fn series(mut self, name: impl Into<String>) -> Self {
        self.series.push((name.into(), false));
        self
    }

    /// Adds a series of published values, which is one bar in each group: dashed and pale.
    pub fn reference(mut self, name: impl Into<String>) -> Self {
        self.series.push((name.into(), true));
        self
    }

    /// Adds a group with its bars in the order of the series; `None` for a missing value.
    pub fn group(
        mut self,
        name: impl Into<String>,
        bars: impl IntoIterator<Item = Option<Bar>>,
    ) -> Self {
        self.groups.push((name.into(), bars.into_iter().collect()));
        self
    }

    fn bars(&self) -> impl Iterator<Item = &Bar> {
        self.groups
            .iter()
            .flat_map(|(_, bars)| bars.iter().flatten())
    }

    /// The bars as a table.
    pub(crate) fn table(&self) -> Option<Table> {
        if self.groups.is_empty() {
            return None;
        }
        let unit = self.axis.label();
        let heads = self
            .series
            .iter()
            .map(|(name, _)| format!("{name}: {unit}"));
        let mut table = Table::new([String::new()].into_iter().chain(heads));
        for (name, bars) in &self.groups {
            let cells = bars
                .iter()
                .map(|bar| bar.as_ref().map_or(Cell::Missing, cell));
            table.push([Cell::from(name.as_str())].into_iter().chain(cells));
        }
        Some(table)
    }

    pub(crate) fn draw(&self, id: &str) -> String {
        let entries: Vec<LegendEntry<'_>> = self
            .series
            .iter()
            .map(|(name, is_reference)| LegendEntry {
                name,
                is_reference: *is_reference,
            })
            .collect();
        let rows = self.series.len().max(1) as f64;
        let most_lines = self.groups.iter().map(|(name, _)| lines_of(name).len());
        let names_height = most_lines.max().unwrap_or(1) as f64 * TEXT_LINE;
        let group_height = (rows * BAR_HEIGHT).max(names_height) + GROUP_GAP;
        let top = head_height(&entries) + 8.0;
        let bottom = top + group_height * self.groups.len().max(1) as f64 + GROUP_GAP / 2.0;
        let names = self.groups.iter().flat_map(|(name, _)| lines_of(name));
        let widths = names.map(|line| text_width(&line, TEXT_SIZE));
        let left = MARGIN + 12.0 + widths.fold(0.0, f64::max);
        let area = PlotArea {
            left,
            top,
            right: WIDTH - MARGIN - 12.0,
            bottom,
        };
        let ends = self.bars().flat_map(|bar| {
            let (low, high) = bar.interval.unwrap_or((bar.value, bar.value));
            [bar.value, low, high]
        });
        // The number is printed after its bar, so the longest bar must end before the edge.
        let scale = self.axis.laid(ends, left, area.right - VALUE_ROOM);

        let mut svg = Svg::new(id, WIDTH, bottom + 50.0, &self.title, &self.describe());
        draw_head(&mut svg, &self.title, &entries, LegendSymbol::Box);
        draw_lower_axis(&mut svg, area, &self.axis, &scale);
        for (index, (name, bars)) in self.groups.iter().enumerate() {
            let group_top = top + GROUP_GAP / 2.0 + group_height * index as f64;
            let lines = lines_of(name);
            let first = rows * BAR_HEIGHT / 2.0 + 4.5 - (lines.len() - 1) as f64 * TEXT_LINE / 2.0;
            for (index, line) in lines.iter().enumerate() {
                let place = group_top + first + TEXT_LINE * index as f64;
                svg.text("name", left - 8.0, place, TextAnchor::End, line);
            }
            for (row, bar) in bars.iter().take(self.series.len()).enumerate() {
                let place = group_top + BAR_HEIGHT * row as f64;
                if let Some(bar) = bar.filter(|bar| self.axis.has_place_for(bar.value)) {
                    self.draw_bar(&mut svg, &scale, (name, row), &bar, place);
                }
            }
        }
        svg.line("axis", (left, top), (left, bottom));
        svg.finish()
    }

    fn draw_bar(
        &self,
        svg: &mut Svg,
        scale: &super::axis::Scale,
        (group, row): (&str, usize),
        bar: &Bar,
        top: f64,
    ) {
        let (name, is_reference) = &self.series[row];
        let colour = row % COLOURS;
        let pale = if *is_reference { " reference" } else { "" };
        let (start, end) = (scale.place(scale.from), scale.place(bar.value));
        let outline = format!(
            "M{start:.1} {:.1}H{end:.1}v{:.1}H{start:.1}Z",
            top + 1.0,
            BAR_HEIGHT - 2.0
        );
        let (number, furthest) = match bar.interval {
            Some((low, high)) => {
                let number = with_half(bar.value, (high - low) / 2.0);
                (number, scale.place(high).max(end))
            }
            None => (plain(bar.value), end),
        };
        let class = format!("bar f{colour} s{colour}{pale}");
        svg.shape(&class, &outline, &format!("{group}, {name}: {number}"));
        let middle = top + BAR_HEIGHT / 2.0;
        if let Some((low, high)) = bar.interval {
            let (low, high) = (scale.place(low), scale.place(high));
            let (up, down) = (middle - 4.0, middle + 4.0);
            svg.path(
                "whisker ink",
                &format!(
                    "M{low:.1} {middle:.1}H{high:.1}M{low:.1} {up:.1}V{down:.1}M{high:.1} {up:.1}V{down:.1}"
                ),
            );
        }
        svg.text(
            "value",
            furthest + 7.0,
            middle + 4.0,
            TextAnchor::Start,
            &number,
        );
    }

    fn describe(&self) -> String {
        let mut text = format!("Bars of {}.", self.axis.label());
        for (group, bars) in &self.groups {
            let _ = write!(text, " {group}:");
            for ((name, _), bar) in self.series.iter().zip(bars) {
                let value = bar.map_or("no figure".to_string(), |bar| plain(bar.value));
                let _ = write!(text, " {name} {value};");
            }
        }
        text
    }
}

fn cell(bar: &Bar) -> Cell {
    match bar.interval {
        Some((low, high)) if bar.value.is_finite() => Cell::Number(format!(
            "{} [{}, {}]",
            plain(bar.value),
            plain(low),
            plain(high)
        )),
        _ => super::axis::cell(bar.value),
    }
}

/// `83.1 ± 3.0`: half the interval with two significant digits, the value with the same precision.
fn with_half(value: f64, half: f64) -> String {
    if !half.is_finite() {
        return plain(value);
    }
    let magnitude = if half == 0.0 {
        0.0
    } else {
        half.abs().log10().floor()
    };
    let decimals = (1.0 - magnitude).clamp(0.0, 6.0) as usize;
    format!("{value:.decimals$} ± {half:.decimals$}")
}

/// A name on at most two lines that fit into their column.
fn lines_of(name: &str) -> Vec<String> {
    let fits = |text: &str| text_width(text, TEXT_SIZE) <= NAMES_WIDTH_MAX;
    if fits(name) {
        return vec![name.to_string()];
    }
    let ends = name.match_indices(' ').map(|(end, _)| end);
    match ends.rev().find(|end| fits(&name[..*end])) {
        Some(end) => vec![name[..end].to_string(), cut(&name[end + 1..])],
        None => vec![cut(name)],
    }
}

/// A text truncated to the width of the column of names.
fn cut(text: &str) -> String {
    if text_width(text, TEXT_SIZE) <= NAMES_WIDTH_MAX {
        return text.to_string();
    }
    let mut short = String::new();
    for c in text.chars() {
        if text_width(&short, TEXT_SIZE) > NAMES_WIDTH_MAX - 20.0 {
            break;
        }
        short.push(c);
    }
    short + "…"
}
