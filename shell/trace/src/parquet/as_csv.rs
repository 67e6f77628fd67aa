//! A Parquet table as the comma-separated values that it could have been, for whoever reads those.

use std::path::Path;

use ::parquet::file::reader::FileReader;

use super::read::{BATCH, Texts, Wanted, open};
use crate::read::row::Field;

/// Columns of a table as text, the first line naming them: those of `wanted` that it has, in the
/// table's order, and the others not. Cells that are empty are empty; flags are 1 and 0.
///
/// # Errors
/// In words, if the file is no table, is damaged, or has none of the columns.
pub fn parquet_as_csv(path: &Path, wanted: &[&str]) -> Result<Vec<u8>, String> {
    let reader = open(path)?;
    let about = reader.metadata();
    let schema = about.file_metadata().schema_descr();
    let columns: Vec<(usize, String)> = schema
        .columns()
        .iter()
        .enumerate()
        .filter(|(_, column)| column.max_rep_level() == 0)
        .map(|(place, column)| (place, column.path().string()))
        .filter(|(_, name)| wanted.contains(&name.as_str()))
        .collect();
    if columns.is_empty() {
        let names = schema.columns().iter().map(|column| column.path().string());
        let names: Vec<String> = names.collect();
        return Err(format!(
            "it has none of the columns {}, but {}",
            wanted.join(", "),
            names.join(", ")
        ));
    }
    let mut csv = Vec::new();
    let names = columns.iter().map(|(_, name)| name.as_bytes());
    put_line(&mut csv, names);
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).map_err(|e| e.to_string())?;
        let mut texts = Vec::new();
        for (place, _) in &columns {
            let column = group.get_column_reader(*place).map_err(|e| e.to_string())?;
            let wanted = Wanted::plain(*place, Field::File);
            texts.push(Texts::new(wanted, column, &schema.column(*place)));
        }
        let mut left = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        while left > 0 {
            let count = left.min(BATCH);
            for column in &mut texts {
                column.decode_safely(count)?;
            }
            for row in 0..count {
                put_line(&mut csv, texts.iter().map(|column| column.text(row)));
            }
            left -= count;
        }
    }
    Ok(csv)
}

fn put_line<'c>(csv: &mut Vec<u8>, cells: impl Iterator<Item = &'c [u8]>) {
    for (place, cell) in cells.enumerate() {
        if place > 0 {
            csv.push(b',');
        }
        if cell.iter().any(|byte| b",\"\r\n".contains(byte)) {
            csv.push(b'"');
            for &byte in cell {
                csv.extend((byte == b'"').then_some(b'"'));
                csv.push(byte);
            }
            csv.push(b'"');
        } else {
            csv.extend_from_slice(cell);
        }
    }
    csv.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parquet::{Cells, Column, ColumnType, TableRow, TableWriter};

    struct Odd(&'static str, Option<i64>, bool);

    impl TableRow for Odd {
        const COLUMNS: &'static [Column] = &[
            Column::new("file", ColumnType::Text),
            Column::new("kbps", ColumnType::Int),
            Column::new("open", ColumnType::Flag),
        ];

        fn write(&self, cells: &mut Cells<'_>) {
            cells.text(self.0);
            cells.maybe_int(self.1);
            cells.flag(self.2);
        }
    }

    fn table(path: &Path) {
        let mut writer = TableWriter::create(path).expect("created");
        writer.push(&Odd("a, \"b\"", Some(-7), true)).expect("row");
        writer.push(&Odd("c", None, false)).expect("row");
        writer.finish().expect("written");
    }

    #[test]
    fn cells_with_commas_and_quotes_are_quoted_and_empty_ones_are_empty() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("odd.parquet");
        table(&path);
        let csv = parquet_as_csv(&path, &["open", "file", "kbps", "disk"]).expect("read");
        let csv = String::from_utf8(csv).expect("text");
        assert_eq!(csv, "file,kbps,open\n\"a, \"\"b\"\"\",-7,1\nc,,0\n");
    }

    #[test]
    fn what_is_no_such_table_is_said_in_words() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("odd.parquet");
        std::fs::write(&path, b"PAR1 and no more").expect("written");
        parquet_as_csv(&path, &["file"]).expect_err("damaged");
        table(&path);
        let error = parquet_as_csv(&path, &["start"]).expect_err("no such column");
        assert!(
            error.contains("start") && error.contains("file, kbps, open"),
            "{error}"
        );
    }
}
