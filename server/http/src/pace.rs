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

#[cfg(test)]
mod tests {
    use super::*;

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
