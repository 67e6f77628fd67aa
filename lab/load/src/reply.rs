//! Incremental parser of an HTTP/1.1 reply: its head, then its body in the parts received.
//!
//! Parts of the body are slices of the input buffer, without a copy; only a head received in pieces
//! is assembled elsewhere. Protocol violations are errors, never guesses.

use headlong_units::ByteRange;

/// Longest head that is accepted.
const HEAD_BYTES_MAX: usize = 32 << 10;
/// Most fields of a head.
const FIELDS_MAX: usize = 96;

/// A parsed head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplyHead {
    /// Its status code.
    pub(crate) status: u16,
    /// Length of the body, if it was announced.
    pub(crate) length: Option<u64>,
    /// The range in `Content-Range` of a 206.
    pub(crate) range: Option<ByteRange>,
}

/// Parser output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReplyEvent<'a> {
    /// The head is complete.
    Head(ReplyHead),
    /// More of the body.
    Body(&'a [u8]),
    /// The reply is complete.
    End,
}

/// Parser state: how the body ends.
#[derive(Debug)]
enum BodyState {
    Head,
    /// After this many bytes.
    Length(u64),
    /// With its last chunk.
    Chunked(ChunkedDecoder),
    /// With the connection.
    UntilClose,
    Complete,
}

/// A reply being parsed.
#[derive(Debug)]
pub(crate) struct ReplyParser {
    state: BodyState,
    /// Beginning of an incomplete head.
    head: Vec<u8>,
    keep_alive: bool,
    started: bool,
}

impl ReplyParser {
    /// Before the first byte.
    pub(crate) fn new() -> Self {
        Self {
            state: BodyState::Head,
            head: Vec::new(),
            keep_alive: true,
            started: false,
        }
    }

    /// Whether the connection can be reused afterwards.
    pub(crate) fn keeps_alive(&self) -> bool {
        self.keep_alive && matches!(self.state, BodyState::Complete)
    }

    /// Whether any bytes have arrived.
    pub(crate) fn has_started(&self) -> bool {
        self.started
    }

    /// Whether the reply ends when the connection is closed.
    pub(crate) fn ends_with_connection(&self) -> bool {
        matches!(self.state, BodyState::UntilClose)
    }

    /// Parses the next part of `input` and removes it from there; `None` when `input` is empty.
    pub(crate) fn next<'a>(
        &mut self,
        input: &mut &'a [u8],
    ) -> Result<Option<ReplyEvent<'a>>, MalformedReply> {
        self.started |= !input.is_empty();
        match &mut self.state {
            BodyState::Head => {
                let head = self.read_head(input)?;
                Ok(head.map(ReplyEvent::Head))
            }
            BodyState::Length(0) => {
                self.state = BodyState::Complete;
                Ok(Some(ReplyEvent::End))
            }
            BodyState::Length(left) => {
                let most = usize::try_from(*left).unwrap_or(usize::MAX);
                let part = take(input, most);
                *left -= part.len() as u64;
                Ok((!part.is_empty()).then_some(ReplyEvent::Body(part)))
            }
            BodyState::Chunked(chunks) => match chunks.next(input)? {
                Some(ChunkedEvent::Data(part)) => Ok(Some(ReplyEvent::Body(part))),
                Some(ChunkedEvent::End) => {
                    self.state = BodyState::Complete;
                    Ok(Some(ReplyEvent::End))
                }
                None => Ok(None),
            },
            BodyState::UntilClose => {
                let part = take(input, usize::MAX);
                Ok((!part.is_empty()).then_some(ReplyEvent::Body(part)))
            }
            // There was no further request: surplus bytes are an error.
            BodyState::Complete => {
                self.keep_alive &= input.is_empty();
                *input = &[];
                Ok(None)
            }
        }
    }

    fn read_head(&mut self, input: &mut &[u8]) -> Result<Option<ReplyHead>, MalformedReply> {
        loop {
            let before = self.head.len();
            let parsed = if before == 0 {
                parse(input)?
            } else {
                self.head.extend_from_slice(input);
                parse(&self.head)?
            };
            let Some((head, end)) = parsed else {
                if before == 0 {
                    self.head.extend_from_slice(input);
                }
                *input = &[];
                let too_long = self.head.len() > HEAD_BYTES_MAX;
                return if too_long {
                    Err(MalformedReply)
                } else {
                    Ok(None)
                };
            };
            *input = &input[end - before..];
            self.head = Vec::new();
            // An interim reply: the final one follows.
            if (100..200).contains(&head.status) {
                continue;
            }
            self.keep_alive = head.keep_alive;
            self.state = head.body;
            return Ok(Some(ReplyHead {
                status: head.status,
                length: match self.state {
                    BodyState::Length(length) => Some(length),
                    _ => None,
                },
                range: head.range,
            }));
        }
    }
}

