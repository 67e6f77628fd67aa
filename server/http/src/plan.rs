//! Plans the reply to a request for an existing file: status, fields, and bytes.

use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::vec;
use core::fmt::Write as _;

use headlong_units::ByteRange;

use crate::conditional::{PreconditionResult, Preconditions, Validators, evaluate};
use crate::date::HttpDate;
use crate::error_reply::error_reply;
use crate::fields::{FieldList, combined};
use crate::range::{ByteRangeSet, RangeForm, RangeLimits, RangeSelection, SelectedRange};
use crate::reply::{BodyPart, Boundary, PlannedBody, ReplyPlan, content_range};
use crate::status::{Method, Status};

/// Capacity for the fields of a plan and those that the caller adds.
const FIELDS_MAX: usize = 10;

/// The parts of a request that determine the reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHead<'a> {
    /// GET or HEAD; any other method is answered with 405.
    pub method: Method,
    /// Time of arrival, from the clock that stamps the reply's `date` field.
    pub received: HttpDate,
    /// Boundary of a multipart reply.
    pub boundary: Boundary,
    /// `range`
    pub range: Option<Cow<'a, str>>,
    /// `if-match`
    pub if_match: Option<Cow<'a, str>>,
    /// `if-none-match`
    pub if_none_match: Option<Cow<'a, str>>,
    /// `if-modified-since`
    pub if_modified_since: Option<Cow<'a, str>>,
    /// `if-unmodified-since`
    pub if_unmodified_since: Option<Cow<'a, str>>,
    /// `if-range`
    pub if_range: Option<Cow<'a, str>>,
}

impl<'a> RequestHead<'a> {
    /// A request without any of the fields.
    pub const fn new(method: Method, received: HttpDate, boundary: Boundary) -> Self {
        Self {
            method,
            received,
            boundary,
            range: None,
            if_match: None,
            if_none_match: None,
            if_modified_since: None,
            if_unmodified_since: None,
            if_range: None,
        }
    }

    /// Extracts the relevant fields of a request.
    pub fn read<F>(method: Method, received: HttpDate, boundary: Boundary, fields: F) -> Self
    where
        F: IntoIterator<Item = (&'a str, &'a [u8])> + Clone,
    {
        let field = |name| combined(fields.clone(), name);
        Self {
            method,
            received,
            boundary,
            range: field("range"),
            if_match: field("if-match"),
            if_none_match: field("if-none-match"),
            if_modified_since: field("if-modified-since"),
            if_unmodified_since: field("if-unmodified-since"),
            if_range: field("if-range"),
        }
    }

    fn preconditions(&self) -> Preconditions<'_> {
        Preconditions {
            if_match: self.if_match.as_deref(),
            if_none_match: self.if_none_match.as_deref(),
            if_modified_since: self.if_modified_since.as_deref(),
            if_unmodified_since: self.if_unmodified_since.as_deref(),
            if_range: self.if_range.as_deref(),
        }
    }
}

/// The current state of the file. All values must come from one `stat` of one open file, or two
/// versions may be mixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Representation<'a> {
    /// Size in bytes; file systems stay below `i64::MAX`.
    pub size: u64,
    /// Entity tag and modification time.
    pub validators: Validators<'a>,
    /// `content-type` ([`crate::media_type()`]).
    pub media_type: &'static str,
    /// `cache-control`, passed through as configured.
    pub cache_control: Option<&'a str>,
}

/// Plans the reply to a request for `representation`.
pub fn plan(
    request: &RequestHead<'_>,
    representation: &Representation<'_>,
    limits: &RangeLimits,
) -> ReplyPlan {
    if !request.method.is_read() {
        return error_reply(Status::MethodNotAllowed, request.method, None);
    }
    let verdict = evaluate(
        request.method,
        &request.preconditions(),
        &representation.validators,
        request.received,
    );
    let mut reply = match verdict {
        PreconditionResult::NotModified => return not_modified(representation),
        PreconditionResult::PreconditionFailed => {
            return error_reply(Status::PreconditionFailed, request.method, None);
        }
        PreconditionResult::Proceed { range_applies } => {
            let value = request.range.as_deref().filter(|_| range_applies);
            let set = value.and_then(|value| ByteRangeSet::parse(value, limits));
            match set.map_or(RangeSelection::Whole, |set| set.select(representation.size)) {
                RangeSelection::Whole => whole(representation),
                RangeSelection::Ranges(selected) => {
                    partial(request.boundary, representation, &selected)
                }
                RangeSelection::Unsatisfiable => {
                    return unsatisfiable(request, representation.size);
                }
            }
        }
    };
    let length = reply.body.length().to_string();
    reply.fields.push(("content-length", Cow::Owned(length)));
    reply.fields.push(("accept-ranges", Cow::Borrowed("bytes")));
    push_validators(&mut reply.fields, representation);
    if let Some(modified) = representation.validators.settled(request.received) {
        let mut text = String::with_capacity(HttpDate::LENGTH);
        let _ = write!(text, "{modified}");
        reply.fields.push(("last-modified", Cow::Owned(text)));
    }
    if mutated!(LastRangeLeftOut) && reply.body.parts.len() > 1 {
        reply.body.parts.pop();
    }
    if request.method == Method::Head {
        reply.body = PlannedBody::default();
    }
    reply
}

