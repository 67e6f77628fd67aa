//! Error replies: status and explanation for a request that gets no file.

use headlong_engine::{Failure, Refusal};
use headlong_http::{Method, ReplyPlan, Status, error_reply};
use headlong_telemetry::RequestRecord;
use headlong_units::Duration;

use super::access_check::AccessDenial;
use super::body::{failure_name, refusal_name};
use super::origin_reply;
use super::prepared_reply::ReplyError;

/// Detail for a device that is offline.
const OFFLINE: &str = "the disk is out of service; try again later";

/// Field that tells a refusal, which another server may not share, from an error. Its value is the
/// `failure` of the access log.
const REFUSED: &str = "headlong-refused";

/// Builds the error reply, and the time after which the client may retry.
pub(super) fn explain(
    none: ReplyError,
    method: Method,
    record: &mut RequestRecord,
) -> (ReplyPlan, Option<Duration>) {
    let soon = Duration::from_secs(1);
    match none {
        ReplyError::Status(status, detail) => {
            (error_reply(status, method, detail.as_deref()), None)
        }
        ReplyError::Folder => (error_reply(Status::NotFound, method, None), None),
        ReplyError::Refused(refusal) => {
            record.failure = Some(refusal_name(refusal));
            let after = match refusal {
                Refusal::Overloaded { retry_after } | Refusal::Offline { retry_after } => {
                    retry_after
                }
                Refusal::Full | Refusal::UnknownStream | Refusal::OutOfBounds => soon,
            };
            let detail = match refusal {
                Refusal::Overloaded { .. } => {
                    "the disk is busy with other viewers; try again later"
                }
                Refusal::Offline { .. } => OFFLINE,
                Refusal::Full => "too many requests wait for the disk; try again later",
                Refusal::UnknownStream | Refusal::OutOfBounds => CHANGING,
            };
            let mut reply = error_reply(Status::Unavailable, method, Some(detail));
            reply.fields.push((REFUSED, refusal_name(refusal).into()));
            (reply, Some(after))
        }
        ReplyError::Origin(fault) => {
            record.failure = Some(fault.name());
            let (status, detail, after) = origin_reply::explain(fault);
            (
                error_reply(status, method, detail),
                after.map(Duration::from_secs),
            )
        }
        ReplyError::TooMany => {
            record.failure = Some("address");
            let detail = "too many requests from this address are in progress; try again later";
            let mut reply = error_reply(Status::Unavailable, method, Some(detail));
            reply.fields.push((REFUSED, "address".into()));
            (reply, Some(soon))
        }
        ReplyError::Denied(AccessDenial::Status(status)) => {
            let detail = denied_detail(status);
            (error_reply(status, method, detail.as_deref()), None)
        }
        ReplyError::Denied(AccessDenial::Challenge(challenge)) => {
            let mut reply = error_reply(Status::Unauthorized, method, None);
            reply.fields.push(("www-authenticate", challenge.into()));
            (reply, None)
        }
        ReplyError::Denied(AccessDenial::Unanswered(status, _)) => {
            record.failure = Some("auth");
            let detail = "access to the file could not be verified; try again later";
            let after = (status == Status::Unavailable).then_some(soon);
            (error_reply(status, method, Some(detail)), after)
        }
        ReplyError::Failed(failure) => {
            record.failure = Some(failure_name(failure));
            let (status, detail, after) = match failure {
                Failure::Device => (Status::InternalError, None, None),
                Failure::TimedOut => (Status::GatewayTimeout, None, None),
                Failure::Changed => (Status::Unavailable, Some(CHANGING), Some(soon)),
                Failure::Offline => (Status::Unavailable, Some(OFFLINE), Some(soon)),
                Failure::NoResources => (
                    Status::Unavailable,
                    Some("the server is short of memory or open files; try again later"),
                    Some(soon),
                ),
            };
            (error_reply(status, method, detail), after)
        }
    }
}

/// Detail for a file that is being written or removed.
const CHANGING: &str = "the file is being changed; try again later";

/// Does not reveal whether the file exists.
fn denied_detail(status: Status) -> Option<String> {
    let forbidden = "access to this file is denied; request another URL from the site";
    (status == Status::Forbidden).then(|| forbidden.to_owned())
}
