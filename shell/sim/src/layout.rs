//! Where the files of a catalogue lie on the device.

use headlong_player::ObjectId;
use headlong_units::{BitRate, Bytes};

/// One file of a catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct File {
    /// Its name in the trace; `None` if nobody there asks for it.
    pub object: Option<ObjectId>,
    /// Its size.
    pub size_bytes: u64,
    /// Average bit rate, which the server is told only if the setup says so.
    pub bit_rate: Option<BitRate>,
}

/// A file and where it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) physical: u64,
    pub(crate) size_bytes: u64,
    pub(crate) bit_rate: Option<BitRate>,
}

/// Where files come to lie, in the order in which they were created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Placement {
    /// One behind the other from the start of the device.
    #[default]
    Packed,
    /// Evenly over all of the device: ext4 fills it from many places at once and leaves free space
    /// between (requests of viewers are then spread over all of the disk, as seen on a disk of 1 TB
    /// with 755 GiB of titles).
    Spread,
}

/// The files of a catalogue in the order in which they were created; each in one extent.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    places: Vec<Option<Place>>,
}

/// Blocks of the file system; a file begins on one.
const BLOCK_BYTES: u64 = 4096;

impl Layout {
    /// # Errors
    /// What is needed and what there is, if the files do not fit.
    pub(crate) fn new(
        files: &[File],
        capacity_bytes: u64,
        placement: Placement,
    ) -> Result<Self, String> {
        let objects = files.iter().filter_map(|file| file.object);
        let count = objects.map(|object| object.0 as usize + 1).max();
        let mut places = vec![None; count.unwrap_or(0)];
        let mut next = 0_u64;
        for file in files {
            if let Some(object) = file.object {
                places[object.0 as usize] = Some(Place {
                    physical: next,
                    size_bytes: file.size_bytes,
                    bit_rate: file.bit_rate,
                });
            }
            next += file.size_bytes.next_multiple_of(BLOCK_BYTES);
        }
        if next > capacity_bytes {
            let (needed, there) = (Bytes(next), Bytes(capacity_bytes));
            return Err(format!(
                "the catalogue needs {needed} and the drive has {there}; choose a larger drive or \
                 fewer titles"
            ));
        }
        if placement == Placement::Spread {
            let spread = |physical: u64| {
                let place = u128::from(physical) * u128::from(capacity_bytes) / u128::from(next);
                place as u64 / BLOCK_BYTES * BLOCK_BYTES
            };
            for place in places.iter_mut().flatten() {
                place.physical = spread(place.physical);
            }
        }
        Ok(Self { places })
    }

    pub(crate) fn place(&self, object: ObjectId) -> Option<Place> {
        self.places.get(object.0 as usize).copied().flatten()
    }
}
