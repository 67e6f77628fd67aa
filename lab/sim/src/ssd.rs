//! One SSD, shared by all disks, with its queues of jobs.
//!
//! Same queueing as in the server (`server/storage/src/flash/ssd.rs`): a pool of reader threads with
//! one read each, and one writer thread that serves all disks in order of submission. Their jobs
//! become block requests of a modelled drive.
//!
//! Invariant: if only one disk uses an SSD, these queues delay its jobs no longer than the drive's
//! own queue.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use headlong_drive::{Direction, Request, RequestId, SECTOR_BYTES};
use headlong_engine::FlashReadId;
use headlong_flash::format::{GROUP_BLOCKS, Layout};
use headlong_flash::{BlockId, RECORD_ALIGN_BYTES, SpecError, SsdId};
use headlong_units::{Instant, KIB};

use crate::device::QueuedDrive;
use crate::usage::SsdUse;

/// Concurrent reads, as the server's threads (`READERS`).
const READERS: usize = 32;
/// Requests to the SSD are split at this size, as the kernel does.
const REQUEST_BYTES: u64 = 512 * KIB;

/// Kind of job.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FlashOperation {
    Read(FlashReadId, usize),
    Write(BlockId, u32),
    Seal(BlockId),
    Probe(SsdId),
    /// A checkpoint, or its invalidation.
    Aside,
}

/// Byte range of the SSD: start, end.
pub(crate) type SsdRange = (u64, u64);

/// A job, with the writes that accompany it.
#[derive(Debug)]
pub(crate) struct FlashJob {
    pub(crate) disk: u32,
    pub(crate) doing: FlashOperation,
    pub(crate) span: SsdRange,
    /// Written before the job.
    pub(crate) asides: Vec<SsdRange>,
}

/// A job in progress, and the number of its requests left.
#[derive(Debug, Clone, Copy)]
struct ActiveJob {
    disk: u32,
    doing: FlashOperation,
    left: u32,
    asked_at: Instant,
}

/// An SSD.
#[derive(Debug)]
pub(crate) struct SimulatedSsd {
    device: QueuedDrive,
    pub(crate) places: TierLayout,
    /// Number of its first block in the tier, and number of its blocks.
    pub(crate) first_block: u32,
    pub(crate) blocks: u32,
    /// The task of each block request.
    of_request: BTreeMap<u64, u64>,
    tasks: BTreeMap<u64, ActiveJob>,
    /// Jobs that wait for a reader thread, with the time of submission.
    reads: VecDeque<(Instant, FlashJob)>,
    reading: usize,
    /// Jobs that wait for the writer thread.
    writes: VecDeque<(Instant, FlashJob)>,
    /// The writer thread's current disk, and the number of its tasks.
    writing: (u32, usize),
    next_id: u64,
    used: SsdUse,
}

impl SimulatedSsd {
    pub(crate) fn new(
        device: QueuedDrive,
        places: TierLayout,
        (first_block, blocks): (u32, u32),
    ) -> Self {
        Self {
            device,
            places,
            first_block,
            blocks,
            of_request: BTreeMap::new(),
            tasks: BTreeMap::new(),
            reads: VecDeque::new(),
            reading: 0,
            writes: VecDeque::new(),
            writing: (0, 0),
            next_id: 0,
            used: SsdUse::default(),
        }
    }

    /// Jobs that have not completed.
    pub(crate) fn live(&self) -> usize {
        self.tasks.len() + self.reads.len() + self.writes.len()
    }

    /// Forgets all jobs; nothing waits for them any more.
    pub(crate) fn forget_all(&mut self) {
        self.device.forget_waiting();
        self.of_request.clear();
        self.tasks.clear();
        self.reads.clear();
        self.reading = 0;
        self.writes.clear();
        self.writing = (0, 0);
        self.places.end_all();
    }

