//! Reading by io_uring: the ring reads, the thread pool judges.
//!
//! The device's thread never waits for a file: one that hangs holds its own memory and nothing else.
//! A long read is put to the drive in parts where the engine says how ([`PartedRead`]).

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use headlong_device::{PartEnd, PartedRead, ReadEnd, Span};
use headlong_engine::ReadId;

use super::completion::Completion;
use super::io::{DiskIo, IoMode, Parts};
use super::mailbox::{Mailbox, Waker};
use super::opener::Opener;
use super::transfer::{Rest, Step, Transfer, failure_of};
use crate::raw::{Ended, Ring, Target};

/// What a call of the ring belongs to.
enum Call {
    /// A read by itself.
    Whole(Rest),
    /// A part of the read of this number.
    Part { read: u64, span: Span },
}

/// Reads through io_uring.
pub(crate) struct UringIo {
    ring: Ring<Call>,
    parted_reads: BTreeMap<u64, (Transfer, PartedRead)>,
    next_read: u64,
    opener: Arc<Opener>,
    waker: Arc<Waker>,
    completions: Arc<Mailbox<Completion>>,
    // Scratch for what is taken out of the ring and the mailbox.
    ended_calls: Vec<Ended<Call>>,
    ended_reads: Vec<Completion>,
    begun_reads: Vec<ReadId>,
}

impl UringIo {
    /// Sets up the ring; the error is why the kernel refuses.
    pub(crate) fn new(reads: u32, parts: &Parts) -> io::Result<Self> {
        Ok(Self {
            ring: Ring::new(reads, Arc::clone(parts.waker.event().descriptor()))?,
            parted_reads: BTreeMap::new(),
            next_read: 0,
            opener: Arc::clone(&parts.opener),
            waker: Arc::clone(&parts.waker),
            completions: Arc::clone(&parts.completions),
            ended_calls: Vec::new(),
            ended_reads: Vec::new(),
            begun_reads: Vec::new(),
        })
    }

    fn read_whole(&mut self, transfer: Transfer) {
        let span = transfer.rest.job.span();
        let call = Call::Whole(transfer.rest);
        self.ring.read(transfer.target, span, call);
    }

    fn read_in_parts(&mut self, transfer: Transfer, spans: [Span; 3]) {
        let read = self.next_read;
        self.next_read += 1;
        let target = transfer.target.clone();
        let (parts, [lead, follower]) = PartedRead::start(spans);
        self.parted_reads.insert(read, (transfer, parts));
        self.read_part(read, target.clone(), lead);
        self.ring.send();
        self.read_part(read, target, follower);
    }

    fn read_part(&mut self, read: u64, target: Target, span: Span) {
        self.ring.read(target, span, Call::Part { read, span });
    }

    /// Takes in how a part ended.
    fn part_ended(&mut self, ended: Ended<()>, read: u64, span: Span) {
        let Some((transfer, parts)) = self.parted_reads.get_mut(&read) else {
            return;
        };
        let result = ended.result.map_err(|error| failure_of(&error));
        let PartEnd {
            has_begun,
            next,
            whole,
        } = parts.ended(&transfer.rest.job, span, result);
        if has_begun {
            self.begun_reads.push(transfer.id());
        }
        for span in next {
            self.read_part(read, ended.target.clone(), span);
        }
        drop(ended.target);
        let Some(whole) = whole else { return };
        if let Some((transfer, _)) = self.parted_reads.remove(&read) {
            match whole {
                Some(bytes) => self.advance(transfer, Ok(bytes)),
                None => self.read_whole(transfer),
            }
        }
    }

    fn wait_for_ring(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let timeout = match self.waker.begin_sleep() {
            true => timeout,
            false => Some(Duration::ZERO),
        };
        let mut ended_calls = std::mem::take(&mut self.ended_calls);
        let woken = self.ring.wait(timeout, &mut ended_calls);
        self.waker.end_sleep();
        if woken? {
            self.waker.clear();
        }
        for ended in ended_calls.drain(..) {
            self.take_in(ended);
        }
        self.ended_calls = ended_calls;
        Ok(())
    }

    fn take_in(&mut self, ended: Ended<Call>) {
        let Ended {
            target,
            rest: call,
            result,
        } = ended;
        match call {
            Call::Whole(rest) => self.advance(Transfer { target, rest }, result),
            Call::Part { read, span } => {
                let rest = ();
                let ended = Ended {
                    target,
                    rest,
                    result,
                };
                self.part_ended(ended, read, span);
            }
        }
    }

    fn advance(&mut self, mut transfer: Transfer, result: io::Result<u64>) {
        match transfer.advance(result) {
            Step::Again => self.read_whole(transfer),
            Step::Refused => transfer.refused(),
            Step::End(end, error) => self.end(transfer, end, error),
        }
    }

    fn end(&self, transfer: Transfer, end: ReadEnd, error: Option<io::Error>) {
        let opener = Arc::clone(&self.opener);
        let threads = self.opener.threads();
        threads.run(move || transfer.end(end, error, &opener));
    }
}

impl DiskIo for UringIo {
    fn submit(&mut self, read: Transfer) {
        match read.rest.job.parts() {
            Some(spans) => self.read_in_parts(read, spans),
            None => self.read_whole(read),
        }
    }

    fn wait(
        &mut self,
        timeout: Option<Duration>,
        completions: &mut Vec<Completion>,
    ) -> io::Result<()> {
        // A thread that sleeps in the ring counts as waiting for disks, so it does not when there
        // is nothing to wait for there.
        match self.ring.is_idle() {
            true => self.waker.sleep(timeout)?,
            false => self.wait_for_ring(timeout)?,
        }
        self.completions.take(&mut self.ended_reads);
        completions.append(&mut self.ended_reads);
        Ok(())
    }

    fn take_begun(&mut self, begun: &mut Vec<ReadId>) {
        begun.append(&mut self.begun_reads);
    }

    fn mode(&self) -> IoMode {
        IoMode::IoUring
    }
}
