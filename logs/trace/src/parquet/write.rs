//! Writes Parquet tables row by row.
//!
//! A row type declares its columns once; callers push rows. Rows are collected into groups, so
//! memory is bounded by one group.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType, ZstdLevel};
use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use ::parquet::schema::types::Type;

/// Rows in a group: the size that DuckDB writes, so that it reads groups in parallel.
const GROUP_ROWS: usize = 122_880;

/// Type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    /// 64-bit integers.
    Int,
    /// Real numbers.
    Real,
    /// Text.
    Text,
    /// Booleans.
    Flag,
}

/// A column of a table. Any cell may be empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnSpec {
    /// Name, with the unit last.
    pub name: &'static str,
    /// Type.
    pub kind: ColumnType,
}

impl ColumnSpec {
    /// A column.
    pub const fn new(name: &'static str, kind: ColumnType) -> Self {
        Self { name, kind }
    }
}

/// A row type.
pub trait TableRow {
    /// The table's columns.
    const COLUMNS: &'static [ColumnSpec];

    /// Writes one cell for each column, in order.
    fn write(&self, cells: &mut RowCells<'_>);
}

/// Why a table could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the table {}: {source}; check its folder and the free space of its disk",
        path.display())]
pub struct TableError {
    path: PathBuf,
    source: ParquetError,
}

/// Cells of one column, collected until their group is full.
#[derive(Debug)]
struct ColumnBuffer {
    values: ColumnValues,
    /// 1 for a value, 0 for an empty cell.
    levels: Vec<i16>,
}

#[derive(Debug)]
enum ColumnValues {
    Int(Vec<i64>),
    Real(Vec<f64>),
    Text(Vec<ByteArray>),
    Flag(Vec<bool>),
}

/// The cells of the row being written.
#[derive(Debug)]
pub struct RowCells<'a> {
    columns: &'a mut [ColumnBuffer],
    next: usize,
}

impl RowCells<'_> {
    /// An integer. Values that do not fit in a signed 64-bit integer saturate.
    pub fn int(&mut self, number: impl TryInto<i64>) {
        let number = number.try_into().unwrap_or(i64::MAX);
        self.put(|values| match values {
            ColumnValues::Int(numbers) => numbers.push(number),
            _ => unreachable!("an integer in a column of another type"),
        });
    }

    /// An integer, or an empty cell.
    pub fn maybe_int(&mut self, number: Option<impl TryInto<i64>>) {
        match number {
            Some(number) => self.int(number),
            None => self.empty(),
        }
    }

    /// A real number.
    pub fn real(&mut self, number: f64) {
        self.put(|values| match values {
            ColumnValues::Real(numbers) => numbers.push(number),
            _ => unreachable!("a real number in a column of another type"),
        });
    }

    /// A text.
    pub fn text(&mut self, text: impl std::fmt::Display) {
        let bytes = ByteArray::from(text.to_string().into_bytes());
        self.put(|values| match values {
            ColumnValues::Text(texts) => texts.push(bytes),
            _ => unreachable!("a text in a column of another type"),
        });
    }

    /// A boolean.
    pub fn flag(&mut self, flag: bool) {
        self.put(|values| match values {
            ColumnValues::Flag(flags) => flags.push(flag),
            _ => unreachable!("a flag in a column of another type"),
        });
    }

    /// An empty cell.
    pub fn empty(&mut self) {
        self.columns[self.next].levels.push(0);
        self.next += 1;
    }

    fn put(&mut self, push: impl FnOnce(&mut ColumnValues)) {
        let column = &mut self.columns[self.next];
        push(&mut column.values);
        column.levels.push(1);
        self.next += 1;
    }
}

/// Writes a table of one kind of row.
pub struct TableWriter<R> {
    path: PathBuf,
    writer: SerializedFileWriter<Box<dyn Write + Send>>,
    columns: Vec<ColumnBuffer>,
    rows: usize,
    kind: std::marker::PhantomData<fn(R)>,
}

impl<R: TableRow> TableWriter<R> {
    /// Creates a table in a new file.
    pub fn create(path: &Path) -> Result<Self, TableError> {
        let file = File::create(path).map_err(|error| TableError {
            path: path.to_owned(),
            source: error.into(),
        })?;
        Self::into_file(file, path)
    }

