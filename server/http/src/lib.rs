//! The meaning of HTTP requests: which file, which bytes, which status, which header fields.
//!
//! The protocol code parses a request into method, target and fields; everything *decided* from
//! these is decided here, by pure functions over plain text, which can be tested with tables and
//! fuzzed without a socket. The server looks the file up, calls [`plan()`] and sends the parts of
//! the result.
//!
//! The steps of a request:
//! 1. [`Method::parse`]; [`Method::Options`] is answered by [`CorsPolicy::options_reply`] and
//!    [`Method::Other`] by an [`error_reply`] of [`Status::MethodNotAllowed`].
//! 2. [`RelativePath::parse`] for the path of the target; the query never selects a file.
//! 3. [`Cmcd::read`], [`ForwardedField::client`] and [`SessionRule::viewer`] return the hints of
//!    the player, its address and its identity.
//! 4. [`RequestHead::read`] and [`plan()`] return the reply for the file, and
//!    [`CorsPolicy::reply_fields`] adds the fields for scripts of other origins.
//!
//! ```
//! use headlong_http::*;
//!
//! let path = RelativePath::parse("/films/a%20film.mp4").unwrap();
//! assert_eq!(path.as_str(), "films/a film.mp4");
//!
//! let fields: [(&str, &[u8]); 1] = [("Range", b"bytes=900-")];
//! let now = HttpDate::from_unix_seconds(784_115_377).unwrap();
//! let request = RequestHead::read(Method::Get, now, Boundary { seed: 7 }, fields);
//! let version = VersionIdentity { size: 1000, mtime: 7, ..VersionIdentity::default() };
//! let tag = entity_tag(&version);
//! let file = Representation {
//!     size: 1000,
//!     validators: Validators { entity_tag: &tag, modified: Some(HttpDate::EPOCH) },
//!     media_type: media_type(path.file_name()),
//!     cache_control: None,
//! };
//! let reply = plan(&request, &file, &RangeLimits::default());
//! assert_eq!(reply.status.code(), 206);
//! assert_eq!(reply.field("content-range"), Some("bytes 900-999/1000"));
//! assert_eq!(reply.body.parts[0].range, headlong_units::ByteRange::new(900, 1000));
//! assert!(reply.body.parts[0].open_ended);
//! ```
//!
//! Invariants: no input panics; a planned range is never empty and never exceeds the file;
//! `content-length` is exactly the length of the planned body; a path never leaves its root.
//!
//! Not included: HTTP syntax, file access, the clock (time is an argument), compression and
//! directory listings.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

/// Whether a mutation is active; never in released builds.
#[cfg(feature = "mutants")]
macro_rules! mutated {
    ($name:ident) => {
        headlong_mutants::is_active(headlong_mutants::Mutant::$name)
    };
}
/// Whether a mutation is active; never in released builds.
#[cfg(not(feature = "mutants"))]
macro_rules! mutated {
    ($name:ident) => {
        false
    };
}

mod acme;
mod cacheable_request;
mod cmcd;
mod cmsd;
mod coding;
mod conditional;
mod cors;
mod credentials;
mod date;
mod entity_tag;
mod error_reply;
mod fields;
mod forwarded;
mod frame_meter;
mod media_type;
mod next;
mod pace;
mod path;
mod path_token;
mod peer;
mod plan;
mod query;
mod range;
mod redirect;
mod referer;
mod reply;
mod secure_link;
mod session;
mod signed;
mod status;

pub use acme::{CHALLENGE_FOLDER, challenge_reply, challenge_token};
pub use cacheable_request::CacheableFields;
pub use cmcd::Cmcd;
pub use cmsd::{CmsdObject, cmsd_dynamic};
pub use coding::{ContentCoding, accepted_codings, is_text};
pub use conditional::{PreconditionResult, Preconditions, Validators, evaluate};
pub use cors::{CorsError, CorsPolicy};
pub use credentials::{AccessRefusal, Credentials};
pub use date::HttpDate;
pub use entity_tag::{VersionIdentity, entity_tag};
pub use error_reply::{error_reply, no_start_page};
pub use fields::{FieldList, combined, host_name, is_host};
pub use forwarded::ForwardedField;
pub use frame_meter::FrameMeter;
pub use media_type::media_type;
pub use next::NextRequest;
pub use pace::{Pace, Pacer, SharedPacer};
pub use path::{PathError, RelativePath};
pub use path_token::PathToken;
pub use peer::Peer;
pub use plan::{Representation, RequestHead, plan, plan_assembled};
pub use query::{QueryKey, query_value, query_without};
pub use range::{ByteRangeSet, RangeForm, RangeLimits, RangeSelection, SelectedRange};
pub use redirect::redirect_to_https;
pub use referer::RefererRule;
pub use reply::{BodyPart, Boundary, PlannedBody, ReplyPlan};
pub use secure_link::{ExpressionError, SecureLink};
pub use session::{IdSource, SessionRule, Viewer, cookie_value};
pub use signed::{SignedUrl, UrlVerifier, fingerprint, is_same_argument, mask, only_value};
pub use status::{Method, Status};
