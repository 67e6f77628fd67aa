//! Whether a drive gains by several reads at once, found while it serves.
//!
//! The one idea: several reads at once are worth it where the drive stays at a read for as long as
//! it is long, and takes next the one that comes by first. A drive that serves requests as they
//! come, or whose queue is too short for the beginnings of all reads and the rest of one, goes from
//! beginning to beginning and back for every rest ([`crate::Opening`]): each read costs two turns
//! instead of one. That is seen from outside: between the lead of a read and its end, another read
//! begins or ends. A drive with two arms looks the same and gains. So where most reads are
//! interleaved, as many are given to the drive one at a time, and what moved more bytes in a second
//! stays.
//!
//! The reads of a run, such as the files of one prefetch, are looked at as one: a short file is over
//! before the drive turns to another, and the turn back is for the next file.
//!
//! Nothing is known of the drive's queue, and nothing is believed for ever: after a while it is
//! judged anew, for as many reads as that takes.
//!
//! Invariants: nothing is tried but after reads that could have been kept apart and were not; where
//! the shell does not tell when a read begins, all stays as set.

use headlong_units::{Duration, Instant};

/// Reads that are judged together. A busy drive ends so many in three seconds.
const JUDGED_TOGETHER: u32 = 32;
/// So long a verdict holds. What it costs to look again is less than six seconds of that, at half
/// the rate at worst.
const VERDICT_HOLDS: Duration = Duration::from_secs(900);

/// What was seen of one read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Course {
    /// Its lead has not come, or it has none.
    #[default]
    NotBegun,
    /// Its lead has come, and no other read was there to be begun before its end.
    Alone,
    /// Its lead has come, and nothing else since, though others waited in the drive.
    AtOnce,
    /// Another read began or ended between its lead and its end.
    Interleaved,
}

impl Course {
    /// A lead has come, while others were outstanding or not. Of several, the first says when the
    /// device began.
    pub(crate) fn begin(&mut self, others_wait: bool) {
        if *self == Self::NotBegun {
            *self = match others_wait {
                true => Self::AtOnce,
                false => Self::Alone,
            };
        }
    }

    /// Another read began or ended.
    pub(crate) fn pass(&mut self) {
        if *self != Self::NotBegun {
            *self = Self::Interleaved;
        }
    }
}

/// A read that ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    pub(crate) course: Course,
    pub(crate) issued_at: Instant,
    pub(crate) bytes: u64,
    /// For how long it kept the device.
    pub(crate) took: Duration,
}

/// What so many reads moved, and in what time.
#[derive(Debug, Clone, Copy, Default)]
struct Moved {
    reads: u32,
    interleaved: u32,
    bytes: u64,
    time: Duration,
}

impl Moved {
    fn add(&mut self, read: Ended) {
        self.reads += 1;
        self.interleaved += u32::from(read.course == Course::Interleaved);
        self.bytes = self.bytes.saturating_add(read.bytes);
        self.time += read.took;
    }

    fn is_faster_than(&self, other: &Self) -> bool {
        let product = |bytes: u64, time: Duration| u128::from(bytes) * u128::from(time.0);
        product(self.bytes, other.time) > product(other.bytes, self.time)
    }
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    /// Several at once, looked at.
    Judged,
    /// One at a time since then, to be compared with what several had moved.
    Tried { since: Instant, several: Moved },
    /// As it was found to be better, until then.
    Held { one: bool, until: Instant },
}

/// How many reads at once serve a drive better, several or one.
#[derive(Debug)]
pub(crate) struct Interleaving {
    phase: Phase,
    moved: Moved,
}

impl Default for Interleaving {
    fn default() -> Self {
        Self {
            phase: Phase::Judged,
            moved: Moved::default(),
        }
    }
}

impl Interleaving {
    /// A read ended as it should.
    pub(crate) fn record(&mut self, now: Instant, read: Ended) {
        let counts = match self.phase {
            Phase::Held { until, .. } if now < until => return,
            Phase::Held { .. } => {
                self.turn_to(Phase::Judged);
                return;
            }
            Phase::Judged => matches!(read.course, Course::AtOnce | Course::Interleaved),
            Phase::Tried { since, .. } => read.issued_at >= since,
        };
        if !counts {
            return;
        }
        self.moved.add(read);
        if self.moved.reads < JUDGED_TOGETHER {
            return;
        }
        let moved = self.moved;
        let until = now + VERDICT_HOLDS;
        self.turn_to(match self.phase {
            Phase::Judged if moved.interleaved > moved.reads / 2 => Phase::Tried {
                since: now,
                several: moved,
            },
            Phase::Tried { several, .. } => Phase::Held {
                one: moved.is_faster_than(&several),
                until,
            },
            _ => Phase::Judged,
        });
    }

