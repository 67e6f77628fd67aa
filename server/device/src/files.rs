//! File cache of a device: open files, opens in flight, and the reads that wait for them.
//!
//! A file is opened once, however many reads wait for it. At most [`OPENS_MAX`] opens are in
//! flight; files that a read waits for are opened first. A file with a running reply stays open
//! until the reply ends, so that the reply is completed from the version it started with. The other
//! open files are bounded in number and closed in LRU order.
//!
//! Files are opened for direct I/O. If the first direct open or read is refused, the whole device
//! falls back to the page cache; after one successful direct read, a refusal affects only its file.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use headlong_engine::StreamId;

use crate::io_failure::IoFailure;
use crate::open_job::{OpenJob, OpenedFile, PartId};

/// Upper limit of opens in flight.
pub const OPENS_MAX: usize = 24;

/// An open file.
#[derive(Debug, Clone)]
pub(crate) struct OpenFile<F> {
    pub(crate) file: F,
    pub(crate) is_direct: bool,
}

#[derive(Debug)]
struct FileSlot<F> {
    file: OpenFile<F>,
    used: u64,
}

/// A file whose open is queued or in flight.
#[derive(Debug)]
struct PendingOpen<S, W> {
    source: S,
    waiting: Vec<W>,
    is_started: bool,
    is_direct: bool,
    /// A direct read of the file was refused while the file was being reopened.
    must_be_buffered: bool,
    /// The direct open was refused.
    was_refused: bool,
    /// The open has been retried after other files were closed.
    is_retried: bool,
}

/// The files of one device.
#[derive(Debug)]
pub(crate) struct Files<F, S, W> {
    files_max: usize,
    entries: BTreeMap<PartId, FileSlot<F>>,
    /// Number of running replies per file.
    pins: BTreeMap<PartId, u32>,
    /// Open files without a running reply, ordered by last use.
    by_use: BTreeMap<u64, PartId>,
    uses: u64,
    opening: BTreeMap<PartId, PendingOpen<S, W>>,
    demanded: VecDeque<PartId>,
    ahead: VecDeque<PartId>,
    in_flight: usize,
    is_direct: bool,
    has_read_direct: bool,
    has_odd_file: bool,
}

/// Reads that waited for an open, and its result.
type WaitedReads<F, W> = (Vec<W>, Result<OpenFile<F>, IoFailure>);

/// Consequences of a completed open.
#[derive(Debug)]
pub(crate) struct OpenEnd<F, W> {
    /// The waiting reads and their file; `None` if the open is retried.
    pub(crate) ended: Option<WaitedReads<F, W>>,
    /// Files that the caller must close.
    pub(crate) closed: Vec<F>,
    pub(crate) news: Option<FileNotice>,
}

/// Conditions that are reported to the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileNotice {
    DeviceBuffered,
    FileBuffered,
    TooMany(usize),
}

impl<F, W> OpenEnd<F, W> {
    /// The open is retried: nothing completes, and the file just opened is closed.
    fn again(opened: Option<OpenedFile<F>>) -> Self {
        Self {
            ended: None,
            closed: opened.into_iter().map(|opened| opened.file).collect(),
            news: None,
        }
    }
}

impl<F: Clone, S: Clone, W> Files<F, S, W> {
    pub(crate) fn new(files_max: usize) -> Self {
        Self {
            files_max: files_max.max(1),
            entries: BTreeMap::new(),
            pins: BTreeMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
            opening: BTreeMap::new(),
            demanded: VecDeque::new(),
            ahead: VecDeque::new(),
            in_flight: 0,
            is_direct: true,
            has_read_direct: false,
            has_odd_file: false,
        }
    }

    /// Whether the device is read with direct I/O.
    pub(crate) fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Number of files with a running reply.
    pub(crate) fn pin_count(&self) -> usize {
        self.pins.len()
    }

