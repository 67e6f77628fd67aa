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
    /// It asks for several ranges at once.
    ManyRanges,
    /// Its range cannot be read.
    BadRange,
    /// The reply was 206, but the log does not say at which byte it starts.
    UnknownOffset,
    /// The same request is in another file too.
    Repeated,
}

impl Reason {
    /// All of them, in the order in which they are told.
    pub const ALL: [Self; 18] = [
        Self::NotARequest,
        Self::Shape,
        Self::Truncated,
        Self::TooLong,
        Self::Nul,
        Self::BadTime,
        Self::NoFile,
        Self::NoSession,
        Self::NoBytes,
        Self::BadNumber,
        Self::Negative,
        Self::Absurd,
        Self::NotGet,
        Self::Status,
        Self::ManyRanges,
        Self::BadRange,
        Self::UnknownOffset,
        Self::Repeated,
    ];

    /// A word for it in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotARequest => "not-a-request",
            Self::Shape => "shape",
            Self::Truncated => "truncated",
            Self::TooLong => "too-long",
            Self::Nul => "nul-bytes",
            Self::BadTime => "bad-time",
            Self::NoFile => "no-file",
            Self::NoSession => "no-session",
            Self::NoBytes => "no-bytes",
            Self::BadNumber => "bad-number",
            Self::Negative => "negative",
            Self::Absurd => "absurd",
            Self::NotGet => "not-get",
            Self::Status => "status",
            Self::ManyRanges => "many-ranges",
            Self::BadRange => "bad-range",
            Self::UnknownOffset => "unknown-offset",
            Self::Repeated => "repeated",
        }
    }

    /// Whether the line was understood, and is left out for what it says.
    pub const fn is_understood(self) -> bool {
        matches!(
            self,
            Self::NotARequest
                | Self::NotGet
                | Self::Status
                | Self::ManyRanges
                | Self::UnknownOffset
                | Self::Repeated
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotARequest => "a header, a comment or a summary, not a request",
            Self::Shape => "not the shape of a recognised format",
            Self::Truncated => "the last line, cut off",
            Self::TooLong => "longer than a line may be",
            Self::Nul => "bytes of zero in it",
            Self::BadTime => "there is no time, or it cannot be read",
            Self::NoFile => "names no file",
            Self::NoSession => "names neither a session nor an address",
            Self::NoBytes => "does not say how many bytes were sent",
            Self::BadNumber => "a number that cannot be read",
            Self::Negative => "a negative number",
            Self::Absurd => "a number beyond belief",
            Self::NotGet => "another method than GET",
            Self::Status => "answered neither 200 nor 206",
            Self::ManyRanges => "asks for several ranges at once",
            Self::BadRange => "a range that cannot be read",
            Self::UnknownOffset => {
                "status 206 without a start offset; log the Range header ($http_range)"
            }
            Self::Repeated => "in another file too",
        })
    }
}
