//! Reading by io_uring: the ring reads, the thread pool opens and judges.
//!
//! A read whose file is open goes straight into the ring. The device's thread never waits for a
//! file: one that hangs holds its own memory and nothing else.
//!
//! A long read is put to the drive in parts where the engine says how ([`Opening`]). If anything is
//! odd with a part, the read is done again as a whole: there is one place that judges errors.
//!
//! [`Opening`]: headlong_engine::Opening

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use headlong_engine::ReadId;

use super::files::Files;
use super::io::{DiskIo, IoMode, Parts};
use super::mailbox::{Mailbox, Waker};
use super::transfer::{Completion, Next, Read, Rest, Transfer};
use crate::raw::{Ended, Ring, Span, Target};

/// What a call of the ring belongs to.
enum Call {
    /// A read by itself.
    Whole(Rest),
    /// A part of the opened read of this number.
    Part { read: u64, span: Span },
}

/// A read put to the drive in parts.
struct Opened {
    transfer: Transfer,
    under_way: u32,
    /// Whether something has come.
    is_begun: bool,
    /// What is given to the drive then.
    held: Option<Span>,
    /// Whether all that was read so far is right.
    is_sound: bool,
}

/// Reads through io_uring.
pub(crate) struct UringIo {
    ring: Ring<Call>,
    opened_reads: BTreeMap<u64, Opened>,
    next_read: u64,
    files: Arc<Files>,
    waker: Arc<Waker>,
    opened: Arc<Mailbox<Transfer>>,
    completions: Arc<Mailbox<Completion>>,
    // Scratch for what is taken out of the ring and the mailboxes.
    ended_calls: Vec<Ended<Call>>,
    opened_now: Vec<Transfer>,
    ended_reads: Vec<Completion>,
    begun_reads: Vec<ReadId>,
}

impl UringIo {
    /// Sets up the ring; the error is why the kernel refuses.
    pub(crate) fn new(reads: u32, parts: &Parts) -> io::Result<Self> {
        Ok(Self {
            ring: Ring::new(reads, Arc::clone(parts.waker.event().descriptor()))?,
            opened_reads: BTreeMap::new(),
            next_read: 0,
            files: Arc::clone(&parts.files),
            waker: Arc::clone(&parts.waker),
            opened: Mailbox::new(Arc::clone(&parts.waker)),
            completions: Arc::clone(&parts.completions),
            ended_calls: Vec::new(),
            opened_now: Vec::new(),
            ended_reads: Vec::new(),
            begun_reads: Vec::new(),
        })
    }

    fn read(&mut self, transfer: Transfer) {
        match transfer.opening() {
            Some(spans) => self.read_in_parts(transfer, spans),
            None => self.read_whole(transfer),
        }
    }

    fn read_whole(&mut self, transfer: Transfer) {
        let span = transfer.span();
        let call = Call::Whole(transfer.rest);
        self.ring.read(transfer.target, span, call);
    }

    fn read_in_parts(&mut self, transfer: Transfer, [lead, follower, rest]: [Span; 3]) {
        let read = self.next_read;
        self.next_read += 1;
        let target = transfer.target.clone();
        let opened = Opened {
            transfer,
            under_way: 0,
            is_begun: false,
            held: Some(rest).filter(|rest| rest.length > 0),
            is_sound: true,
        };
        self.opened_reads.insert(read, opened);
        self.read_part(read, target.clone(), lead);
        self.ring.send();
        self.read_part(read, target, follower);
    }

    fn read_part(&mut self, read: u64, target: Target, span: Span) {
        if let Some(opened) = self.opened_reads.get_mut(&read) {
            opened.under_way += 1;
            self.ring.read(target, span, Call::Part { read, span });
        }
    }

    /// Takes in how a part ended; answers the read it belongs to, if that was its last.
    fn part_ended(&mut self, ended: Ended<()>, read: u64, span: Span) -> Option<Opened> {
        let opened = self.opened_reads.get_mut(&read)?;
        opened.under_way -= 1;
        // What the kernel refuses says nothing of where the drive is.
        let has_come = ended.result.is_ok();
        if has_come && !std::mem::replace(&mut opened.is_begun, true) {
            self.begun_reads.push(opened.transfer.id());
        }
        let left = ended
            .result
            .map_err(drop)
            .and_then(|bytes| opened.transfer.left_of(span, bytes));
        let next: Vec<Span> = match left {
            Ok(left) => left.into_iter().chain(opened.held.take()).collect(),
            Err(()) => {
                opened.is_sound = false;
                opened.held = None;
                Vec::new()
            }
        };
        for span in next {
            self.read_part(read, ended.target.clone(), span);
        }
        if self.opened_reads.get(&read)?.under_way > 0 {
            return None;
        }
        self.opened_reads.remove(&read)
    }

    fn advance_opened(&mut self, opened: Opened) {
        let transfer = opened.transfer;
        if opened.is_sound {
            let bytes = transfer.span().length;
            self.advance(transfer, Ok(bytes));
        } else {
            self.read_whole(transfer);
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
                if let Some(opened) = self.part_ended(ended, read, span) {
                    self.advance_opened(opened);
                }
            }
        }
    }

    fn advance(&mut self, mut transfer: Transfer, result: io::Result<u64>) {
        let files = Arc::clone(&self.files);
        match transfer.advance(result, &files) {
            Next::Again => self.read_whole(transfer),
            Next::Reopen => {
                let opened = Arc::clone(&self.opened);
                self.files.threads().run(move || {
                    if let Some(transfer) = transfer.reopen(&files) {
                        opened.post(transfer);
                    }
                });
            }
            next => self.files.threads().run(move || transfer.end(next, &files)),
        }
    }
}

impl DiskIo for UringIo {
    fn submit(&mut self, read: Read) {
        if let Some(file) = self.files.cached(read.plan.stream, read.plan.part) {
            return self.read(read.with(file));
        }
        self.files.note_opening(read.plan.stream, read.plan.part);
        let (files, opened) = (Arc::clone(&self.files), Arc::clone(&self.opened));
        self.files.threads().run(move || {
            if let Some(transfer) = read.open(&files) {
                opened.post(transfer);
            }
        });
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
        let mut opened_now = std::mem::take(&mut self.opened_now);
        self.opened.take(&mut opened_now);
        for transfer in opened_now.drain(..) {
            self.read(transfer);
        }
        self.opened_now = opened_now;
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

impl Drop for UringIo {
    fn drop(&mut self) {
        // What the threads still open is not to be read any more. The ring waits for the rest.
        self.opened.close();
    }
}
