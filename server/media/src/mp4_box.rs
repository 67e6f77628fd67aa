//! Boxes of ISO base media files (ISO/IEC 14496-12, 4.2): headers, and the boxes inside a box.

use crate::mp4_fault::Mp4Fault;

/// Size of a box header; 16 bytes with a 64-bit length.
pub(crate) const HEADER_BYTES: u64 = 8;
pub(crate) const LONG_HEADER_BYTES: u64 = 16;

/// The header of a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mp4BoxHeader {
    /// Its type.
    pub kind: [u8; 4],
    /// Bytes of the header: 8 or 16.
    pub header_bytes: u64,
    /// End of the box, from the start of the file; never before that of the header.
    pub end: u64,
}

impl Mp4BoxHeader {
    /// Reads the header of the box at `start` in a file, whose first bytes are `bytes`; it is in a
    /// box, or a file, that ends at `limit`. `None` if 16 bytes are needed.
    ///
    /// # Errors
    /// The length is impossible. A box that is not `is_nested` may end beyond `limit`: the file may
    /// be truncated.
    pub fn read(
        bytes: &[u8],
        start: u64,
        limit: u64,
        is_nested: bool,
    ) -> Result<Option<Self>, Mp4Fault> {
        let kind = array(bytes, 4).ok_or(Mp4Fault::NotMp4)?;
        let short = u32::from_be_bytes(array(bytes, 0).unwrap_or_default());
        // Detects other formats: names of boxes are printable.
        if start == 0 && !kind.iter().all(|byte| (0x20..0x7f).contains(byte)) {
            return Err(Mp4Fault::NotMp4);
        }
        let broken = match start {
            0 => Mp4Fault::NotMp4,
            _ => Mp4Fault::Broken(kind),
        };
        let left = limit.checked_sub(start).ok_or(broken)?;
        let (header_bytes, length) = match short {
            0 => (HEADER_BYTES, left),
            1 if left < LONG_HEADER_BYTES => return Err(broken),
            1 => match array(bytes, 8) {
                Some(length) => (LONG_HEADER_BYTES, u64::from_be_bytes(length)),
                None => return Ok(None),
            },
            length => (HEADER_BYTES, u64::from(length)),
        };
        let end = start.checked_add(length).ok_or(broken)?;
        if length < header_bytes || (is_nested && end > limit) {
            return Err(broken);
        }
        Ok(Some(Self {
            kind,
            header_bytes,
            end,
        }))
    }
}

/// A box in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mp4Box<'a> {
    /// Its type.
    pub kind: [u8; 4],
    /// The box with its header.
    pub whole: &'a [u8],
    /// Its contents.
    pub body: &'a [u8],
}

/// The boxes in the body of a box, which must be in memory as a whole. Ends after the first broken
/// one, and where fewer bytes are left than a header has.
pub fn mp4_boxes(body: &[u8]) -> impl Iterator<Item = Result<Mp4Box<'_>, Mp4Fault>> {
    let mut left = body;
    core::iter::from_fn(move || {
        if (left.len() as u64) < HEADER_BYTES {
            return None;
        }
        let here = core::mem::take(&mut left);
        // A nested box never begins a file.
        let start = HEADER_BYTES;
        let header = Mp4BoxHeader::read(here, start, start + here.len() as u64, true);
        let header = match header {
            Ok(Some(header)) => header,
            Ok(None) => return Some(Err(Mp4Fault::Broken(array(here, 4).unwrap_or_default()))),
            Err(fault) => return Some(Err(fault)),
        };
        let length = (header.end - start) as usize;
        left = &here[length..];
        Some(Ok(Mp4Box {
            kind: header.kind,
            whole: &here[..length],
            body: &here[header.header_bytes as usize..length],
        }))
    })
}

/// `N` bytes from `at` on.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}
