//! One JSON object a line; the names say the units. What is not known is left out.

use serde::Serialize;

use super::record::{RequestRecord, version_name};

#[derive(Serialize)]
struct Line<'a> {
    request_id: String,
    start_unix_ms: u64,
    service_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_byte_seconds: Option<f64>,
    remote: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    proxy: Option<String>,
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
    session_from: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chain: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_agent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    referer: Option<&'a str>,
    queue_seconds: f64,
    disk_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    bit_rate_bps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<&'a str>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it so")]
pub(super) fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

/// Appends one line.
pub(super) fn write(record: &RequestRecord, line: &mut Vec<u8>) {
    let session = record.session.as_ref();
    let object = Line {
        request_id: record.id.to_string(),
        start_unix_ms: record.start_unix_ms,
        service_seconds: record.service_time.as_secs_f64(),
        first_byte_seconds: record.first_byte_time.map(|time| time.as_secs_f64()),
        remote: record.remote.to_string(),
        proxy: record.proxy.map(|proxy| proxy.to_string()),
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
        session_from: session.map(|key| key.source.name()),
        device: record.device.as_deref(),
        chain: record.chain,
        cache: record.cache,
        user_agent: record.user_agent.as_deref(),
        referer: record.referer.as_deref(),
        queue_seconds: record.queue_time.as_secs_f64(),
        disk_seconds: record.disk_time.as_secs_f64(),
        bit_rate_bps: record.bit_rate.map(|rate| rate.0),
        failure: record.failure,
    };
    write_line(&object, line);
}

/// Appends any flat value as one line.
pub(super) fn write_line(value: &impl Serialize, line: &mut Vec<u8>) {
    let start = line.len();
    // Numbers and text into memory: there is nothing in them that serialization could refuse.
    // If it ever did, half a line would be worse than none.
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
    use crate::log::record::sample;

    fn at(address: &str) -> Peer {
        Peer::At(address.parse().expect("an address"))
    }

    fn text(record: &RequestRecord) -> String {
        let mut line = Vec::new();
        write(record, &mut line);
        String::from_utf8(line).expect("text")
    }

    #[test]
    fn a_request_becomes_one_object() {
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
    fn a_client_behind_a_proxy_is_named_before_it() {
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
    fn an_ipv4_client_of_a_socket_for_both_versions_has_its_ipv4_address() {
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
        fn any_header_survives_as_one_line(agent: String) {
            let record = RequestRecord { user_agent: Some(agent.clone()), ..sample() };
            let mut line = Vec::new();
            write(&record, &mut line);
            prop_assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
            let parsed: serde_json::Value = serde_json::from_slice(&line).expect("JSON");
            prop_assert_eq!(parsed["user_agent"].as_str(), Some(agent.as_str()));
        }
    }
}
