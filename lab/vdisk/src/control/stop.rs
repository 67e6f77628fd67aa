//! The request to stop a disk, from any source.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Set once; any thread may wait for it.
#[derive(Debug, Clone, Default)]
pub struct StopSignal(Arc<(Mutex<bool>, Condvar)>);

impl StopSignal {
    /// Sets the signal and wakes all waiters.
    pub fn set(&self) {
        let (is_set, changed) = &*self.0;
        *is_set.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
    }

    /// Waits until it is set.
    pub fn wait(&self) {
        let (is_set, changed) = &*self.0;
        let guard = is_set.lock().unwrap_or_else(PoisonError::into_inner);
        let _guard = changed
            .wait_while(guard, |is_set| !*is_set)
            .unwrap_or_else(PoisonError::into_inner);
    }
}
