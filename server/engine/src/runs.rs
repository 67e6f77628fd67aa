//! Activity of the device: outstanding reads, the runs that they belong to, and the remainders of
//! runs that continue.
//!
//! Invariants: a run exists exactly as long as one of its reads is outstanding or its remainder
//! waits in `continuing`; reads are numbered in the order in which they were issued; no piece is
//! read by two of them.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use headlong_units::{Duration, Instant};

use crate::ids::{ChainId, ReadId, Slot, StreamId};
use crate::lanes::{BusyRun, LEAD_BYTES_MAX};
use crate::memory::PieceKey;
use crate::queue::Job;

/// One run: the read or consecutive reads that a job causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RunId(u64);

/// One run in progress.
#[derive(Debug)]
pub(crate) struct Run {
    /// Which pieces are read for which chain.
    pub(crate) claims: Vec<RunClaim>,
    pub(crate) deadline: Instant,
    pub(crate) wanted_bytes: u64,
    /// Bytes of its completed reads.
    pub(crate) bytes: u64,
    /// Number of its outstanding reads.
    reads_outstanding: u32,
    /// Bytes of these.
    bytes_outstanding: u64,
    /// Whether the device gets more of it than a lead.
    has_lane: bool,
    /// Device position at which its last issued read ends; `None` before the first.
    end: Option<u64>,
    /// How many of its reads did not begin where the previous one ended.
    repositions: u32,
    /// When its first read was issued.
    issued_at: Instant,
    /// How long its completed reads kept the device busy.
    pub(crate) took: Duration,
    /// Whether one of its reads failed.
    has_failed: bool,
}

impl Run {
    /// The input for the number of lanes of the device.
    pub(crate) fn as_busy(&self) -> BusyRun {
        BusyRun {
            issued_at: self.issued_at,
            bytes: self.bytes,
            took: self.took,
        }
    }

    /// Bytes and time for each reposition; `None` if there was none.
    pub(crate) fn of_each_reposition(&self) -> Option<(u64, Duration)> {
        let count = u64::from(self.repositions);
        (count > 0).then(|| (self.bytes / count, Duration(self.took.0 / count)))
    }
}

/// Most outstanding reads of one run: as many as the queue of a SATA drive holds (NCQ).
const RUN_READS_MAX: u32 = 32;

/// Pieces of a run that are read for one chain.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunClaim {
    pub(crate) chain: ChainId,
    pub(crate) from: u32,
    pub(crate) to: u32,
}

impl RunClaim {
    /// The pieces of a job, for its chain.
    pub(crate) fn of(job: &Job) -> Self {
        Self {
            chain: job.chain,
            from: job.from,
            to: job.to,
        }
    }
}

/// One read that was issued to the device.
#[derive(Debug)]
pub(crate) struct OutstandingRead {
    pub(crate) run: RunId,
    pub(crate) stream: StreamId,
    pub(crate) first_piece: u32,
    /// Slots of the pieces from `first_piece` on.
    pub(crate) slots: Vec<Slot>,
    pub(crate) bytes: u64,
    pub(crate) issued_at: Instant,
    /// It does not begin where the previous read ended.
    pub(crate) is_elsewhere: bool,
    /// It begins exactly where the previous read of its run ends: the device sees one sequential
    /// read.
    pub(crate) goes_on: bool,
    /// It took too long; its waiters have failed, but its memory is still being written.
    pub(crate) abandoned: bool,
    /// How many runs whose last read was issued later have ended before it.
    pub(crate) overtaken: u32,
}

impl OutstandingRead {
    /// One past its last piece.
    pub(crate) fn end_piece(&self) -> u32 {
        self.first_piece + self.slots.len() as u32
    }

    fn contains(&self, key: PieceKey) -> bool {
        self.stream == key.0 && (self.first_piece..self.end_piece()).contains(&key.1)
    }
}

/// All activity of the device.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    reads: BTreeMap<ReadId, OutstandingRead>,
    by_id: BTreeMap<RunId, Run>,
    /// Remainders of runs that continue in another file, or after pieces that were in memory.
    continuing: VecDeque<(RunId, Job)>,
    /// When the device last completed a read.
    last_done_at: Instant,
    /// Device position at which the last issued read ends.
    head: u64,
    next_id: u64,
}

