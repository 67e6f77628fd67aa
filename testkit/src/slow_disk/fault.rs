//! What can go wrong with the disk, switched while it runs.

use std::ops::Range;
use std::time::{Duration, Instant};

/// Faults in force. Everything is off at first.
#[derive(Debug, Clone, Default)]
pub(super) struct Faults {
    errors: Vec<BadRange>,
    hang: Option<Hang>,
    slow_factor: Option<f64>,
    vanished: bool,
}

#[derive(Debug, Clone)]
struct BadRange {
    range: Range<u64>,
    once: bool,
}

#[derive(Debug, Clone, Copy)]
enum Hang {
    Until(Instant),
    Forever,
}

impl Faults {
    pub(super) fn add_error(&mut self, range: Range<u64>, once: bool) {
        self.errors.push(BadRange { range, once });
    }

    pub(super) fn hang(&mut self, length: Option<Duration>) {
        self.hang = Some(match length {
            Some(length) => Hang::Until(Instant::now() + length),
            None => Hang::Forever,
        });
    }

    pub(super) fn release(&mut self) {
        self.hang = None;
    }

    pub(super) fn slow_down(&mut self, factor: f64) {
        self.slow_factor = Some(factor.max(0.0));
    }

    pub(super) fn vanish(&mut self) {
        self.vanished = true;
    }

    pub(super) fn heal(&mut self) {
        *self = Self::default();
    }

    /// How much longer the disk answers nothing: `None` if it answers.
    pub(super) fn hang_left(&self, now: Instant) -> Option<Duration> {
        match self.hang? {
            // Woken early by `release`; the bound only keeps the wait finite.
            Hang::Forever => Some(Duration::from_secs(3_600)),
            Hang::Until(end) => end
                .checked_duration_since(now)
                .filter(|left| !left.is_zero()),
        }
    }

    pub(super) fn stretch(&self, service: Duration) -> Duration {
        self.slow_factor
            .map_or(service, |factor| service.mul_f64(factor))
    }

    /// Whether this request gets an error; an error that is meant to come once is used up.
    pub(super) fn strikes(&mut self, offset: u64, length: u64, write: bool) -> bool {
        if self.vanished {
            return true;
        }
        let end = offset.saturating_add(length);
        let hit = |bad: &BadRange| !write && bad.range.start < end && offset < bad.range.end;
        let Some(index) = self.errors.iter().position(hit) else {
            return false;
        };
        if self.errors[index].once {
            self.errors.swap_remove(index);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_strikes_overlapping_reads_only_and_once_if_so_asked() {
        let mut faults = Faults::default();
        faults.add_error(100..200, true);
        assert!(!faults.strikes(0, 100, false));
        assert!(!faults.strikes(200, 50, false));
        assert!(!faults.strikes(150, 1, true), "writes pass");
        assert!(faults.strikes(199, 10, false));
        assert!(!faults.strikes(150, 1, false), "used up");
        faults.add_error(0..1, false);
        assert!(faults.strikes(0, 1, false) && faults.strikes(0, 1, false));
    }
}
