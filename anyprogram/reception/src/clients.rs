//! Limit on waiting calls per process, so that no program takes all capacity.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Waiting calls per process, as many as the library allows.
const WAITING_MAX: u32 = 256;

/// Number of waiting calls of each process.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallLimits(Arc<Mutex<HashMap<i32, u32>>>);

/// Permit of one waiting call; released when dropped.
#[derive(Debug)]
pub(crate) struct CallPermit {
    clients: CallLimits,
    pid: i32,
}

impl CallLimits {
    /// A permit for a call of a process, unless the process has too many.
    pub(crate) fn seat(&self, pid: i32) -> Option<CallPermit> {
        let mut waiting = self.lock();
        let count = waiting.entry(pid).or_insert(0);
        if *count >= WAITING_MAX {
            return None;
        }
        *count += 1;
        let clients = self.clone();
        Some(CallPermit { clients, pid })
    }

    /// Number of processes with a waiting call.
    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i32, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        let mut waiting = self.clients.lock();
        if let Some(count) = waiting.get_mut(&self.pid) {
            *count -= 1;
            if *count == 0 {
                waiting.remove(&self.pid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_calls_are_limited_per_process() {
        let clients = CallLimits::default();
        let seats: Vec<CallPermit> = (0..).map_while(|_| clients.seat(7)).collect();
        assert_eq!(seats.len(), WAITING_MAX as usize);
        assert!(clients.seat(8).is_some());
        drop(seats);
        assert_eq!(clients.count(), 0);
        assert!(clients.seat(7).is_some());
    }
}
