//! Cost model of a device, measured during operation: a repositioning time, and a time per byte.
//!
//! A least-squares line through (bytes, time) of the reads that repositioned, with slowly fading
//! weights. Its intercept is the repositioning time under the present queue, its slope the transfer
//! rate. Their product is the size at which transfer takes as long as repositioning: the start size
//! of Li et al. (Competitive prefetching, EuroSys '07), with which automated-prefetching section 7
//! begins.
//!
//! Reads of nearly one size cannot separate intercept from slope. The line therefore includes a few
//! reads of a usual device of the same class, which never fade: they have no weight where sizes
//! differ, and determine the slope where they do not.
//!
//! Invariants: no reported time is zero, or impossible for a device of the class; nothing counts as
//! measured before enough reads.

use headlong_units::{Duration, MIB};

/// A read as old as this many others weighs 1/e.
const MEMORY_READS: f64 = 512.0;
/// Fewer reads are no measurement.
const READS_MIN: f64 = 32.0;
/// Reads of a usual device of the class, this many of each size.
const CLASS_READS: f64 = 1.0;
const CLASS_BYTES: [f64; 2] = [0.5 * MIB as f64, 8.0 * MIB as f64];

/// Usual values of a class of devices, and their bounds.
#[derive(Debug, Clone, Copy)]
struct DriveClass {
    usual: DriveTimes,
    reposition: (Duration, Duration),
    transfer_per_mib: (Duration, Duration),
}

/// Disks of 5,400 to 10,000 rpm: 15 ms for a third of the stroke and half a turn, 125 MiB/s. A
/// reposition takes at least a settle, and at most a full stroke, a turn and the effect of a queue
/// (WD Red: 32.6 ms by libception Table 1); rates lie between 20 MiB/s and 1 GiB/s.
const ROTATING: DriveClass = DriveClass {
    usual: DriveTimes {
        reposition: Duration::from_millis(15),
        transfer_per_mib: Duration::from_millis(8),
    },
    reposition: (Duration::from_millis(2), Duration::from_millis(60)),
    transfer_per_mib: (Duration::from_millis(1), Duration::from_millis(50)),
};
/// Devices without an arm: 0.1 ms and 500 MiB/s.
const SOLID_STATE: DriveClass = DriveClass {
    usual: DriveTimes {
        reposition: Duration::from_micros(100),
        transfer_per_mib: Duration::from_millis(2),
    },
    reposition: (Duration::from_micros(10), Duration::from_millis(60)),
    transfer_per_mib: (Duration::from_micros(50), Duration::from_millis(50)),
};

/// Times of a device, as measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriveTimes {
    /// From the end of one read to the first byte of the next, on average.
    pub reposition: Duration,
    /// To transfer one MiB.
    pub transfer_per_mib: Duration,
}

