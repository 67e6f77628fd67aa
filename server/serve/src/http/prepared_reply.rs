//! The answer to a request: a reply plan with its first bytes, or the reason why there is none.

use std::hash::{BuildHasher, RandomState};

use headlong_engine::{Failure, Refusal};
use headlong_http::{
    Boundary, HttpDate, PlannedBody, RangeLimits, ReplyPlan, Representation, RequestHead, Status,
    Validators, VersionIdentity, entity_tag, media_type, plan, plan_assembled,
};
use headlong_library::FileEntry;
use headlong_pull::ResponseFault;
use http::{HeaderMap, HeaderValue};

use super::access_check::AccessDenial;
use super::gzip::GzipBody;
use super::head_cache::CopiedReply;
use super::parsed_request::{ParsedRequest, fields_of};
use super::range_request::{FirstBytes, RangeError, RangeRequester};
use headlong_config::EtagTime;

/// Attempts when the file changes during the request.
pub(super) const VERSIONS_TRIED_MAX: u32 = 3;

/// A reply plan and the part of its body that was already fetched.
pub(super) struct PreparedReply {
    pub(super) plan: ReplyPlan,
    pub(super) first: Option<(FirstBytes, RangeRequester)>,
    /// The whole body, if it is compressed with gzip.
    pub(super) gzipped: Option<GzipBody>,
    /// Set for a title from an origin.
    pub(super) from: Option<OriginCacheState>,
    /// Set if the body consists only of cached copies.
    pub(super) of_copies: Option<CopiedReply>,
}

impl PreparedReply {
    /// Whether bytes were requested from a device or an origin.
    pub(super) fn has_bytes(&self) -> bool {
        self.first.is_some()
    }
}

/// Why no file is sent.
pub(super) enum ReplyError {
    Status(Status, Option<String>),
    /// It is a folder.
    Folder,
    Refused(Refusal),
    Failed(Failure),
    /// A rule denies access, or its auth server did not decide.
    Denied(AccessDenial),
    /// The origin failed to deliver.
    Origin(ResponseFault),
    /// Its address is at its limit of requests in progress.
    TooMany,
}

/// Cache state of a title from an origin.
pub(super) struct OriginCacheState {
    /// Seconds since the origin confirmed it.
    pub(super) age_s: u64,
    /// Whether a confirmation is overdue.
    pub(super) is_stale: bool,
    /// Whether the origin had to be contacted.
    pub(super) is_miss: bool,
    /// Whether bytes of it are stored here, not only its metadata.
    pub(super) has_bytes: bool,
    /// Whether fetched bytes can be stored now.
    pub(super) is_storing: bool,
}

impl OriginCacheState {
    /// Name in the log.
    pub(super) fn name(&self) -> &'static str {
        match (self.is_stale, self.is_miss) {
            (true, _) => "stale",
            (false, true) => "miss",
            (false, false) => "hit",
        }
    }

    /// Adds `Age` and `Cache-Status` (RFC 9111 5.1, RFC 9211).
    pub(super) fn add_fields(&self, headers: &mut HeaderMap, with_status: bool) {
        headers.insert(http::header::AGE, HeaderValue::from(self.age_s));
        if with_status {
            let text = match (self.is_stale, self.is_miss) {
                (_, true) if !self.is_storing => "headlong; fwd=miss; detail=origin",
                (_, true) => "headlong; fwd=miss; stored; detail=origin",
                (true, false) => "headlong; hit; ttl=-1; detail=stale",
                (false, false) if self.has_bytes => "headlong; hit; detail=slice",
                // A reply to HEAD, without bytes.
                (false, false) => "headlong; hit; detail=head",
            };
            headers.insert("cache-status", HeaderValue::from_static(text));
        }
    }
}

impl From<RangeError> for ReplyError {
    fn from(none: RangeError) -> Self {
        match none {
            RangeError::Refused(refusal) => Self::Refused(refusal),
            RangeError::Fault(fault) => Self::Origin(fault),
        }
    }
}

/// Properties of a file that appear in a reply, whatever its source.
pub(super) struct FileMetadata<'a> {
    /// Path of the URL; decides the media type and the rules.
    pub(super) path: &'a str,
    /// Size in bytes.
    pub(super) size: u64,
    /// Entity tag, with quotes.
    pub(super) entity_tag: String,
    /// Time of the last change.
    pub(super) modified: Option<HttpDate>,
    /// Id of its stream.
    pub(super) number: u64,
}

impl<'a> FileMetadata<'a> {
    /// From a library file. `path` is the requested path: behind a link the file's own path may
    /// differ, and rules apply to URLs.
    pub(super) fn of(path: &'a str, file: &FileEntry, time: EtagTime) -> Self {
        let identity = &file.identity;
        let seconds = identity.mtime_seconds();
        let mtime_ns = i64::try_from(identity.mtime_ns);
        // All files of container images and package stores have the time 0 or 1, and a time beyond
        // 2262 has no nanoseconds: it does not distinguish versions.
        let is_of_all = matches!(seconds, 0 | 1);
        let is_vague = is_of_all || mtime_ns.is_err();
        let entity_tag = entity_tag(&VersionIdentity {
            size: identity.size,
            mtime: match time {
                EtagTime::Nanoseconds => mtime_ns.unwrap_or(seconds),
                EtagTime::Seconds => seconds,
            },
            is_weak: is_vague || !identity.is_settled,
            distinction: match identity.is_settled {
                true if is_vague => Some(identity.distinction()),
                true => file.distinction,
                // Until its mtime has settled, other content may have the same mtime.
                false => Some(file.stream.id),
            },
        });
        let modified = Some(seconds).filter(|seconds| *seconds >= 0 && !is_of_all);
        Self {
            path,
            size: file.size,
            entity_tag,
            modified: modified.and_then(HttpDate::from_unix_seconds),
            number: file.stream.id,
        }
    }
}

impl PreparedReply {
    /// An answer without bytes of a file.
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

/// Plans the reply for a file.
pub(super) fn plan_for(
    head: &http::request::Parts,
    asked: &ParsedRequest,
    file: &FileMetadata<'_>,
) -> ReplyPlan {
    with_plan_inputs(head, asked, file, plan)
}

/// Plans the reply for something that is assembled from generated bytes and ranges of a file.
pub(super) fn plan_assembled_for(
    head: &http::request::Parts,
    asked: &ParsedRequest,
    file: &FileMetadata<'_>,
    body: PlannedBody,
) -> ReplyPlan {
    with_plan_inputs(head, asked, file, |request, shown, limits| {
        plan_assembled(request, shown, limits, body)
    })
}

fn with_plan_inputs(
    head: &http::request::Parts,
    asked: &ParsedRequest,
    file: &FileMetadata<'_>,
    plan: impl FnOnce(&RequestHead<'_>, &Representation<'_>, &RangeLimits) -> ReplyPlan,
) -> ReplyPlan {
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
    // Keyed with randomness of the system, so that no content can contain the boundary on purpose.
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
