//! Framing of a `multipart/byteranges` reply (RFC 9110 14.6).
//!
//! ```text
//! --BOUNDARY CRLF fields CRLF CRLF  bytes of the first range
//! CRLF --BOUNDARY CRLF fields CRLF CRLF  bytes of the next range
//! CRLF --BOUNDARY-- CRLF
//! ```

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write as _};

use headlong_units::ByteRange;

/// The boundary between parts.
///
/// It must not occur in the file, which is not checked. 64 bits that are unpredictable for the
/// client make a match negligible, so the caller draws a fresh seed for every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Boundary {
    /// The random bits.
    pub seed: u64,
}

impl fmt::Display for Boundary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "headlong-{:016x}", self.seed)
    }
}

impl Boundary {
    /// The `content-type` of the reply.
    pub(crate) fn media_type(self) -> String {
        format!("multipart/byteranges; boundary={self}")
    }

    /// The text before the bytes of a part.
    pub(crate) fn preamble(
        self,
        is_first: bool,
        media_type: &str,
        range: ByteRange,
        size: u64,
    ) -> Vec<u8> {
        let line_break = if is_first { "" } else { "\r\n" };
        let content_range = content_range(range, size);
        format!(
            "{line_break}--{self}\r\nContent-Type: {media_type}\r\n\
             Content-Range: {content_range}\r\n\r\n"
        )
        .into_bytes()
    }

    /// The text after the last part.
    pub(crate) fn closing(self) -> Vec<u8> {
        format!("\r\n--{self}--\r\n").into_bytes()
    }
}

/// Value of `content-range` for a non-empty range (RFC 9110 14.4).
pub(crate) fn content_range(range: ByteRange, size: u64) -> String {
    let last = range.end.saturating_sub(1);
    let mut value = String::with_capacity(48);
    let _ = write!(value, "bytes {}-{last}/{size}", range.start);
    value
}
