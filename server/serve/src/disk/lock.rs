//! A lock for which only one thread, its *owner*, ever waits. Everybody else tries for a moment and
//! then leaves a message, which whoever holds the lock deals with before going.
//!
//! Invariants: no message stays behind when the lock is free; the owner is woken when a holder leaves
//! something to do for it, and when a holder panics, so that it finds the lock broken.
//!
//! Whoever leaves a message looks at the lock after it, and whoever gives the lock back looks for
//! messages after that; a fence between the two on both sides, so that one of them sees the other.
//!
//! `tests/models` tries every order of steps of the threads on this file as it is.

use std::io;
use std::sync::{Arc, PoisonError, TryLockError};

use super::mailbox::Mailbox;
use super::sync::{Mutex, MutexGuard, Ordering, TRIES, fence, spin_loop};

/// What such a lock protects.
pub(super) trait Desk {
    /// What is left for it.
    type Message;

    /// Deals with what is in the mailbox; whether the owner has something to do since it last slept.
    fn take_in(&mut self, mailbox: &Mailbox<Self::Message>) -> bool;
}

/// The lock, and the mailbox for what is left while it is taken.
pub(super) struct HandOver<D: Desk> {
    /// `None` before it is open and after it was closed.
    desk: Mutex<Option<D>>,
    mailbox: Arc<Mailbox<D::Message>>,
}

/// The lock, held.
pub(super) struct Held<'a, D: Desk> {
    desk: MutexGuard<'a, Option<D>>,
    mailbox: &'a Mailbox<D::Message>,
}

impl<D: Desk> Held<'_, D> {
    /// What is protected, unless it is closed.
    pub(super) fn as_mut(&mut self) -> Option<&mut D> {
        self.desk.as_mut()
    }
}

impl<D: Desk> Drop for Held<'_, D> {
    fn drop(&mut self) {
        // What others left meanwhile is dealt with by nobody: the owner ends it all.
        if std::thread::panicking() {
            self.mailbox.wake();
        }
    }
}

impl<D: Desk> HandOver<D> {
    /// Not open yet. The owner is woken by `mailbox`, and empties it.
    pub(super) fn new(mailbox: Arc<Mailbox<D::Message>>) -> Self {
        Self {
            desk: Mutex::new(None),
            mailbox,
        }
    }

    /// Puts in what is to be protected.
    pub(super) fn open(&self, desk: D) {
        *self.desk.lock().unwrap_or_else(PoisonError::into_inner) = Some(desk);
    }

    /// Where messages are left.
    pub(super) fn mailbox(&self) -> &Mailbox<D::Message> {
        &self.mailbox
    }

    /// For everybody but the owner. `None`: leave a message, and then call [`HandOver::hand_over`].
    pub(super) fn try_lock(&self) -> Option<Held<'_, D>> {
        for _ in 0..TRIES {
            match self.desk.try_lock() {
                Ok(desk) => return Some(self.held(desk)),
                Err(TryLockError::WouldBlock) => spin_loop(),
                Err(TryLockError::Poisoned(_)) => return None,
            }
        }
        None
    }

    fn held<'a>(&'a self, desk: MutexGuard<'a, Option<D>>) -> Held<'a, D> {
        let mailbox = &self.mailbox;
        Held { desk, mailbox }
    }

    /// Deals with the messages that were left meanwhile, gives the lock back, and wakes the owner if
    /// there is something for it to do.
    pub(super) fn leave<'a>(&'a self, mut held: Held<'a, D>) {
        let mut is_needed = false;
        loop {
            let Some(desk) = held.as_mut() else { return };
            is_needed |= desk.take_in(&self.mailbox);
            drop(held);
            fence(Ordering::SeqCst);
            // What was left between the last look and the unlocking.
            if self.mailbox.is_empty() {
                break;
            }
            match self.desk.try_lock() {
                Ok(again) => held = self.held(again),
                // Whoever has it now does the same.
                Err(_) => break,
            }
        }
        if is_needed {
            self.mailbox.wake();
        }
    }

    /// Sees to it that the message just left is dealt with: by whoever holds the lock, or here.
    pub(super) fn hand_over(&self) {
        fence(Ordering::SeqCst);
        match self.desk.try_lock() {
            Ok(desk) => self.leave(self.held(desk)),
            Err(TryLockError::WouldBlock) => {}
            // The owner will find out.
            Err(TryLockError::Poisoned(_)) => self.mailbox.wake(),
        }
    }

    /// For the owner, which deals with what is left meanwhile in its next [`HandOver::before_sleep`].
    ///
    /// # Errors
    /// If a call panicked with the lock held, or the lock is closed.
    pub(super) fn locked<R>(&self, call: impl FnOnce(&mut D) -> R) -> io::Result<R> {
        let guard = self.desk.lock().ok();
        let mut desk = guard.filter(|desk| desk.is_some());
        let desk = desk.as_mut().and_then(|desk| desk.as_mut());
        desk.map(call)
            .ok_or_else(|| io::Error::other("a call broke the device's engine"))
    }

    /// For the owner, about to sleep: as [`HandOver::locked`], and whether it may sleep. If not, there
    /// are messages that were left while it held the lock.
    ///
    /// # Errors
    /// As [`HandOver::locked`].
    pub(super) fn before_sleep<R>(&self, call: impl FnOnce(&mut D) -> R) -> io::Result<(R, bool)> {
        let result = self.locked(call)?;
        fence(Ordering::SeqCst);
        Ok((result, self.mailbox.is_empty()))
    }

    /// Takes out what is protected; messages left so far and later are dropped.
    pub(super) fn close(&self) -> Option<D> {
        self.mailbox.close();
        let mut guard = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
        guard.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::mailbox::Waker;

    struct Numbers(Vec<u32>);

    impl Desk for Numbers {
        type Message = u32;

        fn take_in(&mut self, mailbox: &Mailbox<u32>) -> bool {
            mailbox.take(&mut self.0);
            false
        }
    }

    fn lock() -> (HandOver<Numbers>, Arc<Waker>) {
        let waker = Waker::new().expect("eventfd");
        let lock = HandOver::new(Mailbox::new(Arc::clone(&waker)));
        lock.open(Numbers(Vec::new()));
        (lock, waker)
    }

    #[test]
    fn whoever_holds_the_lock_deals_with_what_was_left() {
        let (lock, _waker) = lock();
        let held = lock.try_lock().expect("free");
        assert!(lock.try_lock().is_none(), "taken");
        lock.mailbox().post_quietly(7);
        lock.hand_over();
        lock.leave(held);
        let numbers = lock.locked(|numbers| numbers.0.clone()).expect("sound");
        assert_eq!(numbers, [7]);
    }

    /// What others left under the panic is dealt with by nobody, until the owner finds out.
    #[test]
    fn a_holder_that_panics_wakes_the_owner() {
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
        assert!(!waker.begin_sleep(), "it was woken");
        assert!(lock.locked(|_| ()).is_err(), "and finds the lock broken");
        lock.hand_over();
        assert!(lock.close().is_some(), "what it holds can still be ended");
        assert!(lock.close().is_none());
    }
}
