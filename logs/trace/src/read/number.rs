//! Parses numbers and times from bytes, without a conversion to text.

use super::reason::DropReason;

/// Largest plausible offset, size or byte count: a pebibyte.
pub(crate) const AMOUNT_MAX: u64 = 1 << 50;

/// Longest plausible service time, ms: a year.
const SERVICE_MS_MAX: u64 = 366 * 86_400_000;

/// End of the dates with four-digit years, ms since 1970.
const MOMENT_MS_MAX: u64 = 253_402_300_800_000;

/// A number of bytes; an empty field or `-` has none.
pub(crate) fn amount(text: &[u8]) -> Result<Option<u64>, DropReason> {
    match text {
        [] | b"-" => Ok(None),
        _ => match digits(text) {
            Some(number) if number <= AMOUNT_MAX => Ok(Some(number)),
            Some(_) => Err(DropReason::Absurd),
            None => whole(text).map(Some),
        },
    }
}

/// `1048576.0`, as some exports write integers.
fn whole(text: &[u8]) -> Result<u64, DropReason> {
    let number = text
        .contains(&b'.')
        .then(|| thousandths(text, 0))
        .flatten()
        .ok_or(not_a_number(text))?;
    match u64::try_from(number) {
        Ok(number) if number <= AMOUNT_MAX => Ok(number),
        Ok(_) => Err(DropReason::Absurd),
        Err(_) => Err(DropReason::Negative),
    }
}

fn not_a_number(text: &[u8]) -> DropReason {
    match text {
        [b'-', rest @ ..] if digits(rest).is_some() => DropReason::Negative,
        _ if !text.is_empty() && text.iter().all(u8::is_ascii_digit) => DropReason::Absurd,
        _ => DropReason::BadNumber,
    }
}

/// Digits only, up to 19 of them.
pub(crate) fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 19 {
        return None;
    }
    let mut sum = 0_u64;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        sum = sum * 10 + u64::from(digit);
    }
    Some(sum)
}

/// A decimal number times `10^places`, truncated: `1.5` with 3 places is 1500.
pub(crate) fn thousandths(text: &[u8], places: u32) -> Option<i64> {
    decimal(text, places, b'.')
}

