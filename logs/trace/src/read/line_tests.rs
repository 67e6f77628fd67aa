//! One line in each format, and the request that it means.

use super::DropReason;
use super::entry::LogEntry;
use super::recognise::recognise;
use super::row::LineFields;
use super::viewer::ClientIdentity;

const COMBINED: &str = "93.180.71.3 - - [17/May/2015:08:05:32 +0000] \"GET /downloads/product_1 \
                        HTTP/1.1\" 200 490 \"-\" \"Debian APT-HTTP/1.3\"";

const CLOUDFRONT: &str = "#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) \
    cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) \
    x-edge-result-type x-edge-request-id x-host-header cs-protocol cs-bytes time-taken \
    x-forwarded-for ssl-protocol ssl-cipher x-edge-response-result-type cs-protocol-version \
    fle-status fle-encrypted-fields c-port time-to-first-byte x-edge-detailed-result-type \
    sc-content-type sc-content-len sc-range-start sc-range-end\n\
    2019-12-04\t21:02:31\tLAX1\t1048968\t192.0.2.100\tGET\td111.cloudfront.net\t\
    /movie.mp4\t206\t-\tMozilla/5.0%20(Windows)\tCMCD=sid%3D%22abc%22\t-\tHit\tSOX4==\t\
    d111.cloudfront.net\thttps\t23\t1.250\t-\tTLSv1.2\tECDHE\tHit\tHTTP/2.0\t-\t-\t11040\t\
    0.001\tHit\tvideo/mp4\t1048576\t2097152\t3145727";

const CADDY: &str = concat!(
    r#"{"level":"info","ts":1646861401.5241024,"logger":"http.log.access","msg":"handled","#,
    r#""request":{"remote_ip":"127.0.0.1","remote_port":"41342","proto":"HTTP/2.0","#,
    r#""method":"GET","host":"localhost","uri":"/a\/b.mp4","headers":{"#,
    r#""User-Agent":["curl/7.82.0"],"Range":["bytes=100-"],"Accept":["*/*"]}},"#,
    r#""bytes_read":0,"duration":0.25,"size":10900,"status":206,"#,
    r#""resp_headers":{"Server":["Caddy"]}}"#,
);

const OWN_JSON: &str = concat!(
    r#"{"start_unix_ms":784111777123,"service_seconds":1.234,"first_byte_seconds":0.0125,"#,
    r#""remote":"192.0.2.7:40000","method":"GET","target":"/films/a.mp4?token=1","#,
    r#""version":"HTTP/1.1","range":"bytes=0-999","status":206,"bytes_sent":1000,"#,
    r#""bytes_from_ram":600,"bytes_from_disk":400,"session":"6e2fb550-c457","#,
    r#""session_from":"cmcd","device":"sda","user_agent":"Player/1.0 (a \"b\")","#,
    r#""queue_seconds":0.003,"disk_seconds":0.0081,"bit_rate_bps":2000000}"#,
);

