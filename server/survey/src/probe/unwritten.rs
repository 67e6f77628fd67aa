//! Size of the unwritten part of a file: holes, or allocated but unwritten blocks. These are read
//! as zeros without a disk access.

use std::fs::File;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

/// Bytes of a file of `size` bytes that were never written; zero if the file system does not report
/// it. Dirty data is written out first, since it has no position on the disk before.
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
    fn holes_are_unwritten_and_written_bytes_are_not() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(4 << 20).expect("longer");
        let size = 4 << 20;
        let holes = unwritten_bytes(&file, size).expect("asked");
        if holes == 0 {
            headlong_testkit::skip(
                "holes_are_unwritten_and_written_bytes_are_not",
                "the file system does not report holes",
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
