//! Job queue of one device: chooses the job that the device does next.
//!
//! A disk with several queued jobs can sweep instead of seeking. The deadline-guarded elevator
//! sweeps upwards by physical position and wraps. If the jobs, taken in order of deadline, would
//! not all be done in time, it sweeps only over those in danger, and over no more than a short
//! sweep holds: if all are late, a sweep over all would save a little of each seek, and let the
//! jobs just behind the head wait for all others.
//!
//! Invariants: the choice depends only on the jobs, the head and the order of arrival; no job
//! starves: one that has been overtaken by twice the queue that it found is next, unless jobs are
//! so late that their viewers are assumed to have left; these come last.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use headlong_units::{Duration, Instant};

use crate::config::Order;
use crate::ids::{ChainId, JobId, StreamId};

/// A decision to read pieces for a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) chain: ChainId,
    pub(crate) stream: StreamId,
    /// First piece.
    pub(crate) from: u32,
    /// One past the last piece.
    pub(crate) to: u32,
    pub(crate) deadline: Instant,
    /// A reply already waits for it.
    pub(crate) demanded: bool,
    /// It is a chain's first job, or its player reported that it is starting.
    pub(crate) startup: bool,
    /// No viewer runs dry if it is late: its reader downloads instead of watching, or is only
    /// announced.
    pub(crate) can_wait: bool,
    /// Pieces at its beginning that are read even if their memory must be taken from other chains.
    pub(crate) pieces_needed: u32,
    /// Bytes that the sizing rule wanted.
    pub(crate) wanted_bytes: u64,
    /// Its position on the device.
    pub(crate) physical: u64,
}

/// Number of jobs that cannot wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UrgentJobs {
    /// For starting viewers.
    pub(crate) starts: u64,
    /// For viewers that are being served.
    pub(crate) others: u64,
}

impl UrgentJobs {
    pub(crate) fn all(self) -> u64 {
        self.starts + self.others
    }
}

#[derive(Debug)]
struct QueuedJob {
    job: Job,
    /// Once this many jobs have been taken, it is next whatever the order.
    next_at: u64,
}

/// The queue of one device.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    jobs: BTreeMap<JobId, QueuedJob>,
    by_position: BTreeSet<(u64, JobId)>,
    by_deadline: BTreeSet<(Instant, JobId)>,
    by_stream: BTreeSet<(StreamId, u32, JobId)>,
    next_id: u64,
    taken: u64,
}

