//! Charts of points over two axes: their content, separate from how they are drawn.

use headlong_stats::Cdf;

use super::axis::{Axis, cell};
use crate::table::Table;

/// Maximum number of steps of a distribution that are drawn: two per horizontal unit of the
/// drawing.
const STEPS_MAX: usize = 1400;
/// Maximum number of points for which the numbers are also given as a table.
const TABLE_POINTS_MAX: usize = 120;

/// One measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Horizontal position.
    pub x: f64,
    /// Vertical position.
    pub y: f64,
}

impl Point {
    pub(super) fn is_finite(&self) -> bool {
        self.x.is_finite() && self.y.is_finite()
    }
}

impl From<(f64, f64)> for Point {
    fn from((x, y): (f64, f64)) -> Self {
        Self { x, y }
    }
}

/// Points of one series, with one name in the legend.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<Point>,
    pub(crate) is_reference: bool,
}

impl Series {
    /// Points in the order in which they are connected.
    pub fn new(
        name: impl Into<String>,
        points: impl IntoIterator<Item = impl Into<Point>>,
    ) -> Self {
        Self {
            name: name.into(),
            points: points.into_iter().map(Into::into).collect(),
            is_reference: false,
        }
    }

    /// A distribution, with its values multiplied by `scale` (0.001 for bytes shown as KB) and its
    /// fractions in per cent.
    pub fn of_cdf(name: impl Into<String>, cdf: &Cdf, scale: f64) -> Self {
        let points = cdf.points(STEPS_MAX);
        Self::new(
            name,
            points
                .into_iter()
                .map(|(x, share)| (x * scale, share * 100.0)),
        )
    }

    /// Marks the series as published, not measured: dashed and pale.
    pub fn reference(mut self) -> Self {
        self.is_reference = true;
        self
    }
}

/// How points are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChartKind {
    /// Connected by straight lines, with symbols if there are few points.
    Lines,
    /// Dots.
    Scatter,
    /// A staircase that starts at zero: each value holds until the next.
    Steps,
}

/// A chart of points: lines, dots or steps over two axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    pub(crate) kind: ChartKind,
    pub(crate) title: String,
    pub(crate) caption: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
    /// Lines across the chart: value, label, and whether vertical.
    pub(crate) thresholds: Vec<(f64, String, bool)>,
}

impl Chart {
    fn new(kind: ChartKind, title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self {
            kind,
            title: title.into(),
            caption: String::new(),
            x,
            y,
            series: Vec::new(),
            thresholds: Vec::new(),
        }
    }

    /// Points connected by lines.
    pub fn lines(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self::new(ChartKind::Lines, title, x, y)
    }

    /// Points as dots.
    pub fn scatter(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self::new(ChartKind::Scatter, title, x, y)
    }

    /// Distribution functions; `what` is the quantity. Create the series with [`Series::of_cdf`].
    pub fn steps(title: impl Into<String>, x: Axis, what: impl Into<String>) -> Self {
        let y = Axis::new(what, "%").from(0.0).to(100.0);
        Self::new(ChartKind::Steps, title, x, y)
    }

    /// Sets a sentence that is shown below the chart: what it shows, and the source.
    pub fn caption(mut self, caption: impl Into<String>) -> Self {
        self.caption = caption.into();
        self
    }

    /// Adds a series.
    pub fn series(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    /// Adds a dashed horizontal line at this height, such as a threshold.
    pub fn line_at_y(mut self, y: f64, label: impl Into<String>) -> Self {
        self.thresholds.push((y, label.into(), false));
        self
    }

    /// Adds a dashed vertical line at this position, such as the end of a ramp or a chosen size.
    pub fn line_at_x(mut self, x: f64, label: impl Into<String>) -> Self {
        self.thresholds.push((x, label.into(), true));
        self
    }

    /// The points as a table, if there are few enough.
    pub(super) fn table(&self) -> Option<Table> {
        let count: usize = self.series.iter().map(|series| series.points.len()).sum();
        if count == 0 || count > TABLE_POINTS_MAX {
            return None;
        }
        let mut table = Table::new(["Series".to_string(), self.x.label(), self.y.label()]);
        for series in &self.series {
            for point in &series.points {
                table.push([series.name.clone().into(), cell(point.x), cell(point.y)]);
            }
        }
        Some(table)
    }
}
