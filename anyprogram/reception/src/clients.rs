//! Programs that wait, so that no one of them takes all places.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Calls of one process that may wait at a time, as many as the library lets through.
const WAITING_MAX: u32 = 256;

/// How many calls of each process wait.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clients(Arc<Mutex<HashMap<i32, u32>>>);

/// The place of one call that waits; given back when dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    clients: Clients,
    pid: i32,
}

impl Clients {
    /// A place for a call of a process, if it has not too many.
    pub(crate) fn seat(&self, pid: i32) -> Option<Seat> {
        let mut waiting = self.lock();
        let count = waiting.entry(pid).or_insert(0);
        if *count >= WAITING_MAX {
            return None;
        }
        *count += 1;
        let clients = self.clone();
        Some(Seat { clients, pid })
    }

    /// Processes with a call that waits.
    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i32, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
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
    fn one_process_cannot_take_the_places_of_others() {
        let clients = Clients::default();
        let seats: Vec<Seat> = (0..).map_while(|_| clients.seat(7)).collect();
        assert_eq!(seats.len(), WAITING_MAX as usize);
        assert!(clients.seat(8).is_some());
        drop(seats);
        assert_eq!(clients.count(), 0);
        assert!(clients.seat(7).is_some());
    }
}