fn take<'a>(input: &mut &'a [u8], most: usize) -> &'a [u8] {
    let (part, rest) = input.split_at(most.min(input.len()));
    *input = rest;
    part
}

struct HeadFields {
    status: u16,
    keep_alive: bool,
    body: BodyState,
    range: Option<ByteRange>,
}

/// The head at the start of `bytes` and its length; `None` if it is incomplete.
fn parse(bytes: &[u8]) -> Result<Option<(HeadFields, usize)>, MalformedReply> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut response = httparse::Response::new(&mut fields);
    let end = match response.parse(bytes) {
        Ok(httparse::Status::Complete(end)) => end,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(MalformedReply),
    };
    let status = response.code.ok_or(MalformedReply)?;
    let mut keep_alive = response.version == Some(1);
    let (mut length, mut chunked, mut range) = (None, false, None);
    for field in response.headers.iter() {
        let value = || core::str::from_utf8(field.value).map_err(|_| MalformedReply);
        if field.name.eq_ignore_ascii_case("content-length") {
            let said = value()?.trim().parse().map_err(|_| MalformedReply)?;
            // Two different lengths are an attack or a mistake.
            if length.is_some_and(|other: u64| other != said) {
                return Err(MalformedReply);
            }
            length = Some(said);
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            chunked = value()?.to_ascii_lowercase().contains("chunked");
        } else if field.name.eq_ignore_ascii_case("connection") {
            let value = value()?.to_ascii_lowercase();
            if value.contains("close") {
                keep_alive = false;
            } else if value.contains("keep-alive") {
                keep_alive = true;
            }
        } else if field.name.eq_ignore_ascii_case("content-range") {
            range = content_range(value()?);
        }
    }
    let body = match (status, chunked, length) {
        (100..200 | 204 | 304, ..) => BodyState::Length(0),
        (_, true, _) => BodyState::Chunked(ChunkedDecoder::default()),
        (_, false, Some(length)) => BodyState::Length(length),
        (_, false, None) => BodyState::UntilClose,
    };
    let head = HeadFields {
        status,
        keep_alive,
        body,
        range,
    };
    Ok(Some((head, end)))
}

/// Parses `bytes 5-9/100`.
fn content_range(value: &str) -> Option<ByteRange> {
    let (range, _) = value.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let end = last.parse::<u64>().ok()?.checked_add(1)?;
    Some(ByteRange::new(first.parse().ok()?, end))
}

/// A decoded part of a chunked body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ChunkedEvent<'a> {
    /// Bytes of the body.
    Data(&'a [u8]),
    /// The end of the last chunk and its trailers.
    End,
}

/// Parser state: the position of the next byte.
#[derive(Debug, Clone, Copy, Default)]
enum ChunkedState {
    /// In the digits of a size.
    #[default]
    Size,
    /// After the digits, up to the end of the line.
    Extension,
    /// In the data; `size` bytes remain.
    Data,
    /// In the line break after the data.
    DataEnd,
    /// In the trailers; with the bytes of the current line so far.
    Trailer,
    Over,
}

/// Decoder of a chunked body.
#[derive(Debug, Default)]
pub(crate) struct ChunkedDecoder {
    place: ChunkedState,
    /// Size of the chunk, or its remaining bytes.
    size: u64,
    digits: u32,
    line_bytes: u32,
}

/// Longest line of a size, extension or trailer.
const LINE_BYTES_MAX: u32 = 16 << 10;

impl ChunkedDecoder {
    /// Decodes the next piece of `input` and removes it from there; `None` when `input` is empty.
    pub(crate) fn next<'a>(
        &mut self,
        input: &mut &'a [u8],
    ) -> Result<Option<ChunkedEvent<'a>>, MalformedReply> {
        while let Some((&byte, rest)) = input.split_first() {
            if let ChunkedState::Data = self.place {
                let most = usize::try_from(self.size).unwrap_or(usize::MAX);
                let (data, rest) = input.split_at(most.min(input.len()));
                *input = rest;
                self.size -= data.len() as u64;
                if self.size == 0 {
                    self.place = ChunkedState::DataEnd;
                }
                return Ok(Some(ChunkedEvent::Data(data)));
            }
            *input = rest;
            if self.step(byte)? {
                return Ok(Some(ChunkedEvent::End));
            }
        }
        Ok(None)
    }

    /// Consumes one byte that is not data; returns whether the body has ended.
    fn step(&mut self, byte: u8) -> Result<bool, MalformedReply> {
        match (self.place, byte) {
            (ChunkedState::Size, b'\n') => self.end_size()?,
            (ChunkedState::Size, b';' | b' ' | b'\t' | b'\r') => {
                self.place = ChunkedState::Extension
            }
            (ChunkedState::Size, _) => {
                let digit = char::from(byte).to_digit(16).ok_or(MalformedReply)?;
                self.digits += 1;
                // Sixteen digits are 64 bits.
                if self.digits > 16 {
                    return Err(MalformedReply);
                }
                self.size = self.size << 4 | u64::from(digit);
            }
            (ChunkedState::Extension, b'\n') => self.end_size()?,
            (ChunkedState::DataEnd, b'\n') => self.place = ChunkedState::Size,
            (ChunkedState::DataEnd, b'\r') | (ChunkedState::Trailer, b'\r') => {}
            (ChunkedState::Trailer, b'\n') if self.line_bytes == 0 => {
                self.place = ChunkedState::Over;
                return Ok(true);
            }
            (ChunkedState::Trailer, b'\n') => self.line_bytes = 0,
            (ChunkedState::Extension | ChunkedState::Trailer, _) => {
                self.line_bytes += 1;
                if self.line_bytes > LINE_BYTES_MAX {
                    return Err(MalformedReply);
                }
            }
            (ChunkedState::DataEnd | ChunkedState::Data | ChunkedState::Over, _) => {
                return Err(MalformedReply);
            }
        }
        Ok(false)
    }

    fn end_size(&mut self) -> Result<(), MalformedReply> {
        if self.digits == 0 {
            return Err(MalformedReply);
        }
        self.place = match self.size {
            0 => ChunkedState::Trailer,
            _ => ChunkedState::Data,
        };
        self.digits = 0;
        self.line_bytes = 0;
        Ok(())
    }
}

