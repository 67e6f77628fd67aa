//! Disk reads: leases memory, opens the file and looks up its location if necessary, and passes the
//! read to the host.

use alloc::vec::Vec;

use headlong_engine::{Extent, ReadCommand, ReadOutcome};
use headlong_units::Instant;

use crate::device_core::DeviceCore;
use crate::files::{FileNotice, OpenFile};
use crate::host::{Host, LookupProgress, Notice, OpenProgress};
use crate::io_failure::IoFailure;
use crate::open_job::{LookupJob, OpenedFile, PartId};
use crate::read::{FileRead, ReadCompletion, WaitingRead};
use crate::read_job::ReadJob;
use crate::resources::Resources;

impl<R: Resources> DeviceCore<R> {
    pub(crate) fn read(&mut self, now: Instant, host: &mut impl Host<R>, command: ReadCommand) {
        let mut command = command;
        if mutated!(SlotsReversed) {
            command.slots.reverse();
        }
        let ReadCommand { id, stream, .. } = command;
        let memory = host.lease(Some(stream), &command.slots, command.length);
        let source = self.sources.get(&stream).cloned();
        let (Some(memory), Some(source)) = (memory, source) else {
            host.announce(Notice::ImpossibleRead(id, stream));
            self.ended_reads.push((id, ReadOutcome::Error));
            return;
        };
        let job = ReadJob::new(&command);
        let read = WaitingRead {
            memory,
            job,
            source,
        };
        self.begin(now, host, read);
        self.start_opens(now, host);
    }

    fn begin(
        &mut self,
        now: Instant,
        host: &mut impl Host<R>,
        read: WaitingRead<R::Memory, R::Source>,
    ) {
        let id = read.job.file;
        match self.files.get(id) {
            Some(file) => self.begin_open(now, host, read, file),
            None => {
                let source = read.source.clone();
                self.files.open_for(id, &source, read);
            }
        }
    }

    /// Begins a read of an open file.
    fn begin_open(
        &mut self,
        now: Instant,
        host: &mut impl Host<R>,
        read: WaitingRead<R::Memory, R::Source>,
        file: OpenFile<R::File>,
    ) {
        let (id, source) = (read.job.file, read.source.clone());
        if self.locations.is_known(id) {
            return launch(host, read, file);
        }
        if self.locations.wait(id, read, file.clone()) {
            self.look_up(now, host, id, source, file.file);
            self.look_up_candidates(now, host);
        }
    }

    /// Looks up files of replies that have read nothing yet.
    fn look_up_candidates(&mut self, now: Instant, host: &mut impl Host<R>) {
        while let Some(id) = self.locations.next_companion() {
            match (self.files.get(id), self.sources.get(&id.stream).cloned()) {
                (Some(file), Some(source)) => self.look_up(now, host, id, source, file.file),
                _ => drop(self.locations.ended(id, false)),
            }
        }
    }

    fn look_up(
        &mut self,
        now: Instant,
        host: &mut impl Host<R>,
        id: PartId,
        source: R::Source,
        file: R::File,
    ) {
        let job = LookupJob { id, source, file };
        if let LookupProgress::Ended(extents) = host.look_up(job) {
            self.located(now, host, id, extents);
        }
    }

    fn located(
        &mut self,
        now: Instant,
        host: &mut impl Host<R>,
        id: PartId,
        extents: Option<Vec<Extent>>,
    ) {
        let is_known = self.sources.contains_key(&id.stream);
        let waiting = self.locations.ended(id, is_known);
        if let Some(extents) = extents {
            self.shard.handle_location(now, id.stream, id.part, extents);
        }
        for (read, file) in waiting {
            launch(host, read, file);
        }
    }

    /// The location of a file was looked up; `None` if it is unknown or unchanged.
    pub fn handle_location(
        &mut self,
        now: Instant,
        host: &mut impl Host<R>,
        id: PartId,
        extents: Option<Vec<Extent>>,
    ) {
        self.located(now, host, id, extents);
        self.drain_queues(now, host);
    }

    /// Starts queued opens up to the limit of opens in flight.
    pub(crate) fn start_opens(&mut self, now: Instant, host: &mut impl Host<R>) {
        while let Some(job) = self.files.next_open() {
            let id = job.id;
            if let OpenProgress::Ended(opened) = host.open(job) {
                self.open_ended(now, host, id, opened);
            }
        }
    }

    fn open_ended(
        &mut self,
        now: Instant,
        host: &mut impl Host<R>,
        id: PartId,
        opened: Result<OpenedFile<R::File>, IoFailure>,
    ) {
        let is_known = self.sources.contains_key(&id.stream);
        let end = self.files.ended(id, opened, is_known);
        announce(host, end.news);
        close(host, end.closed);
        let Some((waiting, result)) = end.ended else {
            return;
        };
        for read in waiting {
            match &result {
                Ok(file) => self.begin_open(now, host, read, file.clone()),
                Err(failure) => self.ended_reads.push((read.job.id, failure.outcome())),
            }
        }
    }

    /// An open has completed.
    pub fn handle_opened(
        &mut self,
        now: Instant,
        host: &mut impl Host<R>,
        id: PartId,
        opened: Result<OpenedFile<R::File>, IoFailure>,
    ) {
        self.open_ended(now, host, id, opened);
        self.start_opens(now, host);
        self.drain_queues(now, host);
    }

    /// A read has completed.
    pub fn handle_read_ended(
        &mut self,
        now: Instant,
        host: &mut impl Host<R>,
        completion: ReadCompletion,
    ) {
        if completion.has_read_direct {
            self.files.direct_read_worked();
        }
        let ReadCompletion { id, outcome, .. } = completion;
        self.shard.handle_read_done(now, id, outcome);
        self.drain_queues(now, host);
    }

    /// A direct read was refused: the read is restarted once its file is open for buffered reads.
    pub fn handle_refused(&mut self, now: Instant, host: &mut impl Host<R>, read: FileRead<R>) {
        let FileRead {
            memory,
            job,
            source,
            ..
        } = read;
        let id = job.file;
        let read = WaitingRead {
            memory,
            job,
            source,
        };
        // Another refused read may have reopened the file already.
        match self.files.get(id).filter(|file| !file.is_direct) {
            Some(file) => launch(host, read, file),
            None => {
                let source = read.source.clone();
                let news = self.files.open_buffered(id, &source, read);
                announce(host, news);
                self.start_opens(now, host);
            }
        }
        self.drain_queues(now, host);
    }
}

fn launch<R: Resources>(
    host: &mut impl Host<R>,
    read: WaitingRead<R::Memory, R::Source>,
    file: OpenFile<R::File>,
) {
    let mut job = read.job;
    job.begin(file.is_direct);
    host.read(FileRead {
        memory: read.memory,
        job,
        file: file.file,
        source: read.source,
    });
}

fn announce<R: Resources>(host: &mut impl Host<R>, news: Option<FileNotice>) {
    match news {
        None => {}
        Some(FileNotice::DeviceBuffered) => host.announce(Notice::DeviceBuffered),
        Some(FileNotice::FileBuffered) => host.announce(Notice::FileBuffered),
        Some(FileNotice::TooMany(closed)) => host.announce(Notice::TooManyFiles(closed)),
    }
}

pub(crate) fn close<R: Resources>(host: &mut impl Host<R>, files: Vec<R::File>) {
    if !files.is_empty() {
        host.close(files);
    }
}
