//! Writes Parquet tables row by row.
//!
//! A row type declares its columns once, each with its value in a row; callers push rows. Rows are
//! collected into groups, so memory is bounded by one group. A table that is created by name appears
//! when it is complete.

use std::borrow::Cow;
use std::fmt::Display;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType, ZstdLevel};
use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{
    SerializedColumnWriter, SerializedFileWriter, SerializedRowGroupWriter,
};
use ::parquet::schema::types::Type;
use headlong_report::Output;

use super::schemas::TableSchema;

/// Rows in a group: the size that DuckDB writes, so that it reads groups in parallel.
const GROUP_ROWS: usize = 122_880;

/// A row type.
pub trait TableRow: Sized {
    /// The meaning of its columns, for the footer of the table.
    const SCHEMA: Option<TableSchema> = None;

    /// The table's columns.
    fn columns() -> Columns<Self>;
}

/// The columns of a table, each with its cell in a row. A cell may be empty.
#[derive(Debug)]
pub struct Columns<R>(Vec<Column<R>>);

/// A column, with the cells of the rows that wait for their group to be full.
struct Column<R> {
    name: Cow<'static, str>,
    cells: ColumnCells<R>,
    /// 1 for a value, 0 for an empty cell.
    levels: Vec<i16>,
}

/// The value of a cell in a row; `None` if it is empty.
type CellFn<R, T> = Box<dyn Fn(&R) -> Option<T> + Send>;

enum ColumnCells<R> {
    Int(CellFn<R, i64>, Vec<i64>),
    Real(CellFn<R, f64>, Vec<f64>),
    Text(CellFn<R, ByteArray>, Vec<ByteArray>),
    Flag(CellFn<R, bool>, Vec<bool>),
}

impl<R> Columns<R> {
    /// No columns.
    pub const fn empty() -> Self {
        Self(Vec::new())
    }

    fn and(mut self, name: impl Into<Cow<'static, str>>, cells: ColumnCells<R>) -> Self {
        self.0.push(Column {
            name: name.into(),
            cells,
            levels: Vec::new(),
        });
        self
    }

    /// Adds a column of 64-bit integers; larger numbers saturate.
    pub fn int<N: TryInto<i64>>(
        self,
        name: impl Into<Cow<'static, str>>,
        of: impl Fn(&R) -> Option<N> + Send + 'static,
    ) -> Self {
        let of = move |row: &R| of(row).map(|number| number.try_into().unwrap_or(i64::MAX));
        self.and(name, ColumnCells::Int(Box::new(of), Vec::new()))
    }

    /// Adds a column of real numbers.
    pub fn real(
        self,
        name: impl Into<Cow<'static, str>>,
        of: impl Fn(&R) -> Option<f64> + Send + 'static,
    ) -> Self {
        self.and(name, ColumnCells::Real(Box::new(of), Vec::new()))
    }

    /// Adds a column of texts.
    pub fn text<T: Display>(
        self,
        name: impl Into<Cow<'static, str>>,
        of: impl Fn(&R) -> Option<T> + Send + 'static,
    ) -> Self {
        let of = move |row: &R| of(row).map(|text| text.to_string().into_bytes().into());
        self.and(name, ColumnCells::Text(Box::new(of), Vec::new()))
    }

    /// Adds a column of booleans.
    pub fn flag(
        self,
        name: impl Into<Cow<'static, str>>,
        of: impl Fn(&R) -> Option<bool> + Send + 'static,
    ) -> Self {
        self.and(name, ColumnCells::Flag(Box::new(of), Vec::new()))
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|column| column.name.as_ref())
    }
}

impl<R> Column<R> {
    fn push(&mut self, row: &R) {
        fn put<T>(cell: Option<T>, values: &mut Vec<T>) -> bool {
            let has_value = cell.is_some();
            values.extend(cell);
            has_value
        }
        let has_value = match &mut self.cells {
            ColumnCells::Int(of, values) => put(of(row), values),
            ColumnCells::Real(of, values) => put(of(row), values),
            ColumnCells::Text(of, values) => put(of(row), values),
            ColumnCells::Flag(of, values) => put(of(row), values),
        };
        self.levels.push(i16::from(has_value));
    }

