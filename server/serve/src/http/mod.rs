//! HTTP service: from a request on a socket to a reply made of pieces.
//!
//! `server/http` interprets the request, the library resolves the file, the engine behind
//! [`headlong_storage::Device`] delivers the bytes; this module calls them in turn and passes the reply
//! to the connection.
//!
//! Invariants: the status of a reply is sent only when its first byte is in memory, so an earlier
//! disk failure becomes a 5xx; a later one resets the connection or stream. A reply consists of one
//! version of its file, or it fails.

mod access_check;
mod access_rules;
mod account;
mod acme;
mod body;
mod client_hint;
mod copied_bytes;
mod explain;
mod file_lookup;
mod file_reply;
mod fragment_store;
mod generated_memory;
mod gzip;
mod head_cache;
mod host;
mod listing;
mod listing_page;
mod lookup;
mod origin_reply;
mod packaged;
mod packaged_file;
mod packaged_index;
mod packaged_title;
mod parsed_request;
mod prepared_reply;
mod range_request;
mod response;
mod service;
mod shared_pace;
mod site;
mod small_texts;
mod source;
mod stages;
mod state;
mod steered;
mod title_indexes;
mod webdav;

pub use access_rules::AccessRules;
pub use body::ReplyBody;
pub use lookup::LookupThreads;
pub(crate) use packaged_file::{is_packaged, refused, split_extension};
pub use service::MediaService;
pub use shared_pace::SharedRates;
pub use site::Sites;
pub use source::LibrarySource;
pub use state::{HttpSettings, MediaState};
