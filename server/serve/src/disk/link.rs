//! How connections reach a device: by taking the engine's lock, or by a message if it is taken.
//!
//! A request whose bytes are in memory, and a piece that is given back, are dealt with where they
//! come up, without a trip to the device's thread. The lock is held for microseconds, as nothing
//! under it waits; even so only the device's own thread ever waits for it: everybody else tries for
//! a moment, and then leaves a message, which whoever holds the lock deals with before going.
//!
//! Invariants: whatever a call makes necessary (a read to be started, an earlier end of the thread's
//! sleep) wakes the device's thread; no message stays behind when the lock is free.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use headlong_engine::{Refusal, Request, RequestId, Slot, StreamSpec};
use headlong_units::Instant;
use tokio::sync::oneshot;

use super::StreamSource;
use super::engine::{DeviceEngine, EngineParts};
use super::keeper::Keeper;
use super::mailbox::Mailbox;
use super::message::{Ask, Message, REQUESTS_MAX};
use super::reply::{Piece, Receiver, Reply};
use super::transfer::Read;

/// How often the lock is tried for before a message is left.
const TRIES: u32 = 64;

/// What the lock protects.
struct Desk {
    engine: DeviceEngine,
    /// When the device's thread looks in by itself.
    thread_due: Instant,
}

type Guard<'a> = MutexGuard<'a, Option<Desk>>;

/// The way to one device's engine.
pub(crate) struct Link {
    /// `None` once the device has stopped.
    desk: Mutex<Option<Desk>>,
    mailbox: Arc<Mailbox<Message>>,
    is_stopping: AtomicBool,
    /// Copies what is sent again and again.
    keeper: Option<Keeper>,
}

impl Link {
    /// The engine of these parts, whose thread is woken by `mailbox` and empties it.
    pub(crate) fn new(
        parts: EngineParts,
        mailbox: Arc<Mailbox<Message>>,
        keeper: Option<Keeper>,
    ) -> Arc<Self> {
        let link = Arc::new(Self {
            desk: Mutex::new(None),
            mailbox,
            is_stopping: AtomicBool::new(false),
            keeper,
        });
        let receiver = Arc::clone(&link) as Arc<dyn Receiver>;
        let desk = Desk {
            engine: DeviceEngine::new(parts, receiver),
            thread_due: Instant(0),
        };
        *link.desk.lock().unwrap_or_else(PoisonError::into_inner) = Some(desk);
        link
    }

    /// Leaves a message for the device's thread.
    pub(crate) fn post(&self, message: Message) {
        self.mailbox.post(message);
    }

    /// Has the device's thread end.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        self.mailbox.wake();
    }

    /// Whether the device's thread is to end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// Asks for bytes, of a stream that is registered first if it is given. `None`: the device has
    /// stopped, or too many wait for it.
    pub(crate) async fn ask(
        &self,
        (id, request): (RequestId, Request),
        register: Option<(StreamSpec, Arc<dyn StreamSource>)>,
    ) -> Option<Result<Reply, Refusal>> {
        let waiting = match self.try_lock() {
            Some(mut guard) => {
                let desk = guard.as_mut()?;
                let now = desk.engine.now();
                let reply = desk.engine.ask(now, (id, request), register);
                self.leave(guard);
                return Some(reply);
            }
            None => self.ask_by_message((id, request), register),
        };
        waiting.await.ok()
    }

    fn ask_by_message(
        &self,
        (id, request): (RequestId, Request),
        register: Option<(StreamSpec, Arc<dyn StreamSource>)>,
    ) -> oneshot::Receiver<Result<Reply, Refusal>> {
        let (answer, answered) = oneshot::channel();
        let ask = Ask {
            id,
            request,
            register,
            answer,
        };
        let message = Message::Request(Box::new(ask));
        self.mailbox.post_if_fewer(message, REQUESTS_MAX);
        self.hand_over();
        answered
    }

    /// Takes what was posted, in order, into `messages`, which must be empty.
    pub(crate) fn take_messages(&self, messages: &mut Vec<Message>) {
        self.mailbox.take(messages);
    }

    /// The device's thread is about to start reads and to sleep: which, and how long at most.
    ///
    /// # Errors
    /// As [`Link::turn`].
    pub(crate) fn before_sleep(&self, submits: &mut Vec<Read>) -> io::Result<Option<Duration>> {
        let timeout = self.locked(|desk| {
            desk.engine.take_submits(submits);
            desk.thread_due = desk.engine.due();
            desk.engine.wall_until(desk.engine.now(), desk.thread_due)
        })?;
        // What was left while the thread held the lock is for the thread to deal with.
        match self.mailbox.is_empty() {
            true => Ok(timeout),
            false => Ok(Some(Duration::ZERO)),
        }
    }

    /// A call of the engine by the device's own thread, which alone waits for the lock.
    ///
    /// # Errors
    /// If a call panicked with the lock held: what the engine knows is not to be relied on then.
    pub(crate) fn turn<R>(&self, call: impl FnOnce(&mut DeviceEngine) -> R) -> io::Result<R> {
        self.locked(|desk| call(&mut desk.engine))
    }

    fn locked<R>(&self, call: impl FnOnce(&mut Desk) -> R) -> io::Result<R> {
        let guard = self.desk.lock().ok();
        // Only the device's thread closes the link, when it has done with it.
        let mut desk = guard.filter(|desk| desk.is_some());
        let desk = desk.as_mut().and_then(|desk| desk.as_mut());
        desk.map(call)
            .ok_or_else(|| io::Error::other("a call broke the device's engine"))
    }

    /// Ends everything: what waits fails, what comes is dropped.
    pub(crate) fn close(&self) {
        self.mailbox.close();
        let mut guard = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
        let desk = guard.take();
        drop(guard);
        // Pieces and replies that nobody took come back here as they drop.
        drop(desk);
    }

    fn try_lock(&self) -> Option<Guard<'_>> {
        for _ in 0..TRIES {
            match self.desk.try_lock() {
                Ok(guard) => return Some(guard),
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
                Err(TryLockError::Poisoned(_)) => return None,
            }
        }
        None
    }

    /// Deals with the messages that were left meanwhile, gives the lock back, and wakes the device's
    /// thread if there is something for it to do.
    fn leave<'a>(&'a self, mut guard: Guard<'a>) {
        let mut is_needed = false;
        loop {
            let Some(desk) = guard.as_mut() else { return };
            is_needed |= desk.take_in(&self.mailbox);
            drop(guard);
            // What was left between the last look and the unlocking.
            if self.mailbox.is_empty() {
                break;
            }
            match self.desk.try_lock() {
                Ok(again) => guard = again,
                // Whoever has it now does the same.
                Err(_) => break,
            }
        }
        if is_needed {
            self.mailbox.wake();
        }
    }

    /// Sees to it that the message just left is dealt with: by whoever holds the lock, or here.
    fn hand_over(&self) {
        match self.desk.try_lock() {
            Ok(guard) => self.leave(guard),
            Err(TryLockError::WouldBlock) => {}
            // The device's thread will find out, and end.
            Err(TryLockError::Poisoned(_)) => self.mailbox.wake(),
        }
    }
}

