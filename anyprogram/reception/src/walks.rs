//! Readahead for programs that walk through small files: one thread for each device, one sweep at a
//! time ([`headlong_walk`]).

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use headlong_library::BlockMap;
use headlong_protocol::Answer;
use headlong_walk::Walker;

use crate::pending_answer::PendingAnswer;
use crate::status::Counters;

/// Devices with a thread.
const DEVICES_MAX: usize = 64;
/// Programs that wait for a sweep of one device; further ones continue at once without help.
const WAITING_MAX: usize = 8;

/// A program that waited for the disk at a small file.
#[derive(Debug)]
pub(crate) struct WaitedProgram {
    pub(crate) passed: File,
    /// Process id.
    pub(crate) program: u64,
    /// Small files that it found in memory since it last waited.
    pub(crate) found: u32,
    pub(crate) answering: PendingAnswer,
}

/// The threads, by device.
#[derive(Debug, Default)]
pub(crate) struct WalkThreads(Mutex<BTreeMap<usize, SyncSender<WaitedProgram>>>);

impl WalkThreads {
    /// Queues a call for the thread of a device, started if new. Returns the call if it is not
    /// accepted.
    pub(crate) fn enqueue(
        &self,
        device: usize,
        places: &Arc<BlockMap>,
        counters: &Arc<Counters>,
        waited: WaitedProgram,
    ) -> Option<WaitedProgram> {
        let mut walks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(walk) = walks.get(&device) {
            return untaken(walk.try_send(waited));
        }
        if walks.len() >= DEVICES_MAX {
            return Some(waited);
        }
        let (sender, waits) = sync_channel(WAITING_MAX);
        let walker = Walker::new(Arc::clone(places), Path::new("/"));
        let counters = Arc::clone(counters);
        let thread = std::thread::Builder::new().name(format!("walk-{device}"));
        let started = thread.spawn(move || walk(walker, &waits, &counters));
        if started.is_err() {
            return Some(waited);
        }
        let untaken = untaken(sender.try_send(waited));
        walks.insert(device, sender);
        untaken
    }
}

fn untaken(sent: Result<(), TrySendError<WaitedProgram>>) -> Option<WaitedProgram> {
    match sent {
        Ok(()) => None,
        Err(TrySendError::Full(waited) | TrySendError::Disconnected(waited)) => Some(waited),
    }
}

fn walk(mut walker: Walker, waits: &Receiver<WaitedProgram>, counters: &Counters) {
    while let Ok(waited) = waits.recv() {
        let swept = walker.waited(waited.program, &waited.passed, waited.found);
        counters.swept(swept);
        // Before the answer: closing the descriptor releases POSIX locks that the program holds.
        drop(waited.passed);
        waited.answering.answer(match swept.files {
            0 => Answer::GoOn,
            _ => Answer::Ready,
        });
    }
}
