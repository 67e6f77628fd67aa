//! Counts of which each thread has its own part, for what all threads count all the time.
//!
//! The one idea: two processors that write to one line of memory take it from each other, and a small
//! reply that does so twenty times costs a quarter more for it. What is only looked at now and then is
//! kept in parts, and put together by who looks.
//!
//! Invariant: which thread counts into which part matters to nobody but the processors.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Threads beyond so many share parts.
const PARTS: usize = 32;
const NONE: usize = usize::MAX;

/// As far from others as processors fetch memory at once.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart<T>(T);

/// A part for each thread.
#[derive(Debug)]
pub(crate) struct ByThread<T>(Box<[Apart<T>]>);

impl<T: Default> Default for ByThread<T> {
    fn default() -> Self {
        Self((0..PARTS).map(|_| Apart::default()).collect())
    }
}

impl<T> ByThread<T> {
    /// That of the present thread.
    pub(crate) fn mine(&self) -> &T {
        &self.0[number() % PARTS].0
    }

    /// All of them.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|part| &part.0)
    }

    /// What all parts have of something; a part may be below zero if others are above.
    pub(crate) fn sum(&self, of: impl Fn(&T) -> u64) -> u64 {
        self.parts().map(of).fold(0, u64::wrapping_add)
    }
}

/// Of the present thread, in the order in which threads asked for one.
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
    fn what_more_threads_than_parts_count_is_all_there_in_the_sum() {
        let counts = ByThread::<AtomicU64>::default();
        let add = |by: u64| counts.mine().fetch_add(by, Relaxed);
        std::thread::scope(|scope| {
            for by in 0..2 * PARTS as u64 {
                scope.spawn(move || add(by));
            }
        });
        let all = (0..2 * PARTS as u64).sum::<u64>();
        assert_eq!(counts.sum(|part| part.load(Relaxed)), all);
        // What was counted on one thread may be taken back on another.
        add(all.wrapping_neg());
        assert_eq!(counts.sum(|part| part.load(Relaxed)), 0);
    }
}
