//! Request logs: reading, joining to chains, and reports with tables and charts.
//!
//! A log is larger than memory. It is read once, its names become numbers, and its requests are
//! distributed to partitions by session; each partition fits in memory, and every result is a sum
//! over partitions.
//!
//! Invariants: a bad line is counted and sampled, never fatal; memory is bounded, and the limit is
//! known before the work starts; the same logs give the same report, for any number of threads.
#![forbid(unsafe_code)]

mod cell_text;
mod chain_table;
mod characterise;
mod drop_counts;
mod files;
mod intake;
mod names;
mod number_cache;
mod ordered_turns;
mod page;
mod parquet;
mod partitions;
mod pieces;
mod read;
mod segment_files;
mod shards;
mod spill;
mod summary;
mod titles;

pub use chain_table::{
    CHAIN_COLUMNS, ChainSettings, ChainSums, ChainTable, ChainTableError, TableFile, TableForm,
};
pub use characterise::{
    CharacteriseError, CharacteriseSettings, TABLES as CHARACTERISE_TABLES, characterise,
    characterise_sums,
};
pub use drop_counts::{DropCounts, DroppedLine, DroppedLines};
pub use files::{FilesError, KnownProperties};
pub use intake::{
    CatalogueBytes, Intake, IntakeError, IntakeProgress, IntakeResult, LogError, LogSummary,
    MemoryBound, SessionIdentification, SilentProgress, take_in,
};
pub use names::{Name, Names};
pub use page::{page, text};
pub use parquet::schemas::{self, ColumnMeaning, TableSchema};
pub use parquet::{
    ChainRow, Columns, PhaseRow, RequestRow, SessionRow, TableError, TableLines, TableRow,
    TableWriter,
};
pub use partitions::{Partitions, PartitionsError};
pub use pieces::{
    LogPiece, LogSurvey, PIECE_SHARDS_MAX, PieceSettings, PiecesError, ShardRequests, SumPlan,
    read_piece,
};
pub use read::recognise::TriedFormat;
pub use read::{
    DropReason, FieldMap, FieldMapError, Format, FormatError, ParsedLog, ParsedLogError,
    TemplateError, TrustedProxies, understand,
};
pub use shards::{
    PartialSums, SHARDS_MAX, Shard, ShardError, SplitSettings, characterise_bytes_max, split,
};
pub use summary::summary;
pub use titles::TitleRuleCounts;
