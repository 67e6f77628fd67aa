//! The threads that connections live on, one for each processor, each with its own event loop.
//!
//! The one idea: a connection stays on the thread that it was given when it was accepted. Nothing of
//! it is handed to another thread, and none is woken to look for work; with small replies that costs
//! more than the reply.
//!
//! Invariants: a connection counts on its thread exactly as long as its [`Seat`] lives; a thread ends
//! when [`ConnectionThreads`] is dropped, and what still runs there is dropped with it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Threads of a runtime that are for what may block, as compressing a text.
const BLOCKING_THREADS_MAX: usize = 8;

/// Threads for connections.
#[derive(Debug)]
pub struct ConnectionThreads {
    threads: Vec<One>,
}

#[derive(Debug)]
struct One {
    handle: Handle,
    connections: Arc<AtomicUsize>,
    /// Dropped, it ends the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A connection's place on a thread.
#[derive(Debug)]
pub(super) struct Seat {
    connections: Arc<AtomicUsize>,
    handle: Handle,
}

impl ConnectionThreads {
    /// Starts `count` threads, at least one.
    ///
    /// # Errors
    /// What the system said, if it has no more threads or descriptors.
    pub fn start(count: usize) -> io::Result<Self> {
        let threads = (0..count.max(1)).map(One::start);
        let threads = threads.collect::<io::Result<_>>()?;
        Ok(Self { threads })
    }

    /// A place where there are fewest connections.
    pub(super) fn seat(&self) -> Option<Seat> {
        let fewest = |one: &&One| one.connections.load(Relaxed);
        let one = self.threads.iter().min_by_key(fewest)?;
        one.connections.fetch_add(1, Relaxed);
        Some(Seat {
            connections: Arc::clone(&one.connections),
            handle: one.handle.clone(),
        })
    }

    /// What tells whether they work.
    pub fn pulse(&self) -> Pulse {
        Pulse(self.threads.iter().map(|one| one.handle.clone()).collect())
    }
}

/// Tells whether threads work; it keeps none of them.
#[derive(Debug)]
pub struct Pulse(Vec<Handle>);

impl Pulse {
    /// Returns once each thread has handled an event, or has ended.
    pub async fn beat(&self) {
        for handle in &self.0 {
            let _ = handle.spawn(async {}).await;
        }
    }
}

impl One {
    fn start(number: usize) -> io::Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name(format!("connections-{number}"))
            .spawn(move || {
                // That the sender is gone says the same.
                let _ = runtime.block_on(stopped);
                // What hangs in a dead file system must not keep the process alive.
                runtime.shutdown_background();
            })?;
        Ok(Self {
            handle,
            connections: Arc::default(),
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for ConnectionThreads {
    fn drop(&mut self) {
        for one in &mut self.threads {
            one.stop = None;
        }
        for one in &mut self.threads {
            if let Some(thread) = one.thread.take()
                && thread.join().is_err()
            {
                tracing::error!("a thread for connections panicked");
            }
        }
    }
}

impl Seat {
    /// Of the thread's runtime.
    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.connections.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(threads: &ConnectionThreads) -> Vec<usize> {
        let of = |one: &One| one.connections.load(Relaxed);
        threads.threads.iter().map(of).collect()
    }

    #[test]
    fn each_connection_goes_where_there_are_fewest() {
        let threads = ConnectionThreads::start(3).expect("three threads");
        let mut seats: Vec<Seat> = (0..7).filter_map(|_| threads.seat()).collect();
        let mut spread = counts(&threads);
        spread.sort_unstable();
        assert_eq!(spread, [2, 2, 3]);
        // All but one of the first thread's leave.
        let first = Arc::clone(&threads.threads[0].connections);
        let is_of_first = |seat: &Seat| Arc::ptr_eq(&seat.connections, &first);
        let place = seats.iter().position(is_of_first).expect("it has some");
        seats.remove(place);
        let before = counts(&threads)[0];
        seats.extend(threads.seat());
        assert_eq!(counts(&threads)[0], before + 1);
        drop(seats);
        assert_eq!(counts(&threads), [0, 0, 0]);
    }

    #[test]
    fn a_pulse_waits_for_a_thread_that_is_held_up_and_for_none_that_has_ended() {
        let threads = ConnectionThreads::start(2).expect("two threads");
        let pulse = threads.pulse();
        let waiting = Builder::new_current_thread().build().expect("a runtime");
        waiting.block_on(pulse.beat());
        let (free, held) = std::sync::mpsc::channel::<()>();
        // As a look-up that hangs would hold it.
        threads.threads[1].handle.spawn(async move { held.recv() });
        let mut beat = std::pin::pin!(pulse.beat());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        for _ in 0..100 {
            assert!(beat.as_mut().poll(&mut context).is_pending());
            std::thread::yield_now();
        }
        drop(free);
        waiting.block_on(beat);
        drop(threads);
        waiting.block_on(pulse.beat());
    }

    #[test]
    fn what_runs_on_a_thread_ends_with_it() {
        let threads = ConnectionThreads::start(1).expect("a thread");
        let seat = threads.seat().expect("a place");
        let kept = Arc::new(());
        let held = Arc::clone(&kept);
        let task = seat.handle().spawn(async move {
            let _held = held;
            std::future::pending::<()>().await;
        });
        drop(threads);
        assert_eq!(Arc::strong_count(&kept), 1);
        assert!(task.is_finished());
    }
}
