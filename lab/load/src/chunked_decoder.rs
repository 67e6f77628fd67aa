//! The chunked transfer coding (RFC 9112, section 7.1), read in place.

use crate::malformed_reply::MalformedReply;

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