/// Jobs beyond twice the queue that may overtake one.
const OVERTAKERS_SPARE: u64 = 16;

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    pub(crate) fn job(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(&id).map(|waiting| &waiting.job)
    }

    pub(crate) fn push(&mut self, job: Job) -> JobId {
        let id = JobId(self.next_id);
        self.next_id += 1;
        let next_at = self.taken + 2 * self.jobs.len() as u64 + OVERTAKERS_SPARE;
        self.index(id, &job);
        self.jobs.insert(id, QueuedJob { job, next_at });
        id
    }

    pub(crate) fn remove(&mut self, id: JobId) -> Option<Job> {
        let waiting = self.jobs.remove(&id)?;
        self.unindex(id, &waiting.job);
        Some(waiting.job)
    }

    /// Changes a job in place; its turn is unchanged.
    pub(crate) fn update(&mut self, id: JobId, change: impl FnOnce(&mut Job)) {
        if let Some(mut waiting) = self.jobs.remove(&id) {
            self.unindex(id, &waiting.job);
            change(&mut waiting.job);
            self.index(id, &waiting.job);
            self.jobs.insert(id, waiting);
        }
    }

    /// The queued job of a stream that contains a piece.
    pub(crate) fn covering(&self, stream: StreamId, piece: u32) -> Option<JobId> {
        self.by_stream
            .range((stream, 0, JobId(0))..=(stream, piece, JobId(u64::MAX)))
            .rev()
            .map(|(_, _, id)| *id)
            .find(|id| self.jobs[id].job.to > piece)
    }

    /// A queued job of the stream that overlaps `from..to` or begins at its end.
    pub(crate) fn touching(&self, stream: StreamId, from: u32, to: u32) -> Option<JobId> {
        self.by_stream
            .range((stream, from, JobId(0))..=(stream, to, JobId(u64::MAX)))
            .map(|(_, _, id)| *id)
            .next()
    }

    /// Deadlines of all jobs, ascending.
    pub(crate) fn deadlines(&self) -> impl Iterator<Item = Instant> + '_ {
        self.by_deadline.iter().map(|(deadline, _)| *deadline)
    }

    /// How many jobs cannot wait.
    pub(crate) fn pressing(&self) -> UrgentJobs {
        let pressing = || self.jobs().filter(|job| !job.can_wait);
        UrgentJobs {
            starts: pressing().filter(|job| job.startup).count() as u64,
            others: pressing().filter(|job| !job.startup).count() as u64,
        }
    }

    /// Positions of all jobs, ascending.
    pub(crate) fn positions(&self) -> impl Iterator<Item = u64> + '_ {
        self.by_position.iter().map(|(position, _)| *position)
    }

    /// All jobs, in order of arrival.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = &Job> + '_ {
        self.jobs.values().map(|waiting| &waiting.job)
    }

    /// Removes all jobs of a stream.
    pub(crate) fn drain_stream(&mut self, stream: StreamId) -> Vec<Job> {
        let ids = self.of_stream(stream);
        ids.into_iter().filter_map(|id| self.remove(id)).collect()
    }

    fn of_stream(&self, stream: StreamId) -> Vec<JobId> {
        let range = (stream, 0, JobId(0))..=(stream, u32::MAX, JobId(u64::MAX));
        self.by_stream.range(range).map(|(_, _, id)| *id).collect()
    }

    /// Removes all jobs.
    pub(crate) fn drain(&mut self) -> Vec<Job> {
        let ids: Vec<JobId> = self.jobs.keys().copied().collect();
        ids.into_iter().filter_map(|id| self.remove(id)).collect()
    }

    /// The next job for a head at `head` and a device that takes `service` for a job; a sweep over
    /// jobs in danger holds what the device does within `sweep`, and jobs late by more than `grace`
    /// come last.
    pub(crate) fn next(
        &self,
        (order, sweep, grace): (Order, Duration, Duration),
        now: Instant,
        head: u64,
        service: Duration,
    ) -> Option<JobId> {
        let lost_before = Instant(now.0.saturating_sub(grace.0));
        let has_lost = self.by_deadline.first()?.0 < lost_before;
        if order == Order::DeadlineElevator && has_lost {
            return self.next_of_overload(lost_before, head, short_sweep_jobs(sweep, service));
        }
        let (oldest, waiting) = self.jobs.first_key_value()?;
        if order == Order::Fcfs || waiting.next_at <= self.taken {
            return Some(*oldest);
        }
        let in_danger = match order {
            Order::DeadlineElevator => self.in_danger(now, service),
            Order::Fcfs | Order::Elevator => 0,
        };
        if in_danger == 0 {
            return self.sweep(head);
        }
        let swept = in_danger.min(short_sweep_jobs(sweep, service));
        self.first_from(head, self.by_deadline.iter().take(swept))
    }

    /// How long each job may take so that no queued one is late by more than `allowed`, with
    /// `outstanding` runs and one more job before them; `None` if no job waits, or the order
    /// ignores deadlines. Jobs of viewers that are assumed to have left impose no limit.
    pub(crate) fn time_for_each(
        &self,
        (order, _, grace): (Order, Duration, Duration),
        (now, allowed): (Instant, Duration),
        outstanding: u64,
    ) -> Option<Duration> {
        if order != Order::DeadlineElevator {
            return None;
        }
        let lost_before = Instant(now.0.saturating_sub(grace.0));
        let waiting = self.by_deadline.range((lost_before, JobId(0))..);
        let before = outstanding + 2;
        let share = |(place, (deadline, _)): (u64, &(Instant, JobId))| {
            Duration((*deadline + allowed).since(now).0 / (before + place))
        };
        (0..).zip(waiting).map(share).min()
    }

    /// Moves the jobs of a stream to the positions that their first pieces have now.
    pub(crate) fn relocate(&mut self, stream: StreamId, position: impl Fn(u32) -> u64) {
        for id in self.of_stream(stream) {
            self.update(id, |job| job.physical = position(job.from));
        }
    }

    /// The next job under overload. In order of deadline, every job would be done a little too
    /// late, for viewers that have just left. So jobs due before `lost_before` wait until all
    /// others are done; of them, those due last come first. They do not wait indefinitely: their
    /// replies fail, which removes them.
    fn next_of_overload(&self, lost_before: Instant, head: u64, swept: usize) -> Option<JobId> {
        let others = self.by_deadline.range((lost_before, JobId(0))..);
        self.first_from(head, others.take(swept))
            .or_else(|| self.first_from(head, self.by_deadline.iter().rev().take(swept)))
    }

    /// The first of these jobs upwards from the head, then from the bottom.
    fn first_from<'a>(
        &self,
        head: u64,
        jobs: impl Iterator<Item = &'a (Instant, JobId)>,
    ) -> Option<JobId> {
        let places = jobs.map(|(_, id)| (self.jobs[id].job.physical, *id));
        places
            .min_by_key(|place| (place.0 < head, *place))
            .map(|(_, id)| id)
    }

    /// Takes the job that [`Self::next`] chose.
    pub(crate) fn take(&mut self, id: JobId) -> Option<Job> {
        self.taken += 1;
        self.remove(id)
    }

    fn sweep(&self, head: u64) -> Option<JobId> {
        let above = self.by_position.range((head, JobId(0))..).next();
        above
            .or_else(|| self.by_position.first())
            .map(|(_, id)| *id)
    }

    /// How many jobs, in order of deadline, must come first to be in time: those up to the last one
    /// that would be late if one more sweep job preceded all of them.
    fn in_danger(&self, now: Instant, service: Duration) -> usize {
        let mut in_danger = 0;
        let all_done = now + service.times(self.jobs.len() as u64 + 1);
        for (position, (deadline, _)) in self.by_deadline.iter().enumerate() {
            if *deadline >= all_done {
                break;
            }
            if *deadline < now + service.times(position as u64 + 2) {
                in_danger = position + 1;
            }
        }
        in_danger
    }

    fn index(&mut self, id: JobId, job: &Job) {
        self.by_position.insert((job.physical, id));
        self.by_deadline.insert((job.deadline, id));
        self.by_stream.insert((job.stream, job.from, id));
    }

    fn unindex(&mut self, id: JobId, job: &Job) {
        self.by_position.remove(&(job.physical, id));
        self.by_deadline.remove(&(job.deadline, id));
        self.by_stream.remove(&(job.stream, job.from, id));
    }
}

