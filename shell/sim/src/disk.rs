//! The device: reads of files become block requests, and the drive says when they are done.
//!
//! As the server does it with io_uring and O_DIRECT over a loop device: a read is cut into block
//! requests of a bounded size, all of which are given to the drive at once as far as its queue has
//! room; the read is done when all of them are.

use std::collections::{BTreeMap, VecDeque};

use headlong_drive::{Direction, Drive, Parts, Refusal, Request, RequestId, SECTOR_BYTES};
use headlong_engine::{Opening, ReadId};
use headlong_units::Instant;

/// Alignment of direct reads: the logical block of the file system.
const BLOCK_BYTES: u64 = 4096;

/// What the drive spent its time on, and how much it was asked.
#[derive(Debug, Clone, Copy, Default)]
pub struct DriveUse {
    /// Block requests done.
    pub requests: u64,
    /// Of those, the ones that the drive had to go somewhere for.
    pub repositions: u64,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Where their time went.
    pub parts: Parts,
}

/// A drive with the kernel's part in front of it.
#[derive(Debug)]
pub(crate) struct Disk {
    drive: Box<dyn Drive>,
    request_bytes_max: u64,
    /// Cut and not yet in the drive's queue.
    waiting: VecDeque<(RequestId, Request)>,
    /// What is given to the drive when a read's first request is done.
    held: BTreeMap<ReadId, (u64, u64)>,
    in_drive: usize,
    /// Requests of each read that are not done.
    reads: BTreeMap<ReadId, u32>,
    of_request: BTreeMap<RequestId, ReadId>,
    done: VecDeque<ReadId>,
    next_id: u64,
    used: DriveUse,
}

impl Disk {
    pub(crate) fn new(drive: Box<dyn Drive>, request_bytes_max: u64) -> Self {
        Self {
            drive,
            request_bytes_max: request_bytes_max.max(BLOCK_BYTES) / BLOCK_BYTES * BLOCK_BYTES,
            waiting: VecDeque::new(),
            held: BTreeMap::new(),
            in_drive: 0,
            reads: BTreeMap::new(),
            of_request: BTreeMap::new(),
            done: VecDeque::new(),
            next_id: 0,
            used: DriveUse::default(),
        }
    }

    pub(crate) fn used(&self) -> DriveUse {
        self.used
    }

    /// A read of `length` bytes from `physical` on.
    pub(crate) fn submit(
        &mut self,
        now: Instant,
        read: ReadId,
        physical: u64,
        length: u64,
        opening: Option<Opening>,
    ) {
        let from = physical / BLOCK_BYTES * BLOCK_BYTES;
        let end = (physical + length).next_multiple_of(BLOCK_BYTES);
        let parts = opening.map(|opening| opening.parts(end - from));
        if let Some([lead, follower, (rest, _)]) = parts {
            self.cut(read, from + lead.0, from + lead.1);
            self.cut(read, from + follower.0, from + follower.1);
            self.held.insert(read, (from + rest, end));
        } else {
            self.cut(read, from, end);
        }
        self.feed(now);
    }

    fn cut(&mut self, read: ReadId, mut from: u64, end: u64) {
        while from < end {
            let bytes = self.request_bytes_max.min(end - from);
            let id = RequestId(self.next_id);
            self.next_id += 1;
            let request = Request {
                sector: from / SECTOR_BYTES,
                sectors: (bytes / SECTOR_BYTES) as u32,
                direction: Direction::Read,
            };
            self.waiting.push_back((id, request));
            self.of_request.insert(id, read);
            *self.reads.entry(read).or_default() += 1;
            from += bytes;
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.drive.handle_timeout(now);
        self.collect();
        self.feed(now);
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.drive.poll_timeout()
    }

    /// The next read of which everything is there.
    pub(crate) fn poll_done(&mut self) -> Option<ReadId> {
        self.done.pop_front()
    }

    fn feed(&mut self, now: Instant) {
        while self.in_drive < self.drive.queue_depth()
            && let Some((id, request)) = self.waiting.pop_front()
        {
            match self.drive.handle_request(now, id, request) {
                Ok(()) => self.in_drive += 1,
                Err(Refusal::QueueFull) => {
                    self.waiting.push_front((id, request));
                    return self.collect();
                }
                // The catalogue was checked against the capacity before anything began.
                Err(Refusal::OutOfRange) => self.finish(id),
            }
            self.collect();
        }
    }

    fn collect(&mut self) {
        while let Some(completion) = self.drive.poll_completion() {
            self.in_drive -= 1;
            let (sum, parts) = (&mut self.used.parts, completion.parts);
            sum.overhead += parts.overhead;
            sum.seek += parts.seek;
            sum.rotation += parts.rotation;
            sum.transfer += parts.transfer;
            sum.cleaning += parts.cleaning;
            self.used.requests += 1;
            self.used.repositions += u64::from(!completion.is_sequential);
            self.used.bytes += u64::from(completion.request.sectors) * SECTOR_BYTES;
            self.finish(completion.id);
        }
    }

    fn finish(&mut self, id: RequestId) {
        let Some(read) = self.of_request.remove(&id) else {
            return;
        };
        if let Some((from, end)) = self.held.remove(&read) {
            self.cut(read, from, end);
        }
        let Some(left) = self.reads.get_mut(&read) else {
            return;
        };
        *left -= 1;
        if *left == 0 {
            self.reads.remove(&read);
            self.done.push_back(read);
        }
    }
}

impl DriveUse {
    /// What came on top of an earlier state.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let (now, then) = (&self.parts, &earlier.parts);
        Self {
            requests: self.requests - earlier.requests,
            repositions: self.repositions - earlier.repositions,
            bytes: self.bytes - earlier.bytes,
            parts: Parts {
                overhead: now.overhead - then.overhead,
                seek: now.seek - then.seek,
                rotation: now.rotation - then.rotation,
                transfer: now.transfer - then.transfer,
                cleaning: now.cleaning - then.cleaning,
            },
        }
    }
}
