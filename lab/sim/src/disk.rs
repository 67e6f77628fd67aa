//! The engine's disk: splits reads of files into block requests and completes a read with its last
//! one.
//!
//! Same behaviour as the server with io_uring and O_DIRECT on a loop device: a read is cut into
//! block requests of a bounded size, and the drive gets all of them at once as far as its queue has
//! room.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use headlong_device::{OpenedFile, PartId, ReadJob, Resources};
use headlong_drive::{Direction, Request, RequestId, SECTOR_BYTES};
use headlong_engine::ReadId;
use headlong_units::Instant;

use crate::device::QueuedDrive;

/// Alignment of direct reads: the logical block of the file system.
const BLOCK_BYTES: u64 = 4096;

/// A map for a few dozen entries, at most a drive's queue: a linear scan is faster than a tree.
#[derive(Debug)]
struct SmallMap<K, V>(Vec<(K, V)>);

impl<K, V> Default for SmallMap<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Copy + PartialEq, V> SmallMap<K, V> {
    /// The key must be absent.
    fn insert(&mut self, key: K, value: V) {
        self.0.push((key, value));
    }

    fn get_mut(&mut self, key: K) -> Option<&mut V> {
        let mut all = self.0.iter_mut();
        all.find(|(of, _)| *of == key).map(|(_, value)| value)
    }

    fn remove(&mut self, key: K) -> Option<V> {
        let place = self.0.iter().position(|(of, _)| *of == key)?;
        Some(self.0.swap_remove(place).1)
    }
}

/// A drive with the kernel's block layer above it.
#[derive(Debug)]
pub(crate) struct SimulatedDisk {
    device: QueuedDrive,
    request_bytes_max: u64,
    /// Incomplete requests of each read.
    reads: SmallMap<ReadId, u32>,
    of_request: SmallMap<RequestId, ReadId>,
    done: VecDeque<ReadId>,
    next_id: u64,
    cold_open: Option<ColdOpen>,
    /// Files that were opened before, by start address: their metadata is in the kernel's cache.
    warm: BTreeSet<u64>,
    opening: SmallMap<ReadId, PartId>,
    opened: VecDeque<PartId>,
    opens: u64,
}

/// Cost of opening a file for the first time: one metadata read near the start of the file's block
/// group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColdOpen {
    /// Bytes of that read.
    pub bytes: u64,
    /// Bytes of a block group.
    pub group_bytes: u64,
}

impl Default for ColdOpen {
    /// One ext4 inode block, including the extents.
    fn default() -> Self {
        Self {
            bytes: BLOCK_BYTES,
            group_bytes: 128 << 20,
        }
    }
}

impl SimulatedDisk {
    pub(crate) fn new(
        device: QueuedDrive,
        request_bytes_max: u64,
        cold_open: Option<ColdOpen>,
    ) -> Self {
        Self {
            device,
            request_bytes_max: request_bytes_max.max(BLOCK_BYTES) / BLOCK_BYTES * BLOCK_BYTES,
            reads: SmallMap::default(),
            of_request: SmallMap::default(),
            done: VecDeque::new(),
            next_id: 0,
            cold_open,
            warm: BTreeSet::new(),
            opening: SmallMap::default(),
            opened: VecDeque::new(),
            opens: 0,
        }
    }

    /// Opens the file that begins at `start`. Returns whether it is open at once; otherwise
    /// [`SimulatedDisk::poll_opened`] reports it.
    pub(crate) fn open(&mut self, now: Instant, file: PartId, start: u64) -> bool {
        let Some(cold) = self.cold_open.filter(|_| self.warm.insert(start)) else {
            return true;
        };
        // The engine never uses these read ids.
        let id = ReadId(u64::MAX - self.opens);
        self.opens += 1;
        self.opening.insert(id, file);
        let group = start - start % cold.group_bytes.max(1);
        self.submit(now, id, group, cold.bytes);
        false
    }

    /// The next file that finished opening.
    pub(crate) fn poll_opened(&mut self) -> Option<PartId> {
        self.opened.pop_front()
    }

    pub(crate) fn device(&self) -> &QueuedDrive {
        &self.device
    }

    pub(crate) fn device_mut(&mut self) -> &mut QueuedDrive {
        &mut self.device
    }

    /// Block requests and reads in flight.
    pub(crate) fn live(&self) -> usize {
        self.device.outstanding() + self.reads.0.len()
    }

    /// Reads from the file that begins at `start`.
    pub(crate) fn read(&mut self, now: Instant, job: &ReadJob, start: u64) {
        let from = start + job.offset;
        self.submit(now, job.id, from, job.length);
    }

    /// Reads `length` bytes at `physical`.
    fn submit(&mut self, now: Instant, read: ReadId, physical: u64, length: u64) {
        let from = physical / BLOCK_BYTES * BLOCK_BYTES;
        let end = (physical + length).next_multiple_of(BLOCK_BYTES);
        self.cut(now, read, from, end);
        self.collect(now);
    }

    /// Completions are collected only after all requests of a read have been counted.
    fn cut(&mut self, now: Instant, read: ReadId, mut from: u64, end: u64) {
        while from < end {
            let bytes = self.request_bytes_max.min(end - from);
            let id = RequestId(self.next_id);
            self.next_id += 1;
            self.of_request.insert(id, read);
            match self.reads.get_mut(read) {
                Some(left) => *left += 1,
                None => self.reads.insert(read, 1),
            }
            let request = Request {
                sector: from / SECTOR_BYTES,
                sectors: (bytes / SECTOR_BYTES) as u32,
                direction: Direction::Read,
            };
            self.device.submit(now, id, request);
            from += bytes;
        }
    }

    /// Forgets all reads. The drive finishes the requests it holds; waiting requests are dropped.
    pub(crate) fn forget_reads(&mut self) {
        self.device.forget_waiting();
        self.reads = SmallMap::default();
        self.of_request = SmallMap::default();
        self.done.clear();
        self.opening = SmallMap::default();
        self.opened.clear();
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.device.handle_timeout(now);
        self.collect(now);
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.device.poll_timeout()
    }

    /// The next completed read.
    pub(crate) fn poll_done(&mut self) -> Option<ReadId> {
        self.done.pop_front()
    }

    fn collect(&mut self, now: Instant) {
        while let Some(id) = self.device.poll_done(now) {
            self.finish(id);
        }
    }

    fn finish(&mut self, id: RequestId) {
        let Some(read) = self.of_request.remove(id) else {
            return;
        };
        let Some(left) = self.reads.get_mut(read) else {
            return;
        };
        *left -= 1;
        if *left == 0 {
            self.reads.remove(read);
            match self.opening.remove(read) {
                Some(file) => self.opened.push_back(file),
                None => self.done.push_back(read),
            }
        }
    }
}

/// A simulated device: a stream's source is the start address of each file; all other types are
/// empty.
#[derive(Debug)]
pub(crate) struct SimulatedResources;

impl Resources for SimulatedResources {
    type Source = Arc<[u64]>;
    type File = ();
    type Memory = ();
    type Client = ();
    type Record = ();
}

/// Files that stay open without a reply, as the server's default.
pub(crate) const OPEN_FILES_MAX: usize = 1024;

/// Simulated files never change.
pub(crate) const OPENED: OpenedFile<()> = OpenedFile {
    file: (),
    is_current: true,
};

pub(crate) fn start_of(source: &[u64], part: u32) -> u64 {
    source.get(part as usize).copied().unwrap_or(0)
}
