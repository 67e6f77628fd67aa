//! Reasons why lines are not requests.

use std::fmt;

/// Why a line is not a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropReason {
    /// A header, a comment or a session summary: expected.
    NotARequest,
    /// It does not match any recognised format.
    Shape,
    /// The last line of its file, without a line end and unreadable.
    Truncated,
    /// It exceeds the maximum line length.
    TooLong,
    /// It contains NUL bytes, as in files damaged by a crash.
    Nul,
    /// Its time is missing or invalid.
    BadTime,
    /// It has no file name.
    NoFile,
    /// It has neither a session id nor an address.
    NoSession,
    /// It has no number of bytes sent.
    NoBytes,
    /// It contains an invalid number.
    BadNumber,
    /// It contains a negative number.
    Negative,
    /// It contains an implausibly large number.
    Absurd,
    /// Its method is not GET.
    NotGet,
    /// Its status is neither 200 nor 206.
    Status,
    /// The file is a resource of a web page: an image, a style sheet, a script.
    PageFile,
    /// It requests several ranges.
    ManyRanges,
    /// Its range is invalid.
    BadRange,
    /// The status is 206, and the log has no offset.
    UnknownOffset,
    /// Another log contains the same request.
    Repeated,
}

/// Identifier in tables and JSON, and text for readers, in the order of the reasons.
const TEXTS: [(&str, &str); 19] = [
    (
        "not-a-request",
        "a header, a comment or a summary, not a request",
    ),
    ("shape", "does not match a recognised format"),
    ("truncated", "the last line, truncated"),
    ("too-long", "longer than the maximum line length"),
    ("nul-bytes", "contains NUL bytes"),
    ("bad-time", "time missing or invalid"),
    ("no-file", "no file name"),
    ("no-session", "neither a session id nor an address"),
    ("no-bytes", "no number of bytes sent"),
    ("bad-number", "an invalid number"),
    ("negative", "a negative number"),
    ("absurd", "an implausibly large number"),
    ("not-get", "a method other than GET"),
    ("status", "a status other than 200 and 206"),
    (
        "page-file",
        "a web page, or an image, style sheet or script of one",
    ),
    ("many-ranges", "a request for several ranges"),
    ("bad-range", "an invalid range"),
    ("unknown-offset", "a part of a file, at an unknown offset"),
    ("repeated", "a duplicate of a request in another log"),
];

impl DropReason {
    /// Its identifier in tables and JSON.
    pub const fn name(self) -> &'static str {
        TEXTS[self as usize].0
    }

    /// Whether the line was parsed, and is excluded for its contents.
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

impl DropReason {
    /// Whether the line is not of the requests examined, so that nothing was lost.
    pub const fn is_other(self) -> bool {
        matches!(
            self,
            Self::NotARequest | Self::NotGet | Self::Status | Self::PageFile | Self::Repeated
        )
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(TEXTS[*self as usize].1)
    }
}
