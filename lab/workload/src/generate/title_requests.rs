//! A title divided into the requests of a simple player.

use headlong_units::{ByteRange, Duration};

use crate::catalogue::Title;
use crate::specification::{RequestSize, request_bytes};

/// A title divided into requests.
pub(super) struct TitleRequests<'a> {
    pub(super) title: &'a Title,
    /// Bytes of each request, unless `segments` is set.
    bytes: u64,
    /// Segments of each request, if segments differ in size and requests follow them.
    segments: Option<usize>,
    /// Playing time of each request.
    pub(super) time: Duration,
}

impl<'a> TitleRequests<'a> {
    pub(super) fn of(title: &'a Title, size: RequestSize) -> Self {
        let (time, segment) = match size {
            RequestSize::Time(time) => (time, title.segment_time.0.max(1)),
            RequestSize::Bytes(bytes) => {
                let time = u128::from(bytes) * u128::from(title.segment_time.0)
                    / u128::from(title.segment_bytes.max(1));
                (Duration(u64::try_from(time).unwrap_or(u64::MAX)), u64::MAX)
            }
        };
        let follows = !title.segment_ends.is_empty() && segment < u64::MAX;
        Self {
            title,
            bytes: request_bytes(size, title.segment_time, title.segment_bytes).max(1),
            segments: follows.then(|| (time.0 / segment).max(1) as usize),
            time,
        }
    }

    /// Number of requests that cover the first `bytes` of the content.
    pub(super) fn count_to(&self, bytes: u64) -> u64 {
        match self.segments {
            None => bytes.div_ceil(self.bytes),
            Some(segments) => {
                let ends = &self.title.segment_ends;
                let last = ends.partition_point(|end| *end < bytes);
                (last.min(ends.len() - 1) / segments) as u64 + 1
            }
        }
    }

    /// The byte range of a request. A viewer's fraction is rounded up to whole requests (thesis
    /// Table 3.3), but never beyond the end of the file.
    pub(super) fn range(&self, place: u64) -> ByteRange {
        let header_bytes = self.title.header_bytes;
        let Some(segments) = self.segments else {
            let start = place.saturating_mul(self.bytes) + header_bytes;
            let end = start.saturating_add(self.bytes).min(self.title.file_bytes);
            return ByteRange::new(start, end);
        };
        let ends = &self.title.segment_ends;
        let end_of = |count: usize| match count.min(ends.len()) {
            0 => header_bytes,
            count => ends[count - 1] + header_bytes,
        };
        let first = place as usize * segments;
        ByteRange::new(end_of(first), end_of(first + segments))
    }
}
