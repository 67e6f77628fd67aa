//! The cells of one Parquet column, a batch of rows at a time.
//!
//! Invariants: every batch has a value for each row, an arbitrary one where a cell is empty; the
//! library, which may panic on damaged input, is called only inside a guard.

use ::parquet::basic::{LogicalType, TimeUnit};
use ::parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use ::parquet::data_type::{ByteArray, DataType};
use ::parquet::schema::types::ColumnDescriptor;

use crate::cell_text::{put_number, put_real};
use crate::read::row::Field;

/// A column that a request log needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct NeededColumn {
    pub(super) place: usize,
    pub(super) field: Field,
    /// Decimal places of timestamps stored as integers.
    pub(super) places: u32,
}

impl NeededColumn {
    /// The column at this index, read as this field.
    pub(super) fn new(place: usize, field: Field, column: &ColumnDescriptor) -> Self {
        let (field, places) = match (field, moment_places(column)) {
            (Field::EndS | Field::EndMs | Field::End, Some(places)) => (Field::EndS, places),
            (Field::Start | Field::StartMs, Some(places)) => (Field::Start, places),
            (field, _) => (field, 0),
        };
        Self {
            place,
            field,
            places,
        }
    }
}

/// A column of a row group, being read.
pub(super) struct GroupColumn {
    reader: ColumnReader,
    /// Decimal places of timestamps stored as integers.
    places: u32,
    /// The definition level that means a value is present.
    level: i16,
    levels: Vec<i16>,
    /// Whether no cell of the batch is empty.
    is_whole: bool,
    cells: BatchValues,
}

/// Values of a batch.
#[derive(Debug)]
pub(super) enum BatchValues {
    Flags(Vec<bool>),
    Ints(Vec<i64>),
    Reals(Vec<f64>),
    Texts(Vec<ByteArray>),
}

/// Calls the library; a panic becomes an error of the table.
pub(super) fn guarded<T>(call: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(call))
        .unwrap_or_else(|_| Err("its contents are damaged".to_owned()))
}

/// Decimal places of a timestamp column; `None` for other columns.
pub(super) fn moment_places(column: &ColumnDescriptor) -> Option<u32> {
    use ::parquet::basic::ConvertedType;
    match column.logical_type_ref() {
        Some(LogicalType::Timestamp(stamp)) => match stamp.unit {
            TimeUnit::MILLIS => Some(3),
            TimeUnit::MICROS => Some(6),
            TimeUnit::NANOS => Some(9),
        },
        _ => match column.converted_type() {
            ConvertedType::TIMESTAMP_MILLIS => Some(3),
            ConvertedType::TIMESTAMP_MICROS => Some(6),
            _ => None,
        },
    }
}

impl GroupColumn {
    /// A column whose integers have that many decimal places.
    pub(super) fn new(
        reader: ColumnReader,
        places: u32,
        column: &ColumnDescriptor,
    ) -> Result<Self, String> {
        let cells = match &reader {
            ColumnReader::BoolColumnReader(_) => BatchValues::Flags(Vec::new()),
            ColumnReader::Int32ColumnReader(_) | ColumnReader::Int64ColumnReader(_) => {
                BatchValues::Ints(Vec::new())
            }
            ColumnReader::FloatColumnReader(_) | ColumnReader::DoubleColumnReader(_) => {
                BatchValues::Reals(Vec::new())
            }
            ColumnReader::ByteArrayColumnReader(_)
            | ColumnReader::FixedLenByteArrayColumnReader(_) => BatchValues::Texts(Vec::new()),
            ColumnReader::Int96ColumnReader(_) => {
                return Err(format!(
                    "column {} has type INT96, which is obsolete since 2016; write \
                     it as a timestamp",
                    column.name()
                ));
            }
        };
        Ok(Self {
            reader,
            places,
            level: column.max_def_level(),
            levels: Vec::new(),
            is_whole: true,
            cells,
        })
    }

    /// The values of the batch.
    pub(super) const fn cells(&self) -> &BatchValues {
        &self.cells
    }

    /// Whether a cell is empty.
    #[inline]
    pub(super) fn is_empty(&self, index: usize) -> bool {
        !self.is_whole && self.levels.get(index) != Some(&self.level)
    }