    /// Restarts the counters.
    pub(crate) fn begin_window(&mut self, now: Instant) {
        self.used.begin(now, self.device.used());
    }

    /// Activity since [`Self::begin_window`].
    pub(crate) fn used(&self, now: Instant) -> SsdUse {
        self.used.until(now, self.device.used())
    }

    pub(crate) fn submit(
        &mut self,
        now: Instant,
        job: FlashJob,
        done: &mut VecDeque<(u32, FlashOperation)>,
    ) {
        match job.doing {
            FlashOperation::Read(..) => self.reads.push_back((now, job)),
            FlashOperation::Write(..) | FlashOperation::Seal(..) => {
                self.writes.push_back((now, job))
            }
            // Probes have their own thread.
            FlashOperation::Probe(_) | FlashOperation::Aside => {
                self.used.probes += 1;
                self.begin(now, now, &job, job.doing, job.span);
            }
        }
        self.feed(now);
        self.collect(now, done);
    }

    pub(crate) fn handle_timeout(
        &mut self,
        now: Instant,
        done: &mut VecDeque<(u32, FlashOperation)>,
    ) {
        self.device.handle_timeout(now);
        self.collect(now, done);
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.device.poll_timeout()
    }

    /// Idle threads take the jobs that have waited longest.
    fn feed(&mut self, now: Instant) {
        while self.reading < READERS
            && let Some((since, job)) = self.reads.pop_front()
        {
            self.reading += 1;
            self.begin(now, since, &job, job.doing, job.span);
        }
        // A disk submits one write at a time, and the accompanying writes belong to the same disk.
        while let Some((_, job)) = self.writes.front()
            && (self.writing.1 == 0 || self.writing.0 == job.disk)
            && let Some((since, job)) = self.writes.pop_front()
        {
            self.writing = (job.disk, self.writing.1 + 1 + job.asides.len());
            for aside in &job.asides {
                self.begin(now, since, &job, FlashOperation::Aside, *aside);
            }
            self.begin(now, since, &job, job.doing, job.span);
        }
        let writing = usize::from(self.writing.1 > 0);
        self.used.queued(
            now,
            self.reading + self.reads.len(),
            writing + self.writes.len(),
        );
    }

    fn begin(
        &mut self,
        now: Instant,
        asked_at: Instant,
        job: &FlashJob,
        doing: FlashOperation,
        (mut from, to): SsdRange,
    ) {
        let task = self.next_id;
        self.next_id += 1;
        let left = (to - from).div_ceil(REQUEST_BYTES) as u32;
        let disk = job.disk;
        self.tasks.insert(
            task,
            ActiveJob {
                disk,
                doing,
                left,
                asked_at,
            },
        );
        let direction = match doing {
            FlashOperation::Read(..) | FlashOperation::Probe(_) => Direction::Read,
            FlashOperation::Write(..) | FlashOperation::Seal(..) | FlashOperation::Aside => {
                Direction::Write
            }
        };
        let bytes = to - from;
        match direction {
            Direction::Read => self.used.read_bytes += bytes,
            Direction::Write => self.used.written_bytes += bytes,
        }
        while from < to {
            let bytes = REQUEST_BYTES.min(to - from);
            let id = self.next_id;
            self.next_id += 1;
            self.of_request.insert(id, task);
            let request = Request {
                sector: from / SECTOR_BYTES,
                sectors: (bytes / SECTOR_BYTES) as u32,
                direction,
            };
            self.device.submit(now, RequestId(id), request);
            from += bytes;
        }
    }

    fn collect(&mut self, now: Instant, done: &mut VecDeque<(u32, FlashOperation)>) {
        while let Some(RequestId(id)) = self.device.poll_done(now) {
            let Some(task) = self.of_request.remove(&id) else {
                continue;
            };
            let Some(of) = self.tasks.get_mut(&task) else {
                continue;
            };
            of.left -= 1;
            if of.left > 0 {
                continue;
            }
            let ended = *of;
            self.tasks.remove(&task);
            self.end(now, &ended);
            if !matches!(ended.doing, FlashOperation::Aside) {
                done.push_back((ended.disk, ended.doing));
            }
            self.feed(now);
        }
    }

