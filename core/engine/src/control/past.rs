//! The chains that ended lately: how far they went, and how far they could have gone.
//!
//! The one idea: nobody knows how long viewers will stay, but how long the last ones
//! stayed says what any size would have cost for them: how many reads, and how many bytes for
//! nothing.

use alloc::collections::VecDeque;

use super::DriveTimes;

/// Chains remembered.
const CHAINS_MAX: usize = 512;

/// A chain that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Bytes that its viewer read.
    pub(crate) read_bytes: u64,
    /// Bytes from its beginning to the end of its stream.
    pub(crate) whole_bytes: u64,
    /// What the rule gave it for each MiB of the reference size, bytes.
    pub(crate) rule_bytes_per_mib: u64,
    /// It had its next prefetch queued when it had so much left.
    pub(crate) ahead_bytes: u64,
    /// Bytes sent to all viewers by the time it ended.
    pub(crate) sent_bytes: u64,
}

/// The last chains that ended.
#[derive(Debug, Default)]
pub(crate) struct Past {
    chains: VecDeque<Ended>,
}

/// What some chains would have made the device do.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Work {
    pub(crate) reads: f64,
    pub(crate) bytes_read: f64,
    pub(crate) bytes_sent: f64,
}

impl Work {
    /// Nanoseconds of disk time for each read.
    pub(crate) fn read_time(&self, drive: DriveTimes) -> f64 {
        self.cost(drive) * self.bytes_sent.max(1.0) / self.reads.max(1.0)
    }

    /// Nanoseconds of disk time for each byte sent.
    pub(crate) fn cost(&self, drive: DriveTimes) -> f64 {
        let per_byte = drive.transfer_per_mib.0 as f64 / headlong_units::MIB as f64;
        let time = self.reads * drive.reposition.0 as f64 + self.bytes_read * per_byte;
        time / self.bytes_sent.max(1.0)
    }
}

impl Past {
    pub(crate) fn record(&mut self, ended: Ended) {
        if ended.read_bytes == 0 || ended.rule_bytes_per_mib == 0 {
            return;
        }
        if self.chains.len() >= CHAINS_MAX {
            self.chains.pop_front();
        }
        self.chains.push_back(ended);
    }

    pub(crate) fn len(&self) -> usize {
        self.chains.len()
    }

    /// What the reference size `bytes`, times `scale` for want of memory, would have made of them.
    ///
    /// Those who ended are too short a picture while the long ones go on: what was sent
    /// in the same time beyond them, up to now (`sent_bytes`), counts as prefetches read to
    /// the end.
    pub(crate) fn replay(&self, bytes: u64, scale: f64, sent_bytes: u64) -> Work {
        let mut work = Work::default();
        let mut rule_sum = 0.0;
        for chain in &self.chains {
            let rule = chain.rule_bytes_per_mib as f64 * bytes as f64 / headlong_units::MIB as f64;
            let size = (rule * scale).max(1.0);
            let (read, whole) = (chain.read_bytes as f64, chain.whole_bytes as f64);
            let ahead = (chain.ahead_bytes as f64).min(size);
            let wanted = (read + ahead).min(whole).max(1.0);
            let reads = libm::ceil(wanted / size);
            // The last read may end with the stream, before it is a whole prefetch.
            let read_bytes = (reads * size).min(whole.max(read));
            work.reads += reads;
            work.bytes_read += read_bytes;
            work.bytes_sent += read;
            rule_sum += size;
        }
        let Some(first) = self.chains.front() else {
            return work;
        };
        let beyond = sent_bytes.saturating_sub(first.sent_bytes) as f64 - work.bytes_sent;
        if beyond > 0.0 {
            work.reads += beyond / (rule_sum / self.chains.len() as f64);
            work.bytes_read += beyond;
            work.bytes_sent += beyond;
        }
        work
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headlong_units::{Duration, KIB, MIB};

    fn chain(read_bytes: u64, whole_bytes: u64) -> Ended {
        Ended {
            read_bytes,
            whole_bytes,
            rule_bytes_per_mib: MIB,
            ahead_bytes: 512 * KIB,
            sent_bytes: 0,
        }
    }

    fn past(chains: &[Ended]) -> Past {
        let mut past = Past::default();
        chains.iter().for_each(|chain| past.record(*chain));
        past
    }

    #[test]
    fn a_chain_costs_a_read_for_each_prefetch_it_came_near_the_end_of() {
        let past = past(&[chain(4 * MIB, 100 * MIB)]);
        // At 4 MiB its next prefetch had been queued when it left.
        let work = past.replay(4 * MIB, 1.0, 0);
        assert_eq!((work.reads, work.bytes_read), (2.0, 8.0 * MIB as f64));
        let work = past.replay(5 * MIB, 1.0, 0);
        assert_eq!((work.reads, work.bytes_read), (1.0, 5.0 * MIB as f64));
    }

    #[test]
    fn nothing_is_read_beyond_the_end_of_a_stream() {
        let work = past(&[chain(6 * MIB, 6 * MIB)]).replay(4 * MIB, 1.0, 0);
        assert_eq!((work.reads, work.bytes_read), (2.0, 6.0 * MIB as f64));
    }

    #[test]
    fn what_goes_on_counts_without_waste() {
        let work = past(&[chain(MIB, 2 * MIB)]).replay(2 * MIB, 1.0, 9 * MIB);
        assert_eq!(work.bytes_sent, 9.0 * MIB as f64);
        assert_eq!(work.bytes_read, 10.0 * MIB as f64);
        assert_eq!(work.reads, 1.0 + 4.0);
    }

    #[test]
    fn repositioning_calls_for_large_reads_and_leaving_early_for_small_ones() {
        let short = past(&[chain(MIB, 100 * MIB)]);
        let long = past(&[chain(80 * MIB, 100 * MIB)]);
        let drive = DriveTimes {
            reposition: Duration::from_millis(16),
            transfer_per_mib: Duration::from_millis(8),
        };
        let cost = |past: &Past, bytes| past.replay(bytes, 1.0, 0).cost(drive);
        assert!(cost(&short, 2 * MIB) < cost(&short, 16 * MIB));
        assert!(cost(&long, 16 * MIB) < cost(&long, 2 * MIB));
    }

    #[test]
    fn only_the_last_chains_count() {
        let mut past = past(&[chain(MIB, MIB)]);
        for _ in 0..CHAINS_MAX {
            past.record(chain(2 * MIB, 2 * MIB));
        }
        assert_eq!(past.len(), CHAINS_MAX);
        let sent = past.replay(MIB, 1.0, 0).bytes_sent;
        assert_eq!(sent, (CHAINS_MAX as u64 * 2 * MIB) as f64);
    }
}
