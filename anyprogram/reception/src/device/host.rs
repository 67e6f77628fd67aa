//! Host of a device core over the kernel's page cache: a slot is a piece of a file whose pages are
//! held.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use headlong_device::flash::SsdJob;
use headlong_device::{
    FileRead, Host, IoFailure, Notice, OpenJob, OpenProgress, OpenedFile, ReadyPiece, Resources,
    SlotBusy,
};
use headlong_engine::{Failure, ReadId, ReadOutcome, RequestId, Slot, StreamId};

use crate::file::{FileVersion, OpenFile};
use crate::held_pages::HeldPages;
use crate::readers::{FileRange, ReadJob, Readers};
use crate::status::Counters;
use crate::stream::{Stream, StreamFile};
use crate::waiting_requests::WaitingRequests;
use headlong_protocol::FileKey;

/// Resource types of a device over the page cache.
pub(super) struct PageCache;

impl Resources for PageCache {
    type Source = ();
    type File = Arc<OpenFile>;
    type Memory = LeasedSlots;
    type Client = ();
    type Record = ();
}

/// Slots to be read into, and the pieces that they held before.
pub(super) struct LeasedSlots {
    slots: Vec<Slot>,
    given_up: Vec<FileRange>,
}

/// The piece of a file that a slot of the engine's memory stands for.
#[derive(Debug)]
pub(super) struct SlotPiece {
    pub(super) file: StreamFile,
    pub(super) run: FileRange,
    /// `None` until it is read.
    pub(super) held: Option<HeldPages>,
}

/// A read in progress in the readers.
#[derive(Debug)]
struct OutstandingRead {
    file: StreamFile,
    slots: Vec<Slot>,
    run: FileRange,
}

/// The page cache, the threads that read into it, and the waiting programs.
pub(super) struct PageCacheHost {
    pub(super) readers: Readers,
    pub(super) counters: Arc<Counters>,
    pub(super) streams: HashMap<StreamId, Stream>,
    pub(super) by_version: HashMap<FileVersion, StreamFile>,
    pub(super) by_key: HashMap<FileKey, StreamFile>,
    pub(super) pieces: Vec<Option<SlotPiece>>,
    /// Slots by file and first byte.
    pub(super) by_place: BTreeMap<(StreamFile, u64), Slot>,
    outstanding: HashMap<ReadId, OutstandingRead>,
    pub(super) waiting: WaitingRequests,
    /// Pieces delivered to requests.
    pub(super) taken: Vec<(RequestId, Slot)>,
    pub(super) unlocked: u64,
    piece_bytes: u64,
}

impl PageCacheHost {
    pub(super) fn new(
        readers: Readers,
        counters: Arc<Counters>,
        slots: usize,
        piece_bytes: u64,
    ) -> Self {
        Self {
            readers,
            counters,
            streams: HashMap::new(),
            by_version: HashMap::new(),
            by_key: HashMap::new(),
            pieces: std::iter::repeat_with(|| None).take(slots).collect(),
            by_place: BTreeMap::new(),
            outstanding: HashMap::new(),
            waiting: WaitingRequests::default(),
            taken: Vec::new(),
            unlocked: 0,
            piece_bytes,
        }
    }

    /// The readers completed a read; returns its stream.
    pub(super) fn end_read(
        &mut self,
        id: ReadId,
        outcome: ReadOutcome,
        held: Vec<HeldPages>,
    ) -> Option<StreamId> {
        let read = self.outstanding.remove(&id)?;
        let stream = read.file.0;
        if outcome == ReadOutcome::Done && self.streams.contains_key(&stream) {
            self.fill(&read, held);
        }
        Some(stream)
    }

    fn fill(&mut self, read: &OutstandingRead, held: Vec<HeldPages>) {
        let mut held = held.into_iter();
        let mut offset = read.run.offset;
        let end = read.run.offset + read.run.length;
        for slot in &read.slots {
            let held = held.next();
            let is_locked = held.as_ref().is_some_and(|held| held.is_locked);
            self.unlocked += u64::from(!is_locked);
            let run = FileRange {
                open: Arc::clone(&read.run.open),
                offset,
                length: self.piece_bytes.min(end.saturating_sub(offset)),
            };
            if let Some(place) = self.pieces.get_mut(slot.0 as usize) {
                self.by_place.insert((read.file, offset), *slot);
                *place = Some(SlotPiece {
                    file: read.file,
                    run,
                    held,
                });
            }
            offset += self.piece_bytes;
        }
    }
}

