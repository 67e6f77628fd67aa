//! Replacement of `server/storage/src/sync.rs`.

use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
use std::time::Duration;

use loom::sync::Condvar;
use loom::sync::atomic::AtomicUsize;

pub(crate) use loom::hint::spin_loop;
pub(crate) use loom::sync::atomic::{AtomicU8, Ordering, fence};

/// One attempt is enough: another only repeats the same orders.
pub(crate) const TRIES: u32 = 1;

/// Event on which one thread sleeps and that others signal.
#[derive(Debug)]
pub(crate) struct WakeEvent {
    is_signalled: loom::sync::Mutex<bool>,
    changed: Condvar,
}

impl WakeEvent {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            is_signalled: loom::sync::Mutex::new(false),
            changed: Condvar::new(),
        })
    }

    pub(crate) fn signal(&self) {
        *self.lock() = true;
        self.changed.notify_one();
    }

    /// No time passes here: a sleeping thread is woken, or sleeps indefinitely.
    pub(crate) fn wait(&self, _timeout: Option<Duration>) -> io::Result<bool> {
        let mut is_signalled = self.lock();
        while !*is_signalled {
            is_signalled = self
                .changed
                .wait(is_signalled)
                .unwrap_or_else(|broken| broken.into_inner());
        }
        Ok(true)
    }

    pub(crate) fn clear(&self) {
        *self.lock() = false;
    }

    fn lock(&self) -> loom::sync::MutexGuard<'_, bool> {
        self.is_signalled
            .lock()
            .unwrap_or_else(|broken| broken.into_inner())
    }
}

/// A lock whose release is a separate step. In loom's lock it is not, so a thread that finds the
/// lock taken just before its release would never be tried.
#[derive(Debug)]
pub(crate) struct Mutex<T> {
    inner: loom::sync::Mutex<T>,
    steps: AtomicUsize,
}

/// Guard of the lock.
#[derive(Debug)]
pub(crate) struct MutexGuard<'a, T> {
    // Dropped after the step.
    inner: loom::sync::MutexGuard<'a, T>,
    steps: &'a AtomicUsize,
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            inner: loom::sync::Mutex::new(value),
            steps: AtomicUsize::new(0),
        }
    }

    pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        self.steps.fetch_add(1, Ordering::AcqRel);
        match self.inner.lock() {
            Ok(guard) => Ok(self.guard(guard)),
            Err(broken) => Err(PoisonError::new(self.guard(broken.into_inner()))),
        }
    }

    pub(crate) fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        self.steps.fetch_add(1, Ordering::AcqRel);
        match self.inner.try_lock() {
            Ok(guard) => Ok(self.guard(guard)),
            Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
            Err(TryLockError::Poisoned(broken)) => {
                let guard = self.guard(broken.into_inner());
                Err(TryLockError::Poisoned(PoisonError::new(guard)))
            }
        }
    }

    fn guard<'a>(&'a self, inner: loom::sync::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let steps = &self.steps;
        MutexGuard { inner, steps }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.steps.fetch_add(1, Ordering::AcqRel);
    }
}
