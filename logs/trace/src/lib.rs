//! Request logs: reading, joining to chains, and reports with tables and charts.
//!
//! A log is larger than memory. It is read once, its names become numbers, and its requests are
//! distributed to partitions by session; each partition fits in memory, and every result is a sum
//! over partitions.
//!
//! Invariants: a bad line is counted and sampled, never fatal; memory is bounded, and the limit is
//! known before the work starts; the same logs give the same report, for any number of threads.
#![forbid(unsafe_code)]

mod chain_table;
mod characterise;
mod dropped;
mod files;
mod intake;
mod known;
mod names;
mod page;
mod parquet;
mod parts;
mod pieces;
mod quoted;
mod read;
mod spill;
mod summary;
mod titles;

pub use chain_table::{
    CHAIN_COLUMNS, ChainSettings, ChainSums, ChainTable, ChainTableError, TableFile, TableForm,
};
pub use characterise::{
    CharacteriseError, CharacteriseSettings, TABLES as CHARACTERISE_TABLES, characterise,
    characterise_bytes_max,
};
pub use dropped::{Dropped, DroppedLines, Sample};
pub use files::{FilesError, KnownProperties};
pub use intake::{
    Intake, IntakeError, IntakeResult, LogError, LogSummary, MemoryBound, Progress, SessionsBy,
    Silent, take_in,
};
pub use names::{Name, Names};
pub use page::{page, text};
pub use parquet::{
    Cells, ChainRow, Column, ColumnType, PhaseRow, RequestRow, SessionRow, TableError, TableLines,
    TableRow, TableWriter,
};
pub use parts::{Parts, PartsError};
pub use read::recognise::Tried;
pub use read::{
    FieldMap, FieldMapError, Format, FormatError, NotUnderstood, Reason, TemplateError, Understood,
    understand,
};
pub use summary::summary;
pub use titles::TitlesBy;
