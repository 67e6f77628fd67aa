//! Turns in the order of partitions, although these are processed concurrently.

use std::sync::{Condvar, Mutex, PoisonError};

/// A value that partitions use in order, although they are processed concurrently.
pub(crate) struct OrderedTurns<T> {
    held: Mutex<(usize, T)>,
    next: Condvar,
}

impl<T> OrderedTurns<T> {
    pub(crate) fn new(held: T) -> Self {
        Self {
            held: Mutex::new((0, held)),
            next: Condvar::new(),
        }
    }

    /// Waits until all earlier partitions have used the value. Partitions start in order, so the
    /// awaited one is always in progress.
    pub(crate) fn take<R>(&self, part: usize, f: impl FnOnce(&mut T) -> R) -> R {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let mut held = self
            .next
            .wait_while(held, |held| held.0 < part)
            .unwrap_or_else(PoisonError::into_inner);
        let result = f(&mut held.1);
        held.0 = held.0.max(part + 1);
        self.next.notify_all();
        result
    }

    pub(crate) fn into_inner(self) -> T {
        self.held
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
            .1
    }
}
