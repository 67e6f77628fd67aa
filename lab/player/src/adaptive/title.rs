//! Places of the segments of a title: computed where they are regular, otherwise from tables.

use alloc::vec::Vec;

use headlong_units::{BitRate, ByteRange, Duration};
use serde::{Deserialize, Serialize};

use crate::object::ObjectId;

/// Bytes that one call can request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectRange {
    /// The URL.
    pub object: ObjectId,
    /// Range of its bytes; all of them if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<ByteRange>,
    /// Number of bytes, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

impl ObjectRange {
    /// A part of a file.
    pub const fn part(object: ObjectId, range: ByteRange) -> Self {
        Self {
            object,
            range: Some(range),
            bytes: Some(range.len()),
        }
    }

    /// A whole file.
    pub const fn whole(object: ObjectId, bytes: u64) -> Self {
        Self {
            object,
            range: None,
            bytes: Some(bytes),
        }
    }
}

/// Places of the segments of one rendition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SegmentTable {
    /// Equal ranges of one file, consecutive; the last ends with the file.
    OneFile {
        /// The file.
        object: ObjectId,
        /// Offset of the first segment: after the header, if there is one.
        start: u64,
        /// Bytes of each segment but the last.
        segment_bytes: u64,
        /// Bytes of the whole file.
        file_bytes: u64,
    },
    /// Separate files with consecutive object numbers.
    Files {
        /// Object of the first segment.
        first: ObjectId,
        /// Bytes of each file but the last.
        file_bytes: u64,
        /// Bytes of the last file.
        last_bytes: u64,
    },
    /// Arbitrary places.
    Table(Vec<ObjectRange>),
}

/// One encoding of a title.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rendition {
    /// Bit rate in the manifest, which the player uses.
    pub bit_rate: BitRate,
    /// Read once before the first segment: an initialisation segment, or the table of offsets at
    /// the start of the file (thesis 5.1.3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<ObjectRange>,
    /// Places of its segments.
    pub segments: SegmentTable,
}

/// A title. Shared by all sessions that watch it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Title {
    /// Duration of each segment.
    pub segment: Duration,
    /// Number of segments in each rendition.
    pub segments: u32,
    /// In order of increasing bit rate; at most 64.
    pub renditions: Vec<Rendition>,
}

impl Title {
    /// Duration of the title.
    pub const fn length(&self) -> Duration {
        self.begin(self.segments)
    }

    /// Media time at the start of segment `index`.
    pub(crate) const fn begin(&self, index: u32) -> Duration {
        self.segment.times(index as u64)
    }

    /// Place of segment `index` of a rendition; `None` if there is none.
    pub fn place(&self, rendition: usize, index: u32) -> Option<ObjectRange> {
        if index >= self.segments {
            return None;
        }
        let rendition = self.renditions.get(rendition)?;
        let number = u64::from(index);
        match &rendition.segments {
            SegmentTable::OneFile {
                object,
                start,
                segment_bytes,
                file_bytes,
            } => {
                let from = start.checked_add(segment_bytes.checked_mul(number)?)?;
                let last = index + 1 == self.segments;
                let until = from.saturating_add(*segment_bytes).min(*file_bytes);
                let until = if last { *file_bytes } else { until };
                (from < until).then(|| ObjectRange::part(*object, ByteRange::new(from, until)))
            }
            SegmentTable::Files {
                first,
                file_bytes,
                last_bytes,
            } => {
                let object = ObjectId(first.0.checked_add(index)?);
                let last = index + 1 == self.segments;
                let bytes = if last { *last_bytes } else { *file_bytes };
                Some(ObjectRange::whole(object, bytes))
            }
            SegmentTable::Table(places) => places.get(usize::try_from(index).ok()?).copied(),
        }
    }

    /// The bit rate of the rendition of an object; `None` for headers and unknown objects.
    pub(crate) fn bit_rate_of(&self, asked: ObjectId) -> Option<BitRate> {
        let holds = |rendition: &&Rendition| match &rendition.segments {
            SegmentTable::OneFile { object, .. } => *object == asked,
            SegmentTable::Files { first, .. } => {
                (first.0..first.0.saturating_add(self.segments)).contains(&asked.0)
            }
            SegmentTable::Table(places) => places.iter().any(|place| place.object == asked),
        };
        let rendition = self.renditions.iter().find(holds);
        rendition.map(|rendition| rendition.bit_rate)
    }

    pub(crate) fn bit_rate(&self, rendition: usize) -> BitRate {
        let rendition = self.renditions.get(rendition);
        rendition.map_or(BitRate(0), |rendition| rendition.bit_rate)
    }
}
