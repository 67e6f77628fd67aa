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
use headlong_engine::{Extent, ReadId};
use headlong_units::Instant;

use crate::device::QueuedDrive;
use crate::extents::map_of;

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
    /// Maps in the kernel's cache, by the position of the file.
    maps: BTreeSet<u64>,
    looking_up: SmallMap<ReadId, PartId>,
    looked_up: VecDeque<PartId>,
    look_ups: u64,
}

impl SimulatedDisk {
    pub(crate) fn new(device: QueuedDrive, request_bytes_max: u64) -> Self {
        Self {
            device,
            request_bytes_max: request_bytes_max.max(BLOCK_BYTES) / BLOCK_BYTES * BLOCK_BYTES,
            reads: SmallMap::default(),
            of_request: SmallMap::default(),
            done: VecDeque::new(),
            next_id: 0,
            maps: BTreeSet::new(),
            looking_up: SmallMap::default(),
            looked_up: VecDeque::new(),
            look_ups: 0,
        }
    }

    /// Looks up the extents of a file. Returns whether the kernel has its map; otherwise
    /// [`SimulatedDisk::poll_looked_up`] reports the end of the read.
    pub(crate) fn look_up(&mut self, now: Instant, file: PartId, extents: &[Extent]) -> bool {
        let Some(map) = map_of(extents).filter(|_| self.maps.insert(extents[0].physical)) else {
            return true;
        };
        // The engine never uses these read ids.
        let id = ReadId(u64::MAX - self.look_ups);
        self.look_ups += 1;
        self.looking_up.insert(id, file);
        self.cut(now, Some(id), map, map + BLOCK_BYTES);
        self.collect(now);
        false
    }

    /// The next file whose look-up has ended.
    pub(crate) fn poll_looked_up(&mut self) -> Option<PartId> {
        self.looked_up.pop_front()
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

    /// Reads from the file with these extents.
    pub(crate) fn read(&mut self, now: Instant, job: &ReadJob, extents: &[Extent]) {
        let (start, end) = (job.offset, job.offset + job.length);
        for extent in extents {
            let from = start.max(extent.offset);
            let to = end.min(extent.offset + extent.length);
            if from < to {
                let first = extent.physical + (from - extent.offset);
                let last = (first + (to - from)).next_multiple_of(BLOCK_BYTES);
                self.cut(now, Some(job.id), first / BLOCK_BYTES * BLOCK_BYTES, last);
            }
        }
        self.collect(now);
    }

    /// Writes bytes that the server has fetched; the end of a write is not reported.
    pub(crate) fn write(&mut self, now: Instant, physical: u64, bytes: u64) {
        let last = (physical + bytes).next_multiple_of(BLOCK_BYTES);
        self.cut(now, None, physical / BLOCK_BYTES * BLOCK_BYTES, last);
        self.collect(now);
    }

    /// Submits the requests of a read, or of a write without one. Completions are collected only
    /// after all requests of a read have been counted.
    fn cut(&mut self, now: Instant, read: Option<ReadId>, mut from: u64, end: u64) {
        while from < end {
            let bytes = self.request_bytes_max.min(end - from);
            let id = RequestId(self.next_id);
            self.next_id += 1;
            if let Some(read) = read {
                self.of_request.insert(id, read);
                match self.reads.get_mut(read) {
                    Some(left) => *left += 1,
                    None => self.reads.insert(read, 1),
                }
            }
            let request = Request {
                sector: from / SECTOR_BYTES,
                sectors: (bytes / SECTOR_BYTES) as u32,
                direction: read.map_or(Direction::Write, |_| Direction::Read),
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
        self.looking_up = SmallMap::default();
        self.looked_up.clear();
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
            match self.looking_up.remove(read) {
                Some(file) => self.looked_up.push_back(file),
                None => self.done.push_back(read),
            }
        }
    }
}

/// A simulated device: a stream's source is the extents of each file; all other types are empty.
#[derive(Debug)]
pub(crate) struct SimulatedResources;

impl Resources for SimulatedResources {
    type Source = FileExtents;
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

/// The extents of each file of a stream.
pub(crate) type FileExtents = Arc<[Vec<Extent>]>;

pub(crate) fn extents_of_part(source: &FileExtents, part: u32) -> &[Extent] {
    source.get(part as usize).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use headlong_drive::preset;
    use headlong_engine::{ReadCommand, StreamId};
    use headlong_units::{Duration, MIB};

    use super::*;
    use crate::extents::extents_of;

    fn run(disk: &mut SimulatedDisk) -> Instant {
        let mut now = Instant::ZERO;
        while let Some(at) = disk.poll_timeout() {
            now = at;
            disk.handle_timeout(now);
        }
        now
    }

    #[test]
    fn map_is_read_once_and_bytes_from_their_extents() {
        let drive = preset("wd-red-wd10efrx").expect("a preset").build();
        let device = QueuedDrive::new(drive, None, Duration::ZERO);
        let mut disk = SimulatedDisk::new(device, 8 * MIB);
        let file = PartId {
            stream: StreamId(1),
            part: 0,
        };
        let (few, many) = (
            extents_of(1 << 36, 40 * MIB, 4),
            extents_of(1 << 37, 40 * MIB, 8),
        );
        assert!(disk.look_up(Instant::ZERO, file, &few));
        assert!(!disk.look_up(Instant::ZERO, file, &many));
        let now = run(&mut disk);
        assert_eq!(disk.poll_looked_up(), Some(file));
        assert!(disk.look_up(now, file, &many), "the kernel has the map");
        assert_eq!(disk.device().used().bytes, BLOCK_BYTES);

        // The end of the first extent, the second one, and the begin of the third.
        let job = ReadJob::new(&ReadCommand {
            id: ReadId(1),
            stream: file.stream,
            part: 0,
            offset: 4 * MIB,
            length: 7 * MIB,
            slots: Vec::new(),
        });
        disk.read(now, &job, &many);
        run(&mut disk);
        assert_eq!(disk.poll_done(), Some(ReadId(1)));
        let used = disk.device().used();
        assert_eq!((used.requests, used.bytes), (4, BLOCK_BYTES + 7 * MIB));
    }
}
