//! Tables and figures as values, independent of their presentation.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

/// A cell of a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum CellValue {
    /// A number.
    Number(f64),
    /// Text.
    Text(String),
    /// No value.
    None,
}

impl From<f64> for CellValue {
    fn from(value: f64) -> Self {
        match value.is_finite() {
            true => Self::Number(value),
            false => Self::None,
        }
    }
}

impl From<u64> for CellValue {
    fn from(value: u64) -> Self {
        Self::Number(value as f64)
    }
}

impl From<usize> for CellValue {
    fn from(value: usize) -> Self {
        Self::Number(value as f64)
    }
}

impl From<String> for CellValue {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<&str> for CellValue {
    fn from(value: &str) -> Self {
        Self::Text(value.to_string())
    }
}

impl From<Option<f64>> for CellValue {
    fn from(value: Option<f64>) -> Self {
        value.map_or(Self::None, Self::from)
    }
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableColumn {
    /// Identifier for programs.
    pub key: String,
    /// Name for readers, including the unit.
    pub name: String,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableRow {
    /// Identifier for programs.
    pub key: String,
    /// Name for readers.
    pub name: String,
    /// One for each column.
    #[serde(skip_deserializing)]
    pub values: Vec<CellValue>,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Identifier such as `table-5.1`, after its counterpart in the thesis.
    #[serde(skip_deserializing)]
    pub id: String,
    /// Its subject.
    pub title: String,
    /// Explanation: how to read it, and how values were counted.
    pub reading: String,
    /// Columns after the row names.
    pub columns: Vec<TableColumn>,
    /// Rows.
    pub rows: Vec<TableRow>,
}

impl Table {
    /// Fills the rows named by the caption, in order.
    ///
    /// # Panics
    /// If the number of rows or values differs.
    pub(crate) fn filled<const N: usize>(
        mut self,
        values: impl IntoIterator<Item = [CellValue; N]>,
    ) -> Self {
        let mut values = values.into_iter();
        for (row, values) in self.rows.iter_mut().zip(values.by_ref()) {
            row.values = values.into();
        }
        assert!(
            values.next().is_none(),
            "{}: a row without a caption",
            self.id
        );
        assert!(
            self.rows
                .iter()
                .all(|row| row.values.len() == self.columns.len()),
            "{}",
            self.id
        );
        self
    }

    /// Replaces `{}` in the explanation by a text that depends on the log.
    pub(crate) fn telling(mut self, words: &str) -> Self {
        self.reading = self.reading.replace("{}", words);
        self
    }

    /// Adds a row.
    pub(crate) fn push(
        &mut self,
        key: &str,
        name: &str,
        values: impl IntoIterator<Item = CellValue>,
    ) {
        self.rows.push(TableRow {
            key: key.into(),
            name: name.into(),
            values: values.into_iter().collect(),
        });
    }

    /// The value in a row and a column, by their keys.
    pub fn value(&self, row: &str, column: &str) -> Option<&CellValue> {
        let place = self.columns.iter().position(|c| c.key == column)?;
        let row = self.rows.iter().find(|r| r.key == row)?;
        row.values.get(place)
    }

    /// The same, if it is a number.
    pub fn number(&self, row: &str, column: &str) -> Option<f64> {
        match self.value(row, column)? {
            CellValue::Number(number) => Some(*number),
            _ => None,
        }
    }
}

/// Scale of an axis.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AxisScale {
    /// Linear.
    #[default]
    Linear,
    /// Logarithmic.
    Log,
}

/// An axis of a figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// The quantity.
    pub quantity: String,
    /// Its unit; empty for a plain number.
    #[serde(default)]
    pub unit: String,
    /// Its scale.
    #[serde(default)]
    pub scale: AxisScale,
    /// Names at 0, 1, 2 ... for an axis with names instead of numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// How points are drawn, and what their numbers mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SeriesForm {
    /// `[x, y]` joined by lines.
    Lines,
    /// `[x, y]` as steps up: a cumulative distribution.
    Steps,
    /// `[x, y]` as dots.
    Dots,
    /// `[place of a name, length]` as bars; the names are on the x axis.
    Bars,
    /// `[column, row, value]` as circles whose areas are the values.
    Bubbles,
    /// `[x from, x to, y from, y to]` as rectangles.
    Boxes,
}

/// A named series of points.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Whether it is a fitted curve, or a published one.
    pub is_reference: bool,
    /// Points as defined by [`SeriesForm`].
    pub points: Vec<Vec<f64>>,
}

impl Series {
    /// A series of pairs.
    pub fn new(name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self::of(name, points.into_iter().map(|(x, y)| vec![x, y]))
    }

    /// A series of points of any form.
    pub fn of(name: &str, points: impl IntoIterator<Item = Vec<f64>>) -> Self {
        Self {
            name: name.into(),
            is_reference: false,
            points: points.into_iter().collect(),
        }
    }

    /// Marks the series as a reference.
    pub fn reference(mut self) -> Self {
        self.is_reference = true;
        self
    }
}

/// A figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Identifier such as `figure-5.11`, after its counterpart in the thesis.
    #[serde(skip_deserializing)]
    pub id: String,
    /// Its subject.
    pub title: String,
    /// Explanation: what to see, and how values were counted.
    pub reading: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// How its points are drawn.
    pub form: SeriesForm,
    /// Its data.
    #[serde(skip_deserializing)]
    pub series: Vec<Series>,
}

impl Figure {
    /// Sets the names along the horizontal axis.
    pub(crate) fn across(mut self, names: Vec<String>) -> Self {
        self.x.names = names;
        self
    }

    /// Sets the names along the vertical axis.
    pub(crate) fn upwards(mut self, names: Vec<String>) -> Self {
        self.y.names = names;
        self
    }

    /// Replaces `{}` in the explanation by a text that depends on the log.
    pub(crate) fn telling(mut self, words: &str) -> Self {
        self.reading = self.reading.replace("{}", words);
        self
    }

    /// Adds a series.
    pub fn series(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }
}

/// All tables and figures without numbers: titles, columns, axes and explanations.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Captions {
    tables: BTreeMap<String, Table>,
    figures: BTreeMap<String, Figure>,
}

impl Captions {
    /// The captions of this crate.
    pub(crate) fn new() -> Self {
        let mut all: Self = toml::from_str(include_str!("captions.toml"))
            .expect("the captions are compiled in and covered by tests");
        all.tables
            .iter_mut()
            .for_each(|(id, table)| table.id.clone_from(id));
        all.figures
            .iter_mut()
            .for_each(|(id, figure)| figure.id.clone_from(id));
        all
    }

    /// A table with empty rows.
    ///
    /// # Panics
    /// If there is no such caption.
    pub(crate) fn table(&self, id: &str) -> Table {
        self.tables.get(id).expect("a table with a caption").clone()
    }

    /// A figure without series.
    ///
    /// # Panics
    /// If there is no such caption.
    pub(crate) fn figure(&self, id: &str) -> Figure {
        self.figures
            .get(id)
            .expect("a figure with a caption")
            .clone()
    }
}

/// Result of an accumulator: tables and figures in order of presentation.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ReportItems {
    /// Its tables.
    pub(crate) tables: Vec<Table>,
    /// Its figures.
    pub(crate) figures: Vec<Figure>,
}

/// `part` of `whole` in per cent; 0 if `whole` is 0.
pub(crate) fn per_cent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 {
        100.0 * part / whole
    } else {
        0.0
    }
}

/// `sum / count`; `None` if `count` is 0.
pub(crate) fn mean(sum: f64, count: u64) -> Option<f64> {
    (count > 0).then(|| sum / count as f64)
}
