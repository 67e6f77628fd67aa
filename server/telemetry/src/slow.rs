//! Slow log: one line for each reply that took the server long, with the time of each stage.
//!
//! It has the formats and names of the access log, except for its first field, so that parsers of
//! the access log do not count it as another request.

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::combined::{escape, put, quote};
use super::format::LogFormat;
use super::json::{first_byte, maybe, request_and_reply, write_line};
use super::record::{RequestRecord, version_name};
use super::stages::Stages;

/// A line as a JSON object.
struct SlowLine<'a>(&'a RequestRecord, &'a Stages);

impl Serialize for SlowLine<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(record, stages) = self;
        let session = record.session.as_ref();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("request_id", &record.id.to_string())?;
        map.serialize_entry("slow_start_unix_ms", &record.start_unix_ms)?;
        map.serialize_entry("total_seconds", &stages.total().as_secs_f64())?;
        first_byte(&mut map, record)?;
        map.serialize_entry("stage_seconds", &StageSeconds(stages))?;
        map.serialize_entry("remote", &record.remote.to_string())?;
        request_and_reply(&mut map, record)?;
        maybe(&mut map, "session", session.map(|key| &key.id))?;
        maybe(&mut map, "device", record.device.as_deref())?;
        maybe(&mut map, "cache", record.cache)?;
        maybe(&mut map, "failure", record.failure)?;
        map.end()
    }
}

/// The stages in seconds, as a JSON object.
struct StageSeconds<'a>(&'a Stages);

impl Serialize for StageSeconds<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let all = self.0.all().into_iter();
        serializer.collect_map(all.map(|(name, time)| (name, time.as_secs_f64())))
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
        LogFormat::Json => write_line(&SlowLine(record, stages), line),
        LogFormat::Combined => write_text(record, stages, line),
    }
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
    use crate::record::sample;

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
    fn json_line_has_stages() {
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
    fn combined_format_writes_one_line_of_keys() {
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
