//! Estimates of the time of an answer and of the overrun of a sleep, from recent answers, so that
//! the next answer starts in time.

use std::time::Duration;

/// Longest lead: more would make the drive decide too early what it does next.
const LEAD_MAX: Duration = Duration::from_micros(400);
/// Below this many bytes, a step's time is its base.
const SMALL_BYTES: u32 = 16 << 10;
/// Weight of the latest observation.
const WEIGHT: f64 = 0.1;
/// Limit on the earlier wake-up: the rest of the time is spent polling the clock, which occupies a
/// processor.
const OVERSLEEP_MAX: Duration = Duration::from_micros(200);

/// Time of one step: a base, and a cost per byte.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StepCost {
    base_ns: f64,
    byte_ns: f64,
}

/// The steps of an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnswerTime {
    pub(crate) prepare: StepCost,
    pub(crate) send: StepCost,
    pub(crate) oversleep: SleepOverrun,
}

/// Overrun of a sleep: an idle processor needs time to wake up, a virtual one more.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SleepOverrun {
    mean_ns: f64,
}

impl Default for AnswerTime {
    fn default() -> Self {
        let step = StepCost {
            base_ns: 5_000.0,
            byte_ns: 0.1,
        };
        Self {
            prepare: step,
            send: step,
            oversleep: SleepOverrun { mean_ns: 25_000.0 },
        }
    }
}

impl AnswerTime {
    /// Both steps.
    pub(crate) fn whole(&self, bytes: u32) -> Duration {
        (self.prepare.expect(bytes) + self.send.expect(bytes)).min(LEAD_MAX)
    }
}

impl SleepOverrun {
    /// How much earlier the sleep should end: most overruns are near the mean.
    pub(crate) fn expect(&self) -> Duration {
        Duration::from_nanos((1.25 * self.mean_ns) as u64).min(OVERSLEEP_MAX)
    }

    pub(crate) fn learn(&mut self, late: Duration) {
        // As below, but it must be able to grow from zero.
        let most = 2.0 * self.mean_ns + 10_000.0;
        let late = (late.as_nanos() as f64).min(most);
        self.mean_ns += WEIGHT * (late - self.mean_ns);
    }
}

impl StepCost {
    pub(crate) fn expect(&self, bytes: u32) -> Duration {
        let ns = self.base_ns + self.byte_ns * f64::from(bytes);
        Duration::from_nanos(ns as u64).min(LEAD_MAX)
    }

    pub(crate) fn learn(&mut self, bytes: u32, took: Duration) {
        // Limits the effect of interruptions.
        let most = 2.0 * self.expect(bytes).as_nanos() as f64;
        let took = (took.as_nanos() as f64).min(most);
        if bytes < SMALL_BYTES {
            self.base_ns += WEIGHT * (took - self.base_ns);
        } else {
            let byte_ns = (took - self.base_ns).max(0.0) / f64::from(bytes);
            self.byte_ns += WEIGHT * (byte_ns - self.byte_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_wake_follows_overrun_within_limit() {
        let mut oversleep = AnswerTime::default().oversleep;
        let mut learn = |micros| {
            for _ in 0..100 {
                oversleep.learn(Duration::from_micros(micros));
            }
            oversleep.expect().as_micros()
        };
        assert!((90..=110).contains(&learn(80)));
        assert!(learn(0) < 10);
        assert_eq!(learn(50_000), OVERSLEEP_MAX.as_micros());
    }

    #[test]
    fn estimate_follows_steps_and_ignores_interruption() {
        let mut step = AnswerTime::default().send;
        for _ in 0..200 {
            step.learn(4096, Duration::from_micros(8));
            step.learn(1 << 20, Duration::from_micros(8 + 210));
        }
        let near = |bytes, micros: i64| {
            (step.expect(bytes).as_micros() as i64 - micros).abs() <= 2 + micros / 20
        };
        assert!(
            near(0, 8) && near(1 << 20, 218) && near(1 << 19, 113),
            "{step:?}"
        );
        let before = step.expect(1 << 20);
        step.learn(1 << 20, Duration::from_millis(50));
        assert!(step.expect(1 << 20) < before.mul_f64(1.2));
    }
}
