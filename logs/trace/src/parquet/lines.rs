//! A Parquet table as comma-separated values.
//!
//! Tables of files and chains are small compared with logs, and the parser of their cells reads
//! text; so a Parquet table is converted to text, a batch of rows at a time. List columns are left
//! out.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use ::parquet::file::reader::{FileReader, SerializedFileReader};

use super::cells::{GroupColumn, moment_places};
use super::read::{BATCH, open};
use crate::cell_text::quote;

/// The first bytes of a Parquet file.
const MAGIC: &[u8] = b"PAR1";

/// The text of a table, starting with a line of column names.
pub struct TableLines {
    path: PathBuf,
    reader: SerializedFileReader<File>,
    /// Indexes of the columns shown.
    places: Vec<usize>,
    columns: Vec<GroupColumn>,
    group_next: usize,
    rows_left: u64,
    text: Vec<u8>,
    /// Bytes of the text already returned.
    taken: usize,
}

impl TableLines {
    /// Opens a table; `None` if the file is not Parquet. A pipe, which can be read only once, is
    /// not inspected.
    ///
    /// # Errors
    /// If it cannot be read or is damaged.
    pub fn open(path: &Path) -> io::Result<Option<Self>> {
        if !std::fs::metadata(path)?.is_file() {
            return Ok(None);
        }
        let mut magic = Vec::new();
        File::open(path)?
            .take(MAGIC.len() as u64)
            .read_to_end(&mut magic)?;
        if magic != MAGIC {
            return Ok(None);
        }
        let reader = open(path).map_err(io::Error::other)?;
        let schema = reader.metadata().file_metadata().schema_descr();
        let (mut places, mut text) = (Vec::new(), Vec::new());
        for (place, column) in schema.columns().iter().enumerate() {
            if column.max_rep_level() == 0 {
                put_end(&mut text, places.is_empty());
                put_cell(&mut text, |text| {
                    text.extend_from_slice(column.path().string().as_bytes())
                });
                places.push(place);
            }
        }
        text.push(b'\n');
        Ok(Some(Self {
            path: path.to_owned(),
            places,
            columns: Vec::new(),
            group_next: 0,
            rows_left: 0,
            text,
            taken: 0,
            reader,
        }))
    }

    /// Converts more rows; `false` at the end.
    fn more(&mut self) -> Result<bool, String> {
        while self.rows_left == 0 {
            if self.group_next == self.reader.num_row_groups() {
                return Ok(false);
            }
            let group = self
                .reader
                .get_row_group(self.group_next)
                .map_err(|e| e.to_string())?;
            let schema = self.reader.metadata().file_metadata().schema_descr();
            let columns = self.places.iter().map(|place| {
                let column = group.get_column_reader(*place).map_err(|e| e.to_string())?;
                let about = schema.column(*place);
                // Tables of chains have times in ms.
                let places = moment_places(&about).map_or(0, |places| places - 3);
                GroupColumn::new(column, places, &about)
            });
            self.columns = columns.collect::<Result<_, _>>()?;
            self.rows_left = u64::try_from(group.metadata().num_rows()).unwrap_or(0);
            self.group_next += 1;
        }
        let count = self.rows_left.min(BATCH as u64);
        for column in &mut self.columns {
            column.decode(count as usize)?;
        }
        self.text.clear();
        self.taken = 0;
        for row in 0..count as usize {
            for (place, column) in self.columns.iter().enumerate() {
                put_end(&mut self.text, place == 0);
                put_cell(&mut self.text, |text| column.put_text(row, text));
            }
            self.text.push(b'\n');
        }
        self.rows_left -= count;
        Ok(true)
    }
}

impl std::fmt::Debug for TableLines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableLines")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Read for TableLines {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.text.len() && !buffer.is_empty() {
            let more = self.more().map_err(|trouble| {
                let path = self.path.display();
                io::Error::other(format!("cannot read the rest of {path}: {trouble}"))
            });
            if !more? {
                return Ok(0);
            }
        }
        let count = (&self.text[self.taken..]).read(buffer)?;
        self.taken += count;
        Ok(count)
    }
}

fn put_end(text: &mut Vec<u8>, is_first: bool) {
    if !is_first {
        text.push(b',');
    }
}

/// A cell; quoted if it would be read as several cells.
fn put_cell(text: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let from = text.len();
    put(text);
    quote(text, from);
}
