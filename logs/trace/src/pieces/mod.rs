//! A log read in pieces by several processes, none of which sees all of it.
//!
//! Each piece is read to the requests of each shard of sessions, and to a head: names of files and
//! counts ([`read_piece`]). The heads make a survey of the log ([`LogSurvey`]). With it, the
//! requests of a shard, from all pieces, tell how their sessions use files
//! ([`ShardRequests::usage`]); from the usage by all shards follows what the sums of every session
//! need ([`SumPlan`]), and then each shard is summed ([`ShardRequests::sums`]). Files, names of
//! files and counts pass through one process; requests and names of sessions do not.
//!
//! Invariants: the merged sums give the report of one run over all pieces, in the order of their
//! numbers, byte for byte; everything that is passed on has a version and a checksum.

mod piece;
mod requests;
mod survey;

pub use piece::{LogPiece, PIECE_SHARDS_MAX, PieceSettings, read_piece};
pub use requests::ShardRequests;
pub use survey::{LogSurvey, PiecesError, SumPlan};

#[cfg(test)]
#[path = "pieces_tests.rs"]
mod tests;