/// Format, session field, line (after its header), and the request: times, viewer, file, range,
/// bytes sent; then drive, bit rate and agent where the line has them.
const LINES: &[(&str, Option<&str>, &str, &str)] = &[
    (
        "csv",
        None,
        "ts,service_ms,session,device,file,offset,size,bytes,disk\n\
         1388534400,1500,17,3,204,1048576,2097152,2000000,12",
        "1388534398500..1388534400000 17 204 1048576+2097152 2000000 12",
    ),
    (
        "csv",
        None,
        "ts,service_ms,session,device,file,offset,size,bytes,disk\n10,20000,17,3,204,0,,1500,12",
        "-10000..10000 17 204 0+ 1500 12",
    ),
    (
        "w3c",
        None,
        CLOUDFRONT,
        "1575493349750..1575493351000 abc /movie.mp4 2097152+1048576 1048576 Mozilla/5.0%20(Windows)",
    ),
    (
        "w3c",
        None,
        // IIS logs durations in ms.
        "#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query c-ip cs(User-Agent) sc-status \
         sc-win32-status sc-bytes time-taken\n\
         2020-01-01 00:00:10 10.0.0.1 GET /a.mp4 - 192.0.2.1 VLC/3.0 200 0 5000 1500",
        "1577836808500..1577836810000 192.0.2.1~ /a.mp4 0+ 5000 VLC/3.0",
    ),
    (
        "combined",
        None,
        COMBINED,
        "1431849932000..1431849932000 93.180.71.3~ /downloads/product_1 0+ 490 Debian APT-HTTP/1.3",
    ),
    (
        "combined",
        None,
        // Our own log.
        "192.0.2.7 - - [06/Nov/1994:08:49:38 +0000] \"GET /films/a.mp4?token=1 HTTP/1.1\" 206 1000 \
         \"-\" \"Player/1.0 (a \\x22b\\x22)\" start=784111777.123 service=1.234 first_byte=0.012 \
         range=\"bytes=0-999\" ram=600 disk=400 queue=0.003 disk_time=0.008 \
         session=\"6e2fb550-c457\" session_from=cmcd device=\"sda\" br=2000 failure=-",
        "784111777123..784111778357 6e2fb550-c457 /films/a.mp4 0+1000 1000 sda 2000 kbps Player/1.0 \
         (a \\x22b\\x22)",
    ),
    (
        "combined",
        None,
        // Fields that identify themselves.
        "93.180.71.3 - - [17/May/2015:08:05:32 +0000] \"GET /a HTTP/1.1\" 206 490 \"-\" \"x\" 0.123 \
         MISS \"bytes=5-9\" rt=0.500 \"a b\"",
        "1431849931500..1431849932000 93.180.71.3~ /a 5+5 490 x",
    ),
    (
        "combined",
        None,
        // Traefik's date is that of arrival.
        "93.180.71.3 - - [17/May/2015:08:05:32 +0000] \"GET /a HTTP/1.1\" 200 490 \"-\" \"x\" 1 \
         \"files@docker\" \"http://172.18.0.3:80\" 1250ms",
        "1431849932000..1431849933250 93.180.71.3~ /a 0+ 490 x",
    ),
    (
        "nginx:$remote_addr|${msec}|$request_method $request_uri|$status|$bytes_sent|$request_time|\
         $http_range|$cookie_uid;",
        Some("cookie_uid"),
        "::1|1700000000.250|GET /a b.mp4|206|1500|0.250|bytes=1000-1999|u1;",
        "1700000000000..1700000000250 u1 /a b.mp4 1000+1000 1000",
    ),
    (
        "apache:combined",
        None,
        COMBINED,
        "1431849932000..1431849932000 93.180.71.3~ /downloads/product_1 0+ 490 Debian APT-HTTP/1.3",
    ),
    (
        "apache:%a %{end:msec}t %D \\\"%r\\\" %>s %O \"%{Range}i\" \"%{User-Agent}i\" %{sid}C",
        None,
        "192.0.2.1 1700000000250 250000 \"GET /a.mp4 HTTP/1.1\" 206 700 \"bytes=0-99\" \
         \"say \\\"hi\\\"\" s1",
        "1700000000000..1700000000250 s1 /a.mp4 0+100 100 say \\\"hi\\\"",
    ),
    (
        "headlong",
        None,
        OWN_JSON,
        "784111777123..784111778357 6e2fb550-c457 /films/a.mp4 0+1000 1000 sda 2000 kbps Player/1.0 \
         (a \\\"b\\\")",
    ),
    (
        "caddy",
        None,
        CADDY,
        "1646861401274..1646861401524 127.0.0.1~ /a/b.mp4 100+ 10900 curl/7.82.0",
    ),
    (
        "json",
        None,
        // nginx's variables.
        concat!(
            r#"{"time_iso8601":"2024-05-01T10:00:00+00:00","remote_addr":"192.0.2.1","#,
            r#""request_uri":"/a.mp4","status":"206","bytes_sent":"1300","http_range":"#,
            r#""bytes=0-999","request_time":"0.010","http_user_agent":"x","nothing":null,"#,
            r#""a":[1,{"b":[]}]}"#,
        ),
        "1714557599990..1714557600000 192.0.2.1~ /a.mp4 0+1000 1000 x",
    ),
    (
        "json",
        None,
        // Akamai.
        concat!(
            r#"{"version":2,"reqTimeSec":"1700000172.405","bytes":"524288","cliIP":"192.0.2.1","#,
            r#""statusCode":"206","reqMethod":"GET","reqPath":"films/a.mp4","queryStr":"sid=7","#,
            r#""range":"100-524387","UA":"x","transferTimeMSec":"185","totalBytes":"524688"}"#,
        ),
        "1700000172405..1700000172590 192.0.2.1~ films/a.mp4 100+524288 524288 x",
    ),
    (
        "json",
        None,
        // Cloudflare.
        concat!(
            r#"{"ClientIP":"192.0.2.1","ClientRequestMethod":"GET","ClientRequestURI":"#,
            r#""/films/a.mp4","EdgeStartTimestamp":"2023-11-14T22:16:12.405Z","#,
            r#""EdgeResponseStatus":206,"EdgeEndTimestamp":"2023-11-14T22:16:12.590Z","#,
            r#""EdgeResponseBytes":524688,"ClientRequestUserAgent":"x","#,
            r#""RequestHeaders":{"range":"bytes=100-524387"}}"#,
        ),
        "1700000172405..1700000172590 192.0.2.1~ /films/a.mp4 100+524288 524288 x",
    ),
    (
        "json",
        None,
        // Fastly.
        concat!(
            r#"{"timestamp":"2023-11-14T22:16:12Z","client_ip":"192.0.2.1","url":"/a.mp4","#,
            r#""request_method":"GET","request_user_agent":"x","response_status":200,"#,
            r#""response_body_size":1000}"#,
        ),
        "1700000172000..1700000172000 192.0.2.1~ /a.mp4 0+ 1000 x",
    ),
];

