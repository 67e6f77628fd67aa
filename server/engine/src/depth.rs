//! How much of a job is read now, while others wait for the device.
//!
//! The one idea: a long read saves seeks, and everybody behind it waits for it. So a job gets no more
//! time than leaves those behind it in time ([`Depth::bytes`] is told how much that is), and what it
//! lacks its chain reads when nobody waits. But never less than three sizes, whoever waits: what its
//! viewer asked for; what takes as long to transfer as to get to (Li et al., Competitive prefetching,
//! EuroSys '07: at most twice the disk time of the best choice, whatever the viewer does next); and
//! what is long enough for the device to go on carrying as much as it has shown that it can. Without
//! the last, a device with too much to do would fall from one size to the next smaller one, each of
//! which carries less.

use headlong_units::{BitRate, Duration, Instant, MIB};

use crate::control::DriveTimes;
use crate::pace::Pace;

/// What was carried is forgotten by this part of it in each [`STEP`], unless as much is carried again:
/// half of it in 220 s. In virtual time, under more viewers than fit, a minute's memory carries 4 %
/// less than five minutes'.
const FORGOTTEN: u64 = 32;
/// How often that is looked at.
const STEP: Duration = Duration::from_secs(10);
/// However much was carried, some time is left to reposition, of 1.
const FREE_MIN: f64 = 1.0 / 64.0;

/// What a device has shown that it can carry, and how long reads are for that.
#[derive(Debug)]
pub(crate) struct Depth {
    /// Bytes sent for the first time since they were read.
    sent: Pace,
    carried: BitRate,
    next_step: Instant,
}

impl Default for Depth {
    fn default() -> Self {
        Self {
            sent: Pace::new(Instant::ZERO),
            carried: BitRate(0),
            next_step: Instant::ZERO,
        }
    }
}

impl Depth {
    /// Some bytes were sent that had not been sent since they were read.
    pub(crate) fn record_sent(&mut self, now: Instant, bytes: u64) {
        self.sent.record(now, bytes);
        if now >= self.next_step {
            self.next_step = now + STEP;
            let faded = self.carried.0 - self.carried.0 / FORGOTTEN;
            let rate = self.sent.rate(now).unwrap_or(BitRate(0));
            self.carried = BitRate(rate.0.max(faded));
        }
    }

    /// What the device has shown that it can carry.
    pub(crate) fn carried(&self) -> BitRate {
        self.carried
    }

    /// The same, as an earlier process had seen it.
    pub(crate) fn resume(&mut self, carried: BitRate) {
        self.carried = carried;
    }

    /// Bytes of a job to read now: so many that the read takes `time`, but at least `asked`, and what
    /// keeps the device from falling behind.
    pub(crate) fn bytes(&self, drive: DriveTimes, asked: u64, time: Duration) -> u64 {
        let least = drive.balanced_bytes().max(self.carrying_bytes(drive));
        drive.bytes_within(time).max(least).max(asked)
    }

    /// How long reads are with which the device carries what it has carried: of its time, transfer
    /// takes the share that this is of its rate, and the rest is left for repositioning.
    fn carrying_bytes(&self, drive: DriveTimes) -> u64 {
        let bytes_per_s = self.carried.0 as f64 / 8.0;
        let transfers = bytes_per_s * drive.transfer_per_mib.as_secs_f64() / MIB as f64;
        let free = (1.0 - transfers).max(FREE_MIN);
        (bytes_per_s * drive.reposition.as_secs_f64() / free) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 8 ms to get there, 8 ms for a mebibyte: 125 MiB/s.
    const DRIVE: DriveTimes = DriveTimes {
        reposition: Duration::from_millis(8),
        transfer_per_mib: Duration::from_millis(8),
    };

    fn after_sending(mib_s: u64, seconds: u64, mut depth: Depth, from: u64) -> Depth {
        for tenth in from * 10..(from + seconds) * 10 {
            let at = Instant::ZERO + Duration::from_millis(tenth * 100);
            depth.record_sent(at, mib_s * MIB / 10);
        }
        depth
    }

    #[test]
    fn a_job_takes_the_time_that_others_leave_it() {
        let bytes = Depth::default().bytes(DRIVE, 0, Duration::from_millis(40));
        assert_eq!(bytes, 4 * MIB);
    }

    #[test]
    fn with_no_time_at_all_it_transfers_for_as_long_as_it_repositions() {
        let depth = Depth::default();
        assert_eq!(depth.bytes(DRIVE, 0, Duration::ZERO), MIB);
        assert_eq!(depth.bytes(DRIVE, 3 * MIB, Duration::ZERO), 3 * MIB);
    }

    #[test]
    fn reads_stay_long_enough_for_what_the_device_has_carried() {
        // 100 MiB/s leave a fifth of the time for repositioning: 25 reads of 4 MiB a second.
        let depth = after_sending(100, 60, Depth::default(), 0);
        let bytes = depth.bytes(DRIVE, 0, Duration::ZERO);
        assert!((7 * MIB / 2..5 * MIB).contains(&bytes), "{bytes}");
        // It is behind now and sends less: that is no reason for reads with which it sends still less.
        let depth = after_sending(50, 60, depth, 60);
        let bytes = depth.bytes(DRIVE, 0, Duration::ZERO);
        assert!(bytes > 2 * MIB, "{bytes}");
        // What was carried long ago is forgotten.
        let depth = after_sending(10, 1_200, depth, 120);
        assert_eq!(depth.bytes(DRIVE, 0, Duration::ZERO), MIB);
    }

    proptest! {
        #[test]
        fn more_time_never_makes_a_job_shorter(
            sent in 0u64..400, asked in 0u64..64 * MIB, less in 0u64..2_000, more in 0u64..2_000,
        ) {
            let depth = after_sending(sent, 30, Depth::default(), 0);
            let bytes = |millis| depth.bytes(DRIVE, asked, Duration::from_millis(millis));
            prop_assert!(bytes(less) <= bytes(less + more));
            prop_assert!(bytes(less) >= asked);
        }
    }
}
