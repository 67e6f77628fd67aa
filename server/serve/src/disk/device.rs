//! A device as the rest of the server sees it: a handle to its thread.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use headlong_engine::{
    ConfigError, DeviceState, EngineConfig, MemoryUse, QueueUse, Refusal, Request, RequestId,
    Shard, Stats, StreamId,
};
use headlong_units::{BitRate, Bytes};
use thiserror::Error;
use tokio::sync::oneshot;

use super::crew::Crew;
use super::files::Files;
use super::io::{self as disk_io, IoMode, Parts};
use super::mailbox::{Mailbox, Waker};
use super::reply::Reply;
use super::thread::{Ask, DeviceThread, Identity, Message, Start};
use super::{DeviceSnapshot, StreamSource};
use crate::raw::{Pool, QUIESCE_TIME};
use crate::time_scale::TimeScale;

/// Files that a device keeps open unless told otherwise.
pub const OPEN_FILES_MAX_DEFAULT: usize = 1024;

/// What a device is started with.
#[derive(Debug, Clone)]
pub struct DeviceConfig {
    /// Kernel name of the device, or the root's name where there is none.
    pub name: String,
    /// Roots that lie on it.
    pub roots: Vec<PathBuf>,
    /// Whether it is treated as rotating.
    pub rotational: bool,
    /// Capacity in bytes, zero if unknown.
    pub capacity_bytes: u64,
    /// Settings of its shard, with its share of memory.
    pub engine: EngineConfig,
    /// How it is read.
    pub io: IoMode,
    /// Most files kept open ([`OPEN_FILES_MAX_DEFAULT`]); those being read come on top.
    pub open_files_max: usize,
    /// Whether all memory is taken from the system at once.
    pub memory_prefault: bool,
    /// How fast the device's clock goes.
    pub time_scale: TimeScale,
}

/// Why a device cannot be started.
#[derive(Debug, Error)]
pub enum StartError {
    /// The settings cannot work.
    #[error("device {name}: {error}")]
    Config {
        /// The device.
        name: String,
        /// What is wrong, and the remedy.
        error: ConfigError,
    },
    /// The kernel does not give the memory.
    #[error("device {name}: cannot reserve {memory} of memory: {error}; lower memory")]
    Memory {
        /// The device.
        name: String,
        /// What was asked for.
        memory: Bytes,
        /// Why not.
        error: io::Error,
    },
    /// io_uring was demanded and is refused.
    #[error("device {name}: the kernel refuses io_uring: {error}; set io to auto or pread")]
    IoUring {
        /// The device.
        name: String,
        /// Why.
        error: io::Error,
    },
    /// No thread or descriptor is left.
    #[error("device {name}: cannot start its threads: {error}; raise the limits of the process")]
    Threads {
        /// The device.
        name: String,
        /// Why not.
        error: io::Error,
    },
}

/// One device. Clones are handles to the same; the device stops when the last is dropped, or by
/// [`Device::shutdown`].
#[derive(Clone)]
pub struct Device {
    handle: Arc<Handle>,
}

struct Handle {
    mailbox: Arc<Mailbox<Message>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    requests: AtomicU64,
    is_offline: Arc<AtomicBool>,
    name: Arc<str>,
    identity: Identity,
    config: EngineConfig,
}

impl Handle {
    fn take_thread(&self) -> Option<JoinHandle<()>> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        thread.take()
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = &self.handle.identity.name;
        f.debug_struct("Device")
            .field("name", name)
            .finish_non_exhaustive()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.mailbox.post(Message::Shutdown);
    }
}

impl Device {
    /// Reserves the memory and starts the thread. Memory is touched only as it is filled, unless all of
    /// it is to be there from the start.
    pub fn start(config: DeviceConfig) -> Result<Self, StartError> {
        let DeviceConfig {
            name,
            roots,
            rotational,
            capacity_bytes,
            engine,
            io,
            open_files_max,
            memory_prefault,
            time_scale,
        } = config;
        let wrong = |error| StartError::Config {
            name: name.clone(),
            error,
        };
        engine
            .check()
            .next()
            .map_or(Ok(()), |error| Err(wrong(error)))?;
        let short = |error| StartError::Threads {
            name: name.clone(),
            error,
        };

        let slot_count =
            u32::try_from(engine.slot_count()).map_err(|_| wrong(ConfigError::Memory))?;
        let no_memory = |error| StartError::Memory {
            name: name.clone(),
            memory: Bytes(engine.memory_bytes),
            error,
        };
        let pool = Pool::new(slot_count, engine.piece_bytes as usize).map_err(no_memory)?;
        if memory_prefault {
            pool.prefault().map_err(no_memory)?;
        }
        // After the pool: the shard's tables are sized by memory that is known to be there.
        let shard = Shard::new(engine).map_err(wrong)?;
        let waker = Waker::new().map_err(short)?;
        let mailbox = Mailbox::new(Arc::clone(&waker));
        let completions = Mailbox::new(Arc::clone(&waker));
        let files = Files::new(&name, Crew::new(&name).map_err(short)?, open_files_max);
        let parts = Parts {
            files: Arc::clone(&files),
            waker,
            completions: Arc::clone(&completions),
        };
        let io = disk_io::start(io, engine.outstanding_reads_max, parts).map_err(|error| {
            StartError::IoUring {
                name: name.clone(),
                error,
            }
        })?;
        let identity = Identity {
            name: name.clone(),
            roots,
            rotational,
            capacity_bytes,
        };
        let is_offline = Arc::new(AtomicBool::new(false));
        let start = Start {
            identity: identity.clone(),
            config: engine,
            time_scale,
            shard,
            pool,
            files,
            io,
            completions,
            mailbox: Arc::clone(&mailbox),
            is_offline: Arc::clone(&is_offline),
        };
        let thread = std::thread::Builder::new()
            .name(format!("disk-{name}"))
            .spawn(move || DeviceThread::new(start).run())
            .map_err(short)?;
        let handle = Handle {
            name: Arc::from(name),
            mailbox,
            thread: Mutex::new(Some(thread)),
            requests: AtomicU64::new(0),
            is_offline,
            identity,
            config: engine,
        };
        Ok(Self {
            handle: Arc::new(handle),
        })
    }

