//! Errors of chain tables.

use std::io;

use crate::parquet::TableError;
use crate::partitions::PartitionsError;

/// Why a chain table could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ChainTableError {
    /// The requests could not be read back.
    #[error(transparent)]
    Parts(#[from] PartitionsError),
    /// The temporary file of rows failed.
    #[error("the temporary file of chain rows failed: {0}; check the folder of the table")]
    Wait(#[from] io::Error),
    /// The table could not be written.
    #[error("cannot write the chain table {path}: {source}; check its folder")]
    Write {
        /// The path.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// The same for Parquet.
    #[error(transparent)]
    Table(#[from] TableError),
}
