//! Parses chain tables and files tables as CSV; the header line names the columns.

use std::collections::HashMap;
use std::io::Read;

use headlong_trace::CatalogueBytes;
use headlong_units::{BitRate, nearest};
use serde::Serialize;

use crate::table::{ChainRow, ChainTable, LENGTH_MAX, TableError};

/// Times farther from zero than this, ms, are invalid.
const MS_MAX: f64 = 9e15;
/// Number of bad lines reported.
const SAMPLES: usize = 5;

/// Dropped lines.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DroppedLines {
    /// Number of lines.
    pub lines: u64,
    /// The first few: position and reason.
    pub samples: Vec<String>,
}

impl DroppedLines {
    fn note(&mut self, table: &str, line: u64, why: &str) {
        self.lines += 1;
        if self.samples.len() < SAMPLES {
            self.samples.push(format!("{table}:{line}: {why}"));
        }
    }
}

/// A parsed chain table.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedTable {
    /// The chains.
    pub table: ChainTable,
    /// Whether chains have sessions; else all have the same.
    pub has_sessions: bool,
    /// Whether they were generated from a specification.
    pub is_generated: bool,
    /// The same requests with each as a chain of its own, if their offsets are unknown; `table`
    /// then has one chain for each session and file.
    pub scattered: Option<ChainTable>,
    /// Bytes of all titles; `None` if only the chains tell.
    pub catalogue: Option<CatalogueBytes>,
    /// Names of files, by number.
    pub files: Vec<String>,
    /// Chains whose file is missing in the files table.
    pub unlisted: u64,
    /// Dropped lines.
    pub dropped: DroppedLines,
}

/// Data of a file in the files table, as far as needed here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileFacts {
    /// Its bit rate.
    pub bit_rate: Option<BitRate>,
    /// Its drive.
    pub disk: Option<u16>,
    /// Its size, bytes.
    pub size_bytes: Option<u64>,
}

/// A files table: `file,title,kind,kbps,size,disk,duration_s`, of which only `file` is required.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FilesTable {
    /// Files by name.
    pub files: HashMap<String, FileFacts>,
    /// Dropped lines.
    pub dropped: DroppedLines,
}

impl FilesTable {
    /// Total bytes of all files, requested or not; `None` if a size is unknown.
    fn bytes(&self) -> Option<u64> {
        let mut sizes = self.files.values().map(|facts| facts.size_bytes);
        sizes.try_fold(0_u64, |sum, size| sum.checked_add(size?))
    }
}

/// A table that cannot be parsed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It is not CSV, or not readable.
    #[error("{table}: {source}")]
    Csv {
        /// Name of the table.
        table: String,
        /// The reason.
        source: csv::Error,
    },
    /// A column is missing.
    #[error(
        "{table}: there is no column `{column}`{hint}; the first line names the columns, which are \
         {all}"
    )]
    Column {
        /// The table's name.
        table: String,
        /// The column.
        column: &'static str,
        /// A similar column name that was found instead.
        hint: String,
        /// All columns of the table.
        all: String,
    },
    /// It cannot be simulated.
    #[error("{table}: {source}{dropped}")]
    Table {
        /// The table's name.
        table: String,
        /// The reason.
        source: TableError,
        /// Dropped lines, if any.
        dropped: String,
    },
}

/// A number in common notations: `12`, `12.0`, `1.2e3`.
fn number(field: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(field).ok()?.trim();
    text.parse::<f64>().ok().filter(|number| number.is_finite())
}

fn whole(field: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(field).ok()?.trim();
    text.parse().ok().or_else(|| {
        let number = number(field)?;
        (number.abs() <= MS_MAX).then(|| number.round() as i64)
    })
}

fn bytes(field: &[u8]) -> Option<u64> {
    whole(field).and_then(|number| u64::try_from(number).ok())
}

fn bit_rate(field: &[u8]) -> Option<BitRate> {
    let kbps = number(field).filter(|kbps| *kbps > 0.0 && *kbps < 1e9)?;
    Some(BitRate((kbps * 1000.0).round() as u64))
}

