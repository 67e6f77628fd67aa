//! What a device costs, measured while it works: a time to go somewhere, and a time for each byte.
//!
//! The one idea: a line through (bytes, time) of the reads that had to go somewhere, fitted by
//! least squares with slowly fading memory. Its height at zero is the repositioning time under the
//! present queue, its slope the transfer rate. Their product is the size at which a read
//! transfers for as long as it repositions: the start size of Li et al. (Competitive prefetching,
//! EuroSys '07), which automated-prefetching section 7 begins with.
//!
//! Invariant: no line is told before it is firm: enough reads, of sizes far enough apart, and a
//! slope above zero.

use headlong_units::{Duration, MIB};

/// A read as old as this many others weighs 1/e.
const MEMORY_READS: f64 = 512.0;
/// Fewer reads tell nothing.
const READS_MIN: f64 = 32.0;
/// Standard deviation of the sizes, in bytes, below which slope and height cannot be told apart.
const SPREAD_MIN_BYTES: f64 = 128.0 * 1024.0;

/// Times of a device, as measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriveTimes {
    /// From the end of one read to the first byte of the next, on average.
    pub reposition: Duration,
    /// To transfer one MiB.
    pub transfer_per_mib: Duration,
}

impl DriveTimes {
    /// Bytes that a read transfers that takes so long.
    pub(crate) fn bytes_within(&self, time: Duration) -> u64 {
        let transferring = u128::from((time - self.reposition).0);
        let bytes = transferring * u128::from(MIB) / u128::from(self.transfer_per_mib.0.max(1));
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Bytes that take as long to transfer as it takes to get to them (Li et al.).
    pub fn balanced_bytes(&self) -> u64 {
        let bytes = u128::from(self.reposition.0) * u128::from(MIB)
            / u128::from(self.transfer_per_mib.0.max(1));
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

/// The running fit.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DriveFit {
    weight: f64,
    bytes: f64,
    time: f64,
    bytes_bytes: f64,
    bytes_time: f64,
}

impl DriveFit {
    /// A read that had to go somewhere occupied the device for `took`.
    pub(crate) fn record(&mut self, bytes: u64, took: Duration) {
        let fade = 1.0 - 1.0 / MEMORY_READS;
        let (x, y) = (bytes as f64, took.0 as f64);
        self.weight = self.weight * fade + 1.0;
        self.bytes = self.bytes * fade + x;
        self.time = self.time * fade + y;
        self.bytes_bytes = self.bytes_bytes * fade + x * x;
        self.bytes_time = self.bytes_time * fade + x * y;
    }

    /// Times that were measured before: as many reads' worth of them as make a line firm, so that
    /// what is measured from now on soon counts for more.
    pub(crate) fn resume(&mut self, times: DriveTimes) {
        for number in 0..(2.0 * READS_MIN) as u64 {
            let bytes = (1 + number % 2 * 4) * MIB;
            let transfer = times.transfer_per_mib.times(bytes / MIB);
            self.record(bytes, times.reposition + transfer);
        }
    }

    /// The line, once it is firm.
    pub(crate) fn times(&self) -> Option<DriveTimes> {
        if self.weight < READS_MIN {
            return None;
        }
        let (x, y) = (self.bytes / self.weight, self.time / self.weight);
        let variance = self.bytes_bytes / self.weight - x * x;
        let covariance = self.bytes_time / self.weight - x * y;
        if variance < SPREAD_MIN_BYTES * SPREAD_MIN_BYTES || covariance <= 0.0 {
            return None;
        }
        let slope = covariance / variance;
        let height = y - slope * x;
        let per_mib = slope * MIB as f64;
        // A slope that explains everything is no measurement of how long the way takes.
        (height > 0.0 && per_mib >= 1.0).then_some(DriveTimes {
            reposition: Duration(height as u64),
            transfer_per_mib: Duration(per_mib as u64),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headlong_units::KIB;
    use proptest::prelude::*;

    fn fitted(reads: impl Iterator<Item = (u64, Duration)>) -> Option<DriveTimes> {
        let mut fit = DriveFit::default();
        for (bytes, took) in reads {
            fit.record(bytes, took);
        }
        fit.times()
    }

    #[test]
    fn a_line_of_reads_gives_back_its_repositioning_time_and_rate() {
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
    fn reads_of_one_size_say_nothing() {
        let reads = (0..1_000).map(|_| (MIB, Duration::from_millis(20)));
        assert_eq!(fitted(reads), None);
    }

    #[test]
    fn a_few_reads_say_nothing() {
        let reads = (0..20).map(|n| (n * MIB, Duration::from_millis(10 + n)));
        assert_eq!(fitted(reads), None);
    }

    #[test]
    fn a_device_that_changes_is_measured_anew() {
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
        fn whatever_is_measured_no_time_is_told_that_is_not_positive(
            reads in prop::collection::vec((0u64..64 * MIB, 0u64..10_000_000_000), 0..200),
        ) {
            if let Some(times) = fitted(reads.into_iter().map(|(b, t)| (b, Duration(t)))) {
                prop_assert!(times.transfer_per_mib > Duration::ZERO);
                prop_assert!(times.balanced_bytes() < u64::MAX);
            }
        }
    }
}
