//! Request logs that are Parquet tables.
//!
//! The one idea: a cell becomes the text that the same log would have as columns of text, so that
//! everything behind it (names, reasons, ranges) is the same.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use ::parquet::basic::{LogicalType, TimeUnit, Type as Physical};
use ::parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use ::parquet::data_type::{ByteArray, DataType, FixedLenByteArray};
use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::schema::types::ColumnDescriptor;

use crate::read::Reason;
use crate::read::alias::FieldMap;
use crate::read::entry::{Entry, interpret};
use crate::read::format::Format;
use crate::read::row::{Field, Row};

/// Rows that are decoded at once.
pub(super) const BATCH: usize = 4096;

/// A table that is a request log.
pub(crate) struct Table {
    path: PathBuf,
    columns: Vec<Wanted>,
    /// Rows before each group, and of all.
    rows_before: Vec<u64>,
    bytes: Vec<u64>,
}

/// A column that is needed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    place: usize,
    field: Field,
    /// Digits behind the point, for moments that are whole numbers of parts of a second.
    places: u32,
}

impl Wanted {
    /// A column whose cells are taken as they are.
    pub(super) const fn plain(place: usize, field: Field) -> Self {
        Self {
            place,
            field,
            places: 0,
        }
    }
}

impl Table {
    /// Opens a table and finds its columns.
    pub(crate) fn open(
        path: &Path,
        format: Option<&Format>,
        session_field: Option<&str>,
    ) -> Result<Self, String> {
        let map = match format {
            Some(Format::Parquet(map)) => map.clone(),
            _ => FieldMap::default(),
        };
        let reader = open(path)?;
        let about = reader.metadata();
        let schema = about.file_metadata().schema_descr();
        let mut columns = Vec::new();
        for (place, column) in schema.columns().iter().enumerate() {
            let name = column.path().string();
            let field = if session_field == Some(name.as_str()) {
                Some(Field::Session)
            } else {
                map.field(&name)
            };
            let is_flat = column.max_rep_level() == 0;
            if let Some(field) = field.filter(|_| is_flat) {
                columns.push(wanted(place, field, column));
            }
        }
        let has = |fields: &[Field]| columns.iter().any(|wanted| fields.contains(&wanted.field));
        let times = [
            Field::EndS,
            Field::EndMs,
            Field::End,
            Field::StartMs,
            Field::Start,
        ];
        let is_enough = has(&times)
            && has(&[Field::File, Field::Target])
            && has(&[Field::Bytes, Field::BytesAll])
            && has(&[Field::Session, Field::Address]);
        if !is_enough {
            let names: Vec<String> = schema
                .columns()
                .iter()
                .map(|column| column.path().string())
                .collect();
            return Err(format!(
                "it has not the columns of a request log (ts, session, file, offset, bytes and \
                 more) but {}; say which is which by --format parquet:ts=...,session=...",
                names.join(", ")
            ));
        }
        let mut rows_before = vec![0];
        let mut bytes = Vec::new();
        for group in about.row_groups() {
            let before = rows_before.last().copied().unwrap_or(0);
            rows_before.push(before + u64::try_from(group.num_rows()).unwrap_or(0));
            bytes.push(u64::try_from(group.compressed_size()).unwrap_or(0));
        }
        Ok(Self {
            path: path.to_owned(),
            columns,
            rows_before,
            bytes,
        })
    }

    /// Groups of rows.
    pub(crate) fn groups(&self) -> usize {
        self.bytes.len()
    }

    /// Size of a group in the file, bytes.
    pub(crate) fn group_bytes(&self, group: usize) -> u64 {
        self.bytes.get(group).copied().unwrap_or(0)
    }

    /// Reads a group; `take` gets each row's number, from 1, and what it says, and tells whether to
    /// go on.
    pub(crate) fn read_group(
        &self,
        group: usize,
        mut take: impl FnMut(u64, Result<Entry<'_>, Reason>) -> bool,
    ) -> Result<(), String> {
        let reader = open(&self.path)?;
        let group_reader = reader.get_row_group(group).map_err(|e| e.to_string())?;
        let schema = reader.metadata().file_metadata().schema_descr();
        let mut columns = Vec::new();
        for wanted in &self.columns {
            let column = group_reader
                .get_column_reader(wanted.place)
                .map_err(|e| e.to_string())?;
            columns.push(Texts::new(*wanted, column, &schema.column(wanted.place)));
        }
        let mut number = self.rows_before[group] + 1;
        let mut left = self.rows_before[group + 1] - self.rows_before[group];
        while left > 0 {
            let count = left.min(BATCH as u64) as usize;
            for column in &mut columns {
                column.decode_safely(count)?;
            }
            let mut row = Row::new();
            for index in 0..count {
                row.clear();
                for column in &columns {
                    row.set(column.wanted.field, column.text(index));
                }
                if !take(number, interpret(&row)) {
                    return Ok(());
                }
                number += 1;
            }
            left -= count as u64;
        }
        Ok(())
    }
}

pub(super) fn open(path: &Path) -> Result<SerializedFileReader<File>, String> {
    let file = File::open(path).map_err(|e| format!("it cannot be opened: {e}"))?;
    let reader = guarded(|| SerializedFileReader::new(file).map_err(|e| e.to_string()));
    reader.map_err(|e| format!("it is no Parquet table: {e}"))
}

/// Calls the library, which does not promise to bear any bytes without a panic.
fn guarded<T>(call: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(call))
        .unwrap_or_else(|_| Err("its contents are damaged".to_owned()))
}

