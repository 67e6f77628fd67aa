//! Load: estimates how long one more viewer would wait, and decides which new viewers are refused.
//!
//! The waiting jobs take as long as a busy device recently needed for as many jobs. New viewers are
//! refused while that exceeds their patience. Late jobs are not used as a sign of overload: after a
//! restart every viewer's next prefetch is late by a second or two for minutes, and all are served.
//!
//! The load of a new viewer is felt only when its first prefetch has been used up, a minute later.
//! To avoid oscillating between admitting many and hardly any, the share of refused viewers in the
//! last minute counts: most of that share is refused whenever jobs wait, and the larger it is, the
//! fewer jobs may wait.

use headlong_units::{Duration, Instant};

use crate::queue::UrgentJobs;

/// Assumed duration of a read, and of a job, before the first measurement: a seek and a few
/// megabytes.
const SERVICE_FIRST: Duration = Duration::from_millis(30);
/// Fixed-point unit of shares.
const ALL: u64 = 1 << 20;
/// Memory of the share of refused viewers.
const MEMORY: Duration = Duration::from_secs(60);
/// Longest gap between two new viewers that counts for the weight of the next one.
const SILENCE_MAX: Duration = Duration::from_millis(7_500);

/// Running averages: a new read weighs an eighth, a new job a sixteenth.
#[derive(Debug)]
pub(crate) struct LoadAverages {
    service: Duration,
    job_time: Duration,
    /// When the last job was done, if others waited then.
    last_done: Option<Instant>,
    /// Recent share of new viewers that were refused, in parts of [`ALL`].
    refused: u64,
    last_viewer: Instant,
    /// Accumulated fraction of a viewer to refuse because of that share.
    due: u64,
}

impl Default for LoadAverages {
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

impl LoadAverages {
    /// How long a read takes.
    pub(crate) fn service(&self) -> Duration {
        self.service
    }

    /// Restores the value that an earlier process had observed.
    pub(crate) fn resume(&mut self, service: Duration) {
        self.service = service;
        self.job_time = service;
    }

    pub(crate) fn record_service(&mut self, took: Duration) {
        self.service = Duration(self.service.0 / 8 * 7 + took.0 / 8);
    }

    /// A job was done; `others_wait` if more jobs are queued. Between two such ends the device was
    /// busy, whatever its concurrency.
    pub(crate) fn record_job(&mut self, now: Instant, others_wait: bool) {
        if let Some(last) = self.last_done {
            let took = now.since(last);
            self.job_time = Duration(self.job_time.0 / 16 * 15 + took.0 / 16);
        }
        self.last_done = others_wait.then_some(now);
    }

    /// Whether a new viewer is refused now, with these jobs waiting and viewers of this patience.
    ///
    /// In virtual time at most 0.05 % of the admitted calls failed at up to twice the load that a
    /// disk can serve, and 0.14 % at three times (docs/lab/results.md, "More viewers than fit").
    pub(crate) fn refuses(
        &mut self,
        now: Instant,
        waiting: UrgentJobs,
        patience: Duration,
    ) -> bool {
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

    /// Whether more jobs wait than patience allows: a quarter of that if all new viewers are
    /// refused. Starting viewers may wait for one another half as long again, as many may arrive at
    /// once.
    pub(crate) fn is_overloaded(&self, waiting: UrgentJobs, patience: Duration) -> bool {
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

    /// A load that does ten jobs a second, and always has more to do.
    fn busy() -> LoadAverages {
        let mut load = LoadAverages::default();
        for done in 1..=100 {
            load.record_job(at(100 * done), true);
        }
        load
    }

    fn at(milliseconds: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(milliseconds)
    }

    fn waiting(others: u64) -> UrgentJobs {
        UrgentJobs { starts: 0, others }
    }

    /// How many are refused of 600 viewers that arrive within a minute from `start` on.
    fn refused(load: &mut LoadAverages, start: u64, others: u64) -> usize {
        let times = (0..600).map(|number| at(start + 100 * number));
        let refused = times.filter(|now| load.refuses(*now, waiting(others), PATIENCE));
        refused.count()
    }

    #[test]
    fn as_many_jobs_may_wait_as_are_done_within_patience() {
        let load = busy();
        assert!(!load.is_overloaded(waiting(19), PATIENCE));
        assert!(load.is_overloaded(waiting(22), PATIENCE));
    }

    #[test]
    fn many_viewers_may_start_at_once_up_to_a_bound() {
        let starts = |starts| UrgentJobs { starts, others: 1 };
        let load = busy();
        assert!(!load.is_overloaded(starts(27), PATIENCE));
        assert!(load.is_overloaded(starts(32), PATIENCE));
    }

    #[test]
    fn after_overload_most_are_refused_for_a_minute_then_none() {
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
    fn no_viewer_is_refused_while_no_job_waits() {
        let mut load = busy();
        refused(&mut load, 0, 100);
        assert_eq!(refused(&mut load, 60_000, 0), 0);
    }

    #[test]
    fn fewer_jobs_may_wait_after_many_refusals() {
        let mut load = busy();
        refused(&mut load, 0, 100);
        assert!(load.is_overloaded(waiting(14), PATIENCE));
        assert!(!load.is_overloaded(waiting(5), PATIENCE));
    }

    #[test]
    fn idle_time_does_not_count_as_job_time() {
        let mut load = busy();
        let before = load.job_time;
        load.record_job(at(11_000), false);
        load.record_job(at(100_000), true);
        assert!(load.job_time < before.times(2));
    }
}
