//! The state of one device: its shard, running replies, open files and flash port. Events come in
//! through `handle_*` methods, actions go out through a [`Host`].

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use headlong_engine::{
    Command, ConfigError, DeviceState, EngineConfig, ReadId, ReadOutcome, RequestId, Shard,
    StreamId,
};
use headlong_units::Instant;

use crate::files::Files;
use crate::flash::{FlashPort, FlashResult};
use crate::host::{Host, Notice};
use crate::locations::Locations;
use crate::read::WaitingRead;
use crate::reply::Reply;
use crate::resources::Resources;
use crate::restored_chains::RestoredChains;

type FilesOf<R> = Files<
    <R as Resources>::File,
    <R as Resources>::Source,
    WaitingRead<<R as Resources>::Memory, <R as Resources>::Source>,
>;

type LocationsOf<R> = Locations<
    <R as Resources>::File,
    WaitingRead<<R as Resources>::Memory, <R as Resources>::Source>,
>;

/// The core of one device. No method blocks.
pub struct DeviceCore<R: Resources> {
    pub(crate) shard: Shard,
    pub(crate) replies: BTreeMap<RequestId, Reply<R::Client>>,
    pub(crate) sources: BTreeMap<StreamId, R::Source>,
    /// Number of running replies per stream.
    pub(crate) running: BTreeMap<StreamId, u32>,
    /// Streams that no path refers to any more but that still have running replies. The value:
    /// whether their files have moved to other streams.
    pub(crate) gone: BTreeMap<StreamId, bool>,
    pub(crate) files: FilesOf<R>,
    pub(crate) locations: LocationsOf<R>,
    /// Reads that failed before they were started.
    pub(crate) ended_reads: Vec<(ReadId, ReadOutcome)>,
    pub(crate) flash: Option<FlashPort<R>>,
    /// Flash operations that failed before they were started.
    pub(crate) flash_ended: Vec<FlashResult>,
    pub(crate) returning: RestoredChains,
    state: DeviceState,
}

impl<R: Resources> DeviceCore<R> {
    /// Creates a core over `shard`. At most `files_max` files stay open without a running reply.
    pub fn new(shard: Shard, files_max: usize) -> Self {
        Self {
            shard,
            replies: BTreeMap::new(),
            sources: BTreeMap::new(),
            running: BTreeMap::new(),
            gone: BTreeMap::new(),
            files: Files::new(files_max),
            locations: Locations::new(),
            ended_reads: Vec::new(),
            flash: None,
            flash_ended: Vec::new(),
            returning: RestoredChains::default(),
            state: DeviceState::Online,
        }
    }

    /// The shard, for inspection.
    pub fn shard(&self) -> &Shard {
        &self.shard
    }

    /// The shard, for an event that concerns only the shard. The caller must call
    /// [`DeviceCore::drain_queues`] afterwards.
    pub fn shard_mut(&mut self) -> &mut Shard {
        &mut self.shard
    }

    /// The sources of all registered streams.
    pub fn sources(&self) -> &BTreeMap<StreamId, R::Source> {
        &self.sources
    }

    /// Viewers of the previous process that have not returned yet.
    pub fn restored_chains(&self) -> &RestoredChains {
        &self.returning
    }

    /// Replaces the viewers of the previous process.
    pub fn set_restored_chains(&mut self, returning: RestoredChains) {
        self.returning = returning;
    }

    /// Whether files are read with direct I/O, bypassing the page cache.
    pub fn is_direct(&self) -> bool {
        self.files.is_direct()
    }

    /// Number of streams and files with a running reply.
    pub fn running_count(&self) -> usize {
        self.running.len() + self.files.pin_count()
    }

    /// When [`DeviceCore::tick`] is due next; `None` if no timer is set.
    pub fn due(&self) -> Option<Instant> {
        if mutated!(TimeoutSwallowed) && self.shard.queue_use().outstanding_reads > 0 {
            return None;
        }
        self.shard.poll_timeout()
    }

    /// Handles the timers that have expired.
    pub fn tick(&mut self, now: Instant, host: &mut impl Host<R>) {
        if self.due().is_some_and(|due| due <= now) {
            self.shard.handle_timeout(now);
            self.drain_queues(now, host);
            while let Some(change) = self.shard.poll_size_change() {
                host.announce(Notice::Size(&change));
            }
        }
    }

    /// Applies new settings.
    ///
    /// # Errors
    /// If the settings are invalid; the old ones stay in force.
    pub fn configure(
        &mut self,
        now: Instant,
        host: &mut impl Host<R>,
        config: EngineConfig,
    ) -> Result<(), ConfigError> {
        let taken = self.shard.handle_config(now, config);
        self.drain_queues(now, host);
        taken
    }

    /// Executes the shard's commands and forwards its events until none is left.
    pub fn drain_queues(&mut self, now: Instant, host: &mut impl Host<R>) {
        loop {
            if let Some(command) = self.shard.poll_command() {
                self.obey(now, host, command);
            } else if let Some(event) = self.shard.poll_event() {
                self.pass_on(now, host, event);
            } else if let Some((id, outcome)) = self.ended_reads.pop() {
                self.shard.handle_read_done(now, id, outcome);
            } else if let Some(end) = self.flash_ended.pop() {
                self.flash_end(now, host, end);
            } else {
                break;
            }
        }
        let state = self.shard.device_state();
        if state != self.state {
            let before = core::mem::replace(&mut self.state, state);
            let errors = self.shard.stats().read_errors;
            host.announce(Notice::Device {
                before,
                state,
                errors,
            });
        }
        while let Some((ssd, before, state)) = self.shard.poll_ssd_change() {
            host.announce(Notice::Ssd { ssd, before, state });
        }
    }

    fn obey(&mut self, now: Instant, host: &mut impl Host<R>, command: Command) {
        match command {
            Command::Read(read) => self.read(now, host, read),
            Command::Forget(stream) => self.forget(host, stream),
            Command::Vacate(slot) => host.vacate(slot),
            Command::Flash(command) => {
                if let Some(flash) = &mut self.flash {
                    self.flash_ended.extend(flash.command(host, command));
                }
            }
        }
    }
}
