//! A table, written as HTML or as Markdown from the same cells.

use std::fmt::Write as _;

use headlong_stats::ConfidenceInterval;

use crate::html::escape;

/// One cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Text.
    Text(String),
    /// A formatted number.
    Number(String),
    /// No value.
    Missing,
}

impl Cell {
    /// A number with this number of decimals; missing if it is not finite.
    pub fn number(value: f64, decimals: usize) -> Self {
        if !value.is_finite() {
            return Self::Missing;
        }
        let text = format!("{value:.decimals$}");
        // -0.0 is the result of rounding and would look like an error.
        let is_zero = text.trim_matches(['-', '0', '.']).is_empty();
        Self::Number(if is_zero {
            text.trim_start_matches('-').to_string()
        } else {
            text
        })
    }

    /// The same for a number that can be missing.
    pub fn maybe(value: Option<f64>, decimals: usize) -> Self {
        value.map_or(Self::Missing, |value| Self::number(value, decimals))
    }

    /// An estimate and half the width of its interval: `39.20 ± 0.01`.
    pub fn interval(interval: &ConfidenceInterval, decimals: usize) -> Self {
        match (
            Self::number(interval.estimate, decimals),
            Self::number(interval.half_width(), decimals),
        ) {
            (Self::Number(estimate), Self::Number(half)) => {
                Self::Number(format!("{estimate} ± {half}"))
            }
            (estimate, _) => estimate,
        }
    }

    /// An estimate and both ends of its interval: `2.33 [2.20, 2.47]`, for asymmetric intervals,
    /// such as those of ratios and shares.
    pub fn ends(interval: &ConfidenceInterval, decimals: usize) -> Self {
        match Self::number(interval.low + interval.high, decimals) {
            Self::Number(_) => Self::Number(format!("{interval:.decimals$}")),
            _ => Self::number(interval.estimate, decimals),
        }
    }

    fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Number(text) => text,
            Self::Missing => "-",
        }
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Missing, Into::into)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_string())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Self {
        Self::Number(number.to_string())
    }
}

impl From<bool> for Cell {
    fn from(is: bool) -> Self {
        Self::from(if is { "yes" } else { "no" })
    }
}

impl From<usize> for Cell {
    fn from(number: usize) -> Self {
        Self::Number(number.to_string())
    }
}

/// A column of a table: its heading, and the cell of a row.
pub type Column<'c, T> = (&'c str, &'c dyn Fn(&T) -> Cell);

