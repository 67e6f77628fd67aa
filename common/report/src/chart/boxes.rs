//! Rectangles over two axes, or in named rows, for example time spans of activities.

use std::fmt::Write as _;

use super::axis::{Axis, Scale, cell};
use super::frame::{
    COLOURS, LegendEntry, LegendSymbol, MARGIN, PlotArea, WIDTH, draw_axes, draw_head,
    draw_lower_axis, head_height, upright_width,
};
use super::svg::{Svg, TextAnchor, text_width};
use crate::table::Table;

const PLOT_HEIGHT: f64 = 320.0;
/// Height of a named row.
const ROW_HEIGHT: f64 = 20.0;
/// Minimum width and height of a rectangle, so that it is visible.
const LEAST: f64 = 1.0;
/// Maximum number of rectangles for which the numbers are also given as a table.
const TABLE_BOXES_MAX: usize = 120;

/// A chart of rectangles.
#[derive(Debug, Clone, PartialEq)]
pub struct Boxes {
    pub(crate) title: String,
    pub(crate) caption: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) rows: Vec<String>,
    pub(crate) series: Vec<(String, Vec<[f64; 4]>)>,
}

impl Boxes {
    /// A chart without rectangles.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self {
            title: title.into(),
            caption: String::new(),
            x,
            y,
            rows: Vec::new(),
            series: Vec::new(),
        }
    }

    /// Sets a sentence that is shown below the chart.
    pub fn caption(mut self, caption: impl Into<String>) -> Self {
        self.caption = caption.into();
        self
    }

    /// Uses named rows instead of numbers for the vertical axis: the first row is from 0 to 1, and
    /// so on.
    pub fn rows(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.rows = names.into_iter().map(Into::into).collect();
        self
    }

    /// Adds named rectangles: x from, x to, y from, y to.
    pub fn series(
        mut self,
        name: impl Into<String>,
        boxes: impl IntoIterator<Item = [f64; 4]>,
    ) -> Self {
        self.series.push((name.into(), boxes.into_iter().collect()));
        self
    }

    /// The rectangles that have a position on both axes.
    pub(crate) fn shown<'a>(&'a self, boxes: &'a [[f64; 4]]) -> impl Iterator<Item = &'a [f64; 4]> {
        boxes.iter().filter(|[x0, x1, y0, y1]| {
            [x0, x1].iter().all(|x| self.x.has_place_for(**x))
                && [y0, y1].iter().all(|y| self.y.has_place_for(**y))
        })
    }

    /// The area of the rectangles, and the axes mapped to it.
    pub(crate) fn layout(&self) -> (PlotArea, Scale, Scale) {
        let top = head_height(&self.entries()) + 8.0;
        let has_rows = !self.rows.is_empty();
        let height = match has_rows {
            true => self.rows.len() as f64 * ROW_HEIGHT,
            false => PLOT_HEIGHT,
        };
        let bottom = top + height;
        let all = || self.series.iter().flat_map(|(_, boxes)| self.shown(boxes));
        let y_axis = match has_rows {
            true => self.y.clone().from(0.0).to(self.rows.len() as f64),
            false => self.y.clone(),
        };
        let y = y_axis.laid(all().flat_map(|b| [b[2], b[3]]), bottom, top);
        let left = match has_rows {
            true => {
                let widest = self.rows.iter().map(|name| text_width(name, 12.0));
                MARGIN + 28.0 + widest.fold(0.0, f64::max)
            }
            false => upright_width(&y),
        };
        let right = WIDTH - MARGIN - 12.0;
        let x = self.x.laid(all().flat_map(|b| [b[0], b[1]]), left, right);
        let area = PlotArea {
            left,
            top,
            right,
            bottom,
        };
        (area, x, y)
    }

    pub(crate) fn entries(&self) -> Vec<LegendEntry<'_>> {
        let names = self.series.iter().map(|series| series.0.as_str());
        let entry = |name| LegendEntry {
            name,
            is_reference: false,
        };
        names.map(entry).collect()
    }

    pub(crate) fn draw(&self, id: &str) -> String {
        let (area, x, y) = self.layout();
        let mut svg = Svg::new(id, WIDTH, area.bottom + 50.0, &self.title, &self.describe());
        draw_head(&mut svg, &self.title, &self.entries(), LegendSymbol::Box);
        svg.open_group("plot");
        match self.rows.is_empty() {
            true => draw_axes(&mut svg, area, (&self.x, &x), (&self.y, &y)),
            false => self.draw_rows(&mut svg, area, &x),
        }
        let (width, height) = (area.right - area.left, area.bottom - area.top);
        svg.open_window(area.left, area.top, width, height);
        for (index, (_, boxes)) in self.series.iter().enumerate() {
            let mut steps = String::new();
            for [x0, x1, y0, y1] in self.shown(boxes) {
                let (left, right) = (x.place(*x0), x.place(*x1));
                let (low, high) = (y.place(*y0), y.place(*y1));
                let _ = write!(
                    steps,
                    "M{left:.1} {high:.1}h{:.1}v{:.1}h-{:.1}Z",
                    (right - left).max(LEAST),
                    (low - high).max(LEAST),
                    (right - left).max(LEAST)
                );
            }
            let colour = index % COLOURS;
            svg.path(&format!("box f{colour} s{colour}"), &steps);
        }
        svg.close_window();
        svg.close_group();
        svg.finish()
    }

    fn draw_rows(&self, svg: &mut Svg, area: PlotArea, x: &Scale) {
        for (row, name) in self.rows.iter().enumerate() {
            let middle = area.bottom - (row as f64 + 0.5) * ROW_HEIGHT;
            svg.line("grid", (area.left, middle), (area.right, middle));
            svg.text("tick", area.left - 8.0, middle + 4.0, TextAnchor::End, name);
        }
        svg.line("axis", (area.left, area.top), (area.left, area.bottom));
        draw_lower_axis(svg, area, &self.x, x);
        let middle = (area.top + area.bottom) / 2.0;
        svg.upright_text("name", MARGIN + 10.0, middle, &self.y.label());
    }

    pub(crate) fn table(&self) -> Option<Table> {
        let count: usize = self.series.iter().map(|(_, boxes)| boxes.len()).sum();
        if count == 0 || count > TABLE_BOXES_MAX {
            return None;
        }
        let (x, y) = (self.x.label(), self.y.label());
        let heads = [
            "Series".to_string(),
            format!("{x} from"),
            format!("{x} to"),
            format!("{y} from"),
            format!("{y} to"),
        ];
        let mut table = Table::new(heads);
        for (name, boxes) in &self.series {
            for numbers in boxes {
                table.push([name.clone().into()].into_iter().chain(numbers.map(cell)));
            }
        }
        Some(table)
    }

    fn describe(&self) -> String {
        let mut text = format!("Rectangles over {} and {}.", self.x.label(), self.y.label());
        for (name, boxes) in &self.series {
            let _ = write!(text, " {name}: {} rectangles.", boxes.len());
        }
        text
    }
}
