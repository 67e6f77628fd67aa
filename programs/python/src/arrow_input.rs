//! Arrow tables as request logs: a stream is stored as a Parquet file, which intake reads.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, TimeUnit};
use headlong_trace::{Columns, TableWriter};

/// Writes a stream of batches to a Parquet file. Columns of lists and other nested types, which no
/// request log has, are left out.
///
/// # Errors
/// If the stream fails, has no usable column, or the file cannot be written.
pub(crate) fn store(
    stream: impl Iterator<Item = Result<RecordBatch, ArrowError>>,
    fields: &[Arc<Field>],
    (file, path): (File, &Path),
) -> Result<(), String> {
    let batches: Vec<RecordBatch> = stream
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())?;
    let mut columns = Columns::<Row<'_>>::empty();
    for (place, field) in fields.iter().enumerate() {
        columns = with_column(columns, place, field);
    }
    let names: Vec<String> = columns.names().map(str::to_owned).collect();
    if names.is_empty() {
        return Err("it has no column of numbers, texts or times".to_owned());
    }
    let mut table =
        TableWriter::into_file(file, path, columns).map_err(|error| error.to_string())?;
    for batch in &batches {
        for row in 0..batch.num_rows() {
            let row = Row { batch, row };
            table.push(&row).map_err(|error| error.to_string())?;
        }
    }
    table.finish().map_err(|error| error.to_string())
}

/// A row of a batch.
struct Row<'a> {
    batch: &'a RecordBatch,
    row: usize,
}

impl<'a> Row<'a> {
    /// The array of a column and the index in it; a dictionary's values and the key. `None` if the
    /// cell is empty.
    fn cell(&self, place: usize) -> Option<(&'a ArrayRef, usize)> {
        let array = self.batch.column(place);
        if array.is_null(self.row) {
            return None;
        }
        let Some(dictionary) = array.as_any_dictionary_opt() else {
            return Some((array, self.row));
        };
        let key = integer(dictionary.keys(), self.row)?;
        let values = dictionary.values();
        let key = usize::try_from(key)
            .ok()
            .filter(|key| *key < values.len())?;
        (!values.is_null(key)).then_some((values, key))
    }
}

fn with_column<'a>(columns: Columns<Row<'a>>, place: usize, field: &Field) -> Columns<Row<'a>> {
    let of = match field.data_type() {
        DataType::Dictionary(_, values) => values,
        own => own,
    };
    let name = field.name();
    match of {
        DataType::Boolean => columns.flag(name.clone(), move |row| {
            let (array, at) = row.cell(place)?;
            Some(array.as_boolean_opt()?.value(at))
        }),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            columns.text(name.clone(), move |row| {
                let (array, at) = row.cell(place)?;
                text(array, at)
            })
        }
        DataType::Float32 | DataType::Float64 => columns.real(name.clone(), move |row| {
            let (array, at) = row.cell(place)?;
            real(array, at)
        }),
        DataType::Timestamp(..) => columns.int(in_ms(name), move |row| {
            let (array, at) = row.cell(place)?;
            moment_ms(array, at)
        }),
        other if other.is_integer() => columns.int(name.clone(), move |row| {
            let (array, at) = row.cell(place)?;
            integer(array, at)
        }),
        _ => columns,
    }
}

/// The name of a column of times in milliseconds.
fn in_ms(name: &str) -> String {
    match name {
        "ts" | "time" => "ts_ms".to_owned(),
        "start" => "start_ms".to_owned(),
        other => other.to_owned(),
    }
}

fn value<T: ArrowPrimitiveType>(array: &dyn Array, at: usize) -> Option<T::Native> {
    let array = array.as_primitive_opt::<T>()?;
    Some(array.value(at))
}

fn text(array: &dyn Array, at: usize) -> Option<&str> {
    match array.data_type() {
        DataType::Utf8 => Some(array.as_string_opt::<i32>()?.value(at)),
        DataType::LargeUtf8 => Some(array.as_string_opt::<i64>()?.value(at)),
        _ => Some(array.as_string_view_opt()?.value(at)),
    }
}

fn real(array: &dyn Array, at: usize) -> Option<f64> {
    match array.data_type() {
        DataType::Float32 => value::<Float32Type>(array, at).map(f64::from),
        _ => value::<Float64Type>(array, at),
    }
}

fn integer(array: &dyn Array, at: usize) -> Option<i64> {
    match array.data_type() {
        DataType::Int8 => value::<Int8Type>(array, at).map(i64::from),
        DataType::Int16 => value::<Int16Type>(array, at).map(i64::from),
        DataType::Int32 => value::<Int32Type>(array, at).map(i64::from),
        DataType::UInt8 => value::<UInt8Type>(array, at).map(i64::from),
        DataType::UInt16 => value::<UInt16Type>(array, at).map(i64::from),
        DataType::UInt32 => value::<UInt32Type>(array, at).map(i64::from),
        DataType::UInt64 => {
            let number = value::<UInt64Type>(array, at)?;
            Some(i64::try_from(number).unwrap_or(i64::MAX))
        }
        _ => value::<Int64Type>(array, at),
    }
}

fn moment_ms(array: &dyn Array, at: usize) -> Option<i64> {
    match array.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => {
            value::<TimestampSecondType>(array, at)?.checked_mul(1000)
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            value::<TimestampMillisecondType>(array, at)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            Some(value::<TimestampMicrosecondType>(array, at)?.div_euclid(1000))
        }
        _ => Some(value::<TimestampNanosecondType>(array, at)?.div_euclid(1_000_000)),
    }
}
