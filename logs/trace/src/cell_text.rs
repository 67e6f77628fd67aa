//! Text of cells: numbers, and the quoting of comma-separated values.

use std::io::Write as _;

/// The decimal digits of a number; `digits` is scratch space, as the largest number has twenty.
pub(crate) fn decimal(number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let (mut start, mut rest) = (digits.len(), number);
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            return &digits[start..];
        }
    }
}

/// A number with that many decimal places.
pub(crate) fn put_number(text: &mut Vec<u8>, number: i64, places: u32) {
    if places > 0 {
        let one = 10_u64.pow(places);
        let (whole, part) = (number.unsigned_abs() / one, number.unsigned_abs() % one);
        let sign = if number < 0 { "-" } else { "" };
        let width = places as usize;
        // Writing to memory cannot fail.
        let _ = write!(text, "{sign}{whole}.{part:0width$}");
        return;
    }
    if number < 0 {
        text.push(b'-');
    }
    text.extend_from_slice(decimal(number.unsigned_abs(), &mut [0; 20]));
}

/// A real number; NaN and huge values are left to be rejected later.
pub(crate) fn put_real(text: &mut Vec<u8>, number: f64) {
    let _ = if number.fract() == 0.0 && number.abs() < 9e15 {
        put_number(text, number as i64, 0);
        Ok(())
    } else {
        write!(text, "{number:.6}")
    };
}

/// Quotes the text written since `from`, if it would be read as several cells.
pub(crate) fn quote(text: &mut Vec<u8>, from: usize) {
    let is_special = |byte: &u8| matches!(byte, b',' | b'"' | b'\n' | b'\r');
    if !text[from..].iter().any(is_special) {
        return;
    }
    let cell = text.split_off(from);
    text.push(b'"');
    for byte in cell {
        if byte == b'"' {
            text.push(b'"');
        }
        text.push(byte);
    }
    text.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_decimal() {
        let text = |number, places| {
            let mut text = Vec::new();
            put_number(&mut text, number, places);
            String::from_utf8(text).expect("digits")
        };
        assert_eq!(text(0, 0), "0");
        assert_eq!(text(-17, 0), "-17");
        assert_eq!(text(i64::MIN, 0), i64::MIN.to_string());
        assert_eq!(text(-5, 3), "-0.005");
        assert_eq!(text(1_500_000, 6), "1.500000");
        let real = |number| {
            let mut text = Vec::new();
            put_real(&mut text, number);
            String::from_utf8(text).expect("digits")
        };
        assert_eq!(
            [real(12.0), real(0.5), real(f64::NAN)],
            ["12", "0.500000", "NaN"]
        );
    }
}
