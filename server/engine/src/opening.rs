//! How a long read is put to a drive that has others to choose from.
//!
//! The one idea: a drive's own queue saves turns by beginning with whatever comes by first, but the
//! kernel cuts a long read into requests, and a drive that may choose between all of them begins
//! in the middle of a read, goes on with the middle of another, and comes back for both
//! beginnings. So it is shown little of a read it has not begun: a *lead*, too short for anything but
//! the beginning to come by first, and one request behind it, which keeps the drive there. When the
//! lead has come, it is given the rest, in the time that the second takes.
//!
//! A run of several reads has one beginning. Those behind its first, where they go on where it ends on
//! the disk, are given to the drive as they are once it has begun: leads of their own would be so many
//! beginnings, which a drive takes before the files behind them.
//!
//! In virtual time eight reads put like this move the arm once each, as reads of one request do; put
//! as they are, 2.6 times.

use headlong_units::{KIB, MIB};

/// The lead: the shortest direct read that every device allows.
const LEAD_BYTES: u64 = 4 * KIB;
/// Lead and follower together, at most: they take some eight milliseconds, and the host needs less
/// than one for the rest.
const SHOWN_BYTES_MAX: u64 = MIB;
/// And at least, whatever the device's largest request: less would be over before the rest came.
pub(crate) const SHOWN_BYTES_MIN: u64 = 128 * KIB;

/// The first two parts of a read; the third is given to the device once the lead has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// Length of the first part, bytes.
    pub lead_bytes: u64,
    /// Length of the second, bytes.
    pub follower_bytes: u64,
}

impl Opening {
    /// The opening of a read of `length` bytes on a device whose requests hold at most
    /// `request_bytes_max`; `None` if the read is short enough to need none.
    ///
    /// The follower has to be one request. If the kernel cuts it in two, the drive may begin with
    /// the second, and all is as without an opening: 78 instead of 88 MiB/s without a failure where
    /// requests hold 512 KiB (`simulate search youtube-sd --spread --request-max 512KiB`).
    pub(crate) fn of(length: u64, request_bytes_max: u64) -> Option<Self> {
        let shown_bytes = shown_bytes(request_bytes_max);
        (length > shown_bytes).then_some(Self::showing(shown_bytes))
    }

    /// The opening of the first read of a run that goes on in another file: it says when the drive
    /// has begun the run. `None` if the read is no longer than a lead.
    ///
    /// The parts are whole blocks though the file's end is seldom one's end: a direct read of half a
    /// block is refused by the kernel, and the file was then read once for its lead and once more as
    /// a whole.
    pub(crate) fn of_run(length: u64, request_bytes_max: u64) -> Option<Self> {
        let shown_bytes = length
            .next_multiple_of(LEAD_BYTES)
            .min(shown_bytes(request_bytes_max));
        (length > LEAD_BYTES).then_some(Self::showing(shown_bytes))
    }

    fn showing(bytes: u64) -> Self {
        Self {
            lead_bytes: LEAD_BYTES,
            follower_bytes: bytes - LEAD_BYTES,
        }
    }

    /// Where lead, follower and rest begin and end within a read of `length` bytes.
    pub fn parts(&self, length: u64) -> [(u64, u64); 3] {
        let lead = self.lead_bytes.min(length);
        let follower = lead.saturating_add(self.follower_bytes).min(length);
        [(0, lead), (lead, follower), (follower, length)]
    }
}

/// Lead and follower together: whole blocks, whatever the device's largest request.
fn shown_bytes(request_bytes_max: u64) -> u64 {
    let shown = request_bytes_max.clamp(SHOWN_BYTES_MIN, SHOWN_BYTES_MAX);
    shown - shown % LEAD_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_of_one_request_needs_no_opening() {
        assert_eq!(Opening::of(MIB, 1280 * KIB), None);
        assert_eq!(Opening::of(1, 1280 * KIB), None);
        assert_eq!(Opening::of(512 * KIB, 512 * KIB), None);
    }

    #[test]
    fn the_parts_of_a_read_are_all_of_it() {
        let opening = Opening::of(8 * MIB, 1280 * KIB).expect("a long read");
        let parts = opening.parts(8 * MIB);
        assert_eq!(parts, [(0, 4 * KIB), (4 * KIB, MIB), (MIB, 8 * MIB)]);
        assert_eq!(opening.parts(KIB), [(0, KIB), (KIB, KIB), (KIB, KIB)]);
    }

    #[test]
    fn the_parts_of_a_short_file_that_a_run_goes_on_after_are_whole_blocks() {
        for request_bytes_max in [128 * KIB, 500_000, 512 * KIB, 4 * MIB] {
            for length in [4 * KIB + 1, 249_000, 300_001, 700_003] {
                let opening = Opening::of_run(length, request_bytes_max).expect("a run");
                let as_read = length.next_multiple_of(4 * KIB);
                let parts = opening.parts(as_read);
                assert_eq!(parts[2].1, as_read);
                for (from, to) in parts {
                    assert_eq!((from % (4 * KIB), to % (4 * KIB)), (0, 0), "{length}");
                }
            }
        }
    }

    #[test]
    fn the_follower_is_one_request_of_the_device() {
        for request_bytes_max in [128 * KIB, 256 * KIB, 512 * KIB, MIB, 4 * MIB] {
            let opening = Opening::of(8 * MIB, request_bytes_max).expect("a long read");
            assert!(opening.follower_bytes <= request_bytes_max);
        }
    }
}