/// Plans the reply to a request for a representation that is assembled from generated bytes and
/// ranges of a file; its size is that of `assembled`.
pub fn plan_assembled(
    request: &RequestHead<'_>,
    representation: &Representation<'_>,
    limits: &RangeLimits,
    assembled: PlannedBody,
) -> ReplyPlan {
    let of_size = Representation {
        size: assembled.length(),
        ..*representation
    };
    let mut reply = plan(request, &of_size, limits);
    let planned = core::mem::take(&mut reply.body);
    if let [only] = &planned.parts[..]
        && only.range.len() == of_size.size
    {
        reply.body = assembled;
        return reply;
    }
    for part in planned.parts {
        reply.body.closing.extend(part.preamble);
        let sliced = assembled.slice(part.range);
        for mut piece in sliced.parts {
            let mut before = core::mem::take(&mut reply.body.closing);
            before.append(&mut piece.preamble);
            piece.preamble = before;
            reply.body.parts.push(piece);
        }
        reply.body.closing.extend(sliced.closing);
    }
    reply.body.closing.extend(planned.closing);
    reply
}

fn whole(representation: &Representation<'_>) -> ReplyPlan {
    ReplyPlan {
        status: Status::Ok,
        fields: fields_of(representation.media_type),
        body: PlannedBody::single(ByteRange::new(0, representation.size), RangeForm::Closed),
    }
}

/// Allocates room for all fields of a file's reply.
fn fields_of(media_type: &'static str) -> FieldList {
    let mut fields = FieldList::with_capacity(FIELDS_MAX);
    fields.push(("content-type", Cow::Borrowed(media_type)));
    fields
}

/// One range, or a multipart reply.
///
/// With `if-range` the type and the date need not be repeated (RFC 9110 15.3.7); they are, because
/// browsers check the type of every reply before they play it.
fn partial(
    boundary: Boundary,
    representation: &Representation<'_>,
    selected: &[SelectedRange],
) -> ReplyPlan {
    let Representation {
        size, media_type, ..
    } = *representation;
    if let [only] = selected {
        let mut fields = fields_of(media_type);
        let content_range = content_range(only.range, size);
        fields.push(("content-range", Cow::Owned(content_range)));
        let mut range = only.range;
        if mutated!(RangeOffByOne) && range.len() > 1 {
            range.end -= 1;
        }
        return ReplyPlan {
            status: Status::PartialContent,
            fields,
            body: PlannedBody::single(range, only.form),
        };
    }
    let part = |(index, selected): (usize, &SelectedRange)| BodyPart {
        preamble: boundary.preamble(index == 0, media_type, selected.range, size),
        range: selected.range,
        open_ended: selected.form == RangeForm::Open,
    };
    ReplyPlan {
        status: Status::PartialContent,
        fields: vec![("content-type", Cow::Owned(boundary.media_type()))],
        body: PlannedBody {
            parts: selected.iter().enumerate().map(part).collect(),
            closing: boundary.closing(),
        },
    }
}

/// Only the fields that refresh a stored reply (RFC 9110 15.4.5); the tag makes the date
/// unnecessary.
fn not_modified(representation: &Representation<'_>) -> ReplyPlan {
    let mut fields = FieldList::new();
    push_validators(&mut fields, representation);
    ReplyPlan {
        status: Status::NotModified,
        fields,
        body: PlannedBody::default(),
    }
}

fn unsatisfiable(request: &RequestHead<'_>, size: u64) -> ReplyPlan {
    let mut reply = error_reply(Status::RangeNotSatisfiable, request.method, None);
    let content_range = alloc::format!("bytes */{size}");
    let fields = &mut reply.fields;
    fields.push(("content-range", Cow::Owned(content_range)));
    fields.push(("accept-ranges", Cow::Borrowed("bytes")));
    reply
}

fn push_validators(fields: &mut FieldList, representation: &Representation<'_>) {
    fields.push(owned("etag", representation.validators.entity_tag));
    if let Some(cache_control) = representation.cache_control {
        fields.push(owned("cache-control", cache_control));
    }
}

fn owned(name: &'static str, value: &str) -> (&'static str, Cow<'static, str>) {
    (name, Cow::Owned(String::from(value)))
}
