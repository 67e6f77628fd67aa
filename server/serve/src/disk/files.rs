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

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headlong_engine::StreamId;
use rustix::fs::{Advice, fadvise};
use rustix::io::Errno;

use super::StreamSource;
use crate::thread_pool::ThreadPool;

/// Most threads that open, judge and, without io_uring, read the files of a device.
pub(crate) const THREADS_MAX: usize = 32;

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
type Key = (StreamId, u32);

#[derive(Default)]
struct Table {
    files_max: usize,
    streams: BTreeSet<StreamId>,
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
        self.lock().streams.insert(stream);
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
        let file = opened?;
        if !source.unchanged(key.1, &file) {
            return Err(Errno::STALE.into());
        }
        if !direct {
            // Advice only: without it, more is read than was asked for.
            let _ = fadvise(&file, 0, None, Advice::Random);
        }
        let file = OpenFile {
            file: Arc::new(file),
            direct,
        };
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

/// Whether an error is this one.
pub(crate) fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

impl Table {
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
mod tests {
    use super::*;
    use crate::disk::rig::{FileSource, Scratch};

    fn files(files_max: usize) -> Arc<Files> {
        let files = Files::new("test", files_max).expect("starts");
        files.remember(StreamId(1));
        files
    }

    #[test]
    fn the_least_recently_used_file_is_closed_first() {
        let scratch = Scratch::new();
        let source = FileSource::new(1, (0..3).map(|n| scratch.file(&n.to_string(), &[n])));
        let files = files(2);
        for part in [0, 1, 0, 2] {
            files.open(&source, StreamId(1), part).expect("opens");
        }
        assert!(files.cached(StreamId(1), 0).is_some());
        assert!(files.cached(StreamId(1), 1).is_none());
        assert!(files.cached(StreamId(1), 2).is_some());
    }

    #[test]
    fn a_file_that_a_reply_runs_on_stays_open_until_the_reply_has_ended() {
        let scratch = Scratch::new();
        let source = FileSource::new(1, (0..3).map(|n| scratch.file(&n.to_string(), &[n])));
        let files = files(1);
        files.pin(StreamId(1), 0);
        for part in 0..3 {
            files.open(&source, StreamId(1), part).expect("opens");
        }
        std::fs::remove_file(scratch.path().join("0")).expect("removed");
        assert!(files.cached(StreamId(1), 0).is_some());
        assert!(files.cached(StreamId(1), 1).is_none());
        files.unpin(StreamId(1), 0);
        files.open(&source, StreamId(1), 1).expect("opens");
        assert!(files.cached(StreamId(1), 0).is_none());
    }

    #[test]
    fn a_forgotten_stream_keeps_no_file_open() {
        let scratch = Scratch::new();
        let source = FileSource::new(1, [scratch.file("a", b"a")]);
        let files = files(8);
        let open = files.open(&source, StreamId(1), 0).expect("opens");
        files.forget(StreamId(1));
        assert!(files.cached(StreamId(1), 0).is_none());
        // A read that was opening it meanwhile gets its file, which nobody keeps.
        files.open(&source, StreamId(1), 0).expect("opens");
        assert!(files.cached(StreamId(1), 0).is_none());
        drop(open);
    }

    #[test]
    fn the_first_refusal_of_direct_reads_is_for_the_whole_device() {
        let scratch = Scratch::new();
        let source = FileSource::new(1, [scratch.file("a", b"a")]).refusing_direct();
        let files = files(8);
        assert!(files.is_direct());
        let open = files.open(&source, StreamId(1), 0).expect("opens");
        assert!(!open.direct && !files.is_direct());
    }

    #[test]
    fn a_later_refusal_of_direct_reads_is_for_one_file() {
        let scratch = Scratch::new();
        let source = FileSource::new(1, [scratch.file("a", b"a")]).refusing_direct();
        let files = files(8);
        files.direct_worked();
        let open = files.open(&source, StreamId(1), 0).expect("opens");
        assert!(!open.direct && files.is_direct());
    }

    /// Has descriptors for so many opens, and then none until some are closed.
    struct Scarce {
        files: FileSource,
        opens_left: std::sync::atomic::AtomicU32,
        refused: AtomicBool,
    }

    impl StreamSource for Scarce {
        fn spec(&self) -> headlong_engine::StreamSpec {
            self.files.spec()
        }

        fn open(&self, part: u32, direct: bool) -> io::Result<File> {
            let left = self.opens_left.load(Ordering::Relaxed);
            if left == 0 && !self.refused.swap(true, Ordering::Relaxed) {
                return Err(Errno::MFILE.into());
            }
            self.opens_left
                .store(left.saturating_sub(1), Ordering::Relaxed);
            self.files.open(part, direct)
        }

        fn unchanged(&self, part: u32, file: &File) -> bool {
            self.files.unchanged(part, file)
        }
    }

    #[test]
    fn half_of_the_files_are_closed_when_descriptors_run_out() {
        let scratch = Scratch::new();
        let paths = (0..5).map(|n| scratch.file(&n.to_string(), &[n]));
        let source = Scarce {
            files: FileSource::new(1, paths),
            opens_left: 4.into(),
            refused: AtomicBool::new(false),
        };
        let files = files(8);
        for part in 0..5 {
            files.open(&source, StreamId(1), part).expect("opens");
        }
        assert!(source.refused.load(Ordering::Relaxed));
        let open: Vec<u32> = (0..5)
            .filter(|part| files.cached(StreamId(1), *part).is_some())
            .collect();
        assert_eq!(
            open,
            [2, 3, 4],
            "the two that were used longest ago are closed"
        );
    }

    #[test]
    fn another_version_is_not_opened() {
        let scratch = Scratch::new();
        let path = scratch.file("a", b"old");
        let source = FileSource::new(1, [path.clone()]);
        std::fs::write(&path, b"another").expect("writes");
        let error = files(8).open(&source, StreamId(1), 0).expect_err("changed");
        assert!(is(&error, Errno::STALE), "{error}");
    }
}
