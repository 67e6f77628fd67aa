//! Supervisor of a device thread: restarts the device if its thread ends by an error or panic.
//!
//! All state of the thread is discarded (replies in progress fail, memory is released) and rebuilt
//! after a pause that grows while the device keeps failing. Until then the device is out of
//! service, and requests are refused without delay.
//!
//! Invariant: the memory of two threads of one device is never held at the same time: a restart
//! waits until every piece and every read of the old thread has released its memory.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use headlong_engine::EngineConfig;
use headlong_kernel::raw::Pool;

use super::device_flags::DeviceFlags;
use super::link::Link;
use super::start_error::StartError;
use super::thread::DeviceThread;

/// Pause before the first restart; doubled after each restart that fails early.
const PAUSE_MIN: Duration = Duration::from_millis(500);
/// Upper limit of the pause.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// A thread that ran this long counts as healthy and resets the pause.
const LASTING: Duration = Duration::from_secs(300);

/// A device thread before it runs, with the data its supervisor needs.
pub(crate) struct DeviceThreadStart {
    pub(crate) name: String,
    pub(crate) config: EngineConfig,
    pub(crate) flags: Arc<DeviceFlags>,
    pub(crate) memory: Weak<Pool>,
    pub(crate) thread: DeviceThread,
}

/// State shared by a device's handle and its threads.
pub(crate) struct SupervisorShared {
    now: Mutex<CurrentThread>,
    stopped: Condvar,
    flags: Arc<DeviceFlags>,
}

struct CurrentThread {
    link: Arc<Link>,
    config: EngineConfig,
    is_stopped: bool,
}

impl SupervisorShared {
    pub(crate) fn new(first: &DeviceThreadStart) -> Self {
        Self {
            now: Mutex::new(CurrentThread {
                link: Arc::clone(first.thread.link()),
                config: first.config,
                is_stopped: false,
            }),
            stopped: Condvar::new(),
            flags: Arc::clone(&first.flags),
        }
    }

    /// The link to the current engine, or to the last one.
    pub(crate) fn current(&self) -> Arc<Link> {
        Arc::clone(&self.lock().link)
    }

    /// Settings in force, which a restart also uses.
    pub(crate) fn config(&self) -> EngineConfig {
        self.lock().config
    }

    /// Sets new settings, except the sizes of pieces and memory.
    pub(crate) fn set_config(&self, config: EngineConfig) {
        let mut now = self.lock();
        now.config = EngineConfig {
            piece_bytes: now.config.piece_bytes,
            memory_bytes: now.config.memory_bytes,
            ..config
        };
    }

    pub(crate) fn flags(&self) -> &DeviceFlags {
        &self.flags
    }

    /// Stops the device permanently.
    pub(crate) fn stop(&self) {
        let mut now = self.lock();
        now.is_stopped = true;
        let link = Arc::clone(&now.link);
        drop(now);
        link.stop();
        self.stopped.notify_all();
    }

    /// Waits for `pause`. Returns whether the device should continue.
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

    fn lock(&self) -> MutexGuard<'_, CurrentThread> {
        // Each change under the lock is a single assignment.
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a device until it is stopped. Whenever its thread ends for another reason, `make` builds
/// the next one.
pub(crate) fn supervise(
    first: DeviceThreadStart,
    shared: &SupervisorShared,
    mut make: impl FnMut(EngineConfig, Arc<DeviceFlags>) -> Result<DeviceThreadStart, StartError>,
) {
    let mut next = Some(first);
    let mut pause = PAUSE_MIN;
    while let Some(start) = next.take() {
        let (device, memory) = (start.name, start.memory);
        let began = Instant::now();
        let run = AssertUnwindSafe(|| start.thread.run());
        match catch_unwind(run) {
            Ok(Ok(())) => return,
            Ok(Err(error)) => tracing::error!(device, %error, "device thread failed"),
            Err(_) => tracing::error!(device, "device thread panicked"),
        }
        shared.flags.set_offline(true);
        if began.elapsed() >= LASTING {
            pause = PAUSE_MIN;
        }
        while next.is_none() {
            tracing::warn!(device, ?pause, "device will be restarted after a pause");
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
    shared: &SupervisorShared,
    make: &mut impl FnMut(EngineConfig, Arc<DeviceFlags>) -> Result<DeviceThreadStart, StartError>,
) -> Option<DeviceThreadStart> {
    if memory.strong_count() > 0 {
        tracing::warn!(
            device,
            "restart delayed: reads or replies of the device still hold its memory"
        );
        return None;
    }
    // The pieces that were held are released with the old memory.
    shared.flags.set_held_by_clients(false);
    let start = match make(shared.config(), Arc::clone(&shared.flags)) {
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
    shared.flags.set_offline(false);
    tracing::info!(device, "device restarted");
    Some(start)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::build::make;
    use crate::completion::Completion;
    use crate::disk_read::DiskRead;
    use crate::io::{DiskIo, IoMode};
    use crate::message::DeviceMessage;
    use crate::rig::small_device;

    /// An I/O interface that fails every wait.
    struct BrokenIo;

    impl DiskIo for BrokenIo {
        fn submit(&mut self, _read: DiskRead) {}

        fn wait(&mut self, _: Option<Duration>, _: &mut Vec<Completion>) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn mode(&self) -> IoMode {
            IoMode::Pread
        }
    }

    #[test]
    fn restarted_device_is_not_held_by_clients() {
        let config = small_device();
        let first = make(&config, config.engine, Arc::default()).expect("made");
        let shared = SupervisorShared::new(&first);
        drop(first);
        shared.flags().set_held_by_clients(true);
        let restarted = restart("test", &Weak::new(), &shared, &mut |engine, flags| {
            make(&config, engine, flags)
        });
        assert!(restarted.is_some());
        assert!(!shared.flags().is_held_by_clients());
    }

    #[test]
    fn device_goes_offline_and_restarts_after_its_thread_ends() {
        let config = small_device();
        let mut first = make(&config, config.engine, Arc::default()).expect("made");
        first.thread.io = Box::new(BrokenIo);
        let shared = Arc::new(SupervisorShared::new(&first));
        let before = shared.current();
        let supervised = Arc::clone(&shared);
        let seen = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            supervise(first, &supervised, move |engine, flags| {
                assert!(seen.flags().is_offline(), "offline until it restarts");
                make(&config, engine, flags)
            });
        });
        while Arc::ptr_eq(&before, &shared.current()) || shared.flags().is_offline() {
            std::thread::sleep(Duration::from_millis(10));
        }
        let (answer, answered) = tokio::sync::oneshot::channel();
        shared.current().post(DeviceMessage::Snapshot(answer));
        let snapshot = answered.blocking_recv().expect("the new thread answers");
        assert_eq!(snapshot.name, "test");
        shared.stop();
        thread.join().expect("no panic");
    }
}
