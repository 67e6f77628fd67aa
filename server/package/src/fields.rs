//! Reading and writing of the numbers in boxes.

use alloc::vec::Vec;

use headlong_media::{Mp4Box, Mp4Fault, mp4_boxes};

use crate::fault::PackageFault;

/// `N` bytes from `at` on.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_be_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_be_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_be_bytes)
}

/// A number of 64 bits in boxes of version 1 and of 32 bits in those of version 0.
pub(crate) fn versioned_at(bytes: &[u8], version: u8, at: usize) -> Option<u64> {
    match version {
        0 => u32_at(bytes, at).map(u64::from),
        _ => u64_at(bytes, at),
    }
}

/// The first box of a kind inside the body of another one.
pub(crate) fn find<'a>(body: &'a [u8], kind: &[u8; 4]) -> Result<Option<Mp4Box<'a>>, PackageFault> {
    for child in mp4_boxes(body) {
        let child = child?;
        if child.kind == *kind {
            return Ok(Some(child));
        }
    }
    Ok(None)
}

/// Like [`find`], for a box that must be there.
pub(crate) fn require<'a>(body: &'a [u8], kind: &[u8; 4]) -> Result<Mp4Box<'a>, PackageFault> {
    find(body, kind)?.ok_or(broken(kind))
}

/// A box is missing or too short.
pub(crate) fn broken(kind: &[u8; 4]) -> PackageFault {
    PackageFault::Headers(Mp4Fault::Broken(*kind))
}

/// Boxes that are being written.
#[derive(Debug, Default)]
pub(crate) struct BoxWriter {
    pub(crate) bytes: Vec<u8>,
}

impl BoxWriter {
    /// Writes a box, whose contents `write` writes. Boxes here are far below 4 GiB.
    pub(crate) fn boxed(&mut self, kind: &[u8; 4], write: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.u32(0).raw(kind);
        write(self);
        let length = u32::try_from(self.bytes.len() - start).unwrap_or(u32::MAX);
        self.patch(start, length);
    }

    /// Writes a box with a version and flags.
    pub(crate) fn full(
        &mut self,
        kind: &[u8; 4],
        version: u8,
        flags: u32,
        write: impl FnOnce(&mut Self),
    ) {
        self.boxed(kind, |w| {
            w.u32(u32::from(version) << 24 | flags);
            write(w);
        });
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    pub(crate) fn u32(&mut self, number: u32) -> &mut Self {
        self.raw(&number.to_be_bytes())
    }

    pub(crate) fn u64(&mut self, number: u64) -> &mut Self {
        self.raw(&number.to_be_bytes())
    }

    /// Replaces four bytes that were written before.
    pub(crate) fn patch(&mut self, at: usize, number: u32) {
        if let Some(place) = self.bytes.get_mut(at..at + 4) {
            place.copy_from_slice(&number.to_be_bytes());
        }
    }
}
