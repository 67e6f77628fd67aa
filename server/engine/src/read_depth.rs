//! Read depth: how much of a job is read now, while other jobs wait for the device.
//!
//! A long read saves seeks, but delays every job behind it. A job therefore gets no more time than
//! keeps those behind it within their deadlines (the `time` of [`ReadDepth::bytes`]); its chain
//! reads the rest when no other job waits. It never gets less than three sizes: the bytes that its
//! viewer requested; the bytes that take as long to transfer as to reach (Li et al., Competitive
//! prefetching, EuroSys '07: at most twice the disk time of the best choice, whatever the viewer
//! does next); and, up to what was wanted, the size at which the device would carry all that
//! viewers take. Without the last, an overloaded device falls from one size to the next smaller
//! one, each with less throughput. With a bound of half of what was wanted it still did after some
//! minutes: every job was late, every read had half of its size, and the limit of a WD Red over half
//! an hour was 74 MiB/s instead of 81.

use headlong_units::{BitRate, Duration, Instant, MIB};

use crate::control::DriveTimes;
use crate::pace::ViewerPace;

/// Fraction by which the sustained rate decays in each [`STEP`], unless the device reaches it
/// again: half in 220 s. In virtual time, under more viewers than fit, a memory of one minute
/// carries 4 % less than one of five minutes.
const FORGOTTEN: u64 = 32;
/// How often the sustained rate is updated.
const STEP: Duration = Duration::from_secs(10);
/// Smallest share of the time that is left for repositioning, of 1.
const FREE_MIN: f64 = 1.0 / 64.0;

/// How long a job may be.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct JobSize {
    /// What its viewer requested, or will request next.
    pub(crate) requested_bytes: u64,
    /// The prefetch size of its chain.
    pub(crate) wanted_bytes: u64,
}

/// The sustained throughput of a device, and the read sizes it needs.
#[derive(Debug)]
pub(crate) struct ReadDepth {
    /// Bytes sent, also those from memory: under overload viewers take fewer new ones than they
    /// need. In virtual time, with 5 % more viewers than a WD Red carries, 1.6 % of sessions fail,
    /// and 10.2 % if only bytes count that were just read.
    sent: ViewerPace,
    /// Bytes read, which are more than those sent while viewers return after a start: with them, a
    /// WD Red reads 4.6 MB a seek in its first 100 s at 82 MiB/s instead of 3.9, and fewer viewers
    /// are lost later. If only these counted, it would fail in the steady state with 5 % fewer.
    read: ViewerPace,
    carried: BitRate,
    next_step: Instant,
}

impl Default for ReadDepth {
    fn default() -> Self {
        Self {
            sent: ViewerPace::new(Instant::ZERO),
            read: ViewerPace::new(Instant::ZERO),
            carried: BitRate(0),
            next_step: Instant::ZERO,
        }
    }
}

impl ReadDepth {
    /// Some bytes were sent.
    pub(crate) fn record_sent(&mut self, now: Instant, bytes: u64) {
        self.sent.record(now, bytes);
        self.step(now);
    }

    /// Bytes were read from the device.
    pub(crate) fn record_read(&mut self, now: Instant, bytes: u64) {
        self.read.record(now, bytes);
        self.step(now);
    }

    fn step(&mut self, now: Instant) {
        if now >= self.next_step {
            self.next_step = now + STEP;
            let faded = self.carried.0 - self.carried.0 / FORGOTTEN;
            let rate = |pace: &ViewerPace| pace.rate(now).map_or(0, |rate| rate.0);
            let carries = rate(&self.sent).max(rate(&self.read));
            self.carried = BitRate(carries.max(faded));
        }
    }

    /// The throughput that the device has sustained.
    pub(crate) fn carried(&self) -> BitRate {
        self.carried
    }

    /// Restores the throughput that an earlier process had observed.
    pub(crate) fn resume(&mut self, carried: BitRate) {
        self.carried = carried;
    }

