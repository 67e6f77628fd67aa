//! Which files are read as one, and for how long they are known.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant as Clock;

use headlong_engine::{PartSpec, StreamId, StreamSpec};

use super::DeviceThread;
use crate::describe::{Part, Question, Rest};
use crate::file::{Open, Version};
use crate::stream::{InStream, Stream};

/// So many chunk files before a reader are known. A prefetch is of 8 MB at first, and most chunks are
/// larger than 256 KiB.
const KNOWN_AHEAD: usize = 32;

impl DeviceThread {
    pub(super) fn handle_described(
        &mut self,
        version: Version,
        parts: Vec<Part>,
        rest: Option<Rest>,
    ) {
        let Some((_, asks)) = self.describing.remove(&version) else {
            return;
        };
        // Another file of the same run may have been described meanwhile, and it with that.
        if !self.host.by_version.contains_key(&version) {
            self.know(parts, rest);
        }
        match self.host.by_version.get(&version).copied() {
            Some(file) => asks.into_iter().for_each(|ask| self.begin(file, ask)),
            // More than the engine takes: as without.
            None => self.refuse(asks),
        }
        self.settle();
    }

    /// From now on these files are read as one stream.
    fn know(&mut self, parts: Vec<Part>, rest: Option<Rest>) {
        let (parts, rest) = self.until_known(parts, rest);
        let id = StreamId(self.fresh_id());
        let (opens, specs) = told(parts);
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

    /// What follows in a stream.
    pub(super) fn handle_followed(&mut self, id: StreamId, parts: Vec<Part>, rest: Option<Rest>) {
        if !self.host.streams.contains_key(&id) {
            return;
        }
        let (parts, rest) = self.until_known(parts, rest);
        let (opens, specs) = told(parts);
        let now = self.now();
        // Where they are too many for one stream it ends, and what follows is another.
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

    /// The files up to one that is part of a stream already: there this one ends. Of an old version
    /// nothing is read any more.
    fn until_known(
        &mut self,
        mut parts: Vec<Part>,
        rest: Option<Rest>,
    ) -> (Vec<Part>, Option<Rest>) {
        let is_known = |part: &Part| self.host.by_version.contains_key(&part.open.version);
        let known = parts.iter().position(is_known);
        parts.truncate(known.unwrap_or(parts.len()));
        for part in &parts {
            if let Some((old, _)) = self.host.by_key.get(&part.open.version.key).copied() {
                self.give_up(old);
            }
        }
        (parts, rest.filter(|_| known.is_none()))
    }

    fn add(&mut self, id: StreamId, opens: Vec<Arc<Open>>) {
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

    /// A program reads this file: what follows is looked at in time.
    pub(super) fn look_ahead(&mut self, (stream, part): InStream) {
        let Some(known) = self.host.streams.get_mut(&stream) else {
            return;
        };
        if known.parts.len() - part as usize <= KNOWN_AHEAD
            && let Some(rest) = known.rest.take()
        {
            (self.set_up.describe)(Question::Rest(stream, rest));
        }
    }

    pub(super) fn give_up(&mut self, stream: StreamId) {
        let now = self.now();
        self.core
            .handle_stream_gone(now, &mut self.host, stream, false);
        self.settle();
    }

    /// Closes files that changed, have no name any more, or are read no more.
    pub(super) fn look(&mut self) {
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

/// Files, and what the engine is told of them.
fn told(parts: Vec<Part>) -> (Vec<Arc<Open>>, Vec<PartSpec>) {
    let both = parts.into_iter().map(|Part { open, extents }| {
        let spec = PartSpec {
            size_bytes: open.version.size,
            extents,
            ..PartSpec::default()
        };
        (open, spec)
    });
    both.unzip()
}
