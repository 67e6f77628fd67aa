//! Requests for titles from an origin: cache state and first bytes of the reply.

use std::sync::Arc;

use headlong_edge::{FRESH_FOR, Pull, ServableVersion, SliceSource, own_cdn_id};
use headlong_engine::{Failure, Refusal, Request as EngineRequest};
use headlong_http::{HttpDate, ReplyPlan, Status};
use headlong_pull::ResponseFault;
use headlong_telemetry::{RequestId, Stage};
use headlong_units::Duration;

use super::parsed_request::ParsedRequest;
use super::prepared_reply::{
    FileMetadata, OriginCacheState, PreparedReply, ReplyError, VERSIONS_TRIED_MAX, plan_for,
};
use super::range_request::{FirstBytes, OriginSource, RangeReason, RangeReply, RangeRequester};
use super::state::MediaState;

/// Answers GET and HEAD for a title below `pull`.
pub(super) async fn answer(
    state: &Arc<MediaState>,
    head: &http::request::Parts,
    asked: &mut ParsedRequest,
    (pull, path): (&Arc<Pull>, &str),
) -> Result<PreparedReply, ReplyError> {
    let settings = &asked.settings;
    let is_of_viewer = |argument: &str| settings.is_of_viewer(argument);
    let name = pull.name(path, head.uri.query(), is_of_viewer);
    let name = name.ok_or_else(|| {
        let detail = "the query string is too long".to_owned();
        ReplyError::Status(Status::BadRequest, Some(detail))
    })?;
    // Counted before the origin is contacted, which may take long.
    if let Some((device, _)) = pull.device() {
        let client = asked.account.record.remote;
        let held = state.hold(&asked.settings, device, client);
        asked.account.held = held.ok_or(ReplyError::TooMany)?;
    }
    let is_peer = is_only_if_cached(head);
    check_loop(&asked.account.record.id, is_peer).map_err(ReplyError::Origin)?;
    let mut tried = 1;
    let mut why = RangeReason::New;
    loop {
        asked.account.turn(Stage::Origin);
        let found = match is_peer {
            true => pull.stored(&name).ok_or(ResponseFault::NotStored),
            false => {
                let found = pull.find(&name, Some(&asked.account.record.id)).await;
                found.map(|found| (found, Duration::ZERO))
            }
        };
        asked.account.turn(Stage::Other);
        let (found, fresh_for) = found.map_err(ReplyError::Origin)?;
        let found = AskedVersion {
            found,
            for_peer: is_peer.then_some(fresh_for),
        };
        match begin(state, head, asked, pull, found, why).await {
            Err(again) if tried < VERSIONS_TRIED_MAX && is_passing(&again) => {
                tried += 1;
                why = match again {
                    ReplyError::Failed(Failure::Device) => RangeReason::Unreadable,
                    _ => RangeReason::Again,
                };
            }
            answer => return answer,
        }
    }
}

/// Refuses a request that this server has sent itself. As one of its own peers, which it may be, it
/// has nothing that it lacks.
fn check_loop(id: &RequestId, is_peer: bool) -> Result<(), ResponseFault> {
    let is_own = id
        .passed()
        .is_some_and(|passed| passed.contains(own_cdn_id()));
    match (is_own, is_peer) {
        (false, _) => Ok(()),
        (true, false) => Err(ResponseFault::Loop),
        (true, true) => Err(ResponseFault::NotStored),
    }
}

/// A version to serve, and for whom.
struct AskedVersion {
    found: ServableVersion,
    /// How much longer it is fresh, if a peer asked, which gets stored bytes only.
    for_peer: Option<Duration>,
}

/// Whether a request is that of a peer (RFC 9111, 5.2.1.7).
fn is_only_if_cached(head: &http::request::Parts) -> bool {
    let fields = head.headers.get_all(http::header::CACHE_CONTROL).iter();
    let mut directives = fields.flat_map(|field| field.as_bytes().split(|byte| *byte == b','));
    directives.any(|of| of.trim_ascii().eq_ignore_ascii_case(b"only-if-cached"))
}

/// Adds what a peer must know of a version: for how long it is fresh, and its modification time as
/// the origin wrote it. In another form, or without it, the peer would take what the origin sends
/// for another version.
fn tell_peer(plan: &mut ReplyPlan, fresh_for: Duration, modified: Option<&str>) {
    let seconds = (fresh_for.as_millis() / 1000).to_string();
    plan.set(FRESH_FOR, Some(seconds.into()));
    plan.set("last-modified", modified.map(|text| text.to_owned().into()));
}

fn is_passing(none: &ReplyError) -> bool {
    matches!(
        none,
        ReplyError::Failed(Failure::Changed | Failure::Device | Failure::Offline)
            | ReplyError::Refused(Refusal::UnknownStream)
            | ReplyError::Origin(ResponseFault::Changed)
    )
}

