//! Delegation lock (flat combining): only one thread, the *owner*, ever waits for it. Other threads
//! try briefly and then post a message, which the lock holder handles before it releases the lock.
//!
//! Invariants: no message stays unhandled while the lock is free; the owner is woken when a holder
//! leaves work for it, and when a holder panics, so that it finds the lock poisoned.
//!
//! A poster checks the lock after posting, and a holder checks the mailbox after unlocking. A fence
//! between the two steps on both sides ensures that at least one of them sees the other.
//!
//! `tests/models` compiles this file unchanged and explores all interleavings of its threads.

use std::io;
use std::sync::{Arc, PoisonError, TryLockError};

use super::mailbox::Mailbox;
use super::sync::{Mutex, MutexGuard, Ordering, TRIES, fence, spin_loop};

/// State protected by the lock.
pub(super) trait MessageHandler {
    /// Message that is posted while the lock is taken.
    type Message;

    /// Handles the messages in the mailbox. Returns whether the owner has work to do since it last
    /// slept.
    fn take_in(&mut self, mailbox: &Mailbox<Self::Message>) -> bool;
}

/// The lock, and the mailbox for messages posted while it is taken.
pub(super) struct DelegationLock<D: MessageHandler> {
    /// `None` before `open` and after `close`.
    desk: Mutex<Option<D>>,
    mailbox: Arc<Mailbox<D::Message>>,
}

/// Guard of the lock.
pub(super) struct DelegationGuard<'a, D: MessageHandler> {
    desk: MutexGuard<'a, Option<D>>,
    mailbox: &'a Mailbox<D::Message>,
}

impl<D: MessageHandler> DelegationGuard<'_, D> {
    /// The protected state, unless the lock is closed.
    pub(super) fn as_mut(&mut self) -> Option<&mut D> {
        self.desk.as_mut()
    }
}

impl<D: MessageHandler> Drop for DelegationGuard<'_, D> {
    fn drop(&mut self) {
        // Pending messages stay unhandled; the owner closes the lock.
        if std::thread::panicking() {
            self.mailbox.wake();
        }
    }
}

impl<D: MessageHandler> DelegationLock<D> {
    /// Creates a closed lock. `mailbox` wakes the owner, which empties it.
    pub(super) fn new(mailbox: Arc<Mailbox<D::Message>>) -> Self {
        Self {
            desk: Mutex::new(None),
            mailbox,
        }
    }

    /// Stores the protected state.
    pub(super) fn open(&self, desk: D) {
        *self.desk.lock().unwrap_or_else(PoisonError::into_inner) = Some(desk);
    }

    /// Mailbox for messages.
    pub(super) fn mailbox(&self) -> &Mailbox<D::Message> {
        &self.mailbox
    }

    /// For all threads except the owner. `None`: post a message and call
    /// [`DelegationLock::hand_over`].
    pub(super) fn try_lock(&self) -> Option<DelegationGuard<'_, D>> {
        for _ in 0..TRIES {
            match self.desk.try_lock() {
                Ok(desk) => return Some(self.held(desk)),
                Err(TryLockError::WouldBlock) => spin_loop(),
                Err(TryLockError::Poisoned(_)) => return None,
            }
        }
        None
    }

    fn held<'a>(&'a self, desk: MutexGuard<'a, Option<D>>) -> DelegationGuard<'a, D> {
        let mailbox = &self.mailbox;
        DelegationGuard { desk, mailbox }
    }

    /// Handles the messages posted meanwhile, releases the lock, and wakes the owner if it has work
    /// to do.
    pub(super) fn leave<'a>(&'a self, mut held: DelegationGuard<'a, D>) {
        let mut is_needed = false;
        loop {
            let Some(desk) = held.as_mut() else { return };
            is_needed |= desk.take_in(&self.mailbox);
            drop(held);
            fence(Ordering::SeqCst);
            // Messages may have been posted between `take_in` and the release.
            if self.mailbox.is_empty() {
                break;
            }
            match self.desk.try_lock() {
                Ok(again) => held = self.held(again),
                // The new holder handles the messages.
                Err(_) => break,
            }
        }
        if is_needed {
            self.mailbox.wake();
        }
    }

    /// Ensures that the message just posted is handled: by the lock holder, or here.
    pub(super) fn hand_over(&self) {
        fence(Ordering::SeqCst);
        match self.desk.try_lock() {
            Ok(desk) => self.leave(self.held(desk)),
            Err(TryLockError::WouldBlock) => {}
            // The owner detects the poisoned lock.
            Err(TryLockError::Poisoned(_)) => self.mailbox.wake(),
        }
    }

    /// For the owner. Messages posted meanwhile are handled after its next
    /// [`DelegationLock::before_sleep`].
    ///
    /// # Errors
    /// If a call panicked while holding the lock, or if the lock is closed.
    pub(super) fn locked<R>(&self, call: impl FnOnce(&mut D) -> R) -> io::Result<R> {
        let guard = self.desk.lock().ok();
        let mut desk = guard.filter(|desk| desk.is_some());
        let desk = desk.as_mut().and_then(|desk| desk.as_mut());
        desk.map(call)
            .ok_or_else(|| io::Error::other("device engine is unusable after a panic"))
    }

    /// For the owner before it sleeps: as [`DelegationLock::locked`], plus whether it may sleep. If
    /// not, messages were posted while it held the lock.
    ///
    /// # Errors
    /// As [`DelegationLock::locked`].
    pub(super) fn before_sleep<R>(&self, call: impl FnOnce(&mut D) -> R) -> io::Result<(R, bool)> {
        let result = self.locked(call)?;
        fence(Ordering::SeqCst);
        Ok((result, self.mailbox.is_empty()))
    }

    /// Takes out the protected state. Pending and later messages are dropped.
    pub(super) fn close(&self) -> Option<D> {
        self.mailbox.close();
        let mut guard = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
        guard.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailbox::Waker;

    struct Numbers(Vec<u32>);

    impl MessageHandler for Numbers {
        type Message = u32;

        fn take_in(&mut self, mailbox: &Mailbox<u32>) -> bool {
            mailbox.take(&mut self.0);
            false
        }
    }

    fn lock() -> (DelegationLock<Numbers>, Arc<Waker>) {
        let waker = Waker::new().expect("eventfd");
        let lock = DelegationLock::new(Mailbox::new(Arc::clone(&waker)));
        lock.open(Numbers(Vec::new()));
        (lock, waker)
    }

    #[test]
    fn lock_holder_handles_posted_messages() {
        let (lock, _waker) = lock();
        let held = lock.try_lock().expect("free");
        assert!(lock.try_lock().is_none(), "taken");
        lock.mailbox().post_quietly(7);
        lock.hand_over();
        lock.leave(held);
        let numbers = lock.locked(|numbers| numbers.0.clone()).expect("sound");
        assert_eq!(numbers, [7]);
    }

    /// Messages posted before the panic stay unhandled until the owner detects it.
    #[test]
    fn panicking_holder_wakes_owner() {
        let (lock, waker) = lock();
        let panicked = std::thread::scope(|scope| {
            let holder = scope.spawn(|| {
                let _held = lock.try_lock().expect("free");
                lock.mailbox().post_quietly(7);
                lock.hand_over();
                std::panic::resume_unwind(Box::new("on purpose"));
            });
            holder.join()
        });
        assert!(panicked.is_err());
        assert!(!waker.begin_sleep(), "the owner was woken");
        assert!(lock.locked(|_| ()).is_err(), "the lock is poisoned");
        lock.hand_over();
        assert!(lock.close().is_some(), "the state can still be taken out");
        assert!(lock.close().is_none());
    }
}
