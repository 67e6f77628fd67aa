//! The threads that read: as many for a device as reads may be outstanding.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use headlong_engine::{ReadId, ReadOutcome};
use rustix::fs::{Advice, fadvise};
use rustix::io::Errno;

use crate::file::Open;
use crate::hold::{Held, hold};

/// A run of bytes of a file.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) open: Arc<Open>,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// Something to do.
#[derive(Debug)]
pub(crate) enum Job {
    /// Pages that the engine gives up are dropped, then a run is read and held.
    Read {
        id: ReadId,
        run: Run,
        given_up: Vec<Run>,
    },
    /// A run is read for somebody who waits, and nobody holds it.
    Plain { waiting: u64, run: Run },
}

/// What was done.
#[derive(Debug)]
pub(crate) enum Done {
    /// A read, with the pages that are held for each of its pieces.
    Read(ReadId, ReadOutcome, Vec<Held>),
    /// What was read for somebody who waits, whatever came of it.
    Plain { waiting: u64, bytes: u64 },
}

/// The threads of one device; they end when this is dropped.
#[derive(Debug)]
pub(crate) struct Readers {
    jobs: Sender<Job>,
}

/// How a device is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct How {
    /// Unit of memory.
    pub(crate) piece_bytes: u64,
    /// Largest request that the device takes: the kernel reads no more ahead at a call.
    pub(crate) request_bytes: u64,
}

impl Readers {
    /// Starts them. What was done goes to `done`.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub(crate) fn start<F>(name: &str, count: u32, how: How, done: F) -> io::Result<Self>
    where
        F: Fn(Done) + Clone + Send + 'static,
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

    /// Gives them something to do.
    pub(crate) fn give(&self, job: Job) {
        // They end only after this does.
        let _ = self.jobs.send(job);
    }
}

fn work(queue: &Mutex<Receiver<Job>>, how: How, done: impl Fn(Done)) {
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match job {
            Err(_) => return,
            Ok(Job::Read { id, run, given_up }) => {
                given_up.iter().for_each(drop_pages);
                put(&run, how);
                let (outcome, held) = match wait_and_hold(&run, how) {
                    Ok(held) => (ReadOutcome::Done, held),
                    Err(outcome) => (outcome, Vec::new()),
                };
                done(Done::Read(id, outcome, held));
            }
            Ok(Job::Plain { waiting, run }) => {
                put(&run, how);
                // An error is the program's to see.
                let _ = wait_and_hold(&run, how);
                let bytes = run.length;
                done(Done::Plain { waiting, bytes });
            }
        }
    }
}

fn drop_pages(run: &Run) {
    // Pages that somebody else maps, locks or writes stay.
    let length = std::num::NonZeroU64::new(run.length);
    if let Ok(file) = run.open.file() {
        let _ = fadvise(file, run.offset, length, Advice::DontNeed);
    }
}

/// Puts a run to the device, to be read into the page cache, and waits for nothing.
fn put(run: &Run, how: How) {
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

/// Waits for a run that was put to the device, and holds it.
fn wait_and_hold(run: &Run, how: How) -> Result<Vec<Held>, ReadOutcome> {
    // A chunk that has gone, or is another by now, is a change of the run.
    let file = run.open.file().map_err(|error| not_opened(&error))?;
    let held = match hold(file, run.offset, run.length, how.piece_bytes) {
        Ok(held) => held,
        // More mappings than a process may have: then nothing is held.
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

fn failure(run: &Run, otherwise: ReadOutcome) -> ReadOutcome {
    match run.open.is_unchanged() {
        true => otherwise,
        false => ReadOutcome::Changed,
    }
}

/// Waits for a run by reading it.
fn touch(file: &File, run: &Run) -> io::Result<()> {
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

    /// A file whose pages are on its device only, if it has one.
    fn open(file: &File) -> Arc<Open> {
        file.write_all_at(&vec![7; LENGTH as usize], 0)
            .expect("written");
        file.sync_all().expect("synced");
        fadvise(file, 0, None, Advice::DontNeed).expect("dropped");
        let copy = || file.try_clone().expect("a copy");
        let version = version(&OwnedFd::from(copy())).expect("a file");
        Arc::new(Open::passed(copy(), version))
    }

    fn read() -> Vec<Done> {
        let how = How {
            piece_bytes: 128 << 10,
            request_bytes: 512 << 10,
        };
        let (done, what) = channel();
        let readers = Readers::start("test", 2, how, move |done_now| {
            let _ = done.send(done_now);
        });
        let file = tempfile::NamedTempFile::new().expect("a file");
        let run = Run {
            open: open(file.as_file()),
            offset: 0,
            length: LENGTH,
        };
        readers.expect("threads").give(Job::Read {
            id: ReadId(3),
            run,
            given_up: Vec::new(),
        });
        what.iter().collect()
    }

    #[test]
    fn read_is_held_whole() {
        let done = read();
        let [Done::Read(ReadId(3), ReadOutcome::Done, held)] = &done[..] else {
            panic!("{done:?}");
        };
        assert_eq!(held.len() as u64, LENGTH / (128 << 10));
    }
}
