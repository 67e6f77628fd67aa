//! The open files of a device, the files being opened, and the reads that wait for them.
//!
//! A file is opened once, however many reads wait for it, and at most [`OPENS_MAX`] are being opened
//! at a time, those that a read waits for first. A file that a reply runs on stays open until the
//! reply has ended, so that the reply is finished from the version that it began with. Of the others
//! a bounded number is open; the least recently used is closed first.
//!
//! Files are opened for direct reads. Where the first such open or read is refused, the whole device
//! is read through the page cache; once a direct read has worked, a refusal concerns its file only.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use headlong_engine::StreamId;

use crate::io_failure::IoFailure;
use crate::open_job::{OpenJob, Opened, PartId};

/// Most files that are being opened at a time.
pub const OPENS_MAX: usize = 24;

/// An open file.
#[derive(Debug, Clone)]
pub(crate) struct OpenFile<F> {
    pub(crate) file: F,
    pub(crate) is_direct: bool,
}

#[derive(Debug)]
struct Entry<F> {
    file: OpenFile<F>,
    used: u64,
}

/// A file that is being opened, or is to be.
#[derive(Debug)]
struct Opening<S, W> {
    source: S,
    waiting: Vec<W>,
    is_started: bool,
    is_direct: bool,
    /// A direct read of it was refused while it was being opened again.
    must_be_buffered: bool,
    /// A direct open was refused.
    was_refused: bool,
    /// It was tried again with fewer open files.
    is_retried: bool,
}

/// The files of one device.
#[derive(Debug)]
pub(crate) struct Files<F, S, W> {
    files_max: usize,
    entries: BTreeMap<PartId, Entry<F>>,
    /// How many replies run on a file.
    pins: BTreeMap<PartId, u32>,
    /// Open files that no reply runs on, by when they were last used.
    by_use: BTreeMap<u64, PartId>,
    uses: u64,
    opening: BTreeMap<PartId, Opening<S, W>>,
    demanded: VecDeque<PartId>,
    ahead: VecDeque<PartId>,
    in_flight: usize,
    is_direct: bool,
    has_read_direct: bool,
    has_odd_file: bool,
}

/// Reads that waited for an open, and what came of it.
type Waited<F, W> = (Vec<W>, Result<OpenFile<F>, IoFailure>);

/// What follows from the end of an open.
#[derive(Debug)]
pub(crate) struct OpenEnd<F, W> {
    /// Reads that waited, and the file for them; `None`: it is opened once more.
    pub(crate) ended: Option<Waited<F, W>>,
    /// Files to be closed.
    pub(crate) closed: Vec<F>,
    pub(crate) news: Option<FileNews>,
}

/// What operators are to know of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileNews {
    DeviceBuffered,
    FileBuffered,
    TooMany(usize),
}

