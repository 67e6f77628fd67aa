//! Parquet tables: reading and writing.

mod cells;
mod lines;
pub(crate) mod plain;
pub(crate) mod read;
pub mod schemas;
mod tables;
mod write;

pub use lines::TableLines;
pub use tables::{ChainRow, PhaseRow, RequestRow, SessionRow};
pub use write::{Columns, TableError, TableRow, TableWriter};

#[cfg(test)]
#[path = "parquet_tests.rs"]
mod tests;