    /// Writes a table to an open file; `path` is its name in errors.
    pub fn into_file(file: File, path: &Path) -> Result<Self, TableError> {
        Self::new(Box::new(file), path)
    }

    fn new(output: Box<dyn Write + Send>, path: &Path) -> Result<Self, TableError> {
        let level = ZstdLevel::try_new(1).unwrap_or_default();
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_created_by("headlong".to_owned())
            .build();
        let writer = schema(R::COLUMNS)
            .and_then(|schema| SerializedFileWriter::new(output, schema, Arc::new(properties)));
        Ok(Self {
            path: path.to_owned(),
            writer: writer.map_err(|source| TableError {
                path: path.to_owned(),
                source,
            })?,
            columns: R::COLUMNS
                .iter()
                .map(|column| ColumnBuffer::new(column.kind))
                .collect(),
            rows: 0,
            kind: std::marker::PhantomData,
        })
    }

    /// Appends a row.
    ///
    /// # Panics
    /// If the row writes a number of cells that differs from its columns.
    pub fn push(&mut self, row: &R) -> Result<(), TableError> {
        let mut cells = RowCells {
            columns: &mut self.columns,
            next: 0,
        };
        row.write(&mut cells);
        assert_eq!(cells.next, R::COLUMNS.len(), "one cell per column");
        self.rows += 1;
        if self.rows == GROUP_ROWS {
            return self.flush();
        }
        Ok(())
    }

    /// Writes the remaining rows and the footer.
    pub fn finish(mut self) -> Result<(), TableError> {
        self.flush()?;
        let path = self.path;
        match self.writer.close() {
            Ok(_) => Ok(()),
            Err(source) => Err(TableError { path, source }),
        }
    }

    fn flush(&mut self) -> Result<(), TableError> {
        if self.rows == 0 {
            return Ok(());
        }
        self.rows = 0;
        let outcome = self.writer.next_row_group().and_then(|mut group| {
            for column in &mut self.columns {
                column.write(&mut group)?;
            }
            group.close().map(|_| ())
        });
        outcome.map_err(|source| TableError {
            path: self.path.clone(),
            source,
        })
    }
}

impl<R> std::fmt::Debug for TableWriter<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableWriter")
            .field("path", &self.path)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

impl ColumnBuffer {
    fn new(kind: ColumnType) -> Self {
        let values = match kind {
            ColumnType::Int => ColumnValues::Int(Vec::new()),
            ColumnType::Real => ColumnValues::Real(Vec::new()),
            ColumnType::Text => ColumnValues::Text(Vec::new()),
            ColumnType::Flag => ColumnValues::Flag(Vec::new()),
        };
        Self {
            values,
            levels: Vec::new(),
        }
    }

    fn write<W: Write + Send>(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<(), ParquetError> {
        let Some(mut column) = group.next_column()? else {
            return Err(ParquetError::General("no such column".to_owned()));
        };
        let levels = Some(&self.levels[..]);
        match &mut self.values {
            ColumnValues::Int(numbers) => {
                column
                    .typed::<Int64Type>()
                    .write_batch(numbers, levels, None)?;
                numbers.clear();
            }
            ColumnValues::Real(numbers) => {
                column
                    .typed::<DoubleType>()
                    .write_batch(numbers, levels, None)?;
                numbers.clear();
            }
            ColumnValues::Text(texts) => {
                column
                    .typed::<ByteArrayType>()
                    .write_batch(texts, levels, None)?;
                texts.clear();
            }
            ColumnValues::Flag(flags) => {
                column
                    .typed::<BoolType>()
                    .write_batch(flags, levels, None)?;
                flags.clear();
            }
        }
        self.levels.clear();
        column.close()
    }
}

fn schema(columns: &[ColumnSpec]) -> Result<Arc<Type>, ParquetError> {
    let mut fields = Vec::new();
    for column in columns {
        let (physical, logical) = match column.kind {
            ColumnType::Int => (PhysicalType::INT64, None),
            ColumnType::Real => (PhysicalType::DOUBLE, None),
            ColumnType::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
            ColumnType::Flag => (PhysicalType::BOOLEAN, None),
        };
        let field = Type::primitive_type_builder(column.name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical)
            .build()?;
        fields.push(Arc::new(field));
    }
    Ok(Arc::new(
        Type::group_type_builder("table")
            .with_fields(fields)
            .build()?,
    ))
}
