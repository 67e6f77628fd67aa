//! One line for each reply that took the server long: what it was, and how long each stage took.
//!
//! It has the forms of the access log, and the same names for the same things. Only its start has
//! another, so that no reader of the access log takes it for one more request.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::combined::{escape, put, quote};
use super::format::LogFormat;
use super::json::{is_zero, write_line};
use super::record::{RequestRecord, version_name};
use super::stages::Stages;

#[derive(Serialize)]
struct Line<'a> {
    request_id: String,
    slow_start_unix_ms: u64,
    total_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_byte_seconds: Option<f64>,
    stage_seconds: InSeconds<'a>,
    remote: String,
    method: &'a str,
    target: &'a str,
    version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<&'a str>,
    status: u16,
    bytes_sent: u64,
    bytes_from_ram: u64,
    #[serde(skip_serializing_if = "is_zero")]
    bytes_from_flash: u64,
    bytes_from_disk: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<&'a str>,
}

/// An object with one number for each stage.
struct InSeconds<'a>(&'a Stages);

impl Serialize for InSeconds<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let all = self.0.all();
        let mut map = serializer.serialize_map(Some(all.len()))?;
        for (name, time) in all {
            map.serialize_entry(name, &time.as_secs_f64())?;
        }
        map.end()
    }
}

/// Appends one line.
pub(super) fn write(
    format: LogFormat,
    record: &RequestRecord,
    stages: &Stages,
    line: &mut Vec<u8>,
) {
    match format {
        LogFormat::Json => write_json(record, stages, line),
        LogFormat::Combined => write_text(record, stages, line),
    }
}

fn write_json(record: &RequestRecord, stages: &Stages, line: &mut Vec<u8>) {
    let session = record.session.as_ref();
    let object = Line {
        request_id: record.id.to_string(),
        slow_start_unix_ms: record.start_unix_ms,
        total_seconds: stages.total().as_secs_f64(),
        first_byte_seconds: record.first_byte_time.map(|time| time.as_secs_f64()),
        stage_seconds: InSeconds(stages),
        remote: record.remote.to_string(),
        method: &record.method,
        target: &record.target,
        version: version_name(record.version),
        range: record.range.as_deref(),
        status: record.status,
        bytes_sent: record.bytes_sent,
        bytes_from_ram: record.bytes_from_ram,
        bytes_from_flash: record.bytes_from_flash,
        bytes_from_disk: record.bytes_from_disk,
        session: session.map(|key| key.id.as_str()),
        device: record.device.as_deref(),
        cache: record.cache,
        failure: record.failure,
    };
    write_line(&object, line);
}

fn write_text(record: &RequestRecord, stages: &Stages, line: &mut Vec<u8>) {
    let start = record.start_unix_ms;
    let (seconds, ms) = (start / 1000, start % 1000);
    let (id, total) = (&record.id, stages.total().as_secs_f64());
    put(
        line,
        format_args!("slow id={id} start={seconds}.{ms:03} total={total:.6} first_byte="),
    );
    match record.first_byte_time {
        Some(time) => put(line, format_args!("{:.6}", time.as_secs_f64())),
        None => line.push(b'-'),
    }
    for (name, time) in stages.all() {
        put(line, format_args!(" {name}={:.6}", time.as_secs_f64()));
    }
    put(line, format_args!(" remote={} request=\"", record.remote));
    escape(line, record.method.as_bytes());
    line.push(b' ');
    escape(line, record.target.as_bytes());
    put(line, format_args!(" {}\"", version_name(record.version)));
    line.extend_from_slice(b" range=");
    quote(line, record.range.as_deref());
    let (ram, flash, disk) = (
        record.bytes_from_ram,
        record.bytes_from_flash,
        record.bytes_from_disk,
    );
    let (status, sent) = (record.status, record.bytes_sent);
    put(
        line,
        format_args!(
            " status={status} bytes={sent} ram_bytes={ram} flash_bytes={flash} \
             disk_bytes={disk} session="
        ),
    );
    quote(line, record.session.as_ref().map(|key| key.id.as_str()));
    line.extend_from_slice(b" device=");
    quote(line, record.device.as_deref());
    let (cache, failure) = (record.cache.unwrap_or("-"), record.failure.unwrap_or("-"));
    put(line, format_args!(" cache={cache} failure={failure}\n"));
}

#[cfg(test)]
mod tests {
    use headlong_units::Duration;

    use super::*;
    use crate::log::record::sample;

    fn stages() -> Stages {
        Stages {
            head: Duration::from_millis(1),
            queue: Duration::from_millis(500),
            disk: Duration::from_micros(40_250),
            client: Duration::from_millis(700),
            ..Stages::default()
        }
    }

    fn text(format: LogFormat) -> String {
        let mut line = Vec::new();
        write(format, &sample(), &stages(), &mut line);
        String::from_utf8(line).expect("text")
    }

    #[test]
    fn a_slow_reply_is_one_object_with_its_stages() {
        let expected = concat!(
            r#"{"request_id":"000000000000002a","slow_start_unix_ms":784111777123,"#,
            r#""total_seconds":1.24125,"first_byte_seconds":0.0125,"stage_seconds":{"#,
            r#""head":0.001,"access":0.0,"lookup":0.0,"origin":0.0,"queue":0.5,"ram":0.0,"#,
            r#""flash":0.0,"disk":0.04025,"pace":0.0,"send":0.0,"client":0.7,"other":0.0},"#,
            r#""remote":"192.0.2.7:40000","method":"GET","target":"/films/a.mp4?token=1","#,
            r#""version":"HTTP/1.1","range":"bytes=0-999","status":206,"bytes_sent":1000,"#,
            r#""bytes_from_ram":600,"bytes_from_disk":400,"session":"6e2fb550-c457","#,
            r#""device":"sda"}"#,
            "\n",
        );
        assert_eq!(text(LogFormat::Json), expected);
    }

    #[test]
    fn beside_combined_it_is_one_line_of_keys() {
        let expected = "slow id=000000000000002a start=784111777.123 total=1.241250 \
            first_byte=0.012500 head=0.001000 access=0.000000 lookup=0.000000 origin=0.000000 \
            queue=0.500000 ram=0.000000 flash=0.000000 disk=0.040250 pace=0.000000 \
            send=0.000000 client=0.700000 other=0.000000 remote=192.0.2.7:40000 \
            request=\"GET /films/a.mp4?token=1 HTTP/1.1\" range=\"bytes=0-999\" status=206 \
            bytes=1000 ram_bytes=600 flash_bytes=0 disk_bytes=400 session=\"6e2fb550-c457\" \
            device=\"sda\" cache=- failure=-\n";
        assert_eq!(text(LogFormat::Combined), expected);
    }
}
