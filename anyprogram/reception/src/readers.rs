//! The threads that read: as many for a device as reads may be outstanding.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use headlong_engine::{ReadId, ReadOutcome};
use rustix::fs::{Advice, fadvise};
use rustix::io::Errno;

use crate::file::{Version, is_unchanged};
use crate::hold::{Held, hold};

/// An open file and its version.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) file: File,
    pub(crate) version: Version,
}

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
                let (outcome, held) = match read(&run, how) {
                    Ok(held) => (ReadOutcome::Done, held),
                    Err(outcome) => (outcome, Vec::new()),
                };
                done(Done::Read(id, outcome, held));
            }
            Ok(Job::Plain { waiting, run }) => {
                // An error is the program's to see.
                let _ = read(&run, how);
                let bytes = run.length;
                done(Done::Plain { waiting, bytes });
            }
        }
    }
}

fn drop_pages(run: &Run) {
    // Pages that somebody else maps, locks or writes stay.
    let length = std::num::NonZeroU64::new(run.length);
    let _ = fadvise(&run.open.file, run.offset, length, Advice::DontNeed);
}

/// Reads a run into the page cache and holds it: first everything is put to the device, then waited
/// for.
fn read(run: &Run, how: How) -> Result<Vec<Held>, ReadOutcome> {
    let (file, end) = (&run.open.file, run.offset + run.length);
    let mut at = run.offset;
    while at < end {
        let length = std::num::NonZeroU64::new(how.request_bytes.min(end - at));
        let Some(length) = length.filter(|_| fadvise(file, at, length, Advice::WillNeed).is_ok())
        else {
            break;
        };
        at += length.get();
    }
    let held = match hold(file, run.offset, run.length, how.piece_bytes) {
        Ok(held) => held,
        // More mappings than a process may have: then nothing is held.
        Err(Errno::NOMEM) => {
            touch(run).map_err(|_| failure(run, ReadOutcome::Error))?;
            Vec::new()
        }
        Err(Errno::MFILE | Errno::NFILE) => return Err(ReadOutcome::NoResources),
        Err(_) => return Err(failure(run, ReadOutcome::Error)),
    };
    match is_unchanged(file, &run.open.version) {
        true => Ok(held),
        false => Err(ReadOutcome::Changed),
    }
}

fn failure(run: &Run, otherwise: ReadOutcome) -> ReadOutcome {
    match is_unchanged(&run.open.file, &run.open.version) {
        true => otherwise,
        false => ReadOutcome::Changed,
    }
}

/// Waits for a run by reading it.
fn touch(run: &Run) -> io::Result<()> {
    let mut buffer = vec![0; (256 << 10).min(run.length as usize)];
    let mut at = 0;
    while at < run.length {
        let length = (buffer.len() as u64).min(run.length - at) as usize;
        match run
            .open
            .file
            .read_at(&mut buffer[..length], run.offset + at)?
        {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            bytes => at += bytes as u64,
        }
    }
    Ok(())
}
