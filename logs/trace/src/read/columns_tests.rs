use super::*;
use crate::read::entry::{ClientIdentity, interpret};

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
    let entry = interpret(&row, None)?;
    Ok((
        entry.received_ms,
        entry.completed_ms,
        entry.asked_bytes,
        entry.sent_bytes,
    ))
}

#[test]
fn plain_request_log_is_read() {
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

const CLOUDFRONT: &str = "#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) \
    cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) \
    x-edge-result-type x-edge-request-id x-host-header cs-protocol cs-bytes time-taken \
    x-forwarded-for ssl-protocol ssl-cipher x-edge-response-result-type cs-protocol-version \
    fle-status fle-encrypted-fields c-port time-to-first-byte x-edge-detailed-result-type \
    sc-content-type sc-content-len sc-range-start sc-range-end";

#[test]
fn cloudfront_line_is_read() {
    let reader = DelimitedReader::from_fields(CLOUDFRONT.as_bytes(), None).expect("names");
    let line = "2019-12-04\t21:02:31\tLAX1\t1048968\t192.0.2.100\tGET\td111.cloudfront.net\t\
        /movie.mp4\t206\t-\tMozilla/5.0%20(Windows)\tCMCD=sid%3D%22abc%22\t-\tHit\tSOX4==\t\
        d111.cloudfront.net\thttps\t23\t1.250\t-\tTLSv1.2\tECDHE\tHit\tHTTP/2.0\t-\t-\t11040\t\
        0.001\tHit\tvideo/mp4\t1048576\t2097152\t3145727";
    let mut row = LineFields::new();
    reader.read(line.as_bytes(), &mut row).expect("parsed");
    let entry = interpret(&row, None).expect("a request");
    assert_eq!(entry.completed_ms, 1_575_493_351_000);
    assert_eq!(entry.received_ms, 1_575_493_349_750);
    assert_eq!(entry.offset, Some(2_097_152));
    assert_eq!(entry.asked_bytes, Some(1_048_576));
    assert_eq!(entry.sent_bytes, 1_048_576, "body bytes only");
    assert_eq!(entry.who, ClientIdentity::Session(b"abc"[..].into()));
}

#[test]
fn iis_durations_are_milliseconds() {
    let names = "#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query c-ip \
                 cs(User-Agent) sc-status sc-win32-status sc-bytes time-taken";
    let reader = DelimitedReader::from_fields(names.as_bytes(), None).expect("names");
    let line = "2020-01-01 00:00:10 10.0.0.1 GET /a.mp4 - 192.0.2.1 VLC/3.0 200 0 5000 1500";
    let mut row = LineFields::new();
    reader.read(line.as_bytes(), &mut row).expect("parsed");
    let entry = interpret(&row, None).expect("a request");
    assert_eq!(entry.completed_ms - entry.received_ms, 1500);
    assert_eq!(entry.who, ClientIdentity::Address(b"192.0.2.1"));
}

#[test]
fn comments_are_skipped_and_short_lines_rejected() {
    let reader = DelimitedReader::from_fields(CLOUDFRONT.as_bytes(), None).expect("names");
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
