//! Where the files of a catalogue lie: on which disk, and where on it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use headlong_player::ObjectId;
use headlong_units::{BitRate, Bytes};
use headlong_workload::{Catalogue, Title};

use crate::dealing::disk_of;

/// One file of a catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct File {
    /// Its name in the trace; `None` if nobody there asks for it.
    pub object: Option<ObjectId>,
    /// Its size.
    pub size_bytes: u64,
    /// Average bit rate, which the server is told only if the setup says so.
    pub bit_rate: Option<BitRate>,
    /// The title that it is a part of, and which part, if titles are stored in several files. The
    /// parts of a title follow one another.
    pub part: Option<(u32, u32)>,
    /// The disk that it lies on, from 0; all parts of a title lie on one.
    pub disk: u32,
}

/// A file and where it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) physical: u64,
    pub(crate) size_bytes: u64,
    pub(crate) bit_rate: Option<BitRate>,
    pub(crate) part: Option<Part>,
    pub(crate) disk: u32,
}

/// Which part of a title a file is, and how the title lies: a server that knows its playlist reads on
/// from one file to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) title: u32,
    pub(crate) number: u32,
    title_physical: u64,
    /// Of all parts of the title, in order; all its files share it.
    sizes_bytes: Arc<[u64]>,
}

impl Part {
    /// Where each part of the title begins, and its size.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut next = self.title_physical;
        self.sizes_bytes.iter().map(move |size_bytes| {
            let physical = next;
            next += size_bytes.next_multiple_of(BLOCK_BYTES);
            (physical, *size_bytes)
        })
    }
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

/// The disks that files come to lie on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Disks {
    pub(crate) count: u32,
    /// Of each.
    pub(crate) capacity_bytes: u64,
    pub(crate) placement: Placement,
}

/// The files of a catalogue in the order in which they were created; each in one extent.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    places: Vec<Option<Place>>,
}

impl Disks {
    /// What addresses of packed files are multiplied with and divided by on each disk, where so much is
    /// needed.
    ///
    /// # Errors
    /// What is needed and what there is, if a disk has too little room.
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

    /// A zero for each.
    fn zeros(&self) -> Vec<u64> {
        vec![0; self.count.max(1) as usize]
    }
}

/// Where each title of a catalogue begins: the same places as [`Layout::new`] gives to the files one
/// by one.
#[derive(Debug, Clone)]
pub(crate) struct Ground<'a> {
    catalogue: &'a Catalogue,
    disks: u32,
    /// What the addresses of packed files are multiplied with and divided by, on each disk.
    spreads: Vec<(u64, u64)>,
    /// By number of title.
    starts: Vec<u64>,
    /// Of titles in several files, as far as somebody asked for one.
    sizes_bytes: RefCell<BTreeMap<u32, Arc<[u64]>>>,
}

impl<'a> Ground<'a> {
    /// # Errors
    /// What is needed and what there is, if the titles do not fit.
    pub(crate) fn new(catalogue: &'a Catalogue, disks: Disks) -> Result<Self, String> {
        let mut starts = vec![0; catalogue.titles.len()];
        let mut next = disks.zeros();
        for number in &catalogue.creation_order {
            let Some(title) = catalogue.titles.get(*number as usize) else {
                continue;
            };
            let next = &mut next[disk_of(*number, disks.count) as usize];
            starts[*number as usize] = *next;
            let rooms = catalogue
                .ranges(title)
                .map(|range| range.len().next_multiple_of(BLOCK_BYTES));
            *next += rooms.sum::<u64>();
        }
        Ok(Self {
            catalogue,
            disks: disks.count,
            spreads: disks.spreads(&next)?,
            starts,
            sizes_bytes: RefCell::default(),
        })
    }

