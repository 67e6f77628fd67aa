//! One request and its reply, as in `serve::http`: the parsed request, the planned head, and the
//! body received so far.

use std::collections::VecDeque;

use headlong_engine::{ConnectionId, Hints, ReaderIdentity, Request, RequestId, ViewerId};
use headlong_http::{
    BodyPart, Boundary, Cmcd, HttpDate, IdSource, Method, RangeLimits, RelativePath, ReplyPlan,
    Representation, RequestHead, SessionRule, Status, Validators, VersionIdentity, entity_tag,
    error_reply, media_type, plan,
};
use headlong_units::Instant;

use crate::content::ContentKey;
use crate::host::PendingPiece;
use crate::library::FileEntry;
use crate::session::{Condition, SessionRequest, ViewerSession};

/// The event that the exchange waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExchangeStage {
    LookUp,
    Description,
    Reply,
}

/// A request before its file is looked up.
#[derive(Debug, Clone)]
pub(crate) struct UnresolvedRequest {
    pub(crate) method: Method,
    pub(crate) path: Result<RelativePath, Status>,
    who: ReaderIdentity,
    hints: Hints,
    fields: Vec<(&'static str, Vec<u8>)>,
}

/// One request and its reply.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) session: usize,
    pub(crate) disk: usize,
    pub(crate) ask: SessionRequest,
    pub(crate) asked: UnresolvedRequest,
    pub(crate) at: Instant,
    pub(crate) stage: ExchangeStage,
    pub(crate) since: Instant,
    pub(crate) tried: u32,
    pub(crate) entry: Option<FileEntry>,
    /// Whether the disk was offline at the time of the look-up.
    pub(crate) was_offline: bool,
    pub(crate) plan: Option<ReplyPlan>,
    pub(crate) is_head_sent: bool,
    /// Index of the current part of the plan, and the request for it.
    pub(crate) part: usize,
    pub(crate) request: Option<RequestId>,
    /// Bytes of the current part received, and bytes of the file that the socket has accepted.
    pub(crate) came: u64,
    pub(crate) taken: u64,
    pub(crate) chunks: VecDeque<PendingPiece>,
    pub(crate) is_taking: bool,
    /// Versions that the bytes may belong to.
    pub(crate) keys: Vec<ContentKey>,
    /// The tag of a conditional request, and the versions it stands for.
    pub(crate) known: Option<(String, Vec<ContentKey>)>,
}

