//! Reads request logs that are Parquet tables.
//!
//! Rows of plain numbers are used directly ([`plain`](super::plain)); the cells of any other row
//! are converted to the text of the same log as CSV, so that the later steps (names, reasons,
//! ranges) are shared.

use std::fs::File;
use std::path::{Path, PathBuf};

use ::parquet::file::reader::{FileReader, SerializedFileReader};

use super::cells::{BatchValues, GroupColumn, NeededColumn, guarded};
use super::plain::{PlainBatch, PlainColumns};
use crate::read::DropReason;
use crate::read::alias::FieldMap;
use crate::read::entry::{LogEntry, interpret};
use crate::read::format::Format;
use crate::read::row::{Escape, Field, LineFields};
use crate::read::template::missing;
use crate::read::viewer::{TrustedProxies, ViewerRules};

/// Rows decoded at a time.
pub(super) const BATCH: usize = 4096;

/// A table that is a request log.
pub(crate) struct LogTable {
    path: PathBuf,
    columns: Vec<NeededColumn>,
    viewers: ViewerRules,
    escape: Escape,
    /// Rows before each group, and in total.
    rows_before: Vec<u64>,
    bytes: Vec<u64>,
}

/// One or several rows of a table.
pub(crate) enum TableEntry<'a> {
    /// Plain rows; the number is that of the first.
    Batch(PlainBatch<'a>),
    /// A single parsed row.
    Told(Result<LogEntry<'a>, DropReason>),
}

impl LogTable {
    /// Opens a table and finds its columns; those of devices and drives only if enabled.
    pub(crate) fn open(
        path: &Path,
        format: Option<&Format>,
        session_field: Option<&str>,
        devices_and_drives: bool,
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
            let is_wanted =
                |field: &Field| devices_and_drives || !matches!(field, Field::Device | Field::Disk);
            let is_flat = column.max_rep_level() == 0;
            if let Some(field) = field.filter(|field| is_flat && is_wanted(field)) {
                columns.push(NeededColumn::new(place, field, column));
            }
        }
        let names = || -> Vec<String> {
            let all = schema.columns().iter();
            all.map(|column| column.path().string()).collect()
        };
        if let Some(what) = missing(columns.iter().map(|wanted| wanted.field)) {
            return Err(format!(
                "it lacks the columns of a request log: no {what}; columns found: {}; map them with --format \
                 parquet:ts=...,session=...",
                names().join(", ")
            ));
        }
        if let Some(wanted) = session_field
            && !names().iter().any(|name| name == wanted)
        {
            return Err(format!(
                "no column is named `{wanted}`; columns found: {}",
                names().join(", ")
            ));
        }
        let is_of_cloudfront =
            |name: &String| name.starts_with("x_edge_") || name.starts_with("x-edge-");
        let escape = match names().iter().any(is_of_cloudfront) {
            true => Escape::Percent,
            false => Escape::None,
        };
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
            viewers: ViewerRules::new(session_field),
            escape,
            rows_before,
            bytes,
        })
    }

    /// The same, with lists of addresses believed from these proxies.
    pub(crate) fn trusting(self, proxies: &std::sync::Arc<TrustedProxies>) -> Self {
        Self {
            viewers: self.viewers.trusting(proxies),
            ..self
        }
    }

    /// Number of row groups.
    pub(crate) fn groups(&self) -> usize {
        self.bytes.len()
    }

    /// Rows before a group.
    pub(crate) fn rows_before(&self, group: usize) -> u64 {
        self.rows_before.get(group).copied().unwrap_or(0)
    }

    /// Compressed size of a group, bytes.
    pub(crate) fn group_bytes(&self, group: usize) -> u64 {
        self.bytes.get(group).copied().unwrap_or(0)
    }

    /// Reads a group up to row number `last`; `take` receives each row with its number, from 1, and
    /// returns whether to continue.
    pub(crate) fn read_group(
        &self,
        group: usize,
        last: u64,
        mut take: impl FnMut(u64, TableEntry<'_>) -> bool,
    ) -> Result<(), String> {
        let mut columns = self.columns_of(group)?;
        let plan = PlainColumns::of(&self.columns, &columns);
        let before = self.rows_before[group];
        let mut number = before + 1;
        let mut left = self.rows_before[group + 1].min(last).saturating_sub(before);
        let (mut text, mut ends, mut ends_ms) = (Vec::new(), Vec::new(), Vec::new());
        while left > 0 {
            let count = left.min(BATCH as u64) as usize;
            for column in &mut columns {
                column.decode(count)?;
            }
            left -= count as u64;
            if let Some(whole) = plan.and_then(|plan| plan.batch(&columns, &mut ends_ms)) {
                if !take(number, TableEntry::Batch(whole)) {
                    return Ok(());
                }
                number += count as u64;
                continue;
            }
            for index in 0..count {
                self.put_texts(&columns, index, &mut text, &mut ends);
                let row = self.row(&columns, index, (&text, &ends));
                let told = interpret(&row, &self.viewers);
                if !take(number, TableEntry::Told(told)) {
                    return Ok(());
                }
                number += 1;
            }
        }
        Ok(())
    }

    fn columns_of(&self, group: usize) -> Result<Vec<GroupColumn>, String> {
        let reader = open(&self.path)?;
        let group_reader = reader.get_row_group(group).map_err(|e| e.to_string())?;
        let schema = reader.metadata().file_metadata().schema_descr();
        let columns = self.columns.iter().map(|wanted| {
            let column = group_reader
                .get_column_reader(wanted.place)
                .map_err(|e| e.to_string())?;
            GroupColumn::new(column, wanted.places, &schema.column(wanted.place))
        });
        columns.collect()
    }

    /// Writes the non-text cells of a row as text, one after the other.
    fn put_texts(
        &self,
        columns: &[GroupColumn],
        index: usize,
        text: &mut Vec<u8>,
        ends: &mut Vec<usize>,
    ) {
        text.clear();
        ends.clear();
        for column in columns {
            if !matches!(column.cells(), BatchValues::Texts(_)) {
                column.put_text(index, text);
            }
            ends.push(text.len());
        }
    }

    fn row<'a>(
        &self,
        columns: &'a [GroupColumn],
        index: usize,
        (text, ends): (&'a [u8], &[usize]),
    ) -> LineFields<'a> {
        let (mut row, mut start) = (LineFields::new(), 0);
        row.escape = self.escape;
        for ((wanted, column), end) in self.columns.iter().zip(columns).zip(ends) {
            let cell = match column.cells() {
                BatchValues::Texts(texts) => texts[index].data(),
                _ => &text[start..*end],
            };
            row.set(wanted.field, cell);
            start = *end;
        }
        row
    }
}

pub(super) fn open(path: &Path) -> Result<SerializedFileReader<File>, String> {
    let file = File::open(path).map_err(|e| format!("cannot open it: {e}"))?;
    let reader = guarded(|| SerializedFileReader::new(file).map_err(|e| e.to_string()));
    reader.map_err(|e| format!("it is not a Parquet table: {e}"))
}
