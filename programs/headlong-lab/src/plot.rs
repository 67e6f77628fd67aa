//! Plots in text mode.

use std::fmt::Write as _;

const COLUMNS: usize = 64;
const ROWS: usize = 12;

/// A plot with a title of points sorted by x; empty without points.
pub(crate) fn plot(title: &str, points: &[(f64, f64)]) -> String {
    let span = |of: fn(&(f64, f64)) -> f64| {
        let values = points.iter().map(of).filter(|value| value.is_finite());
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        })
    };
    let ((left, right), (bottom, top)) = (span(|point| point.0), span(|point| point.1));
    // Otherwise there are no points, or none with finite coordinates.
    if !(left <= right && bottom <= top) {
        return String::new();
    }
    let place = |value: f64, low: f64, high: f64, cells: usize| {
        let share = if high > low {
            (value - low) / (high - low)
        } else {
            0.0
        };
        ((share * (cells - 1) as f64).round() as usize).min(cells - 1)
    };
    let mut cells = [[' '; COLUMNS]; ROWS];
    for (x, y) in points {
        let row = ROWS - 1 - place(*y, bottom, top, ROWS);
        cells[row][place(*x, left, right, COLUMNS)] = '*';
    }
    let mut text = format!("\n  {title}\n");
    for (index, row) in cells.iter().enumerate() {
        let label = match index {
            0 => format!("{top:.2}"),
            index if index == ROWS - 1 => format!("{bottom:.2}"),
            _ => String::new(),
        };
        let row: String = row.iter().collect();
        let _ = writeln!(text, "  {label:>8} |{}", row.trim_end());
    }
    let _ = writeln!(text, "  {:>8} +{}", "", "-".repeat(COLUMNS));
    let (left, right) = (format!("{left:.2}"), format!("{right:.2}"));
    let gap = COLUMNS - left.len().min(COLUMNS / 2);
    let _ = writeln!(text, "  {:>8}  {left}{right:>gap$}", "");
    text
}

#[cfg(test)]
mod tests {
    use super::plot;

    #[test]
    fn points_are_plotted_at_their_coordinates() {
        let text = plot("a line", &[(0.0, 0.0), (1.0, 1.0), (2.0, 2.0)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "  a line");
        assert_eq!(lines[2].find('*'), Some(11 + 1 + 63 - 1 + 1));
        assert!(lines[2].starts_with("      2.00 |") && lines[13].starts_with("      0.00 |*"));
        assert!(lines[15].ends_with("2.00"), "{text}");
    }

    #[test]
    fn empty_data_gives_no_plot() {
        assert_eq!(plot("nothing", &[]), "");
        assert_eq!(plot("nothing", &[(f64::NAN, 1.0)]), "");
        assert!(plot("one", &[(1.0, 1.0)]).contains('*'));
    }
}
