//! The drive model and its queue: requests beyond the drive's own queue wait in order of arrival,
//! and enter at the exact time at which the drive has room.
//!
//! Invariants: the drive receives every event at its exact time, however late this is called, so
//! lateness does not accumulate; each request leaves once. Times passed and returned are model
//! time.

use std::collections::{HashMap, VecDeque};

use headlong_drive::{Completion, Drive, Refusal, Request, RequestId, ServiceTimeBreakdown};
use headlong_units::Instant;

use crate::clock::DriveClock;

/// Limit on events of the drive in one call; the rest happens in the next.
const STEPS_MAX: usize = 1 << 20;

/// Times of a request in the drive.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DriveTimes {
    pub(crate) started: Instant,
    pub(crate) ended: Instant,
    pub(crate) parts: ServiceTimeBreakdown,
    pub(crate) is_sequential: bool,
}

/// A request that leaves.
#[derive(Debug)]
pub(crate) enum FinishedRequest<J> {
    /// Completed by the drive.
    Done(J, DriveTimes),
    /// Refused by the drive.
    Refused(J),
}

#[derive(Debug)]
pub(crate) struct DriveQueue<J> {
    drive: Box<dyn Drive>,
    depth: usize,
    waiting: VecDeque<(Request, J)>,
    taken: HashMap<RequestId, J>,
    outcomes: VecDeque<FinishedRequest<J>>,
    pace: DriveClock,
    /// The latest drive time passed to the drive.
    told: Instant,
    next_id: u64,
}

impl<J> DriveQueue<J> {
    /// At most `depth` requests are in the drive at once.
    pub(crate) fn new(drive: Box<dyn Drive>, depth: Option<usize>) -> Self {
        let own = drive.queue_depth().max(1);
        Self {
            depth: depth.map_or(own, |depth| depth.clamp(1, own)),
            drive,
            waiting: VecDeque::new(),
            taken: HashMap::new(),
            outcomes: VecDeque::new(),
            pace: DriveClock::NORMAL,
            told: Instant::ZERO,
            next_id: 0,
        }
    }

    /// When the drive receives an event that happens at `now`: later than `now` if the drive has
    /// already received a later time.
    pub(crate) fn arrival(&self, now: Instant) -> Instant {
        if self.pace.is_frozen() {
            return now;
        }
        self.pace.model(self.told).max(now)
    }

    /// Queues a request for the drive.
    pub(crate) fn handle_request(&mut self, now: Instant, request: Request, job: J) {
        self.handle_timeout(now);
        self.waiting.push_back((request, job));
        self.enter(now);
    }

    /// Queues a request that waits even if the drive has room, until [`Self::admit`] or
    /// [`Self::release`].
    pub(crate) fn hold(&mut self, request: Request, job: J) {
        self.waiting.push_back((request, job));
    }

    /// Passes held requests to the drive, without waiting for another event.
    pub(crate) fn admit(&mut self, now: Instant) {
        self.handle_timeout(now);
        self.enter(now);
    }

    /// Fills the drive's queue.
    fn enter(&mut self, now: Instant) {
        self.told = self.pace.drive(now).max(self.told);
        self.settle(self.told);
    }

