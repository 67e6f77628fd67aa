//! Activity of a fleet: each box, second by second, and the balancer.

/// Seconds over which loads of boxes are compared beside those of the whole window.
const MINUTE_S: u64 = 60;

/// Activity of one box within the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BoxUse {
    /// Requests that it accepted.
    pub requests: u64,
    /// Of those, requests for titles of another box.
    pub requests_away: u64,
    /// Requests that it refused.
    pub refused: u64,
    /// Requests that could not reach it, because it was down and the balancer did not know yet.
    pub unreachable: u64,
    /// Bytes that it sent to viewers and to other boxes.
    pub sent_bytes: u64,
    /// Of those, bytes to other boxes.
    pub peer_bytes: u64,
    /// Bytes that it fetched from the origin.
    pub pulled_bytes: u64,
    /// Requests in progress, summed over all seconds.
    pub in_progress: u64,
    /// Seconds in which it was in service.
    pub seconds_up: u64,
}

/// Activity of a fleet within the window.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FleetUse {
    /// Each box.
    pub boxes: Vec<BoxUse>,
    /// Whole seconds of the window.
    pub seconds: u64,
    /// Requests that a box accepted after another one had refused or failed.
    pub redispatched: u64,
    /// Requests that viewers saw refused.
    pub refused: u64,
    /// Most bytes that a box sent in a minute, by the mean of the boxes that were in service
    /// throughout that minute.
    pub busiest_minute: f64,
}

impl FleetUse {
    /// Most bytes that a box sent, by the mean of the boxes that were always in service.
    pub fn busiest(&self) -> f64 {
        let always = self.boxes.iter();
        let always = always.filter(|one| one.seconds_up == self.seconds);
        most_by_mean(always.map(|one| one.sent_bytes))
    }

    /// Most requests in progress at a box in the mean, by the mean of those boxes.
    pub fn busiest_requests(&self) -> f64 {
        let always = self.boxes.iter();
        let always = always.filter(|one| one.seconds_up == self.seconds);
        most_by_mean(always.map(|one| one.in_progress))
    }

    /// The sum of a counter over all boxes.
    pub fn sum(&self, counter: impl Fn(&BoxUse) -> u64) -> u64 {
        self.boxes.iter().map(counter).sum()
    }
}

/// The largest value by the mean; zero if there is none.
fn most_by_mean(values: impl Iterator<Item = u64> + Clone) -> f64 {
    let sum: u64 = values.clone().sum();
    let count = values.clone().count() as f64;
    match values.max() {
        Some(most) if sum > 0 => most as f64 * count / sum as f64,
        _ => 0.0,
    }
}

/// A box at the end of a second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BoxSecond {
    /// Bytes sent since the start.
    pub(crate) sent_bytes: u64,
    pub(crate) in_progress: u64,
    pub(crate) is_up: bool,
}

/// Records the activity of a fleet.
#[derive(Debug)]
pub(crate) struct FleetRecorder {
    /// Activity so far, or since the window opened.
    pub(crate) used: FleetUse,
    /// Bytes that each box had sent at the end of the latest second.
    sent_before: Vec<u64>,
    /// Bytes of each box in this minute, and its seconds in service.
    minute: Vec<(u64, u64)>,
}

impl FleetRecorder {
    pub(crate) fn new(boxes: usize) -> Self {
        Self {
            used: FleetUse {
                boxes: vec![BoxUse::default(); boxes],
                ..FleetUse::default()
            },
            sent_before: vec![0; boxes],
            minute: vec![(0, 0); boxes],
        }
    }

    /// The window opens.
    pub(crate) fn begin(&mut self) {
        let boxes = self.used.boxes.len();
        let sent_before = std::mem::take(&mut self.sent_before);
        *self = Self {
            sent_before,
            ..Self::new(boxes)
        };
    }

    /// A second ends.
    pub(crate) fn add(&mut self, seconds: impl Iterator<Item = BoxSecond>) {
        let used = &mut self.used;
        let boxes = used.boxes.iter_mut().zip(&mut self.minute);
        for (((one, minute), before), second) in boxes.zip(&mut self.sent_before).zip(seconds) {
            let sent = second.sent_bytes - std::mem::replace(before, second.sent_bytes);
            one.sent_bytes += sent;
            one.in_progress += second.in_progress;
            one.seconds_up += u64::from(second.is_up);
            minute.0 += sent;
            minute.1 += u64::from(second.is_up);
        }
        used.seconds += 1;
        if used.seconds.is_multiple_of(MINUTE_S) {
            let always = self.minute.iter().filter(|(_, up)| *up == MINUTE_S);
            let busiest = most_by_mean(always.map(|(bytes, _)| *bytes));
            used.busiest_minute = used.busiest_minute.max(busiest);
            self.minute.fill((0, 0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn box_that_was_down_does_not_count_in_loads() {
        let mut recorder = FleetRecorder::new(3);
        recorder.begin();
        for second in 1..=120 {
            // The first box sends much, and ends, in the first minute.
            let sent = [600 + second.max(60) * 2, second, second * 3];
            let of = |number: usize| BoxSecond {
                sent_bytes: sent[number],
                in_progress: 1,
                is_up: number > 0 || second > 60,
            };
            recorder.add((0..3).map(of));
        }
        let used = &recorder.used;
        let ups: Vec<u64> = used.boxes.iter().map(|one| one.seconds_up).collect();
        assert_eq!((used.seconds, ups), (120, vec![60, 120, 120]));
        // 120 and 360 bytes of the boxes that were always up.
        assert!((used.busiest() - 1.5).abs() < 1e-9, "{}", used.busiest());
        // The first minute has 60 and 180 bytes; the second 120, 60 and 180.
        assert!((used.busiest_minute - 1.5).abs() < 1e-9, "{used:?}");
        assert_eq!(used.busiest_requests(), 1.0);
    }

    #[test]
    fn window_counts_only_what_follows() {
        let mut recorder = FleetRecorder::new(1);
        let second = |sent_bytes| BoxSecond {
            sent_bytes,
            in_progress: 2,
            is_up: true,
        };
        recorder.add([second(500)].into_iter());
        recorder.begin();
        recorder.add([second(700)].into_iter());
        let one = recorder.used.boxes[0];
        assert_eq!(
            (one.sent_bytes, one.in_progress, one.seconds_up),
            (200, 2, 1)
        );
    }
}
