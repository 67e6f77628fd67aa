//! Replies that are not a file: a status and one line of text for a person with curl.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::ToString;
use alloc::vec;

use crate::fields::FieldList;
use crate::reply::{Body, ReplyPlan};
use crate::status::{Method, Status};

/// A reply of `status` with a line that names the problem and the remedy.
///
/// `detail`, if there is any, takes the place of the usual second half of that line. Nothing of it
/// is cached: what is not there now may be there in a moment. The answer to HEAD has the same
/// fields and no body (RFC 9110 9.3.2).
pub fn error_reply(status: Status, method: Method, detail: Option<&str>) -> ReplyPlan {
    let text = format!(
        "{} {}: {}\n",
        status.code(),
        status.reason(),
        detail.unwrap_or(usual_detail(status))
    );
    let mut fields: FieldList = vec![
        ("content-type", Cow::Borrowed("text/plain; charset=utf-8")),
        ("content-length", Cow::Owned(text.len().to_string())),
        ("cache-control", Cow::Borrowed("no-store")),
    ];
    if status == Status::MethodNotAllowed {
        fields.push(("allow", Cow::Borrowed(Method::ALLOWED)));
    }
    let body = match method {
        Method::Head => Body::default(),
        _ => Body::text(text),
    };
    ReplyPlan {
        status,
        fields,
        body,
    }
}

const fn usual_detail(status: Status) -> &'static str {
    match status {
        Status::BadRequest => "the request cannot be understood",
        Status::Unauthorized => "say who you are, as the site asks for it",
        Status::Forbidden => "the server may not read this file; its log says what to change",
        Status::Gone => "this URL has ended; ask the site for a new one",
        Status::NotFound => "there is no such file",
        Status::MethodNotAllowed => "files can be read with GET and HEAD only",
        Status::PreconditionFailed => "the file is not the version that was asked for",
        Status::RangeNotSatisfiable => {
            "no range lies within the file; content-range gives its size"
        }
        Status::Unavailable => "the file cannot be sent now; try again later",
        Status::GatewayTimeout => "the disk did not answer in time; try again later",
        _ => "the file could not be read; the server's log says why",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_is_that_of_the_text_and_head_has_the_same_fields() {
        for status in [
            Status::BadRequest,
            Status::Unauthorized,
            Status::Forbidden,
            Status::NotFound,
            Status::Gone,
            Status::PreconditionFailed,
            Status::RangeNotSatisfiable,
            Status::InternalError,
            Status::Unavailable,
            Status::GatewayTimeout,
        ] {
            let reply = error_reply(status, Method::Get, None);
            let length = reply.field("content-length");
            assert_eq!(length, Some(&*reply.body.length().to_string()));
            assert!(reply.body.closing.starts_with(&status.code().to_string()));
            let head = error_reply(status, Method::Head, None);
            assert_eq!(head.fields, reply.fields);
            assert_eq!(head.body.length(), 0);
        }
    }

    #[test]
    fn a_method_that_is_refused_learns_which_are_not() {
        let reply = error_reply(Status::MethodNotAllowed, Method::Other, None);
        assert_eq!(reply.field("allow"), Some("GET, HEAD, OPTIONS"));
    }
}
