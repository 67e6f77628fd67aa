//! Placement of the files of a catalogue: disk and address.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use headlong_player::ObjectId;
use headlong_units::{BitRate, Bytes};
use headlong_workload::{Catalogue, Title};

/// One file of a catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayoutFile {
    /// Its name in the trace; `None` if no request names it.
    pub object: Option<ObjectId>,
    /// Size of the file.
    pub size_bytes: u64,
    /// Average bit rate; the server knows it only if the setup says so.
    pub bit_rate: Option<BitRate>,
    /// For titles in several files: number of the title and of the part. The parts of a title are
    /// consecutive.
    pub part: Option<(u32, u32)>,
    /// Disk of the file, from 0; all parts of a title lie on the same disk.
    pub disk: u32,
}

/// A file and its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileLocation {
    pub(crate) physical: u64,
    pub(crate) size_bytes: u64,
    pub(crate) bit_rate: Option<BitRate>,
    pub(crate) part: Option<TitlePart>,
    pub(crate) disk: u32,
}

impl FileLocation {
    /// Address of its title.
    pub(crate) fn title_physical(&self) -> u64 {
        self.part
            .as_ref()
            .map_or(self.physical, |part| part.title_physical)
    }

    /// The same file of a copy of its title.
    #[must_use]
    pub(crate) fn of_copy(&self, copy: TitleCopy) -> Self {
        let offset = self.physical - self.title_physical();
        let part = self.part.clone().map(|part| TitlePart {
            title_physical: copy.physical,
            ..part
        });
        Self {
            physical: copy.physical + offset,
            part,
            disk: copy.disk,
            ..self.clone()
        }
    }
}

/// A further copy of a title.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TitleCopy {
    pub(crate) disk: u32,
    /// Address of the title.
    pub(crate) physical: u64,
}

/// Part number of a file in its title, and the layout of the title: a server that knows the
/// playlist reads ahead from one file into the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TitlePart {
    pub(crate) title: u32,
    pub(crate) number: u32,
    title_physical: u64,
    /// Sizes of all parts of the title, in order; shared by its files.
    sizes_bytes: Arc<[u64]>,
}

impl TitlePart {
    /// Start address and size of each part of the title.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut next = self.title_physical;
        self.sizes_bytes.iter().map(move |size_bytes| {
            let physical = next;
            next += size_bytes.next_multiple_of(BLOCK_BYTES);
            (physical, *size_bytes)
        })
    }
}

/// Placement of files on a disk, in order of creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Placement {
    /// Consecutive from the start of the device.
    #[default]
    Packed,
    /// Evenly over the whole device: ext4 fills it from many places at once and leaves free space
    /// between (requests of viewers are then spread over all of the disk, as observed on a disk of
    /// 1 TB with 755 GiB of titles).
    Spread,
}

/// The disks that hold the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DiskArray {
    pub(crate) count: u32,
    /// Capacity of each disk.
    pub(crate) capacity_bytes: u64,
    pub(crate) placement: Placement,
}

/// The files of a catalogue in order of creation, each in one extent.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    places: Vec<Option<FileLocation>>,
}

impl DiskArray {
    /// The fraction by which packed addresses are scaled on each disk, given the bytes that each
    /// disk holds.
    ///
    /// # Errors
    /// The needed and the available bytes, if a disk is too small.
    fn spreads(&self, needed_bytes: &[u64]) -> Result<Vec<(u64, u64)>, String> {
        for (disk, needed) in needed_bytes.iter().enumerate() {
            if *needed > self.capacity_bytes {
                return Err(self.misfit(disk, Bytes(*needed)));
            }
        }
        let spread = |needed: &u64| match self.placement {
            Placement::Packed => (1, 1),
            Placement::Spread => (self.capacity_bytes, (*needed).max(1)),
        };
        Ok(needed_bytes.iter().map(spread).collect())
    }

    fn misfit(&self, disk: usize, needed: Bytes) -> String {
        let there = Bytes(self.capacity_bytes);
        match self.count {
            0 | 1 => format!(
                "the catalogue needs {needed} and the drive has {there}; choose a larger drive or \
                 fewer titles"
            ),
            count => format!(
                "disk {disk} of {count} gets {needed} of the catalogue and has {there}; choose \
                 larger drives, more of them, or fewer titles"
            ),
        }
    }

    /// A zero for each disk.
    fn zeros(&self) -> Vec<u64> {
        vec![0; self.count.max(1) as usize]
    }
}

/// Start address of each title of a catalogue: the same addresses as [`Layout::new`] gives to the
/// individual files.
#[derive(Debug, Clone)]
pub(crate) struct TitlePlacement<'a> {
    catalogue: &'a Catalogue,
    /// The disk of each title, by number.
    disks: Vec<u32>,
    /// The fraction by which packed addresses are scaled, for each disk.
    spreads: Vec<(u64, u64)>,
    /// By number of title.
    starts: Vec<u64>,
    /// Copies besides the first, by number of title.
    further: BTreeMap<u32, Vec<TitleCopy>>,
    /// Sizes of the files of each split title that has been requested.
    sizes_bytes: RefCell<BTreeMap<u32, Arc<[u64]>>>,
}

