//! FIEMAP: the location of a file on its device.
//!
//! The only unsafe code of the crate, since no safe wrapper of this ioctl exists.
#![expect(
    unsafe_code,
    reason = "FIEMAP is an ioctl without a safe wrapper; it is used only here"
)]

use std::os::fd::AsFd;

use headlong_engine::Extent;
use rustix::io::{self, Errno};
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};

/// Extents per call; the structure is then 14 KiB, which fits on any stack.
const EXTENTS_PER_CALL: usize = 256;
/// Most extents kept of one file. A more fragmented file has no useful order.
const EXTENTS_MAX: usize = 65_536;

/// Write out unallocated data first.
pub(crate) const FLAG_SYNC: u32 = 1;
const EXTENT_LAST: u32 = 0x1;
/// Unknown (0x2), delayed allocation (0x4), or inside the inode (0x200): no valid position.
const EXTENT_NO_POSITION: u32 = 0x206;

/// `struct fiemap` without its flexible array, for the size in the ioctl's number.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FiemapHeader {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
}

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FiemapExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

#[repr(C)]
struct FiemapRequest {
    header: FiemapHeader,
    extents: [FiemapExtent; EXTENTS_PER_CALL],
}

const FS_IOC_FIEMAP: Opcode = opcode::read_write::<FiemapHeader>(b'f', 11);

/// The extents of a file of `size` bytes in file order, adjoining ones joined, clipped to its size.
/// Empty if the file system does not support the query. `flags` is [`FLAG_SYNC`] or 0.
pub(crate) fn extents(file: impl AsFd, size: u64, flags: u32) -> io::Result<Vec<Extent>> {
    let mut found: Vec<Extent> = Vec::new();
    let mut start = 0;
    while start < size && found.len() < EXTENTS_MAX {
        let mut request = FiemapRequest {
            header: FiemapHeader {
                start,
                length: size - start,
                flags,
                extent_count: EXTENTS_PER_CALL as u32,
                ..FiemapHeader::default()
            },
            extents: [FiemapExtent::default(); EXTENTS_PER_CALL],
        };
        // SAFETY: the opcode is FS_IOC_FIEMAP, which reads and writes a `struct fiemap` followed
        // by `fm_extent_count` extents, and `FiemapRequest` is exactly that, with matching layout.
        let call = unsafe { Updater::<FS_IOC_FIEMAP, FiemapRequest>::new(&mut request) };
        // SAFETY: the kernel writes only inside the structure, which outlives the call; any bit
        // pattern is a valid value of its integer fields.
        match unsafe { ioctl(file.as_fd(), call) } {
            Ok(()) => {}
            Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL | Errno::NOSYS) => {
                return Ok(Vec::new());
            }
            Err(error) => return Err(error),
        }
        let count = (request.header.mapped_extents as usize).min(EXTENTS_PER_CALL);
        let batch = &request.extents[..count];
        let Some(last) = batch.last() else {
            break;
        };
        for extent in batch {
            push(&mut found, extent, size);
        }
        let end = last.logical.saturating_add(last.length);
        if last.flags & EXTENT_LAST != 0 || end <= start {
            break;
        }
        start = end;
    }
    Ok(found)
}

fn push(found: &mut Vec<Extent>, extent: &FiemapExtent, size: u64) {
    let length = extent.length.min(size.saturating_sub(extent.logical));
    if extent.flags & EXTENT_NO_POSITION != 0 || length == 0 {
        return;
    }
    if let Some(last) = found.last_mut()
        && last.offset.checked_add(last.length) == Some(extent.logical)
        && last.physical.checked_add(last.length) == Some(extent.physical)
    {
        last.length += length;
        return;
    }
    found.push(Extent {
        offset: extent.logical,
        physical: extent.physical,
        length,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(logical: u64, physical: u64, length: u64, flags: u32) -> FiemapExtent {
        FiemapExtent {
            logical,
            physical,
            length,
            flags,
            ..FiemapExtent::default()
        }
    }

    #[test]
    fn adjoining_extents_are_joined_and_end_is_clipped() {
        let mut found = Vec::new();
        push(&mut found, &raw(0, 8192, 4096, 0), 10_000);
        push(&mut found, &raw(4096, 12_288, 4096, 0), 10_000);
        push(&mut found, &raw(8192, 0, 4096, 0), 10_000);
        push(&mut found, &raw(12_288, 4096, 4096, 0), 10_000);
        assert_eq!(
            found,
            [
                Extent {
                    offset: 0,
                    physical: 8192,
                    length: 8192
                },
                Extent {
                    offset: 8192,
                    physical: 0,
                    length: 1808
                },
            ]
        );
    }

    #[test]
    fn extents_without_position_are_left_out() {
        let mut found = Vec::new();
        for flags in [0x2, 0x4, 0x200] {
            push(&mut found, &raw(0, 0, 4096, flags), 4096);
        }
        assert!(found.is_empty());
    }
}
