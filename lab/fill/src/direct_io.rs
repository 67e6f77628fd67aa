//! Aligned memory and file access for direct I/O.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

/// Alignment of memory, offsets and lengths: no disk needs more than a page.
pub(crate) const ALIGNMENT: usize = 4096;
/// Bytes written or read at once.
pub(crate) const BLOCK_BYTES: usize = 4 << 20;

/// A buffer of [`BLOCK_BYTES`], aligned to [`ALIGNMENT`].
#[derive(Debug)]
pub(crate) struct AlignedBuffer {
    memory: Vec<u8>,
    start: usize,
}

impl AlignedBuffer {
    pub(crate) fn new() -> Self {
        let memory = vec![0; BLOCK_BYTES + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        // Without an aligned start direct I/O would fail, nothing worse.
        let start = start.min(ALIGNMENT);
        Self { memory, start }
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + BLOCK_BYTES]
    }
}

/// `bytes` rounded up to the alignment of direct I/O.
pub(crate) fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNMENT)
}

/// Whether files in `folder` support direct I/O.
pub(crate) fn takes_direct(folder: &Path) -> io::Result<bool> {
    let path = folder.join(".headlong-fill-probe");
    let result = create(&path, true).and_then(|file| {
        let mut block = AlignedBuffer::new();
        rustix::io::write(&file, &block.bytes()[..ALIGNMENT]).map_err(io::Error::from)
    });
    let _ = std::fs::remove_file(&path);
    match result {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(false),
        Err(error) => Err(error),
    }
}

/// Opens a file for writing from its start.
pub(crate) fn create(path: &Path, is_direct: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    if is_direct {
        options.custom_flags(OFlags::DIRECT.bits().cast_signed());
    }
    options.open(path)
}

/// Opens a file for reading, without the page cache if possible.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    let direct = options
        .clone()
        .custom_flags(OFlags::DIRECT.bits().cast_signed())
        .open(path);
    match direct {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => options.open(path),
        other => other,
    }
}
