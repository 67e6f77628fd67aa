//! From a request on a socket to a reply made of pieces.
//!
//! The one idea: `server/http` decides what a request means, the library knows which file that is,
//! the engine behind [`crate::disk::Device`] brings the bytes; this module asks them in turn and
//! hands the answer to hyper. It decides nothing itself.
//!
//! Invariants: the status of a reply is sent only when its first byte is in memory, so a disk that
//! fails before that is a 5xx; after it, the connection or stream is reset. A reply is of one
//! version of its file, or it fails.

mod access;
mod account;
mod answer;
mod asked;
mod asking;
mod body;
mod building;
mod door;
mod expecting;
mod explain;
mod gzip;
mod known;
mod lookup;
mod pulled;
mod service;
mod shared_pace;
mod small_texts;
mod source;
mod stages;
mod state;

pub use access::AccessRules;
pub use body::ReplyBody;
pub use lookup::Lookups;
pub use service::MediaService;
pub use shared_pace::SharedRates;
pub use source::LibrarySource;
pub use state::{HttpSettings, MediaState};
