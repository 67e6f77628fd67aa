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

    /// Waits until all earlier partitions have used the value, or the caller gave up. Partitions start
    /// in order, so the awaited one is in progress, unless it failed.
    pub(crate) fn take<R>(&self, part: usize, f: impl FnOnce(&mut T) -> R) -> R {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let mut held = self
            .next
            .wait_while(held, |held| held.0 < part)
            .unwrap_or_else(PoisonError::into_inner);
        let result = f(&mut held.1);
        held.0 = held.0.max(part.saturating_add(1));
        self.next.notify_all();
        result
    }

    /// A partition failed: none waits for its turn any more. What they do with the value is then
    /// without meaning.
    pub(crate) fn give_up(&self) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.0 = usize::MAX;
        self.next.notify_all();
    }

    pub(crate) fn into_inner(self) -> T {
        self.held
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
            .1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partition_waits_for_earlier_ones_unless_one_failed() {
        let turns = OrderedTurns::new(Vec::new());
        std::thread::scope(|scope| {
            let second = scope.spawn(|| turns.take(1, |used| used.push(1)));
            turns.take(0, |used| used.push(0));
            second.join().expect("its turn has come");
            let last = scope.spawn(|| turns.take(7, |used| used.push(7)));
            turns.give_up();
            last.join().expect("it no longer waits");
        });
        assert_eq!(turns.into_inner(), [0, 1, 7]);
    }
}
