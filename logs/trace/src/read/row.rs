//! What a line says, as pieces of text with a meaning, whatever its format.
//!
//! The one idea: a format only finds the pieces; what they mean together is decided once, in
//! [`interpret`](super::entry::interpret).

/// What a piece of a line means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub(crate) enum Field {
    /// End of the request, seconds.
    EndS,
    /// The same since 1970, and not from any other moment.
    EpochS,
    /// End, ms.
    EndMs,
    /// End, in any writing.
    End,
    /// Start of the request, seconds since 1970.
    EpochStartS,
    /// Start, ms.
    StartMs,
    /// Start, in any writing.
    Start,
    /// Date of the end, `2000-10-10`.
    Date,
    /// Time of day of the end, `13:55:36`.
    Clock,
    /// Time of service in seconds.
    ServiceS,
    /// In milliseconds.
    ServiceMs,
    /// In microseconds.
    ServiceUs,
    /// In nanoseconds.
    ServiceNs,
    /// HAProxy's timers in milliseconds, with strokes between them: the last is the whole.
    Timers,
    /// The session's name.
    Session,
    /// A header of CMCD that may hold the session's name.
    Cmcd,
    /// The `Cookie` header, which may hold the session's name.
    Cookie,
    /// Type of the viewer's device.
    Device,
    /// The viewer's address, perhaps with a port.
    Address,
    /// The viewer's address, always with a port.
    Client,
    /// User agent.
    Agent,
    /// The drive.
    Disk,
    /// The file's name as it is.
    File,
    /// Path and query, or a whole address of a document.
    Target,
    /// Query alone.
    Query,
    /// `GET /path HTTP/1.1`.
    RequestLine,
    /// `GET`.
    Method,
    /// First byte asked for.
    Offset,
    /// Bytes asked for; empty if open-ended.
    Size,
    /// Bytes of the body that were sent.
    Bytes,
    /// Bytes sent, headers too.
    BytesAll,
    /// Status of the reply; Squid's `TCP_HIT/206` too.
    Status,
    /// The `Range` header.
    Range,
    /// The `Content-Range` header of the reply.
    ContentRange,
    /// The `Content-Length` header of the reply.
    ContentLength,
    /// First byte of the reply.
    RangeStart,
    /// Last byte of the reply.
    RangeEnd,
    /// Bit rate of the file, kbit/s.
    RateKbps,
    /// Bit rate of the file, bit/s.
    RateBps,
    /// Something that only a summary has: this line is no request.
    Summary,
}

const FIELDS: usize = Field::Summary as usize + 1;

/// A way in which a log escapes bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Escape {
    /// A backslash is a backslash.
    #[default]
    None,
    /// `\x22`, `\"` and `\\`: nginx and Apache.
    Backslash,
    /// As in JSON.
    Json,
}

/// The pieces of one line.
#[derive(Debug, Clone)]
pub(crate) struct Row<'a> {
    texts: [&'a [u8]; FIELDS],
    has: u64,
    /// How pieces are escaped.
    pub(crate) escape: Escape,
}

impl<'a> Row<'a> {
    /// No pieces yet.
    pub(crate) const fn new() -> Self {
        Self {
            texts: [&[]; FIELDS],
            has: 0,
            escape: Escape::None,
        }
    }

    /// Forgets the pieces.
    pub(crate) fn clear(&mut self) {
        self.has = 0;
        self.escape = Escape::None;
    }

    /// Forgets the pieces, but not how they are escaped.
    pub(crate) fn forget(&mut self) {
        self.has = 0;
    }

    /// Notes a piece.
    pub(crate) fn set(&mut self, field: Field, text: &'a [u8]) {
        self.texts[field as usize] = text;
        self.has |= 1 << field as u8;
    }

    /// Whether it was there, empty or not.
    pub(crate) fn has(&self, field: Field) -> bool {
        self.has & (1 << field as u8) != 0
    }

    /// A piece; empty if it was not there.
    pub(crate) fn get(&self, field: Field) -> &'a [u8] {
        if self.has(field) {
            self.texts[field as usize]
        } else {
            &[]
        }
    }

    /// A piece that is there and says something.
    pub(crate) fn known(&self, field: Field) -> Option<&'a [u8]> {
        let text = self.get(field);
        (!matches!(text, b"" | b"-")).then_some(text)
    }
}

/// The text without its escapes.
pub(crate) fn unescape(text: &[u8], escape: Escape) -> std::borrow::Cow<'_, [u8]> {
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

/// Takes what follows `\u`, with the second half of a pair if there is one.
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
    fn escapes_are_taken_out() {
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
    }
}