impl Host<PageCache> for PageCacheHost {
    fn lease(&mut self, _: Option<StreamId>, slots: &[Slot], _: u64) -> Option<LeasedSlots> {
        let mut given_up = Vec::new();
        for slot in slots {
            let place = self.pieces.get_mut(slot.0 as usize);
            // Dropping the piece releases its pages.
            let Some(piece) = place.and_then(Option::take) else {
                continue;
            };
            self.by_place.remove(&(piece.file, piece.run.offset));
            given_up.push(piece.run);
        }
        let slots = slots.to_vec();
        Some(LeasedSlots { slots, given_up })
    }

    // The shards of this host are never asked to release memory.
    fn vacate(&mut self, _: Slot) {}

    /// The readers open files on demand.
    fn open(&mut self, job: OpenJob<()>) -> OpenProgress<Arc<OpenFile>> {
        let stream = self.streams.get(&job.id.stream);
        let open = stream.and_then(|stream| stream.parts.get(job.id.part as usize));
        let opened = open.map(|open| OpenedFile {
            file: Arc::clone(open),
            is_current: true,
        });
        OpenProgress::Ended(opened.ok_or(IoFailure::Replaced))
    }

    fn close(&mut self, _: Vec<Arc<OpenFile>>) {}

    fn read(&mut self, read: FileRead<PageCache>) {
        let FileRead {
            memory, job, file, ..
        } = read;
        let run = FileRange {
            open: file,
            offset: job.offset,
            length: job.length,
        };
        let outstanding = OutstandingRead {
            file: (job.file.stream, job.file.part),
            slots: memory.slots,
            run: run.clone(),
        };
        self.outstanding.insert(job.id, outstanding);
        self.readers.enqueue(ReadJob::Read {
            id: job.id,
            run,
            given_up: memory.given_up,
        });
    }

    /// Closes the files of the stream and releases their pages.
    fn forget(&mut self, stream: StreamId) {
        let known = self.streams.remove(&stream);
        for open in known.into_iter().flat_map(|known| known.parts) {
            let version = open.version;
            let is_its = |file: Option<&StreamFile>| file.is_some_and(|(of, _)| *of == stream);
            if is_its(self.by_version.get(&version)) {
                self.by_version.remove(&version);
            }
            if is_its(self.by_key.get(&version.key)) {
                self.by_key.remove(&version.key);
            }
        }
        let all = ((stream, 0), 0)..=((stream, u32::MAX), u64::MAX);
        let places = self.by_place.range(all);
        let places: Vec<_> = places.map(|(key, slot)| (*key, *slot)).collect();
        for (key, slot) in places {
            self.by_place.remove(&key);
            self.pieces[slot.0 as usize] = None;
        }
    }

    fn lasting_name(&self, _: StreamId, (): &()) -> Option<u64> {
        None
    }

    fn deliver(&mut self, (): &mut (), piece: &ReadyPiece) -> Result<(), SlotBusy> {
        self.taken.push((piece.request, piece.slot));
        let bytes = u64::from(piece.end.saturating_sub(piece.start));
        self.waiting.brought(piece.request.0, bytes, &self.counters);
        Ok(())
    }

    fn fail(&mut self, (): &mut (), request: RequestId, _: Failure) {
        self.waiting.fail(request.0, &self.counters);
    }

    // There is no flash tier: data is kept in the page cache.
    fn stage(&mut self, _: &headlong_flash::format::RecordName, _: Slot) -> Option<()> {
        None
    }

    fn submit(&mut self, _: headlong_flash::SsdId, _: SsdJob<PageCache>) {}

    fn wall_seconds(&self) -> u64 {
        0
    }

    fn announce(&mut self, _: Notice<'_>) {}
}