    fn end(&mut self, now: Instant, task: &ActiveJob) {
        let took = now.since(task.asked_at);
        match task.doing {
            FlashOperation::Read(..) => {
                self.reading -= 1;
                self.used.reads.add(took);
            }
            FlashOperation::Write(..) | FlashOperation::Seal(..) | FlashOperation::Aside => {
                self.writing.1 -= 1;
                if let FlashOperation::Write(..) = task.doing {
                    self.used.writes.add(took);
                }
            }
            FlashOperation::Probe(_) => {}
        }
    }
}

// As in the server: checkpoints first, then blocks. Starting to fill a block voids its group's
// checkpoint and writes the checkpoints of all groups that have no open block.

/// Layout of a tier.
#[derive(Debug, Clone)]
pub struct TierLayout {
    layout: Layout,
    blocks_start: u64,
    /// Groups with a void checkpoint, with their blocks that are being filled.
    open: BTreeMap<u32, BTreeSet<u32>>,
}

impl TierLayout {
    /// Lays out `bytes`. Accepts smaller tiers than the server does.
    ///
    /// # Errors
    /// If the block size is invalid, or not even one block fits.
    pub fn new(bytes: u64, block_bytes: u32, piece_bytes: u64) -> Result<(Self, u32), SpecError> {
        let block = u64::from(block_bytes);
        // Block and checkpoint sizes do not depend on the number of blocks.
        let layout = Layout::new(block.saturating_mul(200), block, piece_bytes);
        let layout = layout.map_err(|_| SpecError::BlockSize)?;
        let groups = (bytes / block).div_ceil(GROUP_BLOCKS.into());
        let blocks_start = (groups * layout.checkpoint_bytes()).next_multiple_of(block);
        let count = bytes.saturating_sub(blocks_start) / block;
        let places = Self {
            layout,
            blocks_start,
            open: BTreeMap::new(),
        };
        let count = u32::try_from(count).ok().filter(|count| *count > 0);
        Ok((places, count.ok_or(SpecError::Blocks)?))
    }

    /// Layout within a block.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Start address of a block.
    pub fn block_start(&self, block: u32) -> u64 {
        self.blocks_start + u64::from(block) * u64::from(self.layout.block_bytes())
    }

    /// Most bytes written outside a block to fill it.
    pub fn seal_bytes(&self) -> u32 {
        self.layout.checkpoint_bytes() as u32 + RECORD_ALIGN_BYTES
    }

    /// Starts to fill a block. Returns the writes that come before it: address and bytes.
    pub fn begin(&mut self, block: u32) -> Vec<(u64, u64)> {
        let group = block / GROUP_BLOCKS;
        let bytes = self.layout.checkpoint_bytes();
        let place = |group: u32| u64::from(group) * bytes;
        let is_through = |of: &u32, filling: &mut BTreeSet<u32>| *of != group && filling.is_empty();
        let through = self.open.extract_if(.., is_through);
        let mut written: Vec<(u64, u64)> = through.map(|(of, _)| (place(of), bytes)).collect();
        if !self.open.contains_key(&group) {
            written.push((place(group), u64::from(RECORD_ALIGN_BYTES)));
        }
        self.open.entry(group).or_default().insert(block);
        written
    }

    /// A block was sealed or abandoned.
    pub fn end(&mut self, block: u32) {
        if let Some(filling) = self.open.get_mut(&(block / GROUP_BLOCKS)) {
            filling.remove(&block);
        }
    }

    /// The process ended; no block is being filled.
    pub(crate) fn end_all(&mut self) {
        self.open.values_mut().for_each(BTreeSet::clear);
    }
}
