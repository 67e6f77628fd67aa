//! The workload (FlashStream 5.1): single segments of many titles, at a constant rate.

use headlong_units::Duration;
use headlong_workload::specification::TraceExtent;
use headlong_workload::{Catalogue, SessionStream, Specification};

/// Titles in the paper's data set.
const TITLES: u64 = 2_000;
/// Files start at a block of the file system.
const FILE_BLOCK_BYTES: u64 = 4_096;
/// Extent size of titles; no segment is larger.
const EXTENT_BYTES: u64 = 4 << 20;
/// More requests than any measurement needs.
const ENDLESS: TraceExtent = TraceExtent::Time(Duration::from_secs(1_000_000_000));

/// A segment: its byte range on the disk, which also identifies it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Segment {
    /// First byte on the disk.
    pub(super) physical: u64,
    /// Number of bytes.
    pub(super) bytes: u32,
}

/// The titles and their positions on a disk.
#[derive(Debug)]
pub(super) struct TitleLibrary {
    specification: Specification,
    catalogue: Catalogue,
    /// Start of each title, by number, as if all were stored consecutively.
    starts: Vec<u64>,
    ground: ExtentMap,
}

/// Extents scattered over a disk, each far from the next extent of its title: so the mean seek
/// distance is the same with ten titles as with two thousand, where consecutive requests rarely hit
/// the same title.
#[derive(Debug, Clone, Copy)]
struct ExtentMap {
    extents: u64,
    /// Distance, in places, from an extent to its successor.
    stride: u64,
    /// Distance between places.
    pitch_bytes: u64,
}

impl ExtentMap {
    fn new(bytes: u64, disk_bytes: u64) -> Self {
        let extents = bytes.div_ceil(EXTENT_BYTES).max(1);
        // Close to the golden ratio, and coprime so that each place is used once.
        let first = (extents as f64 * 0.618) as u64;
        let strides = (1..=first.max(1)).rev();
        let stride = strides
            .into_iter()
            .find(|stride| gcd(*stride, extents) == 1);
        let pitch = disk_bytes / extents / FILE_BLOCK_BYTES * FILE_BLOCK_BYTES;
        Self {
            extents,
            stride: stride.unwrap_or(1),
            pitch_bytes: pitch,
        }
    }

    fn place(&self, byte: u64) -> u64 {
        let extent = byte / EXTENT_BYTES % self.extents;
        let place = u128::from(extent) * u128::from(self.stride) % u128::from(self.extents);
        place as u64 * self.pitch_bytes + byte % EXTENT_BYTES
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The workload with the number of titles divided by `scale`, and this Zipf exponent.
pub(super) fn specification(scale: u64, alpha: f64) -> Specification {
    let titles = (TITLES / scale.max(1)).max(1);
    let keys = [
        ("title.dash.count".to_owned(), titles.to_string()),
        ("title.dash.zipf_alpha".to_owned(), alpha.to_string()),
    ];
    // The keys and their values are those of the preset.
    let read = Specification::preset("flashstream", &keys);
    read.expect("a preset of this repository")
}

impl TitleLibrary {
    /// Titles scattered over a disk of the given size.
    pub(super) fn new(scale: u64, alpha: f64, disk_bytes: u64) -> Self {
        let mut specification = specification(scale, alpha);
        specification.sessions.extent = ENDLESS;
        let catalogue = Catalogue::of(&specification);
        let mut starts = vec![0; catalogue.titles.len()];
        let mut bytes = 0;
        for number in &catalogue.creation_order {
            starts[*number as usize] = bytes;
            let title = &catalogue.titles[*number as usize];
            bytes += title.file_bytes.next_multiple_of(FILE_BLOCK_BYTES);
        }
        Self {
            specification,
            catalogue,
            starts,
            ground: ExtentMap::new(bytes, disk_bytes),
        }
    }

    /// Requests at the given rate; another seed selects other segments.
    pub(super) fn requests(&self, per_second: f64, seed: u64) -> SegmentRequests<'_> {
        SegmentRequests {
            sessions: SessionStream::new(&self.specification, &self.catalogue, seed),
            starts: &self.starts,
            ground: self.ground,
            gap: Duration((1e9 / per_second.max(1e-3)) as u64),
        }
    }
}

/// Consecutive segments, and the time between two of them.
pub(super) struct SegmentRequests<'l> {
    sessions: SessionStream<'l>,
    starts: &'l [u64],
    ground: ExtentMap,
    /// Time between requests.
    pub(super) gap: Duration,
}

impl SegmentRequests<'_> {
    /// Sets the rate in requests per second.
    pub(super) fn set_rate(&mut self, per_second: f64) {
        self.gap = Duration((1e9 / per_second.max(1e-3)) as u64);
    }

    /// The next segment.
    pub(super) fn next(&mut self) -> Option<Segment> {
        let session = self.sessions.next()?;
        let call = session.calls().first()?;
        let (title, start) = self.sessions.object(call.object)?;
        let range = call.range?;
        let byte = self.starts.get(title as usize)? + start + range.start;
        Some(Segment {
            physical: self.ground.place(byte),
            bytes: u32::try_from(range.len()).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean seek distance between two requests, as a share of the disk.
    fn mean_way(scale: u64) -> f64 {
        let disk_bytes = 1_000_000_000_000;
        let library = TitleLibrary::new(scale, 0.8, disk_bytes);
        let mut requests = library.requests(10.0, 1);
        let places: Vec<u64> = std::iter::from_fn(|| requests.next())
            .map(|segment| segment.physical)
            .take(5_000)
            .collect();
        assert!(places.iter().all(|place| *place + (4 << 20) < disk_bytes));
        let ways = places.windows(2).map(|two| two[0].abs_diff(two[1]));
        let sum: f64 = ways.map(|way| way as f64).sum();
        sum / (places.len() - 1) as f64 / disk_bytes as f64
    }

    #[test]
    fn scaled_library_keeps_mean_seek_distance() {
        // Two random places are a third of the disk apart on average.
        for scale in [1, 16, 200] {
            let way = mean_way(scale);
            assert!((0.31..0.36).contains(&way), "{scale}: {way}");
        }
    }

    #[test]
    fn extents_have_distinct_places() {
        let ground = ExtentMap::new(1_000 * EXTENT_BYTES - 5, 100_000 * EXTENT_BYTES);
        let mut places: Vec<u64> = (0..1_000)
            .map(|extent| ground.place(extent * EXTENT_BYTES))
            .collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 1_000);
        assert!(
            places
                .windows(2)
                .all(|two| two[1] - two[0] >= 2 * EXTENT_BYTES)
        );
    }
}
