//! Handle of a device: the interface between the rest of the server and the device thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use headlong_device::PartId;
use headlong_engine::{
    AnnouncedRequest, ConfigError, DeviceState, EngineConfig, MemoryUse, PartSpec, QueueUse,
    Refusal, Request, RequestId, Stats, StreamId, StreamSpec,
};
use headlong_kernel::raw::QUIESCE_TIME;
use headlong_kernel::thread_pool::ThreadPool;
use headlong_units::BitRate;
use tokio::sync::oneshot;

use super::build::make;
use super::device_config::DeviceConfig;
use super::engine::DeviceProperties;
use super::link::Link;
use super::message::{DeviceMessage, ExpectedRange};
use super::piece_transfer::{IncomingPiece, OutgoingPiece};
use super::reply::{Piece, Reply};
use super::start_error::StartError;
use super::supervise::{SupervisorShared, supervise};
use super::{DeviceSnapshot, LearnedState, StreamSource};
use crate::flash::{FlashShare, TierPart};

/// Threads for blocking jobs other than reads, such as locating a stream on the disk.
const ASIDE_THREADS_MAX: usize = 8;
/// Upper limit of jobs that wait for such a thread.
const ASIDES_MAX: usize = 1024;
/// Upper limit of the timeout; longer than any client waits.
const ASIDE_TIMEOUT_MAX: std::time::Duration = std::time::Duration::from_secs(60);

/// One device. Clones refer to the same device, which stops when the last one is dropped or by
/// [`Device::shutdown`].
#[derive(Clone)]
pub struct Device {
    handle: Arc<DeviceHandle>,
}

struct DeviceHandle {
    /// State shared with the current device thread. A restarted device has a new thread.
    shared: Arc<SupervisorShared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    requests: AtomicU64,
    name: Arc<str>,
    identity: DeviceProperties,
    /// Threads that describe streams. Separate from those that read, which may all be busy.
    asides: ThreadPool,
    aside_timeout: std::time::Duration,
    flash: FlashShare,
}

impl DeviceHandle {
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

impl Drop for DeviceHandle {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

impl Device {
    /// Reserves the memory and starts the thread. Pages are touched when they are first filled,
    /// unless the configuration asks to populate them at start-up.
    pub fn start(config: DeviceConfig) -> Result<Self, StartError> {
        let name = config.name.clone();
        let identity = DeviceProperties {
            name: name.clone(),
            roots: config.roots.clone(),
            rotational: config.rotational,
            capacity_bytes: config.capacity_bytes,
        };
        let short = |error| StartError::Threads {
            name: name.clone(),
            error,
        };
        let asides = ThreadPool::new(&format!("aside-{name}"), ASIDE_THREADS_MAX, ASIDES_MAX)
            .map_err(short)?;
        let aside_timeout = config.time_scale.wall(config.engine.read_timeout);
        let (engine, flash) = (config.engine, config.flash.clone());
        let make = move |engine, flags| make(&config, engine, flags);
        let first = make(engine, Arc::default())?;
        let shared = Arc::new(SupervisorShared::new(&first));
        let supervised = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name(format!("disk-{name}"))
            .spawn(move || supervise(first, &supervised, make))
            .map_err(short)?;
        let handle = DeviceHandle {
            name: Arc::from(name),
            shared,
            thread: Mutex::new(Some(thread)),
            requests: AtomicU64::new(0),
            identity,
            asides,
            aside_timeout: aside_timeout.min(ASIDE_TIMEOUT_MAX),
            flash,
        };
        Ok(Self {
            handle: Arc::new(handle),
        })
    }

    /// Kernel name of the device, or the name of the root if there is none.
    pub fn name(&self) -> &Arc<str> {
        &self.handle.name
    }

    /// Settings in force, except the prefetch size set by a controller.
    pub fn config(&self) -> EngineConfig {
        self.handle.shared.config()
    }

    /// Whether the device is out of service, as last reported by its thread.
    pub fn is_offline(&self) -> bool {
        self.handle.shared.flags().is_offline()
    }

    /// Whether replies that are being sent hold most of the device's memory.
    pub fn is_held_by_clients(&self) -> bool {
        self.handle.shared.flags().is_held_by_clients()
    }

    /// Requests bytes. A stream unknown to the engine is first registered from `source`, on a
    /// thread of this device that may block; this reads no stream data. If the device has stopped,
    /// or its disk does not describe the stream in time, the result is [`Refusal::Offline`].
    pub async fn request(
        &self,
        request: Request,
        source: &Arc<dyn StreamSource>,
    ) -> Result<Reply, Refusal> {
        let teaching = |reply: Reply| reply.teaching(&request, source);
        match self.try_request(request, None).await {
            Err(Refusal::UnknownStream) => {}
            answer => return answer.map(teaching),
        }
        let wanted = PartId {
            stream: request.stream,
            part: request.part,
        };
        let described = self.describe(wanted, source).await;
        let spec = described.ok_or_else(|| self.stopped())?;
        // A source that describes a different stream is not usable.
        if spec.id != request.stream {
            return Err(Refusal::UnknownStream);
        }
        let answer = self
            .try_request(request, Some((spec, Arc::clone(source))))
            .await;
        if let (Err(_), Some(opener)) = (&answer, self.link().opener()) {
            opener.withdraw(request.stream);
        }
        answer.map(teaching)
    }

