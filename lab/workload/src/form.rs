//! The form of storage: in how many files a title lies.

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use headlong_units::Bytes;

/// In which files a title lies (thesis 3.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// One.
    #[default]
    Whole,
    /// Files of so many bytes, the last perhaps smaller.
    Chunks(u64),
    /// One for each segment, and one for the table before them if there is one: what DASH and HLS
    /// packagers write.
    Segments,
}

impl Form {
    /// Bytes of a chunk file, if all are equal.
    pub const fn chunk_bytes(self) -> Option<u64> {
        match self {
            Self::Chunks(bytes) => Some(bytes),
            Self::Whole | Self::Segments => None,
        }
    }

    /// Whether a title may lie in several files.
    pub const fn is_split(self) -> bool {
        !matches!(self, Self::Whole)
    }

    /// How it is told: `one file a title`.
    pub fn label(self) -> String {
        match self {
            Self::Whole => "one file a title".into(),
            Self::Chunks(bytes) => format!("chunk files of {}", Bytes(bytes)),
            Self::Segments => "a file for each segment".into(),
        }
    }
}

impl fmt::Display for Form {
    /// As [`FromStr`] reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => f.write_str("off"),
            Self::Chunks(bytes) => write!(f, "{}", Bytes(*bytes)),
            Self::Segments => f.write_str("segment"),
        }
    }
}

impl FromStr for Form {
    type Err = String;

    /// Reads `off`, `segment`, and sizes of chunk files like `512KiB`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Whole),
            "segment" => Ok(Self::Segments),
            size => match size.parse::<Bytes>() {
                Ok(bytes) => Ok(Self::Chunks(bytes.0)),
                Err(error) => Err(format!("{error}; or write segment, or off")),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;

    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        for form in [Form::Whole, Form::Chunks(512 << 10), Form::Segments] {
            assert_eq!(form.to_string().parse(), Ok(form));
        }
        let error = "segments".parse::<Form>().expect_err("no size");
        assert!(error.ends_with("; or write segment, or off"), "{error}");
    }
}
