//! Strict parser of reply heads and bodies: anything that a strict client would reject is an error.

use super::ClientError;

/// Status line and header fields of a reply.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Head {
    /// Status code.
    pub status: u16,
    /// Fields in order; names in lower case.
    pub fields: Vec<(String, String)>,
}

/// How the end of a body is determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// A number of bytes.
    Length(u64),
    /// Chunks up to an empty one.
    Chunked,
    /// The connection closes.
    Close,
}

impl Head {
    /// Parses a head if `bytes` holds a complete one. Returns it with its length.
    pub(super) fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, ClientError> {
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
            return Ok(None);
        };
        let malformed = |what: &str| ClientError::Malformed(what.to_owned());
        let text = std::str::from_utf8(&bytes[..end]).map_err(|_| malformed("head is not text"))?;
        let mut lines = text.split("\r\n");
        let status = lines
            .next()
            .and_then(|line| line.strip_prefix("HTTP/1."))
            .and_then(|line| line.split(' ').nth(1))
            .and_then(|code| code.parse().ok())
            .ok_or_else(|| malformed("no status line"))?;
        let mut fields = Vec::new();
        for line in lines {
            let (name, value) = line.split_once(':').ok_or_else(|| malformed(line))?;
            fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Ok(Some((Self { status, fields }, end + 4)))
    }

    /// The first field with this (lower-case) name.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// Content-Length, if there is one.
    pub fn content_length(&self) -> Option<u64> {
        self.field("content-length")?.parse().ok()
    }

    /// First byte, last byte and total size from `Content-Range: bytes a-b/size`.
    pub fn content_range(&self) -> Option<(u64, u64, u64)> {
        parse_content_range(self.field("content-range")?)
    }

    /// Framing of the body of a reply to `method`.
    pub(super) fn framing(&self, method: &str) -> Framing {
        if method == "HEAD" || self.status < 200 || matches!(self.status, 204 | 304) {
            return Framing::Length(0);
        }
        if self
            .field("transfer-encoding")
            .is_some_and(|value| value.contains("chunked"))
        {
            return Framing::Chunked;
        }
        self.content_length()
            .map_or(Framing::Close, Framing::Length)
    }
}

fn parse_content_range(value: &str) -> Option<(u64, u64, u64)> {
    let (range, size) = value.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?, size.parse().ok()?))
}

/// A complete reply.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Response {
    /// Status and fields.
    pub head: Head,
    /// The body, without its framing.
    pub body: Vec<u8>,
}

/// One part of a `multipart/byteranges` body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByteRangePart {
    /// First byte in the file.
    pub first: u64,
    /// Size of the whole file, according to the part.
    pub size: u64,
    /// Its content type.
    pub content_type: Option<String>,
    /// Its bytes.
    pub body: Vec<u8>,
}

impl std::fmt::Debug for Response {
    /// The head and the length of the body: a failed test should not print a film.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} with {} bytes of body", self.head, self.body.len())
    }
}

impl Response {
    /// Status code.
    pub fn status(&self) -> u16 {
        self.head.status
    }

    /// The first field with this (lower-case) name.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.field(name)
    }

    /// The body as text, for messages.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The parts of a `multipart/byteranges` body (RFC 9110, 14.6), with the lengths they announce.
    pub fn byte_range_parts(&self) -> Result<Vec<ByteRangePart>, ClientError> {
        let malformed = |what: &str| ClientError::Malformed(format!("multipart: {what}"));
        let content_type = self.field("content-type").unwrap_or_default();
        let boundary = content_type
            .strip_prefix("multipart/byteranges")
            .and_then(|rest| rest.split_once("boundary="))
            .map(|(_, boundary)| boundary.trim_matches('"'))
            .ok_or_else(|| malformed("no boundary in the content type"))?;
        let delimiter = format!("--{boundary}").into_bytes();
        let mut rest = self.body.as_slice();
        let mut parts = Vec::new();
        // Each iteration consumes at least the delimiter, so the body bounds the loop.
        loop {
            let line_break: &[u8] = b"\r\n";
            rest = rest.strip_prefix(line_break).unwrap_or(rest);
            rest = rest
                .strip_prefix(&delimiter[..])
                .ok_or_else(|| malformed("no delimiter"))?;
            if rest.starts_with(b"--") {
                return Ok(parts);
            }
            rest = rest
                .strip_prefix(line_break)
                .ok_or_else(|| malformed("no line break"))?;
            // The head of a part looks like that of a reply without the status line.
            let mut text = b"HTTP/1.1 206 part\r\n".to_vec();
            let end = rest.windows(4).position(|window| window == b"\r\n\r\n");
            let end = end.ok_or_else(|| malformed("unterminated head of a part"))? + 4;
            text.extend_from_slice(&rest[..end]);
            let (head, _) = Head::parse(&text)?.ok_or_else(|| malformed("truncated head"))?;
            let (first, last, size) = head
                .content_range()
                .ok_or_else(|| malformed("part without Content-Range"))?;
            let length = (last + 1).saturating_sub(first) as usize;
            let body = rest
                .get(end..end + length)
                .ok_or_else(|| malformed("truncated part"))?;
            parts.push(ByteRangePart {
                first,
                size,
                content_type: head.field("content-type").map(str::to_owned),
                body: body.to_vec(),
            });
            rest = &rest[end + length..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_is_parsed_when_complete() {
        let text =
            b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 5-9/20\r\nX: y\r\n\r\nrest";
        assert_eq!(Head::parse(&text[..40]).expect("an incomplete head"), None);
        let (head, length) = Head::parse(text).expect("a head").expect("complete");
        assert_eq!(head.status, 206);
        assert_eq!(head.content_range(), Some((5, 9, 20)));
        assert_eq!(&text[length..], b"rest");
        assert!(Head::parse(b"nonsense\r\n\r\n").is_err());
    }

    #[test]
    fn multipart_parts_have_announced_lengths() {
        let body = b"--B\r\nContent-Range: bytes 0-1/9\r\n\r\nab\r\n--B\r\nContent-Type: a/b\r\n\
            Content-Range: bytes 4-6/9\r\n\r\nefg\r\n--B--\r\n";
        let fields = vec![(
            "content-type".into(),
            "multipart/byteranges; boundary=B".into(),
        )];
        let mut response = Response {
            head: Head {
                status: 206,
                fields,
            },
            body: body.to_vec(),
        };
        let parts = response.byte_range_parts().expect("two parts");
        assert_eq!((parts[0].first, parts[0].body.as_slice()), (0, &b"ab"[..]));
        assert_eq!((parts[1].first, parts[1].body.as_slice()), (4, &b"efg"[..]));
        response.body.truncate(40);
        assert!(response.byte_range_parts().is_err());
    }
}