fn decimal(text: &[u8], places: u32, point: u8) -> Option<i64> {
    let (is_negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let point = text.iter().position(|byte| *byte == point);
    let (whole, part) = match point {
        Some(point) => (&text[..point], &text[point + 1..]),
        None => (text, &[][..]),
    };
    let Some(mut sum) = digits(whole).and_then(|whole| i64::try_from(whole).ok()) else {
        return exponential(text, places).map(|n| if is_negative { -n } else { n });
    };
    for place in 0..places as usize {
        let digit = part.get(place).map_or(0, |byte| byte.wrapping_sub(b'0'));
        if digit > 9 {
            return exponential(text, places).map(|n| if is_negative { -n } else { n });
        }
        sum = sum.checked_mul(10)?.checked_add(i64::from(digit))?;
    }
    let rest = part.get(places as usize..).unwrap_or_default();
    if !rest.iter().all(u8::is_ascii_digit) {
        return exponential(text, places).map(|n| if is_negative { -n } else { n });
    }
    Some(if is_negative { -sum } else { sum })
}

/// `1.6e9`, as some languages print large numbers.
fn exponential(text: &[u8], places: u32) -> Option<i64> {
    let is_plausible = text.len() <= 40
        && text.first().is_some_and(|byte| byte.is_ascii_digit())
        && text.iter().any(|byte| matches!(byte, b'e' | b'E'));
    let number: f64 = is_plausible
        .then(|| str::from_utf8(text).ok()?.parse().ok())
        .flatten()?;
    let scaled = number * 10_f64.powi(places as i32);
    (scaled.is_finite() && scaled < 9e18).then_some(scaled as i64)
}

/// A service time in ms from a decimal number; `places` converts its unit to ms (seconds: 3) or
/// divides it (`-3` for microseconds, `-6` for nanoseconds).
pub(crate) fn service_ms(text: &[u8], places: i32) -> Result<Option<u64>, DropReason> {
    if matches!(text, b"" | b"-") {
        return Ok(None);
    }
    let number = thousandths(text, places.max(0) as u32).ok_or(DropReason::BadNumber)?;
    let number = u64::try_from(number).map_err(|_| DropReason::Negative)?;
    let number = number / 10_u64.pow((-places).max(0) as u32);
    if !is_service(number) {
        return Err(DropReason::Absurd);
    }
    Ok(Some(number))
}

/// A time, if it is plausible for a log, ms.
pub(crate) fn moment(ms: Option<i64>) -> Result<i64, DropReason> {
    ms.filter(|ms| is_moment(*ms)).ok_or(DropReason::BadTime)
}

/// Whether a time is plausible for a log, ms.
pub(crate) const fn is_moment(ms: i64) -> bool {
    ms.unsigned_abs() < MOMENT_MS_MAX
}

/// Whether a service time is plausible, ms.
pub(crate) const fn is_service(ms: u64) -> bool {
    ms <= SERVICE_MS_MAX
}

/// A time in ms since 1970, in any notation used by logs: a number of seconds (or, by its size, of
/// ms, us or ns), ISO 8601, or `10/Oct/2000:13:55:36 -0700`.
pub(crate) fn any_moment(text: &[u8]) -> Result<i64, DropReason> {
    let text = match text {
        [b'[', inner @ .., b']'] => inner,
        _ => text,
    };
    let ms = match text {
        [_, _, b'/', ..] | [_, b'/', ..] => common_log_date(text),
        [_, _, _, _, b'-' | b'/', ..] => iso_date(text),
        _ => scaled_number(text),
    };
    moment(ms)
}

fn scaled_number(text: &[u8]) -> Option<i64> {
    let whole = text.iter().position(|byte| *byte == b'.');
    let ms = match whole.unwrap_or(text.len()) {
        _ if text.iter().any(|byte| matches!(byte, b'e' | b'E')) => thousandths(text, 3)?,
        // 12 digits of seconds would be the year 5138 or later.
        0..=11 => thousandths(text, 3)?,
        12..=14 => thousandths(text, 0)?,
        15..=17 => thousandths(text, 0)? / 1000,
        _ => thousandths(text, 0)? / 1_000_000,
    };
    Some(ms)
}

/// `10/Oct/2000:13:55:36 -0700`; fractional seconds are accepted.
fn common_log_date(text: &[u8]) -> Option<i64> {
    let (day, rest) = split(text, b'/')?;
    let (month, rest) = split(rest, b'/')?;
    let (year, rest) = split(rest, b':')?;
    let month = month_number(month)?;
    let (clock, zone) = split(rest, b' ').unwrap_or((rest, b"+0000"));
    Some(days_ms(digits(year)?, month, digits(day)?)? + clock_ms(clock)? - zone_ms(zone)?)
}

/// `2000-10-10T13:55:36.123+02:00`; also with slashes in the date, a space between date and time,
/// `Z`, or no zone (UTC).
fn iso_date(text: &[u8]) -> Option<i64> {
    let date = calendar_ms(text.get(..10)?)?;
    let rest = text.get(11..)?;
    let zone = rest
        .iter()
        .position(|byte| matches!(byte, b'Z' | b'z' | b'+' | b'-' | b' '));
    let (clock, zone) = rest.split_at(zone.unwrap_or(rest.len()));
    Some(date + clock_ms(clock)? - zone_ms(zone.trim_ascii())?)
}

/// `2000-10-10` or `2000/10/10`: its midnight, ms since 1970.
pub(crate) fn calendar_ms(text: &[u8]) -> Option<i64> {
    let [y @ .., b'-' | b'/', m1, m2, b'-' | b'/', d1, d2] = text else {
        return None;
    };
    days_ms(digits(y)?, digits(&[*m1, *m2])?, digits(&[*d1, *d2])?)
}

/// `13:55:36`, `13:55:36.123` or, as log4j writes it, `13:55:36,123`: ms since midnight.
pub(crate) fn clock_ms(text: &[u8]) -> Option<i64> {
    let [h1, h2, b':', m1, m2, b':', seconds @ ..] = text else {
        return None;
    };
    let (hours, minutes) = (digits(&[*h1, *h2])?, digits(&[*m1, *m2])?);
    let point = if memchr::memchr(b',', seconds).is_some() {
        b','
    } else {
        b'.'
    };
    let ms = decimal(seconds, 3, point)?;
    let is_clock = hours < 24 && minutes < 60 && (0..61_000).contains(&ms);
    is_clock.then_some((hours * 3_600_000 + minutes * 60_000) as i64 + ms)
}

/// `+0200`, `+02:00`, `+02`, `Z` or nothing.
fn zone_ms(text: &[u8]) -> Option<i64> {
    let (sign, hours, minutes) = match text {
        [] | b"Z" | b"z" => return Some(0),
        [sign, h1, h2, m1, m2] | [sign, h1, h2, b':', m1, m2] => {
            (*sign, digits(&[*h1, *h2])?, digits(&[*m1, *m2])?)
        }
        [sign, h1, h2] => (*sign, digits(&[*h1, *h2])?, 0),
        _ => return None,
    };
    let ms = (hours * 3_600_000 + minutes * 60_000) as i64;
    match sign {
        b'+' => Some(ms),
        b'-' => Some(-ms),
        _ => None,
    }
}

fn month_number(name: &[u8]) -> Option<u64> {
    // A match on bytes: comparing with each name would cost a call per month.
    Some(match name {
        b"Jan" => 1,
        b"Feb" => 2,
        b"Mar" => 3,
        b"Apr" => 4,
        b"May" => 5,
        b"Jun" => 6,
        b"Jul" => 7,
        b"Aug" => 8,
        b"Sep" => 9,
        b"Oct" => 10,
        b"Nov" => 11,
        b"Dec" => 12,
        _ => return None,
    })
}

/// Midnight of a day, ms since 1970 (Howard Hinnant, "chrono-compatible low-level date algorithms",
/// days_from_civil).
fn days_ms(year: u64, month: u64, day: u64) -> Option<i64> {
    if !(1..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let (year, month, day) = (year as i64, month as i64, day as i64);
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year - era * 400;
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    let day_of_era = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    Some((era * 146_097 + day_of_era - 719_468) * 86_400_000)
}

fn split(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let place = text.iter().position(|byte| *byte == at)?;
    Some((&text[..place], &text[place + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn time_is_parsed_in_all_notations() {
        let expected = Ok(971_211_336_000);
        for text in [
            "10/Oct/2000:13:55:36 -0700",
            "[10/Oct/2000:13:55:36 -0700]",
            "2000-10-10T20:55:36Z",
            "2000-10-10T20:55:36",
            "2000-10-10 20:55:36",
            "2000-10-10T22:55:36.000+02:00",
            "2000-10-10T13:55:36-0700",
            "2000-10-10T22:55:36+0200",
            "2000-10-10 22:55:36+02",
            "2000-10-10T15:55:36.000-05",
            "2000/10/10 20:55:36.000",
            "2000-10-10 20:55:36,000",
            "971211336",
            "971211336.000",
            "971211336000",
            "971211336000000",
            "971211336000000000",
            "9.71211336e8",
        ] {
            assert_eq!(any_moment(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(any_moment(b"2000-10-10T20:55:36.5Z"), Ok(971_211_336_500));
        assert_eq!(any_moment(b"971211336.0019"), Ok(971_211_336_001));
    }

    #[test]
    fn invalid_times_are_rejected() {
        for text in [
            "",
            "-",
            "yesterday",
            "32/Oct/2000:13:55:36 -0700",
            "10/Okt/2000:13:55:36 -0700",
            "2000-13-10T20:55:36Z",
            "2000-10-10T25:55:36Z",
            "2000-10-10T22:55:36+2",
            "1e30",
            "-1e30",
            "2000-10-10",
        ] {
            assert_eq!(
                any_moment(text.as_bytes()),
                Err(DropReason::BadTime),
                "{text}"
            );
        }
    }

    #[test]
    fn leap_days_are_handled() {
        assert_eq!(calendar_ms(b"1970-01-01"), Some(0));
        assert_eq!(calendar_ms(b"2000-02-29"), Some(951_782_400_000));
        assert_eq!(calendar_ms(b"2000-03-01"), Some(951_868_800_000));
        assert_eq!(calendar_ms(b"1969-12-31"), Some(-86_400_000));
    }

    #[test]
    fn invalid_amounts_have_distinct_reasons() {
        assert_eq!(amount(b"12"), Ok(Some(12)));
        assert_eq!(amount(b""), Ok(None));
        assert_eq!(amount(b"-"), Ok(None));
        assert_eq!(amount(b"-12"), Err(DropReason::Negative));
        assert_eq!(amount(b"99999999999999999"), Err(DropReason::Absurd));
        assert_eq!(
            amount(b"99999999999999999999999999"),
            Err(DropReason::Absurd)
        );
        assert_eq!(amount(b"12x"), Err(DropReason::BadNumber));
    }

    #[test]
    fn service_time_is_converted_from_its_unit() {
        assert_eq!(service_ms(b"1.5", 3), Ok(Some(1500)));
        assert_eq!(service_ms(b"1500", 0), Ok(Some(1500)));
        assert_eq!(service_ms(b"1500999", -3), Ok(Some(1500)));
        assert_eq!(service_ms(b"1500999999", -6), Ok(Some(1500)));
        assert_eq!(service_ms(b"-1", 3), Err(DropReason::Negative));
        assert_eq!(service_ms(b"99999999999", 3), Err(DropReason::Absurd));
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_reader_panic(text: Vec<u8>, places in -6_i32..6) {
            let _ = any_moment(&text);
            let _ = amount(&text);
            let _ = service_ms(&text, places);
        }

        #[test]
        fn fractional_seconds_are_truncated_to_milliseconds(ms in 0_i64..99_999_999_999_999) {
            let text = format!("{}.{:03}9", ms / 1000, ms % 1000);
            prop_assert_eq!(thousandths(text.as_bytes(), 3), Some(ms));
        }
    }
}