impl<'a> TitlePlacement<'a> {
    /// Distributes the titles over the disks by [`disk_of`].
    ///
    /// # Errors
    /// The needed and the available bytes, if the titles do not fit.
    pub(crate) fn new(catalogue: &'a Catalogue, disks: DiskArray) -> Result<Self, String> {
        let numbers = 0..catalogue.titles.len() as u32;
        let disk = |number| disk_of(number, disks.count);
        Self::with_disks(
            catalogue,
            disks,
            numbers.map(disk).collect(),
            BTreeMap::new(),
        )
    }

    /// The same, with the disk of each title, and the disks of further copies by its number.
    ///
    /// # Errors
    /// The needed and the available bytes, if the titles do not fit.
    pub(crate) fn with_disks(
        catalogue: &'a Catalogue,
        disks: DiskArray,
        disks_of_titles: Vec<u32>,
        further_disks: BTreeMap<u32, Vec<u32>>,
    ) -> Result<Self, String> {
        let mut further: BTreeMap<u32, Vec<TitleCopy>> = BTreeMap::new();
        let mut starts = vec![0; catalogue.titles.len()];
        let mut next = disks.zeros();
        for number in &catalogue.creation_order {
            let Some(title) = catalogue.titles.get(*number as usize) else {
                continue;
            };
            let rooms = catalogue
                .ranges(title)
                .map(|range| range.len().next_multiple_of(BLOCK_BYTES));
            let room = rooms.sum::<u64>();
            let mut take = |disk: u32| {
                let next = &mut next[disk as usize];
                *next += room;
                *next - room
            };
            starts[*number as usize] = take(disks_of_titles[*number as usize]);
            if let Some(copies) = further_disks.get(number) {
                let copy = |disk: &u32| TitleCopy {
                    disk: *disk,
                    physical: take(*disk),
                };
                further.insert(*number, copies.iter().map(copy).collect());
            }
        }
        let spreads = disks.spreads(&next)?;
        for copy in further.values_mut().flatten() {
            copy.physical = spread(copy.physical, spreads[copy.disk as usize]);
        }
        Ok(Self {
            catalogue,
            disks: disks_of_titles,
            spreads,
            starts,
            further,
            sizes_bytes: RefCell::default(),
        })
    }

    /// Copies of titles besides the first, by number of title.
    pub(crate) fn further_copies(&self) -> &BTreeMap<u32, Vec<TitleCopy>> {
        &self.further
    }

    /// Address of the file that begins `start` bytes into the first copy of a title.
    pub(crate) fn place(&self, (number, start): (u32, u64)) -> Option<FileLocation> {
        let title = self.catalogue.titles.get(number as usize)?;
        let disk = *self.disks.get(number as usize)?;
        let by = self.spreads[disk as usize];
        let title_physical = spread(self.starts[number as usize], by);
        let bit_rate = Some(BitRate(title.bit_rate() as u64));
        if !self.catalogue.form.is_split() {
            return Some(FileLocation {
                physical: title_physical,
                size_bytes: title.file_bytes,
                bit_rate,
                part: None,
                disk,
            });
        }
        let place = self.catalogue.place_of(title, start);
        let part = TitlePart {
            title: number,
            number: place as u32,
            title_physical,
            sizes_bytes: self.sizes_bytes(title),
        };
        let (physical, size_bytes) = part.all().nth(place as usize)?;
        Some(FileLocation {
            physical,
            size_bytes,
            bit_rate,
            part: Some(part),
            disk,
        })
    }

    /// Sizes of all files of a title; computed once and shared.
    fn sizes_bytes(&self, title: &Title) -> Arc<[u64]> {
        let mut known = self.sizes_bytes.borrow_mut();
        let sizes = || self.catalogue.ranges(title).map(|range| range.len());
        let sizes_bytes = known
            .entry(title.number)
            .or_insert_with(|| sizes().collect());
        Arc::clone(sizes_bytes)
    }
}

/// Bytes that a file occupies on the device.
fn room(file: &LayoutFile) -> u64 {
    file.size_bytes.next_multiple_of(BLOCK_BYTES)
}

fn is_same_title(one: &LayoutFile, other: &LayoutFile) -> bool {
    let title = |file: &LayoutFile| file.part.map(|(title, _)| title);
    title(one).is_some() && title(one) == title(other)
}

/// Scales the address of a packed file for spread placement.
fn spread(physical: u64, (times, by): (u64, u64)) -> u64 {
    let place = u128::from(physical) * u128::from(times) / u128::from(by);
    place as u64 / BLOCK_BYTES * BLOCK_BYTES
}

/// Blocks of the file system; each file begins at a block boundary.
const BLOCK_BYTES: u64 = 4096;

