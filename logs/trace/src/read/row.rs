//! Fields of a line, independent of the format.
//!
//! A format only locates the fields; [`interpret`](super::entry::interpret) interprets them for all
//! formats.

headlong_units::names! {
    /// Meaning of a field, with our name of it. Maps can use those up to [`Field::Clock`], which
    /// are also headers of the plain request log.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[repr(u8)]
    pub enum Field {
        /// End of the request, seconds.
        EndS => "ts",
        /// End, ms.
        EndMs => "ts_ms",
        /// End, microseconds.
        EndUs => "ts_us",
        /// End, in any notation; beside a date, its time of day.
        End => "time",
        /// Start, in any notation.
        Start => "start",
        /// Start, ms.
        StartMs => "start_ms",
        /// Service time in milliseconds.
        ServiceMs => "service_ms",
        /// Service time in seconds.
        ServiceS => "service_s",
        /// Service time in microseconds.
        ServiceUs => "service_us",
        /// Service time in nanoseconds.
        ServiceNs => "service_ns",
        /// Session id.
        Session => "session",
        /// Type of the viewer's device.
        Device => "device",
        /// The viewer's address, possibly with a port.
        Address => "address",
        /// Addresses of the client and of proxies, as in `X-Forwarded-For`.
        Forwarded => "forwarded",
        /// User agent.
        Agent => "agent",
        /// The drive.
        Disk => "disk",
        /// The file name, verbatim.
        File => "file",
        /// Path and query, or a whole URL.
        Target => "target",
        /// The query alone.
        Query => "query",
        /// `GET /path HTTP/1.1`.
        RequestLine => "request",
        /// `GET`.
        Method => "method",
        /// First byte requested.
        Offset => "offset",
        /// Bytes requested; empty if open-ended.
        Size => "size",
        /// Body bytes sent.
        Bytes => "bytes",
        /// Bytes sent, including headers.
        BytesAll => "bytes_all",
        /// Status of the reply, including Squid's `TCP_HIT/206`.
        Status => "status",
        /// The `Range` header.
        Range => "range",
        /// The `Content-Range` header of the reply.
        ContentRange => "content_range",
        /// The `Content-Length` header of the reply.
        ContentLength => "content_length",
        /// First byte of the reply.
        RangeStart => "range_start",
        /// Last byte of the reply.
        RangeEnd => "range_end",
        /// Size of the file.
        FileBytes => "file_bytes",
        /// Bit rate of the file, kbit/s.
        RateKbps => "kbps",
        /// Bit rate of the file, bit/s.
        RateBps => "bps",
        /// Date of the end, `2000-10-10`.
        Date => "date",
        /// Time of day of the end, `13:55:36`.
        Clock => "clock",
        /// A CMCD header, which may contain the session id.
        Cmcd => "cmcd",
        /// The `Cookie` header, which may contain the session id.
        Cookie => "cookie",
        /// The viewer's address, always with a port.
        Client => "client",
        /// End, seconds since 1970 (no other epoch).
        EpochS => "epoch",
        /// HAProxy's timers in milliseconds, separated by slashes; the last is the total.
        Timers => "timers",
        /// Start of the request, seconds since 1970.
        EpochStartS => "epoch_start",
        /// A field that only a summary has: the line is not a request.
        Summary => "summary",
    }
}

const FIELDS: usize = Field::Summary as usize + 1;

/// How a log escapes bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Escape {
    /// Backslashes are literal.
    #[default]
    None,
    /// `\x22`, `\"` and `\\`: nginx and Apache.
    Backslash,
    /// As in JSON.
    Json,
    /// `%25` for `%`, as CloudFront writes escaped names.
    Percent,
}

/// The fields of one line.
#[derive(Debug, Clone)]
pub(crate) struct LineFields<'a> {
    texts: [&'a [u8]; FIELDS],
    has: u64,
    /// How fields are escaped.
    pub(crate) escape: Escape,
}

impl<'a> LineFields<'a> {
    /// No fields.
    pub(crate) const fn new() -> Self {
        Self {
            texts: [&[]; FIELDS],
            has: 0,
            escape: Escape::None,
        }
    }

    /// Clears fields and escaping.
    pub(crate) fn clear(&mut self) {
        self.has = 0;
        self.escape = Escape::None;
    }

    /// Clears the fields, but keeps the escaping.
    pub(crate) fn forget(&mut self) {
        self.has = 0;
    }

