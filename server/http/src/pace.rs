//! How fast a reply goes: a burst of some seconds, then little faster than it is played.
//!
//! A viewer who leaves has then been sent, and the disk has read for it, no more than the burst and
//! what the rest of the lead is; and a line is not filled for longer than the start needs. What
//! comes late from a disk is made up for at once: the schedule is one of bytes since the beginning.
//!
//! nginx has this as `mp4_limit_rate` and `mp4_limit_rate_after` in its commercial edition.

use headlong_units::{BitRate, Duration, Instant};

/// How fast replies go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Per cent of the title's bit rate, once the burst is over; zero for as fast as it can.
    pub percent: u32,
    /// What goes as fast as it can at first, in seconds of the title.
    pub burst: Duration,
    /// Most bytes a second of one reply, whatever its bit rate; zero for any.
    pub bytes_per_second_max: u64,
}

impl Pace {
    /// As fast as it can.
    pub const NONE: Self = Self {
        percent: 0,
        burst: Duration::ZERO,
        bytes_per_second_max: 0,
    };

    /// Whether replies go as fast as they can, whatever their bit rate.
    pub const fn is_none(&self) -> bool {
        self.percent == 0 && self.bytes_per_second_max == 0
    }

    /// The schedule of a reply that begins now, if it has one. A title whose bit rate is not known is
    /// not paced by it.
    pub fn pacer(&self, now: Instant, bit_rate: Option<BitRate>) -> Option<Pacer> {
        let bit_rate = bit_rate.filter(|rate| rate.0 > 0 && self.percent > 0);
        let by_rate = bit_rate.map(|rate| {
            let bits = u128::from(rate.0) * u128::from(self.percent) / 100;
            BitRate(u64::try_from(bits).unwrap_or(u64::MAX).max(1))
        });
        let bytes = Some(self.bytes_per_second_max).filter(|bytes| *bytes > 0);
        let by_bytes = bytes.map(|bytes| BitRate(bytes.saturating_mul(8)));
        let rate = [by_rate, by_bytes].into_iter().flatten().min()?;
        // A bound on bytes has no burst.
        let burst_bytes = match by_bytes {
            Some(_) => 0,
            None => bit_rate.map_or(0, |rate| rate.bytes_in(self.burst)),
        };
        Some(Pacer {
            began: now,
            rate,
            burst_bytes,
            gone_bytes: 0,
        })
    }
}

/// The schedule of one reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pacer {
    began: Instant,
    rate: BitRate,
    burst_bytes: u64,
    gone_bytes: u64,
}

impl Pacer {
    /// From when on the next bytes may go.
    pub fn may_go_at(&self) -> Instant {
        let beyond = self.gone_bytes.saturating_sub(self.burst_bytes);
        self.began + self.rate.time_for(beyond)
    }

    /// So many bytes go.
    pub fn go(&mut self, bytes: u64) {
        self.gone_bytes = self.gone_bytes.saturating_add(bytes);
    }
}

/// The schedule that all replies of one client share, however many there are.
///
/// Each reply takes its turn when its bytes go, and the next of its own may go when all that was taken
/// before has had its time: replies that go on together get equal parts, and who begins anew, on
/// whatever connection, begins behind what has gone. In all that is the rate, and at most a piece of
/// each reply in progress besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedPacer {
    rate: BitRate,
    free_at: Instant,
}

impl SharedPacer {
    /// One of so many bytes a second.
    pub fn new(bytes_per_second: u64) -> Self {
        Self {
            rate: rate_of(bytes_per_second),
            free_at: Instant::ZERO,
        }
    }

    /// Another rate, for what goes from now on.
    pub fn set_rate(&mut self, bytes_per_second: u64) {
        self.rate = rate_of(bytes_per_second);
    }

    /// From when on a reply that begins may send its first bytes.
    pub fn free_at(&self) -> Instant {
        self.free_at
    }

    /// So many bytes of a reply go now; from when on the next of that reply may.
    pub fn go(&mut self, now: Instant, bytes: u64) -> Instant {
        self.free_at = self.free_at.max(now) + self.rate.time_for(bytes);
        self.free_at
    }
}

