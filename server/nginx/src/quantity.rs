//! nginx's sizes and times.

use headlong_units::{Bytes, Duration};

/// `1m`, `512k`, `10g` or bytes.
pub(crate) fn size(text: &str) -> Option<Bytes> {
    let (digits, factor) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 1 << 10),
        b'm' | b'M' => (&text[..text.len() - 1], 1 << 20),
        b'g' | b'G' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1_u64),
    };
    let number: u64 = digits.parse().ok()?;
    number.checked_mul(factor).map(Bytes)
}

/// `30d`, `1h 30m`, `500ms`, or seconds.
pub(crate) fn time(text: &str) -> Option<Duration> {
    let mut sum = Duration::ZERO;
    for part in text.split_whitespace() {
        let mut rest = part;
        while !rest.is_empty() {
            let end = rest
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(rest.len());
            let (digits, after) = rest.split_at(end);
            let end = after
                .find(|c: char| c.is_ascii_digit())
                .unwrap_or(after.len());
            let (unit, after) = after.split_at(end);
            let milliseconds = match unit {
                "ms" => 1,
                "" | "s" => 1_000,
                "m" => 60_000,
                "h" => 3_600_000,
                "d" => 86_400_000,
                "w" => 7 * 86_400_000,
                "M" => 30 * 86_400_000,
                "y" => 365 * 86_400_000,
                _ => return None,
            };
            sum += Duration::from_millis(milliseconds).times(digits.parse().ok()?);
            rest = after;
        }
    }
    (!text.trim().is_empty()).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_of_nginx_are_read() {
        assert_eq!(size("512k"), Some(Bytes(512 << 10)));
        assert_eq!(size("10g"), Some(Bytes(10 << 30)));
        assert_eq!(size("4096"), Some(Bytes(4096)));
        assert_eq!(
            (size("x"), size(""), size("99999999999g")),
            (None, None, None)
        );
        assert_eq!(time("1h 30m"), Some(Duration::from_secs(5400)));
        assert_eq!(time("1d12h"), Some(Duration::from_secs(36 * 3600)));
        assert_eq!(time("75"), Some(Duration::from_secs(75)));
        assert_eq!(time("500ms"), Some(Duration::from_millis(500)));
        assert_eq!((time("soon"), time(""), time("5x")), (None, None, None));
    }
}