    /// A direct read returned data.
    pub(crate) fn direct_read_worked(&mut self) {
        self.has_read_direct = true;
    }

    /// Removes the files of a stream.
    pub(crate) fn forget(&mut self, stream: StreamId) -> Vec<F> {
        let id = |part| PartId { stream, part };
        let range = id(0)..=id(u32::MAX);
        let ids = self.entries.range(range).map(|(id, _)| *id);
        let ids: Vec<PartId> = ids.collect();
        ids.iter().filter_map(|id| self.remove(*id)).collect()
    }

    /// Removes a file.
    pub(crate) fn remove(&mut self, id: PartId) -> Option<F> {
        let entry = self.entries.remove(&id)?;
        self.by_use.remove(&entry.used);
        Some(entry.file.file)
    }

    /// A reply uses this file: the file stays open until [`Files::unpin`], whether it is open
    /// already or opened later.
    pub(crate) fn pin(&mut self, id: PartId) {
        *self.pins.entry(id).or_insert(0) += 1;
        if let Some(entry) = self.entries.get(&id) {
            self.by_use.remove(&entry.used);
        }
    }

    /// A reply has ended. Returns the files that the caller must close.
    pub(crate) fn unpin(&mut self, id: PartId) -> Vec<F> {
        let Some(count) = self.pins.get_mut(&id) else {
            return Vec::new();
        };
        *count -= 1;
        if *count > 0 {
            return Vec::new();
        }
        self.pins.remove(&id);
        if let Some(entry) = self.entries.get(&id) {
            self.by_use.insert(entry.used, id);
        }
        self.shrink(0)
    }

    /// Returns the file if it is open.
    pub(crate) fn get(&mut self, id: PartId) -> Option<OpenFile<F>> {
        let entry = self.entries.get_mut(&id)?;
        self.uses += 1;
        if self.by_use.remove(&entry.used).is_some() {
            self.by_use.insert(self.uses, id);
        }
        entry.used = self.uses;
        Some(entry.file.clone())
    }

    /// Queues the open of a file that a reply will read, unless the file is open or queued.
    pub(crate) fn open_ahead(&mut self, id: PartId, source: &S) {
        if !self.entries.contains_key(&id) && !self.opening.contains_key(&id) {
            self.queue(id, source, None);
            self.ahead.push_back(id);
        }
    }

    /// Queues a read until its file is open.
    pub(crate) fn open_for(&mut self, id: PartId, source: &S, read: W) {
        match self.opening.get_mut(&id) {
            Some(_) if mutated!(WaiterForgotten) => {}
            Some(opening) => {
                opening.waiting.push(read);
                if !opening.is_started {
                    // Overtakes the files that no read waits for.
                    self.demanded.push_back(id);
                }
            }
            None => {
                self.queue(id, source, Some(read));
                self.demanded.push_back(id);
            }
        }
    }

    /// Reopens a file for buffered reads after a direct read was refused.
    pub(crate) fn open_buffered(&mut self, id: PartId, source: &S, read: W) -> Option<FileNotice> {
        let news = self.direct_refused();
        self.open_for(id, source, read);
        if let Some(opening) = self.opening.get_mut(&id) {
            opening.must_be_buffered = true;
        }
        news
    }

    fn queue(&mut self, id: PartId, source: &S, read: Option<W>) {
        let opening = PendingOpen {
            source: source.clone(),
            waiting: Vec::from_iter(read),
            is_started: false,
            is_direct: false,
            must_be_buffered: false,
            was_refused: false,
            is_retried: false,
        };
        self.opening.insert(id, opening);
    }

