//! What can go wrong with the disk, switched while it runs.

use std::ops::Range;
use std::time::{Duration, Instant as Wall};

use headlong_drive::Direction;
use headlong_units::Bytes;

/// Something to go wrong from now on.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// Reads that touch these bytes fail with EIO; once, or for ever.
    Error {
        /// Bytes of the disk.
        bytes: Range<u64>,
        /// Whether the first read that is hit is the only one.
        once: bool,
    },
    /// Nothing is answered for so long (wall time), or until released.
    Hang(Option<Duration>),
    /// Everything takes so many times as long.
    Slow(f64),
    /// Every request fails with EIO, those that wait too, as when the cable is pulled.
    Vanish,
}

impl Fault {
    /// What is wrong with it for a disk of so many bytes, if it is for bytes that the disk has not.
    pub fn beyond(&self, size_bytes: u64) -> Option<String> {
        let Self::Error { bytes, .. } = self else {
            return None;
        };
        let (end, size) = (Bytes(bytes.end), Bytes(size_bytes));
        (end > size).then(|| format!("reads up to {end} cannot fail: the disk has {size}"))
    }
}

/// Which requests fail.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults {
    errors: Vec<(Range<u64>, bool)>,
    is_gone: bool,
    hang: Option<HangEnd>,
}

#[derive(Debug, Clone, Copy)]
enum HangEnd {
    At(Wall),
    Never,
}

impl Faults {
    pub(crate) fn add_error(&mut self, bytes: Range<u64>, once: bool) {
        self.errors.push((bytes, once));
    }

    pub(crate) fn vanish(&mut self) {
        self.is_gone = true;
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone
    }

    pub(crate) fn hang(&mut self, length: Option<Duration>) {
        self.hang = Some(match length {
            Some(length) => HangEnd::At(Wall::now() + length),
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
    pub(crate) fn hang_end(&self) -> Option<Wall> {
        match self.hang? {
            HangEnd::At(end) => Some(end),
            HangEnd::Never => None,
        }
    }

    /// Whether this request gets an error; an error that is meant to come once is used up.
    pub(crate) fn strikes(&mut self, offset: u64, length: u64, direction: Direction) -> bool {
        if self.is_gone {
            return true;
        }
        if direction == Direction::Write {
            return false;
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
    fn bytes_that_a_disk_has_not_cannot_fail() {
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
    fn an_error_strikes_overlapping_reads_only_and_once_if_so_asked() {
        let mut faults = Faults::default();
        let (read, write) = (Direction::Read, Direction::Write);
        faults.add_error(100..200, true);
        assert!(!faults.strikes(0, 100, read));
        assert!(!faults.strikes(200, 50, read));
        assert!(!faults.strikes(150, 1, write), "writes pass");
        assert!(faults.strikes(199, 10, read));
        assert!(!faults.strikes(150, 1, read), "used up");
        faults.add_error(0..1, false);
        assert!(faults.strikes(0, 1, read) && faults.strikes(0, 1, read));
        faults.vanish();
        assert!(faults.strikes(500, 1, write));
    }
}
