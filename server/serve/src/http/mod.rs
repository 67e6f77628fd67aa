//! HTTP service: from a request on a socket to a reply made of pieces.
//!
//! `server/http` interprets the request, the library resolves the file, the engine behind
//! [`crate::disk::Device`] delivers the bytes; this module calls them in turn and passes the reply
//! to the connection.
//!
//! Invariants: the status of a reply is sent only when its first byte is in memory, so an earlier
//! disk failure becomes a 5xx; a later one resets the connection or stream. A reply consists of one
//! version of its file, or it fails.

mod access;
mod account;
mod answer;
mod asked;
mod asking;
mod body;
mod client_hint;
mod door;
mod explain;
mod gzip;
mod head_cache;
mod lookup;
mod pulled;
mod response;
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