impl Layout {
    /// # Errors
    /// The needed and the available bytes, if the files do not fit.
    pub(crate) fn new(files: &[LayoutFile], disks: DiskArray) -> Result<Self, String> {
        let objects = files.iter().filter_map(|file| file.object);
        let count = objects.map(|object| object.0 as usize + 1).max();
        let mut places = vec![None; count.unwrap_or(0)];
        let mut needed_bytes = disks.zeros();
        for file in files {
            let Some(needed) = needed_bytes.get_mut(file.disk as usize) else {
                let (disk, count) = (file.disk, disks.count);
                return Err(format!(
                    "disk {disk} of a file is out of range: there are {count} disks, from 0"
                ));
            };
            *needed += room(file);
        }
        let spreads = disks.spreads(&needed_bytes)?;
        let mut next = disks.zeros();
        for title in files.chunk_by(is_same_title) {
            let disk = title.first().map_or(0, |file| file.disk);
            let next = &mut next[disk as usize];
            let title_physical = spread(*next, spreads[disk as usize]);
            let sizes_bytes: Arc<[u64]> = title.iter().map(|file| file.size_bytes).collect();
            let mut physical = title_physical;
            for file in title {
                let part = file.part.map(|(number, part)| TitlePart {
                    title: number,
                    number: part,
                    title_physical,
                    sizes_bytes: Arc::clone(&sizes_bytes),
                });
                if let Some(object) = file.object {
                    places[object.0 as usize] = Some(FileLocation {
                        physical,
                        size_bytes: file.size_bytes,
                        bit_rate: file.bit_rate,
                        part,
                        disk,
                    });
                }
                physical += room(file);
            }
            *next += physical - title_physical;
        }
        Ok(Self { places })
    }

    /// A layout without known files.
    pub(crate) fn empty() -> Self {
        Self { places: Vec::new() }
    }

    /// Adds a file before its first request.
    pub(crate) fn know(&mut self, object: ObjectId, place: FileLocation) {
        let index = object.0 as usize;
        if index >= self.places.len() {
            self.places.resize(index + 1, None);
        }
        self.places[index] = Some(place);
    }

    pub(crate) fn place(&self, object: ObjectId) -> Option<FileLocation> {
        self.places.get(object.0 as usize).cloned().flatten()
    }

    /// The disk of a file.
    pub(crate) fn disk(&self, object: ObjectId) -> Option<u32> {
        Some(self.places.get(object.0 as usize)?.as_ref()?.disk)
    }
}

// Titles are assigned whole, by a hash of their number, because popularity is not known when a
// server is filled. Popular titles end up unevenly distributed, as on an operator's disks.

/// The disk of a title, out of `disks`.
pub(crate) fn disk_of(title: u32, disks: u32) -> u32 {
    // SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): consecutive numbers get unrelated values.
    let mut mixed = u64::from(title).wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    (mixed % u64::from(disks.max(1))) as u32
}

#[cfg(test)]
mod tests {
    use headlong_workload::{Specification, generate};

    use super::*;
    use crate::files_of;

    #[test]
    fn titles_have_same_addresses_as_single_files() {
        for (chunk, placement, count) in [
            ("off", Placement::Packed, 1),
            ("512KiB", Placement::Spread, 1),
            ("100008B", Placement::Packed, 3),
            ("segment", Placement::Spread, 5),
        ] {
            let overrides = [
                ("catalogue.chunk", chunk),
                ("sessions.count", "100"),
                ("title.sd.count", "50"),
            ];
            let overrides = overrides.map(|(key, value)| (key.to_owned(), value.to_owned()));
            let specification = Specification::preset("youtube-2011", &overrides).expect("right");
            let workload = generate(&specification, 1);
            let (catalogue, trace) = (&workload.catalogue, &workload.trace);
            let disks = DiskArray {
                count,
                capacity_bytes: 1 << 40,
                placement,
            };
            let layout = Layout::new(&files_of(catalogue, trace, count), disks).expect("fits");
            let ground = TitlePlacement::new(catalogue, disks).expect("fits");
            let mut stream = headlong_workload::SessionStream::new(&specification, catalogue, 1);
            assert_eq!((&mut stream).count(), 100);
            for id in 0..stream.object_count() as u32 {
                let key = stream.object(ObjectId(id)).expect("named");
                assert_eq!(
                    ground.place(key),
                    layout.place(ObjectId(id)),
                    "{chunk} {id}"
                );
            }
        }
    }

    #[test]
    fn titles_spread_evenly_over_disks() {
        let mut counts = [0_u32; 36];
        (0..36_000).for_each(|title| counts[disk_of(title, 36) as usize] += 1);
        // A thousand each, plus or minus four standard deviations.
        let is_even = |count: &u32| (870..1130).contains(count);
        assert!(counts.iter().all(is_even), "{counts:?}");
        assert!((0..100).all(|title| disk_of(title, 1) == 0));
    }
}
