//! How much of a file was ever written. The rest is holes, or blocks that are the file's and that
//! nobody wrote to: they are read as zeros, at once, and no disk is asked.

use std::fs::File;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

/// Bytes of a file of `size` bytes that were never written. None, where the file system does not
/// say. What waits to be written out is written first, since it has no place on the disk before.
pub(super) fn unwritten_bytes(file: &File, size: u64) -> std::io::Result<u64> {
    file.sync_data()?;
    let (mut at, mut unwritten) = (0, 0);
    while at < size {
        let data = match seek(file, SeekFrom::Data(at)) {
            Ok(data) => data.min(size),
            // No byte was written from here on.
            Err(Errno::NXIO) => size,
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(0),
            Err(error) => return Err(error.into()),
        };
        unwritten += data.saturating_sub(at);
        if data == size {
            break;
        }
        at = seek(file, SeekFrom::Hole(data))?.max(data + 1);
    }
    Ok(unwritten)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;

    #[test]
    fn holes_are_not_written_and_bytes_are() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(4 << 20).expect("longer");
        let size = 4 << 20;
        let holes = unwritten_bytes(&file, size).expect("asked");
        if holes == 0 {
            headlong_testkit::skip(
                "holes_are_not_written_and_bytes_are",
                "the file system does not say where holes are",
            );
            return;
        }
        assert_eq!(holes, size);
        file.write_all_at(&[7; 1 << 20], 1 << 20).expect("written");
        assert_eq!(unwritten_bytes(&file, size).expect("asked"), 3 << 20);
        for mib in [0, 2, 3] {
            file.write_all_at(&[7; 1 << 20], mib << 20)
                .expect("written");
        }
        assert_eq!(unwritten_bytes(&file, size).expect("asked"), 0);
    }
}
