//! HTTP dates (RFC 9110 5.6.7): parses three forms, writes one.
//!
//! Existing libraries (`httpdate`, `http-date`) need `std`, and two-digit years of RFC 850 dates
//! need the current time, which is an argument here.

use core::fmt;

const DAY_SECONDS: i64 = 86_400;
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const LONG_DAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// A time with the resolution of HTTP, one second; its year is between 0000 and 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HttpDate {
    unix_seconds: i64,
}

impl HttpDate {
    /// The first second of 1970.
    pub const EPOCH: Self = Self { unix_seconds: 0 };
    /// Length of its text.
    pub const LENGTH: usize = 29;

    /// From seconds since 1970; `None` outside of four-digit years.
    pub fn from_unix_seconds(seconds: i64) -> Option<Self> {
        let range =
            days_from_civil(0, 1, 1) * DAY_SECONDS..days_from_civil(10_000, 1, 1) * DAY_SECONDS;
        range.contains(&seconds).then_some(Self {
            unix_seconds: seconds,
        })
    }

    /// Seconds since 1970; negative before.
    pub const fn unix_seconds(self) -> i64 {
        self.unix_seconds
    }

    /// Parses any of the three forms; `None` if it is none of them.
    ///
    /// The two-digit year of the RFC 850 form is interpreted as at most 50 years after `now`. The
    /// name of the day must be valid, but need not match the date.
    pub fn parse(text: &str, now: Self) -> Option<Self> {
        let mut scanner = DateScanner(text);
        let parsed = if let Some((day_name, _)) = text.split_once(',') {
            if DAYS.contains(&day_name) {
                imf_fixdate(&mut scanner)
            } else {
                rfc850(&mut scanner, now)
            }
        } else {
            asctime(&mut scanner)
        };
        parsed.filter(|_| scanner.0.is_empty())
    }
}

impl fmt::Display for HttpDate {
    /// Writes IMF-fixdate, the only form to send: `Sun, 06 Nov 1994 08:49:37 GMT`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let days = self.unix_seconds.div_euclid(DAY_SECONDS);
        let second = self.unix_seconds.rem_euclid(DAY_SECONDS);
        let (year, month, day) = civil_from_days(days);
        // 1970 began on a Thursday, which is number 3 of `DAYS`.
        let day_name = name(&DAYS, (days + 3).rem_euclid(7));
        let month_name = name(&MONTHS, month - 1);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(
            f,
            "{day_name}, {day:02} {month_name} {year:04} {hour:02}:{minute:02}:{second:02} GMT"
        )
    }
}

