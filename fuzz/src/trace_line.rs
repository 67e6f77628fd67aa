//! Input: a log format (`nginx:$remote_addr ...`) on the first line, then lines of a log.

use headlong_trace::{Format, understand};

use crate::input::split_line;

/// Every line is a request or dropped, and accepted values are plausible.
pub fn run(data: &[u8]) {
    let (name, log) = split_line(data);
    let Some(Ok(format)) = str::from_utf8(name).ok().map(str::parse::<Format>) else {
        return;
    };
    let Ok(understood) = understand(log, Some(&format)) else {
        return;
    };
    let lines = log.split(|byte| *byte == b'\n').count() as u64;
    let dropped: u64 = understood
        .dropped
        .by_reason()
        .iter()
        .map(|of| of.count)
        .sum();
    assert!(understood.requests + dropped <= lines);
    assert!(
        understood.bytes <= understood.requests << 50,
        "at most a pebibyte each"
    );
}
