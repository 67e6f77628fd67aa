//! Recently ended chains: how far they went, and how far they could have gone.
//!
//! The future lengths of chains are unknown, but the lengths of the last ones determine what any
//! size would have cost for them: how many reads, and how many wasted bytes.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use headlong_units::{BitRate, Duration};

use super::drive::DriveTimes;

/// Number of chains remembered.
const CHAINS_MAX: usize = 512;
/// More than any rule returns; only corrupt saved state exceeds it.
const RULE_BYTES_PER_MIB_MAX: u64 = 1 << 30;

/// A chain that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedChain {
    /// Bytes that its viewer read.
    pub read_bytes: u64,
    /// Bytes from its beginning to the end of its stream.
    pub whole_bytes: u64,
    /// Size by the rule per MiB of the reference size, bytes.
    pub rule_bytes_per_mib: u64,
    /// Its next prefetch was queued when this many bytes were left.
    pub ahead_bytes: u64,
    /// Reading speed of its viewer.
    pub pace: BitRate,
    /// Bytes sent to all viewers by the time it ended.
    pub sent_bytes: u64,
}

/// The last chains that ended.
#[derive(Debug, Default)]
pub(crate) struct EndedChains {
    chains: VecDeque<EndedChain>,
    /// Bytes sent by earlier processes, on the count of the restored chains.
    sent_before: u64,
}

/// The work that some chains would have caused at the device.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct DeviceWork {
    pub(crate) reads: f64,
    pub(crate) bytes_read: f64,
    pub(crate) bytes_sent: f64,
    /// Mean number of bytes of a prefetch that are read before they are evicted.
    pub(crate) kept_bytes: f64,
    /// Mean size of a prefetch.
    pub(crate) size_bytes: f64,
}

impl DeviceWork {
    /// Share of a prefetch that is evicted before it is read, of 1.
    pub(crate) fn wasted_share(&self) -> f64 {
        1.0 - self.kept_bytes / self.size_bytes.max(1.0)
    }

    /// Nanoseconds of disk time per read.
    pub(crate) fn read_time(&self, drive: DriveTimes) -> f64 {
        self.cost(drive) * self.bytes_sent.max(1.0) / self.reads.max(1.0)
    }

    /// Nanoseconds of disk time per sent byte.
    pub(crate) fn cost(&self, drive: DriveTimes) -> f64 {
        let per_byte = drive.transfer_per_mib.0 as f64 / headlong_units::MIB as f64;
        let time = self.reads * drive.reposition.0 as f64 + self.bytes_read * per_byte;
        time / self.bytes_sent.max(1.0)
    }
}

/// Bytes read of a prefetch of `size` bytes, if `reached` bytes are read on average while it stays:
/// times scatter by a quarter.
fn kept_of(size: f64, reached: u64) -> f64 {
    let reached = reached.max(1) as f64;
    (size.min(reached * 0.75) + size.min(reached) + size.min(reached * 1.25)) / 3.0
}

impl EndedChains {
    pub(crate) fn record(&mut self, ended: EndedChain) {
        let sent_bytes = ended.sent_bytes.saturating_add(self.sent_before);
        self.add(EndedChain {
            sent_bytes,
            ..ended
        });
    }

