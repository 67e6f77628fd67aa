//! How connections reach a device: by taking the engine's lock, or by a message if it is taken.
//!
//! A request whose bytes are in memory, and a piece that is given back, are dealt with where they
//! come up, without a trip to the device's thread. The lock is held for microseconds, as nothing
//! under it waits; even so only the device's own thread ever waits for it (the lock with hand-over of
//! `lock.rs`): everybody else leaves a message if it is taken.
//!
//! Invariant: whatever a call makes necessary (a read to be started, an earlier end of the thread's
//! sleep) wakes the device's thread.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use headlong_engine::{Refusal, Request, RequestId, Slot, StreamId, StreamSpec};
use headlong_units::{BitRate, Instant};
use tokio::sync::oneshot;

use super::StreamSource;
use super::engine::{DeviceEngine, EngineParts};
use super::keeper::Keeper;
use super::lock::{self, HandOver};
use super::mailbox::Mailbox;
use super::message::{Ask, Message, REQUESTS_MAX};
use super::opener::Opener;
use super::reply::{Piece, Receiver, Reply};
use super::transfer::Transfer;
use crate::raw::Pool;

/// What the lock protects.
struct Desk {
    engine: DeviceEngine,
    /// When the device's thread looks in by itself.
    thread_due: Instant,
}

/// The way to one device's engine.
pub(crate) struct Link {
    /// Closed once the device has stopped.
    lock: HandOver<Desk>,
    is_stopping: AtomicBool,
    /// Copies what is sent again and again.
    keeper: Option<Keeper>,
    /// Not kept alive: a device that is started again waits until the memory of before has gone.
    pool: Weak<Pool>,
    opener: Weak<Opener>,
}

impl Link {
    /// The engine of these parts, whose thread is woken by `mailbox` and empties it.
    pub(crate) fn new(
        parts: EngineParts,
        mailbox: Arc<Mailbox<Message>>,
        keeper: Option<Keeper>,
    ) -> Arc<Self> {
        let link = Arc::new(Self {
            lock: HandOver::new(mailbox),
            is_stopping: AtomicBool::new(false),
            keeper,
            pool: Arc::downgrade(&parts.pool),
            opener: Arc::downgrade(&parts.opener),
        });
        let receiver = Arc::clone(&link) as Arc<dyn Receiver>;
        link.lock.open(Desk {
            engine: DeviceEngine::new(parts, receiver),
            thread_due: Instant(0),
        });
        link
    }

    /// What opens the files of the device; `None` of one that has stopped.
    pub(crate) fn opener(&self) -> Option<Arc<Opener>> {
        self.opener.upgrade()
    }

    /// Leaves a message for the device's thread.
    pub(crate) fn post(&self, message: Message) {
        self.lock.mailbox().post(message);
    }

    /// Has the device's thread end.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        self.lock.mailbox().wake();
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
        let end = request.offset.saturating_add(request.length);
        let of = (request.stream, request.part);
        if let Some(copies) = self.copies(of, (request.offset, end)) {
            return Some(Ok(Reply::of_copies(copies, request.length)));
        }
        let waiting = match self.lock.try_lock() {
            Some(mut guard) => {
                let desk = guard.as_mut()?;
                let now = desk.engine.now();
                let reply = desk.engine.ask(now, (id, request), register);
                self.lock.leave(guard);
                return Some(reply);
            }
            None => self.ask_by_message((id, request), register),
        };
        waiting.await.ok()
    }

    /// The bytes `start..end` of a part of a stream, if the engine need not be asked for them.
    pub(crate) fn copies(
        &self,
        of: (StreamId, u32),
        range: (u64, u64),
    ) -> Option<impl Iterator<Item = Piece> + use<>> {
        let copies = self.pool.upgrade()?.copies(of, range)?;
        Some(copies.map(Piece::of_copy))
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
        self.lock.mailbox().post_if_fewer(message, REQUESTS_MAX);
        self.lock.hand_over();
        answered
    }

    /// Takes what was posted, in order, into `messages`, which must be empty.
    pub(crate) fn take_messages(&self, messages: &mut Vec<Message>) {
        self.lock.mailbox().take(messages);
    }

    /// The device's thread is about to start reads and to sleep: which, and how long at most.
    ///
    /// # Errors
    /// As [`Link::turn`].
    pub(crate) fn before_sleep(&self, submits: &mut Vec<Transfer>) -> io::Result<Option<Duration>> {
        let (timeout, may_sleep) = self.lock.before_sleep(|desk| {
            desk.engine.take_submits(submits);
            desk.thread_due = desk.engine.due();
            desk.engine.wall_until(desk.engine.now(), desk.thread_due)
        })?;
        match may_sleep {
            true => Ok(timeout),
            false => Ok(Some(Duration::ZERO)),
        }
    }

    /// A call of the engine by the device's own thread, which alone waits for the lock.
    ///
    /// # Errors
    /// If a call panicked with the lock held: what the engine knows is not to be relied on then.
    pub(crate) fn turn<R>(&self, call: impl FnOnce(&mut DeviceEngine) -> R) -> io::Result<R> {
        self.lock.locked(|desk| call(&mut desk.engine))
    }

    /// Ends everything: what waits fails, what comes is dropped.
    pub(crate) fn close(&self) {
        // Pieces and replies that nobody took come back here as they drop, so the lock is free again.
        drop(self.lock.close());
    }
}

impl lock::Desk for Desk {
    type Message = Message;

    /// The device's thread has something to do if a read is to be started, or if it would sleep too long.
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
        let Some(mut guard) = self.lock.try_lock() else {
            for (request, slot) in pieces.iter().copied() {
                self.lock
                    .mailbox()
                    .post_quietly(Message::Sent { request, slot });
            }
            return self.lock.hand_over();
        };
        if let Some(desk) = guard.as_mut() {
            let now = desk.engine.now();
            for (request, slot) in pieces.iter().copied() {
                desk.engine.sent(now, request, slot);
            }
        }
        self.lock.leave(guard);
    }

    fn cancelled(&self, request: RequestId) {
        let Some(mut guard) = self.lock.try_lock() else {
            self.lock.mailbox().post_quietly(Message::Cancel(request));
            return self.lock.hand_over();
        };
        if let Some(desk) = guard.as_mut() {
            let now = desk.engine.now();
            desk.engine.cancel(now, request);
        }
        self.lock.leave(guard);
    }

    fn bit_rate(&self, stream: StreamId, rate: BitRate) {
        self.post(Message::BitRate(stream, rate));
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
    use crate::disk::making::make;
    use crate::disk::rig::{FileSource, Scratch, noise, small_device};
    use crate::disk::thread::DeviceThread;
    use headlong_engine::{Hints, Identity, ViewerId};

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
                holder: None,
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
