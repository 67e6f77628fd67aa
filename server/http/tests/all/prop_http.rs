//! Properties that hold for any input.

use std::borrow::Cow;

use headlong_http::{
    BodyPart, Boundary, ByteRangeSet, Cmcd, HttpDate, Method, PlannedBody, RangeLimits,
    RangeSelection, RelativePath, Representation, RequestHead, SessionRule, Status, Validators,
    media_type, plan, query_value, query_without,
};
use headlong_units::{ByteRange, path_bytes};
use proptest::prelude::*;

fn date() -> impl Strategy<Value = HttpDate> {
    (-62_167_219_200_i64..253_402_300_800)
        .prop_map(|seconds| HttpDate::from_unix_seconds(seconds).expect("within bounds"))
}

/// Ranges that are mostly well formed, with numbers around and far beyond a small file.
fn range_value() -> impl Strategy<Value = String> {
    let number = prop_oneof!["[0-9]{1,3}", "[0-9]{18,22}"];
    let spec = prop_oneof![
        6 => (number.clone(), number.clone()).prop_map(|(a, b)| format!("{a}-{b}")),
        2 => number.clone().prop_map(|a| format!("{a}-")),
        2 => number.prop_map(|a| format!("-{a}")),
        1 => "[-0-9 ,x]{0,5}",
    ];
    prop_oneof![
        8 => prop::collection::vec(spec, 0..20).prop_map(|s| format!("bytes={}", s.join(","))),
        1 => any::<String>(),
    ]
}

fn tag_value() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("*".to_string()),
        prop::collection::vec("(W/)?\"v[0-2]\"", 0..4).prop_map(|tags| tags.join(", ")),
        "[W/\"v1*, ]{0,12}",
        any::<String>(),
    ]
}

fn date_value() -> impl Strategy<Value = String> {
    prop_oneof![
        date().prop_map(|d| d.to_string()),
        Just("Sun, 06 Nov 1994 08:49:37 GMT".to_string()),
        any::<String>(),
    ]
}

