//! Tables of columns: Parquet, in and out.

mod as_csv;
pub(crate) mod read;
mod tables;
mod write;

pub use as_csv::parquet_as_csv;
pub use tables::{ChainRow, PhaseRow, RequestRow, SessionRow};
pub use write::{Cells, Column, ColumnType, TableError, TableRow, TableWriter};

#[cfg(test)]
#[path = "parquet_tests.rs"]
mod tests;