fn shown(entry: &LogEntry<'_>) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let number = |number: Option<u64>| number.map_or(String::new(), |number| number.to_string());
    let who = match &entry.who {
        ClientIdentity::Session(name) => text(name),
        ClientIdentity::Address(address) => format!("{}~", text(address)),
    };
    let times = format!("{}..{}", entry.received_ms, entry.completed_ms);
    let range = format!("{}+{}", number(entry.offset), number(entry.asked_bytes));
    let rate = entry
        .kbps
        .map_or(String::new(), |kbps| format!("{kbps} kbps"));
    let sent = entry.sent_bytes.to_string();
    let all = [
        times,
        who,
        text(&entry.file),
        range,
        sent,
        text(entry.disk),
        rate,
        text(entry.agent),
    ];
    let there = all.iter().filter(|word| !word.is_empty());
    there.map(String::as_str).collect::<Vec<_>>().join(" ")
}

fn read(format: &str, session_field: Option<&str>, log: &str) -> Result<String, DropReason> {
    let format = format.parse().expect("a format");
    let found = recognise(log.as_bytes(), Some(&format), session_field).expect("its format");
    let line = log.lines().last().unwrap_or_default();
    let mut row = LineFields::new();
    let entry = found.reader.read(line.as_bytes(), &mut row)?;
    Ok(shown(&entry))
}

#[test]
fn line_of_each_format_means_its_request() {
    for (format, session_field, log, expected) in LINES {
        let found = read(format, *session_field, log);
        assert_eq!(found.as_deref(), Ok(*expected), "{format}: {log}");
    }
    let summary =
        r#"{"session":"a","start_unix_ms":1,"end_unix_ms":2,"ended":"idle","requests":3}"#;
    let log = format!("{OWN_JSON}\n{summary}");
    assert_eq!(read("headlong", None, &log), Err(DropReason::NotARequest));
}
