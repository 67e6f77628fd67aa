//! Pacing of replies: a burst of some seconds, then slightly faster than playback.
//!
//! When a viewer leaves, only the burst and the accumulated lead have been sent and read from the
//! disk unnecessarily, and a line is only saturated for the start. Delays of a disk are caught up,
//! because the schedule counts bytes since the start.
//!
//! nginx has this as `mp4_limit_rate` and `mp4_limit_rate_after` in its commercial edition.

use headlong_units::{BitRate, Duration, Instant};

/// Pacing parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Rate after the burst, in per cent of the title's bit rate; zero for unlimited.
    pub percent: u32,
    /// Length of the initial burst, in seconds of the title.
    pub burst: Duration,
    /// Limit in bytes a second of one reply, whatever its bit rate; zero for unlimited.
    pub bytes_per_second_max: u64,
}

impl Pace {
    /// No pacing.
    pub const NONE: Self = Self {
        percent: 0,
        burst: Duration::ZERO,
        bytes_per_second_max: 0,
    };

    /// Whether replies are not paced, whatever their bit rate.
    pub const fn is_none(&self) -> bool {
        self.percent == 0 && self.bytes_per_second_max == 0
    }

    /// The schedule of a reply that begins now, if it is paced. A title with an unknown bit rate is
    /// not paced by `percent`.
    pub fn pacer(&self, now: Instant, bit_rate: Option<BitRate>) -> Option<Pacer> {
        let bit_rate = bit_rate.filter(|rate| rate.0 > 0 && self.percent > 0);
        let by_rate = bit_rate.map(|rate| {
            let bits = u128::from(rate.0) * u128::from(self.percent) / 100;
            BitRate(u64::try_from(bits).unwrap_or(u64::MAX).max(1))
        });
        let bytes = Some(self.bytes_per_second_max).filter(|bytes| *bytes > 0);
        let by_bytes = bytes.map(|bytes| BitRate(bytes.saturating_mul(8)));
        let rate = [by_rate, by_bytes].into_iter().flatten().min()?;
        // A limit in bytes a second has no burst.
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
    /// The time at which the next bytes may be sent.
    pub fn may_go_at(&self) -> Instant {
        let beyond = self.gone_bytes.saturating_sub(self.burst_bytes);
        self.began + self.rate.time_for(beyond)
    }

    /// `bytes` are sent.
    pub fn go(&mut self, bytes: u64) {
        self.gone_bytes = self.gone_bytes.saturating_add(bytes);
    }

    /// `bytes` of [`Pacer::go`] were not sent: they will be sent again.
    pub fn take_back(&mut self, bytes: u64) {
        self.gone_bytes = self.gone_bytes.saturating_sub(bytes);
    }
}

/// The schedule that all replies of one client share, however many there are.
///
/// Each reply reserves time when it sends bytes, and its next bytes may be sent when all time
/// reserved before is over. So concurrent replies get equal shares, and a new reply, on whatever
/// connection, queues behind the bytes already sent. In total this is the rate, plus at most one
/// piece of each reply in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedPacer {
    rate: BitRate,
    free_at: Instant,
}

impl SharedPacer {
    /// A schedule of this rate.
    pub fn new(bytes_per_second: u64) -> Self {
        Self {
            rate: rate_of(bytes_per_second),
            free_at: Instant::ZERO,
        }
    }

    /// Sets another rate for bytes sent from now on.
    pub fn set_rate(&mut self, bytes_per_second: u64) {
        self.rate = rate_of(bytes_per_second);
    }

    /// The time at which a new reply may send its first bytes.
    pub fn free_at(&self) -> Instant {
        self.free_at
    }

    /// `bytes` of a reply are sent now; returns when the next bytes of that reply may be sent.
    pub fn go(&mut self, now: Instant, bytes: u64) -> Instant {
        self.free_at = self.free_at.max(now) + self.rate.time_for(bytes);
        self.free_at
    }

    /// `bytes` of [`SharedPacer::go`] were not sent: the time reserved for them is free again.
    pub fn take_back(&mut self, bytes: u64) {
        self.free_at = self.free_at - self.rate.time_for(bytes);
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

    /// Simulates replies that each send a piece when allowed, for `length`; returns the bytes sent
    /// by each. Each has `pieces` pieces and is followed by another one.
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
    fn shared_schedule_limits_total_and_gives_equal_shares() {
        let length = Duration::from_secs(60);
        let alone: u64 = share(1, 1000, length).iter().sum();
        assert_eq!(alone, 60 * SHARED);
        for replies in [2, 8, 100] {
            let sent = share(replies, 1000, length);
            let all: u64 = sent.iter().sum();
            // Replies that begin together are each ahead by one piece, and never by more.
            let most = 60 * SHARED + replies as u64 * PIECE;
            assert!((60 * SHARED..=most).contains(&all), "{replies}: {all}");
            let (least, most) = (sent.iter().min(), sent.iter().max());
            let apart = most.zip(least).map(|(most, least)| most - least);
            assert!(apart <= Some(PIECE), "{sent:?}");
        }
    }

    #[test]
    fn new_request_for_each_piece_gains_nothing() {
        let length = Duration::from_secs(60);
        for replies in [1, 5] {
            let all: u64 = share(replies, 1, length).iter().sum();
            assert!(all <= 60 * SHARED + 5 * PIECE, "{replies}: {all}");
        }
    }

    #[test]
    fn unused_schedule_accumulates_no_credit() {
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
    fn burst_is_immediate_and_rest_is_paced() {
        let mut pacer = PACE.pacer(START, Some(RATE)).expect("a schedule");
        pacer.go(1_000_000);
        assert_eq!(pacer.may_go_at(), START, "ten seconds of it");
        pacer.go(1_250_000);
        assert_eq!(pacer.may_go_at(), START + Duration::from_secs(10));
    }

    #[test]
    fn bytes_taken_back_are_paced_once() {
        let mut pacer = PACE.pacer(START, Some(RATE)).expect("a schedule");
        pacer.go(2_250_000);
        let next = pacer.may_go_at();
        for _ in 0..3 {
            pacer.take_back(500_000);
            pacer.go(500_000);
        }
        assert_eq!(pacer.may_go_at(), next);
        pacer.take_back(u64::MAX);
        assert_eq!(pacer.may_go_at(), START);
        let mut shared = SharedPacer::new(1000);
        let next = shared.go(START, 5000);
        shared.take_back(2000);
        assert_eq!(shared.free_at(), START + Duration::from_secs(3));
        assert_eq!(shared.go(START, 2000), next);
    }

    #[test]
    fn unknown_bit_rate_or_no_pacing_has_no_schedule() {
        assert_eq!(PACE.pacer(START, None), None);
        assert_eq!(PACE.pacer(START, Some(BitRate(0))), None);
        assert_eq!(Pace::NONE.pacer(START, Some(RATE)), None);
    }

    #[test]
    fn byte_limit_has_no_burst_and_ignores_bit_rate() {
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
