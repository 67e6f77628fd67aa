//! What is asked for (FlashStream 5.1): single segments of many titles, at a constant rate.

use headlong_units::Duration;
use headlong_workload::specification::Extent;
use headlong_workload::{Catalogue, SessionStream, Specification};

/// Titles of the paper's data set.
const TITLES: u64 = 2_000;
/// A file begins on a block of the file system.
const FILE_BLOCK_BYTES: u64 = 4_096;
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
    /// By number of title.
    starts: Vec<u64>,
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
    /// Titles lie evenly over a disk of so many bytes.
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
        let spread = |start: u64| {
            let place = u128::from(start) * u128::from(disk_bytes) / u128::from(bytes.max(1));
            place as u64 / FILE_BLOCK_BYTES * FILE_BLOCK_BYTES
        };
        for start in &mut starts {
            *start = spread(*start);
        }
        Self {
            specification,
            catalogue,
            starts,
        }
    }

    /// Requests from now on, so many in a second; another seed, other segments.
    pub(super) fn requests(&self, per_second: f64, seed: u64) -> Requests<'_> {
        Requests {
            sessions: SessionStream::new(&self.specification, &self.catalogue, seed),
            starts: &self.starts,
            gap: Duration((1e9 / per_second.max(1e-3)) as u64),
        }
    }
}

/// Segments one after the other, and the time between two.
pub(super) struct Requests<'l> {
    sessions: SessionStream<'l>,
    starts: &'l [u64],
    /// From one to the next.
    pub(super) gap: Duration,
}

impl Requests<'_> {
    /// The next segment.
    pub(super) fn next(&mut self) -> Option<Segment> {
        let session = self.sessions.next()?;
        let call = session.calls().first()?;
        let (title, start) = self.sessions.object(call.object)?;
        let range = call.range?;
        Some(Segment {
            physical: self.starts.get(title as usize)? + start + range.start,
            bytes: u32::try_from(range.len()).ok()?,
        })
    }
}
