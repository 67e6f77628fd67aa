//! Latencies of calls, counted in buckets of doubling width (libception 6.6, Figure 17).

/// Number of buckets.
pub const BUCKETS: usize = 32;

/// Counts by bucket.
pub type Latencies = [u32; BUCKETS];

/// The bucket of a duration. The first holds durations below a microsecond, each further bucket up
/// to twice as long, the last one all longer durations.
pub fn bucket(nanoseconds: u64) -> usize {
    let microseconds = nanoseconds / 1000;
    let bits = (u64::BITS - microseconds.leading_zeros()) as usize;
    bits.min(BUCKETS - 1)
}

/// Exclusive upper bound of a bucket, microseconds; the last bucket has none.
pub fn bucket_end_us(bucket: usize) -> Option<u64> {
    (bucket < BUCKETS - 1).then(|| 1 << bucket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_lies_within_its_bucket() {
        for ns in [0, 999, 1000, 1999, 2000, 5_000_000, 1 << 39] {
            let bucket = bucket(ns);
            let end = bucket_end_us(bucket).expect("not the last");
            assert!(ns / 1000 < end, "{ns}");
            let begin = bucket.checked_sub(1).and_then(bucket_end_us).unwrap_or(0);
            assert!(ns / 1000 >= begin, "{ns}");
        }
        assert_eq!(bucket_end_us(bucket(u64::MAX)), None);
    }
}
