//! What is asked for (FlashStream 5.1): single segments of many titles, at a constant rate.

use headlong_units::Duration;
use headlong_workload::specification::Extent;
use headlong_workload::{Catalogue, SessionStream, Specification};

/// Titles of the paper's data set.
const TITLES: u64 = 2_000;
/// A file begins on a block of the file system.
const FILE_BLOCK_BYTES: u64 = 4_096;
/// Titles lie in extents of this size, which no segment is larger than.
const EXTENT_BYTES: u64 = 4 << 20;
/// More requests than any measurement has.
const ENDLESS: Extent = Extent::Time(Duration::from_secs(1_000_000_000));

/// A segment: where its bytes lie on the disk, which is its name too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Segment {
    /// First byte on the disk.
    pub(super) physical: u64,
    /// How many.
    pub(super) bytes: u32,
}

/// The titles, and where they lie on a disk.
#[derive(Debug)]
pub(super) struct Library {
    specification: Specification,
    catalogue: Catalogue,
    /// By number of title, as if all lay one behind the other.
    starts: Vec<u64>,
    ground: Ground,
}

/// Extents all over a disk, each far from the next of its title: so the way from one request to the
/// next is as long with ten titles as with two thousand, of which hardly two in a row are of one.
#[derive(Debug, Clone, Copy)]
struct Ground {
    extents: u64,
    /// An extent's successor lies so many places on.
    stride: u64,
    /// From one place to the next.
    pitch_bytes: u64,
}

impl Ground {
    fn new(bytes: u64, disk_bytes: u64) -> Self {
        let extents = bytes.div_ceil(EXTENT_BYTES).max(1);
        // By the golden ratio, and so that every place is taken once.
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

/// The workload, with so many times fewer titles and Zipf's law with this exponent.
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

impl Library {
    /// Titles lie all over a disk of so many bytes.
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
            ground: Ground::new(bytes, disk_bytes),
        }
    }

    /// Requests from now on, so many in a second; another seed, other segments.
    pub(super) fn requests(&self, per_second: f64, seed: u64) -> Requests<'_> {
        Requests {
            sessions: SessionStream::new(&self.specification, &self.catalogue, seed),
            starts: &self.starts,
            ground: self.ground,
            gap: Duration((1e9 / per_second.max(1e-3)) as u64),
        }
    }
}

/// Segments one after the other, and the time between two.
pub(super) struct Requests<'l> {
    sessions: SessionStream<'l>,
    starts: &'l [u64],
    ground: Ground,
    /// From one to the next.
    pub(super) gap: Duration,
}

impl Requests<'_> {
    /// So many in a second from now on.
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

    /// Mean way of the arm between two requests, as a part of the disk.
    fn mean_way(scale: u64) -> f64 {
        let disk_bytes = 1_000_000_000_000;
        let library = Library::new(scale, 0.8, disk_bytes);
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
    fn a_smaller_library_has_the_arm_go_as_far_as_the_whole_one() {
        // Two places anywhere are a third apart in the mean.
        for scale in [1, 16, 200] {
            let way = mean_way(scale);
            assert!((0.31..0.36).contains(&way), "{scale}: {way}");
        }
    }

    #[test]
    fn no_two_extents_lie_at_one_place() {
        let ground = Ground::new(1_000 * EXTENT_BYTES - 5, 100_000 * EXTENT_BYTES);
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
