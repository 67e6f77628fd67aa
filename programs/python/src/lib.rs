//! The native half of the Python package `headlong`; the other half, with the documentation of
//! every function, is in `headlong/`.
//!
//! Invariants: Python's lock is released while a log is read or summed; every error is an exception
//! that names the log, shard or option.
// `cargo test --lib` makes a program of every library; without Python this one cannot be linked.
#![cfg(not(test))]

mod arrow_input;
mod errors;
mod log_source;
mod pieces;
mod progress;
mod raw;
mod sums;
mod table;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::errors::{HeadlongError, LogError, ShardError};
    #[pymodule_export]
    use super::pieces::{read_piece, shard_sums, shard_usage, sum_plan, survey};
    #[pymodule_export]
    use super::sums::{Sums, characterise, split};
    #[pymodule_export]
    use super::table::{Table, chains, read_log};

    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
