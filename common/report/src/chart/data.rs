//! The data of a figure for other programs, and the information with which a browser redraws it.

use std::fmt::Write as _;

use super::axis::Scale;
use super::frame::PlotArea;
use super::points::ChartKind;
use super::{Axis, Chart, Figure, lines};

impl Figure {
    /// The data as comma-separated values: one line per point, after a header line.
    pub fn to_csv(&self) -> String {
        let mut csv = String::new();
        match self {
            Self::Chart(chart) => {
                push_line(
                    &mut csv,
                    &["series", &chart.x.label(), &chart.y.label()],
                    &[],
                );
                for series in &chart.series {
                    for point in series.points.iter().filter(|point| point.is_finite()) {
                        push_line(&mut csv, &[&series.name], &[point.x, point.y]);
                    }
                }
            }
            Self::Bars(bars) => {
                push_line(&mut csv, &["group", "series", &bars.axis.label()], &[]);
                for (group, values) in &bars.groups {
                    for ((name, _), bar) in bars.series.iter().zip(values) {
                        if let Some(bar) = bar {
                            push_line(&mut csv, &[group, name], &[bar.value]);
                        }
                    }
                }
            }
            Self::Boxes(boxes) => {
                let (x, y) = (boxes.x.label(), boxes.y.label());
                let heads = ["from", "to"].map(|end| format!("{x} {end}"));
                let more = ["from", "to"].map(|end| format!("{y} {end}"));
                push_line(
                    &mut csv,
                    &["series", &heads[0], &heads[1], &more[0], &more[1]],
                    &[],
                );
                for (name, all) in &boxes.series {
                    boxes
                        .shown(all)
                        .for_each(|numbers| push_line(&mut csv, &[name], numbers));
                }
            }
            Self::Bubbles(bubbles) => {
                push_line(&mut csv, &[&bubbles.x.0, &bubbles.y.0, "per cent"], &[]);
                for (column, row, value) in &bubbles.values {
                    let names = [bubbles.x.1[*column].as_str(), bubbles.y.1[*row].as_str()];
                    push_line(&mut csv, &names, &[*value]);
                }
            }
        }
        csv
    }

    /// The information besides the data that a script needs to redraw the figure, as JSON; `None`
    /// for static figures.
    pub(crate) fn plan(&self) -> Option<String> {
        match self {
            Self::Chart(chart) => {
                let kind = match chart.kind {
                    ChartKind::Lines => "lines",
                    ChartKind::Scatter => "dots",
                    ChartKind::Steps => "steps",
                };
                let laid = lines::layout(chart);
                let mut plan = plan(kind, laid, (&chart.x, &chart.y), &[]);
                push_series(&mut plan, chart);
                Some(plan + "}")
            }
            Self::Boxes(boxes) => {
                let mut plan = plan("boxes", boxes.layout(), (&boxes.x, &boxes.y), &boxes.rows);
                let names = boxes
                    .series
                    .iter()
                    .map(|(name, _)| format!("[{},0]", quoted(name)));
                let _ = write!(plan, ",\"series\":[{}],\"thresholds\":[]", joined(names));
                Some(plan + "}")
            }
            Self::Bars(_) | Self::Bubbles(_) => None,
        }
    }
}

fn push_series(plan: &mut String, chart: &Chart) {
    let names = chart.series.iter().map(|series| {
        format!(
            "[{},{}]",
            quoted(&series.name),
            u8::from(series.is_reference)
        )
    });
    let thresholds = chart.thresholds.iter().filter(|line| line.0.is_finite());
    let thresholds = thresholds.map(|(value, label, is_upright)| {
        format!(
            "[{},{},{}]",
            number(*value),
            quoted(label),
            u8::from(*is_upright)
        )
    });
    let _ = write!(
        plan,
        ",\"series\":[{}],\"thresholds\":[{}]",
        joined(names),
        joined(thresholds)
    );
}

/// The start of a plan: kind, area, axes.
fn plan(
    kind: &str,
    (area, x, y): (PlotArea, Scale, Scale),
    axes: (&Axis, &Axis),
    rows: &[String],
) -> String {
    let axis = |axis: &Axis, scale: &Scale| {
        format!(
            "{{\"label\":{},\"log\":{},\"from\":{},\"to\":{}}}",
            quoted(&axis.label()),
            scale.is_log,
            number(scale.from),
            number(scale.to)
        )
    };
    format!(
        "{{\"kind\":\"{kind}\",\"area\":[{:.1},{:.1},{:.1},{:.1}],\"x\":{},\"y\":{},\"rows\":[{}]",
        area.left,
        area.top,
        area.right,
        area.bottom,
        axis(axes.0, &x),
        axis(axes.1, &y),
        joined(rows.iter().map(|name| quoted(name)))
    )
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(",")
}

/// All significant digits, without an exponent, which some spreadsheets do not parse.
fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".into();
    }
    let decimals = (6.0 - value.abs().log10().floor()).clamp(0.0, 12.0) as usize;
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

/// A JSON string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", c as u32);
            }
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

fn push_line(csv: &mut String, words: &[&str], numbers: &[f64]) {
    let field = |word: &&str| match word.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", word.replace('"', "\"\"")),
        false => word.to_string(),
    };
    let words = words.iter().map(field);
    let _ = writeln!(
        csv,
        "{}",
        joined(words.chain(numbers.iter().map(|n| number(*n))))
    );
}

/// Text encoded for a `data:` URL.
pub(crate) fn percent_encoded(text: &str) -> String {
    let mut safe = String::with_capacity(text.len() * 5 / 4);
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b',' | b'_' => {
                safe.push(char::from(byte));
            }
            _ => {
                let _ = write!(safe, "%{byte:02X}");
            }
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Boxes, Series};

    #[test]
    fn numbers_are_exported_unchanged() {
        let chart = Chart::lines("t", Axis::new("x", "s"), Axis::new("y", "")).series(Series::new(
            "a, \"b\"",
            [(0.1 + 0.2, 1e9), (f64::NAN, 1.0), (-2.5, 0.0)],
        ));
        let csv = Figure::from(chart).to_csv();
        assert_eq!(
            csv,
            "series,x (s),y\n\"a, \"\"b\"\"\",0.3,1000000000\n\"a, \"\"b\"\"\",-2.5,0\n"
        );
    }

    #[test]
    fn a_plan_is_valid_json_for_any_name() {
        let boxes = Boxes::new("t", Axis::new("a\"b\\", "s"), Axis::new("y\n", ""))
            .rows(["</script>"])
            .series("s", [[0.0, 1.0, 0.0, 1.0]]);
        let plan = Figure::from(boxes).plan().expect("it has one");
        assert!(
            plan.contains(r#""label":"a\"b\\ (s)""#) && plan.contains("y\\u000a"),
            "{plan}"
        );
        assert!(
            plan.starts_with("{\"kind\":\"boxes\"") && plan.ends_with("[]}"),
            "{plan}"
        );
    }

    #[test]
    fn an_encoded_url_contains_no_markup_characters() {
        assert_eq!(percent_encoded("a b,<\"\n%é"), "a%20b,%3C%22%0A%25%C3%A9");
    }
}
