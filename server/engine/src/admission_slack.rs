//! Admission slack: how long admitted viewers may be made to wait for the device.
//!
//! A player gives up some time after its request, and the server does not know when. A slow network
//! uses up part of that time: ten seconds of HD over a slow line need most of it. While replies are
//! delivered quickly, new viewers are therefore admitted at up to twice the configured wait, for
//! example in the first minutes after a start under load. After a viewer has aborted a reply that
//! waited, the configured wait applies for ten minutes.

use headlong_units::{Duration, Instant};

/// How long the configured wait applies after a viewer aborted a reply that had waited.
const CAREFUL_TIME: Duration = Duration::from_secs(600);
/// Weight of the running mean of delivery times, in replies.
const REPLIES: u64 = 64;

/// Observed delivery times and aborts.
#[derive(Debug, Default)]
pub(crate) struct AdmissionSlack {
    /// Mean delivery time of a reply, without its waiting for the device.
    sending: Duration,
    careful_until: Option<Instant>,
}

impl AdmissionSlack {
    /// A reply was delivered completely; `took` excludes its waiting for the device.
    pub(crate) fn record_sent(&mut self, took: Duration) {
        let before = self.sending.0 / REPLIES * (REPLIES - 1);
        self.sending = Duration(before + took.0 / REPLIES);
    }

    /// A viewer aborted a reply that had waited `waited` for the device.
    pub(crate) fn record_left(&mut self, now: Instant, waited: Duration, patience: Duration) {
        if waited.0 >= patience.0 / 2 {
            self.careful_until = Some(now + CAREFUL_TIME);
        }
    }

    /// How long admitted viewers may wait now: the configured `patience`, plus as much again less
    /// the mean delivery time.
    pub(crate) fn wait_max(&self, now: Instant, patience: Duration) -> Duration {
        match self.careful_until {
            Some(until) if now < until => patience,
            _ => patience + (patience - self.sending),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(2);

    fn after(replies: usize, took: Duration) -> AdmissionSlack {
        let mut bearing = AdmissionSlack::default();
        (0..replies).for_each(|_| bearing.record_sent(took));
        bearing
    }

    #[test]
    fn wait_may_double_when_replies_are_delivered_at_once() {
        let at_once = after(1_000, Duration::ZERO);
        assert_eq!(at_once.wait_max(Instant::ZERO, PATIENCE), PATIENCE.times(2));
        let in_a_second = after(1_000, Duration::from_secs(1));
        let wait_max = in_a_second.wait_max(Instant::ZERO, PATIENCE);
        assert_eq!(wait_max.as_millis() / 100, 30);
    }

    #[test]
    fn wait_is_as_configured_when_delivery_is_slow() {
        let slow = after(1_000, Duration::from_secs(6));
        assert_eq!(slow.wait_max(Instant::ZERO, PATIENCE), PATIENCE);
    }

    #[test]
    fn abort_after_wait_restores_configured_wait_for_ten_minutes() {
        let mut bearing = AdmissionSlack::default();
        bearing.record_left(Instant::ZERO, Duration::from_millis(900), PATIENCE);
        assert_eq!(bearing.wait_max(Instant::ZERO, PATIENCE), PATIENCE.times(2));
        bearing.record_left(Instant::ZERO, Duration::from_secs(1), PATIENCE);
        assert_eq!(bearing.wait_max(Instant::ZERO, PATIENCE), PATIENCE);
        let later = Instant::ZERO + CAREFUL_TIME;
        assert_eq!(bearing.wait_max(later, PATIENCE), PATIENCE.times(2));
    }
}
