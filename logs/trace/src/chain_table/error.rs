//! What can go wrong with a chain table.

use std::io;

use crate::parquet::TableError;
use crate::parts::PartsError;

/// Why there is no chain table.
#[derive(Debug, thiserror::Error)]
pub enum ChainTableError {
    /// The requests could not be read back.
    #[error(transparent)]
    Parts(#[from] PartsError),
    /// The file in which rows wait failed.
    #[error("the file in which chains wait failed: {0}; see to the folder of the table")]
    Wait(#[from] io::Error),
    /// It could not be written.
    #[error("the chain table {path} cannot be written: {source}; see to its folder")]
    Write {
        /// Which.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// As above, as Parquet.
    #[error(transparent)]
    Table(#[from] TableError),
}
