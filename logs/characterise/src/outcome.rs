//! What comes out: tables and figures as values, apart from how they are shown.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

/// A cell of a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A number.
    Number(f64),
    /// Words.
    Text(String),
    /// Nothing is known.
    None,
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        match value.is_finite() {
            true => Self::Number(value),
            false => Self::None,
        }
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Number(value as f64)
    }
}

impl From<usize> for Value {
    fn from(value: usize) -> Self {
        Self::Number(value as f64)
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_string())
    }
}

impl From<Option<f64>> for Value {
    fn from(value: Option<f64>) -> Self {
        value.map_or(Self::None, Self::from)
    }
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// What programs call it.
    pub key: String,
    /// What people call it, unit included.
    pub name: String,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What programs call it.
    pub key: String,
    /// What people call it.
    pub name: String,
    /// One for each column.
    #[serde(skip_deserializing)]
    pub values: Vec<Value>,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Such as `table-5.1`, for its counterpart in the thesis.
    #[serde(skip_deserializing)]
    pub id: String,
    /// What it is a table of.
    pub title: String,
    /// How to read it, and what was counted how.
    pub reading: String,
    /// Columns behind the names of rows.
    pub columns: Vec<Column>,
    /// Rows.
    pub rows: Vec<Row>,
}

impl Table {
    /// With these values in the rows that its caption names, in their order.
    ///
    /// # Panics
    /// If there are not as many.
    pub(crate) fn filled<const N: usize>(
        mut self,
        values: impl IntoIterator<Item = [Value; N]>,
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

    /// With a part of its reading that only the log tells.
    pub(crate) fn telling(mut self, words: &str) -> Self {
        self.reading = self.reading.replace("{}", words);
        self
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, key: &str, name: &str, values: impl IntoIterator<Item = Value>) {
        self.rows.push(Row {
            key: key.into(),
            name: name.into(),
            values: values.into_iter().collect(),
        });
    }

    /// The value in a row and a column, by their keys.
    pub fn value(&self, row: &str, column: &str) -> Option<&Value> {
        let place = self.columns.iter().position(|c| c.key == column)?;
        let row = self.rows.iter().find(|r| r.key == row)?;
        row.values.get(place)
    }

    /// The same if it is a number.
    pub fn number(&self, row: &str, column: &str) -> Option<f64> {
        match self.value(row, column)? {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }
}

/// How values become places on an axis.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Equal differences at equal distances.
    #[default]
    Linear,
    /// Equal ratios at equal distances.
    Log,
}

/// An axis of a figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// What it measures.
    pub quantity: String,
    /// In what unit; empty for a number.
    #[serde(default)]
    pub unit: String,
    /// How it is laid out.
    #[serde(default)]
    pub scale: Scale,
    /// Names at 0, 1, 2 ... if it has names instead of numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// How points become marks, and what their numbers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
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

/// Points under one name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Whether it is a curve that was fitted, or what others published.
    pub is_reference: bool,
    /// What [`Form`] says.
    pub points: Vec<Vec<f64>>,
}

impl Series {
    /// Of pairs.
    pub fn new(name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self::of(name, points.into_iter().map(|(x, y)| vec![x, y]))
    }

    /// Of points of any form.
    pub fn of(name: &str, points: impl IntoIterator<Item = Vec<f64>>) -> Self {
        Self {
            name: name.into(),
            is_reference: false,
            points: points.into_iter().collect(),
        }
    }

    /// The same, as a reference.
    pub fn reference(mut self) -> Self {
        self.is_reference = true;
        self
    }
}

/// A figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Such as `figure-5.11`, for its counterpart in the thesis.
    #[serde(skip_deserializing)]
    pub id: String,
    /// What it shows.
    pub title: String,
    /// In plain words: what to see, and how it was counted.
    pub reading: String,
    /// Across.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// What its points are.
    pub form: Form,
    /// Its data.
    #[serde(skip_deserializing)]
    pub series: Vec<Series>,
}

impl Figure {
    /// With names along the horizontal axis.
    pub(crate) fn across(mut self, names: Vec<String>) -> Self {
        self.x.names = names;
        self
    }

    /// With names along the vertical axis.
    pub(crate) fn upwards(mut self, names: Vec<String>) -> Self {
        self.y.names = names;
        self
    }

    /// With a part of its reading that only the log tells.
    pub(crate) fn telling(mut self, words: &str) -> Self {
        self.reading = self.reading.replace("{}", words);
        self
    }

    /// With one series more.
    pub fn series(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }
}

/// All tables and figures without their numbers: titles, columns, axes and readings.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Captions {
    tables: BTreeMap<String, Table>,
    figures: BTreeMap<String, Figure>,
}

impl Captions {
    /// Those of this crate.
    pub(crate) fn new() -> Self {
        let mut all: Self = toml::from_str(include_str!("captions.toml"))
            .expect("the captions are a part of the program, and tests read them");
        all.tables
            .iter_mut()
            .for_each(|(id, table)| table.id.clone_from(id));
        all.figures
            .iter_mut()
            .for_each(|(id, figure)| figure.id.clone_from(id));
        all
    }

    /// A table whose rows are yet to be filled.
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

/// What an accumulator gives: tables and figures in the order in which they are shown.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Outcome {
    /// Its tables.
    pub(crate) tables: Vec<Table>,
    /// Its figures.
    pub(crate) figures: Vec<Figure>,
}

/// `part` of `whole` in per cent; nothing of nothing is nothing.
pub(crate) fn per_cent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 {
        100.0 * part / whole
    } else {
        0.0
    }
}

/// `sum / count`, if there were any.
pub(crate) fn mean(sum: f64, count: u64) -> Option<f64> {
    (count > 0).then(|| sum / count as f64)
}
