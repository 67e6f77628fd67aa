//! Input: a request. `METHOD size now modified` on the first line, then fields as `name: value`.

use headlong_http::{
    Boundary, Method, RangeLimits, Representation, RequestHead, Status, Validators, plan,
};

use crate::input::{moment, number, split_line};

/// The reply is as long as its `content-length`, within the file, and has printable fields.
pub fn run(data: &[u8]) {
    let (scene, rest) = split_line(data);
    let mut words = scene.split(|byte| *byte == b' ');
    let mut word = || words.next().unwrap_or_default();
    let method = match word() {
        b"HEAD" => Method::Head,
        b"POST" => Method::Other,
        _ => Method::Get,
    };
    // File sizes are signed 64-bit numbers.
    let size = number(word()) >> 1;
    let (now, modified) = (moment(word()), moment(word()));

    let mut fields = Vec::new();
    let mut rest = rest;
    while !rest.is_empty() {
        let (line, after) = split_line(rest);
        rest = after;
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = line.split_at(colon.unwrap_or(line.len()));
        if let (Ok(name), Some(value)) = (str::from_utf8(name), value.get(1..)) {
            fields.push((name, value.trim_ascii()));
        }
    }
    let boundary = Boundary { seed: size };
    let request = RequestHead::read(method, now, boundary, fields.iter().copied());
    let file = Representation {
        size,
        validators: Validators {
            entity_tag: "\"v1\"",
            modified: Some(modified),
        },
        media_type: "video/mp4",
        cache_control: Some("max-age=60"),
    };
    let reply = plan(&request, &file, &RangeLimits { ranges_max: 8 });

    let length = reply.field("content-length").map(|l| l.parse::<u64>().ok());
    match (method, reply.status) {
        (_, Status::NotModified) => assert_eq!((length, reply.body.length()), (None, 0)),
        (Method::Head, _) => assert!(length.is_some() && reply.body.length() == 0),
        _ => assert_eq!(length, Some(Some(reply.body.length()))),
    }
    assert!(reply.file_bytes() <= size);
    for part in &reply.body.parts {
        assert!(part.range.start < part.range.end && part.range.end <= size);
    }
    for (_, value) in &reply.fields {
        assert!(value.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
    }
}
