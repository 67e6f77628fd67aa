//! Groups requests by session and file without moving them.
//!
//! A log of a day has tens of millions of requests in a hundred thousand sessions, ordered by time.
//! Their indexes are radix-sorted by a key that is as short as the present sessions and files
//! allow; within a group the order of the log is kept.

use alloc::vec::Vec;

use crate::Request;

/// Most bits of a digit: 4,096 counters fit the L1 cache, and the sessions and files of a large
/// partition of a large log are sorted in three passes.
const DIGIT_BITS_MAX: u32 = 12;
/// Fewer entries than counters are sorted by comparison.
const FEW: usize = 1 << DIGIT_BITS_MAX;

/// Index of a request, with its group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupedIndex {
    /// Session and file in one number: equal within a group, and ordered like session and file.
    pub(crate) group: u64,
    /// Index of the request.
    pub(crate) request: u32,
}

/// Sorted indexes of a log's requests, and scratch space.
#[derive(Debug, Default)]
pub(crate) struct SortedIndexes {
    sorted: Vec<GroupedIndex>,
    spare: Vec<GroupedIndex>,
    /// Counters of each digit.
    counters: Vec<[u32; FEW]>,
}

impl SortedIndexes {
    /// Sorts the indexes of all requests that belong to chains, by session, file and index.
    pub(crate) fn sort(&mut self, requests: &[Request]) -> &[GroupedIndex] {
        self.sorted.clear();
        let mut session_min = u32::MAX;
        let mut session_max = 0;
        let mut file_max = 0;
        // Requests are large: they are read once, and only the short keys are sorted.
        for (request, place) in requests.iter().zip(0..) {
            if request.takes_part() {
                session_min = session_min.min(request.session);
                session_max = session_max.max(request.session);
                file_max = file_max.max(request.file);
                self.sorted.push(GroupedIndex {
                    group: (u64::from(request.session) << u32::BITS) | u64::from(request.file),
                    request: place,
                });
            }
        }
        if self.sorted.is_empty() {
            return &self.sorted;
        }
        let file_bits = u32::BITS - file_max.leading_zeros();
        for place in &mut self.sorted {
            let session = (place.group >> u32::BITS) - u64::from(session_min);
            let file = place.group & u64::from(u32::MAX);
            place.group = (session << file_bits) | file;
        }
        let session_bits = u32::BITS - (session_max - session_min).leading_zeros();
        if self.sorted.len() < FEW {
            self.sorted.sort_unstable();
        } else {
            self.sort_by_digits(session_bits + file_bits);
        }
        &self.sorted
    }

    /// Radix sort, least significant digit first; each pass is stable. The counters of all passes
    /// are filled in one scan.
    fn sort_by_digits(&mut self, bits: u32) {
        let passes = bits.div_ceil(DIGIT_BITS_MAX).max(1);
        let digit_bits = bits.div_ceil(passes);
        let mask = (1_usize << digit_bits) - 1;
        let digit = |group: u64, pass: usize| (group >> (pass as u32 * digit_bits)) as usize & mask;
        let passes = passes as usize;
        self.counters.clear();
        self.counters.resize(passes, [0; FEW]);
        for place in &self.sorted {
            for (pass, counters) in self.counters.iter_mut().enumerate() {
                counters[digit(place.group, pass)] += 1;
            }
        }
        self.spare.clear();
        self.spare
            .resize(self.sorted.len(), GroupedIndex::default());
        for (pass, next) in self.counters.iter_mut().enumerate() {
            let mut sum = 0;
            for counter in next.iter_mut() {
                sum += core::mem::replace(counter, sum);
            }
            for place in &self.sorted {
                let slot = &mut next[digit(place.group, pass)];
                self.spare[*slot as usize] = *place;
                *slot += 1;
            }
            core::mem::swap(&mut self.sorted, &mut self.spare);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::{FEW, SortedIndexes};
    use crate::Request;

    fn request(session: u32, file: u32, line: u64) -> Request {
        Request {
            line,
            session,
            file,
            received_ms: 0,
            completed_ms: 0,
            offset: 0,
            asked_bytes: None,
            sent_bytes: u64::from(!line.is_multiple_of(7)),
            disk: 0,
            device: 0,
        }
    }

    fn check(requests: &[Request]) {
        let mut expected: Vec<_> = (0..requests.len())
            .filter(|&place| requests[place].sent_bytes > 0)
            .collect();
        expected.sort_by_key(|&place| (requests[place].session, requests[place].file, place));
        let mut places = SortedIndexes::default();
        let sorted: Vec<_> = places
            .sort(requests)
            .iter()
            .map(|place| place.request as usize)
            .collect();
        assert_eq!(sorted, expected);
    }

    #[test]
    fn grouping_is_stable_for_few_and_many_requests() {
        for (count, sessions, files) in [
            (0, 1, 1),
            (1, 1, 1),
            (100, 5, 7),
            (FEW as u64 * 3, 1, 1),
            (FEW as u64 * 3, 3000, 90_000),
            (FEW as u64 * 3, 4_000_000_000, 4_000_000_000),
        ] {
            let requests: Vec<_> = (0..count)
                .map(|line| {
                    let mixed = line.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    let session = (mixed >> 32) % sessions + 200;
                    let file = (mixed & 0xffff_ffff) % files;
                    request(session as u32, file as u32, line)
                })
                .collect();
            check(&requests);
        }
    }

    #[test]
    fn largest_numbers_fit_in_a_key() {
        let mut requests: Vec<_> = (1..FEW as u64 * 2)
            .map(|line| request(0, 0, line))
            .collect();
        requests.push(request(u32::MAX, u32::MAX, 1));
        requests.push(request(u32::MAX, 0, 1));
        requests.push(request(0, u32::MAX, 1));
        check(&requests);
    }
}