impl<F, W> OpenEnd<F, W> {
    /// Nothing waits for what was opened.
    fn again(opened: Option<Opened<F>>) -> Self {
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

    /// Whether the device is read with direct reads.
    pub(crate) fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Files that replies run on.
    pub(crate) fn pin_count(&self) -> usize {
        self.pins.len()
    }

    /// A direct read brought bytes.
    pub(crate) fn direct_read_worked(&mut self) {
        self.has_read_direct = true;
    }

    /// Takes out the files of a stream.
    pub(crate) fn forget(&mut self, stream: StreamId) -> Vec<F> {
        let id = |part| PartId { stream, part };
        let range = id(0)..=id(u32::MAX);
        let ids = self.entries.range(range).map(|(id, _)| *id);
        let ids: Vec<PartId> = ids.collect();
        ids.iter().filter_map(|id| self.remove(*id)).collect()
    }

    /// Takes out a file.
    pub(crate) fn remove(&mut self, id: PartId) -> Option<F> {
        let entry = self.entries.remove(&id)?;
        self.by_use.remove(&entry.used);
        Some(entry.file.file)
    }

    /// A reply runs on this file: now or once it is open, it stays open until [`Files::unpin`].
    pub(crate) fn pin(&mut self, id: PartId) {
        *self.pins.entry(id).or_insert(0) += 1;
        if let Some(entry) = self.entries.get(&id) {
            self.by_use.remove(&entry.used);
        }
    }

    /// A reply has ended. Answers which files are to be closed.
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

    /// The file if it is open.
    pub(crate) fn get(&mut self, id: PartId) -> Option<OpenFile<F>> {
        let entry = self.entries.get_mut(&id)?;
        self.uses += 1;
        if self.by_use.remove(&entry.used).is_some() {
            self.by_use.insert(self.uses, id);
        }
        entry.used = self.uses;
        Some(entry.file.clone())
    }

    /// Has a file opened that a reply runs on, unless it is open or about to be.
    pub(crate) fn open_ahead(&mut self, id: PartId, source: &S) {
        if !self.entries.contains_key(&id) && !self.opening.contains_key(&id) {
            self.queue(id, source, None);
            self.ahead.push_back(id);
        }
    }

    /// Has a file opened for a read, which waits for it.
    pub(crate) fn open_for(&mut self, id: PartId, source: &S, read: W) {
        match self.opening.get_mut(&id) {
            Some(_) if mutated!(WaiterForgotten) => {}
            Some(opening) => {
                opening.waiting.push(read);
                if !opening.is_started {
                    // It overtakes those that nothing waits for.
                    self.demanded.push_back(id);
                }
            }
            None => {
                self.queue(id, source, Some(read));
                self.demanded.push_back(id);
            }
        }
    }

    /// Has a file opened again, for buffered reads: a direct read was refused.
    pub(crate) fn open_buffered(&mut self, id: PartId, source: &S, read: W) -> Option<FileNews> {
        let news = self.direct_refused();
        self.open_for(id, source, read);
        if let Some(opening) = self.opening.get_mut(&id) {
            opening.must_be_buffered = true;
        }
        news
    }

    fn queue(&mut self, id: PartId, source: &S, read: Option<W>) {
        let opening = Opening {
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

    /// The next file to be opened now.
    pub(crate) fn next_open(&mut self) -> Option<OpenJob<S>> {
        while self.in_flight < OPENS_MAX {
            let id = self
                .demanded
                .pop_front()
                .or_else(|| self.ahead.pop_front())?;
            let opening = self.opening.get_mut(&id).filter(|of| !of.is_started);
            // It was queued twice.
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

    /// An open has ended; `is_known`: its stream is still registered.
    pub(crate) fn ended(
        &mut self,
        id: PartId,
        opened: Result<Opened<F>, IoFailure>,
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
                // Ours are the files that can be closed; one more try with half of them.
                end.closed = self.close_half();
                end.news = Some(FileNews::TooMany(end.closed.len()));
            }
            return end;
        }
        let is_refused = opened.is_ok() && opening.was_refused;
        let news = is_refused.then(|| self.direct_refused()).flatten();
        let is_direct = opening.is_direct;
        let (result, closed) = match opened {
            Ok(Opened { file, is_current }) if is_current => {
                let file = OpenFile { file, is_direct };
                let is_kept = is_known.then(|| self.insert(id, file.clone()));
                (Ok(file), is_kept.unwrap_or_default())
            }
            Ok(Opened { file, .. }) => (Err(IoFailure::Replaced), Vec::from([file])),
            Err(failure) => (Err(failure), Vec::new()),
        };
        OpenEnd {
            ended: Some((opening.waiting, result)),
            closed,
            news,
        }
    }

    fn direct_refused(&mut self) -> Option<FileNews> {
        if !self.has_read_direct {
            let was_direct = core::mem::replace(&mut self.is_direct, false);
            return was_direct.then_some(FileNews::DeviceBuffered);
        }
        let is_first = !core::mem::replace(&mut self.has_odd_file, true);
        is_first.then_some(FileNews::FileBuffered)
    }

    fn close_half(&mut self) -> Vec<F> {
        let count = self.by_use.len().div_ceil(2);
        (0..count).filter_map(|_| self.remove_oldest()).collect()
    }

    /// Keeps a file open and answers which are to be closed for it.
    fn insert(&mut self, id: PartId, file: OpenFile<F>) -> Vec<F> {
        let mut closed = Vec::from_iter(self.remove(id));
        closed.extend(self.shrink(1));
        self.uses += 1;
        let used = self.uses;
        if !self.pins.contains_key(&id) {
            self.by_use.insert(used, id);
        }
        self.entries.insert(id, Entry { file, used });
        closed
    }

    /// Takes out as many files that no reply runs on as leave room for `more`.
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