impl Runs {
    /// Expected position of the device, in bytes.
    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    pub(crate) fn reads(&self) -> impl Iterator<Item = &OutstandingRead> {
        self.reads.values()
    }

    pub(crate) fn reads_outstanding(&self) -> usize {
        self.reads.len()
    }

    /// Whether no read is outstanding.
    pub(crate) fn is_idle(&self) -> bool {
        self.reads.is_empty()
    }

    pub(crate) fn get(&self, id: RunId) -> Option<&Run> {
        self.by_id.get(&id)
    }

    /// Begins a job with those that merged into it.
    pub(crate) fn begin(&mut self, job: &Job, claims: Vec<RunClaim>) -> RunId {
        let run = Run {
            claims,
            deadline: job.deadline,
            wanted_bytes: job.wanted_bytes,
            bytes: 0,
            reads_outstanding: 0,
            bytes_outstanding: 0,
            has_lane: false,
            end: None,
            repositions: 0,
            issued_at: Instant::ZERO,
            took: Duration::ZERO,
            has_failed: false,
        };
        let id = RunId(self.fresh_id());
        self.by_id.insert(id, run);
        id
    }

    /// Queues the remainder of a job, to be read next.
    pub(crate) fn go_on(&mut self, run: RunId, rest: Job) {
        self.continuing.push_back((run, rest));
    }

    /// Assigns free lanes to runs, oldest first.
    pub(crate) fn give_lanes(&mut self, lanes: usize) {
        let taken = self.by_id.values().filter(|run| run.has_lane).count();
        let waiting = self.by_id.values_mut().filter(|run| !run.has_lane);
        for run in waiting.take(lanes.saturating_sub(taken)) {
            run.has_lane = true;
        }
    }

    /// The next remainder of a run with a lane, if the device's own queue has room.
    pub(crate) fn next_rest(&mut self) -> Option<(RunId, Job)> {
        let goes_on = |(id, _): &(RunId, Job)| {
            let run = &self.by_id[id];
            run.has_lane && run.reads_outstanding < RUN_READS_MAX
        };
        let index = self.continuing.iter().position(goes_on)?;
        self.continuing.remove(index)
    }

    /// Whether one more run may begin: fewer than `lanes` of the runs with a lane are more than a
    /// tail from their end, and no run waits for a lane.
    pub(crate) fn has_room(&self, lanes: usize, tail_bytes: u64) -> bool {
        let is_ending = |id: RunId, run: &Run| {
            run.bytes_outstanding < tail_bytes + LEAD_BYTES_MAX
                && run.end.is_some()
                && !self.goes_on(id)
        };
        let staying = self.by_id.iter().filter(|(id, run)| !is_ending(**id, run));
        self.by_id.values().all(|run| run.has_lane) && staying.count() < lanes
    }

    /// Whether the device gets more of a run than a lead.
    pub(crate) fn has_lane(&self, id: RunId) -> bool {
        self.by_id.get(&id).is_some_and(|run| run.has_lane)
    }

    /// Whether a run has a remainder that was not issued.
    pub(crate) fn has_rest(&self) -> bool {
        !self.continuing.is_empty()
    }

    /// Number of runs in progress.
    pub(crate) fn count(&self) -> usize {
        self.by_id.len()
    }

    /// Pieces in the remainders of runs.
    pub(crate) fn pieces_left(&self) -> u64 {
        let pieces = |(_, job): &(RunId, Job)| u64::from(job.to - job.from);
        self.continuing.iter().map(pieces).sum()
    }

    /// Whether a remainder contains a piece.
    pub(crate) fn will_bring(&self, key: PieceKey) -> bool {
        let brings = |job: &Job| job.stream == key.0 && (job.from..job.to).contains(&key.1);
        self.continuing.iter().any(|(_, job)| brings(job))
    }

    /// Removes the remainders of a run, which does not continue.
    pub(crate) fn take_rests_of(&mut self, run: RunId) -> Vec<Job> {
        let (of_run, others) = self.continuing.drain(..).partition(|(id, _)| *id == run);
        self.continuing = others;
        let of_run: VecDeque<(RunId, Job)> = of_run;
        of_run.into_iter().map(|(_, job)| job).collect()
    }

    /// Removes all remainders.
    pub(crate) fn take_all_rests(&mut self) -> VecDeque<(RunId, Job)> {
        core::mem::take(&mut self.continuing)
    }

