//! Access to a device's engine: a connection takes the engine's lock, or posts a message if the
//! lock is taken.
//!
//! A request for cached bytes and a returned piece are handled on the calling thread, without a
//! switch to the device thread. The lock is held for microseconds, as nothing under it blocks. Only
//! the device thread ever waits for it (see `delegation_lock.rs`); all others post a message if it
//! is taken.
//!
//! Invariant: if a call requires action of the device thread (a read to start, an earlier wake-up),
//! the thread is woken.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use headlong_engine::{Refusal, Request, RequestId, Slot, StreamId, StreamSpec};
use headlong_kernel::raw::Pool;
use headlong_units::{BitRate, Instant};
use tokio::sync::oneshot;

use super::StreamSource;
use super::copier::Copier;
use super::delegation_lock::{self, DelegationLock};
use super::disk_read::DiskRead;
use super::engine::{DeviceEngine, EngineParts};
use super::mailbox::Mailbox;
use super::message::{DeviceMessage, DeviceRequest, REQUESTS_MAX};
use super::opener::Opener;
use super::reply::{CompletionReceiver, Piece, Reply};

/// State under the lock.
struct LockedEngine {
    engine: DeviceEngine,
    /// When the device thread wakes up next.
    thread_due: Instant,
}

/// Access to the engine of one device.
pub(crate) struct Link {
    /// Closed once the device has stopped.
    lock: DelegationLock<LockedEngine>,
    is_stopping: AtomicBool,
    /// Copier of the sendfile cache.
    keeper: Option<Copier>,
    /// Weak, because a restart of the device waits until the old memory is released.
    pool: Weak<Pool>,
    opener: Weak<Opener>,
}

impl Link {
    /// Builds the engine. `mailbox` wakes the device thread, which empties it.
    pub(crate) fn new(
        parts: EngineParts,
        mailbox: Arc<Mailbox<DeviceMessage>>,
        keeper: Option<Copier>,
    ) -> Arc<Self> {
        let link = Arc::new(Self {
            lock: DelegationLock::new(mailbox),
            is_stopping: AtomicBool::new(false),
            keeper,
            pool: Arc::downgrade(&parts.pool),
            opener: Arc::downgrade(&parts.opener),
        });
        let receiver = Arc::clone(&link) as Arc<dyn CompletionReceiver>;
        link.lock.open(LockedEngine {
            engine: DeviceEngine::new(parts, receiver),
            thread_due: Instant(0),
        });
        link
    }

    /// The opener of the device; `None` after the device has stopped.
    pub(crate) fn opener(&self) -> Option<Arc<Opener>> {
        self.opener.upgrade()
    }

    /// Posts a message to the device thread.
    pub(crate) fn post(&self, message: DeviceMessage) {
        self.lock.mailbox().post(message);
    }

