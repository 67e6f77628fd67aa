//! What a request is answered with: a plan and its first bytes, or why there are none.

use std::hash::{BuildHasher, RandomState};
use std::time::UNIX_EPOCH;

use headlong_engine::{Failure, Refusal};
use headlong_http::{
    Boundary, FileIdentity, HttpDate, ReplyPlan, Representation, RequestHead, Status, Validators,
    entity_tag, media_type, plan,
};
use headlong_library::FileEntry;
use headlong_pull::Fault;
use http::{HeaderMap, HeaderValue};

use super::asked::{Asked, fields_of};
use super::asking::{Asking, Begun, NotBegun};
use super::door::Denied;
use super::gzip::Gzipped;
use super::known::OfCopies;
use crate::disk::Piece;

/// A file that changes while it is looked at is looked at again, this often.
pub(super) const VERSIONS_TRIED_MAX: u32 = 3;

/// A reply's plan with what has been fetched of its body.
pub(super) struct Answer {
    pub(super) plan: ReplyPlan,
    pub(super) first: Option<(Begun, Piece, Asking)>,
    /// All of its body, if that is by gzip.
    pub(super) gzipped: Option<Gzipped>,
    /// What is said of an origin.
    pub(super) from: Option<FromOrigin>,
    /// If it is of copies alone.
    pub(super) of_copies: Option<OfCopies>,
}

impl Answer {
    /// Whether a device was asked for some of it.
    pub(super) fn has_bytes(&self) -> bool {
        self.first.is_some()
    }
}

/// Why there is no file to send.
pub(super) enum NoAnswer {
    Status(Status, Option<String>),
    Refused(Refusal),
    Failed(Failure),
    /// A rule asks for something else, or could not ask.
    Denied(Denied),
    /// What comes from an origin did not.
    Origin(Fault),
    /// Its address has as many requests as one may.
    TooMany,
}

/// What is said of where a title came from.
pub(super) struct FromOrigin {
    /// Seconds since the origin confirmed it.
    pub(super) age_s: u64,
    /// Whether it should have done so since.
    pub(super) is_stale: bool,
    /// Whether it had to be asked.
    pub(super) is_miss: bool,
    /// Whether bytes of it are here, and not only what is said of it.
    pub(super) has_bytes: bool,
}

impl FromOrigin {
    /// One word for the log.
    pub(super) fn name(&self) -> &'static str {
        match (self.is_stale, self.is_miss) {
            (true, _) => "stale",
            (false, true) => "miss",
            (false, false) => "hit",
        }
    }

    /// Adds what caches say of themselves (RFC 9111 5.1, RFC 9211).
    pub(super) fn add_fields(&self, headers: &mut HeaderMap, with_status: bool) {
        headers.insert(http::header::AGE, HeaderValue::from(self.age_s));
        if with_status {
            let text = match (self.is_stale, self.is_miss) {
                (_, true) => "headlong; fwd=miss; stored; detail=origin",
                (true, false) => "headlong; hit; ttl=-1; detail=stale",
                (false, false) if self.has_bytes => "headlong; hit; detail=slice",
                // A reply without bytes, to HEAD.
                (false, false) => "headlong; hit; detail=head",
            };
            headers.insert("cache-status", HeaderValue::from_static(text));
        }
    }
}

impl From<NotBegun> for NoAnswer {
    fn from(none: NotBegun) -> Self {
        match none {
            NotBegun::Refused(refusal) => Self::Refused(refusal),
            NotBegun::Fault(fault) => Self::Origin(fault),
        }
    }
}

/// What a reply says of a file, wherever it comes from.
pub(super) struct Shown<'a> {
    /// Its path, by which its kind is known and what is said of it.
    pub(super) path: &'a str,
    /// Bytes.
    pub(super) size: u64,
    /// Its tag, with quotes.
    pub(super) entity_tag: String,
    /// When it was changed.
    pub(super) modified: Option<HttpDate>,
    /// The number of its stream.
    pub(super) number: u64,
}

impl<'a> Shown<'a> {
    /// A file as it was asked for: by a link it may have another path of its own, and rules are by URL.
    pub(super) fn of(path: &'a str, file: &FileEntry) -> Self {
        let identity = &file.identity;
        let entity_tag = entity_tag(&FileIdentity {
            size: identity.size,
            mtime_ns: narrow(identity.mtime_ns),
            // Until its time has settled, other bytes may come under it.
            unsettled: (!identity.is_settled).then_some(file.stream.id),
        });
        let modified = file.mtime.duration_since(UNIX_EPOCH).ok();
        let seconds = modified.and_then(|since| i64::try_from(since.as_secs()).ok());
        Self {
            path,
            size: file.size,
            entity_tag,
            modified: seconds.and_then(HttpDate::from_unix_seconds),
            number: file.stream.id,
        }
    }
}

impl Answer {
    /// One that sends no bytes of a file.
    pub(super) fn without_bytes(plan: ReplyPlan) -> Self {
        Self {
            plan,
            first: None,
            gzipped: None,
            from: None,
            of_copies: None,
        }
    }
}

pub(super) fn plan_for(head: &http::request::Parts, asked: &Asked, file: &Shown<'_>) -> ReplyPlan {
    let of_all = asked.settings.cache_control.as_deref();
    let representation = Representation {
        size: file.size,
        validators: Validators {
            entity_tag: &file.entity_tag,
            modified: file.modified,
        },
        media_type: media_type(file.path),
        cache_control: asked.settings.access.cache_control(file.path, of_all),
    };
    let now = i64::try_from(asked.account.record.start_unix_ms / 1000).unwrap_or(i64::MAX);
    let received = HttpDate::from_unix_seconds(now).unwrap_or(HttpDate::EPOCH);
    // Keyed with randomness of the system: no content can hold it on purpose.
    let seed = RandomState::new().hash_one(file.number);
    let fields = fields_of(head);
    let request = RequestHead::read(
        asked.method,
        received,
        Boundary { seed },
        fields.iter().copied(),
    );
    plan(&request, &representation, &asked.settings.ranges)
}

/// Times beyond the year 2262 all look alike, which only makes a tag less sharp.
fn narrow(nanoseconds: i128) -> i64 {
    i64::try_from(nanoseconds).unwrap_or(i64::MAX)
}
