//! Layout of a stream: its pieces within its files, and their positions on the device.
//!
//! A stream has two address spaces. *Logical* offsets count the bytes of its parts without gaps;
//! chains use them. *Pieces* count units of memory; each part begins a new piece, so that a chunk
//! file is one or more whole pieces.
//!
//! Invariants: every piece lies in exactly one part and holds at least one byte; logical offsets
//! and piece numbers grow together.

use alloc::vec::Vec;

use headlong_flash::{FileKey, PieceId};

use crate::stream::{Extent, PartSpec};

/// The location of one piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PiecePlace {
    /// Index of the part.
    pub(crate) part: u32,
    /// First byte, within the part.
    pub(crate) offset: u64,
    /// Bytes in it.
    pub(crate) length: u64,
    /// First byte, within the stream.
    pub(crate) logical: u64,
}

/// The parts of one stream, cut into pieces.
#[derive(Debug)]
pub(crate) struct Layout {
    piece_bytes: u64,
    parts: Vec<LayoutPart>,
    piece_count: u32,
    size_bytes: u64,
}

#[derive(Debug)]
struct LayoutPart {
    first_piece: u32,
    logical_start: u64,
    size_bytes: u64,
    extents: Vec<Extent>,
    flash_key: Option<FileKey>,
    is_absent: bool,
}

impl Layout {
    /// Divides the parts into pieces; `None` if there are more than can be numbered.
    pub(crate) fn new(parts: Vec<PartSpec>, piece_bytes: u64) -> Option<Self> {
        let mut layout = Self {
            piece_bytes,
            parts: Vec::with_capacity(parts.len()),
            piece_count: 0,
            size_bytes: 0,
        };
        layout.append(parts).then_some(layout)
    }

    /// Appends parts. Returns `false` if there would be more pieces than can be numbered; the parts
    /// from there on are left out.
    pub(crate) fn append(&mut self, parts: Vec<PartSpec>) -> bool {
        for part in parts {
            let pieces = u32::try_from(part.size_bytes.div_ceil(self.piece_bytes));
            let piece_count = pieces.ok().and_then(|of| self.piece_count.checked_add(of));
            let size_bytes = self.size_bytes.checked_add(part.size_bytes);
            let (Some(piece_count), Some(size_bytes)) = (piece_count, size_bytes) else {
                return false;
            };
            self.parts.push(LayoutPart {
                first_piece: self.piece_count,
                logical_start: self.size_bytes,
                size_bytes: part.size_bytes,
                extents: part.extents,
                flash_key: part.flash_key,
                is_absent: part.is_absent,
            });
            (self.piece_count, self.size_bytes) = (piece_count, size_bytes);
        }
        true
    }

    /// Number of pieces.
    pub(crate) fn piece_count(&self) -> u32 {
        self.piece_count
    }

    /// Number of parts.
    pub(crate) fn part_count(&self) -> usize {
        self.parts.len()
    }

    /// Bytes in all parts.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Bytes in one part; `None` if there is no such part.
    pub(crate) fn part_bytes(&self, part: u32) -> Option<u64> {
        self.parts.get(part as usize).map(|part| part.size_bytes)
    }

    /// A part appeared or was removed: updates its location and presence. Its size must be
    /// unchanged.
    pub(crate) fn set_part(&mut self, part: u32, spec: PartSpec) {
        let known = self.parts.get_mut(part as usize);
        if let Some(known) = known.filter(|known| known.size_bytes == spec.size_bytes) {
            known.extents = spec.extents;
            known.flash_key = spec.flash_key;
            known.is_absent = spec.is_absent;
        }
    }

    /// The location of a part became known; returns whether it differs from the one assumed.
    pub(crate) fn set_extents(&mut self, part: u32, extents: Vec<Extent>) -> bool {
        let known = self.parts.get_mut(part as usize);
        let known = known.filter(|known| known.extents != extents);
        known.map(|known| known.extents = extents).is_some()
    }

    /// End of the pieces of `from..to` that lie in present parts, up to the first absent part.
    pub(crate) fn present_until(&self, from: u32, to: u32) -> u32 {
        let first = self.parts.partition_point(|part| part.first_piece <= from);
        let parts = self.parts.iter().skip(first.saturating_sub(1));
        let mut here = parts.take_while(|part| part.first_piece < to);
        let absent = here.find(|part| part.is_absent && part.size_bytes > 0);
        absent.map_or(to, |part| part.first_piece.max(from))
    }

    /// Logical offset of a byte of a part.
    pub(crate) fn logical(&self, part: u32, offset: u64) -> u64 {
        self.parts[part as usize].logical_start + offset
    }

    /// The piece that holds a byte of a part.
    pub(crate) fn piece_at(&self, part: u32, offset: u64) -> u32 {
        self.parts[part as usize].first_piece + (offset / self.piece_bytes) as u32
    }

    /// The piece that holds a logical offset; the number of pieces at or past the end.
    pub(crate) fn piece_at_logical(&self, logical: u64) -> u32 {
        if logical >= self.size_bytes {
            return self.piece_count;
        }
        // The last part that starts at or before the offset; empty parts start where the next one
        // does, so the last of them is the one with the bytes.
        let index = self
            .parts
            .partition_point(|part| part.logical_start <= logical)
            - 1;
        let part = &self.parts[index];
        part.first_piece + ((logical - part.logical_start) / self.piece_bytes) as u32
    }