    /// Tells the device thread to end.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        self.lock.mailbox().wake();
    }

    /// Whether the device thread must end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// Sends a request. If `register` is given, its stream is registered first. `None`: the device
    /// has stopped, or too many requests are waiting.
    pub(crate) async fn request(
        &self,
        (id, request): (RequestId, Request),
        register: Option<(StreamSpec, Arc<dyn StreamSource>)>,
    ) -> Option<Result<Reply, Refusal>> {
        let end = request.offset.saturating_add(request.length);
        let of = (request.stream, request.part);
        if let Some(copies) = self.copies(of, (request.offset, end), request.length) {
            return Some(Ok(Reply::of_copies(copies, request.length)));
        }
        let waiting = match self.lock.try_lock() {
            Some(mut guard) => {
                let desk = guard.as_mut()?;
                let now = desk.engine.now();
                let reply = desk.engine.request(now, (id, request), register);
                self.lock.leave(guard);
                return Some(reply);
            }
            None => self.request_by_message(id, request, register),
        };
        waiting.await.ok()
    }

    /// The bytes `start..end` of a part from the sendfile cache, if the engine need not see the
    /// request, which sends `sent_bytes` of them.
    pub(crate) fn copies(
        &self,
        of: (StreamId, u32),
        range: (u64, u64),
        sent_bytes: u64,
    ) -> Option<impl Iterator<Item = Piece> + use<>> {
        let copies = self.pool.upgrade()?.copies(of, range, sent_bytes)?;
        Some(copies.map(Piece::of_copy))
    }

    fn request_by_message(
        &self,
        id: RequestId,
        request: Request,
        register: Option<(StreamSpec, Arc<dyn StreamSource>)>,
    ) -> oneshot::Receiver<Result<Reply, Refusal>> {
        let (answer, answered) = oneshot::channel();
        let ask = DeviceRequest {
            id,
            request,
            register,
            answer,
        };
        let message = DeviceMessage::Request(Box::new(ask));
        self.lock.mailbox().post_if_fewer(message, REQUESTS_MAX);
        self.lock.hand_over();
        answered
    }

    /// Moves the posted messages, in order, into `messages`, which must be empty.
    pub(crate) fn take_messages(&self, messages: &mut Vec<DeviceMessage>) {
        self.lock.mailbox().take(messages);
    }

    /// Called by the device thread before it sleeps: returns the reads to start and the sleep
    /// limit.
    ///
    /// # Errors
    /// As [`Link::turn`].
    pub(crate) fn before_sleep(&self, submits: &mut Vec<DiskRead>) -> io::Result<Option<Duration>> {
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

    /// Calls the engine on the device thread, the only thread that waits for the lock.
    ///
    /// # Errors
    /// If a call panicked while it held the lock: the state of the engine is unreliable then.
    pub(crate) fn turn<R>(&self, call: impl FnOnce(&mut DeviceEngine) -> R) -> io::Result<R> {
        self.lock.locked(|desk| call(&mut desk.engine))
    }

    /// Closes the link: waiting requests fail, later messages are dropped.
    pub(crate) fn close(&self) {
        // Pending pieces and replies post back here when they are dropped, so release the lock
        // first.
        drop(self.lock.close());
    }
}

impl delegation_lock::MessageHandler for LockedEngine {
    type Message = DeviceMessage;

    /// The device thread is needed if a read must be started, or if it would sleep too long.
    fn take_in(&mut self, mailbox: &Mailbox<DeviceMessage>) -> bool {
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

impl CompletionReceiver for Link {
    fn sent(&self, pieces: &[(RequestId, Slot)]) {
        let Some(mut guard) = self.lock.try_lock() else {
            for (request, slot) in pieces.iter().copied() {
                self.lock
                    .mailbox()
                    .post_quietly(DeviceMessage::Sent { request, slot });
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
            self.lock
                .mailbox()
                .post_quietly(DeviceMessage::Cancel(request));
            return self.lock.hand_over();
        };
        if let Some(desk) = guard.as_mut() {
            let now = desk.engine.now();
            desk.engine.cancel(now, request);
        }
        self.lock.leave(guard);
    }

    fn bit_rate(&self, stream: StreamId, rate: BitRate) {
        self.post(DeviceMessage::BitRate(stream, rate));
    }

    fn copy_piece(&self, piece: Piece) {
        match &self.keeper {
            Some(keeper) => keeper.offer(piece),
            None => drop(piece),
        }
    }
}

#[cfg(test)]
mod tests {
    use headlong_engine::{Hints, ReaderIdentity, ViewerId};

    use super::*;
    use crate::build::make;
    use crate::rig::{FileSource, ScratchDir, noise, small_device};
    use crate::thread::DeviceThread;

    fn device() -> DeviceThread {
        let config = small_device();
        let start = make(&config, config.engine, Arc::default()).expect("made");
        start.thread
    }

    #[test]
    fn device_thread_does_not_sleep_while_messages_are_pending() {
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

    /// Threads that send requests concurrently find the lock taken again and again.
    #[test]
    fn request_posted_at_taken_lock_is_answered_by_lock_holder() {
        let scratch = ScratchDir::new();
        let path = scratch.file("a", &noise(1, 100_000));
        let source: Arc<dyn StreamSource> = Arc::new(FileSource::new(1, [path]));
        let thread = device();
        let link = Arc::clone(thread.link());
        let device = std::thread::spawn(|| thread.run());
        let ask = |id: u64| {
            let request = Request {
                viewer: ReaderIdentity::Named(ViewerId(id)),
                stream: StreamId(1),
                part: 0,
                offset: 0,
                length: 1000,
                open_ended: false,
                overlap_bytes: 0,
                holder: None,
                hints: Hints::default(),
            };
            let register = Some((source.spec(), Arc::clone(&source)));
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            runtime.expect("a runtime").block_on(async {
                let reply = link.request((RequestId(id), request), register).await;
                let mut reply = reply.expect("answered").expect("accepted");
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
