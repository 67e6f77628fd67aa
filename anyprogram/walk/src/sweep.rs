//! Reads files into the page cache in one sweep, in the order of their position on the disk.

use std::fs::File;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt as _;

use headlong_library::BlockMap;
use rustix::fs::{Advice, fadvise};

/// Result of one sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SweepResult {
    /// Files read.
    pub files: u32,
    /// Bytes read.
    pub bytes: u64,
}

/// Submits all reads before waiting for the first, so that the kernel can merge adjacent ones.
pub(crate) fn read(places: &BlockMap, files: Vec<(File, u64)>) -> SweepResult {
    let files = files.into_iter();
    let mut placed: Vec<_> = files
        .map(|(file, size)| (places.start_of(&file), file, size))
        .collect();
    placed.sort_by_key(|(position, ..)| *position);
    for (_, file, size) in &placed {
        // On failure the program reads the file itself.
        let _ = fadvise(file, 0, NonZeroU64::new(*size), Advice::WillNeed);
    }
    let mut swept = SweepResult::default();
    for (_, file, size) in &placed {
        if file.read_at(&mut [0], size.saturating_sub(1)).is_ok() {
            swept.files += 1;
            swept.bytes += size;
        }
    }
    swept
}
