//! HTTP-01 challenges of ACME (RFC 8555 8.3): the path at which an authority looks for the file by
//! which this server proves that it has a name.
//!
//! Invariant: a token is a single file name without dots, so no spelling leads out of its folder.

use alloc::borrow::Cow;
use alloc::string::{String, ToString as _};
use alloc::vec;

use crate::reply::{PlannedBody, ReplyPlan};
use crate::status::{Method, Status};

/// The folder of challenges, in URLs and below the folder that an ACME client is given.
pub const CHALLENGE_FOLDER: &str = ".well-known/acme-challenge";
/// Longest token. Those of known authorities have 43 characters.
const TOKEN_BYTES_MAX: usize = 128;

/// The token of a challenge that a target's path asks for, as written; `None` if it is no
/// challenge.
pub fn challenge_token(target_path: &str) -> Option<&str> {
    let below = target_path.strip_prefix('/')?;
    let token = below.strip_prefix(CHALLENGE_FOLDER)?.strip_prefix('/')?;
    // Base64 for URLs (RFC 8555 8.3).
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let length = 1..=TOKEN_BYTES_MAX;
    (length.contains(&token.len()) && token.bytes().all(is_fit)).then_some(token)
}

/// The reply with the text of a challenge.
pub fn challenge_reply(method: Method, text: String) -> ReplyPlan {
    let fields = vec![
        ("content-type", Cow::Borrowed("application/octet-stream")),
        ("content-length", Cow::Owned(text.len().to_string())),
        ("cache-control", Cow::Borrowed("no-store")),
    ];
    let body = match method {
        Method::Head => PlannedBody::default(),
        _ => PlannedBody::text(text),
    };
    ReplyPlan {
        status: Status::Ok,
        fields,
        body,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_one_name_of_base64_for_urls() {
        let token = |name: &str| {
            let path = ["/", CHALLENGE_FOLDER, "/", name].concat();
            challenge_token(&path).map(String::from)
        };
        let good = "LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX0";
        assert_eq!(token(good).as_deref(), Some(good));
        let long = "a".repeat(TOKEN_BYTES_MAX + 1);
        for bad in ["", "a.txt", "..", "a/b", "%61", "a b", "../x", &long] {
            assert_eq!(token(bad), None, "{bad}");
        }
        for other in [
            "/.well-known/acme-challenge",
            "/.well-known/other/a",
            "//.well-known/acme-challenge/a",
            "/x/.well-known/acme-challenge/a",
        ] {
            assert_eq!(challenge_token(other), None, "{other}");
        }
    }

    #[test]
    fn head_has_length_of_text_without_body() {
        let (get, head) = (Method::Get, Method::Head);
        let (get, head) = [get, head]
            .map(|method| challenge_reply(method, "t.k".into()))
            .into();
        assert_eq!(get.fields, head.fields);
        assert_eq!(get.field("content-length"), Some("3"));
        assert_eq!((get.body.length(), head.body.length()), (3, 0));
    }
}