/// How many jobs a sweep of this length holds on a device that takes `service` for each.
fn short_sweep_jobs(sweep: Duration, service: Duration) -> usize {
    (sweep.0 / service.0.max(1)).max(1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SERVICE: Duration = Duration::from_millis(50);
    const SWEEP: Duration = Duration::from_secs(1);
    const GRACE: Duration = Duration::from_secs(6);

    fn job(physical: u64, deadline_millis: u64) -> Job {
        Job {
            chain: ChainId(physical),
            stream: StreamId(physical),
            from: 0,
            to: 8,
            deadline: Instant::ZERO + Duration::from_millis(deadline_millis),
            demanded: true,
            startup: false,
            can_wait: false,
            pieces_needed: 1,
            wanted_bytes: 0,
            physical,
        }
    }

    fn time_for_each(order: Order, deadlines: &[u64], outstanding: u64) -> Option<Duration> {
        let mut queue = Queue::default();
        for (place, millis) in deadlines.iter().enumerate() {
            queue.push(job(place as u64, *millis));
        }
        let now = Instant::ZERO + Duration::from_secs(10);
        let latest = (now, Duration::from_secs(2));
        queue.time_for_each((order, SWEEP, GRACE), latest, outstanding)
    }

    #[test]
    fn job_of_located_stream_moves_in_the_sweep() {
        let mut queue = Queue::default();
        let (moved, other) = (queue.push(job(100, 9_000)), queue.push(job(500, 9_000)));
        queue.relocate(StreamId(100), |piece| 900 + u64::from(piece));
        queue.relocate(StreamId(7), |_| 0);
        assert_eq!(queue.positions().collect::<Vec<_>>(), [500, 900]);
        assert_eq!(queue.sweep(0), Some(other));
        assert_eq!(queue.sweep(600), Some(moved));
    }

    #[test]
    fn tightest_deadline_limits_time_for_each_job() {
        let of =
            |deadlines, outstanding| time_for_each(Order::DeadlineElevator, deadlines, outstanding);
        // One more job precedes it: two in three seconds.
        assert_eq!(of(&[11_000], 0), Some(Duration::from_millis(1_500)));
        assert_eq!(of(&[11_000], 4), Some(Duration::from_millis(500)));
        // The second is tighter: three until 10.9 s.
        assert_eq!(of(&[10_700, 10_900], 0), Some(Duration(966_666_666)));
        assert_eq!(of(&[7_000], 0), Some(Duration::ZERO));
    }

    #[test]
    fn empty_or_abandoned_queue_imposes_no_limit() {
        assert_eq!(time_for_each(Order::DeadlineElevator, &[], 3), None);
        assert_eq!(time_for_each(Order::DeadlineElevator, &[3_000], 0), None);
        assert_eq!(time_for_each(Order::Elevator, &[11_000], 0), None);
    }

    fn order_of(order: Order, head: u64, jobs: &[Job]) -> Vec<u64> {
        let mut queue = Queue::default();
        for job in jobs {
            queue.push(*job);
        }
        let (mut now, mut head, mut taken) = (Instant::ZERO, head, Vec::new());
        while let Some(id) = queue.next((order, SWEEP, GRACE), now, head, SERVICE) {
            let job = queue.take(id).expect("it is queued");
            head = job.physical;
            now = now + SERVICE;
            taken.push(job.physical);
        }
        taken
    }

    #[test]
    fn fcfs_keeps_order_of_arrival() {
        let jobs = [job(50, 0), job(10, 0), job(90, 0)];
        assert_eq!(order_of(Order::Fcfs, 0, &jobs), [50, 10, 90]);
    }

    #[test]
    fn elevator_goes_up_from_head_and_wraps() {
        let jobs = [job(50, 0), job(10, 0), job(90, 0), job(30, 0)];
        assert_eq!(order_of(Order::Elevator, 40, &jobs), [50, 90, 10, 30]);
    }

    #[test]
    fn guarded_elevator_with_slack_is_an_elevator() {
        let jobs = [job(50, 5_000), job(10, 1_000), job(90, 9_000)];
        assert_eq!(order_of(Order::DeadlineElevator, 40, &jobs), [50, 90, 10]);
    }

    #[test]
    fn job_about_to_run_dry_leaves_sweep_order() {
        let jobs = [job(50, 5_000), job(90, 9_000), job(10, 60)];
        assert_eq!(order_of(Order::DeadlineElevator, 40, &jobs), [10, 50, 90]);
    }

    #[test]
    fn late_jobs_are_swept_when_all_are_late() {
        let jobs = [job(90, 0), job(10, 0), job(50, 0)];
        assert_eq!(order_of(Order::DeadlineElevator, 40, &jobs), [50, 90, 10]);
    }

    #[test]
    fn jobs_late_beyond_grace_come_last_latest_due_first() {
        let mut queue = Queue::default();
        for (place, due) in [(10, 0), (20, 2_000), (30, 9_000)] {
            queue.push(job(place, due));
        }
        let now = Instant::ZERO + Duration::from_secs(10);
        let mut next = || {
            let order = (Order::DeadlineElevator, SERVICE, GRACE);
            let id = queue.next(order, now, 0, SERVICE)?;
            queue.take(id).map(|job| job.physical)
        };
        assert_eq!([next(), next(), next()], [Some(30), Some(20), Some(10)]);
    }

    /// Twenty jobs of `SERVICE` fill a short sweep.
    const SWEPT: usize = 20;

    #[test]
    fn short_sweep_takes_jobs_due_first() {
        // The higher the position, the earlier the deadline: a sweep over all two hundred would
        // begin with the lowest.
        let jobs: Vec<Job> = (0..200).map(|at| job(199 - at, at)).collect();
        let taken = order_of(Order::DeadlineElevator, 0, &jobs);
        // Each taken job makes room for one that lies below the head, for which the sweep does not
        // turn back.
        assert_eq!(taken[..4], [180, 181, 182, 183]);
    }

    #[test]
    fn oldest_waiter_waits_for_at_most_two_short_sweeps() {
        let mut queue = Queue::default();
        for at in 0..400 {
            queue.push(job(1_000 + at * 37 % 400, 10 + at));
        }
        // Just behind the head, due before all others.
        queue.push(job(999, 0));
        let mut head = 1_000;
        let waited = (0..400).position(|_| {
            let id = queue
                .next(
                    (Order::DeadlineElevator, SWEEP, GRACE),
                    Instant::ZERO,
                    head,
                    SERVICE,
                )
                .expect("jobs wait");
            head = queue.take(id).expect("queued").physical;
            head == 999
        });
        assert!(waited.is_some_and(|jobs| jobs <= 2 * SWEPT), "{waited:?}");
    }

    #[test]
    fn short_sweep_holds_one_job_on_slowest_device() {
        assert_eq!(short_sweep_jobs(SWEEP, Duration::from_secs(60)), 1);
        assert_eq!(short_sweep_jobs(SWEEP, SERVICE), SWEPT);
        assert!(short_sweep_jobs(SWEEP, Duration::ZERO) > 1_000_000);
    }

    #[test]
    fn jobs_ahead_of_head_cannot_starve_one_behind_it() {
        for order in Order::ALL {
            let mut queue = Queue::default();
            queue.push(job(5, 0));
            let mut head = 10;
            let waited = (0..100).position(|_| {
                queue.push(job(head + 1, 0));
                let id = queue
                    .next((*order, SWEEP, GRACE), Instant::ZERO, head, SERVICE)
                    .expect("jobs wait");
                head = queue.take(id).expect("queued").physical;
                head == 5
            });
            assert!(waited.is_some(), "{order:?}");
        }
    }

    #[test]
    fn finds_job_by_covered_or_touched_pieces() {
        let mut queue = Queue::default();
        let id = queue.push(Job {
            stream: StreamId(1),
            from: 10,
            to: 20,
            ..job(0, 0)
        });
        assert_eq!(queue.covering(StreamId(1), 19), Some(id));
        assert_eq!(queue.covering(StreamId(1), 20), None);
        assert_eq!(queue.covering(StreamId(2), 15), None);
        assert_eq!(queue.touching(StreamId(1), 5, 10), Some(id));
        assert_eq!(queue.touching(StreamId(1), 5, 9), None);
    }

    proptest! {
        #[test]
        fn every_order_takes_every_job_once(
            places in prop::collection::vec((0u64..100, 0u64..3_000), 0..40),
            head in 0u64..100,
        ) {
            let jobs: Vec<Job> = places.iter().map(|(place, due)| job(*place, *due)).collect();
            let mut expected: Vec<u64> = places.iter().map(|(place, _)| *place).collect();
            expected.sort_unstable();
            for order in Order::ALL {
                let mut taken = order_of(*order, head, &jobs);
                taken.sort_unstable();
                prop_assert_eq!(&taken, &expected);
            }
        }
    }
}
