//! Parts of an input: lines, numbers, dates.

use headlong_http::HttpDate;

/// Splits an input into its first line, which holds parameters, and the rest.
pub(crate) fn split_line(data: &[u8]) -> (&[u8], &[u8]) {
    match data.iter().position(|byte| *byte == b'\n') {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, &[]),
    }
}

/// Parses a number; other text is hashed to a number.
pub(crate) fn number(text: &[u8]) -> u64 {
    let digits = str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    let mixed = |sum: u64, byte: &u8| sum.wrapping_mul(257).wrapping_add(u64::from(*byte));
    digits.unwrap_or_else(|| text.iter().fold(0, mixed))
}

/// A date from the number in a text; the epoch if an HTTP date cannot express it.
pub(crate) fn moment(text: &[u8]) -> HttpDate {
    let seconds = number(text).cast_signed();
    HttpDate::from_unix_seconds(seconds).unwrap_or(HttpDate::EPOCH)
}
