//! Input: the name of a log format, with its pattern or map.

use headlong_trace::Format;

/// A parsed format round-trips as text.
pub fn run(data: &[u8]) {
    let Some(Ok(format)) = str::from_utf8(data).ok().map(str::parse::<Format>) else {
        return;
    };
    assert_eq!(format.to_string().parse(), Ok(format));
}