fn rate_of(bytes_per_second: u64) -> BitRate {
    BitRate(bytes_per_second.saturating_mul(8).max(1))
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const PIECE: u64 = 128 << 10;
    const SHARED: u64 = 10 * PIECE;

    /// Replies that each send a piece when they may, for so long; what each has sent. Each is of so
    /// many pieces, and is followed by another one.
    fn share(replies: usize, pieces: u64, length: Duration) -> Vec<u64> {
        let mut pacer = SharedPacer::new(SHARED);
        let mut sent = alloc::vec![0; replies];
        let mut may_go_at = alloc::vec![Instant::ZERO; replies];
        let end = Instant::ZERO + length;
        let mut now = Instant::ZERO;
        for _ in 0..1_000_000 {
            let next = (0..replies).min_by_key(|at| (may_go_at[*at], *at));
            let at = next.expect("some");
            now = now.max(may_go_at[at]);
            if now >= end {
                break;
            }
            sent[at] += PIECE;
            let next = pacer.go(now, PIECE);
            let is_last = (sent[at] / PIECE).is_multiple_of(pieces);
            may_go_at[at] = if is_last { pacer.free_at() } else { next };
        }
        sent
    }

    #[test]
    fn replies_that_share_a_schedule_get_no_more_together_than_one_alone_and_equal_parts() {
        let length = Duration::from_secs(60);
        let alone: u64 = share(1, 1000, length).iter().sum();
        assert_eq!(alone, 60 * SHARED);
        for replies in [2, 8, 100] {
            let sent = share(replies, 1000, length);
            let all: u64 = sent.iter().sum();
            // Those that begin at one moment are ahead by a piece each, and never by more.
            let most = 60 * SHARED + replies as u64 * PIECE;
            assert!((60 * SHARED..=most).contains(&all), "{replies}: {all}");
            let (least, most) = (sent.iter().min(), sent.iter().max());
            let apart = most.zip(least).map(|(most, least)| most - least);
            assert!(apart <= Some(PIECE), "{sent:?}");
        }
    }

    #[test]
    fn who_asks_anew_for_each_piece_gets_no_more() {
        let length = Duration::from_secs(60);
        for replies in [1, 5] {
            let all: u64 = share(replies, 1, length).iter().sum();
            assert!(all <= 60 * SHARED + 5 * PIECE, "{replies}: {all}");
        }
    }

    #[test]
    fn a_schedule_that_was_not_used_saves_nothing_up() {
        let mut pacer = SharedPacer::new(1000);
        let later = Instant::ZERO + Duration::from_secs(100);
        assert_eq!(pacer.go(later, 500), later + Duration::from_millis(500));
        pacer.set_rate(2000);
        assert_eq!(pacer.go(later, 1000), later + Duration::from_secs(1));
    }

    const PACE: Pace = Pace {
        percent: 125,
        burst: Duration::from_secs(10),
        bytes_per_second_max: 0,
    };
    const START: Instant = Instant(7_000_000_000);
    /// 100,000 bytes a second.
    const RATE: BitRate = BitRate(800_000);

    #[test]
    fn the_burst_goes_at_once_and_the_rest_a_quarter_faster_than_it_is_played() {
        let mut pacer = PACE.pacer(START, Some(RATE)).expect("a schedule");
        pacer.go(1_000_000);
        assert_eq!(pacer.may_go_at(), START, "ten seconds of it");
        pacer.go(1_250_000);
        assert_eq!(pacer.may_go_at(), START + Duration::from_secs(10));
    }

    #[test]
    fn what_is_not_known_or_not_wanted_is_not_paced() {
        assert_eq!(PACE.pacer(START, None), None);
        assert_eq!(PACE.pacer(START, Some(BitRate(0))), None);
        assert_eq!(Pace::NONE.pacer(START, Some(RATE)), None);
    }

    #[test]
    fn a_bound_on_bytes_holds_from_the_first_and_whatever_the_bit_rate() {
        let bounded = Pace {
            bytes_per_second_max: 50_000,
            ..PACE
        };
        for rate in [None, Some(RATE), Some(BitRate(u64::MAX))] {
            let mut pacer = bounded.pacer(START, rate).expect("a schedule");
            pacer.go(100_000);
            assert_eq!(pacer.may_go_at(), START + Duration::from_secs(2));
        }
        let slow = bounded.pacer(START, Some(BitRate(8_000)));
        let mut slow = slow.expect("a schedule");
        slow.go(1_250);
        assert_eq!(slow.may_go_at(), START + Duration::from_secs(1));
    }
}
