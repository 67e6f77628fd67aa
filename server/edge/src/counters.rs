//! Counters of a path that is filled from an origin.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use headlong_pull::ResponseFault;

/// Counters that are updated while serving.
#[derive(Debug, Default)]
pub(super) struct PullCounters {
    pub(super) fetched_bytes: AtomicU64,
    pub(super) peer_bytes: AtomicU64,
    pub(super) hits: AtomicU64,
    pub(super) misses: AtomicU64,
    pub(super) in_flight: AtomicU64,
    pub(super) evicted_bytes: AtomicU64,
    pub(super) stale: AtomicU64,
    pub(super) filled_bytes: AtomicU64,
    pub(super) unstored_bytes: AtomicU64,
    /// Number of replies that wait for a slice.
    waiting: AtomicU64,
    faults: Mutex<BTreeMap<ResponseFault, u64>>,
}

impl PullCounters {
    pub(super) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Relaxed);
    }

    /// Counts a waiting reply until the returned guard is dropped.
    pub(super) fn wait(&self) -> WaitGuard<'_> {
        self.waiting.fetch_add(1, Relaxed);
        WaitGuard(&self.waiting)
    }

    /// Number of replies that wait for a slice.
    pub(super) fn waiting(&self) -> u64 {
        self.waiting.load(Relaxed)
    }

    pub(super) fn fault(&self, fault: ResponseFault) {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        *faults.entry(fault).or_insert(0) += 1;
    }

    pub(super) fn counts(&self, path: &str) -> PullCounts {
        let faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        PullCounts {
            path: path.to_owned(),
            fetched_bytes: self.fetched_bytes.load(Relaxed),
            peer_bytes: self.peer_bytes.load(Relaxed),
            hits: self.hits.load(Relaxed),
            misses: self.misses.load(Relaxed),
            in_flight: self.in_flight.load(Relaxed),
            evicted_bytes: self.evicted_bytes.load(Relaxed),
            stale: self.stale.load(Relaxed),
            filled_bytes: self.filled_bytes.load(Relaxed),
            unstored_bytes: self.unstored_bytes.load(Relaxed),
            fills_running: 0,
            used_bytes: 0,
            titles: 0,
            faults: (ResponseFault::ALL.iter())
                .map(|of| (of.name(), faults.get(of).copied().unwrap_or(0)))
                .collect(),
        }
    }
}

/// Guard of a waiting reply.
pub(super) struct WaitGuard<'a>(&'a AtomicU64);

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Totals since the start, and current usage.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct PullCounts {
    /// The prefix.
    pub path: String,
    /// Bytes fetched from the origin.
    pub fetched_bytes: u64,
    /// Bytes fetched from other boxes of the fleet.
    pub peer_bytes: u64,
    /// Slices that were present when a reply needed them.
    pub hits: u64,
    /// Slices that a reply had to wait for.
    pub misses: u64,
    /// Slices being fetched.
    pub in_flight: u64,
    /// Bytes evicted for lack of space.
    pub evicted_bytes: u64,
    /// Replies served stale.
    pub stale: u64,
    /// Bytes fetched by fills.
    pub filled_bytes: u64,
    /// Bytes fetched that could not be stored.
    pub unstored_bytes: u64,
    /// Titles being filled.
    pub fills_running: u64,
    /// Disk usage of the slices.
    pub used_bytes: u64,
    /// Titles known.
    pub titles: u64,
    /// Failures by kind.
    #[serde(serialize_with = "as_map")]
    pub faults: Vec<(&'static str, u64)>,
}

fn as_map<S: serde::Serializer>(
    faults: &[(&'static str, u64)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(faults.iter().copied())
}

/// Result of a purge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct PurgeResult {
    /// Titles.
    pub titles: u64,
    /// Bytes of their slices.
    pub bytes: u64,
}