    /// Sets a field; a value that is not known replaces none that is.
    pub(crate) fn set(&mut self, field: Field, text: &'a [u8]) {
        if matches!(text, b"" | b"-") && self.has(field) {
            return;
        }
        self.texts[field as usize] = text;
        self.has |= 1 << field as u8;
    }

    /// Whether the field is present, empty or not.
    pub(crate) fn has(&self, field: Field) -> bool {
        self.has & (1 << field as u8) != 0
    }

    /// A field; empty if absent.
    pub(crate) fn get(&self, field: Field) -> &'a [u8] {
        if self.has(field) {
            self.texts[field as usize]
        } else {
            &[]
        }
    }

    /// A field that is present and has a value.
    pub(crate) fn known(&self, field: Field) -> Option<&'a [u8]> {
        let text = self.get(field);
        (!matches!(text, b"" | b"-")).then_some(text)
    }
}

/// The text without its escapes.
pub(crate) fn unescape(text: &[u8], escape: Escape) -> std::borrow::Cow<'_, [u8]> {
    if escape == Escape::Percent {
        return unescape_percent(text);
    }
    if escape == Escape::None || memchr::memchr(b'\\', text).is_none() {
        return text.into();
    }
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'\\' {
            plain.push(*first);
            continue;
        }
        let [kind, tail @ ..] = rest else {
            plain.push(b'\\');
            break;
        };
        rest = tail;
        match (kind, escape) {
            (b'x', Escape::Backslash) => match hex(rest, 2) {
                Some(code) => {
                    plain.push(code as u8);
                    rest = &rest[2..];
                }
                None => plain.extend_from_slice(b"\\x"),
            },
            (b'u', Escape::Json) => rest = push_unicode(rest, &mut plain),
            (b'n', _) => plain.push(b'\n'),
            (b't', _) => plain.push(b'\t'),
            (b'r', _) => plain.push(b'\r'),
            (b'b', Escape::Json) => plain.push(8),
            (b'f', Escape::Json) => plain.push(12),
            (other, _) => plain.push(*other),
        }
    }
    plain.into()
}

/// The text with `%25` before two hexadecimal digits as `%`: escaped twice, it was escaped before.
fn unescape_percent(text: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    let (mut plain, mut rest) = (Vec::new(), text);
    while let Some(at) = memchr::memmem::find(rest, b"%25") {
        let end = at
            + if hex(&rest[at + 3..], 2).is_some() {
                1
            } else {
                3
            };
        plain.extend_from_slice(&rest[..end]);
        rest = &rest[at + 3..];
    }
    match plain.is_empty() {
        true => text.into(),
        false => {
            plain.extend_from_slice(rest);
            plain.into()
        }
    }
}

/// Decodes the digits after `\u`, with the second half of a surrogate pair if there is one.
fn push_unicode<'a>(text: &'a [u8], plain: &mut Vec<u8>) -> &'a [u8] {
    let Some(first) = hex(text, 4) else {
        plain.extend_from_slice(b"\\u");
        return text;
    };
    let mut rest = &text[4..];
    let mut code = first;
    if (0xd800..0xdc00).contains(&first)
        && let [b'\\', b'u', tail @ ..] = rest
        && let Some(second) = hex(tail, 4)
        && (0xdc00..0xe000).contains(&second)
    {
        code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        rest = &tail[4..];
    }
    let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
    plain.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    rest
}

fn hex(text: &[u8], count: usize) -> Option<u32> {
    text.get(..count)?.iter().try_fold(0, |sum, byte| {
        Some(sum * 16 + char::from(*byte).to_digit(16)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded() {
        let text = |text: &str, escape| {
            String::from_utf8(unescape(text.as_bytes(), escape).into_owned()).expect("UTF-8")
        };
        assert_eq!(text(r"a\x22b", Escape::Backslash), "a\"b");
        assert_eq!(text(r#"a\"b\\"#, Escape::Backslash), "a\"b\\");
        assert_eq!(text(r"a\xzz", Escape::Backslash), r"a\xzz");
        assert_eq!(text(r"a\u00e9\/\n", Escape::Json), "a\u{e9}/\n");
        assert_eq!(text(r"\ud83d\ude00", Escape::Json), "\u{1f600}");
        assert_eq!(text(r"\ud83d", Escape::Json), "\u{fffd}");
        assert_eq!(text(r"a\u12", Escape::Json), r"a\u12");
        assert_eq!(text(r"a\", Escape::Json), r"a\");
        assert_eq!(text(r"a\n", Escape::None), r"a\n");
        let twice = text("/a%2520b%25.mp4%2", Escape::Percent);
        assert_eq!(twice, "/a%20b%25.mp4%2");
    }
}