fn name<const N: usize>(names: &[&'static str; N], index: i64) -> &'static str {
    let index = usize::try_from(index).ok();
    index.and_then(|i| names.get(i)).copied().unwrap_or("???")
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`
fn imf_fixdate(scanner: &mut DateScanner<'_>) -> Option<HttpDate> {
    scanner.one_of(&DAYS)?;
    scanner.literal(", ")?;
    let day = scanner.digits(2)?;
    scanner.literal(" ")?;
    let month = scanner.one_of(&MONTHS)? + 1;
    scanner.literal(" ")?;
    let year = scanner.digits(4)?;
    scanner.literal(" ")?;
    let second = scanner.time_of_day()?;
    scanner.literal(" GMT")?;
    moment(year, month, day, second)
}

/// `Sunday, 06-Nov-94 08:49:37 GMT`
fn rfc850(scanner: &mut DateScanner<'_>, now: HttpDate) -> Option<HttpDate> {
    scanner.one_of(&LONG_DAYS)?;
    scanner.literal(", ")?;
    let day = scanner.digits(2)?;
    scanner.literal("-")?;
    let month = scanner.one_of(&MONTHS)? + 1;
    scanner.literal("-")?;
    let short_year = scanner.digits(2)?;
    scanner.literal(" ")?;
    let second = scanner.time_of_day()?;
    scanner.literal(" GMT")?;
    let (year_now, ..) = civil_from_days(now.unix_seconds.div_euclid(DAY_SECONDS));
    // The year with these last two digits within the hundred years that end 50 years from now.
    let latest = year_now + 50;
    let year = latest - (latest - short_year).rem_euclid(100);
    moment(year, month, day, second)
}

/// `Sun Nov  6 08:49:37 1994`
fn asctime(scanner: &mut DateScanner<'_>) -> Option<HttpDate> {
    scanner.one_of(&DAYS)?;
    scanner.literal(" ")?;
    let month = scanner.one_of(&MONTHS)? + 1;
    scanner.literal(" ")?;
    let day = match scanner.literal(" ") {
        Some(()) => scanner.digits(1)?,
        None => scanner.digits(2)?,
    };
    scanner.literal(" ")?;
    let second = scanner.time_of_day()?;
    scanner.literal(" ")?;
    let year = scanner.digits(4)?;
    moment(year, month, day, second)
}

fn moment(year: i64, month: i64, day: i64, second_of_day: i64) -> Option<HttpDate> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last_day = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if !(1..=last_day).contains(&day) {
        return None;
    }
    let days = days_from_civil(year, month, day);
    HttpDate::from_unix_seconds(days * DAY_SECONDS + second_of_day)
}

/// The remaining text; methods consume a prefix or return `None`.
struct DateScanner<'a>(&'a str);

impl DateScanner<'_> {
    fn literal(&mut self, expected: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(expected)?;
        Some(())
    }

    fn one_of(&mut self, names: &[&str]) -> Option<i64> {
        let index = names.iter().position(|name| self.0.starts_with(name))?;
        self.literal(names.get(index)?)?;
        i64::try_from(index).ok()
    }

    fn digits(&mut self, count: usize) -> Option<i64> {
        let (head, tail) = self.0.split_at_checked(count)?;
        if !head.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        self.0 = tail;
        head.parse().ok()
    }

    /// `08:49:37` in seconds; a leap second is allowed and runs into the next minute.
    fn time_of_day(&mut self) -> Option<i64> {
        let hour = self.digits(2)?;
        self.literal(":")?;
        let minute = self.digits(2)?;
        self.literal(":")?;
        let second = self.digits(2)?;
        (hour < 24 && minute < 60 && second <= 60).then_some(hour * 3600 + minute * 60 + second)
    }
}

/// Days from 1970-01-01 to a date of the Gregorian calendar.
///
/// Years are counted from March, so that the leap day is the last of its year, and in eras of 400
/// years, which all have 146,097 days (H. Hinnant, "chrono-compatible low-level date algorithms").
const fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The inverse of [`days_from_civil`]: year, month 1-12, day 1-31.
const fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400;
    (if month <= 2 { year + 1 } else { year }, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    /// 2026-01-01, so that two-digit years up to 76 lie in this century.
    const NOW: HttpDate = HttpDate {
        unix_seconds: 1_767_225_600,
    };

    fn seconds(text: &str) -> Option<i64> {
        HttpDate::parse(text, NOW).map(HttpDate::unix_seconds)
    }

    #[test]
    fn parses_all_three_forms() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(seconds(text), Some(784_111_777), "{text}");
        }
    }

    #[test]
    fn writes_imf_fixdate() {
        for (unix_seconds, text) in [
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (-1, "Wed, 31 Dec 1969 23:59:59 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
            (253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT"),
            (-62_167_219_200, "Sat, 01 Jan 0000 00:00:00 GMT"),
        ] {
            let date = HttpDate::from_unix_seconds(unix_seconds).unwrap();
            assert_eq!(date.to_string(), text);
            assert_eq!(seconds(text), Some(unix_seconds));
        }
        assert_eq!(HttpDate::from_unix_seconds(253_402_300_800), None);
        assert_eq!(HttpDate::from_unix_seconds(i64::MIN), None);
    }

    #[test]
    fn two_digit_year_is_at_most_fifty_years_ahead() {
        let year_76 = seconds("Wednesday, 01-Jan-76 00:00:00 GMT");
        assert_eq!(year_76, seconds("Wed, 01 Jan 2076 00:00:00 GMT"));
        let year_77 = seconds("Saturday, 01-Jan-77 00:00:00 GMT");
        assert_eq!(year_77, seconds("Sat, 01 Jan 1977 00:00:00 GMT"));
    }

    #[test]
    fn leap_second_runs_into_next_minute() {
        let leap = seconds("Sat, 31 Dec 2016 23:59:60 GMT");
        assert_eq!(leap, seconds("Sun, 01 Jan 2017 00:00:00 GMT"));
        assert_eq!(seconds("Fri, 31 Dec 9999 23:59:60 GMT"), None);
    }

    #[test]
    fn refuses_invalid_dates() {
        for text in [
            "",
            "0",
            "Sun",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 06 Nov 1994 08:49:37 GMT ",
            " Sun, 06 Nov 1994 08:49:37 GMT",
            "sun, 06 nov 1994 08:49:37 gmt",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 31 Nov 1994 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Wed, 29 Feb 2023 08:49:37 GMT",
            "Mon, 29 Feb 2100 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 08:60:37 GMT",
            "Sun, 06 Nov 1994 08:49:61 GMT",
            "Sun, +6 Nov 1994 08:49:37 GMT",
            "Sun, 06-Nov-94 08:49:37 GMT",
            "Sunday, 06-Nov-1994 08:49:37 GMT",
            "Sun Nov 6 08:49:37 1994",
            "Sun Nov  66 08:49:37 1994",
            "Sun Nov  6 08:49:37 1994 GMT",
            "é, 06 Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(seconds(text), None, "{text:?}");
        }
    }
}