    /// Time has passed.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        let until = self.pace.drive(now).max(self.told);
        for _ in 0..STEPS_MAX {
            match self.drive.poll_timeout() {
                Some(at) if at <= until => {
                    self.told = at.max(self.told);
                    self.drive.handle_timeout(self.told);
                    self.settle(self.told);
                }
                _ => return,
            }
        }
    }

    /// Removes completed requests and adds waiting ones, until neither changes anything.
    fn settle(&mut self, at: Instant) {
        let mut is_moving = true;
        while is_moving {
            is_moving = false;
            while let Some(completion) = self.drive.poll_completion() {
                is_moving = true;
                self.leave(&completion);
            }
            while self.taken.len() < self.depth
                && let Some((request, job)) = self.waiting.pop_front()
            {
                let id = RequestId(self.next_id);
                match self.drive.handle_request(at, id, request) {
                    Ok(()) => {
                        self.next_id += 1;
                        self.taken.insert(id, job);
                        is_moving = true;
                    }
                    Err(Refusal::QueueFull) => {
                        self.waiting.push_front((request, job));
                        break;
                    }
                    Err(Refusal::OutOfRange) => {
                        self.outcomes.push_back(FinishedRequest::Refused(job))
                    }
                }
            }
        }
    }

    fn leave(&mut self, completion: &Completion) {
        // Released earlier, if it is absent.
        let Some(job) = self.taken.remove(&completion.id) else {
            return;
        };
        let (pace, parts) = (&self.pace, &completion.parts);
        let times = DriveTimes {
            started: pace.model(completion.started),
            ended: pace.model(completion.ended),
            parts: ServiceTimeBreakdown {
                overhead: pace.stretch(parts.overhead),
                seek: pace.stretch(parts.seek),
                rotation: pace.stretch(parts.rotation),
                transfer: pace.stretch(parts.transfer),
                cleaning: pace.stretch(parts.cleaning),
            },
            is_sequential: completion.is_sequential,
        };
        self.outcomes.push_back(FinishedRequest::Done(job, times));
    }

    /// The next request that leaves; call it after any other call.
    pub(crate) fn poll_outcome(&mut self) -> Option<FinishedRequest<J>> {
        self.outcomes.pop_front()
    }

    pub(crate) fn has_outcome(&self) -> bool {
        !self.outcomes.is_empty()
    }

    /// When to call [`Self::handle_timeout`] next.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        if self.pace.is_frozen() {
            return None;
        }
        self.drive.poll_timeout().map(|at| self.pace.model(at))
    }

    /// Slows the drive down by `factor`, or freezes it.
    pub(crate) fn change_pace(&mut self, now: Instant, factor: f64, is_frozen: bool) {
        self.handle_timeout(now);
        self.pace.change(now, factor, is_frozen);
    }

    pub(crate) fn pace_factor(&self) -> f64 {
        self.pace.factor()
    }

    /// Removes all outstanding requests, which are answered without the drive; their later
    /// completions are ignored.
    pub(crate) fn release(&mut self) -> Vec<J> {
        let mut taken: Vec<(RequestId, J)> = self.taken.drain().collect();
        taken.sort_unstable_by_key(|(id, _)| *id);
        let mut released: Vec<J> = taken.into_iter().map(|(_, job)| job).collect();
        released.extend(self.waiting.drain(..).map(|(_, job)| job));
        released
    }

    /// The outstanding requests.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = &J> {
        let waiting = self.waiting.iter().map(|(_, job)| job);
        self.taken.values().chain(waiting)
    }

    /// The requests in the drive's own queue.
    pub(crate) fn taken(&self) -> impl Iterator<Item = &J> {
        self.taken.values()
    }
}

#[cfg(test)]
mod tests {
    use headlong_drive::Direction;
    use headlong_units::Duration;

    use super::*;

    /// Serves requests one at a time, in a fixed time each.
    #[derive(Debug)]
    struct PlainDrive {
        sectors: u64,
        depth: usize,
        service: Duration,
        queue: VecDeque<(RequestId, Request, Instant)>,
        free_at: Instant,
        done: VecDeque<Completion>,
    }

    impl PlainDrive {
        fn new(sectors: u64, depth: usize, service: Duration) -> Self {
            Self {
                sectors,
                depth,
                service,
                queue: VecDeque::new(),
                free_at: Instant::ZERO,
                done: VecDeque::new(),
            }
        }
    }

    impl Drive for PlainDrive {
        fn capacity_sectors(&self) -> u64 {
            self.sectors
        }

        fn queue_depth(&self) -> usize {
            self.depth
        }

        fn handle_request(
            &mut self,
            now: Instant,
            id: RequestId,
            request: Request,
        ) -> Result<(), Refusal> {
            if request.end() > self.sectors {
                return Err(Refusal::OutOfRange);
            }
            if self.queue.len() == self.depth {
                return Err(Refusal::QueueFull);
            }
            self.queue.push_back((id, request, now));
            Ok(())
        }

        fn handle_timeout(&mut self, now: Instant) {
            while let Some(ended) = self.poll_timeout().filter(|ended| *ended <= now) {
                let Some((id, request, _)) = self.queue.pop_front() else {
                    return;
                };
                self.done.push_back(Completion {
                    id,
                    request,
                    started: ended - self.service,
                    ended,
                    parts: ServiceTimeBreakdown {
                        transfer: self.service,
                        ..ServiceTimeBreakdown::default()
                    },
                    is_sequential: false,
                });
                self.free_at = ended;
            }
        }

        fn poll_completion(&mut self) -> Option<Completion> {
            self.done.pop_front()
        }