    /// Removes the remainders in a removed stream. Returns their runs.
    pub(crate) fn forget_stream(&mut self, stream: StreamId) -> Vec<RunId> {
        let of_stream = self
            .continuing
            .iter()
            .filter(|(_, job)| job.stream == stream);
        let runs = of_stream.map(|(run, _)| *run).collect();
        self.continuing.retain(|(_, job)| job.stream != stream);
        runs
    }

    /// A chain was joined to another: its claims pass to that one.
    pub(crate) fn rename_chain(&mut self, from: ChainId, into: ChainId) {
        let claims = self.by_id.values_mut().flat_map(|run| &mut run.claims);
        let of_claims = claims.map(|claim| &mut claim.chain);
        let of_rests = self.continuing.iter_mut().map(|(_, job)| &mut job.chain);
        for chain in of_claims.chain(of_rests).filter(|chain| **chain == from) {
            *chain = into;
        }
    }

    /// A read is issued to the device; it ends at position `head`.
    pub(crate) fn issue(&mut self, read: OutstandingRead, head: u64) -> ReadId {
        let id = ReadId(self.fresh_id());
        if let Some(run) = self.by_id.get_mut(&read.run) {
            run.reads_outstanding += 1;
            run.bytes_outstanding += read.bytes;
            run.repositions += u32::from(read.is_elsewhere);
            if run.end.replace(head).is_none() {
                run.issued_at = read.issued_at;
            }
        }
        self.head = head;
        self.reads.insert(id, read);
        id
    }

    /// A stream lies elsewhere than assumed: the device is where its reads really end. `end_of`
    /// gives the position at which a piece ends.
    pub(crate) fn relocate(&mut self, stream: StreamId, end_of: impl Fn(u32) -> Option<u64>) {
        for read in self.reads.values().filter(|read| read.stream == stream) {
            let end = end_of(read.end_piece() - 1);
            if let (Some(run), Some(end)) = (self.by_id.get_mut(&read.run), end)
                && run.end.replace(end) == Some(self.head)
            {
                self.head = end;
            }
        }
    }

    /// Whether a run has a remainder.
    pub(crate) fn goes_on(&self, id: RunId) -> bool {
        self.continuing.iter().any(|(run, _)| *run == id)
    }

    /// A read ended; among several outstanding ones it kept the device busy since the previous one
    /// ended. Its run is kept until [`Self::take_if_over`].
    pub(crate) fn done(&mut self, now: Instant, id: ReadId) -> Option<OutstandingRead> {
        let read = self.reads.remove(&id)?;
        let took = now.since(read.issued_at.max(self.last_done_at));
        self.last_done_at = now;
        if let Some(run) = self.by_id.get_mut(&read.run) {
            run.reads_outstanding -= 1;
            run.bytes_outstanding -= read.bytes;
            run.bytes += read.bytes;
            run.took += took;
            if run.reads_outstanding == 0 && !self.goes_on(read.run) {
                let earlier = self.reads.range_mut(..id).map(|(_, read)| read);
                earlier.for_each(|read| read.overtaken += 1);
            }
        }
        Some(read)
    }

    /// A read of a run failed.
    pub(crate) fn failed(&mut self, id: RunId) {
        if let Some(run) = self.by_id.get_mut(&id) {
            run.has_failed = true;
        }
    }

    /// A finished run without a failed read.
    pub(crate) fn whole(&self, id: RunId) -> Option<&Run> {
        let is_over = |run: &&Run| run.reads_outstanding == 0 && !self.goes_on(id);
        let run = self.by_id.get(&id).filter(is_over)?;
        (!run.has_failed).then_some(run)
    }

    /// Device position at which the last issued read of a run ends; `None` before the first.
    pub(crate) fn end_of(&self, id: RunId) -> Option<u64> {
        self.by_id.get(&id)?.end
    }

    /// Removes a run, if none of its reads is outstanding and it has no remainder.
    pub(crate) fn take_if_over(&mut self, id: RunId) -> Option<Run> {
        if self.goes_on(id) || self.by_id.get(&id)?.reads_outstanding > 0 {
            return None;
        }
        self.by_id.remove(&id)
    }

