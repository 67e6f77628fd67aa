//! How long viewers who are let in may be made to wait.
//!
//! The one idea: a viewer gives up some time after it has asked, and no server is told when. What is left
//! of that time for the device is less where replies take long on their way: who asks for ten seconds of
//! HD over a slow line needs most of it for the network. So as long as replies are taken quickly, new
//! viewers are let in although there will be up to twice the configured wait, as for some minutes after
//! a start under load; and no more of that for ten minutes once somebody has left who had waited.

use headlong_units::{Duration, Instant};

/// For so long after somebody left who had waited, nobody is made to wait for longer than configured.
const CAREFUL_TIME: Duration = Duration::from_secs(600);
/// Over so many replies the mean of what they take on their way is formed.
const REPLIES: u64 = 64;

/// What viewers showed of it.
#[derive(Debug, Default)]
pub(crate) struct Bearing {
    /// How long a reply is on its way, without what it waits for the device, on average.
    sending: Duration,
    careful_until: Option<Instant>,
}

impl Bearing {
    /// A reply was sent whole, in so long a time without its waiting for the device.
    pub(crate) fn record_sent(&mut self, took: Duration) {
        let before = self.sending.0 / REPLIES * (REPLIES - 1);
        self.sending = Duration(before + took.0 / REPLIES);
    }

    /// A viewer has not stayed for the end of a reply that had waited for the device for so long.
    pub(crate) fn record_left(&mut self, now: Instant, waited: Duration, patience: Duration) {
        if waited.0 >= patience.0 / 2 {
            self.careful_until = Some(now + CAREFUL_TIME);
        }
    }

    /// How long they may wait now, if `patience` is configured: that, and what of as much again replies
    /// do not need on their way.
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

    fn after(replies: usize, took: Duration) -> Bearing {
        let mut bearing = Bearing::default();
        (0..replies).for_each(|_| bearing.record_sent(took));
        bearing
    }

    #[test]
    fn where_replies_are_taken_at_once_the_wait_may_be_twice_as_long() {
        let at_once = after(1_000, Duration::ZERO);
        assert_eq!(at_once.wait_max(Instant::ZERO, PATIENCE), PATIENCE.times(2));
        let in_a_second = after(1_000, Duration::from_secs(1));
        let wait_max = in_a_second.wait_max(Instant::ZERO, PATIENCE);
        assert_eq!(wait_max.as_millis() / 100, 30);
    }

    #[test]
    fn where_replies_take_long_on_their_way_it_is_what_is_configured() {
        let slow = after(1_000, Duration::from_secs(6));
        assert_eq!(slow.wait_max(Instant::ZERO, PATIENCE), PATIENCE);
    }

    #[test]
    fn who_leaves_after_a_wait_shortens_it_for_ten_minutes_and_who_leaves_at_once_does_not() {
        let mut bearing = Bearing::default();
        bearing.record_left(Instant::ZERO, Duration::from_millis(900), PATIENCE);
        assert_eq!(bearing.wait_max(Instant::ZERO, PATIENCE), PATIENCE.times(2));
        bearing.record_left(Instant::ZERO, Duration::from_secs(1), PATIENCE);
        assert_eq!(bearing.wait_max(Instant::ZERO, PATIENCE), PATIENCE);
        let later = Instant::ZERO + CAREFUL_TIME;
        assert_eq!(bearing.wait_max(later, PATIENCE), PATIENCE.times(2));
    }
}
