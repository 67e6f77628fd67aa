//! How connections reach a device: by taking the engine's lock, or by a message if it is taken.
//!
//! A request whose bytes are in memory, and a piece that is given back, are dealt with where they
//! come up, without a trip to the device's thread. The lock is held for microseconds, as nothing
//! under it waits; even so only the device's own thread ever waits for it: everybody else tries for
//! a moment, and then leaves a message.
//!
//! Invariant: whatever a call makes necessary (a read to be started, an earlier end of the thread's
//! sleep) wakes the device's thread.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use headlong_engine::{Refusal, Request, RequestId, Slot, StreamSpec};
use headlong_units::Instant;
use tokio::sync::oneshot;

use super::StreamSource;
use super::engine::{DeviceEngine, EngineParts};
use super::mailbox::Mailbox;
use super::message::{Ask, Message, REQUESTS_MAX};
use super::reply::{Receiver, Reply};
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
}

impl Link {
    /// The engine of these parts, whose thread is woken by `mailbox` and empties it.
    pub(crate) fn new(parts: EngineParts, mailbox: Arc<Mailbox<Message>>) -> Arc<Self> {
        let link = Arc::new(Self {
            desk: Mutex::new(None),
            mailbox,
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
        self.locked(|desk| {
            desk.engine.take_submits(submits);
            desk.thread_due = desk.engine.due();
            desk.engine.wall_until(desk.engine.now(), desk.thread_due)
        })
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

    /// Gives the lock back, and wakes the device's thread if there is something for it to do.
    fn leave(&self, mut guard: Guard<'_>) {
        let Some(desk) = guard.as_mut() else { return };
        let due = desk.engine.due();
        let is_needed = desk.engine.has_submits() || due < desk.thread_due;
        desk.thread_due = desk.thread_due.min(due);
        drop(guard);
        if is_needed {
            self.mailbox.wake();
        }
    }

    /// Has something told to the engine, or leaves a message that says the same.
    fn tell(
        &self,
        tell: impl FnOnce(&mut DeviceEngine, Instant),
        message: impl FnOnce() -> Message,
    ) {
        let Some(mut guard) = self.try_lock() else {
            return self.post(message());
        };
        if let Some(desk) = guard.as_mut() {
            let now = desk.engine.now();
            tell(&mut desk.engine, now);
        }
        self.leave(guard);
    }
}

impl Receiver for Link {
    fn sent(&self, request: RequestId, slot: Slot) {
        self.tell(
            |engine, now| engine.sent(now, request, slot),
            || Message::Sent { request, slot },
        );
    }

    fn cancelled(&self, request: RequestId) {
        self.tell(
            |engine, now| engine.cancel(now, request),
            || Message::Cancel(request),
        );
    }
}