impl UnresolvedRequest {
    /// Parses a request as the server does, with the tag of the viewer's last reply.
    pub(crate) fn read(
        session: &ViewerSession,
        ask: &SessionRequest,
        known: Option<&str>,
        taken: u64,
    ) -> Self {
        let (path, query) = match ask.target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (ask.target.as_str(), None),
        };
        let mut fields = ask.fields.clone();
        if let (Some(condition), Some(tag)) = (ask.condition, known) {
            let name = match condition {
                Condition::Resume => {
                    fields.retain(|(name, _)| !name.eq_ignore_ascii_case("range"));
                    fields.push(("Range", format!("bytes={taken}-").into_bytes()));
                    "If-Range"
                }
                Condition::NoneMatch => "If-None-Match",
                Condition::Match => "If-Match",
            };
            fields.push((name, tag.as_bytes().to_vec()));
        }
        let plain = || fields.iter().map(|(name, value)| (*name, value.as_slice()));
        let cmcd = Cmcd::read(plain(), query);
        let viewer = SessionRule::default().viewer(&cmcd, plain(), query, &session.address);
        let who = match viewer.found_by {
            IdSource::Address => ReaderIdentity::Unnamed {
                origin: ViewerId(viewer.id),
                connection: (session.connection > 0).then_some(ConnectionId(session.connection)),
            },
            _ => ReaderIdentity::Named(ViewerId(viewer.id)),
        };
        let hints = Hints {
            buffer: cmcd.buffer,
            deadline: cmcd.deadline,
            startup: cmcd.startup || cmcd.starved,
            bit_rate: cmcd.bit_rate,
            throughput: [cmcd.throughput, cmcd.throughput_max]
                .into_iter()
                .flatten()
                .min(),
        };
        Self {
            method: Method::parse(ask.method),
            path: RelativePath::parse(path).map_err(|error| error.status()),
            who,
            hints,
            fields,
        }
    }

    /// Plans the reply for a file.
    pub(crate) fn plan(&self, entry: &FileEntry, wall_ns: i64) -> ReplyPlan {
        let tag = tag_of(entry);
        let seconds = entry.identity.mtime_ns.div_euclid(1_000_000_000);
        let representation = Representation {
            size: entry.identity.size,
            validators: Validators {
                entity_tag: &tag,
                modified: HttpDate::from_unix_seconds(seconds),
            },
            media_type: media_type(&entry.path),
            cache_control: None,
        };
        let received = HttpDate::from_unix_seconds(wall_ns.div_euclid(1_000_000_000));
        let fields = self
            .fields
            .iter()
            .map(|(name, value)| (*name, value.as_slice()));
        let seed = entry.stream.0;
        let head = RequestHead::read(
            self.method,
            received.unwrap_or(HttpDate::EPOCH),
            Boundary { seed },
            fields,
        );
        plan(&head, &representation, &RangeLimits::default())
    }

    /// The engine's request for a part of a plan.
    pub(crate) fn request(&self, entry: &FileEntry, part: &BodyPart, is_whole: bool) -> Request {
        Request {
            viewer: self.who,
            stream: entry.stream,
            part: entry.part,
            offset: part.range.start,
            length: part.range.len(),
            open_ended: part.open_ended || is_whole,
            overlap_bytes: 0,
            holder: None,
            hints: self.hints,
        }
    }
}

/// The entity tag of a version.
pub(crate) fn tag_of(entry: &FileEntry) -> String {
    entity_tag(&VersionIdentity {
        size: entry.identity.size,
        mtime: entry.identity.mtime_ns,
        is_weak: !entry.is_settled,
        distinction: (!entry.is_settled).then_some(entry.stream.0),
    })
}

impl Exchange {
    /// Replaces the reply by an error.
    pub(crate) fn refuse(&mut self, status: Status) {
        let plan = error_reply(status, self.asked.method, None);
        self.plan = Some(plan);
    }

    pub(crate) fn status(&self) -> Option<u16> {
        self.plan.as_ref().map(|plan| plan.status.code())
    }

    /// The current part of the plan.
    pub(crate) fn current(&self) -> Option<&BodyPart> {
        self.plan.as_ref()?.body.parts.get(self.part)
    }

    /// The inconsistency of the head, if any.
    pub(crate) fn wrong_head(&self) -> Option<String> {
        let plan = self.plan.as_ref()?;
        let status = plan.status.code();
        let known = [200, 206, 304, 400, 404, 405, 412, 416, 500, 503, 504];
        if !known.contains(&status) {
            return Some(format!("unexpected status {status}"));
        }
        let size = self.entry.as_ref().map_or(0, |entry| entry.identity.size);
        let told = plan
            .field("content-length")
            .and_then(|value| value.parse::<u64>().ok());
        let length = plan.body.length();
        let is_head = self.asked.method == Method::Head;
        if status != 304 && told.is_none_or(|told| told != length && !is_head) {
            return Some(format!(
                "{status}: content-length is {told:?}, the body has {length}"
            ));
        }
        if status == 200 && told != Some(size) {
            return Some(format!(
                "200: content-length is {told:?}, the file has {size}"
            ));
        }
        if let ([part], 206) = (&plan.body.parts[..], status) {
            let range = format!("bytes {}-{}/{size}", part.range.start, part.range.end - 1);
            let told = plan.field("content-range");
            if told != Some(&range) {
                return Some(format!("content-range is {told:?} instead of {range}"));
            }
        }
        let is_outside = |part: &BodyPart| part.range.is_empty() || part.range.end > size;
        let outside = plan.body.parts.iter().find(|part| is_outside(part));
        outside.map(|part| format!("{:?} is outside of {size} bytes", part.range))
    }
}
