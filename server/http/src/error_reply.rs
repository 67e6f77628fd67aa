//! Error replies: a status and one line of text for people.

use alloc::borrow::Cow;
use alloc::string::ToString;
use alloc::{format, vec};

use crate::fields::FieldList;
use crate::reply::{PlannedBody, ReplyPlan};
use crate::status::{Method, Status};

/// A reply of `status` with a line that names the problem and a remedy.
///
/// `detail` replaces the usual second half of that line. Error replies are not cacheable, because
/// the state may change at any time. The reply to HEAD has the same fields and no body (RFC 9110
/// 9.3.2).
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
        Method::Head => PlannedBody::default(),
        _ => PlannedBody::text(text),
    };
    ReplyPlan {
        status,
        fields,
        body,
    }
}

/// The reply to a request for `/`, where no page is: visitors of the bare address learn what
/// answers there.
pub fn no_start_page(method: Method) -> ReplyPlan {
    let text = "<!DOCTYPE html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Headlong</title>\n\
                <p>A Headlong video server answers here. It serves files by their paths and has no \
                start page.</p>\n\
                <p>Its operator finds the library and the player at the admin address.</p></html>\n";
    let mut reply = error_reply(Status::NotFound, method, None);
    for (name, value) in &mut reply.fields {
        match *name {
            "content-type" => *value = Cow::Borrowed("text/html; charset=utf-8"),
            "content-length" => *value = Cow::Owned(text.len().to_string()),
            _ => {}
        }
    }
    if method != Method::Head {
        reply.body = PlannedBody::text(text);
    }
    reply
}

const fn usual_detail(status: Status) -> &'static str {
    match status {
        Status::BadRequest => "the request is malformed",
        Status::Unauthorized => "authenticate as the site requires",
        Status::Forbidden => "the server has no permission to read this file; see its log",
        Status::Gone => "this URL has expired; request a new one from the site",
        Status::NotFound => "there is no such file",
        Status::MethodNotAllowed => "files can be read with GET and HEAD only",
        Status::PreconditionFailed => "the file is not the requested version",
        Status::RangeNotSatisfiable => {
            "no range lies within the file; content-range gives its size"
        }
        Status::Unavailable => "the file cannot be sent now; try again later",
        Status::GatewayTimeout => "the disk did not answer in time; try again later",
        _ => "the file could not be read; see the server's log",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_is_that_of_text_and_head_has_same_fields() {
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
            assert!(
                reply
                    .body
                    .closing
                    .starts_with(status.code().to_string().as_bytes())
            );
            let head = error_reply(status, Method::Head, None);
            assert_eq!(head.fields, reply.fields);
            assert_eq!(head.body.length(), 0);
        }
    }

    #[test]
    fn missing_start_page_is_explained_in_html() {
        let page = no_start_page(Method::Get);
        assert_eq!(page.status, Status::NotFound);
        assert_eq!(page.field("content-type"), Some("text/html; charset=utf-8"));
        let length = page.body.length().to_string();
        assert_eq!(page.field("content-length"), Some(&*length));
        let text = core::str::from_utf8(&page.body.closing).expect("text");
        assert!(text.contains("Headlong video server"));
        let head = no_start_page(Method::Head);
        assert_eq!((head.fields, head.body.length()), (page.fields, 0));
    }

    #[test]
    fn refused_method_gets_allow_field() {
        let reply = error_reply(Status::MethodNotAllowed, Method::Other, None);
        assert_eq!(reply.field("allow"), Some("GET, HEAD, OPTIONS"));
    }
}
