//! What the boxes have fetched and keep on their disks.
//!
//! The unit is the bytes of one request: a chunk file, or the range of a segment. An edge keeps
//! slices; viewers of a title request the same ranges, so both keep the same bytes, apart from the
//! rounding to whole slices.
//!
//! Invariant: a box keeps at most its limit; what it fetched first is dropped first.

use std::collections::{BTreeMap, VecDeque};

use headlong_player::ObjectId;
use headlong_units::{BitRate, ByteRange};

use crate::layout::FileLocation;

/// A range of a file at a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PartKey {
    of_box: usize,
    object: u32,
    start: u64,
    end: u64,
}

impl PartKey {
    pub(crate) fn new(of_box: usize, object: ObjectId, range: ByteRange) -> Self {
        Self {
            of_box,
            object: object.0,
            start: range.start,
            end: range.end,
        }
    }

    /// The box that wants it, or has it.
    pub(crate) fn of_box(&self) -> usize {
        self.of_box
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.end - self.start
    }
}

/// Fetched bytes: a file of their own at their box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PulledPart {
    /// Names the file at its box.
    pub(crate) file: ObjectId,
    /// Disk of the box.
    pub(crate) disk: u32,
    pub(crate) physical: u64,
    pub(crate) bytes: u64,
}

impl PulledPart {
    pub(crate) fn place(&self, bit_rate: Option<BitRate>) -> FileLocation {
        FileLocation {
            physical: self.physical,
            size_bytes: self.bytes,
            bit_rate,
            part: None,
            disk: self.disk,
        }
    }
}

/// The part of a disk that holds fetched bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PullSpace {
    pub(crate) first: u64,
    pub(crate) bytes: u64,
}

#[derive(Debug, Clone, Default)]
struct BoxParts {
    /// In the order of fetching.
    order: VecDeque<PartKey>,
    bytes: u64,
    /// Next position on each disk.
    cursors: Vec<u64>,
    fetched: usize,
}

/// Fetched parts of all boxes.
#[derive(Debug)]
pub(crate) struct PulledParts {
    parts: BTreeMap<PartKey, PulledPart>,
    boxes: Vec<BoxParts>,
    /// On each disk.
    space: PullSpace,
    kept_bytes: u64,
    files: u32,
}

impl PulledParts {
    pub(crate) fn new(boxes: usize, disks: u32, space: PullSpace) -> Self {
        let of_box = BoxParts {
            cursors: vec![0; disks as usize],
            ..BoxParts::default()
        };
        Self {
            parts: BTreeMap::new(),
            boxes: vec![of_box; boxes],
            space,
            kept_bytes: space.bytes * u64::from(disks),
            files: 0,
        }
    }

    pub(crate) fn get(&self, key: &PartKey) -> Option<&PulledPart> {
        self.parts.get(key)
    }

    /// Keeps what has come; none if it is larger than the space on a disk.
    pub(crate) fn add(&mut self, key: PartKey) -> Option<PulledPart> {
        let bytes = key.bytes();
        if bytes > self.space.bytes {
            return None;
        }
        let of_box = &mut self.boxes[key.of_box];
        let disk = of_box.fetched % of_box.cursors.len();
        of_box.fetched += 1;
        let cursor = &mut of_box.cursors[disk];
        if *cursor + bytes > self.space.bytes {
            *cursor = 0;
        }
        // Files of the catalogue count from 0.
        self.files += 1;
        let part = PulledPart {
            file: ObjectId(u32::MAX - self.files),
            disk: disk as u32,
            physical: self.space.first + *cursor,
            bytes,
        };
        *cursor += bytes;
        of_box.bytes += bytes;
        of_box.order.push_back(key);
        self.parts.insert(key, part);
        while of_box.bytes > self.kept_bytes
            && let Some(oldest) = of_box.order.pop_front()
        {
            self.parts.remove(&oldest);
            of_box.bytes -= oldest.bytes();
        }
        Some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> PulledParts {
        let space = PullSpace {
            first: 1000,
            bytes: 100,
        };
        PulledParts::new(2, 2, space)
    }

    fn key(of_box: usize, object: u32, bytes: u64) -> PartKey {
        PartKey::new(of_box, ObjectId(object), ByteRange::new(0, bytes))
    }

    #[test]
    fn oldest_parts_of_a_box_are_dropped_first() {
        let mut parts = parts();
        for object in 0..5 {
            parts.add(key(0, object, 50)).expect("fits");
            parts.add(key(1, object, 10)).expect("fits");
        }
        let kept = |of_box, bytes| -> Vec<u32> {
            let is_kept = |object: &u32| parts.get(&key(of_box, *object, bytes)).is_some();
            (0..5).filter(is_kept).collect()
        };
        assert_eq!(kept(0, 50), [1, 2, 3, 4]);
        assert_eq!(kept(1, 10), [0, 1, 2, 3, 4]);
        assert_eq!(kept(1, 11), [] as [u32; 0], "another range");
    }

    #[test]
    fn parts_alternate_between_disks_within_their_space() {
        let mut parts = parts();
        let mut add = |object| {
            let part = parts.add(key(0, object, 60)).expect("fits");
            (part.disk, part.physical)
        };
        assert_eq!((add(0), add(1)), ((0, 1000), (1, 1000)));
        assert_eq!(
            add(2),
            (0, 1000),
            "from the start, as the rest is too small"
        );
        assert_eq!(parts.add(key(0, 9, 101)), None);
    }
}
