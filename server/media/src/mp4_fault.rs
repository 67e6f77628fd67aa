//! Why the headers of an MP4 file are unusable.

use core::fmt;

/// Why the headers are unusable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mp4Fault {
    /// Another format under an MP4 name.
    NotMp4,
    /// There is no `moov`.
    NoMoov,
    /// A box is truncated or its contents are invalid.
    Broken([u8; 4]),
    /// More boxes than any real file has there.
    TooLarge,
}

impl fmt::Display for Mp4Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMp4 => f.write_str("it is not an MP4 file: it does not consist of boxes"),
            Self::NoMoov => {
                f.write_str("it has no moov box; it may be truncated, or still being written")
            }
            // In a broken file a box name may be any four bytes, including a line break.
            Self::Broken(kind) => write!(f, "its `{}` box is broken", kind.escape_ascii()),
            Self::TooLarge => f.write_str("its headers are larger than any real file's"),
        }
    }
}

impl core::error::Error for Mp4Fault {}
