//! The engines: one thread for each device, started when a program first reads a file on it.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headlong_engine::{ConfigError, Shard};
use headlong_library::BlockMap;
use headlong_protocol::ANSWERED_MS;
use headlong_report::say;
use headlong_units::{Duration, MIB};

use crate::device::{
    DeviceMessage, DeviceProperties, DeviceThread, InspectionSender, ReadNotice, ThreadStart,
};
use crate::inspection::InspectionRequest;
use crate::readers::{ReadParameters, Readers};
use crate::settings::{Mode, Settings};
use crate::status::Counters;

/// Queue length of a device's thread.
const MESSAGES_MAX: usize = 8192;
/// Threads that inspect the files of a device.
const DESCRIBERS: usize = 8;
/// Devices with a thread; files on further ones are ignored.
const DEVICES_MAX: usize = 64;
/// A socket accepts less than a program requested, and accepts the rest when a slow client has
/// consumed part of it, seconds later.
const SENT_IN: Duration = Duration::from_secs(4);

type RunningDevices = BTreeMap<usize, RunningDevice>;

/// A running device thread; dropping this ends it and releases what it holds.
#[derive(Debug)]
struct RunningDevice {
    messages: SyncSender<DeviceMessage>,
    is_over: Arc<AtomicBool>,
}

impl Drop for RunningDevice {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// The engines of all devices.
pub(crate) struct Engines {
    settings: Settings,
    counters: Arc<Counters>,
    places: Arc<BlockMap>,
    devices: Mutex<RunningDevices>,
}

impl Engines {
    /// Starts no engine yet.
    pub(crate) fn new(
        settings: &Settings,
        counters: &Arc<Counters>,
        places: &Arc<BlockMap>,
    ) -> Self {
        Self {
            settings: settings.clone(),
            counters: Arc::clone(counters),
            places: Arc::clone(places),
            devices: Mutex::default(),
        }
    }

    /// The queue of a device's thread, if it is running.
    pub(crate) fn running(&self, index: usize) -> Option<SyncSender<DeviceMessage>> {
        let devices = self.lock();
        devices.get(&index).map(|device| device.messages.clone())
    }

    /// The queues of all threads.
    pub(crate) fn all(&self) -> Vec<SyncSender<DeviceMessage>> {
        let devices = self.lock();
        devices
            .values()
            .map(|device| device.messages.clone())
            .collect()
    }

    /// Reports a read of a program to all threads. A thread that does not know the file ignores it.
    pub(crate) fn note(&self, note: ReadNotice) {
        for device in self.lock().values() {
            let _ = device.messages.try_send(DeviceMessage::Note(note));
        }
    }

    /// The thread of a device, started if new. The devices share the memory: when one is added, the
    /// others restart with smaller shares, which costs their prefetched data once.
    pub(crate) fn of(&self, index: usize) -> Option<SyncSender<DeviceMessage>> {
        let mut devices = self.lock();
        if let Some(device) = devices.get(&index) {
            return Some(device.messages.clone());
        }
        if devices.len() >= DEVICES_MAX {
            return None;
        }
        let share = self.settings.engine.memory_bytes / (devices.len() as u64 + 1);
        let start = |index: usize| {
            let started = self.start(index, share);
            if let Err(error) = &started {
                say!("headlong: no readahead for files on device {index}: {error}");
            }
            started.ok()
        };
        let device = start(index)?;
        let messages = device.messages.clone();
        let others: Vec<usize> = devices.keys().copied().collect();
        devices.clear();
        let others = others.into_iter().map(|other| (other, start(other)));
        devices.extend(others.filter_map(|(other, device)| Some((other, device?))));
        devices.insert(index, device);
        Some(messages)
    }

    fn start(&self, index: usize, memory_bytes: u64) -> io::Result<RunningDevice> {
        let info = self.places.devices().into_iter().nth(index);
        let info = info.ok_or(io::ErrorKind::NotFound)?;
        let mut engine = self.settings.engine.for_device(info.rotates());
        engine.memory_bytes = memory_bytes;
        // Programs measure in wall time, from the moment they receive the answer.
        let believed = Duration::from_millis(2 * ANSWERED_MS);
        engine.sent_stays = SENT_IN.max(believed.times(self.settings.time_scale.into()));
        let request_bytes = info.request_bytes_max.unwrap_or(engine.request_bytes_max);
        let how = ReadParameters {
            piece_bytes: engine.piece_bytes,
            request_bytes: request_bytes.clamp(engine.piece_bytes, 16 * MIB),
        };
        // Pages of the cache are scattered, so each may be a segment of its own.
        let segments = info.request_segments_max.unwrap_or(u64::MAX);
        let of_pages = segments.saturating_mul(rustix::param::page_size() as u64);
        engine.request_bytes_max = request_bytes.min(of_pages);
        let count = match self.settings.mode {
            Mode::Serialize => 1,
            Mode::Full | Mode::Track => engine.outstanding_reads_max,
        };
        let (sender, messages) = sync_channel(MESSAGES_MAX);
        let shard = Shard::new(engine).map_err(|error: ConfigError| io::Error::other(error))?;
        let done = sender.clone();
        let readers = Readers::start(&info.name, count, how, move |what| {
            let _ = done.send(DeviceMessage::Done(what));
        })?;
        let describe = self.describer(&sender)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let set_up = DeviceProperties {
            is_over: Arc::clone(&is_over),
            name: info.name.clone(),
            mode: self.settings.mode,
            keep_open: self.settings.keep_open,
            time_scale: self.settings.time_scale,
            describe,
        };
        let start = ThreadStart {
            shard,
            readers,
            counters: Arc::clone(&self.counters),
            set_up,
        };
        let thread = DeviceThread::new(start);
        std::thread::Builder::new()
            .name(format!("disk-{}", info.name))
            .spawn(move || thread.run(&messages))?;
        Ok(RunningDevice {
            messages: sender,
            is_over,
        })
    }

    /// Starts the threads that query titles and extents of files, which blocks on the disk: when
    /// hundreds of titles start at once, each query waits for a few blocks.
    fn describer(&self, device: &SyncSender<DeviceMessage>) -> io::Result<InspectionSender> {
        let (files, asked) = channel::<InspectionRequest>();
        let asked = Arc::new(Mutex::new(asked));
        let with_chunks = self.settings.mode == Mode::Full && self.settings.chunk_files_ahead;
        let follows = with_chunks.then(|| Arc::new(headlong_walk::RunHistory::default()));
        for _ in 0..DESCRIBERS {
            let (places, device) = (Arc::clone(&self.places), device.clone());
            let (asked, follows) = (Arc::clone(&asked), follows.clone());
            let next = move || asked.lock().unwrap_or_else(PoisonError::into_inner).recv();
            std::thread::Builder::new()
                .name("describe".to_owned())
                .spawn(move || {
                    while let Ok(question) = next() {
                        let found = question.answer(&places, follows.as_deref());
                        if device.send(DeviceMessage::Found(found)).is_err() {
                            return;
                        }
                    }
                })?;
        }
        Ok(Box::new(move |question| {
            let _ = files.send(question);
        }))
    }

    fn lock(&self) -> MutexGuard<'_, RunningDevices> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
