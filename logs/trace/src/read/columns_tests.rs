use super::*;
use crate::read::entry::interpret;
use crate::read::viewer::ViewerRules;

const HEADER: &[u8] = b"ts,service_ms,session,device,file,offset,size,bytes,disk";

fn plain() -> DelimitedReader {
    DelimitedReader::from_header(HEADER, &FieldMap::default(), None).expect("a header")
}

fn times_and_bytes(
    reader: &DelimitedReader,
    line: &str,
) -> Result<(i64, i64, Option<u64>, u64), DropReason> {
    let mut row = LineFields::new();
    reader.read(line.as_bytes(), &mut row)?;
    let entry = interpret(&row, &ViewerRules::default())?;
    Ok((
        entry.received_ms,
        entry.completed_ms,
        entry.asked_bytes,
        entry.sent_bytes,
    ))
}

#[test]
fn header_determines_the_columns() {
    let reader =
        DelimitedReader::from_header(b"bytes;file;ts;session;colour", &FieldMap::default(), None);
    let line = "5;\"a;b\";1;x;red";
    assert_eq!(
        times_and_bytes(&reader.expect("a header"), line),
        Ok((1000, 1000, None, 5))
    );
    let map = FieldMap::parse("ts=when,file=1,session=who").expect("a map");
    assert!(DelimitedReader::from_header(b"1,when,who,bytes", &map, None).is_some());
    let map = FieldMap::parse("ts=1,session=2,file=3,bytes=4").expect("a map");
    let reader = DelimitedReader::from_header(b"7,s,f,100", &map, None).expect("columns");
    assert_eq!(
        times_and_bytes(&reader, "7,s,f,100"),
        Ok((7000, 7000, None, 100))
    );
}

#[test]
fn insufficient_headers_are_rejected() {
    for header in ["ts,session,file", "a,b,c", "", "ts,ts,session,file,bytes"] {
        let reader = DelimitedReader::from_header(header.as_bytes(), &FieldMap::default(), None);
        assert_eq!(reader, None, "{header}");
    }
}

#[test]
fn lines_with_wrong_column_counts_are_rejected() {
    assert_eq!(times_and_bytes(&plain(), "1,2,3"), Err(DropReason::Shape));
    let long = "1388534400,1500,17,3,204,0,1,2,12,13";
    assert_eq!(times_and_bytes(&plain(), long), Err(DropReason::Shape));
    let again = str::from_utf8(HEADER).expect("text");
    assert_eq!(
        times_and_bytes(&plain(), again),
        Err(DropReason::NotARequest)
    );
}

#[test]
fn comments_are_skipped_and_short_lines_rejected() {
    let reader = DelimitedReader::from_fields(
        b"#Fields: date time c-ip cs-method cs-uri-stem sc-status sc-bytes",
        None,
    )
    .expect("names");
    let mut row = LineFields::new();
    assert_eq!(
        reader.read(b"#Version: 1.0", &mut row),
        Err(DropReason::NotARequest)
    );
    assert_eq!(
        reader.read(b"2019-12-04\t21:02:31", &mut row),
        Err(DropReason::Shape)
    );
    assert_eq!(
        DelimitedReader::from_fields(b"#Fields: date time", None),
        None
    );
}