    /// Returns the next file to open now.
    pub(crate) fn next_open(&mut self) -> Option<OpenJob<S>> {
        while self.in_flight < OPENS_MAX {
            let id = self
                .demanded
                .pop_front()
                .or_else(|| self.ahead.pop_front())?;
            let opening = self.opening.get_mut(&id).filter(|of| !of.is_started);
            // The file was queued twice.
            let Some(opening) = opening else { continue };
            opening.is_started = true;
            opening.is_direct = self.is_direct && !opening.must_be_buffered && !opening.was_refused;
            self.in_flight += 1;
            return Some(OpenJob {
                id,
                source: opening.source.clone(),
                is_direct: opening.is_direct,
            });
        }
        None
    }

    /// An open has completed; `is_known`: the stream is still registered.
    pub(crate) fn ended(
        &mut self,
        id: PartId,
        opened: Result<OpenedFile<F>, IoFailure>,
        is_known: bool,
    ) -> OpenEnd<F, W> {
        let Some(mut opening) = self.opening.remove(&id) else {
            return OpenEnd::again(opened.ok());
        };
        self.in_flight -= 1;
        let is_again = match &opened {
            Ok(_) => opening.is_direct && opening.must_be_buffered,
            Err(IoFailure::Refused) => {
                opening.was_refused = opening.is_direct;
                opening.is_direct
            }
            Err(IoFailure::TooManyFiles) => !core::mem::replace(&mut opening.is_retried, true),
            Err(_) => false,
        };
        if is_again {
            opening.is_started = false;
            self.opening.insert(id, opening);
            self.demanded.push_front(id);
            let mut end = OpenEnd::again(opened.as_ref().ok().cloned());
            if matches!(opened, Err(IoFailure::TooManyFiles)) {
                // Only this process's own files can be closed: retry once with half of them.
                end.closed = self.close_half();
                end.news = Some(FileNotice::TooMany(end.closed.len()));
            }
            return end;
        }
        let is_refused = opened.is_ok() && opening.was_refused;
        let news = is_refused.then(|| self.direct_refused()).flatten();
        let is_direct = opening.is_direct;
        let (result, closed) = match opened {
            Ok(OpenedFile { file, is_current }) if is_current => {
                let file = OpenFile { file, is_direct };
                let is_kept = is_known.then(|| self.insert(id, file.clone()));
                (Ok(file), is_kept.unwrap_or_default())
            }
            Ok(OpenedFile { file, .. }) => (Err(IoFailure::Replaced), Vec::from([file])),
            Err(failure) => (Err(failure), Vec::new()),
        };
        OpenEnd {
            ended: Some((opening.waiting, result)),
            closed,
            news,
        }
    }

    fn direct_refused(&mut self) -> Option<FileNotice> {
        if !self.has_read_direct {
            let was_direct = core::mem::replace(&mut self.is_direct, false);
            return was_direct.then_some(FileNotice::DeviceBuffered);
        }
        let is_first = !core::mem::replace(&mut self.has_odd_file, true);
        is_first.then_some(FileNotice::FileBuffered)
    }

    fn close_half(&mut self) -> Vec<F> {
        let count = self.by_use.len().div_ceil(2);
        (0..count).filter_map(|_| self.remove_oldest()).collect()
    }

    /// Keeps a file open and returns the files to close in exchange.
    fn insert(&mut self, id: PartId, file: OpenFile<F>) -> Vec<F> {
        let mut closed = Vec::from_iter(self.remove(id));
        closed.extend(self.shrink(1));
        self.uses += 1;
        let used = self.uses;
        if !self.pins.contains_key(&id) {
            self.by_use.insert(used, id);
        }
        self.entries.insert(id, FileSlot { file, used });
        closed
    }

    /// Removes files without a running reply until there is room for `more`.
    fn shrink(&mut self, more: usize) -> Vec<F> {
        let over = (self.by_use.len() + more).saturating_sub(self.files_max);
        (0..over).filter_map(|_| self.remove_oldest()).collect()
    }

    fn remove_oldest(&mut self) -> Option<F> {
        let (_, id) = self.by_use.pop_first()?;
        self.entries.remove(&id).map(|entry| entry.file.file)
    }
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