    /// The location of a piece.
    pub(crate) fn place(&self, piece: u32) -> PiecePlace {
        debug_assert!(piece < self.piece_count);
        let index = self.parts.partition_point(|part| part.first_piece <= piece) - 1;
        let part = &self.parts[index];
        let offset = u64::from(piece - part.first_piece) * self.piece_bytes;
        PiecePlace {
            part: index as u32,
            offset,
            length: self.piece_bytes.min(part.size_bytes - offset),
            logical: part.logical_start + offset,
        }
    }

    /// The identity of a piece on flash and its length, if it may be stored there.
    pub(crate) fn flash_piece(&self, piece: u32) -> Option<(PieceId, u64)> {
        let place = self.place(piece);
        let part = &self.parts[place.part as usize];
        let id = PieceId {
            file: part.flash_key?,
            piece: piece - part.first_piece,
        };
        Some((id, place.length))
    }

    /// The flash key of each part.
    pub(crate) fn flash_keys(&self) -> impl Iterator<Item = Option<FileKey>> {
        self.parts.iter().map(|part| part.flash_key)
    }

    /// Logical offset at which a piece starts; the size of the stream past the last one.
    pub(crate) fn logical_of_piece(&self, piece: u32) -> u64 {
        if piece >= self.piece_count {
            self.size_bytes
        } else {
            self.place(piece).logical
        }
    }

    /// Position on the device of a byte of a part; `None` if the file system did not report it.
    pub(crate) fn physical(&self, part: u32, offset: u64) -> Option<u64> {
        let extents = &self.parts[part as usize].extents;
        let index = extents
            .partition_point(|extent| extent.offset <= offset)
            .checked_sub(1)?;
        let extent = extents[index];
        let within = offset - extent.offset;
        // A hole has no position; the end of the extent before it is as near as any.
        Some(extent.physical + within.min(extent.length))
    }

    /// Position on the device of the start of a piece.
    pub(crate) fn physical_of_piece(&self, piece: u32) -> Option<u64> {
        let place = self.place(piece);
        self.physical(place.part, place.offset)
    }

    /// Position on the device of the end of a piece.
    pub(crate) fn physical_end_of_piece(&self, piece: u32) -> Option<u64> {
        let place = self.place(piece);
        let start = self.physical(place.part, place.offset)?;
        Some(start + place.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    fn layout(sizes: &[u64]) -> Layout {
        let part = |&size_bytes| PartSpec {
            size_bytes,
            extents: vec![],
            flash_key: None,
            is_absent: false,
        };
        Layout::new(sizes.iter().map(part).collect(), 10).expect("few pieces")
    }

    #[test]
    fn every_part_begins_a_new_piece() {
        let layout = layout(&[25, 0, 5]);
        assert_eq!(layout.piece_count(), 4);
        assert_eq!(
            layout.place(2),
            PiecePlace {
                part: 0,
                offset: 20,
                length: 5,
                logical: 20
            }
        );
        assert_eq!(
            layout.place(3),
            PiecePlace {
                part: 2,
                offset: 0,
                length: 5,
                logical: 25
            }
        );
        assert_eq!(layout.piece_at_logical(25), 3);
        assert_eq!(layout.piece_at_logical(30), 4);
    }

    #[test]
    fn pieces_end_at_absent_part_until_it_appears() {
        let mut layout = layout(&[25, 15, 5]);
        let part = |size_bytes, is_absent| PartSpec {
            size_bytes,
            is_absent,
            ..PartSpec::default()
        };
        assert_eq!(layout.present_until(1, 6), 6);
        layout.set_part(1, part(15, true));
        assert_eq!(layout.present_until(0, 2), 2);
        assert_eq!(layout.present_until(1, 6), 3);
        assert_eq!(layout.present_until(4, 6), 4);
        assert_eq!(layout.present_until(5, 6), 6);
        // A spec of another size belongs to another version.
        layout.set_part(1, part(16, false));
        assert_eq!(layout.present_until(1, 6), 3);
        layout.set_part(1, part(15, false));
        assert_eq!(layout.present_until(1, 6), 6);
    }

    #[test]
    fn positions_come_from_extent_of_the_byte() {
        let extents = vec![
            Extent {
                offset: 0,
                physical: 1000,
                length: 20,
            },
            Extent {
                offset: 20,
                physical: 500,
                length: 20,
            },
        ];
        let layout = Layout::new(
            vec![PartSpec {
                size_bytes: 40,
                extents,
                flash_key: None,
                is_absent: false,
            }],
            10,
        )
        .expect("few");
        assert_eq!(layout.physical(0, 19), Some(1019));
        assert_eq!(layout.physical_of_piece(3), Some(510));
    }

    #[test]
    fn location_replaces_assumed_one_once() {
        let mut layout = layout(&[40]);
        assert_eq!(layout.physical(0, 5), None);
        let extents = vec![Extent {
            offset: 0,
            physical: 700,
            length: 40,
        }];
        assert!(layout.set_extents(0, extents.clone()));
        assert_eq!(layout.physical(0, 5), Some(705));
        assert!(!layout.set_extents(0, extents.clone()));
        assert!(!layout.set_extents(1, extents), "there is no such part");
    }

    proptest! {
        #[test]
        fn pieces_and_logical_offsets_agree(sizes in prop::collection::vec(0u64..50, 1..8)) {
            let layout = layout(&sizes);
            let mut logical = 0;
            for piece in 0..layout.piece_count() {
                let place = layout.place(piece);
                prop_assert!(place.length > 0);
                prop_assert_eq!(place.logical, logical);
                for byte in 0..place.length {
                    prop_assert_eq!(layout.piece_at_logical(logical + byte), piece);
                    prop_assert_eq!(layout.piece_at(place.part, place.offset + byte), piece);
                }
                logical += place.length;
            }
            prop_assert_eq!(logical, layout.size_bytes());
        }
    }
}
