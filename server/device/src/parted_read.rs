//! A read that is put to the drive in parts, as the engine says ([`Opening`](headlong_engine::Opening)).
//!
//! If anything is odd with a part, the read is done again as a whole: one place judges errors.

use smallvec::SmallVec;

use crate::io_failure::IoFailure;
use crate::read_job::{ReadJob, Span};

/// The parts of a read.
#[derive(Debug)]
pub struct PartedRead {
    in_flight: u32,
    has_begun: bool,
    /// Given to the drive when something has come.
    held: Option<Span>,
    is_sound: bool,
}

/// What follows from the end of a part.
#[derive(Debug, PartialEq, Eq)]
pub struct PartEnd {
    /// Whether these are the first bytes of the read: the drive has begun it.
    pub has_begun: bool,
    /// To be read next.
    pub next: SmallVec<[Span; 2]>,
    /// Whether that was the last part, and what a call for all of it would have returned; `None`:
    /// it must be read as a whole.
    pub whole: Option<Option<u64>>,
}

impl PartedRead {
    /// The lead and the follower are read now, the rest when one of them has come.
    pub fn start([lead, follower, rest]: [Span; 3]) -> (Self, [Span; 2]) {
        let parts = Self {
            in_flight: 2,
            has_begun: false,
            held: Some(rest).filter(|rest| rest.length > 0),
            is_sound: true,
        };
        (parts, [lead, follower])
    }

    /// A call for a span ended.
    pub fn ended(&mut self, job: &ReadJob, span: Span, result: Result<u64, IoFailure>) -> PartEnd {
        self.in_flight -= 1;
        // What the kernel refuses says nothing of where the drive is.
        let has_begun = result.is_ok() && !core::mem::replace(&mut self.has_begun, true);
        let left = result.map_err(drop);
        let left = left.and_then(|bytes| job.left_of(span, bytes));
        let next: SmallVec<[Span; 2]> = match left {
            Ok(left) => left.into_iter().chain(self.held.take()).collect(),
            Err(()) => {
                self.is_sound = false;
                self.held = None;
                SmallVec::new()
            }
        };
        self.in_flight += next.len() as u32;
        let is_last = self.in_flight == 0;
        let whole = is_last.then(|| self.is_sound.then(|| job.span().length));
        PartEnd {
            has_begun,
            next,
            whole,
        }
    }
}