impl Desk {
    /// Deals with what is in the mailbox; whether the device's thread has something to do then.
    fn take_in(&mut self, mailbox: &Mailbox<Message>) -> bool {
        if !mailbox.is_empty() {
            let mut messages = Vec::new();
            mailbox.take(&mut messages);
            let now = self.engine.now();
            for message in messages {
                self.engine.handle(now, message);
            }
        }
        let due = self.engine.due();
        let is_needed = self.engine.has_submits() || due < self.thread_due;
        self.thread_due = self.thread_due.min(due);
        is_needed
    }
}

impl Receiver for Link {
    fn sent(&self, pieces: &[(RequestId, Slot)]) {
        let Some(mut guard) = self.try_lock() else {
            for (request, slot) in pieces.iter().copied() {
                self.mailbox.post_quietly(Message::Sent { request, slot });
            }
            return self.hand_over();
        };
        if let Some(desk) = guard.as_mut() {
            let now = desk.engine.now();
            for (request, slot) in pieces.iter().copied() {
                desk.engine.sent(now, request, slot);
            }
        }
        self.leave(guard);
    }

    fn cancelled(&self, request: RequestId) {
        let Some(mut guard) = self.try_lock() else {
            self.mailbox.post_quietly(Message::Cancel(request));
            return self.hand_over();
        };
        if let Some(desk) = guard.as_mut() {
            let now = desk.engine.now();
            desk.engine.cancel(now, request);
        }
        self.leave(guard);
    }

    fn keep(&self, piece: Piece) {
        match &self.keeper {
            Some(keeper) => keeper.offer(piece),
            None => drop(piece),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::device::make;
    use crate::disk::rig::{FileSource, Scratch, noise, small_device};
    use crate::disk::thread::DeviceThread;
    use headlong_engine::{Hints, Identity, StreamId, ViewerId};

    fn device() -> DeviceThread {
        let config = small_device();
        let start = make(&config, config.engine, Arc::default()).expect("made");
        start.thread
    }

    #[test]
    fn a_device_does_not_sleep_on_what_was_left_while_it_had_the_lock() {
        let thread = device();
        let link = thread.link();
        let slot = Slot(0);
        let told = link.turn(|_| {
            std::thread::scope(|scope| {
                scope.spawn(|| link.sent(&[(RequestId(1), slot)]));
            });
        });
        told.expect("sound");
        let timeout = link.before_sleep(&mut Vec::new()).expect("sound");
        assert_eq!(timeout, Some(Duration::ZERO));
    }

    /// Threads that ask at the same time find the lock taken again and again.
    #[test]
    fn what_is_asked_at_a_taken_lock_is_answered_by_whoever_holds_it() {
        let scratch = Scratch::new();
        let path = scratch.file("a", &noise(100_000));
        let source: Arc<dyn StreamSource> = Arc::new(FileSource::new(1, [path]));
        let thread = device();
        let link = Arc::clone(thread.link());
        let device = std::thread::spawn(|| thread.run());
        let ask = |id: u64| {
            let request = Request {
                viewer: Identity::Named(ViewerId(id)),
                stream: StreamId(1),
                part: 0,
                offset: 0,
                length: 1000,
                open_ended: false,
                hints: Hints::default(),
            };
            let register = Some((source.spec(), Arc::clone(&source)));
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            runtime.expect("a runtime").block_on(async {
                let reply = link.ask((RequestId(id), request), register).await;
                let mut reply = reply.expect("answered").expect("taken on");
                let piece = reply.next().await.expect("comes").expect("whole");
                piece.as_ref().len()
            })
        };
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let ask = &ask;
                scope.spawn(move || {
                    for number in 0..500 {
                        assert_eq!(ask(thread * 1000 + number), 1000);
                    }
                });
            }
        });
        link.stop();
        device.join().expect("no panic").expect("no error");
    }
}
