//! Time series of a world's state, in bounded memory.
//!
//! Snapshots hold counters since the start, so differences between any two of them are exact. When
//! there are too many, every second one is dropped and the interval doubles, so a run can have any
//! length.

use headlong_engine::{ControlView, MemoryUse, Stats};
use headlong_units::{Duration, Instant};

use crate::device::DriveUse;

/// Interval of snapshots.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// Most snapshots kept: two hours at the full interval.
pub(crate) const LOOKS_MAX: usize = 1440;

/// A snapshot of the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    /// Time of the snapshot.
    pub at: Instant,
    /// Viewers present.
    pub viewers: u64,
    /// Division of memory.
    pub memory: MemoryUse,
    /// Queued jobs of the device.
    pub queue: usize,
    /// Queued jobs that a reply waits for.
    pub queue_demanded: usize,
    /// Queued jobs past their deadline.
    pub queue_overdue: usize,
    /// Live chains.
    pub chains: usize,
    /// The reference size of prefetches, and the state of its controller.
    pub control: ControlView,
    /// Position of the latest read, bytes from the start of the device.
    pub head_physical: u64,
    /// Counters of the shards so far.
    pub stats: Stats,
    /// Activity of the drives so far.
    pub drive: DriveUse,
    /// Bytes requested so far.
    pub asked_for_bytes: u64,
    /// Bytes delivered to viewers so far.
    pub delivered_bytes: u64,
}

/// Snapshots in order, at most [`LOOKS_MAX`].
#[derive(Debug, Clone)]
pub(crate) struct Snapshots {
    kept: Vec<Snapshot>,
    /// One snapshot in `stride` is kept.
    stride: u64,
    seen: u64,
}

impl Default for Snapshots {
    fn default() -> Self {
        Self {
            kept: Vec::new(),
            stride: 1,
            seen: 0,
        }
    }
}

impl Snapshots {
    pub(crate) fn add(&mut self, look: Snapshot) {
        if self.seen.is_multiple_of(self.stride) {
            self.kept.push(look);
        }
        self.seen += 1;
        if self.kept.len() > LOOKS_MAX {
            let mut index = 0;
            self.kept.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.stride *= 2;
        }
    }

    pub(crate) fn kept(&self) -> &[Snapshot] {
        &self.kept
    }
}

#[cfg(test)]
mod tests {
    use headlong_engine::Control;

    use super::*;

    fn look(second: u64) -> Snapshot {
        Snapshot {
            at: Instant::ZERO + Duration::from_secs(second),
            viewers: 0,
            memory: MemoryUse::default(),
            queue: 0,
            queue_demanded: 0,
            queue_overdue: 0,
            chains: 0,
            control: ControlView {
                mode: Control::Off,
                bytes: 0,
                target_bytes: 0,
                score: None,
                reason: None,
                drive: None,
            },
            head_physical: 0,
            stats: Stats::default(),
            drive: DriveUse::default(),
            asked_for_bytes: 0,
            delivered_bytes: 0,
        }
    }

    #[test]
    fn series_thins_itself_at_even_intervals() {
        let mut looks = Snapshots::default();
        let last = 10 * LOOKS_MAX as u64;
        for second in 0..last {
            looks.add(look(second));
            assert!(looks.kept().len() <= LOOKS_MAX);
        }
        let at = |look: &Snapshot| look.at.since(Instant::ZERO);
        let gaps: Vec<_> = looks
            .kept()
            .windows(2)
            .map(|w| w[1].at.since(w[0].at))
            .collect();
        assert!(gaps.iter().all(|gap| *gap == gaps[0]), "even");
        assert_eq!(at(&looks.kept()[0]), Duration::ZERO);
        let end = at(looks.kept().last().expect("looks"));
        assert!(
            end + gaps[0] >= Duration::from_secs(last - 1),
            "up to the end"
        );
        assert!(looks.kept().len() > LOOKS_MAX / 3);
    }

    #[test]
    fn short_series_is_kept_whole() {
        let mut looks = Snapshots::default();
        (0..LOOKS_MAX as u64).for_each(|second| looks.add(look(second)));
        assert_eq!(looks.kept().len(), LOOKS_MAX);
    }
}
