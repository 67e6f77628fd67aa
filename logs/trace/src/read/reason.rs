//! Reasons why lines are not requests.

use serde::{Deserialize, Serialize};

/// Why a line is not a request.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    thiserror::Error,
    Serialize,
    Deserialize,
)]
pub enum DropReason {
    /// A header, a comment or a session summary: expected.
    #[error("a header, a comment or a summary, not a request")]
    NotARequest,
    /// It does not match any recognised format.
    #[error("does not match a recognised format")]
    Shape,
    /// The last line of its file, without a line end and unreadable.
    #[error("the last line, truncated")]
    Truncated,
    /// It exceeds the maximum line length.
    #[error("longer than the maximum line length")]
    TooLong,
    /// It contains NUL bytes, as in files damaged by a crash.
    #[error("contains NUL bytes")]
    Nul,
    /// Its time is missing or invalid.
    #[error("time missing or invalid")]
    BadTime,
    /// It has no file name.
    #[error("no file name")]
    NoFile,
    /// It has neither a session id nor an address.
    #[error("neither a session id nor an address")]
    NoSession,
    /// It has no number of bytes sent.
    #[error("no number of bytes sent")]
    NoBytes,
    /// It contains an invalid number.
    #[error("an invalid number")]
    BadNumber,
    /// It contains a negative number.
    #[error("a negative number")]
    Negative,
    /// It contains an implausibly large number.
    #[error("an implausibly large number")]
    Absurd,
    /// Its method is not GET.
    #[error("a method other than GET")]
    NotGet,
    /// Its status, which is neither 200 nor 206; 0 is no reply.
    #[error("status {0}")]
    Status(u16),
    /// The file is a resource of a web page: an image, a style sheet, a script.
    #[error("a web page, or an image, style sheet or script of one")]
    PageFile,
    /// It requests several ranges.
    #[error("a request for several ranges")]
    ManyRanges,
    /// Its range is invalid.
    #[error("an invalid range")]
    BadRange,
    /// The status is 206, and the log has no offset.
    #[error("a part of a file, at an unknown offset")]
    UnknownOffset,
    /// Another log contains the same request.
    #[error("a duplicate of a request in another log")]
    Repeated,
}

impl DropReason {
    /// Whether the line was parsed, and is excluded for its contents.
    pub const fn is_understood(self) -> bool {
        matches!(
            self,
            Self::NotARequest
                | Self::NotGet
                | Self::Status(_)
                | Self::PageFile
                | Self::ManyRanges
                | Self::UnknownOffset
                | Self::Repeated
        )
    }

    /// Whether the server failed to answer the request, or refused it.
    pub const fn is_failure(self) -> bool {
        matches!(self, Self::Status(0 | 400..))
    }

    /// Whether the line is not of the requests examined, so that nothing was lost.
    pub const fn is_other(self) -> bool {
        matches!(
            self,
            Self::NotARequest | Self::NotGet | Self::Status(_) | Self::PageFile | Self::Repeated
        )
    }
}