    /// Where the file lies that begins so far into a title.
    pub(crate) fn place(&self, (number, start): (u32, u64)) -> Option<Place> {
        let title = self.catalogue.titles.get(number as usize)?;
        let disk = disk_of(number, self.disks);
        let by = self.spreads[disk as usize];
        let title_physical = spread(self.starts[number as usize], by);
        let bit_rate = Some(BitRate(title.bit_rate() as u64));
        if !self.catalogue.form.is_split() {
            return Some(Place {
                physical: title_physical,
                size_bytes: title.file_bytes,
                bit_rate,
                part: None,
                disk,
            });
        }
        let place = self.catalogue.place_of(title, start);
        let part = Part {
            title: number,
            number: place as u32,
            title_physical,
            sizes_bytes: self.sizes_bytes(title),
        };
        let (physical, size_bytes) = part.all().nth(place as usize)?;
        Some(Place {
            physical,
            size_bytes,
            bit_rate,
            part: Some(part),
            disk,
        })
    }

    /// Of all files of a title; told once and shared.
    fn sizes_bytes(&self, title: &Title) -> Arc<[u64]> {
        let mut known = self.sizes_bytes.borrow_mut();
        let sizes = || self.catalogue.ranges(title).map(|range| range.len());
        let sizes_bytes = known
            .entry(title.number)
            .or_insert_with(|| sizes().collect());
        Arc::clone(sizes_bytes)
    }
}

/// What a file takes of the device.
fn room(file: &File) -> u64 {
    file.size_bytes.next_multiple_of(BLOCK_BYTES)
}

fn is_same_title(one: &File, other: &File) -> bool {
    let title = |file: &File| file.part.map(|(title, _)| title);
    title(one).is_some() && title(one) == title(other)
}

/// An address of packed files when they are spread: times the one, divided by the other.
fn spread(physical: u64, (times, by): (u64, u64)) -> u64 {
    let place = u128::from(physical) * u128::from(times) / u128::from(by);
    place as u64 / BLOCK_BYTES * BLOCK_BYTES
}

/// Blocks of the file system; a file begins on one.
const BLOCK_BYTES: u64 = 4096;

impl Layout {
    /// # Errors
    /// What is needed and what there is, if the files do not fit.
    pub(crate) fn new(files: &[File], disks: Disks) -> Result<Self, String> {
        let objects = files.iter().filter_map(|file| file.object);
        let count = objects.map(|object| object.0 as usize + 1).max();
        let mut places = vec![None; count.unwrap_or(0)];
        let mut needed_bytes = disks.zeros();
        for file in files {
            let Some(needed) = needed_bytes.get_mut(file.disk as usize) else {
                let (disk, count) = (file.disk, disks.count);
                return Err(format!(
                    "a file lies on disk {disk}, and there are {count} from 0 on"
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
                let part = file.part.map(|(number, part)| Part {
                    title: number,
                    number: part,
                    title_physical,
                    sizes_bytes: Arc::clone(&sizes_bytes),
                });
                if let Some(object) = file.object {
                    places[object.0 as usize] = Some(Place {
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

    /// One in which nothing is known yet.
    pub(crate) fn empty() -> Self {
        Self { places: Vec::new() }
    }

    /// A file that will be asked for.
    pub(crate) fn know(&mut self, object: ObjectId, place: Place) {
        let index = object.0 as usize;
        if index >= self.places.len() {
            self.places.resize(index + 1, None);
        }
        self.places[index] = Some(place);
    }

    pub(crate) fn place(&self, object: ObjectId) -> Option<Place> {
        self.places.get(object.0 as usize).cloned().flatten()
    }

    /// Which disk a file lies on.
    pub(crate) fn disk(&self, object: ObjectId) -> Option<u32> {
        Some(self.places.get(object.0 as usize)?.as_ref()?.disk)
    }
}

#[cfg(test)]
mod tests {
    use headlong_workload::{Specification, generate};

    use super::*;
    use crate::files_of;

    #[test]
    fn titles_lie_where_their_files_would_one_by_one() {
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
            let disks = Disks {
                count,
                capacity_bytes: 1 << 40,
                placement,
            };
            let layout = Layout::new(&files_of(catalogue, trace, count), disks).expect("fits");
            let ground = Ground::new(catalogue, disks).expect("fits");
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
}
