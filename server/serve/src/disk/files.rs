//! The open files of one device, and whether they are read past the page cache.
//!
//! Reads bypass the page cache (`O_DIRECT`) where the file system lets them. Where it does not,
//! the first refusal makes the whole device buffered; once a direct read has worked, a refusal
//! concerns its file only. Buffered files are opened without kernel read-ahead.
//!
//! A file that a reply is running on stays open until the reply has ended, so that the reply is
//! finished from the version that it began with, whatever becomes of the name. Of the others at most
//! so many are open; the least recently used is closed first. The table never opens or closes
//! anything under its lock, and closing is left to threads, because both may block.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headlong_engine::StreamId;
use rustix::fs::{Advice, OFlags, fadvise, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use super::StreamSource;
use crate::thread_pool::ThreadPool;

/// Most threads that open, judge and, without io_uring, read the files of a device.
pub(crate) const THREADS_MAX: usize = 32;

/// Most files that were opened to describe a stream and wait for it to be registered.
const OFFERED_MAX: usize = 32;

/// One open file.
#[derive(Debug, Clone)]
pub(crate) struct OpenFile {
    pub(crate) file: Arc<File>,
    /// Whether it is read with `O_DIRECT`.
    pub(crate) direct: bool,
}

/// The open files of one device.
pub(crate) struct Files {
    device: String,
    threads: ThreadPool,
    table: Mutex<Table>,
    direct: AtomicBool,
    direct_worked: AtomicBool,
    odd_file_logged: AtomicBool,
}

/// A part of a stream.
pub(crate) type Key = (StreamId, u32);

#[derive(Default)]
struct Table {
    files_max: usize,
    streams: BTreeSet<StreamId>,
    /// Files of streams that are not registered yet, the oldest first.
    offered: VecDeque<(Key, OpenFile)>,
    entries: BTreeMap<Key, Entry>,
    /// How many replies run on a file.
    pins: BTreeMap<Key, u32>,
    /// Files that somebody is opening.
    opening: BTreeSet<Key>,
    /// Files that no reply runs on, by when they were last used.
    by_use: BTreeMap<u64, Key>,
    uses: u64,
}

struct Entry {
    file: OpenFile,
    used: u64,
}

impl Files {
    pub(crate) fn new(device: &str, files_max: usize) -> io::Result<Arc<Self>> {
        let threads = ThreadPool::new(&format!("io-{device}"), THREADS_MAX, 0)?;
        let table = Table {
            files_max: files_max.max(1),
            ..Table::default()
        };
        Ok(Arc::new(Self {
            device: device.to_owned(),
            threads,
            table: Mutex::new(table),
            direct: AtomicBool::new(true),
            direct_worked: AtomicBool::new(false),
            odd_file_logged: AtomicBool::new(false),
        }))
    }

    /// Name of the device, for logs.
    pub(crate) fn device(&self) -> &str {
        &self.device
    }

    /// Threads that may block.
    pub(crate) fn threads(&self) -> &ThreadPool {
        &self.threads
    }

    /// Whether the device is read with `O_DIRECT`.
    pub(crate) fn is_direct(&self) -> bool {
        self.direct.load(Ordering::Relaxed)
    }

    /// Files of this stream may stay open from now on.
    pub(crate) fn remember(&self, stream: StreamId) {
        let mut table = self.lock();
        table.streams.insert(stream);
        let offered = table.take_offered(stream);
        let closed: Vec<_> = offered
            .into_iter()
            .flat_map(|(key, file)| table.insert(key, file))
            .collect();
        drop(table);
        self.close(closed);
    }

    /// A file was opened to describe its stream: what is read of it is read there, if the stream is
    /// registered soon. May block.
    pub(crate) fn offer(&self, source: &dyn StreamSource, key: Key, file: File) {
        let mut direct = self.is_direct();
        if direct && let Err(error) = make_direct(source, &file) {
            if !is(&error, Errno::INVAL) {
                return;
            }
            direct = false;
            self.direct_refused("open");
        }
        let file = match checked(source, key.1, file, direct) {
            Ok(file) => file,
            // Whoever reads it meets the error.
            Err(_) => return,
        };
        let mut table = self.lock();
        let closed = match table.streams.contains(&key.0) {
            true => table.insert(key, file),
            false => {
                table.offered.push_back((key, file));
                let over = table.offered.len().saturating_sub(OFFERED_MAX);
                table.offered.drain(..over).map(|(_, file)| file).collect()
            }
        };
        drop(table);
        drop(closed);
    }

    /// The stream was not registered: its files are closed.
    pub(crate) fn withdraw(&self, stream: StreamId) {
        let offered = self.lock().take_offered(stream);
        self.close(offered.into_iter().map(|(_, file)| file).collect());
    }

    /// Closes the files of a stream, those being read as soon as they are not.
    pub(crate) fn forget(&self, stream: StreamId) {
        let mut table = self.lock();
        table.streams.remove(&stream);
        let range = (stream, 0)..=(stream, u32::MAX);
        let keys: Vec<Key> = table.entries.range(range).map(|(key, _)| *key).collect();
        let closed: Vec<_> = keys.iter().filter_map(|key| table.remove(key)).collect();
        drop(table);
        self.close(closed);
    }

    /// Closes the file of a part that went, so that its space is free.
    pub(crate) fn close_part(&self, stream: StreamId, part: u32) {
        let closed = self.lock().remove(&(stream, part));
        self.close(Vec::from_iter(closed));
    }

    /// A reply runs on this part: its file, now or once it is open, stays open until
    /// [`Files::unpin`].
    pub(crate) fn pin(&self, stream: StreamId, part: u32) {
        let mut table = self.lock();
        let key = (stream, part);
        *table.pins.entry(key).or_insert(0) += 1;
        let used = table.entries.get(&key).map(|entry| entry.used);
        if let Some(used) = used {
            table.by_use.remove(&used);
        }
    }

    /// A reply has ended.
    pub(crate) fn unpin(&self, stream: StreamId, part: u32) {
        let mut table = self.lock();
        let key = (stream, part);
        let Some(count) = table.pins.get_mut(&key) else {
            return;
        };
        *count -= 1;
        if *count > 0 {
            return;
        }
        table.pins.remove(&key);
        let used = table.entries.get(&key).map(|entry| entry.used);
        if let Some(used) = used {
            table.by_use.insert(used, key);
        }
        let closed = table.shrink(0);
        drop(table);
        self.close(closed);
    }

    /// Opens a file that a reply runs on, unless it is open or about to be. Does not block.
    pub(crate) fn open_ahead(
        self: &Arc<Self>,
        source: &Arc<dyn StreamSource>,
        stream: StreamId,
        part: u32,
    ) {
        let key = (stream, part);
        let mut table = self.lock();
        if table.entries.contains_key(&key) || !table.opening.insert(key) {
            return;
        }
        drop(table);
        let (files, source) = (Arc::clone(self), Arc::clone(source));
        self.threads.run(move || {
            // Whoever reads it meets the error.
            let _ = files.open(&*source, stream, part);
            files.opened(stream, part);
        });
    }

    /// Somebody is about to open the file of a part for a read.
    pub(crate) fn note_opening(&self, stream: StreamId, part: u32) {
        self.lock().opening.insert((stream, part));
    }

    /// Nobody is opening it any more.
    pub(crate) fn opened(&self, stream: StreamId, part: u32) {
        self.lock().opening.remove(&(stream, part));
    }

    /// The file of a part if it is open. Does not block.
    pub(crate) fn cached(&self, stream: StreamId, part: u32) -> Option<OpenFile> {
        self.lock().touch(&(stream, part))
    }

    /// The file of a part, opened if it is not. May block.
    pub(crate) fn open(
        &self,
        source: &dyn StreamSource,
        stream: StreamId,
        part: u32,
    ) -> io::Result<OpenFile> {
        match self.cached(stream, part) {
            Some(file) => Ok(file),
            None => self.open_anew(source, (stream, part), self.is_direct()),
        }
    }

    /// The file of a part again, for buffered reads: `O_DIRECT` was refused when it was read.
    /// May block.
    pub(crate) fn open_buffered(
        &self,
        source: &dyn StreamSource,
        stream: StreamId,
        part: u32,
    ) -> io::Result<OpenFile> {
        self.direct_refused("read");
        self.open_anew(source, (stream, part), false)
    }

    /// A read with `O_DIRECT` returned bytes.
    pub(crate) fn direct_worked(&self) {
        self.direct_worked.store(true, Ordering::Relaxed);
    }

    fn open_anew(
        &self,
        source: &dyn StreamSource,
        key: Key,
        mut direct: bool,
    ) -> io::Result<OpenFile> {
        let mut opened = source.open(key.1, direct);
        if direct && matches!(&opened, Err(error) if is(error, Errno::INVAL)) {
            direct = false;
            opened = source.open(key.1, direct);
            if opened.is_ok() {
                self.direct_refused("open");
            }
        }
        if matches!(&opened, Err(error) if is(error, Errno::MFILE) || is(error, Errno::NFILE)) {
            // Ours are the files that can be closed; one more try with half of them.
            self.close_half();
            opened = source.open(key.1, direct);
        }
        let file = checked(source, key.1, opened?, direct)?;
        let closed = self.lock().insert(key, file.clone());
        // This may block already.
        drop(closed);
        Ok(file)
    }

    fn direct_refused(&self, place: &str) {
        let device = &self.device;
        if !self.direct_worked.load(Ordering::Relaxed) {
            if self.direct.swap(false, Ordering::Relaxed) {
                tracing::warn!(
                    device,
                    "O_DIRECT refused at {place} (EINVAL): the device is read through the page cache"
                );
            }
        } else if !self.odd_file_logged.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                device,
                "O_DIRECT refused at {place} (EINVAL) for some file: such files are read through \
                 the page cache"
            );
        }
    }

    fn close_half(&self) {
        let mut table = self.lock();
        let count = table.by_use.len().div_ceil(2);
        let closed: Vec<_> = (0..count).filter_map(|_| table.remove_oldest()).collect();
        drop(table);
        tracing::warn!(
            device = self.device,
            closed = closed.len(),
            "too many open files: raise LimitNOFILE (ulimit -n) or lower the device's open files"
        );
    }

    fn close(&self, files: Vec<OpenFile>) {
        if !files.is_empty() {
            self.threads.run(move || drop(files));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // Nothing under the lock panics half-way through a change.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has a file that is open read with `O_DIRECT`.
fn make_direct(source: &dyn StreamSource, file: &File) -> io::Result<()> {
    if !source.allows_direct() {
        return Err(Errno::INVAL.into());
    }
    let flags = fcntl_getfl(file)?;
    Ok(fcntl_setfl(file, flags | OFlags::DIRECT)?)
}

/// A file as it is read, if it is the version that is meant.
fn checked(source: &dyn StreamSource, part: u32, file: File, direct: bool) -> io::Result<OpenFile> {
    if !source.unchanged(part, &file) {
        return Err(Errno::STALE.into());
    }
    if !direct {
        // Advice only: without it, more is read than was asked for.
        let _ = fadvise(&file, 0, None, Advice::Random);
    }
    Ok(OpenFile {
        file: Arc::new(file),
        direct,
    })
}

/// Whether an error is this one.
pub(crate) fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

impl Table {
    fn take_offered(&mut self, stream: StreamId) -> Vec<(Key, OpenFile)> {
        let all = std::mem::take(&mut self.offered);
        let (taken, left): (Vec<_>, Vec<_>) = all.into_iter().partition(|(key, _)| key.0 == stream);
        self.offered = left.into();
        taken
    }

    fn touch(&mut self, key: &Key) -> Option<OpenFile> {
        let entry = self.entries.get_mut(key)?;
        self.uses += 1;
        if self.by_use.remove(&entry.used).is_some() {
            self.by_use.insert(self.uses, *key);
        }
        entry.used = self.uses;
        Some(entry.file.clone())
    }

    /// Keeps a file open and returns those that are to be closed for it.
    fn insert(&mut self, key: Key, file: OpenFile) -> Vec<OpenFile> {
        if !self.streams.contains(&key.0) {
            return Vec::new();
        }
        let mut closed = Vec::from_iter(self.remove(&key));
        closed.extend(self.shrink(1));
        self.uses += 1;
        let used = self.uses;
        if !self.pins.contains_key(&key) {
            self.by_use.insert(used, key);
        }
        self.entries.insert(key, Entry { file, used });
        closed
    }

    /// Takes out as many files that no reply runs on as leave room for `more`.
    fn shrink(&mut self, more: usize) -> Vec<OpenFile> {
        let over = (self.by_use.len() + more).saturating_sub(self.files_max);
        (0..over).filter_map(|_| self.remove_oldest()).collect()
    }

    fn remove(&mut self, key: &Key) -> Option<OpenFile> {
        let entry = self.entries.remove(key)?;
        self.by_use.remove(&entry.used);
        Some(entry.file)
    }

    fn remove_oldest(&mut self) -> Option<OpenFile> {
        let (_, key) = self.by_use.pop_first()?;
        self.entries.remove(&key).map(|entry| entry.file)
    }
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
