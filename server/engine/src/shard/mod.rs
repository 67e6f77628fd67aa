//! One device: its streams, chains, queue and share of memory, and the contract with the shell.
//!
//! `state` is the device with its parts; the other files are what happens to it, in the order in
//! which a request goes through: it joins a chain (`requests`), what is in memory is handed out
//! (`replying`), what is missing becomes a job (`planning`), a job becomes reads (`reading`), and what
//! they bring (`read_ended`) goes to the replies that wait for it. What a player says that it will ask
//! for next comes in by `expecting`.

mod controlling;
mod expecting;
mod flash;
mod learned;
mod passing_on;
mod planning;
mod read_ended;
mod reading;
mod replying;
mod requests;
mod resting;
mod retiring;
mod state;
mod streams;
mod view;

pub use passing_on::{PassedOn, PieceBytes};
pub use requests::PartInMemory;
pub use state::Shard;
pub use view::ChainView;
