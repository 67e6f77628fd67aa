//! A matrix of circles whose areas represent values (thesis Figures 5.17, 5.18).

use std::fmt::Write as _;

use super::axis::plain;
use super::frame::{MARGIN, WIDTH};
use super::svg::{Svg, TextAnchor, text_width};
use crate::table::{Cell, Table};

const TICK_SIZE: f64 = 12.0;
/// Maximum width and height of a cell.
const CELL_MAX: f64 = 30.0;
/// Radius of the circle for 100 per cent, in cells: neighbours overlap only if both are large.
const WHOLE_RADIUS: f64 = 0.95;
/// Space that such a circle needs beyond the outermost cells, in cells, so that it covers no name.
const EDGE: f64 = WHOLE_RADIUS - 0.5;
/// Below this value, in per cent, a circle is too small to be visible and is replaced by a cross.
const CIRCLE_MIN: f64 = 5.0;
/// The circle in the legend, in per cent.
const KEY: f64 = 10.0;

/// A matrix of shares in per cent, with named columns and rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Bubbles {
    pub(crate) title: String,
    pub(crate) caption: String,
    pub(crate) x: (String, Vec<String>),
    pub(crate) y: (String, Vec<String>),
    /// Column, row, per cent.
    pub(crate) values: Vec<(usize, usize, f64)>,
}

impl Bubbles {
    /// An empty matrix with named columns (left to right) and rows (bottom to top).
    pub fn new(
        title: impl Into<String>,
        (x, columns): (impl Into<String>, Vec<String>),
        (y, rows): (impl Into<String>, Vec<String>),
    ) -> Self {
        Self {
            title: title.into(),
            caption: String::new(),
            x: (x.into(), columns),
            y: (y.into(), rows),
            values: Vec::new(),
        }
    }

    /// Sets a sentence that is shown below the chart.
    pub fn caption(mut self, caption: impl Into<String>) -> Self {
        self.caption = caption.into();
        self
    }

    /// Sets these cells: column, row, per cent. A cell outside the matrix is ignored.
    pub fn values(mut self, values: impl IntoIterator<Item = (usize, usize, f64)>) -> Self {
        let (columns, rows) = (self.x.1.len(), self.y.1.len());
        let fits = |(x, y, value): &(usize, usize, f64)| {
            *x < columns && *y < rows && value.is_finite() && *value > 0.0
        };
        self.values.extend(values.into_iter().filter(fits));
        self
    }

    pub(crate) fn draw(&self, id: &str) -> String {
        let widest = self.y.1.iter().map(|name| text_width(name, TICK_SIZE));
        let left = MARGIN + 30.0 + widest.fold(0.0, f64::max);
        let columns = self.x.1.len().max(1) as f64;
        let cell = ((WIDTH - MARGIN - 12.0 - left) / (columns + 2.0 * EDGE)).min(CELL_MAX);
        let top = 66.0;
        let bottom = top + cell * (self.y.1.len().max(1) as f64 + 2.0 * EDGE);
        let right = left + cell * (columns + 2.0 * EDGE);
        let across = |column: usize| left + (EDGE + column as f64 + 0.5) * cell;
        let up = |row: usize| bottom - (EDGE + row as f64 + 0.5) * cell;
        let names_room = self.x.1.iter().map(|name| text_width(name, TICK_SIZE));
        let names_room = names_room.fold(0.0, f64::max) + 10.0;

        let height = bottom + names_room + 26.0;
        let mut svg = Svg::new(id, WIDTH, height, &self.title, &self.describe());
        svg.text("title", MARGIN, 22.0, TextAnchor::Start, &self.title);
        draw_key(&mut svg, cell);
        for (column, name) in self.x.1.iter().enumerate() {
            let x = across(column);
            svg.line("grid", (x, top), (x, bottom));
            svg.upright_tick(x + 4.0, bottom + 8.0, name);
        }
        for (row, name) in self.y.1.iter().enumerate() {
            let y = up(row);
            svg.line("grid", (left, y), (right, y));
            svg.text("tick", left - 8.0, y + 4.0, TextAnchor::End, name);
        }
        svg.line("axis", (left, top), (left, bottom));
        svg.line("axis", (left, bottom), (right, bottom));
        for (column, row, value) in &self.values {
            let hint = format!(
                "{} at {}: {} %",
                self.y.1[*row],
                self.x.1[*column],
                plain(*value)
            );
            draw_mark(&mut svg, cell, (across(*column), up(*row)), *value, &hint);
        }
        svg.upright_text("name", MARGIN + 10.0, (top + bottom) / 2.0, &self.y.0);
        let middle = (left + right) / 2.0;
        svg.text("name", middle, height - 8.0, TextAnchor::Middle, &self.x.0);
        if self.values.is_empty() {
            let centre = (top + bottom) / 2.0;
            svg.text(
                "note",
                middle,
                centre,
                TextAnchor::Middle,
                "nothing was measured",
            );
        }
        svg.finish()
    }

    pub(crate) fn table(&self) -> Option<Table> {
        if self.values.is_empty() || self.values.len() > 240 {
            return None;
        }
        let mut table = Table::new([self.x.0.as_str(), self.y.0.as_str(), "%"]);
        for (column, row, value) in &self.values {
            let (x, y) = (&self.x.1[*column], &self.y.1[*row]);
            table.push([
                x.as_str().into(),
                y.as_str().into(),
                Cell::number(*value, 1),
            ]);
        }
        Some(table)
    }

    fn describe(&self) -> String {
        let mut text = format!("Shares of {} for each {}.", self.y.0, self.x.0);
        for (column, name) in self.x.1.iter().enumerate() {
            let cells = self.values.iter().filter(|value| value.0 == column);
            if let Some((_, row, value)) = cells.max_by(|a, b| a.2.total_cmp(&b.2)) {
                let _ = write!(
                    text,
                    " {name}: most at {}, {} %.",
                    self.y.1[*row],
                    plain(*value)
                );
            }
        }
        text
    }
}

fn draw_key(svg: &mut Svg, cell: f64) {
    let y = 44.0;
    draw_mark(svg, cell, (MARGIN + 12.0, y), KEY, "10 %");
    svg.text("name", MARGIN + 30.0, y + 4.5, TextAnchor::Start, "10 %");
    draw_mark(svg, cell, (MARGIN + 92.0, y), 1.0, "less than 5 %");
    svg.text(
        "name",
        MARGIN + 104.0,
        y + 4.5,
        TextAnchor::Start,
        "0.5 to 5 %",
    );
}

fn draw_mark(svg: &mut Svg, cell: f64, (x, y): (f64, f64), value: f64, hint: &str) {
    if value < CIRCLE_MIN {
        let steps = format!("M{:.1} {:.1}l6 6m0 -6l-6 6", x - 3.0, y - 3.0);
        svg.shape("cross", &steps, hint);
        return;
    }
    let radius = cell * WHOLE_RADIUS * (value / 100.0).sqrt();
    let steps = format!(
        "M{:.1} {y:.1}a{radius:.1} {radius:.1} 0 1 0 {:.1} 0a{radius:.1} {radius:.1} 0 1 0 {:.1} 0Z",
        x - radius,
        2.0 * radius,
        -2.0 * radius
    );
    svg.shape("bubble f0", &steps, hint);
}