impl DriveTimes {
    /// Bytes that a read of this duration transfers.
    pub(crate) fn bytes_within(&self, time: Duration) -> u64 {
        let transferring = u128::from((time - self.reposition).0);
        let bytes = transferring * u128::from(MIB) / u128::from(self.transfer_per_mib.0.max(1));
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Duration of a read of this many bytes.
    pub(crate) fn time_of(&self, bytes: u64) -> Duration {
        let transferring =
            u128::from(bytes) * u128::from(self.transfer_per_mib.0) / u128::from(MIB);
        self.reposition + Duration(u64::try_from(transferring).unwrap_or(u64::MAX))
    }

    /// Bytes that take as long to transfer as to reach (Li et al.).
    pub fn balanced_bytes(&self) -> u64 {
        let bytes = u128::from(self.reposition.0) * u128::from(MIB)
            / u128::from(self.transfer_per_mib.0.max(1));
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

/// The running fit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DriveFit {
    class: DriveClass,
    measured: FitSums,
}

#[derive(Debug, Clone, Copy, Default)]
struct FitSums {
    weight: f64,
    bytes: f64,
    time: f64,
    bytes_bytes: f64,
    bytes_time: f64,
}

impl FitSums {
    fn add(&mut self, weight: f64, bytes: f64, time: f64) {
        self.weight += weight;
        self.bytes += weight * bytes;
        self.time += weight * time;
        self.bytes_bytes += weight * bytes * bytes;
        self.bytes_time += weight * bytes * time;
    }

    fn fade(&mut self, part: f64) {
        self.weight *= part;
        self.bytes *= part;
        self.time *= part;
        self.bytes_bytes *= part;
        self.bytes_time *= part;
    }

    /// Mean bytes and time, and the slope between them; zeros without reads, slope zero for one
    /// size.
    fn line(&self) -> (f64, f64, f64) {
        let weight = self.weight.max(f64::MIN_POSITIVE);
        let (x, y) = (self.bytes / weight, self.time / weight);
        let variance = self.bytes_bytes / weight - x * x;
        let covariance = self.bytes_time / weight - x * y;
        let slope = if variance > 0.0 {
            covariance / variance
        } else {
            0.0
        };
        (x, y, slope)
    }
}

impl DriveFit {
    /// A fit without measurements, of a device with or without an arm.
    pub(crate) fn new(has_arm: bool) -> Self {
        Self {
            class: if has_arm { ROTATING } else { SOLID_STATE },
            measured: FitSums::default(),
        }
    }

    /// A read after a reposition occupied the device for `took`.
    pub(crate) fn record(&mut self, bytes: u64, took: Duration) {
        self.measured.fade(1.0 - 1.0 / MEMORY_READS);
        self.measured.add(1.0, bytes as f64, took.0 as f64);
    }

    /// Restores earlier measurements with the weight of twice the minimum number of reads, so that
    /// new measurements soon outweigh them.
    pub(crate) fn resume(&mut self, times: DriveTimes) {
        for number in 0..(2.0 * READS_MIN) as u64 {
            let bytes = (1 + number % 2 * 4) * MIB;
            let transfer = times.transfer_per_mib.times(bytes / MIB);
            self.record(bytes, times.reposition + transfer);
        }
    }

    /// The device as measured; `None` before enough reads.
    pub(crate) fn times(&self) -> Option<DriveTimes> {
        (self.measured.weight >= READS_MIN).then(|| self.best_known())
    }

    /// The device as measured so far, else the usual values of its class.
    pub(crate) fn best_known(&self) -> DriveTimes {
        let DriveClass {
            usual,
            reposition,
            transfer_per_mib,
        } = self.class;
        let clamp = |time: f64, (least, most): (Duration, Duration)| {
            Duration((time.max(0.0) as u64).clamp(least.0, most.0))
        };
        if self.measured.weight < 1.0 {
            return usual;
        }
        // The usual reads pass through the mean of the measured ones: they add a slope, no
        // intercept.
        let per_byte = usual.transfer_per_mib.0 as f64 / MIB as f64;
        let (x, y, _) = self.measured.line();
        let mut sums = self.measured;
        for bytes in CLASS_BYTES {
            sums.add(CLASS_READS, bytes, y + (bytes - x) * per_byte);
        }
        let (_, _, slope) = sums.line();
        let per_mib = clamp(slope * MIB as f64, transfer_per_mib);
        let going = y - per_mib.0 as f64 / MIB as f64 * x;
        DriveTimes {
            reposition: clamp(going, reposition),
            transfer_per_mib: per_mib,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headlong_units::KIB;
    use proptest::prelude::*;

    fn fitted(reads: impl Iterator<Item = (u64, Duration)>) -> Option<DriveTimes> {
        let mut fit = DriveFit::new(true);
        for (bytes, took) in reads {
            fit.record(bytes, took);
        }
        fit.times()
    }

    #[test]
    fn line_of_reads_gives_repositioning_time_and_rate() {
        let reads = (0..100).map(|n| {
            let bytes = (n % 7 + 1) * 512 * KIB;
            (bytes, Duration(12_000_000 + bytes * 8_000_000 / MIB))
        });
        let times = fitted(reads).expect("a firm line");
        assert!(times.reposition.0.abs_diff(12_000_000) < 1_000);
        assert!(times.transfer_per_mib.0.abs_diff(8_000_000) < 1_000);
        assert!(times.balanced_bytes().abs_diff(3 * MIB / 2) < KIB);
    }

    #[test]
    fn reads_of_one_size_keep_rate_of_class() {
        let reads = (0..1_000).map(|_| (MIB, Duration::from_millis(20)));
        let times = fitted(reads).expect("measured");
        assert!(
            times.transfer_per_mib.0.abs_diff(8_000_000) < 1_000,
            "{times:?}"
        );
        assert!(times.reposition.0.abs_diff(12_000_000) < 1_000, "{times:?}");
    }

    #[test]
    fn unmeasured_device_has_values_of_its_class() {
        assert_eq!(DriveFit::new(true).best_known(), ROTATING.usual);
        assert_eq!(DriveFit::new(false).best_known(), SOLID_STATE.usual);
    }

    #[test]
    fn few_reads_are_no_measurement() {
        let reads = (0..20).map(|n| (n * MIB, Duration::from_millis(10 + n)));
        assert_eq!(fitted(reads), None);
    }

    #[test]
    fn changed_device_is_measured_again() {
        let slow = (0..600).map(|n| (n % 5 * MIB, Duration::from_millis(30 + n % 5 * 20)));
        let fast = (0..3_000).map(|n| (n % 5 * MIB, Duration::from_millis(10 + n % 5 * 5)));
        let times = fitted(slow.chain(fast)).expect("a firm line");
        assert!(times.reposition < Duration::from_millis(11), "{times:?}");
        assert!(
            times.transfer_per_mib < Duration::from_millis(6),
            "{times:?}"
        );
    }

    proptest! {
        #[test]
        fn reported_times_are_possible_for_the_class(
            reads in prop::collection::vec((0u64..64 * MIB, 0u64..10_000_000_000), 0..200),
        ) {
            if let Some(times) = fitted(reads.into_iter().map(|(b, t)| (b, Duration(t)))) {
                let (least, most) = ROTATING.reposition;
                prop_assert!((least..=most).contains(&times.reposition));
                let (least, most) = ROTATING.transfer_per_mib;
                prop_assert!((least..=most).contains(&times.transfer_per_mib));
            }
        }
    }
}