fn wanted(place: usize, field: Field, column: &ColumnDescriptor) -> Wanted {
    use ::parquet::basic::ConvertedType;
    let unit = match column.logical_type_ref() {
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
    };
    let (field, places) = match (field, unit) {
        (Field::EndS | Field::EndMs | Field::End, Some(places)) => (Field::EndS, places),
        (Field::Start | Field::StartMs, Some(places)) => (Field::Start, places),
        (field, _) => (field, 0),
    };
    Wanted {
        place,
        field,
        places,
    }
}

/// The cells of one column as texts.
pub(super) struct Texts {
    wanted: Wanted,
    reader: ColumnReader,
    /// What a level of definition is that means there is a value.
    level: i16,
    text: Vec<u8>,
    ends: Vec<u32>,
    levels: Vec<i16>,
}

impl Texts {
    pub(super) fn new(wanted: Wanted, reader: ColumnReader, column: &ColumnDescriptor) -> Self {
        Self {
            wanted,
            reader,
            level: column.max_def_level(),
            text: Vec::new(),
            ends: Vec::new(),
            levels: Vec::new(),
        }
    }

    pub(super) fn text(&self, index: usize) -> &[u8] {
        let start = match index.checked_sub(1) {
            Some(before) => self.ends[before],
            None => 0,
        };
        &self.text[start as usize..self.ends[index] as usize]
    }

    /// Decodes rows; what the library could not bear is an error of the table.
    pub(super) fn decode_safely(&mut self, count: usize) -> Result<(), String> {
        guarded(|| self.decode(count))
    }

    fn decode(&mut self, count: usize) -> Result<(), String> {
        let places = self.wanted.places;
        let level = self.level;
        let out = &mut Out {
            text: &mut self.text,
            ends: &mut self.ends,
            levels: &mut self.levels,
            level,
        };
        match &mut self.reader {
            ColumnReader::Int32ColumnReader(reader) => out.decode(reader, count, |text, value| {
                put_number(text, i64::from(*value), 0)
            }),
            ColumnReader::Int64ColumnReader(reader) => out.decode(reader, count, |text, value| {
                put_number(text, *value, places)
            }),
            ColumnReader::ByteArrayColumnReader(reader) => {
                out.decode(reader, count, |text, value: &ByteArray| {
                    text.extend_from_slice(value.data());
                })
            }
            ColumnReader::FixedLenByteArrayColumnReader(reader) => {
                out.decode(reader, count, |text, value: &FixedLenByteArray| {
                    text.extend_from_slice(value.data());
                })
            }
            ColumnReader::DoubleColumnReader(reader) => {
                out.decode(reader, count, |text, value| put_real(text, *value))
            }
            ColumnReader::FloatColumnReader(reader) => out.decode(reader, count, |text, value| {
                put_real(text, f64::from(*value))
            }),
            ColumnReader::BoolColumnReader(reader) => out.decode(reader, count, |text, value| {
                text.push(b'0' + u8::from(*value));
            }),
            ColumnReader::Int96ColumnReader(_) => {
                Err(format!("a column has type {}", Physical::INT96))
            }
        }
    }
}

struct Out<'a> {
    text: &'a mut Vec<u8>,
    ends: &'a mut Vec<u32>,
    levels: &'a mut Vec<i16>,
    level: i16,
}

impl Out<'_> {
    fn decode<T: DataType>(
        &mut self,
        reader: &mut ColumnReaderImpl<T>,
        count: usize,
        put: impl Fn(&mut Vec<u8>, &T::T),
    ) -> Result<(), String> {
        self.text.clear();
        self.ends.clear();
        self.levels.clear();
        let mut values = Vec::with_capacity(count);
        let mut rows = 0;
        while rows < count {
            let levels = (self.level > 0).then_some(&mut *self.levels);
            let (more, _, _) = reader
                .read_records(count - rows, levels, None, &mut values)
                .map_err(|e| e.to_string())?;
            if more == 0 {
                return Err("a column is shorter than the others".to_owned());
            }
            rows += more;
        }
        let mut values = values.iter();
        for row in 0..count {
            let is_there = self.level == 0 || self.levels.get(row) == Some(&self.level);
            if is_there && let Some(value) = values.next() {
                put(self.text, value);
            }
            self.ends.push(self.text.len() as u32);
        }
        Ok(())
    }
}

/// A number, with a point so many digits from its end.
fn put_number(text: &mut Vec<u8>, number: i64, places: u32) {
    if places > 0 {
        let one = 10_u64.pow(places);
        let (whole, part) = (number.unsigned_abs() / one, number.unsigned_abs() % one);
        let sign = if number < 0 { "-" } else { "" };
        let width = places as usize;
        // Writing into memory does not fail.
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

/// A number with a fraction; one that is none, or beyond counting, is left to be refused.
fn put_real(text: &mut Vec<u8>, number: f64) {
    let _ = if number.fract() == 0.0 && number.abs() < 9e15 {
        put_number(text, number as i64, 0);
        Ok(())
    } else {
        write!(text, "{number:.6}")
    };
}
