//! nginx's `combined` format with additional fields.
//!
//! ```text
//! 192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] "GET /a.mp4 HTTP/1.1" 206 1000 "-" "Player/1.0"
//!   start=784111777.123 service=1.234 first_byte=0.012 range="bytes=0-999" ram=600 disk=400
//!   queue=0.003 disk_time=0.008 session="6e2f" session_from=cmcd device="sda" br=2000 failure=-
//!   chain=17 proxy=- id=5c1f0a2b9d3e4f60
//! ```
//! (on one line). The fields of `combined` stay where its parsers expect them: the time is the end
//! of the request, as in nginx, and the size is that of the body. `start` is in seconds since 1970,
//! other times are in seconds, `ram` and `disk` are bytes by source, `br` is in kbps. Unknown
//! values are `-`, inside quotes `"-"`. `traceparent=...` follows if the request has a trace, and
//! `http_NAME="..."` for each field that the configuration names, as nginx's variables.
//!
//! Escaping is that of nginx: `"`, `\` and every byte outside 0x20-0x7e become `\xXX`, so a client
//! cannot end a field or a line.

use std::io::Write;

use headlong_http::HttpDate;
use headlong_units::Duration;

use super::record::{RequestRecord, version_name};

/// Appends a record as one line.
pub(super) fn write(record: &RequestRecord, line: &mut Vec<u8>) {
    let end_ms = record
        .start_unix_ms
        .saturating_add(record.service_time.as_millis());
    put(line, format_args!("{} - - [", record.remote.host()));
    put_date(line, end_ms / 1000);
    line.extend_from_slice(b"] \"");
    escape(line, record.method.as_bytes());
    line.push(b' ');
    escape(line, record.target.as_bytes());
    let version = version_name(record.version);
    let (status, bytes) = (record.status, record.bytes_sent);
    put(line, format_args!(" {version}\" {status} {bytes} "));
    quote(line, record.referer.as_deref());
    line.push(b' ');
    quote(line, record.user_agent.as_deref());
    put_extra_fields(record, line);
    line.push(b'\n');
}

fn put_extra_fields(record: &RequestRecord, line: &mut Vec<u8>) {
    let start = record.start_unix_ms;
    put(
        line,
        format_args!(" start={}.{:03}", start / 1000, start % 1000),
    );
    put(
        line,
        format_args!(" service={} first_byte=", Seconds(record.service_time)),
    );
    match record.first_byte_time {
        Some(time) => put(line, format_args!("{}", Seconds(time))),
        None => line.push(b'-'),
    }
    line.extend_from_slice(b" range=");
    quote(line, record.range.as_deref());
    let (ram, disk) = (record.bytes_from_ram, record.bytes_from_disk);
    let (queue, time) = (Seconds(record.queue_time), Seconds(record.disk_time));
    put(
        line,
        format_args!(" ram={ram} disk={disk} queue={queue} disk_time={time} session="),
    );
    let session = record.session.as_ref();
    quote(line, session.map(|key| key.id.as_str()));
    let source = session.map_or("-", |key| key.source.name());
    put(line, format_args!(" session_from={source} device="));
    quote(line, record.device.as_deref());
    match record.bit_rate {
        Some(rate) => put(line, format_args!(" br={}", rate.0 / 1000)),
        None => line.extend_from_slice(b" br=-"),
    }
    put(
        line,
        format_args!(" failure={}", record.failure.unwrap_or("-")),
    );
    match record.chain {
        Some(chain) => put(line, format_args!(" chain={chain}")),
        None => line.extend_from_slice(b" chain=-"),
    }
    match record.proxy {
        Some(proxy) => put(line, format_args!(" proxy={}", proxy.host())),
        None => line.extend_from_slice(b" proxy=-"),
    }
    put(line, format_args!(" id={}", record.id));
    if let Some(trace) = record.id.traceparent() {
        put(line, format_args!(" traceparent={trace}"));
    }
    for header in &record.headers {
        line.extend_from_slice(b" http_");
        let name = header.name.bytes();
        line.extend(name.map(|byte| if byte == b'-' { b'_' } else { byte }));
        line.push(b'=');
        quote(line, Some(&header.value));
    }
}

