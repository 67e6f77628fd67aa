//! Why a file cannot be packaged.

use core::fmt;

use headlong_media::Mp4Fault;

/// Why a file cannot be packaged, or a segment of it cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackageFault {
    /// Its headers are unusable.
    Headers(Mp4Fault),
    /// A table of samples contradicts itself, another one, or the size of the file.
    Table([u8; 4]),
    /// `moov` is larger than is kept in memory.
    MoovTooLarge,
    /// The file has fragments, and `moov` is larger than is kept of such a file.
    FragmentedMoovTooLarge,
    /// More samples, segments or tracks than are kept in memory.
    TooMany(&'static str),
    /// The samples are encrypted.
    Encrypted,
    /// No track has a codec that can be sent in fragments of MP4.
    NoTrack,
    /// A track has parts with different decoder settings.
    SeveralDescriptions,
    /// A track plays several parts of its media, or at another speed.
    Edits,
    /// No key frame, or no sample, follows for more than a minute; at this second.
    Gap(u64),
    /// The samples of one segment lie too far apart in the file.
    Scattered,
    /// The index of its fragments contradicts them. It can be packaged without that.
    FragmentIndex,
}

impl fmt::Display for PackageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Headers(fault) => fault.fmt(f),
            Self::Table(kind) => write!(
                f,
                "its table `{}` contradicts the other tables or the size of the file",
                kind.escape_ascii()
            ),
            Self::MoovTooLarge => f.write_str("its moov box is larger than 48 MiB"),
            Self::FragmentedMoovTooLarge => {
                f.write_str("it has fragments, and its moov box is larger than 32 MiB")
            }
            Self::TooMany(what) => write!(f, "it has too many {what}"),
            Self::Encrypted => f.write_str("it is encrypted"),
            Self::NoTrack => f.write_str("it has no track of a supported codec"),
            Self::SeveralDescriptions => {
                f.write_str("a track changes its decoder settings within the file")
            }
            Self::Edits => f.write_str("its edit list has several parts, or another speed"),
            Self::Gap(second) => write!(
                f,
                "no key frame, or no sample, follows second {second} for more than a minute"
            ),
            Self::Scattered => {
                f.write_str("video and audio of the same time lie too far apart in the file")
            }
            Self::FragmentIndex => f.write_str(
                "its sidx or mfra box contradicts its fragments; its next playlist is made without",
            ),
        }
    }
}

impl core::error::Error for PackageFault {}

impl From<Mp4Fault> for PackageFault {
    fn from(fault: Mp4Fault) -> Self {
        Self::Headers(fault)
    }
}
