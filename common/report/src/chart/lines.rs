//! Line charts, scatter charts and step charts.

use std::fmt::Write as _;

use super::axis::{Scale, plain};
use super::frame::{
    COLOURS, LegendEntry, LegendSymbol, MARGIN, PlotArea, WIDTH, draw_axes, draw_head, draw_symbol,
    head_height, upright_width,
};
use super::points::{Chart, ChartKind, Point, Series};
use super::svg::{Svg, TextAnchor};

/// Height of the area for the data.
const PLOT_HEIGHT: f64 = 320.0;
/// Above this number of points, dots are drawn smaller so that they remain distinguishable.
const COARSE_DOTS_MAX: usize = 3000;
/// Maximum number of points of a series that are drawn with symbols.
const SYMBOLS_MAX: usize = 60;

/// The area for the data, and the axes mapped to it.
pub(crate) fn layout(chart: &Chart) -> (PlotArea, Scale, Scale) {
    let entries: Vec<LegendEntry<'_>> = chart.series.iter().map(entry).collect();
    let top = head_height(&entries) + 8.0;
    let bottom = top + PLOT_HEIGHT;
    let y = chart.y.laid(heights(chart).into_iter(), bottom, top);
    let left = upright_width(&y);
    let right = WIDTH - MARGIN - 12.0;
    let all = chart.series.iter().flat_map(|series| &series.points);
    let upright = chart.thresholds.iter().filter(|line| line.2);
    let xs = all.map(|point| point.x).chain(upright.map(|line| line.0));
    let xs: Vec<f64> = xs.chain(room_aside(chart)).collect();
    let x = chart.x.laid(xs.into_iter(), left, right);
    let area = PlotArea {
        left,
        top,
        right,
        bottom,
    };
    (area, x, y)
}

pub(crate) fn draw(chart: &Chart, id: &str) -> String {
    let entries: Vec<LegendEntry<'_>> = chart.series.iter().map(entry).collect();
    let (area, x, y) = layout(chart);
    let PlotArea {
        left,
        top,
        right,
        bottom,
    } = area;

    let mut svg = Svg::new(id, WIDTH, bottom + 50.0, &chart.title, &describe(chart));
    let few = |series: &Series| series.points.len() <= SYMBOLS_MAX;
    let key = match chart.kind {
        ChartKind::Scatter => LegendSymbol::Dot,
        ChartKind::Lines if chart.series.iter().all(few) => LegendSymbol::LineWithSymbol,
        _ => LegendSymbol::Line,
    };
    draw_head(&mut svg, &chart.title, &entries, key);
    svg.open_group("plot");
    draw_axes(&mut svg, area, (&chart.x, &x), (&chart.y, &y));
    // Slightly larger than the area, for the symbols on its edge.
    let (width, height) = (right - left + 12.0, bottom - top + 12.0);
    svg.open_window(left - 6.0, top - 6.0, width, height);
    for (index, series) in chart.series.iter().enumerate() {
        draw_series(&mut svg, chart, index, series, &x, &y);
    }
    svg.close_window();
    draw_thresholds(&mut svg, chart, area, &x, &y);
    if chart
        .series
        .iter()
        .all(|series| shown(chart, series).is_empty())
    {
        let centre = ((left + right) / 2.0, (top + bottom) / 2.0);
        svg.text(
            "note",
            centre.0,
            centre.1,
            TextAnchor::Middle,
            "nothing was measured",
        );
    }
    svg.close_group();
    svg.finish()
}

fn entry(series: &Series) -> LegendEntry<'_> {
    LegendEntry {
        name: &series.name,
        is_reference: series.is_reference,
    }
}

/// All values that the vertical axis must cover.
fn heights(chart: &Chart) -> Vec<f64> {
    let all = chart.series.iter().flat_map(|series| &series.points);
    let ends = all.map(|point| point.y);
    let level = chart.thresholds.iter().filter(|line| !line.2);
    ends.chain(level.map(|line| line.0)).collect()
}

/// A staircase that begins or ends exactly at the edge would be indistinguishable from it: on a
/// logarithmic axis, which has no zero, space is added on both sides.
fn room_aside(chart: &Chart) -> Vec<f64> {
    if chart.kind != ChartKind::Steps || !chart.x.is_log() {
        return Vec::new();
    }
    let all = chart.series.iter().flat_map(|series| &series.points);
    all.flat_map(|point| [point.x * 0.9, point.x * 1.1])
        .collect()
}

/// The points that have a position on both axes.
fn shown(chart: &Chart, series: &Series) -> Vec<Point> {
    let has_place =
        |point: &&Point| chart.x.has_place_for(point.x) && chart.y.has_place_for(point.y);
    series.points.iter().filter(has_place).copied().collect()
}

fn draw_series(svg: &mut Svg, chart: &Chart, index: usize, series: &Series, x: &Scale, y: &Scale) {
    let points = shown(chart, series);
    let colour = index % COLOURS;
    let pale = if series.is_reference {
        " reference"
    } else {
        ""
    };
    let places: Vec<(f64, f64)> = points
        .iter()
        .map(|p| (x.place(p.x), y.place(p.y)))
        .collect();
    match chart.kind {
        ChartKind::Scatter => {
            let fine = if points.len() > COARSE_DOTS_MAX {
                " fine"
            } else {
                ""
            };
            svg.path(&format!("dots{fine} s{colour}"), &dots(&places));
        }
        ChartKind::Steps => svg.path(&format!("line s{colour}{pale}"), &staircase(&places, x, y)),
        ChartKind::Lines => svg.path(&format!("line s{colour}{pale}"), &polyline(&places)),
    }
    if chart.kind == ChartKind::Lines && points.len() <= SYMBOLS_MAX {
        for (point, place) in points.iter().zip(&places) {
            let hint = hint(series, point);
            draw_symbol(svg, index, series.is_reference, place.0, place.1, &hint);
        }
    }
}

