//! Connection threads: one for each processor, each with its own event loop.
//!
//! A connection stays on the thread that it was assigned when it was accepted. No work moves
//! between threads and no thread is woken to steal work; for small replies that would cost more
//! than the reply.
//!
//! Invariants: a connection counts on its thread exactly as long as its [`ThreadSlot`] lives; a thread
//! ends when [`ConnectionThreads`] is dropped, which also drops the tasks on it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Polls of tasks between two looks at sockets and timers, and at new connections, while there are
/// tasks to run. With the library's 61 and 31, a viewer was noticed only after as many connections
/// had their turn.
const POLLS_PER_LOOK: u32 = 8;
const POLLS_PER_NEW_TASK: u32 = 4;
/// Threads of a runtime for blocking calls, such as compressing a text.
const BLOCKING_THREADS_MAX: usize = 8;

/// Threads that run connections.
#[derive(Debug)]
pub struct ConnectionThreads {
    threads: Vec<WorkerThread>,
}

#[derive(Debug)]
struct WorkerThread {
    handle: Handle,
    connections: Arc<AtomicUsize>,
    /// Dropping it ends the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A connection's slot on a thread.
#[derive(Debug)]
pub(super) struct ThreadSlot {
    connections: Arc<AtomicUsize>,
    handle: Handle,
}

impl ConnectionThreads {
    /// Starts `count` threads, at least one.
    ///
    /// # Errors
    /// The system has no more threads or descriptors.
    pub fn start(count: usize) -> io::Result<Self> {
        let threads = (0..count.max(1)).map(WorkerThread::start);
        let threads = threads.collect::<io::Result<_>>()?;
        Ok(Self { threads })
    }

    /// A slot on the thread with the fewest connections.
    pub(super) fn seat(&self) -> Option<ThreadSlot> {
        let fewest = |one: &&WorkerThread| one.connections.load(Relaxed);
        let one = self.threads.iter().min_by_key(fewest)?;
        one.connections.fetch_add(1, Relaxed);
        Some(ThreadSlot {
            connections: Arc::clone(&one.connections),
            handle: one.handle.clone(),
        })
    }

    /// A handle to check that the threads respond.
    pub fn pulse(&self) -> ThreadResponsiveness {
        ThreadResponsiveness(self.threads.iter().map(|one| one.handle.clone()).collect())
    }
}

/// Checks that the threads respond, without keeping them alive.
#[derive(Debug)]
pub struct ThreadResponsiveness(Vec<Handle>);

impl ThreadResponsiveness {
    /// Returns once each thread has run a task, or has ended.
    pub async fn beat(&self) {
        for handle in &self.0 {
            let _ = handle.spawn(async {}).await;
        }
    }
}

impl WorkerThread {
    fn start(number: usize) -> io::Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .event_interval(POLLS_PER_LOOK)
            .global_queue_interval(POLLS_PER_NEW_TASK)
            .build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name(format!("connections-{number}"))
            .spawn(move || {
                // A dropped sender also means stop.
                let _ = runtime.block_on(stopped);
                // A call that hangs in a dead file system must not keep the process alive.
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
                tracing::error!("connection thread panicked");
            }
        }
    }
}

impl ThreadSlot {
    /// Handle of the thread's runtime.
    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for ThreadSlot {
    fn drop(&mut self) {
        self.connections.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(threads: &ConnectionThreads) -> Vec<usize> {
        let of = |one: &WorkerThread| one.connections.load(Relaxed);
        threads.threads.iter().map(of).collect()
    }

    #[test]
    fn connection_goes_to_thread_with_fewest() {
        let threads = ConnectionThreads::start(3).expect("three threads");
        let mut seats: Vec<ThreadSlot> = (0..7).filter_map(|_| threads.seat()).collect();
        let mut spread = counts(&threads);
        spread.sort_unstable();
        assert_eq!(spread, [2, 2, 3]);
        // Close one connection of the first thread.
        let first = Arc::clone(&threads.threads[0].connections);
        let is_of_first = |seat: &ThreadSlot| Arc::ptr_eq(&seat.connections, &first);
        let place = seats.iter().position(is_of_first).expect("it has some");
        seats.remove(place);
        let before = counts(&threads)[0];
        seats.extend(threads.seat());
        assert_eq!(counts(&threads)[0], before + 1);
        drop(seats);
        assert_eq!(counts(&threads), [0, 0, 0]);
    }

    #[test]
    fn pulse_waits_for_blocked_threads_but_not_ended_ones() {
        let threads = ConnectionThreads::start(2).expect("two threads");
        let pulse = threads.pulse();
        let waiting = Builder::new_current_thread().build().expect("a runtime");
        waiting.block_on(pulse.beat());
        let (free, held) = std::sync::mpsc::channel::<()>();
        // Blocks the thread like a hanging look-up.
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
    fn tasks_end_with_their_thread() {
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
