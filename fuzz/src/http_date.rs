//! Input: the current time in seconds since 1970 on the first line, then a date in any form.

use headlong_http::HttpDate;

use crate::input::{moment, split_line};

/// A parsed date is printed in the form that replies use, and parses to the same date.
pub fn run(data: &[u8]) {
    let (now, text) = split_line(data);
    let now = moment(now);
    let printed = now.to_string();
    assert_eq!(printed.len(), "Sun, 06 Nov 1994 08:49:37 GMT".len());
    assert_eq!(HttpDate::parse(&printed, HttpDate::EPOCH), Some(now));
    let Ok(text) = str::from_utf8(text) else {
        return;
    };
    if let Some(date) = HttpDate::parse(text, now) {
        assert_eq!(HttpDate::parse(&date.to_string(), now), Some(date));
    }
}