/// A table with one header row. Columns that contain only numbers are right-aligned.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    caption: String,
    heads: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// An empty table with these headings, which include units: `Throughput (MB/s)`.
    pub fn new(heads: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            caption: String::new(),
            heads: heads.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
        }
    }

    /// The same, with the headings in one text: `Server | Throughput (MB/s)`.
    pub fn headed(heads: &str) -> Self {
        Self::new(heads.split(" | "))
    }

    /// A table with a row for each item.
    pub fn of<T>(rows: impl IntoIterator<Item = T>, columns: &[Column<'_, T>]) -> Self {
        let mut table = Self::new(columns.iter().map(|(head, _)| *head));
        for row in rows {
            table.push(columns.iter().map(|(_, cell)| cell(&row)));
        }
        table
    }

    /// Sets the caption.
    pub fn caption(mut self, caption: impl Into<String>) -> Self {
        self.caption = caption.into();
        self
    }

    /// Adds a row. A short row is padded with missing cells, a long row is truncated.
    pub fn row(mut self, cells: impl IntoIterator<Item = Cell>) -> Self {
        self.push(cells);
        self
    }

    /// Adds a row, as [`Self::row`] does.
    pub fn push(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut row: Vec<Cell> = cells.into_iter().collect();
        row.resize(self.heads.len(), Cell::Missing);
        self.rows.push(row);
    }

    /// Whether the table has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn is_number(&self, column: usize) -> bool {
        let mut cells = self.rows.iter().map(|row| &row[column]);
        cells.clone().any(|cell| matches!(cell, Cell::Number(_)))
            && !cells.any(|cell| matches!(cell, Cell::Text(_)))
    }

    /// As HTML.
    pub fn to_html(&self) -> String {
        let class = |column: usize| match self.is_number(column) {
            true => " class=\"number\"",
            false => "",
        };
        let mut html = String::from("<div class=\"wide\"><table>\n");
        // Writing to a String cannot fail, here and below.
        if !self.caption.is_empty() {
            let _ = writeln!(html, "<caption>{}</caption>", escape(&self.caption));
        }
        html.push_str("<thead><tr>");
        for (column, head) in self.heads.iter().enumerate() {
            let _ = write!(
                html,
                "<th scope=\"col\"{}>{}</th>",
                class(column),
                escape(head)
            );
        }
        html.push_str("</tr></thead>\n<tbody>\n");
        for row in &self.rows {
            html.push_str("<tr>");
            for (column, cell) in row.iter().enumerate() {
                let _ = write!(html, "<td{}>{}</td>", class(column), escape(cell.text()));
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</tbody></table></div>\n");
        html
    }

    /// As Markdown, padded so that it is also readable as plain text.
    pub fn to_markdown(&self) -> String {
        let plain = |text: &str| text.replace('|', "\\|").replace(['\n', '\r'], " ");
        let heads = || self.heads.iter().map(|head| plain(head));
        let rows: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| row.iter().map(|cell| plain(cell.text())).collect())
            .collect();
        let width = |column: usize, head: &str| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.chain([head.chars().count(), 3]).max().unwrap_or(3)
        };
        let widths: Vec<usize> = heads().enumerate().map(|(i, h)| width(i, &h)).collect();
        let line = |cells: Vec<String>| {
            let padded = cells.iter().enumerate().map(|(column, cell)| {
                let width = widths[column];
                match self.is_number(column) {
                    true => format!("{cell:>width$}"),
                    false => format!("{cell:<width$}"),
                }
            });
            format!("| {} |\n", padded.collect::<Vec<_>>().join(" | "))
        };
        let mut text = String::new();
        if !self.caption.is_empty() {
            let _ = writeln!(text, "{}\n", plain(&self.caption));
        }
        text.push_str(&line(heads().collect()));
        let rules = widths.iter().enumerate().map(|(column, width)| {
            let dashes = "-".repeat(width - 1);
            match self.is_number(column) {
                true => format!("{dashes}:"),
                false => format!("{dashes}-"),
            }
        });
        text.push_str(&line(rules.collect()));
        for row in rows {
            text.push_str(&line(row));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headlong_stats::Summary;

    fn table() -> Table {
        let rate: Summary = [39.0, 39.2, 39.4].into_iter().collect();
        let interval = rate.interval(0.95).expect("three runs");
        Table::new(["Server", "MB/s", "Failed"])
            .caption("Two <servers>")
            .row(["a|b".into(), Cell::interval(&interval, 1), 12u64.into()])
            .row(["c".into(), Cell::number(f64::NAN, 1)])
    }

    #[test]
    fn markdown_is_padded_and_numbers_are_right_aligned() {
        let expected = "Two <servers>\n\n\
            | Server |       MB/s | Failed |\n\
            | ------ | ---------: | -----: |\n\
            | a\\|b   | 39.2 ± 0.5 |     12 |\n\
            | c      |          - |      - |\n";
        assert_eq!(table().to_markdown(), expected);
    }

    #[test]
    fn html_has_the_same_content_and_is_escaped() {
        let html = table().to_html();
        assert!(
            html.contains("<caption>Two &lt;servers&gt;</caption>"),
            "{html}"
        );
        assert!(
            html.contains("<td>a|b</td><td class=\"number\">39.2 ± 0.5</td>"),
            "{html}"
        );
    }

    #[test]
    fn a_share_has_both_ends_and_zero_has_no_sign() {
        let share = ConfidenceInterval {
            estimate: 0.0,
            low: 0.0,
            high: 0.161,
            confidence: 0.95,
        };
        assert_eq!(
            Cell::ends(&share, 3),
            Cell::Number("0.000 [0.000, 0.161]".into())
        );
        assert_eq!(Cell::number(-0.001, 1), Cell::Number("0.0".into()));
        assert_eq!(Cell::number(-0.1, 1), Cell::Number("-0.1".into()));
    }
}