fn hint(series: &Series, point: &Point) -> String {
    format!("{}: {} at {}", series.name, plain(point.y), plain(point.x))
}

/// Dots as zero-length lines with round ends, the shortest notation for a hundred thousand dots.
/// Dots in the same half pixel are merged.
fn dots(places: &[(f64, f64)]) -> String {
    let half = |pixel: f64| (pixel * 2.0).round() as i64;
    let mut cells: Vec<(i64, i64)> = places.iter().map(|p| (half(p.0), half(p.1))).collect();
    cells.sort_unstable();
    cells.dedup();
    let mut steps = String::new();
    for (x, y) in cells {
        let _ = write!(steps, "M{:.1} {:.1}h0", x as f64 / 2.0, y as f64 / 2.0);
    }
    steps
}

/// A polyline. If many points share a pixel column, only the first, lowest, highest and last are
/// drawn: the others would not be visible.
fn polyline(places: &[(f64, f64)]) -> String {
    let mut steps = String::new();
    let mut column: Vec<(f64, f64)> = Vec::new();
    let mut flush = |column: &mut Vec<(f64, f64)>| {
        if column.len() > 4 {
            let by_height = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
            let ends = [
                column.first().copied(),
                column.iter().min_by(by_height).copied(),
                column.iter().max_by(by_height).copied(),
                column.last().copied(),
            ];
            *column = ends.into_iter().flatten().collect();
        }
        for (x, y) in column.drain(..) {
            let command = if steps.is_empty() { 'M' } else { 'L' };
            let _ = write!(steps, "{command}{x:.1} {y:.1}");
        }
    };
    for place in places {
        if column
            .last()
            .is_some_and(|last| last.0.floor() != place.0.floor())
        {
            flush(&mut column);
        }
        column.push(*place);
    }
    flush(&mut column);
    steps
}

fn staircase(places: &[(f64, f64)], x: &Scale, y: &Scale) -> String {
    let Some(first) = places.first() else {
        return String::new();
    };
    // Along the lower edge up to the smallest value, and along the upper edge after the largest.
    let floor = y.place(y.from);
    let mut steps = format!(
        "M{:.1} {floor:.1}H{:.1}",
        x.place(x.from).min(first.0),
        first.0
    );
    for (index, (from, height)) in places.iter().enumerate() {
        let _ = write!(steps, "V{height:.1}");
        if let Some((to, _)) = places.get(index + 1) {
            let _ = write!(steps, "H{to:.1}");
        } else {
            let _ = write!(steps, "H{:.1}", x.place(x.to).max(*from));
        }
    }
    steps
}

/// Maximum average width of a letter in a note, in units of the drawing.
const NOTE_LETTER_WIDTH: f64 = 6.5;

fn draw_thresholds(svg: &mut Svg, chart: &Chart, area: PlotArea, x: &Scale, y: &Scale) {
    for (value, label, is_upright) in &chart.thresholds {
        let axis = if *is_upright { &chart.x } else { &chart.y };
        if !axis.has_place_for(*value) {
            continue;
        }
        if *is_upright {
            let place = x.place(*value);
            svg.line("threshold", (place, area.top), (place, area.bottom));
            // To the right of the line if it fits, otherwise to the left.
            let width = label.chars().count() as f64 * NOTE_LETTER_WIDTH;
            let (anchor, aside) = match place + 5.0 + width > area.right {
                true => (TextAnchor::End, -5.0),
                false => (TextAnchor::Start, 5.0),
            };
            svg.text("note", place + aside, area.top + 12.0, anchor, label);
        } else {
            let place = y.place(*value);
            svg.line("threshold", (area.left, place), (area.right, place));
            svg.text(
                "note",
                area.right - 4.0,
                place - 5.0,
                TextAnchor::End,
                label,
            );
        }
    }
}

/// A description of the chart in words.
fn describe(chart: &Chart) -> String {
    let what = match chart.kind {
        ChartKind::Lines => "Lines of",
        ChartKind::Scatter => "Dots of",
        ChartKind::Steps => "Distribution:",
    };
    let mut text = format!("{what} {} over {}.", chart.y.label(), chart.x.label());
    for series in &chart.series {
        let points = shown(chart, series);
        let Some((first, last)) = points.first().zip(points.last()) else {
            let _ = write!(text, " {}: no points.", series.name);
            continue;
        };
        let _ = write!(text, " {}: ", series.name);
        let _ = match chart.kind {
            ChartKind::Steps => {
                let half = points.iter().find(|point| point.y >= 50.0).unwrap_or(last);
                write!(
                    text,
                    "from {} to {}, half of it up to {}.",
                    plain(first.x),
                    plain(last.x),
                    plain(half.x)
                )
            }
            _ => {
                let ys = || points.iter().map(|point| point.y);
                write!(
                    text,
                    "{} points, from {} at {} to {} at {}, lowest {}, highest {}.",
                    points.len(),
                    plain(first.y),
                    plain(first.x),
                    plain(last.y),
                    plain(last.x),
                    plain(ys().fold(f64::INFINITY, f64::min)),
                    plain(ys().fold(f64::NEG_INFINITY, f64::max))
                )
            }
        };
    }
    text
}
