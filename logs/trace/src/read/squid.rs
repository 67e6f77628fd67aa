//! Squid's native format, which Apache Traffic Server writes too.
//!
//! ```text
//! 1286536308.779    180 192.0.2.7 TCP_MISS/200 411 GET http://example.org/a.mp4 - DIRECT/- -
//! ```
//! Time (of the end), milliseconds, client, result and status, bytes with headers, method, address
//! of the document, user, where it came from, type. Ranges are not in it.

use super::reason::Reason;
use super::row::{Field, Row};

const FIELDS: [Option<Field>; 7] = [
    Some(Field::EndS),
    Some(Field::ServiceMs),
    Some(Field::Address),
    Some(Field::Status),
    Some(Field::BytesAll),
    Some(Field::Method),
    Some(Field::Target),
];

/// The pieces of a line.
pub(crate) fn read<'a>(line: &'a [u8], row: &mut Row<'a>) -> Result<(), Reason> {
    // Ten digits and a point: enough to tell it from all others at once.
    let is_moment = line.first().is_some_and(u8::is_ascii_digit)
        && line.iter().take(14).any(|byte| *byte == b'.');
    if !is_moment {
        return Err(Reason::Shape);
    }
    let mut words = line
        .split(|byte| *byte == b' ')
        .filter(|word| !word.is_empty());
    for field in FIELDS {
        let word = words.next().ok_or(Reason::Shape)?;
        if field == Some(Field::Status) && !word.contains(&b'/') {
            return Err(Reason::Shape);
        }
        if let Some(field) = field {
            row.set(field, word);
        }
    }
    words.next().map(|_| ()).ok_or(Reason::Shape)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::entry::interpret;

    fn read_line(line: &str) -> Result<(i64, u64, String), Reason> {
        let mut row = Row::new();
        read(line.as_bytes(), &mut row)?;
        let entry = interpret(&row)?;
        let file = String::from_utf8_lossy(&entry.file).into_owned();
        Ok((entry.received_ms, entry.sent_bytes, file))
    }

    #[test]
    fn a_line_of_squid_is_read() {
        let line = "1286536308.779    180 192.168.0.224 TCP_MISS/200 411 GET \
                    http://www.example.com/v/main.mp4?a=1 - DIRECT/192.0.2.1 video/mp4";
        let expected = (1_286_536_308_599, 411, "/v/main.mp4".to_owned());
        assert_eq!(read_line(line), Ok(expected));
    }

    #[test]
    fn a_part_of_a_file_cannot_be_placed_and_others_are_not_of_this_shape() {
        let part = "1286536308.779 180 ::1 TCP_HIT/206 411 GET http://a/b.mp4 - NONE/- video/mp4";
        let mut row = Row::new();
        read(part.as_bytes(), &mut row).expect("its shape");
        assert_eq!(interpret(&row).expect("a request").offset, None);
        for line in [
            "",
            "1286536308.779",
            "x 1 2 3/4 5 6 7 8",
            "12865 1 2 3/4 5 6 7 8",
        ] {
            assert_eq!(read_line(line), Err(Reason::Shape), "{line}");
        }
        let connect = "1286536308.779 180 ::1 TCP_TUNNEL/200 39 CONNECT a:443 - HIER/- -";
        assert_eq!(read_line(connect), Err(Reason::NotGet));
    }
}
