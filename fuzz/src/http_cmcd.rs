//! Input: a query on the first line, then the value of a `cmcd-session` field.

use headlong_http::{Cmcd, IdSource, SessionRule, cookie_value, query_value, query_without};

use crate::input::split_line;

/// Stored values are bounded, and the same request always gives the same viewer.
pub fn run(data: &[u8]) {
    let (query, value) = split_line(data);
    let query = String::from_utf8_lossy(query);
    let fields = [("cmcd-session", value), ("cookie", value)];
    let said = Cmcd::read(fields, Some(&query));
    if let Some(id) = &said.session_id {
        assert!(id.chars().count() <= 64 && !id.contains(char::is_control));
    }
    assert!(
        said.next_object
            .as_ref()
            .is_none_or(|path| path.len() <= 4 * 2048)
    );
    assert!(
        said.next_range
            .as_ref()
            .is_none_or(|range| range.len() <= 4 * 41)
    );

    let rule = SessionRule {
        header: Some("x-session".into()),
        cookie: Some("sid".into()),
        query: Some("sid".into()),
    };
    let viewer = || rule.viewer(&said, fields, Some(&query), &[127, 0, 0, 1]);
    assert_eq!(viewer(), viewer());
    if said.session_id.as_ref().is_some_and(|id| !id.is_empty()) {
        assert_eq!(viewer().found_by, IdSource::Cmcd);
    }
    let stripped = query_without(&query, "CMCD");
    assert_eq!(query_value(&stripped, "CMCD"), None);
    let _ = cookie_value(&query, "sid");
}