async fn begin(
    state: &Arc<MediaState>,
    head: &http::request::Parts,
    asked: &mut ParsedRequest,
    pull: &Arc<Pull>,
    AskedVersion { found, for_peer }: AskedVersion,
    why: RangeReason,
) -> Result<PreparedReply, ReplyError> {
    let version = &found.version;
    let now = i64::try_from(asked.account.record.start_unix_ms / 1000).unwrap_or(i64::MAX);
    let received = HttpDate::from_unix_seconds(now).unwrap_or(HttpDate::EPOCH);
    let modified = version.last_modified();
    let whole_path = pull.whole_path(version);
    let shown = FileMetadata {
        path: &whole_path,
        size: version.size_bytes(),
        entity_tag: version.entity_tag(),
        modified: modified.and_then(|text| HttpDate::parse(text, received)),
        number: version.stream.0,
    };
    let mut plan = plan_for(head, asked, &shown);
    if let Some(fresh_for) = for_peer {
        let slices = version.slices();
        let mut parts = plan.body.parts.iter();
        let are_stored = parts.all(|part| {
            let (first, last) = (slices.at(part.range.start), slices.at(part.range.end - 1));
            (first..=last).all(|index| version.has(index))
        });
        if !are_stored {
            return Err(ReplyError::Origin(ResponseFault::NotStored));
        }
        tell_peer(&mut plan, fresh_for, modified);
    }
    let mut from = OriginCacheState {
        age_s: found.age.as_millis() / 1000,
        is_stale: found.is_stale,
        is_miss: false,
        has_bytes: true,
        is_storing: pull.is_storing(),
    };
    let Some(first_part) = plan.body.parts.first() else {
        from.has_bytes = version.has(0);
        from.is_miss = found.is_asked && !from.has_bytes;
        return Ok(PreparedReply {
            from: Some(from),
            ..PreparedReply::without_bytes(plan)
        });
    };
    let Some((_, device)) = pull.device() else {
        return Err(ReplyError::Refused(Refusal::Full));
    };
    asked.account.record.device = Some(Arc::clone(device.name()));
    let asking = RangeRequester {
        device: device.clone(),
        source: Arc::new(SliceSource {
            version: Arc::clone(version),
            library: state.library.clone(),
            direct: asked.settings.direct,
        }),
        request: EngineRequest {
            viewer: asked.identity,
            stream: version.stream,
            part: 0,
            offset: 0,
            length: 0,
            open_ended: false,
            overlap_bytes: 0,
            holder: state.holder(&asked.settings, asked.account.record.remote),
            hints: asked.hints(),
        },
        whole: plan.status == Status::Ok,
        pacer: None,
        bringing: Some(OriginSource {
            pull: Arc::clone(pull),
            version: Arc::clone(version),
            by: asked.account.record.id.clone(),
        }),
    };
    asked.account.turn(Stage::Origin);
    let answered = asking
        .request(first_part, why)
        .await
        .map_err(ReplyError::from)?;
    let first = match answered {
        RangeReply::Passed(passed) => {
            asked.account.turn(Stage::Other);
            from.is_miss = true;
            FirstBytes::Passed(passed)
        }
        RangeReply::Begun(mut begun) => {
            asked.account.record.chain = begun.reply.chain().map(|chain| chain.0);
            asked.account.turn(Stage::Device);
            from.is_miss = begun.is_miss();
            asked.account.record.cache = Some(from.name());
            let piece = begun.reply.next().await.unwrap_or(Err(Failure::Device));
            let piece = piece.map_err(ReplyError::Failed)?;
            asked.account.got(&piece, Stage::Other);
            FirstBytes::Read(begun, piece)
        }
    };
    asked.account.record.cache = Some(from.name());
    let pace = asked.settings.access.pace(shown.path);
    let pacer = pace.pacer(headlong_units::Instant::ZERO, asked.cmcd.bit_rate);
    Ok(PreparedReply {
        first: Some((first, RangeRequester { pacer, ..asking })),
        from: Some(from),
        ..PreparedReply::without_bytes(plan)
    })
}

/// Status and detail for a failed origin, and the seconds after which the client may retry.
pub(super) fn explain(fault: ResponseFault) -> (Status, Option<&'static str>, Option<u64>) {
    match fault {
        ResponseFault::Absent => (Status::NotFound, None, None),
        // The answer of RFC 9111 to a request for stored bytes only.
        ResponseFault::NotStored => (Status::GatewayTimeout, None, None),
        ResponseFault::Unreachable => (
            Status::BadGateway,
            Some("the origin does not answer; try again later"),
            Some(5),
        ),
        ResponseFault::TimedOut => (
            Status::GatewayTimeout,
            Some("the origin did not answer in time; try again later"),
            None,
        ),
        ResponseFault::Changed => (
            Status::Unavailable,
            Some("the file is being changed at its origin; try again later"),
            Some(1),
        ),
        _ => (
            Status::BadGateway,
            Some("the origin did not send the file; see the server's log and metrics"),
            None,
        ),
    }
}

#[cfg(test)]
mod tests {
    use headlong_http::PlannedBody;

    use super::*;

    #[test]
    fn own_request_is_a_loop_unless_this_server_is_its_own_peer() {
        let passed = |values: &[&str]| {
            let values = values.iter().map(|value| value.as_bytes());
            RequestId::own(1).with_passed(values)
        };
        let (own, others) = (passed(&["a", own_cdn_id(), "b"]), passed(&["a", "b"]));
        assert_eq!(check_loop(&own, false), Err(ResponseFault::Loop));
        assert_eq!(check_loop(&own, true), Err(ResponseFault::NotStored));
        assert_eq!(check_loop(&others, false), Ok(()));
    }

    #[test]
    fn peer_learns_modification_time_as_its_origin_wrote_it() {
        for (sent, written) in [
            (None, Some("Sat, 01 Jan 2125 00:00:00 GMT")),
            (
                Some("Sun, 06 Nov 1994 08:49:37 GMT"),
                Some("Sunday, 06-Nov-94 08:49:37 GMT"),
            ),
            (Some("Sun, 06 Nov 1994 08:49:37 GMT"), None),
        ] {
            let mut plan = ReplyPlan {
                status: Status::Ok,
                fields: sent
                    .map(|text| ("last-modified", text.into()))
                    .into_iter()
                    .collect(),
                body: PlannedBody::default(),
            };
            tell_peer(&mut plan, Duration::from_secs(7), written);
            assert_eq!(plan.field("last-modified"), written);
            assert_eq!(plan.field(FRESH_FOR), Some("7"));
        }
    }
}
