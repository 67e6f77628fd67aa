//! Charts: their content, separate from how they are drawn.

mod axis;
mod bars;
mod boxes;
mod bubbles;
mod data;
mod frame;
mod lines;
mod points;
mod published;
mod svg;

pub use axis::{Axis, group_thousands};
pub use bars::{Bar, Bars};
pub use boxes::Boxes;
pub use bubbles::Bubbles;
pub use points::{Chart, Point, Series};
pub use published::{divergence_by_size, latency_cdf, lba_over_transactions, maximum_rates};

pub(crate) use data::percent_encoded;

use crate::table::Table;

/// The colours and fonts of charts, for a page or for a separate file.
pub(crate) const STYLE: &str = include_str!("chart.css");

/// Any kind of figure.
#[derive(Debug, Clone, PartialEq)]
pub enum Figure {
    /// Points over two axes.
    Chart(Chart),
    /// Bars.
    Bars(Bars),
    /// Rectangles.
    Boxes(Boxes),
    /// A matrix of circles.
    Bubbles(Bubbles),
}

impl From<Chart> for Figure {
    fn from(chart: Chart) -> Self {
        Self::Chart(chart)
    }
}

impl From<Bars> for Figure {
    fn from(bars: Bars) -> Self {
        Self::Bars(bars)
    }
}

impl From<Boxes> for Figure {
    fn from(boxes: Boxes) -> Self {
        Self::Boxes(boxes)
    }
}

impl From<Bubbles> for Figure {
    fn from(bubbles: Bubbles) -> Self {
        Self::Bubbles(bubbles)
    }
}

impl Figure {
    /// The figure as a separate SVG file, for use in other pages; it follows the theme of the
    /// reader like the others.
    pub fn to_svg(&self) -> String {
        let svg = self.draw("figure");
        match svg.split_once('>') {
            Some((head, rest)) => format!("{head}><style>{STYLE}</style>{rest}"),
            None => svg,
        }
    }

    /// The figure as part of a page; `id` must be unique in the page.
    pub(crate) fn draw(&self, id: &str) -> String {
        match self {
            Self::Chart(chart) => lines::draw(chart, id),
            Self::Bars(bars) => bars.draw(id),
            Self::Boxes(boxes) => boxes.draw(id),
            Self::Bubbles(bubbles) => bubbles.draw(id),
        }
    }

    pub(crate) fn caption(&self) -> String {
        match self {
            Self::Chart(chart) => {
                let all = chart.series.iter().flat_map(|series| &series.points);
                match all.filter(|point| !point.is_finite()).count() {
                    0 => chart.caption.clone(),
                    left_out => format!(
                        "{} ({left_out} points without a value are left out.)",
                        chart.caption
                    ),
                }
            }
            Self::Bars(bars) => bars.caption.clone(),
            Self::Boxes(boxes) => boxes.caption.clone(),
            Self::Bubbles(bubbles) => bubbles.caption.clone(),
        }
    }

    pub(crate) fn table(&self) -> Option<Table> {
        match self {
            Self::Chart(chart) => chart.table(),
            Self::Bars(bars) => bars.table(),
            Self::Boxes(boxes) => boxes.table(),
            Self::Bubbles(bubbles) => bubbles.table(),
        }
    }
}

#[cfg(test)]
mod tests;