    /// Bytes of a job to read now: as many as take `time` to read, but at least what its viewer
    /// requested, and at least what keeps the device from falling behind.
    pub(crate) fn bytes(&self, drive: DriveTimes, size: JobSize, time: Duration) -> u64 {
        let carrying = self.carrying_bytes(drive).min(size.wanted_bytes);
        let least = drive.balanced_bytes().max(carrying);
        drive
            .bytes_within(time)
            .max(least)
            .max(size.requested_bytes)
    }

    /// The read size at which the device sustains its throughput: transfers take that share of its
    /// time, and repositioning the rest.
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

    /// 8 ms to reposition, 8 ms for a mebibyte: 125 MiB/s.
    const DRIVE: DriveTimes = DriveTimes {
        reposition: Duration::from_millis(8),
        transfer_per_mib: Duration::from_millis(8),
    };

    fn after_sending(mib_s: u64, seconds: u64, mut depth: ReadDepth, from: u64) -> ReadDepth {
        for tenth in from * 10..(from + seconds) * 10 {
            let at = Instant::ZERO + Duration::from_millis(tenth * 100);
            depth.record_sent(at, mib_s * MIB / 10);
        }
        depth
    }

    fn requested(requested_bytes: u64) -> JobSize {
        JobSize {
            requested_bytes,
            wanted_bytes: 64 * MIB,
        }
    }

    #[test]
    fn overload_leaves_job_its_wanted_size() {
        let depth = after_sending(120, 60, ReadDepth::default(), 0);
        let size = JobSize {
            requested_bytes: MIB,
            wanted_bytes: 9 * MIB,
        };
        let bytes = |millis| depth.bytes(DRIVE, size, Duration::from_millis(millis));
        assert_eq!(bytes(0), 9 * MIB);
        assert_eq!(bytes(88), 10 * MIB, "others wait, but there is time");
    }

    #[test]
    fn job_is_as_long_as_others_allow() {
        let bytes = ReadDepth::default().bytes(DRIVE, requested(0), Duration::from_millis(40));
        assert_eq!(bytes, 4 * MIB);
    }

    #[test]
    fn read_without_time_balances_transfer_and_repositioning() {
        let depth = ReadDepth::default();
        assert_eq!(depth.bytes(DRIVE, requested(0), Duration::ZERO), MIB);
        assert_eq!(
            depth.bytes(DRIVE, requested(3 * MIB), Duration::ZERO),
            3 * MIB
        );
    }

    #[test]
    fn reads_stay_long_enough_for_sustained_throughput() {
        // 100 MiB/s leave a fifth of the time for repositioning: 25 reads of 4 MiB a second.
        let depth = after_sending(100, 60, ReadDepth::default(), 0);
        let bytes = depth.bytes(DRIVE, requested(0), Duration::ZERO);
        assert!((7 * MIB / 2..5 * MIB).contains(&bytes), "{bytes}");
        // The device is behind and sends less now: shorter reads would lower its throughput
        // further.
        let depth = after_sending(50, 60, depth, 60);
        let bytes = depth.bytes(DRIVE, requested(0), Duration::ZERO);
        assert!(bytes > 2 * MIB, "{bytes}");
        // Throughput of long ago is forgotten.
        let depth = after_sending(10, 1_200, depth, 120);
        assert_eq!(depth.bytes(DRIVE, requested(0), Duration::ZERO), MIB);
    }

    proptest! {
        #[test]
        fn more_time_never_makes_job_shorter(
            sent in 0u64..400, asked in 0u64..64 * MIB, less in 0u64..2_000, more in 0u64..2_000,
        ) {
            let depth = after_sending(sent, 30, ReadDepth::default(), 0);
            let bytes = |millis| depth.bytes(DRIVE, requested(asked), Duration::from_millis(millis));
            prop_assert!(bytes(less) <= bytes(less + more));
            prop_assert!(bytes(less) >= asked);
        }
    }
}
