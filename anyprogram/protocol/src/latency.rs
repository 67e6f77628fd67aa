//! How long calls took, as counts in buckets that double (libception 6.6, Figure 17).

/// Number of buckets.
pub const BUCKETS: usize = 32;

/// Counts by bucket.
pub type Latencies = [u32; BUCKETS];

/// The bucket of a time: the first has what took less than a microsecond, each further one up to
/// twice as long, the last all the rest.
pub fn bucket(nanoseconds: u64) -> usize {
    let microseconds = nanoseconds / 1000;
    let bits = (u64::BITS - microseconds.leading_zeros()) as usize;
    bits.min(BUCKETS - 1)
}

/// Times in a bucket are shorter than this, microseconds; the last has no end.
pub fn bucket_end_us(bucket: usize) -> Option<u64> {
    (bucket < BUCKETS - 1).then(|| 1 << bucket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_bucket_that_ends_above_it() {
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
