//! The engine of one device: its core and its host, protected by the [`Link`]'s lock.
//!
//! The lock holder may be the device thread, or a connection that sends a request or returns a
//! piece. All decisions are in [`DeviceCore`]; this module dispatches messages and sends the
//! answers.
//!
//! Invariant: no call blocks.
//!
//! [`Link`]: super::link::Link

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant as Clock;

use headlong_device::DeviceCore;
use headlong_device::flash::FlashPort;
use headlong_engine::{EngineConfig, Refusal, Request, RequestId, Shard, Slot, StreamSpec};
use headlong_kernel::raw::Pool;
use headlong_kernel::time_scale::TimeScale;
use headlong_units::Instant;
use tokio::sync::{mpsc, oneshot};

use super::StreamSource;
use super::completion::Completion;
use super::device_flags::DeviceFlags;
use super::disk_read::DiskRead;
use super::host::DiskHost;
use super::io::IoMode;
use super::learned_state::{self, LearnedState};
use super::mailbox::Mailbox;
use super::opener::Opener;
use super::piece_transfer::IncomingPieces;
use super::reply::{CompletionReceiver, Reply};
use super::resources::{DiskResources, ReplyChannel};
use crate::flash::{FlashSource, SsdQueue};

mod messages;
mod snapshot;

/// Properties of a device that never change while it runs.
#[derive(Debug, Clone)]
pub(crate) struct DeviceProperties {
    pub(crate) name: String,
    pub(crate) roots: Vec<PathBuf>,
    pub(crate) rotational: bool,
    pub(crate) capacity_bytes: u64,
}

/// Everything that an engine is built from.
pub(crate) struct EngineParts {
    pub(crate) identity: DeviceProperties,
    pub(crate) config: EngineConfig,
    pub(crate) time_scale: TimeScale,
    pub(crate) shard: Shard,
    pub(crate) pool: Arc<Pool>,
    pub(crate) opener: Arc<Opener>,
    /// Upper limit of open files without a reply.
    pub(crate) open_files_max: usize,
    pub(crate) io_mode: IoMode,
    pub(crate) completions: Arc<Mailbox<Completion>>,
    pub(crate) flags: Arc<DeviceFlags>,
    pub(crate) flash: Option<FlashSource>,
    /// State learned by the previous process.
    pub(crate) learned: Option<Arc<LearnedState>>,
}

/// The engine of a device.
pub(crate) struct DeviceEngine {
    core: DeviceCore<DiskResources>,
    host: DiskHost,
    start: Clock,
    identity: DeviceProperties,
    config: EngineConfig,
    time_scale: TimeScale,
    io_mode: IoMode,
    /// Notified when all free memory has been returned to the system.
    vacated: Option<oneshot::Sender<()>>,
    /// Pieces received from the previous process.
    arrivals: IncomingPieces,
}

impl DeviceEngine {
    pub(crate) fn new(parts: EngineParts, receiver: Arc<dyn CompletionReceiver>) -> Self {
        let EngineParts {
            identity,
            config,
            time_scale,
            shard,
            pool,
            opener,
            open_files_max,
            io_mode,
            completions,
            flags,
            flash,
            learned,
        } = parts;
        let mut core = DeviceCore::new(shard, open_files_max);
        let told = learned.as_deref();
        core.set_restored_chains(learned_state::restored_chains(
            Instant::ZERO,
            time_scale,
            told,
        ));
        let host = DiskHost {
            device: identity.name.clone(),
            piece_bytes: config.piece_bytes,
            pool,
            opener,
            completions,
            submits: Vec::new(),
            receiver,
            ready: VecDeque::new(),
            flags,
            flash: None,
            has_vacated: false,
        };
        let mut engine = Self {
            core,
            host,
            start: Clock::now(),
            identity,
            config,
            time_scale,
            io_mode,
            vacated: None,
            arrivals: IncomingPieces::default(),
        };
        if let Some(flash) = flash {
            engine.take_flash(flash);
        }
        engine
    }

    /// Model time since the start of the device, on a monotonic clock.
    pub(crate) fn now(&self) -> Instant {
        Instant(self.time_scale.model(self.start.elapsed()).0)
    }

    /// Wall time from `now` to `due`; `None` if `due` is never.
    pub(crate) fn wall_until(&self, now: Instant, due: Instant) -> Option<std::time::Duration> {
        (due < Instant::NEVER).then(|| self.time_scale.wall(due.since(now)))
    }

    /// When [`DeviceEngine::tick`] is due next.
    pub(crate) fn due(&self) -> Instant {
        let due = [self.core.due(), self.arrivals.until()];
        due.into_iter().flatten().min().unwrap_or(Instant::NEVER)
    }

