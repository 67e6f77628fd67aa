//! One device of a running server: its production core on a simulated host, with checks after every
//! call.

use std::rc::Rc;

use headlong_device::flash::{FlashPort, FlashResult};
use headlong_device::{
    DeviceCore, FileState, IoFailure, NextCall, OpenJob, PartId, ReadCompletion,
};
use headlong_engine::{
    AnnouncedRequest, DeviceState, EngineConfig, ReadOutcome, Refusal, Request, RequestId, Shard,
    Slot, StreamSpec,
};
use headlong_units::Instant;

use crate::check::Check;
use crate::disk::ReadCall;
use crate::files::{FileSystemModel, Inode, StatIdentity};
use crate::host::DeviceEnv;
use crate::host::{HostState, SimulatedHost};
use crate::recover::Recoverer;
use crate::resources::{SimulatedResources, SlotPool, StreamSource};

/// One request in so many announces the next one.
const EXPECTING: u64 = 3;
/// Files that stay open without a reply: few, so that files are closed often.
const OPEN_FILES_MAX: usize = 3;

/// One device.
pub(crate) struct SimulatedDevice {
    pub(crate) core: DeviceCore<SimulatedResources>,
    pub(crate) own: HostState,
    pub(crate) recoverer: Option<Recoverer>,
    flash_bytes_max: Option<u64>,
    is_recovered: bool,
}

impl SimulatedDevice {
    /// # Panics
    /// If the engine rejects the settings, which were validated before.
    pub(crate) fn new(config: EngineConfig, tier: Option<(Recoverer, u64)>) -> Self {
        let shard = Shard::new(config).unwrap_or_else(|error| panic!("settings: {error}"));
        let mut core = DeviceCore::new(shard, OPEN_FILES_MAX);
        let mut order = Vec::new();
        if let Some((recoverer, first_filling)) = &tier {
            core.set_flash(FlashPort::new(recoverer.share().clone(), *first_filling));
            order = recoverer.order().to_vec();
        }
        Self {
            core,
            own: HostState {
                pool: SlotPool::new(config.slot_count(), config.piece_bytes),
                outs: Vec::new(),
                order,
                flash_bytes: 0,
                sequences: Default::default(),
            },
            recoverer: tier.map(|(recoverer, _)| recoverer),
            flash_bytes_max: None,
            is_recovered: false,
        }
    }

    /// Calls the core, then checks its state.
    pub(crate) fn call<T>(
        &mut self,
        around: &mut DeviceEnv<'_>,
        act: impl FnOnce(&mut DeviceCore<SimulatedResources>, Instant, &mut SimulatedHost<'_, '_>) -> T,
    ) -> T {
        let (now, own) = (around.now, &mut self.own);
        let result = act(&mut self.core, now, &mut SimulatedHost { around, own });
        self.core.shard().check_invariants();
        self.check_budget(around);
        result
    }

    pub(crate) fn shard(&self) -> &Shard {
        self.core.shard()
    }

    pub(crate) fn is_offline(&self) -> bool {
        self.shard().device_state() == DeviceState::Offline
    }

    /// Submits a request, after registering its stream if `register` is given.
    pub(crate) fn ask(
        &mut self,
        around: &mut DeviceEnv<'_>,
        id: RequestId,
        request: Request,
        register: Option<(StreamSpec, Rc<StreamSource>)>,
    ) -> Result<(), Refusal> {
        let taken_on = self.call(around, |core, now, machine| {
            if let Some((spec, source)) = register
                && let Err(refusal) = core.register(now, machine, spec, source)
            {
                core.drain_queues(now, machine);
                return Err(refusal);
            }
            core.request(now, machine, (id, request), ()).map(drop)
        });
        if taken_on.is_ok() && id.0.is_multiple_of(EXPECTING) {
            self.expect(around, id, &request);
        }
        taken_on
    }

    /// A player announces its next request. Half of the announcements are wrong: any file of any
    /// stream.
    fn expect(&mut self, around: &mut DeviceEnv<'_>, id: RequestId, request: &Request) {
        let is_lie = id.0.is_multiple_of(2 * EXPECTING);
        let sources = self.core.sources();
        let count = sources.len().max(1) as u64;
        let other = sources.keys().nth((id.0 % count) as usize);
        let expected = match other.filter(|_| is_lie) {
            Some(stream) => AnnouncedRequest {
                viewer: request.viewer,
                stream: *stream,
                part: (id.0 % 5) as u32,
                offset: id.0 * 4099 % 500_000,
                length: u64::MAX,
            },
            None => AnnouncedRequest {
                viewer: request.viewer,
                stream: request.stream,
                part: request.part,
                offset: request.offset + request.length,
                length: request.length.max(1),
            },
        };
        self.call(around, |core, now, machine| {
            // Announcing an absent file is not an error of the server.
            let _ = core.shard_mut().handle_expected(now, expected);
            core.drain_queues(now, machine);
        });
    }

    /// An open has completed or failed.
    pub(crate) fn opened(&mut self, around: &mut DeviceEnv<'_>, job: &OpenJob<Rc<StreamSource>>) {
        let opened = around.disk.opened(job);
        self.call(around, |core, now, machine| {
            core.handle_opened(now, machine, job.id, opened);
        });
    }

    /// A look-up has completed.
    pub(crate) fn located(&mut self, around: &mut DeviceEnv<'_>, id: PartId) {
        let extents = around.disk.located();
        self.call(around, |core, now, machine| {
            core.handle_location(now, machine, id, extents);
        });
    }

