//! One device's state between its shard and the machine.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use headlong_engine::{
    Command, ConfigError, DeviceState, EngineConfig, ReadId, ReadOutcome, RequestId, Shard,
    StreamId,
};
use headlong_units::Instant;

use crate::files::Files;
use crate::flash::{FlashEnd, FlashPort};
use crate::host::{Host, Notice};
use crate::read::WaitingRead;
use crate::reply::Reply;
use crate::resources::Resources;
use crate::returning::Returning;

type FilesOf<R> = Files<
    <R as Resources>::File,
    <R as Resources>::Source,
    WaitingRead<<R as Resources>::Memory, <R as Resources>::Source>,
>;

/// One device, with nothing in it that waits.
pub struct DeviceCore<R: Resources> {
    pub(crate) shard: Shard,
    pub(crate) replies: BTreeMap<RequestId, Reply<R::Client>>,
    pub(crate) sources: BTreeMap<StreamId, R::Source>,
    /// How many replies run on a stream.
    pub(crate) running: BTreeMap<StreamId, u32>,
    /// Streams that no path leads to any more and that replies still run on; whether files of them
    /// are in others now.
    pub(crate) gone: BTreeMap<StreamId, bool>,
    pub(crate) files: FilesOf<R>,
    /// Reads that ended without having begun.
    pub(crate) ended_reads: Vec<(ReadId, ReadOutcome)>,
    pub(crate) flash: Option<FlashPort<R>>,
    /// What flash could not begin.
    pub(crate) flash_ended: Vec<FlashEnd>,
    pub(crate) returning: Returning,
    state: DeviceState,
}

impl<R: Resources> DeviceCore<R> {
    /// A device with this shard, of whose files so many are open that no reply runs on.
    pub fn new(shard: Shard, files_max: usize) -> Self {
        Self {
            shard,
            replies: BTreeMap::new(),
            sources: BTreeMap::new(),
            running: BTreeMap::new(),
            gone: BTreeMap::new(),
            files: Files::new(files_max),
            ended_reads: Vec::new(),
            flash: None,
            flash_ended: Vec::new(),
            returning: Returning::default(),
            state: DeviceState::Online,
        }
    }

    /// The shard, to be looked at.
    pub fn shard(&self) -> &Shard {
        &self.shard
    }

    /// The shard, to be told something that concerns nothing else here; [`DeviceCore::settle`] is to
    /// follow.
    pub fn shard_mut(&mut self) -> &mut Shard {
        &mut self.shard
    }

    /// The sources of all registered streams.
    pub fn sources(&self) -> &BTreeMap<StreamId, R::Source> {
        &self.sources
    }

    /// Viewers of the process before that have not come back.
    pub fn returning(&self) -> &Returning {
        &self.returning
    }

    /// Viewers of the process before, in place of those that were told.
    pub fn set_returning(&mut self, returning: Returning) {
        self.returning = returning;
    }

    /// Whether files are read past the page cache.
    pub fn is_direct(&self) -> bool {
        self.files.is_direct()
    }

    /// Files and streams that replies run on.
    pub fn running_count(&self) -> usize {
        self.running.len() + self.files.pin_count()
    }

    /// When [`DeviceCore::tick`] has something to do; `None`: never.
    pub fn due(&self) -> Option<Instant> {
        if mutated!(TimeoutSwallowed) && self.shard.queue_use().outstanding_reads > 0 {
            return None;
        }
        self.shard.poll_timeout()
    }

    /// Does what is due by now.
    pub fn tick(&mut self, now: Instant, host: &mut impl Host<R>) {
        if self.due().is_some_and(|due| due <= now) {
            self.shard.handle_timeout(now);
            self.settle(now, host);
            while let Some(change) = self.shard.poll_size_change() {
                host.announce(Notice::Size(&change));
            }
        }
    }

    /// Takes other settings.
    ///
    /// # Errors
    /// If they cannot work; then nothing changes.
    pub fn configure(
        &mut self,
        now: Instant,
        host: &mut impl Host<R>,
        config: EngineConfig,
    ) -> Result<(), ConfigError> {
        let taken = self.shard.handle_config(now, config);
        self.settle(now, host);
        taken
    }

    /// Does what the shard says until it has nothing to say.
    pub fn settle(&mut self, now: Instant, host: &mut impl Host<R>) {
        loop {
            if let Some(command) = self.shard.poll_command() {
                self.obey(host, command);
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

    fn obey(&mut self, host: &mut impl Host<R>, command: Command) {
        match command {
            Command::Read(read) => self.read(host, read),
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
