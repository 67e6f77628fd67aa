//! `PT1H2M3.5S`: durations of XML Schema, as far as manifests use them.

use headlong_units::Duration;

const SECOND_NS: u128 = 1_000_000_000;
const DAY_NS: u128 = 86_400 * SECOND_NS;

/// Parses an `xs:duration`; `None` if it is invalid, negative, or longer than 584 years. A year
/// counts as 365 days and a month as 30, as there is no calendar.
pub fn parse_xs_duration(text: &str) -> Option<Duration> {
    let rest = text.trim().strip_prefix('P')?;
    let (date, time) = match rest.split_once('T') {
        Some((_, "")) => return None,
        Some((date, time)) => (date, time),
        None => (rest, ""),
    };
    if date.is_empty() && time.is_empty() {
        return None;
    }
    let days = [('Y', 365 * DAY_NS), ('M', 30 * DAY_NS), ('D', DAY_NS)];
    let hours = [
        ('H', 3600 * SECOND_NS),
        ('M', 60 * SECOND_NS),
        ('S', SECOND_NS),
    ];
    let total = fields(date, &days)?.checked_add(fields(time, &hours)?)?;
    u64::try_from(total).ok().map(Duration)
}

/// Sums `12H34M5.6S`; every unit at most once and in the order of the table.
fn fields(mut text: &str, mut units: &[(char, u128)]) -> Option<u128> {
    let mut total: u128 = 0;
    while !text.is_empty() {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, rest) = text.split_at(end);
        let unit = rest.chars().next()?;
        let at = units.iter().position(|(name, _)| *name == unit)?;
        total = total.checked_add(scaled(number, units[at].1)?)?;
        units = &units[at + 1..];
        text = &rest[unit.len_utf8()..];
    }
    Some(total)
}

fn scaled(number: &str, unit_ns: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: u64 = whole.parse().ok()?;
    let fraction = &fraction[..fraction.len().min(9)];
    let part = if fraction.is_empty() {
        0
    } else {
        let digits: u64 = fraction.parse().ok()?;
        u128::from(digits) * unit_ns / 10u128.pow(fraction.len() as u32)
    };
    u128::from(whole).checked_mul(unit_ns)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn manifest_durations_are_parsed() {
        for (text, milliseconds) in [
            ("PT0S", 0),
            ("PT634.566S", 634_566),
            ("PT1H2M3.5S", 3_723_500),
            ("P0Y0M0DT0H3M30.000S", 210_000),
            ("P1DT12H", 129_600_000),
            ("PT10M", 600_000),
        ] {
            let length = Some(Duration::from_millis(milliseconds));
            assert_eq!(parse_xs_duration(text), length, "{text}");
        }
    }

    #[test]
    fn invalid_durations_are_rejected() {
        for text in [
            "",
            "P",
            "PT",
            "5",
            "-PT5S",
            "PT5",
            "PTS",
            "PT1S2H",
            "PT1.2.3S",
            "P9999999Y",
        ] {
            assert_eq!(parse_xs_duration(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn parser_never_panics_on_any_duration(text in "P?[0-9YMDTHS.é-]{0,40}") {
            let _ = parse_xs_duration(&text);
        }
    }
}