    /// Whether the drive gets one read at a time now.
    pub(crate) fn is_one_at_a_time(&self, now: Instant) -> bool {
        match self.phase {
            Phase::Judged => false,
            Phase::Tried { .. } => true,
            Phase::Held { one, until } => one && now < until,
        }
    }

    fn turn_to(&mut self, phase: Phase) {
        self.phase = phase;
        self.moved = Moved::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use headlong_units::MIB;
    use proptest::prelude::*;

    fn at(second: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(second)
    }

    /// So many reads that kept the drive so long, all issued and ended at this second.
    fn reads(drive: &mut Interleaving, second: u64, course: Course, count: u32, millis: u64) {
        let read = Ended {
            course,
            issued_at: at(second),
            bytes: MIB,
            took: Duration::from_millis(millis),
        };
        (0..count).for_each(|_| drive.record(at(second), read));
    }

    /// Most were interleaved, and one at a time takes so much for each where several took 20 ms.
    fn judged_with(one_takes_millis: u64) -> Interleaving {
        let mut drive = Interleaving::default();
        reads(&mut drive, 1, Course::Interleaved, 32, 20);
        assert!(drive.is_one_at_a_time(at(1)), "that is tried");
        reads(&mut drive, 2, Course::NotBegun, 32, one_takes_millis);
        drive
    }

    #[test]
    fn a_drive_that_interleaves_and_moves_more_with_one_at_a_time_gets_one() {
        assert!(judged_with(19).is_one_at_a_time(at(2)));
    }

    #[test]
    fn a_drive_with_two_arms_interleaves_and_keeps_several() {
        let mut drive = judged_with(40);
        assert!(!drive.is_one_at_a_time(at(2)));
        reads(&mut drive, 3, Course::Interleaved, 1_000, 20);
        assert!(!drive.is_one_at_a_time(at(3)), "not tried again so soon");
    }

    #[test]
    fn a_drive_that_interleaves_half_of_its_reads_or_fewer_is_not_tried_with_one() {
        let mut drive = Interleaving::default();
        reads(&mut drive, 1, Course::AtOnce, 16, 20);
        reads(&mut drive, 1, Course::Interleaved, 16, 20);
        assert!(!drive.is_one_at_a_time(at(1)));
    }

    #[test]
    fn reads_that_were_alone_or_had_no_lead_prove_nothing() {
        let mut drive = Interleaving::default();
        reads(&mut drive, 1, Course::Interleaved, 31, 20);
        reads(&mut drive, 1, Course::Alone, 1_000, 20);
        reads(&mut drive, 1, Course::NotBegun, 1_000, 20);
        assert!(!drive.is_one_at_a_time(at(1)));
    }

    #[test]
    fn reads_issued_before_the_trial_are_no_part_of_it() {
        let mut drive = Interleaving::default();
        reads(&mut drive, 5, Course::Interleaved, 32, 20);
        reads(&mut drive, 4, Course::Interleaved, 1_000, 90);
        assert!(drive.is_one_at_a_time(at(5)), "the trial goes on");
        reads(&mut drive, 6, Course::NotBegun, 32, 19);
        assert!(drive.is_one_at_a_time(at(6)));
    }

    #[test]
    fn a_verdict_is_judged_anew_and_a_drive_that_is_better_now_gets_several() {
        let mut drive = judged_with(19);
        assert!(drive.is_one_at_a_time(at(901)));
        reads(&mut drive, 902, Course::NotBegun, 1, 20);
        assert!(!drive.is_one_at_a_time(at(902)));
        reads(&mut drive, 903, Course::AtOnce, 64, 20);
        assert!(!drive.is_one_at_a_time(at(903)));
    }

    #[test]
    fn what_passes_before_a_lead_does_not_interleave_a_read() {
        let mut course = Course::default();
        course.pass();
        course.begin(true);
        assert_eq!(course, Course::AtOnce);
        course.pass();
        assert_eq!(course, Course::Interleaved);
    }

    proptest! {
        #[test]
        fn one_at_a_time_only_after_most_of_some_reads_in_a_row_were_interleaved(
            seen in prop::collection::vec((any::<bool>(), 0u64..40, 1u64..100), 0..600),
        ) {
            let (mut drive, mut second) = (Interleaving::default(), 0);
            let mut judged = Vec::new();
            for (interleaved, passed, millis) in seen {
                second += passed;
                let course = if interleaved { Course::Interleaved } else { Course::AtOnce };
                let was_one = drive.is_one_at_a_time(at(second));
                reads(&mut drive, second, course, 1, millis);
                judged.push(interleaved);
                if drive.is_one_at_a_time(at(second)) && !was_one {
                    let last = &judged[judged.len() - JUDGED_TOGETHER as usize..];
                    let many = last.iter().filter(|is_so| **is_so).count();
                    prop_assert!(many > last.len() / 2);
                }
            }
        }
    }
}