    /// Describes a stream on a thread that may block. A file opened for that is reused for reading.
    async fn describe(&self, wanted: PartId, source: &Arc<dyn StreamSource>) -> Option<StreamSpec> {
        let (describer, opener) = (Arc::clone(source), self.link().opener());
        let describe = move || {
            describer.describe(&mut |part, file| {
                if let Some(opener) = opener.as_ref().filter(|_| part == wanted.part) {
                    opener.offer(wanted, file);
                }
            })
        };
        self.aside(describe).await
    }

    /// Announces a range that a player will request next; the engine decides whether to prefetch
    /// it. An unknown stream is registered only if the range would be prefetched.
    pub async fn expect(&self, expected: AnnouncedRequest, source: &Arc<dyn StreamSource>) {
        if self.report_expected(expected, None).await != Some(Err(Refusal::UnknownStream)) {
            return;
        }
        let wanted = PartId {
            stream: expected.stream,
            part: expected.part,
        };
        let described = self.describe(wanted, source).await;
        if let Some(spec) = described.filter(|spec| spec.id == expected.stream) {
            let register = Some((spec, Arc::clone(source)));
            let told = self.report_expected(expected, register).await;
            if let (Some(Err(_)), Some(opener)) = (told, self.link().opener()) {
                opener.withdraw(expected.stream);
            }
        }
    }

    async fn report_expected(
        &self,
        expected: AnnouncedRequest,
        register: Option<(StreamSpec, Arc<dyn StreamSource>)>,
    ) -> Option<Result<(), Refusal>> {
        let (answer, answered) = oneshot::channel();
        self.link()
            .post(DeviceMessage::Expect(Box::new(ExpectedRange {
                expected,
                register,
                answer,
            })));
        answered.await.ok()
    }

    /// Runs a blocking job for this disk on one of its threads. `None` if the disk does not respond
    /// in time or the job queue is full.
    async fn aside<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        let is_taken = self.handle.asides.offer(move || {
            // Skip the job if the caller has stopped waiting.
            if !answer.is_closed() {
                let _ = answer.send(job());
            }
        });
        if !is_taken {
            return None;
        }
        let answered = tokio::time::timeout(self.handle.aside_timeout, answered);
        answered.await.ok()?.ok()
    }

    fn stopped(&self) -> Refusal {
        Refusal::Offline {
            retry_after: self.handle.shared.config().offline_retry,
        }
    }

    /// The bytes `start..end` of a part from the sendfile cache, if all of them are cached and the
    /// reader needs no read. The caller sends `sent_bytes` of them.
    pub fn copies(
        &self,
        of: (StreamId, u32),
        range: (u64, u64),
        sent_bytes: u64,
    ) -> Option<impl Iterator<Item = Piece> + use<>> {
        self.link().copies(of, range, sent_bytes)
    }

    async fn try_request(
        &self,
        request: Request,
        register: Option<(StreamSpec, Arc<dyn StreamSource>)>,
    ) -> Result<Reply, Refusal> {
        let id = RequestId(self.handle.requests.fetch_add(1, Ordering::Relaxed));
        let reply = self.link().request((id, request), register).await;
        reply.unwrap_or_else(|| Err(self.stopped()))
    }

    /// Reports a bit rate of a stream, new or improved.
    pub fn bit_rate(&self, stream: StreamId, rate: BitRate) {
        self.link().post(DeviceMessage::BitRate(stream, rate));
    }

    /// Reports that a part of a stream has appeared or disappeared; the other parts are unchanged.
    pub fn part(&self, stream: StreamId, part: u32, spec: PartSpec) {
        let message = DeviceMessage::Part(stream, part, Box::new(spec));
        self.link().post(message);
    }

    /// Reports that the files of a stream changed or were removed: its pieces are dropped and its
    /// replies fail. Records on flash are kept if the files belong to another stream now.
    pub fn stream_removed(&self, stream: StreamId, is_regrouped: bool) {
        self.link().post(DeviceMessage::Gone(stream, is_regrouped));
    }

