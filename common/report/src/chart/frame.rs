//! The parts around the data: title, legend, axes, grid.

use super::axis::{Axis, Scale};
use super::svg::{Svg, TextAnchor, symbol, text_width};

/// Width of every chart; the page scales it to the column.
pub(crate) const WIDTH: f64 = 760.0;
/// Margin at the edges, in pixels.
pub(crate) const MARGIN: f64 = 14.0;
const TICK_SIZE: f64 = 12.0;
const TEXT_SIZE: f64 = 13.0;
const LEGEND_LINE: f64 = 20.0;
/// Colours repeat after this number of series; the symbols still differ.
pub(crate) const COLOURS: usize = 8;

/// One entry of a legend.
#[derive(Debug, Clone)]
pub(crate) struct LegendEntry<'a> {
    pub(crate) name: &'a str,
    pub(crate) is_reference: bool,
}

/// The symbol that a legend shows for each series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LegendSymbol {
    LineWithSymbol,
    Line,
    Dot,
    Box,
}

/// Positions of the legend entries; a single entry needs no legend, because the title or caption
/// names it.
pub(crate) fn legend_places(entries: &[LegendEntry<'_>]) -> Vec<(f64, f64)> {
    let (mut x, mut row) = (MARGIN, 0.0);
    let mut places = Vec::with_capacity(entries.len());
    for entry in entries {
        let width = 30.0 + text_width(entry.name, TEXT_SIZE) + 18.0;
        if x > MARGIN && x + width > WIDTH - MARGIN {
            x = MARGIN;
            row += 1.0;
        }
        places.push((x, row * LEGEND_LINE));
        x += width;
    }
    places
}

/// Height of title and legend together.
pub(crate) fn head_height(entries: &[LegendEntry<'_>]) -> f64 {
    let legend = match legend_places(entries).last() {
        Some((_, y)) if entries.len() > 1 => y + LEGEND_LINE,
        _ => 0.0,
    };
    36.0 + legend
}

pub(crate) fn draw_head(
    svg: &mut Svg,
    title: &str,
    entries: &[LegendEntry<'_>],
    key: LegendSymbol,
) {
    svg.text("title", MARGIN, 22.0, TextAnchor::Start, title);
    if entries.len() < 2 {
        return;
    }
    for (index, (entry, (x, y))) in entries.iter().zip(legend_places(entries)).enumerate() {
        let y = y + 44.0;
        let colour = index % COLOURS;
        let pale = if entry.is_reference { " reference" } else { "" };
        if matches!(key, LegendSymbol::Line | LegendSymbol::LineWithSymbol) {
            let class = format!("line s{colour}{pale}");
            svg.line(&class, (x, y - 4.5), (x + 24.0, y - 4.5));
        }
        let centre = x + 12.0;
        match key {
            LegendSymbol::LineWithSymbol => {
                draw_symbol(svg, index, entry.is_reference, centre, y - 4.5, "")
            }
            LegendSymbol::Dot => svg.path(&format!("f{colour}"), &symbol(0, centre, y - 4.5, 4.0)),
            LegendSymbol::Box => svg.path(
                &format!("bar f{colour} s{colour}{pale}"),
                &format!("M{:.1} {:.1}h16v11h-16Z", x + 4.0, y - 10.0),
            ),
            LegendSymbol::Line => {}
        }
        svg.text("name", x + 30.0, y, TextAnchor::Start, entry.name);
    }
}

/// Draws the symbol of series `index` with its hint, if any.
pub(crate) fn draw_symbol(
    svg: &mut Svg,
    index: usize,
    is_reference: bool,
    x: f64,
    y: f64,
    hint: &str,
) {
    let colour = index % COLOURS;
    let class = match is_reference {
        true => format!("symbol reference s{colour}"),
        false => format!("symbol f{colour}"),
    };
    let outline = symbol(index, x, y, 4.2);
    match hint {
        "" => svg.path(&class, &outline),
        hint => svg.shape(&class, &outline, hint),
    }
}

/// The rectangle in which the data are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PlotArea {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) right: f64,
    pub(crate) bottom: f64,
}

/// Width needed by the labels of a vertical axis, including its name.
pub(crate) fn upright_width(scale: &Scale) -> f64 {
    let widths = scale.labels().into_iter();
    let widest = widths.map(|(_, text)| text_width(&text, TICK_SIZE));
    MARGIN + 20.0 + widest.fold(0.0, f64::max) + 8.0
}

pub(crate) fn draw_axes(svg: &mut Svg, area: PlotArea, x: (&Axis, &Scale), y: (&Axis, &Scale)) {
    for (value, label) in y.1.labels() {
        let place = y.1.place(value);
        svg.line("grid", (area.left, place), (area.right, place));
        svg.text(
            "tick",
            area.left - 8.0,
            place + 4.0,
            TextAnchor::End,
            &label,
        );
    }
    svg.line("axis", (area.left, area.top), (area.left, area.bottom));
    draw_lower_axis(svg, area, x.0, x.1);
    let middle = (area.top + area.bottom) / 2.0;
    svg.upright_text("name", MARGIN + 10.0, middle, &y.0.label());
}

pub(crate) fn draw_lower_axis(svg: &mut Svg, area: PlotArea, axis: &Axis, scale: &Scale) {
    for (value, label) in scale.labels() {
        let place = scale.place(value);
        svg.line("grid", (place, area.top), (place, area.bottom));
        svg.text(
            "tick",
            place,
            area.bottom + 18.0,
            TextAnchor::Middle,
            &label,
        );
    }
    svg.line("axis", (area.left, area.bottom), (area.right, area.bottom));
    let middle = (area.left + area.right) / 2.0;
    svg.text(
        "name",
        middle,
        area.bottom + 38.0,
        TextAnchor::Middle,
        &axis.label(),
    );
}
