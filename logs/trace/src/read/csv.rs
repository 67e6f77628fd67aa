//! Columns with a separator between them; the header says which is which.

use super::alias::FieldMap;
use super::reason::Reason;
use super::row::{Field, Row};

/// Reads lines of columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Csv {
    separator: u8,
    columns: Vec<Option<Field>>,
    /// The header, which may occur again where files were joined.
    header: Vec<u8>,
}

impl Csv {
    /// A reader for files that begin with this line, if it is a header of a request log.
    pub(crate) fn from_header(line: &[u8], map: &FieldMap) -> Option<Self> {
        let by_place: Option<Vec<(Field, usize)>> = map
            .pairs
            .iter()
            .map(|(field, place)| Some((*field, place.parse().ok()?)))
            .collect();
        let separator = separator(line)?;
        if let Some(places) = by_place.filter(|places| !places.is_empty()) {
            return Self::from_places(line, separator, &places);
        }
        let text = str::from_utf8(line).ok()?;
        let columns: Vec<Option<Field>> = text
            .split(char::from(separator))
            .map(|name| map.field(name.trim().trim_matches('"')))
            .collect();
        let reader = Self {
            separator,
            columns,
            header: line.to_vec(),
        };
        reader.is_enough().then_some(reader)
    }

    /// A reader for files without a header; columns count from 1.
    fn from_places(line: &[u8], separator: u8, places: &[(Field, usize)]) -> Option<Self> {
        let count = memchr::memchr_iter(separator, line).count() + 1;
        let mut columns = vec![None; count];
        for (field, place) in places {
            *columns.get_mut(place.checked_sub(1)?)? = Some(*field);
        }
        let reader = Self {
            separator,
            columns,
            header: Vec::new(),
        };
        reader.is_enough().then_some(reader)
    }

    /// Whether the columns are enough to make a request of.
    fn is_enough(&self) -> bool {
        let has = |fields: &[Field]| {
            let mut known = self.columns.iter().flatten();
            known.any(|field| fields.contains(field))
        };
        let each_once = self.columns.iter().flatten().enumerate();
        let mut columns = self.columns.iter().flatten();
        let is_unique = each_once.fold(true, |unique, (place, field)| {
            unique && columns.clone().position(|other| other == field) == Some(place)
        });
        is_unique
            && columns.next().is_some()
            && has(&[
                Field::EndS,
                Field::EndMs,
                Field::End,
                Field::Start,
                Field::StartMs,
            ])
            && has(&[Field::File, Field::Target, Field::RequestLine])
            && has(&[Field::Bytes, Field::BytesAll, Field::ContentLength])
            && has(&[Field::Session, Field::Address, Field::Cmcd])
    }

    /// The pieces of a line.
    pub(crate) fn read<'a>(&self, line: &'a [u8], row: &mut Row<'a>) -> Result<(), Reason> {
        let mut rest = Some(line);
        for column in &self.columns {
            let Some(text) = rest else {
                return Err(Reason::Shape);
            };
            let (piece, after) = piece(text, self.separator).ok_or(Reason::Shape)?;
            if let Some(field) = column {
                row.set(*field, piece);
            }
            rest = after;
        }
        if rest.is_some() {
            return Err(Reason::Shape);
        }
        if line == self.header {
            return Err(Reason::NotARequest);
        }
        Ok(())
    }
}

/// The first column of a text, and what is behind its separator.
pub(crate) fn piece(text: &[u8], separator: u8) -> Option<(&[u8], Option<&[u8]>)> {
    if let [b'"', inner @ ..] = text {
        return quoted(inner, separator);
    }
    // Columns are short: looking byte by byte is quicker than setting up anything cleverer.
    match text.iter().position(|byte| *byte == separator) {
        Some(end) => Some((&text[..end], Some(&text[end + 1..]))),
        None => Some((text, None)),
    }
}

/// A column in quotes; a quote within is doubled, and stays so.
fn quoted(inner: &[u8], separator: u8) -> Option<(&[u8], Option<&[u8]>)> {
    let mut from = 0;
    loop {
        let end = from + memchr::memchr(b'"', &inner[from..])?;
        match inner.get(end + 1) {
            None => return Some((&inner[..end], None)),
            Some(byte) if *byte == separator => {
                return Some((&inner[..end], Some(&inner[end + 2..])));
            }
            Some(b'"') => from = end + 2,
            Some(_) => return None,
        }
    }
}

/// What stands between columns: whichever of the usual characters is there most.
fn separator(line: &[u8]) -> Option<u8> {
    let count = |byte: &u8| memchr::memchr_iter(*byte, line).count();
    let best = b"|;\t,".iter().copied().max_by_key(|byte| count(byte))?;
    (count(&best) > 0).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::entry::interpret;

    const HEADER: &[u8] = b"ts,service_ms,session,device,file,offset,size,bytes,disk";

    fn plain() -> Csv {
        Csv::from_header(HEADER, &FieldMap::default()).expect("a header")
    }

    fn times_and_bytes(reader: &Csv, line: &str) -> Result<(i64, i64, Option<u64>, u64), Reason> {
        let mut row = Row::new();
        reader.read(line.as_bytes(), &mut row)?;
        let entry = interpret(&row)?;
        Ok((
            entry.received_ms,
            entry.completed_ms,
            entry.asked_bytes,
            entry.sent_bytes,
        ))
    }

    #[test]
    fn the_plain_request_log_is_read() {
        let line = "1388534400,1500,17,3,204,1048576,2097152,2000000,12";
        let expected = (
            1_388_534_398_500,
            1_388_534_400_000,
            Some(2_097_152),
            2_000_000,
        );
        assert_eq!(times_and_bytes(&plain(), line), Ok(expected));
        let open = "10,20000,17,3,204,0,,1500,12";
        assert_eq!(
            times_and_bytes(&plain(), open),
            Ok((-10_000, 10_000, None, 1500))
        );
    }

    #[test]
    fn the_header_decides_where_columns_are() {
        let reader = Csv::from_header(b"bytes;file;ts;session;colour", &FieldMap::default());
        let line = "5;\"a;b\";1;x;red";
        assert_eq!(
            times_and_bytes(&reader.expect("a header"), line),
            Ok((1000, 1000, None, 5))
        );
        let map = FieldMap::parse("ts=when,file=1,session=who").expect("a map");
        assert!(Csv::from_header(b"1,when,who,bytes", &map).is_some());
        let map = FieldMap::parse("ts=1,session=2,file=3,bytes=4").expect("a map");
        let reader = Csv::from_header(b"7,s,f,100", &map).expect("columns");
        assert_eq!(
            times_and_bytes(&reader, "7,s,f,100"),
            Ok((7000, 7000, None, 100))
        );
    }

    #[test]
    fn a_header_that_is_not_enough_is_none() {
        for header in ["ts,session,file", "a,b,c", "", "ts,ts,session,file,bytes"] {
            let reader = Csv::from_header(header.as_bytes(), &FieldMap::default());
            assert_eq!(reader, None, "{header}");
        }
    }

    #[test]
    fn lines_with_too_few_or_too_many_columns_are_not_guessed_at() {
        assert_eq!(times_and_bytes(&plain(), "1,2,3"), Err(Reason::Shape));
        let long = "1388534400,1500,17,3,204,0,1,2,12,13";
        assert_eq!(times_and_bytes(&plain(), long), Err(Reason::Shape));
        let again = str::from_utf8(HEADER).expect("text");
        assert_eq!(times_and_bytes(&plain(), again), Err(Reason::NotARequest));
    }
}