    /// A system call of a read has returned.
    pub(crate) fn read_done(&mut self, around: &mut DeviceEnv<'_>, reading: ReadCall) {
        let result = around.disk.carry_out(around.now, &reading);
        let ReadCall { mut read, .. } = reading;
        let end = match read.job.advance(result) {
            NextCall::Again => {
                let began = around.now;
                return around.disk.submit(began, ReadCall { read, began });
            }
            NextCall::Reopen => {
                return self.call(around, |core, now, machine| {
                    core.handle_refused(now, machine, read);
                });
            }
            NextCall::Ended(end) => end,
        };
        let part = read.source.parts.get(read.job.file.part as usize);
        let mut state = OpenFileState {
            files: &around.disk.files,
            inode: read.file,
            identity: part.map(|(_, identity)| *identity),
        };
        let completion = ReadCompletion {
            id: read.job.id,
            outcome: read.job.judge(end, &mut state),
            has_read_direct: read.job.has_read_direct(),
        };
        let code = match completion.outcome {
            ReadOutcome::Done => 0,
            ReadOutcome::Error => 1,
            ReadOutcome::Changed => 2,
            ReadOutcome::NoResources => 3,
        };
        around.note("read done", [completion.id.0, code, 0]);
        drop(read);
        self.call(around, |core, now, machine| {
            core.handle_read_ended(now, machine, completion);
        });
    }

    /// A socket has accepted or dropped a piece.
    pub(crate) fn sent(&mut self, around: &mut DeviceEnv<'_>, request: RequestId, slot: Slot) {
        self.own.pool.drop_view(slot);
        self.call(around, |core, now, machine| {
            core.sent(now, machine, request, slot)
        });
    }

    pub(crate) fn configure(&mut self, around: &mut DeviceEnv<'_>, config: EngineConfig) {
        // Invalid settings are rejected and change nothing.
        let _ = self.call(around, |core, now, machine| {
            core.configure(now, machine, config)
        });
        self.note_flash_budget();
    }

    /// Attaches the tier or continues its recovery. Returns whether the recovery continues.
    pub(crate) fn recover(&mut self, around: &mut DeviceEnv<'_>) -> bool {
        let Some(recoverer) = &mut self.recoverer else {
            return false;
        };
        let end = recoverer.next(around, &mut self.own.sequences);
        let is_last = matches!(end, FlashResult::RecoveryEnded { .. });
        self.flash_ended(around, end);
        if is_last {
            self.is_recovered = true;
            self.note_flash_budget();
        }
        !is_last
    }

    /// A job of an SSD has completed.
    pub(crate) fn flash_ended(&mut self, around: &mut DeviceEnv<'_>, end: FlashResult) {
        self.call(around, |core, now, machine| {
            core.handle_flash(now, machine, end)
        });
    }

    /// After a change of the budget the largest budget so far applies.
    fn note_flash_budget(&mut self) {
        let recoverer = self.recoverer.as_ref().filter(|_| self.is_recovered);
        if let Some((recoverer, view)) = recoverer.zip(self.core.shard().flash_view()) {
            let left = view.budget_bytes.saturating_sub(recoverer.written_bytes);
            let most = Some(left + recoverer.first_fillings);
            self.flash_bytes_max = self.flash_bytes_max.max(most);
        }
    }

    fn check_budget(&self, around: &mut DeviceEnv<'_>) {
        let now = around.now;
        let config = self.shard().config();
        let of = self.shard().memory_use();
        let sum =
            of.free_bytes + of.filling_bytes + of.sending_bytes + of.unread_bytes + of.read_bytes;
        let whole = config.slot_count() * config.piece_bytes;
        around.oracle.expect(sum == whole, Check::Budget, now, || {
            format!("{whole} bytes of memory are divided as {of:?}")
        });
        if let Some(most) = self.flash_bytes_max {
            let given = self.own.flash_bytes;
            around.oracle.expect(given <= most, Check::Wear, now, || {
                format!("{given} bytes were written to SSDs, the limit is {most}")
            });
        }
        let is_innocent = self.is_offline() && !around.disk.was_ill;
        around
            .oracle
            .expect(!is_innocent, Check::Innocent, now, || {
                "a disk without a fault was taken out of service".to_owned()
            });
    }

    /// Whether a reply is incomplete.
    pub(crate) fn runs(&self, request: RequestId) -> bool {
        self.core.is_replying(request)
    }

    /// Resources in use although everything has ended.
    pub(crate) fn left_over(&self) -> Option<String> {
        let shard = self.shard();
        let (memory, queue, stats) = (shard.memory_use(), shard.queue_use(), shard.stats());
        let (replies, running) = (self.core.reply_count(), self.core.running_count());
        let chains = shard.chain_count();
        let is_left = memory.filling_bytes + memory.sending_bytes + memory.unread_bytes > 0
            || queue.jobs > 0
            || queue.outstanding_reads > 0
            || stats.reads != stats.reads_done
            || replies + running + chains > 0;
        is_left.then(|| {
            format!(
                "{memory:?} {queue:?} reads {} of {} replies {replies} running {running} chains \
                 {chains}",
                stats.reads_done, stats.reads,
            )
        })
    }
}

/// The open file of a read.
struct OpenFileState<'a> {
    files: &'a FileSystemModel,
    inode: Inode,
    identity: Option<StatIdentity>,
}

impl FileState for OpenFileState<'_> {
    fn size(&mut self) -> Result<u64, IoFailure> {
        let current = self.files.current(self.inode);
        current.map(|of| of.size).ok_or(IoFailure::Replaced)
    }

    fn is_same_version(&mut self) -> bool {
        self.identity.is_some() && self.files.identity(self.inode) == self.identity
    }
}
