//! The cells of one Parquet column, a batch of rows at a time.
//!
//! Invariants: every batch has a value for each row, an arbitrary one where a cell is empty; the
//! library, which may panic on damaged input, is called only inside a guard.

use std::io::Write as _;

use ::parquet::basic::{LogicalType, TimeUnit};
use ::parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use ::parquet::data_type::{ByteArray, DataType};
use ::parquet::schema::types::ColumnDescriptor;

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
    /// 32-bit numbers before widening.
    narrow: Vec<i32>,
    singles: Vec<f32>,
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
            narrow: Vec::new(),
            singles: Vec::new(),
        })
    }

    /// The values of the batch.
    pub(super) const fn cells(&self) -> &BatchValues {
        &self.cells
    }

    /// Whether no cell of the batch is empty.
    pub(super) const fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Whether a cell is empty.
    #[inline]
    pub(super) fn is_empty(&self, index: usize) -> bool {
        !self.is_whole && self.levels.get(index) != Some(&self.level)
    }

    /// Decodes the next rows.
    pub(super) fn decode(&mut self, count: usize) -> Result<(), String> {
        self.is_whole = guarded(|| self.decode_unguarded(count))?;
        Ok(())
    }

    /// Returns whether no cell is empty.
    fn decode_unguarded(&mut self, count: usize) -> Result<bool, String> {
        let (level, levels) = (self.level, &mut self.levels);
        match (&mut self.reader, &mut self.cells) {
            (ColumnReader::BoolColumnReader(reader), BatchValues::Flags(flags)) => {
                fill(reader, count, level, levels, flags)
            }
            (ColumnReader::Int64ColumnReader(reader), BatchValues::Ints(numbers)) => {
                fill(reader, count, level, levels, numbers)
            }
            (ColumnReader::Int32ColumnReader(reader), BatchValues::Ints(numbers)) => {
                let is_whole = fill(reader, count, level, levels, &mut self.narrow)?;
                numbers.clear();
                numbers.extend(self.narrow.iter().map(|number| i64::from(*number)));
                Ok(is_whole)
            }
            (ColumnReader::DoubleColumnReader(reader), BatchValues::Reals(numbers)) => {
                fill(reader, count, level, levels, numbers)
            }
            (ColumnReader::FloatColumnReader(reader), BatchValues::Reals(numbers)) => {
                let is_whole = fill(reader, count, level, levels, &mut self.singles)?;
                numbers.clear();
                numbers.extend(self.singles.iter().map(|number| f64::from(*number)));
                Ok(is_whole)
            }
            (ColumnReader::ByteArrayColumnReader(reader), BatchValues::Texts(texts)) => {
                let is_whole = fill(reader, count, level, levels, texts)?;
                // Empty cells would have no bytes to return.
                for (text, of_cell) in texts.iter_mut().zip(levels.iter()) {
                    if *of_cell != level {
                        *text = ByteArray::from(Vec::new());
                    }
                }
                Ok(is_whole)
            }
            (ColumnReader::FixedLenByteArrayColumnReader(reader), BatchValues::Texts(texts)) => {
                let mut fixed = Vec::new();
                let is_whole = fill(reader, count, level, levels, &mut fixed)?;
                texts.clear();
                for (index, text) in fixed.into_iter().enumerate() {
                    texts.push(match is_whole || levels[index] == level {
                        true => text.into(),
                        false => ByteArray::from(Vec::new()),
                    });
                }
                Ok(is_whole)
            }
            _ => Err("a column changes its type".to_owned()),
        }
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
    count: usize,
    level: i16,
    levels: &mut Vec<i16>,
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

/// A number with that many decimal places.
fn put_number(text: &mut Vec<u8>, number: i64, places: u32) {
    if places > 0 {
        let one = 10_u64.pow(places);
        let (whole, part) = (number.unsigned_abs() / one, number.unsigned_abs() % one);
        let sign = if number < 0 { "-" } else { "" };
        let width = places as usize;
        // Writing to memory cannot fail.
        let _ = write!(text, "{sign}{whole}.{part:0width$}");
        return;
    }
    if number < 0 {
        text.push(b'-');
    }
    let mut digits = [0; 20];
    let (mut start, mut rest) = (digits.len(), number.unsigned_abs());
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    text.extend_from_slice(&digits[start..]);
}

/// A real number; NaN and huge values are left to be rejected later.
fn put_real(text: &mut Vec<u8>, number: f64) {
    let _ = if number.fract() == 0.0 && number.abs() < 9e15 {
        put_number(text, number as i64, 0);
        Ok(())
    } else {
        write!(text, "{number:.6}")
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_decimal() {
        let text = |number, places| {
            let mut text = Vec::new();
            put_number(&mut text, number, places);
            String::from_utf8(text).expect("digits")
        };
        assert_eq!(text(0, 0), "0");
        assert_eq!(text(-17, 0), "-17");
        assert_eq!(text(i64::MIN, 0), i64::MIN.to_string());
        assert_eq!(text(-5, 3), "-0.005");
        assert_eq!(text(1_500_000, 6), "1.500000");
        let real = |number| {
            let mut text = Vec::new();
            put_real(&mut text, number);
            String::from_utf8(text).expect("digits")
        };
        assert_eq!(
            [real(12.0), real(0.5), real(f64::NAN)],
            ["12", "0.500000", "NaN"]
        );
    }
}