    /// Kernel name of the device, or the root's name where there is none.
    pub fn name(&self) -> &Arc<str> {
        &self.handle.name
    }

    /// Whether the device is out of service, as its thread last found.
    pub fn is_offline(&self) -> bool {
        self.handle.is_offline.load(Ordering::Relaxed)
    }

    /// Asks for bytes. A stream that the engine does not know is registered from `source` first,
    /// on a thread that may block. A device that stopped answers [`Refusal::Offline`].
    pub async fn request(
        &self,
        request: Request,
        source: &Arc<dyn StreamSource>,
    ) -> Result<Reply, Refusal> {
        match self.ask(request, None).await {
            Err(Refusal::UnknownStream) => {}
            answer => return answer,
        }
        let describer = Arc::clone(source);
        let spec = tokio::task::spawn_blocking(move || describer.spec()).await;
        // A source that panics, or speaks of another stream, describes nothing.
        let spec = spec.map_err(|_| Refusal::UnknownStream)?;
        if spec.id != request.stream {
            return Err(Refusal::UnknownStream);
        }
        self.ask(request, Some((spec, Arc::clone(source)))).await
    }

    async fn ask(
        &self,
        request: Request,
        register: Option<(headlong_engine::StreamSpec, Arc<dyn StreamSource>)>,
    ) -> Result<Reply, Refusal> {
        let (answer, answered) = oneshot::channel();
        let id = RequestId(self.handle.requests.fetch_add(1, Ordering::Relaxed));
        let ask = Ask {
            id,
            request,
            register,
            answer,
        };
        self.handle.mailbox.post(Message::Request(Box::new(ask)));
        let retry_after = self.handle.config.offline_retry;
        let stopped = |_| Err(Refusal::Offline { retry_after });
        answered.await.unwrap_or_else(stopped)
    }

    /// The bit rate of a stream became known, or a better one was found.
    pub fn bit_rate(&self, stream: StreamId, rate: BitRate) {
        self.handle.mailbox.post(Message::BitRate(stream, rate));
    }

    /// The stream's files changed or went: its pieces are dropped and its replies fail.
    pub fn stream_gone(&self, stream: StreamId) {
        self.handle.mailbox.post(Message::Gone(stream));
    }

    /// Takes new settings into force; the sizes of pieces and memory stay. A device that stopped
    /// takes anything.
    pub async fn reconfigure(&self, config: EngineConfig) -> Result<(), ConfigError> {
        let (answer, answered) = oneshot::channel();
        let message = Message::Configure(Box::new(config), answer);
        self.handle.mailbox.post(message);
        answered.await.unwrap_or(Ok(()))
    }

    /// Everything there is to see. A device that stopped shows itself offline and empty.
    pub async fn snapshot(&self) -> DeviceSnapshot {
        let (answer, answered) = oneshot::channel();
        self.handle.mailbox.post(Message::Snapshot(answer));
        answered.await.unwrap_or_else(|_| self.stopped_snapshot())
    }

    fn stopped_snapshot(&self) -> DeviceSnapshot {
        let Identity {
            name,
            roots,
            rotational,
            capacity_bytes,
        } = self.handle.identity.clone();
        DeviceSnapshot {
            name,
            roots,
            rotational,
            io: "stopped",
            capacity_bytes,
            state: DeviceState::Offline,
            config: self.handle.config,
            control: None,
            stats: Stats::default(),
            stats_by_policy: Vec::new(),
            memory: MemoryUse::default(),
            queue: QueueUse::default(),
            queue_positions: Vec::new(),
            chain_count: 0,
            chains: Vec::new(),
        }
    }

    /// Stops the device: replies fail with [`headlong_engine::Failure::Offline`] at once, then
    /// reads under way are waited for, some seconds at most. Pieces already handed out stay
    /// valid, and memory that a hanging read may still write to is never given back.
    pub async fn shutdown(&self) {
        self.handle.mailbox.post(Message::Shutdown);
        let Some(thread) = self.handle.take_thread() else {
            return;
        };
        let ended = tokio::task::spawn_blocking(move || thread.join());
        // Twice, because closing a file may hang too.
        let _ = tokio::time::timeout(2 * QUIESCE_TIME, ended).await;
    }
}
