//! Registration of streams: which files are read as one, and for how long.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant as Clock;

use headlong_engine::{PartSpec, StreamId, StreamSpec};

use super::DeviceThread;
use crate::file::{FileVersion, OpenFile};
use crate::inspection::{FileExtents, InspectionRequest, RunRemainder};
use crate::stream::{Stream, StreamFile};

/// Chunk files known ahead of a reader. The first prefetch is 8 MB, and most chunks are larger than
/// 256 KiB.
const KNOWN_AHEAD: usize = 32;

impl DeviceThread {
    pub(super) fn handle_described(
        &mut self,
        version: FileVersion,
        parts: Vec<FileExtents>,
        rest: Option<RunRemainder>,
    ) {
        let Some((_, asks)) = self.describing.remove(&version) else {
            return;
        };
        // It may have been described meanwhile, together with another file of its run.
        if !self.host.by_version.contains_key(&version) {
            self.know(parts, rest);
        }
        match self.host.by_version.get(&version).copied() {
            Some(file) => asks.into_iter().for_each(|ask| self.begin(file, ask)),
            // The engine has reached its limit: continue without help.
            None => self.refuse(asks),
        }
        self.settle();
    }

    /// Registers these files as one stream.
    fn know(&mut self, parts: Vec<FileExtents>, rest: Option<RunRemainder>) {
        let (parts, rest) = self.until_known(parts, rest);
        let id = StreamId(self.fresh_id());
        let (opens, specs) = part_specs(parts);
        let spec = StreamSpec {
            id,
            parts: specs,
            bit_rate: None,
        };
        let now = self.now();
        if self.core.register(now, &mut self.host, spec, ()).is_err() {
            return;
        }
        let stream = Stream {
            parts: Vec::new(),
            rest,
            last_asked: Clock::now(),
            users: HashSet::new(),
        };
        self.host.streams.insert(id, stream);
        self.add(id, opens);
    }

    /// Adds the files that follow in a stream.
    pub(super) fn handle_followed(
        &mut self,
        id: StreamId,
        parts: Vec<FileExtents>,
        rest: Option<RunRemainder>,
    ) {
        if !self.host.streams.contains_key(&id) {
            return;
        }
        let (parts, rest) = self.until_known(parts, rest);
        let (opens, specs) = part_specs(parts);
        let now = self.now();
        // With too many files for one stream, the stream ends here, and a new one follows.
        if self
            .core
            .shard_mut()
            .handle_more_parts(now, id, specs)
            .is_ok()
        {
            self.add(id, opens);
            if let Some(stream) = self.host.streams.get_mut(&id) {
                stream.rest = rest;
            }
        }
    }

    /// Keeps the files up to one that belongs to another stream; this stream ends there. Streams
    /// with an older version of a file are dropped.
    fn until_known(
        &mut self,
        mut parts: Vec<FileExtents>,
        rest: Option<RunRemainder>,
    ) -> (Vec<FileExtents>, Option<RunRemainder>) {
        let is_known = |part: &FileExtents| self.host.by_version.contains_key(&part.open.version);
        let known = parts.iter().position(is_known);
        parts.truncate(known.unwrap_or(parts.len()));
        for part in &parts {
            if let Some((old, _)) = self.host.by_key.get(&part.open.version.key).copied() {
                self.give_up(old);
            }
        }
        (parts, rest.filter(|_| known.is_none()))
    }

    fn add(&mut self, id: StreamId, opens: Vec<Arc<OpenFile>>) {
        let Some(stream) = self.host.streams.get_mut(&id) else {
            return;
        };
        for open in opens {
            let file = (id, stream.parts.len() as u32);
            self.host.by_version.insert(open.version, file);
            self.host.by_key.insert(open.version.key, file);
            stream.parts.push(open);
        }
    }

    /// A program reads this file: the files after it are inspected in time.
    pub(super) fn look_ahead(&mut self, (stream, part): StreamFile) {
        let Some(known) = self.host.streams.get_mut(&stream) else {
            return;
        };
        if known.parts.len() - part as usize <= KNOWN_AHEAD
            && let Some(rest) = known.rest.take()
        {
            (self.set_up.describe)(InspectionRequest::Rest(stream, rest));
        }
    }

    pub(super) fn give_up(&mut self, stream: StreamId) {
        let now = self.now();
        self.core
            .handle_stream_removed(now, &mut self.host, stream, false);
        self.settle();
    }

    /// Drops streams whose files changed, were deleted, or are no longer read.
    pub(super) fn drop_stale_streams(&mut self) {
        self.looked = Clock::now();
        let keep_open = self.wall(self.set_up.keep_open);
        let is_over = |stream: &Stream| {
            stream.last_asked.elapsed() >= keep_open
                || !stream.parts.iter().all(|open| open.is_unchanged())
        };
        let streams = self.host.streams.iter();
        let over = streams.filter_map(|(id, stream)| is_over(stream).then_some(*id));
        let over: Vec<StreamId> = over.collect();
        for stream in over {
            self.give_up(stream);
        }
    }
}

/// The files, and their description for the engine.
fn part_specs(parts: Vec<FileExtents>) -> (Vec<Arc<OpenFile>>, Vec<PartSpec>) {
    let both = parts.into_iter().map(|FileExtents { open, extents }| {
        let spec = PartSpec {
            size_bytes: open.version.size,
            extents,
            ..PartSpec::default()
        };
        (open, spec)
    });
    both.unzip()
}
