//! The framing of a `multipart/byteranges` reply (RFC 9110 14.6).
//!
//! ```text
//! --BOUNDARY CRLF fields CRLF CRLF  bytes of the first range
//! CRLF --BOUNDARY CRLF fields CRLF CRLF  bytes of the next range
//! CRLF --BOUNDARY-- CRLF
//! ```

use alloc::format;
use alloc::string::String;
use core::fmt::{self, Write as _};

use headlong_units::ByteRange;

/// The line between parts.
///
/// It must not occur in the file. Nobody reads the file to make sure; 64 bits that the client
/// cannot foresee make it as unlikely as two equal tags, so the shell draws a fresh seed for every
/// request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Boundary {
    /// The bits to be spelt out.
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

    /// What goes before the bytes of a part.
    pub(crate) fn preamble(
        self,
        is_first: bool,
        media_type: &str,
        range: ByteRange,
        size: u64,
    ) -> String {
        let line_break = if is_first { "" } else { "\r\n" };
        let content_range = content_range(range, size);
        format!(
            "{line_break}--{self}\r\nContent-Type: {media_type}\r\n\
             Content-Range: {content_range}\r\n\r\n"
        )
    }

    /// What goes after the bytes of the last part.
    pub(crate) fn closing(self) -> String {
        format!("\r\n--{self}--\r\n")
    }
}

/// The value of `content-range` for a range that is not empty (RFC 9110 14.4).
pub(crate) fn content_range(range: ByteRange, size: u64) -> String {
    let last = range.end.saturating_sub(1);
    let mut value = String::with_capacity(48);
    let _ = write!(value, "bytes {}-{last}/{size}", range.start);
    value
}