    /// All numbers of the batch; `None` if a cell is empty or no integer.
    pub(super) fn whole_ints(&self) -> Option<&[i64]> {
        match &self.cells {
            BatchValues::Ints(numbers) if self.is_whole => Some(numbers),
            _ => None,
        }
    }

    /// Decodes the next rows.
    pub(super) fn decode(&mut self, count: usize) -> Result<(), String> {
        self.is_whole = guarded(|| self.decode_unguarded(count))?;
        Ok(())
    }

    /// Returns whether no cell is empty.
    fn decode_unguarded(&mut self, count: usize) -> Result<bool, String> {
        let rows = (count, self.level, &mut self.levels);
        let is_whole = match (&mut self.reader, &mut self.cells) {
            (ColumnReader::BoolColumnReader(reader), BatchValues::Flags(flags)) => {
                fill(reader, rows, flags)
            }
            (ColumnReader::Int64ColumnReader(reader), BatchValues::Ints(numbers)) => {
                fill(reader, rows, numbers)
            }
            (ColumnReader::Int32ColumnReader(reader), BatchValues::Ints(numbers)) => {
                fill_as(reader, rows, numbers, i64::from)
            }
            (ColumnReader::DoubleColumnReader(reader), BatchValues::Reals(numbers)) => {
                fill(reader, rows, numbers)
            }
            (ColumnReader::FloatColumnReader(reader), BatchValues::Reals(numbers)) => {
                fill_as(reader, rows, numbers, f64::from)
            }
            (ColumnReader::ByteArrayColumnReader(reader), BatchValues::Texts(texts)) => {
                fill(reader, rows, texts)
            }
            (ColumnReader::FixedLenByteArrayColumnReader(reader), BatchValues::Texts(texts)) => {
                fill_as(reader, rows, texts, ByteArray::from)
            }
            _ => Err("a column changes its type".to_owned()),
        }?;
        if let (false, BatchValues::Texts(texts)) = (is_whole, &mut self.cells) {
            // Empty cells would have no bytes to return.
            for (text, level) in texts.iter_mut().zip(&self.levels) {
                if *level != self.level {
                    *text = ByteArray::from(Vec::new());
                }
            }
        }
        Ok(is_whole)
    }

    /// Appends a cell as text.
    pub(super) fn put_text(&self, index: usize, text: &mut Vec<u8>) {
        if self.is_empty(index) {
            return;
        }
        match &self.cells {
            BatchValues::Flags(flags) => text.push(b'0' + u8::from(flags[index])),
            BatchValues::Ints(numbers) => put_number(text, numbers[index], self.places),
            BatchValues::Reals(numbers) => put_real(text, numbers[index]),
            BatchValues::Texts(texts) => text.extend_from_slice(texts[index].data()),
        }
    }
}

/// Reads values and moves each to its row. Returns whether every row has a value.
fn fill<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    (count, level, levels): (usize, i16, &mut Vec<i16>),
    values: &mut Vec<T::T>,
) -> Result<bool, String> {
    levels.clear();
    values.clear();
    let mut rows = 0;
    while rows < count {
        let levels = (level > 0).then_some(&mut *levels);
        let (more, _, _) = reader
            .read_records(count - rows, levels, None, values)
            .map_err(|e| e.to_string())?;
        if more == 0 {
            return Err("a column is shorter than the others".to_owned());
        }
        rows += more;
    }
    if values.len() == count && (level == 0 || levels.len() == count) {
        return Ok(true);
    }
    if level == 0 || levels.len() != count {
        return Err("a column has more or fewer cells than rows".to_owned());
    }
    let mut next = values.len();
    values.resize(count, T::T::default());
    for row in (0..count).rev() {
        if levels[row] == level {
            next = next
                .checked_sub(1)
                .ok_or("a column has fewer values than it says")?;
            values.swap(row, next);
        }
    }
    Ok(false)
}

/// The same for values that are stored as another type.
fn fill_as<T: DataType, V>(
    reader: &mut ColumnReaderImpl<T>,
    rows: (usize, i16, &mut Vec<i16>),
    values: &mut Vec<V>,
    convert: impl Fn(T::T) -> V,
) -> Result<bool, String> {
    let mut stored = Vec::new();
    let is_whole = fill(reader, rows, &mut stored)?;
    values.clear();
    values.extend(stored.into_iter().map(convert));
    Ok(is_whole)
}
