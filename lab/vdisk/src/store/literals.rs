//! Literal content: pages without a rule, kept at their own offset in sparse files.
//!
//! One file per tebibyte, because a file system may not support files as large as the disk (ext4:
//! 16 TiB).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Bytes of the disk per file.
const FILE_BYTES: u64 = 1 << 40;

#[derive(Debug)]
pub(super) struct LiteralPages {
    directory: PathBuf,
    files: Vec<OnceLock<File>>,
}

impl LiteralPages {
    /// For a disk of this size; files are created on demand.
    pub(super) fn new(directory: &Path, capacity_bytes: u64) -> Self {
        let count = capacity_bytes.div_ceil(FILE_BYTES);
        Self {
            directory: directory.to_owned(),
            files: (0..count).map(|_| OnceLock::new()).collect(),
        }
    }

    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let (first, rest) = buffer.split_at_mut(in_file(offset, buffer.len()));
        self.file(offset)?
            .read_exact_at(first, offset % FILE_BYTES)?;
        if rest.is_empty() {
            return Ok(());
        }
        self.read(offset + first.len() as u64, rest)
    }

    pub(super) fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let (first, rest) = data.split_at(in_file(offset, data.len()));
        self.file(offset)?
            .write_all_at(first, offset % FILE_BYTES)?;
        if rest.is_empty() {
            return Ok(());
        }
        self.write(offset + first.len() as u64, rest)
    }

    /// Makes all written data durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        let open = self.files.iter().filter_map(OnceLock::get);
        for file in open {
            file.sync_data()?;
        }
        Ok(())
    }

    fn file(&self, offset: u64) -> io::Result<&File> {
        let index = (offset / FILE_BYTES) as usize;
        let beyond = || io::Error::new(io::ErrorKind::InvalidInput, "beyond the end of the disk");
        let slot = self.files.get(index).ok_or_else(beyond)?;
        if let Some(file) = slot.get() {
            return Ok(file);
        }
        let path = self.directory.join(format!("literals-{index:02}"));
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        Ok(slot.get_or_init(|| file))
    }
}

/// Number of the `length` bytes at `offset` that lie in the same file.
fn in_file(offset: u64, length: usize) -> usize {
    let left = FILE_BYTES - offset % FILE_BYTES;
    usize::try_from(left).map_or(length, |left| left.min(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_across_two_files_is_read_back() {
        let directory = tempfile::tempdir().expect("a directory");
        let literals = LiteralPages::new(directory.path(), 3 * FILE_BYTES);
        literals.write(FILE_BYTES - 3, b"across").expect("write");
        let mut found = [0; 6];
        literals.read(FILE_BYTES - 3, &mut found).expect("read");
        assert_eq!(&found, b"across");
        assert!(literals.write(3 * FILE_BYTES, b"beyond").is_err());
    }
}
