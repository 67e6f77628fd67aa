//! Reader threads: as many for a device as it may have outstanding reads.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use headlong_engine::{ReadId, ReadOutcome};
use rustix::fs::{Advice, fadvise};
use rustix::io::Errno;

use crate::file::OpenFile;
use crate::held_pages::{HeldPages, hold};

/// A byte range of a file.
#[derive(Debug, Clone)]
pub(crate) struct FileRange {
    pub(crate) open: Arc<OpenFile>,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// A job for the readers.
#[derive(Debug)]
pub(crate) enum ReadJob {
    /// Drops pages that the engine gave up, then reads a range and holds it.
    Read {
        id: ReadId,
        run: FileRange,
        given_up: Vec<FileRange>,
    },
    /// Reads a range for a waiting program without holding it.
    Plain { waiting: u64, run: FileRange },
}

/// A finished job.
#[derive(Debug)]
pub(crate) enum FinishedRead {
    /// A read, with the held pages of each of its pieces.
    Read(ReadId, ReadOutcome, Vec<HeldPages>),
    /// A range read for a waiting program, successfully or not.
    Plain { waiting: u64, bytes: u64 },
}

/// The threads of one device; they end when this is dropped.
#[derive(Debug)]
pub(crate) struct Readers {
    jobs: Sender<ReadJob>,
}

/// Read parameters of a device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadParameters {
    /// Unit of memory.
    pub(crate) piece_bytes: u64,
    /// Largest request of the device: the kernel reads no more ahead at a call.
    pub(crate) request_bytes: u64,
}

impl Readers {
    /// Starts the threads. Finished jobs go to `done`.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub(crate) fn start<F>(name: &str, count: u32, how: ReadParameters, done: F) -> io::Result<Self>
    where
        F: Fn(FinishedRead) + Clone + Send + 'static,
    {
        let (jobs, queue) = channel();
        let queue = Arc::new(Mutex::new(queue));
        for index in 0..count {
            let (queue, done) = (Arc::clone(&queue), done.clone());
            std::thread::Builder::new()
                .name(format!("read-{name}-{index}"))
                .spawn(move || work(&queue, how, done))?;
        }
        Ok(Self { jobs })
    }

    /// Queues a job.
    pub(crate) fn enqueue(&self, job: ReadJob) {
        // The threads end only after `self` is dropped.
        let _ = self.jobs.send(job);
    }
}

fn work(queue: &Mutex<Receiver<ReadJob>>, how: ReadParameters, done: impl Fn(FinishedRead)) {
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match job {
            Err(_) => return,
            Ok(ReadJob::Read { id, run, given_up }) => {
                given_up.iter().for_each(drop_pages);
                put(&run, how);
                let (outcome, held) = match wait_and_hold(&run, how) {
                    Ok(held) => (ReadOutcome::Done, held),
                    Err(outcome) => (outcome, Vec::new()),
                };
                done(FinishedRead::Read(id, outcome, held));
            }
            Ok(ReadJob::Plain { waiting, run }) => {
                put(&run, how);
                // The program's own read gets the error.
                let _ = wait_and_hold(&run, how);
                let bytes = run.length;
                done(FinishedRead::Plain { waiting, bytes });
            }
        }
    }
}

fn drop_pages(run: &FileRange) {
    // Pages that other processes map, lock or write stay.
    let length = std::num::NonZeroU64::new(run.length);
    if let Ok(file) = run.open.file() {
        let _ = fadvise(file, run.offset, length, Advice::DontNeed);
    }
}

/// Submits a range to the device, to be read into the page cache, without waiting.
fn put(run: &FileRange, how: ReadParameters) {
    let Ok(file) = run.open.file() else {
        return;
    };
    let (mut at, end) = (run.offset, run.offset + run.length);
    while at < end {
        let length = std::num::NonZeroU64::new(how.request_bytes.min(end - at));
        let is_put = |length: &_| fadvise(file, at, Some(*length), Advice::WillNeed).is_ok();
        let Some(length) = length.filter(is_put) else {
            return;
        };
        at += length.get();
    }
}

/// Waits for a submitted range and holds it.
fn wait_and_hold(run: &FileRange, how: ReadParameters) -> Result<Vec<HeldPages>, ReadOutcome> {
    // A chunk file that was deleted or replaced counts as a change.
    let file = run.open.file().map_err(|error| not_opened(&error))?;
    let held = match hold(file, run.offset, run.length, how.piece_bytes) {
        Ok(held) => held,
        // The process has too many mappings: read without holding.
        Err(Errno::NOMEM) => {
            touch(file, run).map_err(|_| failure(run, ReadOutcome::Error))?;
            Vec::new()
        }
        Err(Errno::MFILE | Errno::NFILE) => return Err(ReadOutcome::NoResources),
        Err(_) => return Err(failure(run, ReadOutcome::Error)),
    };
    match run.open.is_unchanged() {
        true => Ok(held),
        false => Err(ReadOutcome::Changed),
    }
}

fn not_opened(error: &io::Error) -> ReadOutcome {
    match Errno::from_io_error(error) {
        Some(Errno::MFILE | Errno::NFILE) => ReadOutcome::NoResources,
        Some(Errno::IO) => ReadOutcome::Error,
        _ => ReadOutcome::Changed,
    }
}

fn failure(run: &FileRange, otherwise: ReadOutcome) -> ReadOutcome {
    match run.open.is_unchanged() {
        true => otherwise,
        false => ReadOutcome::Changed,
    }
}

/// Waits for a range by reading it.
fn touch(file: &File, run: &FileRange) -> io::Result<()> {
    let mut buffer = vec![0; (256 << 10).min(run.length as usize)];
    let mut at = 0;
    while at < run.length {
        let length = (buffer.len() as u64).min(run.length - at) as usize;
        match file.read_at(&mut buffer[..length], run.offset + at)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            bytes => at += bytes as u64,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use super::*;
    use crate::file::version;

    const LENGTH: u64 = 3 << 20;

    /// A file whose pages are not in memory, if it has a device.
    fn open(file: &File) -> Arc<OpenFile> {
        file.write_all_at(&vec![7; LENGTH as usize], 0)
            .expect("written");
        file.sync_all().expect("synced");
        fadvise(file, 0, None, Advice::DontNeed).expect("dropped");
        let copy = || file.try_clone().expect("a copy");
        let version = version(&OwnedFd::from(copy())).expect("a file");
        Arc::new(OpenFile::passed(copy(), version))
    }

    fn read() -> Vec<FinishedRead> {
        let how = ReadParameters {
            piece_bytes: 128 << 10,
            request_bytes: 512 << 10,
        };
        let (done, what) = channel();
        let readers = Readers::start("test", 2, how, move |done_now| {
            let _ = done.send(done_now);
        });
        let file = tempfile::NamedTempFile::new().expect("a file");
        let run = FileRange {
            open: open(file.as_file()),
            offset: 0,
            length: LENGTH,
        };
        readers.expect("threads").enqueue(ReadJob::Read {
            id: ReadId(3),
            run,
            given_up: Vec::new(),
        });
        what.iter().collect()
    }

    #[test]
    fn read_is_held_whole() {
        let done = read();
        let [FinishedRead::Read(ReadId(3), ReadOutcome::Done, held)] = &done[..] else {
            panic!("{done:?}");
        };
        assert_eq!(held.len() as u64, LENGTH / (128 << 10));
    }
}
