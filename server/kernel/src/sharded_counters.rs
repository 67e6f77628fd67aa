//! Sharded counters: one shard per thread, for values that all threads update constantly.
//!
//! Two processors that write to one cache line invalidate each other's copies: a small reply with
//! twenty such writes costs a quarter more. Values that are read rarely are therefore sharded and
//! summed by the reader.
//!
//! Invariant: the assignment of threads to shards affects only performance.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Number of shards; further threads share them.
const PARTS: usize = 32;
const NONE: usize = usize::MAX;

/// Aligned to the granularity at which processors fetch memory.
#[derive(Debug, Default)]
#[repr(align(128))]
struct CachePadded<T>(T);

/// A shard for each thread.
#[derive(Debug)]
pub struct Sharded<T>(Box<[CachePadded<T>]>);

impl<T: Default> Default for Sharded<T> {
    fn default() -> Self {
        Self((0..PARTS).map(|_| CachePadded::default()).collect())
    }
}

impl<T> Sharded<T> {
    /// The shard of the current thread.
    pub fn mine(&self) -> &T {
        &self.0[number() % PARTS].0
    }

    /// All shards.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|part| &part.0)
    }

    /// The sum over all shards. A shard may wrap below zero if others are above.
    pub fn sum(&self, of: impl Fn(&T) -> u64) -> u64 {
        self.parts().map(of).fold(0, u64::wrapping_add)
    }
}

/// Number of the current thread, assigned on first use.
fn number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: Cell<usize> = const { Cell::new(NONE) };
    }
    NUMBER.with(|number| {
        if number.get() == NONE {
            number.set(NEXT.fetch_add(1, Relaxed));
        }
        number.get()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn sum_is_complete_with_more_threads_than_shards() {
        let counts = Sharded::<AtomicU64>::default();
        let add = |by: u64| counts.mine().fetch_add(by, Relaxed);
        std::thread::scope(|scope| {
            for by in 0..2 * PARTS as u64 {
                scope.spawn(move || add(by));
            }
        });
        let all = (0..2 * PARTS as u64).sum::<u64>();
        assert_eq!(counts.sum(|part| part.load(Relaxed)), all);
        // A value counted on one thread may be subtracted on another.
        add(all.wrapping_neg());
        assert_eq!(counts.sum(|part| part.load(Relaxed)), 0);
    }
}
