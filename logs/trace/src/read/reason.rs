//! Why a line did not become a request.

use std::fmt;

/// Why a line did not become a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// A header, a comment, a summary of a session: rightly no request.
    NotARequest,
    /// It has not the shape of any format that was recognised.
    Shape,
    /// It is the last of its file, has no end, and cannot be read.
    Truncated,
    /// It is longer than a line may be.
    TooLong,
    /// It holds bytes of zero, as a file has where a crash lost its contents.
    Nul,
    /// It has no time, or one that cannot be read.
    BadTime,
    /// It names no file.
    NoFile,
    /// It names neither a session nor an address.
    NoSession,
    /// It does not say how many bytes were sent.
    NoBytes,
    /// A number in it cannot be read.
    BadNumber,
    /// A number in it is negative.
    Negative,
    /// A number in it is beyond belief.
    Absurd,
    /// It is another method than GET.
    NotGet,
    /// The reply was neither 200 nor 206.
    Status,
    /// It is for a part of a page: a picture, a style, a script.
    PageFile,
    /// It asks for several ranges at once.
    ManyRanges,
    /// Its range cannot be read.
    BadRange,
    /// The reply was 206, but the log does not say at which byte it starts.
    UnknownOffset,
    /// The same request is in another file too.
    Repeated,
}

/// A word for each in tables and JSON, and what people are told, in the order of the reasons.
const TEXTS: [(&str, &str); 19] = [
    (
        "not-a-request",
        "a header, a comment or a summary, not a request",
    ),
    ("shape", "not the shape of a recognised format"),
    ("truncated", "the last line, cut off"),
    ("too-long", "longer than a line may be"),
    ("nul-bytes", "bytes of zero in it"),
    ("bad-time", "there is no time, or it cannot be read"),
    ("no-file", "it names no file"),
    ("no-session", "it names neither a session nor an address"),
    ("no-bytes", "it does not say how many bytes were sent"),
    ("bad-number", "a number that cannot be read"),
    ("negative", "a negative number"),
    ("absurd", "a number too large to be true"),
    ("not-get", "another method than GET"),
    ("status", "the status is neither 200 nor 206"),
    ("page-file", "a page, or a picture, style or script of one"),
    ("many-ranges", "it asks for several ranges at once"),
    ("bad-range", "a range that cannot be read"),
    (
        "unknown-offset",
        "a part of a file, and no range says which",
    ),
    ("repeated", "the same request is in another log too"),
];

impl Reason {
    /// A word for it in tables and JSON.
    pub const fn name(self) -> &'static str {
        TEXTS[self as usize].0
    }

    /// Whether the line was understood, and is left out for what it says.
    pub const fn is_understood(self) -> bool {
        matches!(
            self,
            Self::NotARequest
                | Self::NotGet
                | Self::Status
                | Self::PageFile
                | Self::ManyRanges
                | Self::UnknownOffset
                | Self::Repeated
        )
    }
}

impl Reason {
    /// Whether the line is rightly none of the requests that are looked at, so that nothing was
    /// lost with it.
    pub const fn is_other(self) -> bool {
        matches!(
            self,
            Self::NotARequest | Self::NotGet | Self::Status | Self::PageFile | Self::Repeated
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(TEXTS[*self as usize].1)
    }
}
