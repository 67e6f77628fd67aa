//! The form of storage: how a title is divided into files.

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use headlong_units::Bytes;

/// Division of a title into files (thesis 3.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TitleForm {
    /// One file.
    #[default]
    Whole,
    /// Files of this many bytes; the last may be smaller.
    Chunks(u64),
    /// One file for each segment, and one for the table of offsets if there is one: the layout of
    /// DASH and HLS packagers.
    Segments,
}

impl TitleForm {
    /// Bytes of a chunk file, if the files have equal sizes.
    pub const fn chunk_bytes(self) -> Option<u64> {
        match self {
            Self::Chunks(bytes) => Some(bytes),
            Self::Whole | Self::Segments => None,
        }
    }

    /// Whether a title may have several files.
    pub const fn is_split(self) -> bool {
        !matches!(self, Self::Whole)
    }
}

impl fmt::Display for TitleForm {
    /// In the format that [`FromStr`] parses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => f.write_str("off"),
            Self::Chunks(bytes) => write!(f, "{}", Bytes(*bytes)),
            Self::Segments => f.write_str("segment"),
        }
    }
}

impl FromStr for TitleForm {
    type Err = String;

    /// Parses `off`, `segment`, and sizes of chunk files like `512KiB`.
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
    fn display_and_parse_round_trip() {
        for form in [
            TitleForm::Whole,
            TitleForm::Chunks(512 << 10),
            TitleForm::Segments,
        ] {
            assert_eq!(form.to_string().parse(), Ok(form));
        }
        let error = "segments".parse::<TitleForm>().expect_err("no size");
        assert!(error.ends_with("; or write segment, or off"), "{error}");
    }
}
