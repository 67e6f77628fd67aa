//! Titles as a table, and the distance of two layouts as a sentence.

use headlong_report::{Cell, Table};

use crate::layout::{Divergence, TitleLayout};

pub(crate) fn table<'a>(titles: impl Iterator<Item = &'a TitleLayout>) -> Table {
    let heads = "Title | Bytes | Files | Runs | Mean LBA | Out of sequence (LBA)";
    let mut table = Table::headed(heads);
    for title in titles {
        table.push([
            title.name.as_str().into(),
            title.bytes.into(),
            title.files.len().into(),
            title.runs.into(),
            title
                .mean_lba
                .map_or(Cell::Missing, |lba| Cell::number(lba, 0)),
            Cell::number(title.out_of_sequence_lba, 0),
        ]);
    }
    table
}

pub(crate) fn tell_apart(apart: &Divergence) -> String {
    format!(
        "Titles of one name lie {:.0} sectors apart on average ({:.2} % of the disk): {} compared, {} \
         outliers not counted, {} titles in one folder only\n",
        apart.mean_lba,
        apart.share * 100.0,
        apart.titles.len() as u64 - apart.outliers,
        apart.outliers,
        apart.unmatched,
    )
}