    /// Moves the reads to start into `submits`, which must be empty.
    pub(crate) fn take_submits(&mut self, submits: &mut Vec<DiskRead>) {
        debug_assert!(submits.is_empty());
        std::mem::swap(&mut self.host.submits, submits);
    }

    /// Whether reads are waiting to be started.
    pub(crate) fn has_submits(&self) -> bool {
        !self.host.submits.is_empty()
    }

    /// An open or a read has completed.
    pub(crate) fn complete(&mut self, now: Instant, completion: Completion) {
        let (core, host) = (&mut self.core, &mut self.host);
        match completion {
            Completion::Opened(id, opened) => core.handle_opened(now, host, id, opened),
            Completion::Located(id, extents) => core.handle_location(now, host, id, extents),
            Completion::Refused(read) => core.handle_refused(now, host, read),
            Completion::Ended(completion) => core.handle_read_ended(now, host, completion),
        }
        self.settled();
    }

    /// Handles the timers that have expired.
    pub(crate) fn tick(&mut self, now: Instant) {
        if self.arrivals.until().is_some_and(|until| until <= now) {
            self.arrivals.end(now, self.core.shard_mut());
            self.core.drain_queues(now, &mut self.host);
        }
        self.core.tick(now, &mut self.host);
        self.settled();
    }

    /// A socket has taken a piece, or the piece was dropped.
    pub(crate) fn sent(&mut self, now: Instant, request: RequestId, slot: Slot) {
        self.core.sent(now, &mut self.host, request, slot);
        self.settled();
    }

    /// A reply was dropped.
    pub(crate) fn cancel(&mut self, now: Instant, request: RequestId) {
        self.core.cancel(now, &mut self.host, request);
        self.settled();
    }

    /// Accepts a request. If `register` is given, its stream is registered first.
    pub(crate) fn request(
        &mut self,
        now: Instant,
        (id, request): (RequestId, Request),
        register: Option<(StreamSpec, Arc<dyn StreamSource>)>,
    ) -> Result<Reply, Refusal> {
        // Update usage before this request may evict something.
        let used = self.host.pool.take_used();
        if !used.is_empty() {
            self.core.shard_mut().handle_used(now, &used);
        }
        let registered = self.register(now, register);
        let host = &mut self.host;
        let chain = match registered {
            Ok(()) => {
                let client = ReplyChannel::default();
                self.core.request(now, host, (id, request), client)
            }
            Err(refusal) => {
                self.core.drain_queues(now, host);
                Err(refusal)
            }
        };
        self.settled();
        let (pool, stream) = (&self.host.pool, request.stream);
        if chain.is_ok()
            && pool.asks_for(stream)
            && let (part, offset) = (request.part, request.offset)
            && let Some(of_it) = self.core.shard().in_memory_around(stream, part, offset)
        {
            pool.set_resident(stream, of_it);
        }
        chain.map(|chain| {
            let ready = std::mem::take(&mut self.host.ready);
            let pieces = self.core.client_mut(id).map(|client| {
                let (pieces, receiver) = mpsc::unbounded_channel();
                client.pieces = Some(pieces);
                receiver
            });
            let device = Arc::clone(&self.host.receiver);
            Reply::new(id, request.length, ready, pieces, device).in_chain(chain)
        })
    }

    fn register(
        &mut self,
        now: Instant,
        register: Option<(StreamSpec, Arc<dyn StreamSource>)>,
    ) -> Result<(), Refusal> {
        let Some((spec, source)) = register else {
            return Ok(());
        };
        let stream = spec.id;
        if self.core.register(now, &mut self.host, spec, source)? {
            let to = (self.core.shard_mut(), &self.host.pool);
            self.arrivals.welcome(now, to, stream);
        }
        Ok(())
    }

    /// Attaches a share of the flash tier.
    fn take_flash(&mut self, source: FlashSource) {
        let port = FlashPort::new(source.part.share(), crate::flash::random());
        self.core.set_flash(port);
        self.host.flash = Some(SsdQueue::start(source, self.time_scale));
    }

    /// Completes the effects of a call to the core.
    fn settled(&mut self) {
        let is_held = self.core.shard().is_memory_held_by_clients();
        self.host.flags.set_held_by_clients(is_held);
        if std::mem::take(&mut self.host.has_vacated) {
            self.host.pool.vacate_copies();
        }
        if self.vacated.is_some() && !self.core.shard().is_vacating() {
            // The receiver may have been dropped.
            let _ = self.vacated.take().map(|vacated| vacated.send(()));
        }
    }
}
