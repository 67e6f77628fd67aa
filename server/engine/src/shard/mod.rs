//! One device: its streams, chains, queue and share of memory, and the contract with the shell.
//!
//! `state` holds the device; the other files are its operations, in the order of a request: it
//! joins a chain (`requests`), pieces in memory are handed out (`replying`), a missing piece
//! becomes a job (`planning`), a job becomes reads (`reading`), and completed reads (`read_ended`)
//! wake the replies that wait for them. Announced requests arrive in `expecting`.

mod announcements;
mod drain;
mod flash;
mod issue;
mod jobs;
mod linger;
mod memory_transfer;
mod read_completion;
mod replies;
mod requests;
mod saved_state;
mod size_control;
mod state;
mod streams;
mod view;

pub use memory_transfer::{PieceBytes, TransferPiece};
pub use requests::PartInMemory;
pub use state::Shard;
pub use view::ChainView;
