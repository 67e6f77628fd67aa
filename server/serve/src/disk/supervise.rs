//! A device's thread, started again should it end unasked.
//!
//! The one idea: what the thread owns is thrown away as a whole (replies in progress fail, memory
//! goes back), and made anew after a pause that grows while the device keeps failing. Until then
//! the device is out of service, and nobody waits for it.
//!
//! Invariant: the memory of two threads of one device is never held at once, so a new one waits
//! until every piece and every read of the old one has let go of its memory.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use headlong_engine::EngineConfig;

use super::link::Link;
use super::start_error::StartError;
use super::thread::DeviceThread;
use crate::raw::Pool;

/// Before the first new start; doubled with each that does not last.
const PAUSE_MIN: Duration = Duration::from_millis(500);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// A thread that ran for so long was well.
const LASTING: Duration = Duration::from_secs(300);

/// A device's thread before it runs, and what is to be known of it.
pub(crate) struct Start {
    pub(crate) name: String,
    pub(crate) config: EngineConfig,
    pub(crate) is_offline: Arc<AtomicBool>,
    pub(crate) memory: Weak<Pool>,
    pub(crate) thread: DeviceThread,
}

/// What a device's handle and its threads share.
pub(crate) struct Shared {
    now: Mutex<Now>,
    stopped: Condvar,
    is_offline: Arc<AtomicBool>,
}

struct Now {
    link: Arc<Link>,
    config: EngineConfig,
    is_stopped: bool,
}

impl Shared {
    pub(crate) fn new(first: &Start) -> Self {
        Self {
            now: Mutex::new(Now {
                link: Arc::clone(first.thread.link()),
                config: first.config,
                is_stopped: false,
            }),
            stopped: Condvar::new(),
            is_offline: Arc::clone(&first.is_offline),
        }
    }

    /// The way to the engine that runs, or to the last one.
    pub(crate) fn current(&self) -> Arc<Link> {
        Arc::clone(&self.lock().link)
    }

    /// Settings in force, which the next thread gets.
    pub(crate) fn config(&self) -> EngineConfig {
        self.lock().config
    }

    /// Other settings; the sizes of pieces and memory stay.
    pub(crate) fn set_config(&self, config: EngineConfig) {
        let mut now = self.lock();
        now.config = EngineConfig {
            piece_bytes: now.config.piece_bytes,
            memory_bytes: now.config.memory_bytes,
            ..config
        };
    }

    /// Whether the device is out of service.
    pub(crate) fn is_offline(&self) -> bool {
        self.is_offline.load(Ordering::Relaxed)
    }

    /// Ends the thread, for good.
    pub(crate) fn stop(&self) {
        let mut now = self.lock();
        now.is_stopped = true;
        let link = Arc::clone(&now.link);
        drop(now);
        link.stop();
        self.stopped.notify_all();
    }

    /// Waits; whether the device is to go on after that.
    fn pause(&self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        let mut now = self.lock();
        while !now.is_stopped {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            let woken = self.stopped.wait_timeout(now, left);
            now = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }

    fn lock(&self) -> MutexGuard<'_, Now> {
        // Every change under the lock is one assignment.
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a device until it is told to stop, with a new thread's belongings by `make` whenever it ends
/// for another reason.
pub(crate) fn supervise(
    first: Start,
    shared: &Shared,
    mut make: impl FnMut(EngineConfig, Arc<AtomicBool>) -> Result<Start, StartError>,
) {
    let mut next = Some(first);
    let mut pause = PAUSE_MIN;
    while let Some(start) = next.take() {
        let (device, memory) = (start.name, start.memory);
        let began = Instant::now();
        let run = AssertUnwindSafe(|| start.thread.run());
        match catch_unwind(run) {
            Ok(Ok(())) => return,
            Ok(Err(error)) => tracing::error!(device, %error, "the device cannot be read any more"),
            Err(_) => tracing::error!(device, "the device's thread panicked"),
        }
        shared.is_offline.store(true, Ordering::Relaxed);
        if began.elapsed() >= LASTING {
            pause = PAUSE_MIN;
        }
        while next.is_none() {
            tracing::warn!(device, ?pause, "the device is started again after a pause");
            if !shared.pause(pause) {
                return;
            }
            pause = (pause * 2).min(PAUSE_MAX);
            next = restart(&device, &memory, shared, &mut make);
        }
    }
}

fn restart(
    device: &str,
    memory: &Weak<Pool>,
    shared: &Shared,
    make: &mut impl FnMut(EngineConfig, Arc<AtomicBool>) -> Result<Start, StartError>,
) -> Option<Start> {
    if memory.strong_count() > 0 {
        tracing::warn!(
            device,
            "reads or replies of the device still hold its memory"
        );
        return None;
    }
    let start = match make(shared.config(), Arc::clone(&shared.is_offline)) {
        Ok(start) => start,
        Err(error) => {
            tracing::error!(device, "{error}");
            return None;
        }
    };
    let mut now = shared.lock();
    now.link = Arc::clone(start.thread.link());
    if now.is_stopped {
        return None;
    }
    drop(now);
    shared.is_offline.store(false, Ordering::Relaxed);
    tracing::info!(device, "the device is started again");
    Some(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::completion::Completion;
    use crate::disk::io::{DiskIo, IoMode};
    use crate::disk::making::make;
    use crate::disk::message::Message;
    use crate::disk::rig::small_device;
    use crate::disk::transfer::Transfer;
    use std::io;

    /// Nothing can be read by it.
    struct BrokenIo;

    impl DiskIo for BrokenIo {
        fn submit(&mut self, _read: Transfer) {}

        fn wait(&mut self, _: Option<Duration>, _: &mut Vec<Completion>) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn mode(&self) -> IoMode {
            IoMode::Pread
        }
    }

    #[test]
    fn a_device_whose_thread_ends_is_out_of_service_and_started_again() {
        let config = small_device();
        let mut first = make(&config, config.engine, Arc::default()).expect("made");
        first.thread.io = Box::new(BrokenIo);
        let shared = Arc::new(Shared::new(&first));
        let before = shared.current();
        let supervised = Arc::clone(&shared);
        let seen = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            supervise(first, &supervised, move |engine, is_offline| {
                assert!(seen.is_offline(), "until it is there again");
                make(&config, engine, is_offline)
            });
        });
        while Arc::ptr_eq(&before, &shared.current()) || shared.is_offline() {
            std::thread::sleep(Duration::from_millis(10));
        }
        let (answer, answered) = tokio::sync::oneshot::channel();
        shared.current().post(Message::Snapshot(answer));
        let snapshot = answered.blocking_recv().expect("the new thread answers");
        assert_eq!(snapshot.name, "test");
        shared.stop();
        thread.join().expect("it ends");
    }
}
