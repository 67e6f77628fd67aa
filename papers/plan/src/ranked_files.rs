//! Files by the bytes that viewers consume of them: which of them flash holds.

use headlong_chain_sim::{ChainTable, FileUse};

/// Drive numbers of a divided table: files on hard drives, and files on flash.
pub(crate) const COLD: usize = 0;
pub(crate) const HOT: usize = 1;

/// Files, sorted by bytes consumed per byte of size, highest first.
pub(crate) struct RankedFiles {
    ranked: Vec<(FileUse, u64)>,
    /// Bytes of all of them, as far as they were read.
    pub(crate) bytes: u64,
}

impl RankedFiles {
    pub(crate) fn new(table: &ChainTable, size_of: impl Fn(u32) -> Option<u64>) -> Self {
        let mut ranked: Vec<(FileUse, u64)> = table
            .files()
            .into_iter()
            .map(|file| {
                let known = size_of(file.file);
                // A file that was read beyond its listed size has another size.
                let size = known.unwrap_or(0).max(file.reached_bytes);
                (file, size.max(1))
            })
            .collect();
        let heat = |(file, size): &(FileUse, u64)| file.taken_bytes as f64 / *size as f64;
        ranked.sort_by(|one, other| heat(other).total_cmp(&heat(one)));
        Self {
            bytes: ranked.iter().map(|(_, size)| size).sum(),
            ranked,
        }
    }

    /// Assigns files to drive [`HOT`] up to the given bytes; returns the table and their bytes.
    pub(crate) fn parted(&self, table: &ChainTable, flash_bytes: u64) -> (ChainTable, u64) {
        let mut bytes = 0_u64;
        let mut hot = std::collections::HashSet::new();
        for (file, size) in &self.ranked {
            if bytes + size > flash_bytes {
                break;
            }
            bytes += size;
            hot.insert(file.file);
        }
        let place = |file| if hot.contains(&file) { HOT } else { COLD };
        (table.placed(|file| place(file) as u16), bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::table;

    #[test]
    fn flash_holds_most_popular_files() {
        let files = RankedFiles::new(&table(), |_| Some(100_000_000));
        let (parted, bytes) = files.parted(&table(), 150_000_000);
        assert_eq!(bytes, 100_000_000);
        let most = parted
            .files()
            .into_iter()
            .max_by_key(|file| file.taken_bytes);
        assert_eq!(most.map(|file| file.file), Some(0));
        assert_eq!(parted.disk_count(), 2);
    }
}
