//! Faults of the disk, switched while it runs.

use std::ops::Range;
use std::time::{Duration, Instant as WallInstant};

use headlong_drive::{Direction, SECTOR_BYTES};
use headlong_units::Bytes;

/// A fault to inject.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// Reads that touch these bytes fail with EIO; once, or permanently.
    Error {
        /// Bytes of the disk.
        bytes: Range<u64>,
        /// Whether only the first such read fails.
        once: bool,
    },
    /// Requests hang for this wall time, or until released.
    Hang(Option<Duration>),
    /// Requests take this many times as long.
    Slow(f64),
    /// Every request fails with EIO, including queued ones, as when the cable is pulled.
    Vanish,
    /// Every write fails with EIO, as on a worn-out SSD.
    ReadOnly,
    /// One bit of each sector of these bytes is flipped when read.
    Flip(Range<u64>),
}

impl Fault {
    /// An error message if the fault exceeds a disk of this size.
    pub fn beyond(&self, size_bytes: u64) -> Option<String> {
        let (Self::Error { bytes, .. } | Self::Flip(bytes)) = self else {
            return None;
        };
        let (end, size) = (Bytes(bytes.end), Bytes(size_bytes));
        (end > size).then(|| format!("fault up to {end} is out of range: the disk has {size}"))
    }
}

/// Active faults.
#[derive(Debug, Clone, Default)]
pub(crate) struct ActiveFaults {
    errors: Vec<(Range<u64>, bool)>,
    flips: Vec<Range<u64>>,
    is_gone: bool,
    is_read_only: bool,
    hang: Option<HangEnd>,
}

#[derive(Debug, Clone, Copy)]
enum HangEnd {
    At(WallInstant),
    Never,
}

impl ActiveFaults {
    pub(crate) fn add_error(&mut self, bytes: Range<u64>, once: bool) {
        self.errors.push((bytes, once));
    }

    pub(crate) fn vanish(&mut self) {
        self.is_gone = true;
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone
    }

    pub(crate) fn refuse_writes(&mut self) {
        self.is_read_only = true;
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    pub(crate) fn add_flips(&mut self, bytes: Range<u64>) {
        self.flips.push(bytes);
    }

    /// Flips bits of data read from `offset` on.
    pub(crate) fn flip(&self, offset: u64, content: &mut [u8]) {
        for flips in &self.flips {
            let first = flips.start.max(offset).next_multiple_of(SECTOR_BYTES);
            let end = flips.end.min(offset + content.len() as u64);
            for at in (first..end).step_by(SECTOR_BYTES as usize) {
                content[(at - offset) as usize] ^= 0x10;
            }
        }
    }

    pub(crate) fn hang(&mut self, length: Option<Duration>) {
        self.hang = Some(match length {
            Some(length) => HangEnd::At(WallInstant::now() + length),
            None => HangEnd::Never,
        });
    }

    pub(crate) fn release(&mut self) {
        self.hang = None;
    }

    pub(crate) fn is_hung(&self) -> bool {
        self.hang.is_some()
    }

    /// When a hang ends by itself.
    pub(crate) fn hang_end(&self) -> Option<WallInstant> {
        match self.hang? {
            HangEnd::At(end) => Some(end),
            HangEnd::Never => None,
        }
    }

    /// Whether this request fails; consumes an error with `once`.
    pub(crate) fn strikes(&mut self, offset: u64, length: u64, direction: Direction) -> bool {
        if self.is_gone {
            return true;
        }
        if direction == Direction::Write {
            return self.is_read_only;
        }
        let end = offset.saturating_add(length);
        let hit = |(bad, _): &(Range<u64>, bool)| bad.start < end && offset < bad.end;
        let Some(index) = self.errors.iter().position(hit) else {
            return false;
        };
        if self.errors[index].1 {
            self.errors.swap_remove(index);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_beyond_disk_is_rejected() {
        let error = |bytes| Fault::Error { bytes, once: true };
        assert_eq!(error(0..4096).beyond(4096), None);
        let beyond = error(0..4097).beyond(4096).expect("a byte too many");
        assert!(
            beyond.contains("4097B") && beyond.contains("4KiB"),
            "{beyond}"
        );
        assert_eq!(Fault::Vanish.beyond(0), None);
    }

    #[test]
    fn flip_changes_one_bit_per_sector() {
        let mut faults = ActiveFaults::default();
        faults.add_flips(600..1536);
        let mut content = [0; 1024];
        faults.flip(512, &mut content);
        let damaged: Vec<_> = (512..)
            .zip(content)
            .filter(|(_, byte)| *byte != 0)
            .collect();
        assert_eq!(damaged, [(1024, 0x10)]);
    }

    #[test]
    fn error_applies_to_overlapping_reads_and_once() {
        let mut faults = ActiveFaults::default();
        let (read, write) = (Direction::Read, Direction::Write);
        faults.add_error(100..200, true);
        assert!(!faults.strikes(0, 100, read));
        assert!(!faults.strikes(200, 50, read));
        assert!(!faults.strikes(150, 1, write), "writes pass");
        assert!(faults.strikes(199, 10, read));
        assert!(!faults.strikes(150, 1, read), "consumed");
        faults.add_error(0..1, false);
        assert!(faults.strikes(0, 1, read) && faults.strikes(0, 1, read));
        faults.refuse_writes();
        assert!(faults.strikes(500, 1, write) && !faults.strikes(500, 1, read));
        faults.vanish();
        assert!(faults.strikes(500, 1, read));
    }
}