    /// Abandons the next read that has been outstanding for `timeout`, and returns its pieces.
    pub(crate) fn abandon_late(&mut self, now: Instant, timeout: Duration) -> Option<PieceRange> {
        let mut waited = self.reads.values_mut().filter(|read| !read.abandoned);
        let late = waited.find(|read| now.since(read.issued_at) >= timeout)?;
        late.abandoned = true;
        Some((late.stream, late.first_piece, late.end_piece()))
    }

    /// When the first read that was not abandoned will have taken `timeout`.
    pub(crate) fn late_at(&self, timeout: Duration) -> Option<Instant> {
        // Reads are in the order in which they were issued.
        let first = self.reads.values().find(|read| !read.abandoned);
        first.map(|read| read.issued_at + timeout)
    }

    /// From when on the device counts as hung: every outstanding read takes too long, and none has
    /// ended for as long as one may take.
    pub(crate) fn hung_at(&self, timeout: Duration) -> Option<Instant> {
        let is_silent = !self.reads.is_empty() && self.reads.values().all(|read| read.abandoned);
        is_silent.then(|| self.last_done_at + timeout)
    }

    /// The outstanding read that contains a piece.
    pub(crate) fn read_containing(&self, key: PieceKey) -> Option<&OutstandingRead> {
        self.reads.values().find(|read| read.contains(key))
    }

    fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Panics if an invariant is broken.
    pub(crate) fn check_invariants(&self) {
        for (id, run) in &self.by_id {
            let reads = self.reads.values().filter(|read| read.run == *id).count();
            assert_eq!(reads, run.reads_outstanding as usize, "reads of {id:?}");
            assert!(reads > 0 || self.goes_on(*id), "{id:?} is over");
        }
        let rests = self.continuing.iter().map(|(run, _)| run);
        let mut named = self.reads.values().map(|read| &read.run).chain(rests);
        assert!(named.all(|run| self.by_id.contains_key(run)));
        let reads: Vec<&OutstandingRead> = self.reads.values().collect();
        assert!(reads.is_sorted_by_key(|read| read.issued_at));
        for (index, read) in reads.iter().enumerate() {
            let overlaps = |other: &&OutstandingRead| {
                other.stream == read.stream
                    && other.first_piece < read.end_piece()
                    && read.first_piece < other.end_piece()
            };
            assert!(
                !reads[..index].iter().any(overlaps),
                "{read:?} is read twice"
            );
        }
    }
}