        fn poll_timeout(&self) -> Option<Instant> {
            let (_, _, arrived) = self.queue.front()?;
            Some(self.free_at.max(*arrived) + self.service)
        }
    }

    const MS: u64 = 1_000_000;

    fn request(sector: u64) -> Request {
        Request {
            sector,
            sectors: 8,
            direction: Direction::Read,
        }
    }

    /// A queue for a drive that takes 10 ms for each request.
    fn queue(depth: Option<usize>) -> DriveQueue<u64> {
        let drive = PlainDrive::new(1 << 20, 4, Duration::from_millis(10));
        DriveQueue::new(Box::new(drive), depth)
    }

    fn ends(queue: &mut DriveQueue<u64>) -> Vec<(u64, u64)> {
        let mut ends = Vec::new();
        while let Some(outcome) = queue.poll_outcome() {
            match outcome {
                FinishedRequest::Done(job, times) => ends.push((job, times.ended.0 / MS)),
                FinishedRequest::Refused(job) => ends.push((job, u64::MAX)),
            }
        }
        ends
    }

    #[test]
    fn waiting_requests_enter_drive_at_exact_time() {
        for depth in [None, Some(1), Some(100)] {
            let mut queue = queue(depth);
            for job in 0..7 {
                queue.handle_request(Instant(0), request(job * 1000), job);
            }
            // A single, much delayed call.
            queue.handle_timeout(Instant(500 * MS));
            let expected: Vec<_> = (0..7).map(|job| (job, (job + 1) * 10)).collect();
            assert_eq!(ends(&mut queue), expected);
        }
    }

    #[test]
    fn out_of_range_request_is_refused_without_delay() {
        let mut queue = queue(None);
        queue.handle_request(Instant(0), request(1 << 30), 1);
        queue.handle_request(Instant(0), request(0), 2);
        queue.handle_timeout(Instant(500 * MS));
        assert_eq!(ends(&mut queue), [(1, u64::MAX), (2, 10)]);
    }

    #[test]
    fn hang_delays_by_its_length() {
        let mut queue = queue(None);
        queue.handle_request(Instant(0), request(0), 1);
        queue.change_pace(Instant(4 * MS), 1.0, true);
        assert_eq!(queue.poll_timeout(), None);
        queue.handle_timeout(Instant(400 * MS));
        assert_eq!(ends(&mut queue), []);
        queue.change_pace(Instant(404 * MS), 1.0, false);
        assert_eq!(queue.poll_timeout(), Some(Instant(410 * MS)));
        queue.handle_timeout(Instant(500 * MS));
        assert_eq!(ends(&mut queue), [(1, 410)]);
    }

    #[test]
    fn held_requests_enter_drive_when_admitted() {
        let mut queue = queue(None);
        queue.change_pace(Instant(0), 1.0, true);
        queue.hold(request(0), 1);
        queue.admit(Instant(4 * MS));
        queue.handle_timeout(Instant(100 * MS));
        assert_eq!(ends(&mut queue), []);
        queue.change_pace(Instant(100 * MS), 1.0, false);
        assert_eq!(queue.poll_timeout(), Some(Instant(110 * MS)));
        queue.hold(request(0), 2);
        queue.admit(Instant(104 * MS));
        queue.handle_timeout(Instant(500 * MS));
        assert_eq!(ends(&mut queue), [(1, 110), (2, 120)]);
    }

    #[test]
    fn slow_drive_takes_longer_by_factor() {
        let mut queue = queue(None);
        queue.change_pace(Instant(0), 3.0, false);
        queue.handle_request(Instant(6 * MS), request(0), 1);
        queue.handle_timeout(Instant(100 * MS));
        let Some(FinishedRequest::Done(1, times)) = queue.poll_outcome() else {
            panic!("an unfinished request");
        };
        assert_eq!((times.started.0, times.ended.0), (6 * MS, 36 * MS));
        assert_eq!(times.parts.transfer, Duration::from_millis(30));
    }

    #[test]
    fn released_requests_leave_once() {
        let mut queue = queue(Some(2));
        for job in 0..5 {
            queue.handle_request(Instant(0), request(job * 1000), job);
        }
        assert_eq!(queue.release(), [0, 1, 2, 3, 4]);
        queue.handle_request(Instant(MS), request(0), 9);
        queue.handle_timeout(Instant(500 * MS));
        assert_eq!(ends(&mut queue), [(9, 30)], "after the request in progress");
        assert_eq!(queue.jobs().count(), 0);
    }
}
