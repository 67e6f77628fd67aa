//! How long one more viewer would have to wait, and which new viewers are refused.
//!
//! The one idea: what waits in the queue takes as long as a device that had enough to do needed for
//! as many jobs lately. New viewers are refused while that is longer than a viewer may wait. Jobs
//! that come late are no such sign: after a restart everybody's next prefetch is late for minutes,
//! by a second or two, and all are served.
//!
//! What a new viewer takes is felt only when its first prefetch has been used up, a minute later.
//! So that not many are let in at one time and hardly any at the next, the share that was refused
//! in the last minute counts: most of that share is refused whenever something waits, and the
//! larger it is, the less may wait.

use headlong_units::{Duration, Instant};

use crate::queue::Pressing;

/// What a read, and a job, is taken to last before any was seen: a seek and a few megabytes.
const SERVICE_FIRST: Duration = Duration::from_millis(30);
/// All of what is counted in parts.
const ALL: u64 = 1 << 20;
/// How long it matters whether viewers were refused.
const MEMORY: Duration = Duration::from_secs(60);
/// Without a new viewer for so long, the next one counts as much as if it were this.
const SILENCE_MAX: Duration = Duration::from_millis(7_500);

/// Running averages: how long a new read took weighs an eighth, a new job a sixteenth.
#[derive(Debug)]
pub(crate) struct Load {
    service: Duration,
    job_time: Duration,
    /// When the last job was done, if others waited then.
    last_done: Option<Instant>,
    /// Which share of new viewers was refused lately, in parts of [`ALL`].
    refused: u64,
    last_viewer: Instant,
    /// What is left of one that is to be refused for the sake of the share.
    due: u64,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            service: SERVICE_FIRST,
            job_time: SERVICE_FIRST,
            last_done: None,
            refused: 0,
            last_viewer: Instant::ZERO,
            due: 0,
        }
    }
}

impl Load {
    /// How long a read takes.
    pub(crate) fn service(&self) -> Duration {
        self.service
    }

    /// The same, as an earlier process had seen it.
    pub(crate) fn resume(&mut self, service: Duration) {
        self.service = service;
        self.job_time = service;
    }

    pub(crate) fn record_service(&mut self, took: Duration) {
        self.service = Duration(self.service.0 / 8 * 7 + took.0 / 8);
    }

    /// A job was done; whether others wait. From one such end to the next the device was busy, however
    /// much it does at a time.
    pub(crate) fn record_job(&mut self, now: Instant, others_wait: bool) {
        if let Some(last) = self.last_done {
            let took = now.since(last);
            self.job_time = Duration(self.job_time.0 / 16 * 15 + took.0 / 16);
        }
        self.last_done = others_wait.then_some(now);
    }

    /// Whether a new viewer who comes now should be sent elsewhere, with these jobs waiting and
    /// viewers who may wait for so long.
    ///
    /// In virtual time (docs/lab/results.md) none of those who were let in failed at up to twice what
    /// a disk can serve, and one call in a thousand at three times, where replies are large.
    pub(crate) fn refuses(&mut self, now: Instant, waiting: Pressing, patience: Duration) -> bool {
        let something_waits = self.time_for(4 * waiting.all()) > patience;
        let is_overloaded = self.is_overloaded(waiting, patience);
        if something_waits && !is_overloaded {
            self.due += self.refused / 4 * 3;
        }
        let is_due = self.due >= ALL;
        if is_due {
            self.due -= ALL;
        }
        let is_refused = is_overloaded || is_due;
        self.record_viewer(now, is_refused);
        is_refused
    }

    fn record_viewer(&mut self, now: Instant, was_refused: bool) {
        let since = now.since(self.last_viewer).min(SILENCE_MAX);
        self.last_viewer = now;
        let weight = since.0 * ALL / MEMORY.0;
        let seen = if was_refused { ALL } else { 0 };
        self.refused = (self.refused * (ALL - weight) + seen * weight) / ALL;
    }

    /// Whether more waits than viewers may: a quarter of that if all new ones are refused. Those who
    /// start wait half as long again for one another, as many may come at once.
    pub(crate) fn is_overloaded(&self, waiting: Pressing, patience: Duration) -> bool {
        let less = patience.0 / ALL * (self.refused / 4 * 3);
        let allowed = Duration(patience.0.saturating_sub(less));
        let for_all = self.time_for(2 * waiting.all());
        self.time_for(waiting.others) > allowed || for_all > allowed.times(3)
    }

    fn time_for(&self, jobs: u64) -> Duration {
        self.job_time.times(jobs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(2);

    /// One that does ten jobs a second, and always has more to do.
    fn busy() -> Load {
        let mut load = Load::default();
        for done in 1..=100 {
            load.record_job(at(100 * done), true);
        }
        load
    }

    fn at(milliseconds: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(milliseconds)
    }

    fn waiting(others: u64) -> Pressing {
        Pressing { starts: 0, others }
    }

    /// How many of 600 are refused who come within a minute from `start` on.
    fn refused(load: &mut Load, start: u64, others: u64) -> usize {
        let times = (0..600).map(|number| at(start + 100 * number));
        let refused = times.filter(|now| load.refuses(*now, waiting(others), PATIENCE));
        refused.count()
    }

    #[test]
    fn as_much_may_wait_as_is_done_within_the_patience_of_a_viewer() {
        let load = busy();
        assert!(!load.is_overloaded(waiting(19), PATIENCE));
        assert!(load.is_overloaded(waiting(22), PATIENCE));
    }

    #[test]
    fn many_may_start_at_once_but_not_any_number() {
        let starts = |starts| Pressing { starts, others: 1 };
        let load = busy();
        assert!(!load.is_overloaded(starts(27), PATIENCE));
        assert!(load.is_overloaded(starts(32), PATIENCE));
    }

    #[test]
    fn after_a_minute_of_too_much_most_are_refused_while_something_waits_and_later_none() {
        let mut load = busy();
        assert_eq!(refused(&mut load, 0, 100), 600);
        let next = refused(&mut load, 60_000, 6);
        assert!((150..400).contains(&next), "{next}");
        let shares = (2..8).map(|minute| refused(&mut load, 60_000 * minute, 6));
        let shares: alloc::vec::Vec<usize> = shares.collect();
        assert!(
            shares.is_sorted_by(|before, after| before >= after),
            "{shares:?}"
        );
        assert!(shares[5] < next / 4, "{shares:?}");
    }

    #[test]
    fn nobody_is_refused_where_nothing_waits() {
        let mut load = busy();
        refused(&mut load, 0, 100);
        assert_eq!(refused(&mut load, 60_000, 0), 0);
    }

    #[test]
    fn less_may_wait_after_many_were_refused() {
        let mut load = busy();
        refused(&mut load, 0, 100);
        assert!(load.is_overloaded(waiting(14), PATIENCE));
        assert!(!load.is_overloaded(waiting(5), PATIENCE));
    }

    #[test]
    fn the_time_in_which_nothing_waits_is_not_the_time_of_a_job() {
        let mut load = busy();
        let before = load.job_time;
        load.record_job(at(11_000), false);
        load.record_job(at(100_000), true);
        assert!(load.job_time < before.times(2));
    }
}