/// Stream, first piece, and one past the last.
pub(crate) type PieceRange = (StreamId, u32, u32);

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;
    use crate::lanes::TAIL_BYTES_MIN;

    const TIMEOUT: Duration = Duration(20);

    fn job(from: u32, to: u32) -> Job {
        Job {
            chain: ChainId(1),
            stream: StreamId(1),
            from,
            to,
            deadline: Instant::ZERO,
            demanded: true,
            startup: false,
            can_wait: false,
            pieces_needed: 1,
            wanted_bytes: 1,
            physical: 0,
        }
    }

    fn read(run: RunId, piece: u32, now: Instant) -> OutstandingRead {
        OutstandingRead {
            run,
            stream: StreamId(1),
            first_piece: piece,
            slots: vec![Slot(piece)],
            bytes: 10,
            issued_at: now,
            is_elsewhere: true,
            goes_on: false,
            abandoned: false,
            overtaken: 0,
        }
    }

    fn a_run_of_two_reads(runs: &mut Runs, from: u32) -> (RunId, [ReadId; 2]) {
        let of = job(from, from + 2);
        let run = runs.begin(&of, vec![RunClaim::of(&of)]);
        let issue = |runs: &mut Runs, piece| runs.issue(read(run, piece, Instant::ZERO), 0);
        (run, [issue(runs, from), issue(runs, from + 1)])
    }

    #[test]
    fn run_with_failed_read_is_not_a_measurement() {
        let mut runs = Runs::default();
        let (one, of_one) = a_run_of_two_reads(&mut runs, 0);
        for id in of_one {
            runs.done(Instant(5), id).expect("a read");
        }
        assert!(runs.whole(one).is_some());
        runs.failed(one);
        assert!(runs.whole(one).is_none());
    }

    #[test]
    fn run_continues_where_its_stream_really_lies() {
        let mut runs = Runs::default();
        let (run, _) = a_run_of_two_reads(&mut runs, 0);
        runs.relocate(StreamId(2), |_| Some(7));
        assert_eq!((runs.end_of(run), runs.head()), (Some(0), 0));
        runs.relocate(StreamId(1), |piece| Some(900 + u64::from(piece)));
        assert_eq!((runs.end_of(run), runs.head()), (Some(901), 901));
        // Another run was issued since.
        let of = Job {
            stream: StreamId(3),
            ..job(0, 1)
        };
        let other = runs.begin(&of, vec![RunClaim::of(&of)]);
        let far = OutstandingRead {
            stream: StreamId(3),
            ..read(other, 0, Instant::ZERO)
        };
        runs.issue(far, 5_000);
        runs.relocate(StreamId(1), |_| Some(40));
        assert_eq!((runs.end_of(run), runs.head()), (Some(40), 5_000));
    }

    #[test]
    fn next_run_begins_at_tail_and_continues_after_it() {
        let mut runs = Runs::default();
        let (first, second) = (job(0, 2), job(2, 4));
        let run = runs.begin(&first, vec![RunClaim::of(&first)]);
        runs.give_lanes(1);
        let body = OutstandingRead {
            bytes: 3 * TAIL_BYTES_MIN,
            ..read(run, 0, Instant::ZERO)
        };
        let body = runs.issue(body, 0);
        let tail = runs.issue(read(run, 1, Instant::ZERO), 0);
        assert!(
            !runs.has_room(1, TAIL_BYTES_MIN),
            "more than a tail is left"
        );
        runs.done(Instant(5), body).expect("outstanding");
        assert!(runs.has_room(1, TAIL_BYTES_MIN));
        let next = runs.begin(&second, vec![RunClaim::of(&second)]);
        runs.give_lanes(1);
        runs.issue(read(next, 2, Instant(5)), 0);
        runs.go_on(next, Job { from: 3, ..second });
        assert!(!runs.has_room(1, TAIL_BYTES_MIN), "a run waits for a lane");
        assert!(runs.next_rest().is_none(), "the drive works on the first");
        runs.done(Instant(9), tail).expect("outstanding");
        runs.take_if_over(run).expect("it is complete");
        runs.give_lanes(1);
        assert_eq!(runs.next_rest().map(|(of, _)| of), Some(next));
    }

    proptest! {
        #[test]
        fn run_is_over_when_all_its_pieces_were_read(
            steps in prop::collection::vec((0_u8..4, any::<u8>()), 0..300),
        ) {
            let mut runs = Runs::default();
            // Outstanding reads: id, run, piece, and time of issue.
            let mut model: Vec<(ReadId, RunId, u32, Instant)> = Vec::new();
            let (mut next_piece, mut last_done) = (0, Instant::ZERO);
            for (now, (what, which)) in (0..).map(Instant).zip(steps) {
                match what {
                    0 | 1 => {
                        runs.give_lanes(usize::MAX);
                        let (run, rest) = runs.next_rest().unwrap_or_else(|| {
                            let job = job(next_piece, next_piece + 2);
                            next_piece += 2;
                            (runs.begin(&job, vec![RunClaim::of(&job)]), job)
                        });
                        let id = runs.issue(read(run, rest.from, now), 0);
                        model.push((id, run, rest.from, now));
                        if rest.from + 1 < rest.to {
                            runs.go_on(run, Job { from: rest.from + 1, ..rest });
                        }
                    }
                    2 if !model.is_empty() => {
                        let (id, run, piece, since) = model.remove(usize::from(which) % model.len());
                        let took_before = runs.get(run).expect("under way").took;
                        let ended = runs.done(now, id).expect("outstanding");
                        prop_assert_eq!(ended.first_piece, piece);
                        let took = runs.get(run).expect("not taken yet").took;
                        prop_assert_eq!(took, took_before + now.since(since.max(last_done)));
                        last_done = now;
                        let goes_on = runs.will_bring((StreamId(1), piece + 1)) && piece % 2 == 0;
                        let others = model.iter().any(|(_, of, ..)| *of == run);
                        prop_assert_eq!(runs.take_if_over(run).is_some(), !goes_on && !others);
                    }
                    _ => while runs.abandon_late(now, TIMEOUT).is_some() {},
                }
                runs.check_invariants();
                for (_, _, piece, since) in &model {
                    let known = runs.read_containing((StreamId(1), *piece)).expect("outstanding");
                    prop_assert_eq!(known.issued_at, *since);
                    prop_assert!(!known.abandoned || now.since(*since) >= TIMEOUT);
                }
            }
        }
    }
}
