//! Registered streams. What no path leads to any more stays as long as a reply runs on it.

use headlong_engine::{PartSpec, Refusal, StreamId, StreamSpec};
use headlong_units::Instant;

use crate::device_core::DeviceCore;
use crate::host::Host;
use crate::open_job::PartId;
use crate::reads::close;
use crate::resources::Resources;

impl<R: Resources> DeviceCore<R> {
    /// Registers a stream, unless it is: several requests may have found it unknown. Answers
    /// whether it is new. [`DeviceCore::settle`] is to follow, or a call that settles.
    ///
    /// # Errors
    /// If the shard takes no more.
    pub fn register(
        &mut self,
        now: Instant,
        host: &mut impl Host<R>,
        spec: StreamSpec,
        source: R::Source,
    ) -> Result<bool, Refusal> {
        let stream = spec.id;
        if self.sources.contains_key(&stream) {
            return Ok(false);
        }
        self.shard.handle_stream(now, spec)?;
        let name = || host.lasting_name(stream, &source);
        self.returning.welcome(now, &mut self.shard, stream, name);
        self.sources.insert(stream, source);
        Ok(true)
    }

    /// A part of a stream came or went.
    pub fn handle_part(
        &mut self,
        now: Instant,
        host: &mut impl Host<R>,
        id: PartId,
        spec: PartSpec,
    ) {
        if spec.is_absent {
            // So that its space is free.
            let file = self.files.remove(id);
            close(host, file.into_iter().collect());
        }
        self.shard.handle_part(now, id.stream, id.part, spec);
        self.settle(now, host);
    }

    /// No path leads to a stream any more; `is_regrouped`: its files are in others now. What has
    /// begun with an open version is finished from it.
    pub fn handle_stream_gone(
        &mut self,
        now: Instant,
        host: &mut impl Host<R>,
        stream: StreamId,
        is_regrouped: bool,
    ) {
        match self.running.contains_key(&stream) {
            true => {
                self.gone.insert(stream, is_regrouped);
            }
            false => self.drop_stream(now, stream, is_regrouped),
        }
        self.settle(now, host);
    }

    fn drop_stream(&mut self, now: Instant, stream: StreamId, is_regrouped: bool) {
        match is_regrouped {
            true => self.shard.handle_stream_regrouped(now, stream),
            false => self.shard.handle_stream_gone(now, stream),
        }
    }

    /// The shard has forgotten a stream.
    pub(crate) fn forget(&mut self, host: &mut impl Host<R>, stream: StreamId) {
        self.sources.remove(&stream);
        close(host, self.files.forget(stream));
        host.forget(stream);
    }

    /// A reply begins to run on a file.
    pub(crate) fn begin_running(&mut self, id: PartId) {
        *self.running.entry(id.stream).or_insert(0) += 1;
        self.files.pin(id);
    }

    /// A reply runs on a file no more.
    pub(crate) fn end_running(&mut self, now: Instant, host: &mut impl Host<R>, id: PartId) {
        close(host, self.files.unpin(id));
        let Some(running) = self.running.get_mut(&id.stream) else {
            return;
        };
        *running -= 1;
        if *running == 0 {
            self.running.remove(&id.stream);
            if let Some(is_regrouped) = self.gone.remove(&id.stream) {
                self.drop_stream(now, id.stream, is_regrouped);
            }
        }
    }
}
