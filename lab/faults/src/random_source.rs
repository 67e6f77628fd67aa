//! Random draws for plans and worlds.

use headlong_random::Generator;
use headlong_units::Duration;

/// A generator with more distributions.
#[derive(Debug, Clone)]
pub(crate) struct RandomSource(pub(crate) Generator);

impl RandomSource {
    /// Uniform in `from..=to`.
    pub(crate) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.0.below(to.saturating_sub(from) + 1)
    }

    /// True with a probability of `percent` %.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.0.below(100) < percent
    }

    /// One of the values, with equal probability.
    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.0.below(of.len() as u64) as usize]
    }

    /// Log-uniform by doublings: as likely between 1 and 2 as between 10 and 20.
    pub(crate) fn scaled(&mut self, from: u64, to: u64) -> u64 {
        let doublings = (to.max(1) / from.max(1)).ilog2();
        let base = from << self.0.below(u64::from(doublings) + 1);
        self.between(base, (base * 2).min(to.max(base)))
    }

    /// [`RandomSource::scaled`] in milliseconds.
    pub(crate) fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.scaled(from.max(1), to))
    }
}