    fn add(&mut self, ended: EndedChain) {
        // At a pace of zero each byte would be a separate read.
        if ended.read_bytes == 0 || ended.rule_bytes_per_mib == 0 || ended.pace.0 == 0 {
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

    /// Exports the chains, with `sent_bytes` sent so far: bytes sent on the count of the chains,
    /// which begins with the first, and the chains.
    pub(crate) fn export(&self, sent_bytes: u64) -> (u64, Vec<EndedChain>) {
        let first = self.chains.front().map_or(0, |first| first.sent_bytes);
        let since = |bytes: u64| bytes.saturating_sub(first);
        let ended = self.chains.iter().map(|ended| EndedChain {
            sent_bytes: since(ended.sent_bytes),
            ..*ended
        });
        (
            since(sent_bytes.saturating_add(self.sent_before)),
            ended.collect(),
        )
    }

    /// Imports the state of an earlier process, before this one has sent any bytes.
    pub(crate) fn resume(&mut self, sent_bytes: u64, ended: Vec<EndedChain>) {
        self.sent_before = sent_bytes;
        for ended in ended {
            let is_possible = ended.sent_bytes <= sent_bytes
                && ended.read_bytes <= ended.whole_bytes
                && ended.rule_bytes_per_mib <= RULE_BYTES_PER_MIB_MAX;
            if is_possible {
                self.add(ended);
            }
        }
    }

    /// The work of these chains at the reference size `bytes`, times `scale` for lack of memory, if
    /// prefetches stay in memory for `stays`: bytes that a viewer has not read by then are read
    /// again.
    ///
    /// Ended chains underrepresent long ones that are still live: other bytes sent in the same
    /// time, up to now (`sent_bytes`), count as prefetches read to the end.
    pub(crate) fn replay(
        &self,
        bytes: u64,
        scale: f64,
        stays: Duration,
        sent_bytes: u64,
    ) -> DeviceWork {
        let mut work = DeviceWork::default();
        let (mut read_sum, mut kept_sum) = (0.0, 0.0);
        for chain in &self.chains {
            let rule = chain.rule_bytes_per_mib as f64 * bytes as f64 / headlong_units::MIB as f64;
            let size = (rule * scale).max(1.0);
            let (read, whole) = (chain.read_bytes as f64, chain.whole_bytes as f64);
            let kept = kept_of(size, chain.pace.bytes_in(stays));
            let ahead = (chain.ahead_bytes as f64).min(kept);
            let wanted = (read + ahead).min(whole).max(1.0);
            let reads = libm::ceil(wanted / kept);
            // The last read may end with the stream, before it is a whole prefetch.
            let last = size.min((whole.max(read) - (reads - 1.0) * kept).max(1.0));
            let read_bytes = (reads - 1.0) * size + last;
            work.reads += reads;
            work.bytes_read += read_bytes;
            work.bytes_sent += read;
            read_sum += size;
            kept_sum += kept;
        }
        let Some(first) = self.chains.front() else {
            return work;
        };
        work.kept_bytes = kept_sum / self.chains.len() as f64;
        work.size_bytes = read_sum / self.chains.len() as f64;
        let beyond = sent_bytes
            .saturating_add(self.sent_before)
            .saturating_sub(first.sent_bytes) as f64
            - work.bytes_sent;
        if beyond > 0.0 {
            work.reads += beyond / work.kept_bytes;
            work.bytes_read += beyond * read_sum / kept_sum;
            work.bytes_sent += beyond;
        }
        work
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headlong_units::{KIB, MIB};

    const EVER: Duration = Duration(u64::MAX);

    fn chain(read_bytes: u64, whole_bytes: u64) -> EndedChain {
        EndedChain {
            read_bytes,
            whole_bytes,
            rule_bytes_per_mib: MIB,
            ahead_bytes: 512 * KIB,
            pace: BitRate::from_kbps(2_000),
            sent_bytes: 0,
        }
    }

    fn past(chains: &[EndedChain]) -> EndedChains {
        let mut past = EndedChains::default();
        chains.iter().for_each(|chain| past.record(*chain));
        past
    }

    #[test]
    fn chain_costs_one_read_per_prefetch_it_nearly_finished() {
        let past = past(&[chain(4 * MIB, 100 * MIB)]);
        // At 4 MiB its next prefetch had been queued when it left.
        let work = past.replay(4 * MIB, 1.0, EVER, 0);
        assert_eq!((work.reads, work.bytes_read), (2.0, 8.0 * MIB as f64));
        let work = past.replay(5 * MIB, 1.0, EVER, 0);
        assert_eq!((work.reads, work.bytes_read), (1.0, 5.0 * MIB as f64));
    }

    #[test]
    fn no_bytes_are_read_beyond_end_of_stream() {
        let work = past(&[chain(6 * MIB, 6 * MIB)]).replay(4 * MIB, 1.0, EVER, 0);
        assert_eq!((work.reads, work.bytes_read), (2.0, 6.0 * MIB as f64));
    }

    #[test]
    fn live_chains_count_without_waste() {
        let work = past(&[chain(MIB, 2 * MIB)]).replay(2 * MIB, 1.0, EVER, 9 * MIB);
        assert_eq!(work.bytes_sent, 9.0 * MIB as f64);
        assert_eq!(work.bytes_read, 10.0 * MIB as f64);
        assert_eq!(work.reads, 1.0 + 4.0);
    }

    #[test]
    fn repositioning_favours_large_reads_early_leaving_small() {
        let short = past(&[chain(MIB, 100 * MIB)]);
        let long = past(&[chain(80 * MIB, 100 * MIB)]);
        let drive = DriveTimes {
            reposition: Duration::from_millis(16),
            transfer_per_mib: Duration::from_millis(8),
        };
        let cost = |past: &EndedChains, bytes| past.replay(bytes, 1.0, EVER, 0).cost(drive);
        assert!(cost(&short, 2 * MIB) < cost(&short, 16 * MIB));
        assert!(cost(&long, 16 * MIB) < cost(&long, 2 * MIB));
    }

    #[test]
    fn bytes_evicted_before_use_are_read_again() {
        // 2,000 kbps for 8.4 s: 2 MiB are read before a prefetch is evicted.
        let stays = Duration::from_millis(8_389);
        let large = past(&[chain(8 * MIB, 100 * MIB)]).replay(4 * MIB, 1.0, stays, 0);
        assert_eq!(large.reads, 5.0);
        assert_eq!(large.bytes_read, 20.0 * MIB as f64);
        assert!(
            (0.45..0.55).contains(&large.wasted_share()),
            "{}",
            large.wasted_share()
        );
        let small = past(&[chain(8 * MIB, 100 * MIB)]).replay(MIB, 1.0, stays, 0);
        assert_eq!((small.reads, small.bytes_read), (9.0, 9.0 * MIB as f64));
        assert_eq!(small.wasted_share(), 0.0);
    }

    #[test]
    fn chain_without_pace_is_ignored() {
        let stalled = EndedChain {
            pace: BitRate(0),
            ..chain(MIB, 100 * MIB)
        };
        assert_eq!(past(&[stalled]).len(), 0);
    }

    #[test]
    fn only_last_chains_count() {
        let mut past = past(&[chain(MIB, MIB)]);
        for _ in 0..CHAINS_MAX {
            past.record(chain(2 * MIB, 2 * MIB));
        }
        assert_eq!(past.len(), CHAINS_MAX);
        let sent = past.replay(MIB, 1.0, EVER, 0).bytes_sent;
        assert_eq!(sent, (CHAINS_MAX as u64 * 2 * MIB) as f64);
    }
}