    fn write(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, File>,
    ) -> Result<(), ParquetError> {
        fn put<T: DataType>(
            column: &mut SerializedColumnWriter<'_>,
            values: &mut Vec<T::T>,
            levels: &[i16],
        ) -> Result<(), ParquetError> {
            let typed = column.typed::<T>();
            typed.write_batch(values, Some(levels), None)?;
            values.clear();
            Ok(())
        }
        let Some(mut column) = group.next_column()? else {
            return Err(ParquetError::General("no such column".to_owned()));
        };
        let levels = &self.levels;
        match &mut self.cells {
            ColumnCells::Int(_, values) => put::<Int64Type>(&mut column, values, levels),
            ColumnCells::Real(_, values) => put::<DoubleType>(&mut column, values, levels),
            ColumnCells::Text(_, values) => put::<ByteArrayType>(&mut column, values, levels),
            ColumnCells::Flag(_, values) => put::<BoolType>(&mut column, values, levels),
        }?;
        self.levels.clear();
        column.close()
    }

    fn schema(&self) -> Result<Arc<Type>, ParquetError> {
        let (physical, logical) = match self.cells {
            ColumnCells::Int(..) => (PhysicalType::INT64, None),
            ColumnCells::Real(..) => (PhysicalType::DOUBLE, None),
            ColumnCells::Text(..) => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
            ColumnCells::Flag(..) => (PhysicalType::BOOLEAN, None),
        };
        let field = Type::primitive_type_builder(&self.name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical)
            .build()?;
        Ok(Arc::new(field))
    }
}

/// Why a table could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the table {}: {source}; check its folder and the free space of its disk",
        path.display())]
pub struct TableError {
    path: PathBuf,
    source: ParquetError,
}

/// Writes a table of one kind of row.
pub struct TableWriter<R> {
    path: PathBuf,
    /// The file that gets its name at the end, if it has none yet.
    output: Option<Output>,
    writer: SerializedFileWriter<File>,
    columns: Vec<Column<R>>,
    rows: usize,
}

impl<R> TableWriter<R> {
    /// Creates a table in a new file, which gets its name when the table is finished.
    pub fn create(path: &Path) -> Result<Self, TableError>
    where
        R: TableRow,
    {
        let failed = |error: std::io::Error| TableError {
            path: path.to_owned(),
            source: error.into(),
        };
        let output = Output::begin(path).map_err(failed)?;
        let file = output.file().try_clone().map_err(failed)?;
        let table = Self::with_schema(file, path, R::columns(), R::SCHEMA)?;
        Ok(Self {
            output: Some(output),
            ..table
        })
    }

    /// Writes a table of these columns to an open file; `path` is its name in errors.
    pub fn into_file(file: File, path: &Path, columns: Columns<R>) -> Result<Self, TableError> {
        Self::with_schema(file, path, columns, None)
    }

    fn with_schema(
        file: File,
        path: &Path,
        Columns(columns): Columns<R>,
        schema: Option<TableSchema>,
    ) -> Result<Self, TableError> {
        let level = ZstdLevel::try_new(1).unwrap_or_default();
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_created_by("headlong".to_owned())
            .set_key_value_metadata(schema.map(|schema| schema.footer()))
            .build();
        let fields = columns.iter().map(Column::schema).collect::<Result<_, _>>();
        let writer = fields.and_then(|fields| {
            let schema = Type::group_type_builder("table").with_fields(fields);
            SerializedFileWriter::new(file, Arc::new(schema.build()?), Arc::new(properties))
        });
        Ok(Self {
            path: path.to_owned(),
            output: None,
            writer: writer.map_err(|source| TableError {
                path: path.to_owned(),
                source,
            })?,
            columns,
            rows: 0,
        })
    }

    /// Appends a row.
    pub fn push(&mut self, row: &R) -> Result<(), TableError> {
        self.columns.iter_mut().for_each(|column| column.push(row));
        self.rows += 1;
        if self.rows == GROUP_ROWS {
            return self.flush();
        }
        Ok(())
    }

    /// Writes the remaining rows and the footer, and gives the file its name.
    pub fn finish(mut self) -> Result<(), TableError> {
        self.flush()?;
        let path = self.path;
        let closed = self.writer.close().and_then(|_| match self.output {
            Some(output) => Ok(output.finish()?),
            None => Ok(()),
        });
        closed.map_err(|source| TableError { path, source })
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

impl<R> std::fmt::Debug for Column<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Column").field(&self.name).finish()
    }
}
