//! The model: a title has renditions, a rendition has segments, a segment is a byte range of a
//! file.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use headlong_units::{BitRate, ByteRange, Duration};

use crate::note::TitleNotes;

/// Most segments kept of one rendition; 100,000 of one second are more than a day.
pub const SEGMENTS_PER_RENDITION_MAX: usize = 100_000;
/// Most segments kept of one title.
pub const SEGMENTS_PER_TITLE_MAX: usize = 400_000;
/// Most renditions kept of one title.
pub const RENDITIONS_PER_TITLE_MAX: usize = 256;

/// How a title is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeliveryKind {
    /// HTTP Live Streaming (RFC 8216).
    Hls,
    /// MPEG-DASH (ISO/IEC 23009-1).
    Dash,
    /// One file, read with byte ranges.
    File,
}

impl DeliveryKind {
    /// `hls`, `dash` or `file`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hls => "hls",
            Self::Dash => "dash",
            Self::File => "file",
        }
    }
}

/// Media type of a rendition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum MediaType {
    /// Video, perhaps with audio.
    #[default]
    Video,
    /// Audio only.
    Audio,
    /// Subtitles and others.
    Other,
}

/// Something that a viewer can select.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Title {
    /// Path of its manifest from the root of the tree, or of the file itself.
    pub path: Arc<str>,
    /// How it is delivered.
    pub kind: DeliveryKind,
    /// Its encodings, in manifest order.
    pub renditions: Vec<Rendition>,
    /// Duration, if it is known.
    pub duration: Option<Duration>,
    /// Problems of the manifest.
    pub notes: TitleNotes,
}

/// One encoding of a title: a linear run of bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rendition {
    /// Its name in the manifest.
    pub name: String,
    /// Media type.
    pub media: MediaType,
    /// Declared average bit rate.
    pub average: Option<BitRate>,
    /// Declared peak bit rate.
    pub peak: Option<BitRate>,
    /// Its segments; titles that name the same media playlist share them.
    pub segments: Arc<Segments>,
}

/// The segments of a rendition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Segments {
    /// Init and media segments in playback order, without those whose files are missing.
    pub list: Vec<Segment>,
    /// Total duration, including missing segments.
    pub duration: Duration,
    /// How many files are named.
    pub files: u64,
    /// How many of these are missing.
    pub missing: u64,
    /// The first missing file.
    pub first_missing: Option<Arc<str>>,
}

/// A run of bytes of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The file, from the root of the tree.
    pub path: Arc<str>,
    /// Its byte range; `None` for the whole file.
    pub range: Option<ByteRange>,
    /// Duration; zero for an init segment.
    pub duration: Duration,
}

impl Title {
    /// A title without renditions yet.
    pub(crate) fn new(path: &str, kind: DeliveryKind) -> Self {
        Self {
            path: Arc::from(path),
            kind,
            renditions: Vec::new(),
            duration: None,
            notes: TitleNotes::default(),
        }
    }

    /// How many segments one more rendition may have.
    pub(crate) fn segments_left(&self) -> usize {
        let used: usize = self.renditions.iter().map(|r| r.segments.list.len()).sum();
        SEGMENTS_PER_RENDITION_MAX.min(SEGMENTS_PER_TITLE_MAX.saturating_sub(used))
    }

    /// Sets the duration to that of the longest rendition.
    pub(crate) fn measure(&mut self) {
        let longest = self.renditions.iter().map(|of| of.segments.duration).max();
        self.duration = longest.filter(|length| *length > Duration::ZERO);
    }
}

/// The bit rate of a rendition: the declared average, else the declared peak, else its bytes over
/// its duration. A rate of zero counts as not declared.
pub fn bit_rate(
    average: Option<BitRate>,
    peak: Option<BitRate>,
    bytes: u64,
    duration: Duration,
) -> Option<BitRate> {
    let known = |rate: &BitRate| rate.0 > 0;
    average
        .filter(known)
        .or(peak.filter(known))
        .or_else(|| BitRate::from_transfer(bytes, duration).filter(known))
}

/// The beginning of a text from a manifest, for use in a short message.
pub(crate) fn brief(text: &str) -> &str {
    let end = text.char_indices().nth(80).map_or(text.len(), |(at, _)| at);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_average_precedes_peak_and_computed_rate() {
        let (two, three) = (BitRate(2_000_000), BitRate(3_000_000));
        let second = Duration::from_secs(1);
        assert_eq!(bit_rate(Some(two), Some(three), 1, second), Some(two));
        assert_eq!(bit_rate(None, Some(three), 1, second), Some(three));
        assert_eq!(
            bit_rate(Some(BitRate(0)), None, 500, second),
            Some(BitRate(4000))
        );
        assert_eq!(bit_rate(None, None, 500, Duration::ZERO), None);
        assert_eq!(bit_rate(None, None, 0, second), None);
    }
}