    /// Applies new settings, except the sizes of pieces and memory. A stopped device accepts any
    /// settings.
    pub async fn reconfigure(&self, config: EngineConfig) -> Result<(), ConfigError> {
        let (answer, answered) = oneshot::channel();
        let message = DeviceMessage::Configure(Box::new(config), answer);
        self.link().post(message);
        let outcome = answered.await.unwrap_or(Ok(()));
        if outcome.is_ok() {
            self.handle.shared.set_config(config);
        }
        outcome
    }

    /// Starts or stops returning memory that no running reply needs to the system. Completes once
    /// the free memory has been returned.
    pub async fn retire(&self, retires: bool) {
        let (done, vacated) = oneshot::channel();
        self.link().post(DeviceMessage::Retire(retires, done));
        // A stopped device has no memory.
        let _ = vacated.await;
    }

    /// Reports that another process serves from now on: nothing is prefetched for viewers that
    /// continue there.
    pub fn replaced(&self) {
        self.link().post(DeviceMessage::Replaced);
    }

    /// Selects the pieces of memory to transfer to the new process, the most useful first. Each
    /// must be reported with [`passed_on`](Self::passed_on).
    pub(crate) async fn pass_on(&self) -> Vec<OutgoingPiece> {
        let (answer, answered) = oneshot::channel();
        self.link().post(DeviceMessage::PassOn(answer));
        // A stopped device has no memory.
        answered.await.unwrap_or_default()
    }

    /// The new process has received these pieces, or never will.
    pub(crate) fn passed_on(&self, pieces: Vec<OutgoingPiece>) {
        // No one reads a slot that returns to the system.
        let slots = pieces.into_iter().map(|piece| piece.slot).collect();
        self.link().post(DeviceMessage::PassedOn(slots));
    }

    /// Stores pieces received from the previous process. The receiver yields the number of useful
    /// bytes once they are in memory.
    pub(crate) fn arrived(&self, pieces: Vec<IncomingPiece>) -> oneshot::Receiver<u64> {
        let (answer, taken) = oneshot::channel();
        self.link().post(DeviceMessage::Arrived(pieces, answer));
        taken
    }

    /// Attaches a share of the flash tier, unless one is attached.
    pub fn take_flash(&self, part: TierPart) {
        self.handle.flash.set(Some(part.clone()));
        let link = self.link();
        let to = Arc::downgrade(&link);
        let say = Arc::new(move |done| {
            if let Some(link) = to.upgrade() {
                link.post(DeviceMessage::Flash(done));
            }
        });
        link.post(DeviceMessage::TakeFlash(part, say));
    }

    /// Detaches the flash tier; operations in flight are completed.
    pub fn leave_flash(&self) {
        self.handle.flash.set(None);
        self.link().post(DeviceMessage::LeaveFlash);
    }

    fn link(&self) -> Arc<Link> {
        self.handle.shared.current()
    }

    /// Exports the learned state for the next process; `None` if the device has stopped.
    pub async fn learned_state(&self) -> Option<LearnedState> {
        let (answer, answered) = oneshot::channel();
        self.link().post(DeviceMessage::Learned(answer));
        answered.await.ok()
    }

    /// Replaces the viewers of the previous process by their latest state. Must be called before
    /// the first request.
    pub fn returning(&self, told: LearnedState) {
        self.link().post(DeviceMessage::Returning(Box::new(told)));
    }

    /// Takes a snapshot. A stopped device appears offline and empty.
    pub async fn snapshot(&self) -> DeviceSnapshot {
        let (answer, answered) = oneshot::channel();
        self.link().post(DeviceMessage::Snapshot(answer));
        answered.await.unwrap_or_else(|_| self.stopped_snapshot())
    }

    fn stopped_snapshot(&self) -> DeviceSnapshot {
        let DeviceProperties {
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
            is_overloaded: false,
            config: self.handle.shared.config(),
            control: None,
            stats: Stats::default(),
            stats_by_policy: Vec::new(),
            memory: MemoryUse::default(),
            sendfile_cache: None,
            queue: QueueUse::default(),
            queue_positions: Vec::new(),
            chain_count: 0,
            chains: Vec::new(),
            saved_state_age: None,
            flash: None,
            ssd_paths: Vec::new(),
        }
    }

    /// Stops the device: replies fail with [`headlong_engine::Failure::Offline`] at once; then
    /// reads in flight are awaited for a few seconds. Pieces already delivered stay valid, and
    /// memory that a hanging read may still write to is never released.
    pub async fn shutdown(&self) {
        self.handle.shared.stop();
        let Some(thread) = self.handle.take_thread() else {
            return;
        };
        // Join on a separate thread, because a device thread that hangs must not block the caller.
        let (say, ended) = oneshot::channel();
        let wait = move || {
            let _ = thread.join();
            let _ = say.send(());
        };
        if std::thread::Builder::new().spawn(wait).is_ok() {
            // Twice the time, because closing a file may hang too.
            let _ = tokio::time::timeout(2 * QUIESCE_TIME, ended).await;
        }
    }
}
