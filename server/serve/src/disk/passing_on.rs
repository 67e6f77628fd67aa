//! Pieces that go to the next process, and those that came from the one before.
//!
//! Numbers of streams and slots mean nothing there, so a piece goes with what tells its file in its
//! version from all others ([`super::StreamSource::versions`]). What comes waits in slots of its own
//! until somebody asks for its stream, as long as a viewer is remembered.

use std::collections::HashMap;
use std::sync::Arc;

use headlong_engine::{PieceBytes, Shard, Slot, StreamId};
use headlong_units::Instant;

use super::StreamSource;
use crate::raw::{Pool, View};

/// A piece that the next process is to have. Its slot is nobody's until the device is told that it was
/// passed on.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub(crate) version: Arc<str>,
    pub(crate) bytes: PieceBytes,
    pub(crate) slot: Slot,
    pub(crate) view: View,
}

/// A piece that the process before had.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) version: Arc<str>,
    /// In its file.
    pub(crate) offset: u64,
    pub(crate) was_read: bool,
    pub(crate) bytes: Vec<u8>,
}

/// Takes what the next process is to have out of a shard, the most useful first.
pub(super) fn take_out(
    now: Instant,
    shard: &mut Shard,
    sources: &HashMap<StreamId, Arc<dyn StreamSource>>,
    pool: &Arc<Pool>,
) -> Vec<Leaving> {
    let mut versions: HashMap<StreamId, Vec<Option<Arc<str>>>> = HashMap::new();
    let mut of_no_use = Vec::new();
    let mut leaving = Vec::new();
    for piece in shard.handle_pass_on(now) {
        let (bytes, slot) = (piece.bytes, piece.slot);
        let of_stream = versions.entry(piece.stream).or_insert_with(|| {
            let source = sources.get(&piece.stream);
            source.map_or_else(Vec::new, |source| source.versions())
        });
        let version = of_stream.get(bytes.part as usize).cloned().flatten();
        match (version, pool.view(slot, 0, bytes.length as u32)) {
            (Some(version), Some(view)) => leaving.push(Leaving {
                version,
                bytes,
                slot,
                view,
            }),
            _ => of_no_use.push(slot),
        }
    }
    shard.handle_passed_on(now, &of_no_use);
    leaving
}

/// What came, as long as it may be asked for.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// Until when; nothing has come yet if that is unknown.
    until: Option<Instant>,
    /// Slots with pieces of files that nobody has asked for yet.
    waiting: HashMap<Arc<str>, Vec<(Slot, PieceBytes)>>,
    waiting_count: u64,
    /// Which part of which stream a file is.
    known: HashMap<Arc<str>, (StreamId, u32)>,
}

impl Arrivals {
    /// When [`Arrivals::end`] is due.
    pub(super) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// A piece came.
    pub(super) fn take(
        &mut self,
        now: Instant,
        (shard, pool): (&mut Shard, &Arc<Pool>),
        sources: &HashMap<StreamId, Arc<dyn StreamSource>>,
        piece: Arrived,
    ) {
        if self.until.is_none() {
            self.until = Some(now + shard.config().chain_gap);
            for (stream, source) in sources {
                self.know(*stream, source.versions());
            }
        }
        let config = shard.config();
        // Who comes and was not here before is to have memory too.
        let waiting_max = config.memory_bytes / config.piece_bytes / 4 * 3;
        let known = self.known.get(&piece.version).copied();
        if known.is_none() && self.waiting_count >= waiting_max {
            return;
        }
        let Some(slot) = shard.handle_reserve(now) else {
            return;
        };
        if !pool.fill(slot, &piece.bytes) {
            shard.handle_not_received(now, slot);
            return;
        }
        let bytes = PieceBytes {
            part: known.map_or(0, |(_, part)| part),
            offset: piece.offset,
            length: piece.bytes.len() as u64,
            was_read: piece.was_read,
        };
        match known {
            Some((stream, _)) => receive(now, (shard, pool), stream, (slot, bytes)),
            None => {
                self.waiting_count += 1;
                let waiting = self.waiting.entry(piece.version).or_default();
                waiting.push((slot, bytes));
            }
        }
    }

    fn know(&mut self, stream: StreamId, versions: Vec<Option<Arc<str>>>) {
        let versions = (0..).zip(versions);
        let versions = versions.filter_map(|(part, version)| Some((version?, (stream, part))));
        self.known.extend(versions);
    }

    /// A stream is registered: what came of its files is its.
    pub(super) fn welcome(
        &mut self,
        now: Instant,
        (shard, pool): (&mut Shard, &Arc<Pool>),
        stream: StreamId,
        source: &dyn StreamSource,
    ) {
        if self.until.is_none() {
            return;
        }
        let versions = source.versions();
        for (part, version) in (0..).zip(&versions) {
            let came = version
                .as_ref()
                .and_then(|version| self.waiting.remove(version));
            for (slot, bytes) in came.unwrap_or_default() {
                self.waiting_count -= 1;
                let bytes = PieceBytes { part, ..bytes };
                receive(now, (shard, pool), stream, (slot, bytes));
            }
        }
        self.know(stream, versions);
    }

    /// What nobody has asked for by now is given up.
    pub(super) fn end(&mut self, now: Instant, shard: &mut Shard) {
        for (slot, _) in std::mem::take(self).waiting.into_values().flatten() {
            shard.handle_not_received(now, slot);
        }
    }
}

fn receive(
    now: Instant,
    (shard, pool): (&mut Shard, &Arc<Pool>),
    stream: StreamId,
    (slot, bytes): (Slot, PieceBytes),
) {
    if shard.handle_received(now, slot, stream, bytes) {
        pool.note_stream(&[slot], stream);
    }
}
