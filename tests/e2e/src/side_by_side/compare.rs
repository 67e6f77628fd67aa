//! How two replies to one request differ, in what a client can notice.

use std::collections::BTreeSet;
use std::fmt;
use std::io::Read as _;

use headlong_testkit::client::Response;

use super::Outcome;

/// One aspect in which the replies differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Status of both replies; 0 if they differ in it.
    pub status: u16,
    /// `status`, `body`, `parts`, or the name of a field.
    pub aspect: &'static str,
    /// nginx's.
    pub nginx: String,
    /// The server's.
    pub headlong: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            aspect,
            nginx,
            headlong,
            ..
        } = self;
        write!(f, "{aspect}: nginx {nginx:?}, headlong {headlong:?}")
    }
}

/// Fields compared in each reply.
const ALWAYS: [&str; 8] = [
    "content-range",
    "location",
    "www-authenticate",
    "retry-after",
    "access-control-allow-origin",
    "access-control-allow-credentials",
    "strict-transport-security",
    "connection",
];
/// Fields compared in replies with a file, or about one (200, 206, 304).
const OF_FILES: [&str; 13] = [
    "accept-ranges",
    "cache-control",
    "content-encoding",
    "content-length",
    "content-security-policy",
    "content-type",
    "etag",
    "expires",
    "last-modified",
    "vary",
    "x-cache",
    "x-content-type-options",
    "x-edge",
];

/// The differences of two replies.
pub fn differences(nginx: &Outcome, headlong: &Outcome) -> Vec<Difference> {
    let mut all = Vec::new();
    let common = match (nginx, headlong) {
        (Ok(one), Ok(other)) if one.status() == other.status() => one.status(),
        _ => 0,
    };
    let mut add = |aspect, nginx: String, headlong: String| {
        if nginx != headlong {
            all.push(Difference {
                status: common,
                aspect,
                nginx,
                headlong,
            });
        }
    };
    let status = |outcome: &Outcome| match outcome {
        Ok(response) => response.status().to_string(),
        Err(_) => "closed".to_owned(),
    };
    add("status", status(nginx), status(headlong));
    let (Ok(nginx), Ok(headlong)) = (nginx, headlong) else {
        return all;
    };
    if common == 0 {
        return all;
    }
    let is_of_file = matches!(common, 200 | 206 | 304);
    let of_files = if is_of_file { &OF_FILES[..] } else { &[] };
    for name in ALWAYS.into_iter().chain(of_files.iter().copied()) {
        add(name, field(nginx, name), field(headlong, name));
    }
    if !matches!(common, 200 | 206) {
        return all;
    }
    match (parts(nginx), parts(headlong)) {
        (None, None) => add("body", sum(&plain(nginx)), sum(&plain(headlong))),
        (nginx, headlong) => {
            let shown = |parts| format!("{parts:?}");
            add("parts", shown(nginx), shown(headlong));
        }
    }
    all
}

/// A field in the form in which it is compared; empty without it.
fn field(response: &Response, name: &str) -> String {
    let fields = response.head.fields.iter();
    let values: Vec<&str> = fields
        .filter(|(key, _)| key == name)
        .map(|(_, value)| value.as_str())
        .collect();
    let value = values.join(", ");
    match name {
        // Servers have their own, and these change with the bytes.
        "etag" if value.is_empty() => value,
        "etag" if value.starts_with("W/") => "weak".to_owned(),
        "etag" => "strong".to_owned(),
        // Boundaries and compressors differ.
        "content-type" if value.starts_with("multipart/byteranges") => "multipart".to_owned(),
        "content-length" if response.field("content-encoding") == Some("gzip") => String::new(),
        "content-length" if parts(response).is_some() => String::new(),
        // Relative to the time of the reply; `cache-control` has the same period.
        "expires" if !value.is_empty() => "a date".to_owned(),
        // The usual case has several forms.
        "connection" if value.eq_ignore_ascii_case("keep-alive") => String::new(),
        "vary" | "cache-control" => {
            let lower = value.to_ascii_lowercase();
            let items: BTreeSet<&str> = lower.split(',').map(str::trim).collect();
            items.into_iter().collect::<Vec<_>>().join(", ")
        }
        _ => value,
    }
}

/// The parts of a reply with several ranges.
fn parts(response: &Response) -> Option<Vec<String>> {
    let parts = response.byte_range_parts().ok()?;
    let parts = parts.into_iter().map(|part| {
        let media_type = part.content_type.unwrap_or_default();
        let (first, size, body) = (part.first, part.size, sum(&part.body));
        format!("{first}-/{size} {media_type} {body}")
    });
    Some(parts.collect())
}

/// The body without its coding.
fn plain(response: &Response) -> Vec<u8> {
    if response.field("content-encoding") != Some("gzip") || response.body.is_empty() {
        return response.body.clone();
    }
    let mut plain = Vec::new();
    match flate2::read::GzDecoder::new(&response.body[..]).read_to_end(&mut plain) {
        Ok(_) => plain,
        Err(error) => format!("not gzip: {error}").into_bytes(),
    }
}

/// Length and content of a body, short enough for a message.
fn sum(bytes: &[u8]) -> String {
    let fnv = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, fnv);
    let begin = String::from_utf8_lossy(&bytes[..bytes.len().min(24)]).into_owned();
    format!("{} bytes {hash:x} {:?}", bytes.len(), begin.trim_end())
}