fn disk(field: &[u8]) -> Option<u16> {
    whole(field).and_then(|number| u16::try_from(number).ok())
}

fn yes(field: &[u8]) -> Option<bool> {
    match field.trim_ascii() {
        b"1" | b"true" | b"True" | b"TRUE" | b"1.0" | b"open" => Some(true),
        b"0" | b"false" | b"False" | b"FALSE" | b"0.0" | b"chunk" => Some(false),
        _ => None,
    }
}

/// Calls `take` with each line: its number, its required fields, and the optional ones whose column
/// exists. A field that is missing in a short line is empty.
fn each_line<const N: usize, const M: usize>(
    table: &str,
    input: impl Read,
    (required, optional): ([&'static str; N], [&str; M]),
    mut take: impl FnMut(u64, [&[u8]; N], [Option<&[u8]>; M]),
) -> Result<(), ReadError> {
    let failed = |source| ReadError::Csv {
        table: table.to_owned(),
        source,
    };
    let mut lines = csv::ReaderBuilder::new()
        .flexible(true)
        .buffer_capacity(1 << 20)
        .from_reader(input);
    let name = |field: &[u8]| {
        let text = String::from_utf8_lossy(field);
        let text = text.trim_start_matches('\u{feff}').trim();
        text.to_ascii_lowercase()
    };
    let names: Vec<String> = lines
        .byte_headers()
        .map_err(failed)?
        .iter()
        .map(name)
        .collect();
    let find = |column: &str| names.iter().position(|name| name == column);
    if let Some(column) = required.into_iter().find(|column| find(column).is_none()) {
        let meant = nearest(column, names.iter().map(String::as_str));
        return Err(ReadError::Column {
            table: table.to_owned(),
            column,
            hint: meant.map_or(String::new(), |name| format!(" (but `{name}`)")),
            all: names.join(", "),
        });
    }
    // All of them are there.
    let required = required.map(|column| find(column).unwrap_or_default());
    let optional = optional.map(find);
    let mut record = csv::ByteRecord::new();
    while lines.read_byte_record(&mut record).map_err(failed)? {
        let line = record.position().map_or(0, csv::Position::line);
        let field = |column: usize| record.get(column).unwrap_or_default();
        take(
            line,
            required.map(field),
            optional.map(|column| column.map(field)),
        );
    }
    Ok(())
}

/// Parses a files table called `name`.
///
/// # Errors
/// If it has no column `file` or cannot be read.
pub fn read_files(name: &str, input: impl Read) -> Result<FilesTable, ReadError> {
    let mut files = FilesTable::default();
    let columns = (["file"], ["kbps", "disk", "size"]);
    each_line(name, input, columns, |line, [file], [kbps, on, size]| {
        let key = file.trim_ascii();
        if key.is_empty() {
            files.dropped.note(name, line, "names no file");
            return;
        }
        let facts = FileFacts {
            bit_rate: kbps.and_then(bit_rate),
            disk: on.and_then(disk),
            size_bytes: size.and_then(bytes),
        };
        files
            .files
            .insert(String::from_utf8_lossy(key).into_owned(), facts);
    })?;
    Ok(files)
}

/// A chain from its required fields, its bit rate and its drive.
fn row(
    [start, length, start_ms, end_ms, open]: [&[u8]; 5],
    kbps: Option<&[u8]>,
    on: Option<&[u8]>,
) -> Result<ChainRow, &'static str> {
    let row = ChainRow {
        session: 0,
        file: 0,
        start: bytes(start).ok_or("`start` is not a number of bytes")?,
        length: bytes(length).ok_or("`length` is not a number of bytes")?,
        start_ms: whole(start_ms).ok_or("`t_start` is not a number of ms")?,
        end_ms: whole(end_ms).ok_or("`t_end` is not a number of ms")?,
        is_open: yes(open).ok_or("`open` is neither 0 nor 1")?,
        bit_rate: kbps.and_then(bit_rate),
        disk: on
            .map_or(Some(0), disk)
            .ok_or("`disk` is not a drive number")?,
    };
    if row.length > LENGTH_MAX || row.start > LENGTH_MAX {
        return Err("it ends beyond 256 TiB");
    }
    if row.end_ms < row.start_ms {
        return Err("it ends before it starts");
    }
    Ok(row)
}

/// Parses a chain table called `name`: `start,length,t_start,t_end,open`, and optionally
/// `session,file,kbps,disk`; `files` provides the last two if they are missing. A bad line is counted and
/// dropped.
///
/// # Errors
/// If a column is missing, the table cannot be read, or it has no chains.
pub fn read_chains(
    name: &str,
    input: impl Read,
    files: Option<&FilesTable>,
) -> Result<ParsedTable, ReadError> {
    let (mut names, mut sessions) = (NameNumbers::default(), NameNumbers::default());
    let mut has_sessions = true;
    let mut dropped = DroppedLines::default();
    let mut unlisted = 0;
    let mut rows = Vec::new();
    let required = ["start", "length", "t_start", "t_end", "open"];
    let columns = (required, ["session", "file", "kbps", "disk"]);
    each_line(name, input, columns, |line, fields, optional| {
        let [session, file, kbps, on] = optional;
        let mut row = match row(fields, kbps, on) {
            Ok(row) => row,
            Err(why) => return dropped.note(name, line, why),
        };
        has_sessions &= session.is_some();
        row.session = sessions.number(session.unwrap_or_default().trim_ascii());
        if let Some(file) = file {
            row.file = names.number(file.trim_ascii());
        }
        if let Some(files) = files {
            let known = names.of(row.file).and_then(|file| files.files.get(file));
            unlisted += u64::from(known.is_none());
            let facts = known.copied().unwrap_or_default();
            row.bit_rate = row.bit_rate.or(facts.bit_rate);
            if on.is_none() {
                row.disk = facts.disk.unwrap_or(0);
            }
        }
        rows.push(row);
    })?;
    let (session_order, _) = sessions.sorted();
    let (file_order, files_named) = names.sorted();
    for row in &mut rows {
        row.session = session_order[row.session as usize];
        row.file = file_order.get(row.file as usize).copied().unwrap_or(0);
    }
    let table = ChainTable::new(rows).map_err(|source| ReadError::Table {
        table: name.to_owned(),
        source,
        dropped: match dropped.samples.first() {
            None => String::new(),
            Some(first) => format!(" ({} bad lines, the first {first})", dropped.lines),
        },
    })?;
    // Files without a row have an unknown size.
    let bytes = files.filter(|_| unlisted == 0).and_then(FilesTable::bytes);
    Ok(ParsedTable {
        table,
        has_sessions,
        is_generated: false,
        scattered: None,
        catalogue: bytes.map(|bytes| CatalogueBytes {
            bytes,
            is_least: false,
        }),
        files: files_named,
        unlisted,
        dropped,
    })
}

/// Numbers for names, in order of first use.
#[derive(Default)]
struct NameNumbers {
    numbers: HashMap<Vec<u8>, u32>,
    names: Vec<String>,
}

impl NameNumbers {
    fn number(&mut self, name: &[u8]) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        // More than 2^32 names do not fit into memory.
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.numbers.insert(name.to_vec(), number);
        self.names.push(String::from_utf8_lossy(name).into_owned());
        number
    }

    fn of(&self, number: u32) -> Option<&str> {
        self.names.get(number as usize).map(String::as_str)
    }

    /// Numbers in the order of names (numbers first, by value), by the numbers so far; and the
    /// names in that order. They do not depend on the order of lines.
    fn sorted(self) -> (Vec<u32>, Vec<String>) {
        let mut order: Vec<u32> = (0..).take(self.names.len()).collect();
        order.sort_by_cached_key(|number| {
            let name = &self.names[*number as usize];
            let value = name.parse::<u64>().ok();
            (value.is_none(), value, name.clone())
        });
        let mut number_of = vec![0; order.len()];
        for (number, former) in (0..).zip(&order) {
            number_of[*former as usize] = number;
        }
        let mut names = self.names;
        let sorted = order
            .iter()
            .map(|former| std::mem::take(&mut names[*former as usize]));
        (number_of, sorted.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ChainClass;

    const HEAD: &str = "file,session,start,length,t_start,t_end,open,kind,kbps,disk\n";

    fn read(text: &str) -> ParsedTable {
        read_chains("chains.csv", text.as_bytes(), None).expect("a table")
    }

    #[test]
    fn header_determines_columns() {
        let one = read(&format!("{HEAD}a,s,0,10,5,900,1,1,235,3\n"));
        let other =
            read("T_END,disk,open,length,t_start,start,kbps,nreq\r\n900,3,true,10,5,0,235.0,7\r\n");
        assert_eq!(one.table.lengths(), other.table.lengths());
        assert_eq!(one.table.shapes, other.table.shapes);
        assert_eq!(one.table.shapes[0].class, ChainClass::OpenAtZero);
        assert_eq!(one.table.shapes[0].bit_rate, Some(BitRate::from_kbps(235)));
        assert_eq!(one.files, ["a"]);
        assert_eq!((other.table.disks[0], other.dropped.lines), (3, 0));
    }

    #[test]
    fn bad_lines_are_counted_sampled_and_dropped() {
        let table = read(&format!(
            "{HEAD}a,s,0,10,5,900,1,1,235,3\n\
             a,s,0,-10,5,900,1,1,235,3\n\
             a,s,0,10,900,5,1,1,235,3\n\
             a,s\n\
             \0\0,,\n\
             a,s,0,10,5,900,maybe,1,235,3\n\
             a,s,0,99999999999999999999,5,900,1,1,235,3\n\
             a,s,7,10.0,5,900,0,1,,3\n"
        ));
        assert_eq!((table.table.len(), table.dropped.lines), (2, 6));
        assert_eq!(
            table.dropped.samples[0],
            "chains.csv:3: `length` is not a number of bytes"
        );
        assert_eq!(
            table.dropped.samples[1],
            "chains.csv:4: it ends before it starts"
        );
        assert_eq!(table.table.without_bit_rate(), 1);
    }

    #[test]
    fn reports_missing_column_with_similar_name() {
        let text = "start,lenght,t_start,t_end,open\n0,1,0,0,1\n";
        let error = read_chains("c.csv", text.as_bytes(), None).expect_err("no length");
        let told = error.to_string();
        assert!(
            told.contains("c.csv") && told.contains("`length` (but `lenght`)"),
            "{told}"
        );
        let empty = read_chains("c.csv", &b""[..], None).expect_err("nothing");
        assert!(empty.to_string().contains("no column `start`"), "{empty}");
        let none = read_chains("c.csv", HEAD.as_bytes(), None).expect_err("no chains");
        assert!(none.to_string().contains("no chains"), "{none}");
    }

    #[test]
    fn files_table_replaces_missing_columns() {
        let files = "file,title,kind,kbps,size,disk,duration_s\na,1,1,560,1000,7,60\nb\n";
        let files = read_files("files.csv", files.as_bytes()).expect("files");
        let chains = "session,file,start,length,t_start,t_end,open,nreq\n\
                      s,a,0,10,0,1,0,1\ns,b,0,10,1,1,0,1\ns,c,0,10,2,2,0,1\n";
        let read = read_chains("chains.csv", chains.as_bytes(), Some(&files)).expect("chains");
        assert_eq!(read.table.disks, [7, 0, 0]);
        assert_eq!((read.unlisted, read.table.without_bit_rate()), (1, 2));
        assert_eq!(read.table.shapes[0].bit_rate, Some(BitRate::from_kbps(560)));
    }
}
