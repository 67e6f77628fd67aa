//! Registered streams. A stream without a path is kept until its last reply ends.

use headlong_engine::{PartSpec, Refusal, StreamId, StreamSpec};
use headlong_units::Instant;

use crate::device_core::DeviceCore;
use crate::host::Host;
use crate::open_job::PartId;
use crate::reads::close;
use crate::resources::Resources;

impl<R: Resources> DeviceCore<R> {
    /// Registers a stream unless it is registered already, which concurrent requests may cause.
    /// Returns whether it is new. The caller must call [`DeviceCore::drain_queues`] afterwards, or
    /// a method that does.
    ///
    /// # Errors
    /// If the shard accepts no more streams.
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

    /// A part of a stream has appeared or disappeared.
    pub fn handle_part(
        &mut self,
        now: Instant,
        host: &mut impl Host<R>,
        id: PartId,
        spec: PartSpec,
    ) {
        self.locations.forget_part(id);
        if spec.is_absent {
            // Close the file, so that its disk space is freed.
            let file = self.files.remove(id);
            close(host, file.into_iter().collect());
        }
        self.shard.handle_part(now, id.stream, id.part, spec);
        self.drain_queues(now, host);
    }

    /// The last path to a stream was removed; `is_regrouped`: its files belong to other streams
    /// now. Replies that hold an open version are completed from it.
    pub fn handle_stream_removed(
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
        self.drain_queues(now, host);
    }

    fn drop_stream(&mut self, now: Instant, stream: StreamId, is_regrouped: bool) {
        match is_regrouped {
            true => self.shard.handle_stream_regrouped(now, stream),
            false => self.shard.handle_stream_removed(now, stream),
        }
    }

    /// The shard has unregistered a stream.
    pub(crate) fn forget(&mut self, host: &mut impl Host<R>, stream: StreamId) {
        self.sources.remove(&stream);
        self.locations.forget(stream);
        close(host, self.files.forget(stream));
        host.forget(stream);
    }

    /// A reply starts to use a file.
    pub(crate) fn begin_running(&mut self, id: PartId) {
        *self.running.entry(id.stream).or_insert(0) += 1;
        self.files.pin(id);
    }

    /// A reply has stopped using a file.
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
