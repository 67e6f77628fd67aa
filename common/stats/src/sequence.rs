//! How sequential the work of a disk is: sequences of adjacent requests (libception 5.5).
//!
//! Moving from the end of one sequence to the start of the next costs a seek and part of a
//! revolution; continuing within a sequence does not. So the relevant quantity is the number of
//! bytes read in long sequences.

use alloc::collections::BTreeMap;

use crate::cdf::Cdf;
use crate::sample_error::SampleError;

/// One request as it reached the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Its first byte on the device.
    pub start_bytes: u64,
    /// Its length.
    pub length_bytes: u64,
    /// Whether it is a write. A write after a read does not continue the sequence of the read.
    pub is_write: bool,
}

/// The sequences of a trace, added request by request in the order in which the disk received them.
/// Memory use grows with the number of distinct lengths, not with the length of the trace.
#[derive(Debug, Clone, Default)]
pub struct Sequences {
    /// The position where the current sequence would continue, and its direction.
    next: Option<(u64, bool)>,
    current_bytes: u64,
    /// Bytes of finished sequences, by the length of the sequence.
    by_length: BTreeMap<u64, u64>,
    sequences: u64,
    requests: u64,
    bytes: u64,
}

impl Sequences {
    /// Creates an empty trace.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next request. A request of zero bytes is ignored.
    pub fn add(&mut self, access: Access) {
        if access.length_bytes == 0 {
            return;
        }
        if self.next != Some((access.start_bytes, access.is_write)) {
            self.close();
            self.sequences += 1;
        }
        self.requests += 1;
        self.bytes = self.bytes.saturating_add(access.length_bytes);
        self.current_bytes = self.current_bytes.saturating_add(access.length_bytes);
        let end = access.start_bytes.saturating_add(access.length_bytes);
        self.next = Some((end, access.is_write));
    }

    fn close(&mut self) {
        if self.current_bytes > 0 {
            let bytes = self.by_length.entry(self.current_bytes).or_default();
            *bytes = bytes.saturating_add(self.current_bytes);
            self.current_bytes = 0;
        }
        self.next = None;
    }

    /// Number of requests.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Total bytes of all requests.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of sequences, including the unfinished one.
    pub fn sequences(&self) -> u64 {
        self.sequences
    }

    /// Bytes per sequence, if there is one: the work of a disk per repositioning.
    pub fn mean_bytes(&self) -> Option<f64> {
        (self.sequences > 0).then(|| self.bytes as f64 / self.sequences as f64)
    }

    /// Bytes by the length of the sequence they belong to, in bytes: libception Figure 6. The
    /// unfinished sequence counts with its current length.
    ///
    /// # Errors
    /// If there were no requests.
    /// If there were no requests.
    pub fn cdf(&self) -> Result<Cdf, SampleError> {
        let mut all = self.clone();
        all.close();
        // All sequences of one length form one step, however many there are.
        Cdf::of_weighted(
            all.by_length
                .iter()
                .map(|(length, bytes)| (*length as f64, *bytes as f64)),
        )
    }
}

impl Extend<Access> for Sequences {
    fn extend<I: IntoIterator<Item = Access>>(&mut self, accesses: I) {
        accesses.into_iter().for_each(|access| self.add(access));
    }
}

impl FromIterator<Access> for Sequences {
    fn from_iter<I: IntoIterator<Item = Access>>(accesses: I) -> Self {
        let mut sequences = Self::new();
        sequences.extend(accesses);
        sequences
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(start_bytes: u64, length_bytes: u64) -> Access {
        Access {
            start_bytes,
            length_bytes,
            is_write: false,
        }
    }

    #[test]
    fn adjacent_requests_are_one_sequence() {
        let trace = [read(0, 100), read(100, 100), read(500, 50), read(100, 50)];
        let sequences: Sequences = trace.into_iter().collect();
        assert_eq!((sequences.requests(), sequences.bytes()), (4, 300));
        assert_eq!(sequences.sequences(), 3);
        assert_eq!(sequences.mean_bytes(), Some(100.0));
        let cdf = sequences.cdf().expect("requests");
        // A third of the bytes are in the two sequences of 50, the rest in the one of 200.
        assert!(libm::fabs(cdf.share_up_to(199.0) - 1.0 / 3.0) < 1e-12);
        assert_eq!((cdf.share_up_to(49.0), cdf.max()), (0.0, 200.0));
    }

    #[test]
    fn a_write_does_not_continue_a_read() {
        let mut write = read(100, 100);
        write.is_write = true;
        let sequences: Sequences = [read(0, 100), write].into_iter().collect();
        assert_eq!(sequences.sequences(), 2);
    }

    #[test]
    fn a_trace_without_requests_has_no_curve() {
        let sequences: Sequences = [read(5, 0)].into_iter().collect();
        assert_eq!((sequences.sequences(), sequences.mean_bytes()), (0, None));
        assert!(sequences.cdf().is_err());
    }

    proptest! {
        #[test]
        fn every_byte_is_in_exactly_one_sequence(
            trace in prop::collection::vec((0u64..8, 1u64..4, any::<bool>()), 0..100),
        ) {
            let accesses = trace.into_iter().map(|(start_bytes, length_bytes, is_write)| Access {
                start_bytes, length_bytes, is_write,
            });
            let sequences: Sequences = accesses.collect();
            if let Ok(cdf) = sequences.cdf() {
                prop_assert_eq!(cdf.weight(), sequences.bytes() as f64);
            }
            prop_assert!(sequences.sequences() <= sequences.requests());
        }
    }
}
