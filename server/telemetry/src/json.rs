//! JSON lines: one object for each request; names contain the units. Unknown values are omitted.

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::record::{LoggedHeader, RequestRecord, version_name};

struct JsonLine<'a>(&'a RequestRecord);

impl Serialize for JsonLine<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let record = self.0;
        let session = record.session.as_ref();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("request_id", &record.id.to_string())?;
        map.serialize_entry("start_unix_ms", &record.start_unix_ms)?;
        map.serialize_entry("service_seconds", &record.service_time.as_secs_f64())?;
        first_byte(&mut map, record)?;
        map.serialize_entry("remote", &record.remote.to_string())?;
        maybe(&mut map, "proxy", record.proxy.map(|of| of.to_string()))?;
        request_and_reply(&mut map, record)?;
        maybe(&mut map, "session", session.map(|key| &key.id))?;
        maybe(
            &mut map,
            "session_from",
            session.map(|key| key.source.name()),
        )?;
        maybe(&mut map, "device", record.device.as_deref())?;
        maybe(&mut map, "chain", record.chain)?;
        maybe(&mut map, "cache", record.cache)?;
        maybe(&mut map, "user_agent", record.user_agent.as_ref())?;
        maybe(&mut map, "referer", record.referer.as_ref())?;
        map.serialize_entry("queue_seconds", &record.queue_time.as_secs_f64())?;
        map.serialize_entry("disk_seconds", &record.disk_time.as_secs_f64())?;
        maybe(&mut map, "bit_rate_bps", record.bit_rate.map(|rate| rate.0))?;
        maybe(&mut map, "failure", record.failure)?;
        maybe(&mut map, "traceparent", record.id.traceparent())?;
        let headers = Some(Headers(&record.headers)).filter(|headers| !headers.0.is_empty());
        maybe(&mut map, "headers", headers)?;
        map.end()
    }
}

/// Logged request fields, as one object.
struct Headers<'a>(&'a [LoggedHeader]);

impl Serialize for Headers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let headers = self.0.iter();
        serializer.collect_map(headers.map(|header| (&*header.name, &header.value)))
    }
}

/// Writes a field if its value is known.
pub(super) fn maybe<M: SerializeMap>(
    map: &mut M,
    name: &'static str,
    value: Option<impl Serialize>,
) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| map.serialize_entry(name, &value))
}

/// Writes the time to the first byte of the reply, if there was one.
pub(super) fn first_byte<M: SerializeMap>(
    map: &mut M,
    record: &RequestRecord,
) -> Result<(), M::Error> {
    let time = record.first_byte_time.map(|time| time.as_secs_f64());
    maybe(map, "first_byte_seconds", time)
}

/// Writes the fields of the request and of the reply.
pub(super) fn request_and_reply<M: SerializeMap>(
    map: &mut M,
    record: &RequestRecord,
) -> Result<(), M::Error> {
    map.serialize_entry("method", &record.method)?;
    map.serialize_entry("target", &record.target)?;
    map.serialize_entry("version", version_name(record.version))?;
    maybe(map, "range", record.range.as_ref())?;
    map.serialize_entry("status", &record.status)?;
    map.serialize_entry("bytes_sent", &record.bytes_sent)?;
    map.serialize_entry("bytes_from_ram", &record.bytes_from_ram)?;
    let from_flash = Some(record.bytes_from_flash).filter(|bytes| *bytes > 0);
    maybe(map, "bytes_from_flash", from_flash)?;
    map.serialize_entry("bytes_from_disk", &record.bytes_from_disk)
}

/// Appends a record as one line.
pub(super) fn write(record: &RequestRecord, line: &mut Vec<u8>) {
    write_line(&JsonLine(record), line);
}

/// Appends any flat value as one line.
pub(super) fn write_line(value: &impl Serialize, line: &mut Vec<u8>) {
    let start = line.len();
    // Numbers and texts cannot fail to serialize. If one did, a partial line would be worse than
    // none.
    if serde_json::to_writer(&mut *line, value).is_err() {
        line.truncate(start);
        return;
    }
    line.push(b'\n');
}

#[cfg(test)]
mod tests {
    use headlong_http::Peer;
    use proptest::prelude::*;

    use super::*;
    use crate::record::sample;

    fn at(address: &str) -> Peer {
        Peer::At(address.parse().expect("an address"))
    }

    fn text(record: &RequestRecord) -> String {
        let mut line = Vec::new();
        write(record, &mut line);
        String::from_utf8(line).expect("text")
    }

    #[test]
    fn record_becomes_one_object() {
        let mut line = Vec::new();
        write(&sample(), &mut line);
        let expected = concat!(
            r#"{"request_id":"000000000000002a","start_unix_ms":784111777123,"#,
            r#""service_seconds":1.234,"first_byte_seconds":0.0125,"#,
            r#""remote":"192.0.2.7:40000","method":"GET","target":"/films/a.mp4?token=1","#,
            r#""version":"HTTP/1.1","range":"bytes=0-999","status":206,"bytes_sent":1000,"#,
            r#""bytes_from_ram":600,"bytes_from_disk":400,"session":"6e2fb550-c457","#,
            r#""session_from":"cmcd","device":"sda","chain":17,"user_agent":"Player/1.0 (a \"b\")","#,
            r#""queue_seconds":0.003,"disk_seconds":0.0081,"bit_rate_bps":2000000}"#,
            "\n",
        );
        assert_eq!(String::from_utf8(line).expect("text"), expected);
    }

    #[test]
    fn trace_and_configured_fields_are_written() {
        let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let record = RequestRecord {
            id: sample().id.with_trace(Some(traceparent.as_bytes())),
            headers: vec![LoggedHeader {
                name: "host".into(),
                value: "a\"b".into(),
            }],
            ..sample()
        };
        let end = format!(r#","traceparent":"{traceparent}","headers":{{"host":"a\"b"}}}}"#);
        let line = text(&record);
        assert!(line.trim_end().ends_with(&end), "{line}");
    }

    #[test]
    fn client_behind_proxy_is_remote() {
        let record = RequestRecord {
            remote: at("192.0.2.7:0"),
            proxy: Some(at("10.0.0.1:9")),
            ..sample()
        };
        let expected = r#""remote":"192.0.2.7","proxy":"10.0.0.1:9","method":"GET""#;
        assert!(text(&record).contains(expected));
        let of_local = RequestRecord {
            proxy: Some(Peer::Local),
            ..record
        };
        let expected = r#""remote":"192.0.2.7","proxy":"unix:","method":"GET""#;
        assert!(text(&of_local).contains(expected));
    }

    #[test]
    fn mapped_ipv4_address_is_written_as_ipv4() {
        let record = RequestRecord {
            remote: at("[::ffff:192.0.2.7]:40000"),
            proxy: Some(at("[::ffff:10.0.0.1]:9")),
            ..sample()
        };
        let line = text(&record);
        let expected = r#""remote":"192.0.2.7:40000","proxy":"10.0.0.1:9","method":"GET""#;
        assert!(line.contains(expected), "{line}");
    }

    proptest! {
        #[test]
        fn any_header_is_kept_on_one_line(agent: String) {
            let record = RequestRecord { user_agent: Some(agent.clone()), ..sample() };
            let mut line = Vec::new();
            write(&record, &mut line);
            prop_assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
            let parsed: serde_json::Value = serde_json::from_slice(&line).expect("JSON");
            prop_assert_eq!(parsed["user_agent"].as_str(), Some(agent.as_str()));
        }
    }
}
