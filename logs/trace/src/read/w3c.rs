//! W3C extended logs (IIS, CloudFront): a line that begins with `#Fields:` says what columns there
//! are, and another may follow anywhere.
//!
//! Columns are looked up by name, never by place: CloudFront has added some more than once.

use super::reason::Reason;
use super::row::{Field, Row};

/// Reads lines below one `#Fields:`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct W3c {
    columns: Vec<Option<Field>>,
    session_field: Option<String>,
}

/// What begins the line of names.
pub(crate) const FIELDS: &[u8] = b"#Fields:";

impl W3c {
    /// A reader for lines below this one, if it is `#Fields:`.
    pub(crate) fn from_fields(line: &[u8], session_field: Option<&str>) -> Option<Self> {
        let names = str::from_utf8(line.strip_prefix(FIELDS)?).ok()?;
        let names: Vec<&str> = names.split_ascii_whitespace().collect();
        // IIS counts whole milliseconds, CloudFront and the standard seconds.
        let is_iis = names
            .iter()
            .any(|name| matches!(*name, "sc-win32-status" | "s-ip" | "s-sitename"));
        let columns: Vec<Option<Field>> = names
            .iter()
            .map(|name| match *name {
                name if Some(name) == session_field => Some(Field::Session),
                "time-taken" if is_iis => Some(Field::ServiceMs),
                name => column(name),
            })
            .collect();
        let has = |field: Field| columns.contains(&Some(field));
        let is_enough = (has(Field::Date) && has(Field::Clock) || has(Field::EndS))
            && has(Field::Target)
            && (has(Field::BytesAll) || has(Field::ContentLength));
        is_enough.then(|| Self {
            columns,
            session_field: session_field.map(str::to_owned),
        })
    }

    /// A reader for lines below another `#Fields:` of the same log.
    pub(crate) fn again(&self, line: &[u8]) -> Option<Self> {
        Self::from_fields(line, self.session_field.as_deref())
    }

    /// The pieces of a line.
    pub(crate) fn read<'a>(&self, line: &'a [u8], row: &mut Row<'a>) -> Result<(), Reason> {
        if line.starts_with(b"#") {
            return Err(Reason::NotARequest);
        }
        let separator = match memchr::memchr(b'\t', line) {
            Some(_) => b'\t',
            None => b' ',
        };
        let mut words = line.split(|byte| *byte == separator);
        for column in &self.columns {
            let word = words.next().ok_or(Reason::Shape)?;
            if let Some(field) = column {
                row.set(*field, word);
            }
        }
        match words.next() {
            None | Some([]) => Ok(()),
            Some(_) => Err(Reason::Shape),
        }
    }
}

fn column(name: &str) -> Option<Field> {
    Some(match name {
        "date" => Field::Date,
        "time" => Field::Clock,
        "timestamp" => Field::EndS,
        "time-taken" => Field::ServiceS,
        "c-ip" => Field::Address,
        "cs-method" => Field::Method,
        "cs-uri-stem" | "cs-uri" => Field::Target,
        "cs-uri-query" => Field::Query,
        "sc-status" => Field::Status,
        "sc-bytes" => Field::BytesAll,
        "sc-content-len" => Field::ContentLength,
        "sc-range-start" => Field::RangeStart,
        "sc-range-end" => Field::RangeEnd,
        "cs(User-Agent)" => Field::Agent,
        "cs(Range)" => Field::Range,
        "sc(Content-Range)" => Field::ContentRange,
        "cs(CMCD-Session)" => Field::Cmcd,
        "cs(X-Playback-Session-Id)" => Field::Session,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::entry::{Who, interpret};

    const CLOUDFRONT: &str = "#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) \
        cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) \
        x-edge-result-type x-edge-request-id x-host-header cs-protocol cs-bytes time-taken \
        x-forwarded-for ssl-protocol ssl-cipher x-edge-response-result-type cs-protocol-version \
        fle-status fle-encrypted-fields c-port time-to-first-byte x-edge-detailed-result-type \
        sc-content-type sc-content-len sc-range-start sc-range-end";

    #[test]
    fn a_line_of_cloudfront_is_read() {
        let reader = W3c::from_fields(CLOUDFRONT.as_bytes(), None).expect("names");
        let line = "2019-12-04\t21:02:31\tLAX1\t1048968\t192.0.2.100\tGET\td111.cloudfront.net\t\
            /movie.mp4\t206\t-\tMozilla/5.0%20(Windows)\tCMCD=sid%3D%22abc%22\t-\tHit\tSOX4==\t\
            d111.cloudfront.net\thttps\t23\t1.250\t-\tTLSv1.2\tECDHE\tHit\tHTTP/2.0\t-\t-\t11040\t\
            0.001\tHit\tvideo/mp4\t1048576\t2097152\t3145727";
        let mut row = Row::new();
        reader.read(line.as_bytes(), &mut row).expect("its shape");
        let entry = interpret(&row).expect("a request");
        assert_eq!(entry.completed_ms, 1_575_493_351_000);
        assert_eq!(entry.received_ms, 1_575_493_349_750);
        assert_eq!(entry.offset, Some(2_097_152));
        assert_eq!(entry.asked_bytes, Some(1_048_576));
        assert_eq!(entry.sent_bytes, 1_048_576, "without headers");
        assert_eq!(entry.who, Who::Session(b"abc"[..].into()));
    }

    #[test]
    fn iis_counts_milliseconds() {
        let names = "#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query c-ip \
                     cs(User-Agent) sc-status sc-win32-status sc-bytes time-taken";
        let reader = W3c::from_fields(names.as_bytes(), None).expect("names");
        let line = "2020-01-01 00:00:10 10.0.0.1 GET /a.mp4 - 192.0.2.1 VLC/3.0 200 0 5000 1500";
        let mut row = Row::new();
        reader.read(line.as_bytes(), &mut row).expect("its shape");
        let entry = interpret(&row).expect("a request");
        assert_eq!(entry.completed_ms - entry.received_ms, 1500);
        assert_eq!(entry.who, Who::Address(b"192.0.2.1"));
    }

    #[test]
    fn comments_are_no_requests_and_short_lines_have_no_shape() {
        let reader = W3c::from_fields(CLOUDFRONT.as_bytes(), None).expect("names");
        let mut row = Row::new();
        assert_eq!(
            reader.read(b"#Version: 1.0", &mut row),
            Err(Reason::NotARequest)
        );
        assert_eq!(
            reader.read(b"2019-12-04\t21:02:31", &mut row),
            Err(Reason::Shape)
        );
        assert_eq!(W3c::from_fields(b"#Fields: date time", None), None);
    }
}