/// The reply violates HTTP/1.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MalformedReply;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The parser's output for `bytes` that arrive in pieces of `size`.
    fn read(bytes: &[u8], size: usize) -> Result<(ReplyHead, Vec<u8>, bool), MalformedReply> {
        let mut reply = ReplyParser::new();
        let (mut head, mut body, mut ended) = (None, Vec::new(), false);
        for mut piece in bytes.chunks(size) {
            while let Some(part) = reply.next(&mut piece)? {
                match part {
                    ReplyEvent::Head(found) => head = Some(found),
                    ReplyEvent::Body(part) => body.extend_from_slice(part),
                    ReplyEvent::End => ended = true,
                }
            }
        }
        // A body of length zero ends without another byte.
        while let Some(part) = reply.next(&mut &[][..])? {
            ended |= part == ReplyEvent::End;
        }
        Ok((head.ok_or(MalformedReply)?, body, ended))
    }

    #[test]
    fn parses_body_with_length_in_any_pieces() {
        let bytes = b"HTTP/1.1 206 Partial Content\r\nContent-Length: 5\r\n\
        Content-Range: bytes 10-14/100\r\n\r\nhello";
        for size in 1..bytes.len() + 1 {
            let (head, body, ended) = read(bytes, size).expect("a reply");
            assert_eq!(head.status, 206);
            assert_eq!(head.length, Some(5));
            assert_eq!(head.range, Some(ByteRange::new(10, 15)));
            assert_eq!((body.as_slice(), ended), (&b"hello"[..], true), "{size}");
        }
    }

    #[test]
    fn parses_chunked_body_in_any_pieces() {
        let bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
        5;a=b\r\nhello\r\nA\r\n, world!!!\r\n0\r\nTrailer: x\r\n\r\n";
        for size in 1..bytes.len() + 1 {
            let (head, body, ended) = read(bytes, size).expect("a reply");
            assert_eq!(head.length, None);
            let whole = &b"hello, world!!!"[..];
            assert_eq!((body.as_slice(), ended), (whole, true), "{size}");
        }
    }

    #[test]
    fn skips_interim_replies() {
        let bytes = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n\
        HTTP/1.1 204 No Content\r\n\r\n";
        for size in [1, 7, bytes.len()] {
            let (head, body, ended) = read(bytes, size).expect("a reply");
            assert_eq!((head.status, body.len(), ended), (204, 0, true));
        }
    }

    #[test]
    fn connection_is_reused_only_if_both_sides_allow() {
        for (bytes, keeps) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                false,
            ),
            ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", false),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nmore than was asked",
                false,
            ),
        ] {
            let mut reply = ReplyParser::new();
            let mut input = bytes.as_bytes();
            while reply.next(&mut input).expect("a reply").is_some() {}
            assert_eq!(reply.keeps_alive(), keeps, "{bytes}");
        }
    }

    #[test]
    fn rejects_malformed_replies() {
        let endless = format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(HEAD_BYTES_MAX));
        for bytes in [
            "SSH-2.0-OpenSSH_9.2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
            &endless,
        ] {
            assert_eq!(read(bytes.as_bytes(), 1000).err(), Some(MalformedReply));
        }
    }

    proptest! {
        #[test]
        fn parser_never_panics(bytes: Vec<u8>, size in 1..64usize) {
            let _ = read(&bytes, size);
            let mut whole = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
            whole.extend_from_slice(&bytes);
            let _ = read(&whole, size);
        }
    }
}