struct Seconds(Duration);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let milliseconds = self.0.as_millis();
        write!(f, "{}.{:03}", milliseconds / 1000, milliseconds % 1000)
    }
}

pub(super) fn put(line: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to memory does not fail.
    let _ = line.write_fmt(text);
}

/// `06/Nov/1994:08:49:37 +0000`, from the `Sun, 06 Nov 1994 08:49:37 GMT` of HTTP. Times beyond
/// four-digit years become 1970.
fn put_date(line: &mut Vec<u8>, unix_seconds: u64) {
    let date = i64::try_from(unix_seconds).ok();
    let date = date.and_then(HttpDate::from_unix_seconds);
    let date = date.unwrap_or(HttpDate::EPOCH).to_string();
    let mut words = date.split(' ').skip(1);
    let mut word = || words.next().unwrap_or_default();
    let (day, month, year, time) = (word(), word(), word(), word());
    put(line, format_args!("{day}/{month}/{year}:{time} +0000"));
}

pub(super) fn quote(line: &mut Vec<u8>, text: Option<&str>) {
    line.push(b'"');
    escape(
        line,
        text.filter(|text| !text.is_empty())
            .unwrap_or("-")
            .as_bytes(),
    );
    line.push(b'"');
}

pub(super) fn escape(line: &mut Vec<u8>, bytes: &[u8]) {
    for &byte in bytes {
        if matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\' {
            line.push(byte);
        } else {
            put(line, format_args!("\\x{byte:02X}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::sample;

    fn text(record: &RequestRecord) -> String {
        let mut line = Vec::new();
        write(record, &mut line);
        String::from_utf8(line).expect("ASCII")
    }

    #[test]
    fn record_becomes_combined_line_with_extra_fields() {
        let expected = "192.0.2.7 - - [06/Nov/1994:08:49:38 +0000] \
            \"GET /films/a.mp4?token=1 HTTP/1.1\" 206 1000 \"-\" \
            \"Player/1.0 (a \\x22b\\x22)\" start=784111777.123 service=1.234 first_byte=0.012 \
            range=\"bytes=0-999\" ram=600 disk=400 queue=0.003 disk_time=0.008 \
            session=\"6e2fb550-c457\" session_from=cmcd device=\"sda\" br=2000 failure=- \
            chain=17 proxy=- id=000000000000002a\n";
        assert_eq!(text(&sample()), expected);
    }

    #[test]
    fn unknown_values_are_dashes() {
        let record = RequestRecord {
            first_byte_time: None,
            range: None,
            session: None,
            device: None,
            chain: None,
            user_agent: Some(String::new()),
            bit_rate: None,
            failure: Some("client-gone"),
            start_unix_ms: u64::MAX,
            ..sample()
        };
        let line = text(&record);
        assert!(line.contains("\"-\" \"-\" start="), "{line}");
        assert!(line.contains("first_byte=- range=\"-\""), "{line}");
        assert!(
            line.ends_with(
                "session=\"-\" session_from=- device=\"-\" br=- failure=client-gone chain=- proxy=- \
                 id=000000000000002a\n"
            ),
            "{line}"
        );
    }

    #[test]
    fn configured_fields_are_named_as_in_nginx() {
        let mut record = sample();
        record.headers = vec![crate::LoggedHeader {
            name: "x-forwarded-host".into(),
            value: "a\"b".into(),
        }];
        let line = text(&record);
        assert!(
            line.ends_with(" http_x_forwarded_host=\"a\\x22b\"\n"),
            "{line}"
        );
    }

    proptest! {
        #[test]
        fn header_cannot_end_field_or_line(agent: String, target: String, id: String) {
            let mut record = sample();
            record.user_agent = Some(agent);
            record.target = target;
            record.session = record.session.map(|key| crate::SessionKey { id, ..key });
            let line = text(&record);
            prop_assert_eq!(line.matches('\n').count(), 1);
            // request, referer, agent, range, session, device: two quotes each.
            prop_assert_eq!(line.matches('"').count(), 12);
            prop_assert!(line.trim_end().bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        }
    }
}