proptest! {
    #[test]
    fn path_never_leaves_its_root(path in prop_oneof![
        "/[a.%2eEfF0/\\\\]{0,40}",
        "(/(\\.|%2e|%2E|%252e|%5c|a|é|%00|%c3%a9){0,3}){0,8}",
        any::<String>(),
    ]) {
        if let Ok(relative) = RelativePath::parse(&path) {
            let relative = relative.as_str();
            prop_assert!(!relative.contains('\0') && path_bytes(relative).len() <= 4096);
            for segment in relative.split('/') {
                prop_assert!(!segment.is_empty() && !segment.starts_with('.'));
                prop_assert!(path_bytes(segment).len() <= 255);
            }
        }
    }

    #[test]
    fn name_encoded_byte_by_byte_is_decoded(name in "[^./\0][^/\0]{0,60}") {
        let encoded: String = name.bytes().map(|b| format!("%{b:02X}")).collect();
        let relative = RelativePath::parse(&format!("/d/{encoded}")).expect("a plain name");
        prop_assert_eq!(&*path_bytes(relative.file_name()), name.as_bytes());
    }

    #[test]
    fn selected_ranges_are_inside_disjoint_and_complete(
        value in range_value(),
        size in prop_oneof![0_u64..1200, Just(u64::MAX)],
    ) {
        let limits = RangeLimits::default();
        let Some(set) = ByteRangeSet::parse(&value, &limits) else { return Ok(()) };
        let RangeSelection::Ranges(selected) = set.select(size) else { return Ok(()) };
        prop_assert!(!selected.is_empty() && selected.len() <= limits.ranges_max);
        for (index, one) in selected.iter().enumerate() {
            prop_assert!(!one.range.is_empty() && one.range.end <= size);
            for other in &selected[index + 1..] {
                prop_assert!(!one.range.touches(other.range));
            }
        }
        if size < 1200 {
            for offset in 0..size {
                let is_asked = naive_asks(&value, offset, size);
                let is_selected = selected.iter().any(|s| s.range.contains(offset));
                prop_assert_eq!(is_asked, is_selected, "offset {}", offset);
            }
        }
    }

    #[test]
    fn printed_date_parses_to_itself(date in date(), now in date()) {
        prop_assert_eq!(HttpDate::parse(&date.to_string(), now), Some(date));
    }

    #[test]
    fn parsing_any_text_as_date_does_not_panic(text in any::<String>(), now in date()) {
        let _ = HttpDate::parse(&text, now);
    }

    #[test]
    fn reply_length_equals_content_length(
        is_head in any::<bool>(),
        range in prop::option::of(range_value()),
        if_match in prop::option::weighted(0.2, tag_value()),
        if_none_match in prop::option::weighted(0.2, tag_value()),
        if_modified_since in prop::option::weighted(0.2, date_value()),
        if_unmodified_since in prop::option::weighted(0.2, date_value()),
        if_range in prop::option::weighted(0.3, prop_oneof![tag_value(), date_value()]),
        size in prop_oneof![0_u64..1200, Just(i64::MAX as u64)],
        seed in any::<u64>(),
        received in date(),
        modified in prop::option::of(date()),
    ) {
        let method = if is_head { Method::Head } else { Method::Get };
        let mut request = RequestHead::new(method, received, Boundary { seed });
        request.range = range.map(Cow::Owned);
        request.if_match = if_match.map(Cow::Owned);
        request.if_none_match = if_none_match.map(Cow::Owned);
        request.if_modified_since = if_modified_since.map(Cow::Owned);
        request.if_unmodified_since = if_unmodified_since.map(Cow::Owned);
        request.if_range = if_range.map(Cow::Owned);
        let validators = Validators { entity_tag: "\"v1\"", modified };
        let file = Representation {
            size,
            validators,
            media_type: "video/mp4",
            cache_control: None,
        };
        let reply = plan(&request, &file, &RangeLimits::default());

        let by_hand: u64 = reply.body.parts.iter()
            .map(|part| part.preamble.len() as u64 + part.range.end - part.range.start)
            .sum::<u64>() + reply.body.closing.len() as u64;
        let length = reply.field("content-length").map(|l| l.parse::<u64>().expect("a number"));
        match reply.status {
            Status::NotModified => prop_assert_eq!((length, by_hand), (None, 0)),
            _ if is_head => prop_assert!(length.is_some() && by_hand == 0),
            _ => prop_assert_eq!(length, Some(by_hand)),
        }
        prop_assert!(reply.body.parts.iter().all(|p| !p.range.is_empty() && p.range.end <= size));
        prop_assert!(reply.file_bytes() <= size);
        for (_, value) in &reply.fields {
            prop_assert!(value.bytes().all(|b| (b' '..=b'~').contains(&b)), "{}", value);
        }
    }

    #[test]
    fn slices_of_a_body_are_slices_of_its_bytes(
        pieces in prop::collection::vec((0_usize..5, 0_u64..40, 1_u64..6), 0..5),
        closing in 0_usize..5,
        (start, length) in (0_u64..40, 0_u64..40),
    ) {
        let body = PlannedBody {
            parts: pieces.iter().map(|(text, start, length)| BodyPart {
                preamble: (100..100 + *text as u8).collect(),
                range: ByteRange::new(*start, start + length),
                open_ended: false,
            }).collect(),
            closing: (200..200 + closing as u8).collect(),
        };
        let bytes = |body: &PlannedBody| {
            let of_part = |part: &BodyPart| {
                let file = (part.range.start..part.range.end).map(|at| at as u8);
                part.preamble.iter().copied().chain(file).collect::<Vec<u8>>()
            };
            let mut all = body.parts.iter().flat_map(of_part).collect::<Vec<u8>>();
            all.extend(&body.closing);
            all
        };
        let all = bytes(&body);
        let end = all.len().min((start + length) as usize);
        let expected = &all[end.min(start as usize)..end];
        let sliced = body.slice(ByteRange::new(start, start + length));
        prop_assert_eq!(bytes(&sliced), expected);
        prop_assert!(sliced.parts.iter().all(|part| !part.range.is_empty()));
    }

    #[test]
    fn parsing_any_cmcd_does_not_panic(text in prop_oneof![
        "[a-z]{1,3}(=[0-9\".()\\\\;]{0,6})?(,[a-z]{1,3}=?[0-9\"(),]{0,6}){0,6}",
        any::<String>(),
    ]) {
        let mut said = Cmcd::default();
        said.absorb(&text);
        if let Some(id) = &said.session_id {
            prop_assert!(id.chars().count() <= 64);
        }
    }

    #[test]
    fn session_id_survives_quoting_and_encoding(id in "[^\\p{C}]{1,64}", rate in 1_u64..100_000) {
        let quoted = id.replace('\\', "\\\\").replace('"', "\\\"");
        let text = format!("sid=\"{quoted}\",br={rate}");
        let encoded: String = text.bytes().map(|b| format!("%{b:02x}")).collect();
        let query = format!("x=1&CMCD={encoded}");
        for said in [
            Cmcd::read([("CMCD-Session", text.as_bytes())], None),
            Cmcd::read([], Some(&query)),
        ] {
            prop_assert_eq!(said.session_id.as_deref(), Some(&*id));
            prop_assert_eq!(said.bit_rate.map(|r| r.0), Some(rate * 1000));
        }
        prop_assert_eq!(query_without(&query, "CMCD"), "x=1");
    }

    #[test]
    fn viewer_identity_is_deterministic(
        fields in prop::collection::vec(("[a-zA-Z-]{1,12}", any::<Vec<u8>>()), 0..6),
        query in prop::option::of(any::<String>()),
        address in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let rule = SessionRule {
            header: Some("a".into()),
            cookie: Some("b".into()),
            query: Some("c".into()),
        };
        let fields = || fields.iter().map(|(n, v)| (n.as_str(), v.as_slice()));
        let viewer = || {
            let said = Cmcd::read(fields(), query.as_deref());
            rule.viewer(&said, fields(), query.as_deref(), &address)
        };
        prop_assert_eq!(viewer(), viewer());
    }

    #[test]
    fn any_query_and_file_name_is_accepted(text in any::<String>(), key in "[a-zA-Z%]{0,4}") {
        let _ = query_value(&text, &key);
        prop_assert_eq!(query_value(&query_without(&text, &key), &key), None);
        prop_assert!(media_type(&text).contains('/'));
    }
}

/// Reference implementation: whether a well-formed range set requests a byte.
fn naive_asks(value: &str, offset: u64, size: u64) -> bool {
    let set = value.trim().split_once('=').expect("well formed").1;
    let number = |text: &str| text.parse::<u128>().expect("digits");
    let (offset, size) = (u128::from(offset), u128::from(size));
    set.split(',')
        .map(str::trim)
        .filter(|spec| !spec.is_empty())
        .any(|spec| match spec.split_once('-').expect("well formed") {
            ("", length) => offset + number(length) >= size,
            (first, "") => number(first) <= offset,
            (first, last) => number(first) <= offset && offset <= number(last),
        })
}
