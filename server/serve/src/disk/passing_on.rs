//! Pieces that go to the next process, and those that came from the one before.
//!
//! Numbers of streams and slots mean nothing there, so a piece goes with the name that its file in its
//! version has on flash, which lasts. What comes waits in slots of its own until somebody asks for its
//! stream, as long as a viewer is remembered.

use std::collections::HashMap;
use std::sync::Arc;

use headlong_engine::{PieceBytes, Shard, Slot, StreamId};
use headlong_flash::FileKey;
use headlong_units::Instant;

use crate::raw::{Pool, View};

/// A piece that the next process is to have. Its slot is nobody's until the device is told that it was
/// passed on.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub(crate) file: FileKey,
    pub(crate) bytes: PieceBytes,
    pub(crate) slot: Slot,
    pub(crate) view: View,
}

/// A piece that the process before had.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) file: FileKey,
    /// In its file.
    pub(crate) offset: u64,
    pub(crate) was_read: bool,
    pub(crate) bytes: Vec<u8>,
}

/// Takes what the next process is to have out of a shard, the most useful first; last what came from
/// the process before, and was not asked for here.
pub(super) fn take_out(
    now: Instant,
    shard: &mut Shard,
    pool: &Arc<Pool>,
    arrivals: &mut Arrivals,
) -> Vec<Leaving> {
    let mut files: HashMap<StreamId, Vec<Option<FileKey>>> = HashMap::new();
    let mut pieces = Vec::new();
    for piece in shard.handle_pass_on(now) {
        let of_stream = files
            .entry(piece.stream)
            .or_insert_with(|| shard.file_keys(piece.stream));
        let file = of_stream.get(piece.bytes.part as usize).copied().flatten();
        pieces.push((file, piece.slot, piece.bytes));
    }
    for (file, waiting) in arrivals.leave() {
        pieces.extend(
            waiting
                .into_iter()
                .map(|(slot, bytes)| (Some(file), slot, bytes)),
        );
    }
    let mut of_no_use = Vec::new();
    let mut leaving = Vec::with_capacity(pieces.len());
    for (file, slot, bytes) in pieces {
        match (file, pool.view(slot, 0, bytes.length as u32)) {
            (Some(file), Some(view)) => leaving.push(Leaving {
                file,
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
    waiting: HashMap<FileKey, Vec<(Slot, PieceBytes)>>,
    waiting_count: u64,
    /// Which part of which stream a file is.
    known: HashMap<FileKey, (StreamId, u32)>,
    /// Nothing more is taken: another process serves.
    is_over: bool,
}

impl Arrivals {
    /// When [`Arrivals::end`] is due.
    pub(super) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// A piece came. Whether it is in memory now.
    pub(super) fn take(
        &mut self,
        now: Instant,
        (shard, pool): (&mut Shard, &Arc<Pool>),
        streams: impl Iterator<Item = StreamId>,
        piece: Arrived,
    ) -> bool {
        if self.is_over {
            return false;
        }
        if self.until.is_none() {
            self.until = Some(now + shard.config().chain_gap);
            for stream in streams {
                self.know(stream, shard.file_keys(stream));
            }
        }
        let config = shard.config();
        // Who comes and was not here before is to have memory too.
        let waiting_max = config.memory_bytes / config.piece_bytes / 4 * 3;
        let known = self.known.get(&piece.file).copied();
        if known.is_none() && self.waiting_count >= waiting_max {
            return false;
        }
        let Some(slot) = shard.handle_reserve(now) else {
            return false;
        };
        if !pool.fill(slot, &piece.bytes) {
            shard.handle_not_received(now, slot);
            return false;
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
                let waiting = self.waiting.entry(piece.file).or_default();
                waiting.push((slot, bytes));
                true
            }
        }
    }

    fn know(&mut self, stream: StreamId, files: Vec<Option<FileKey>>) {
        let files = (0..).zip(files);
        let files = files.filter_map(|(part, file)| Some((file?, (stream, part))));
        self.known.extend(files);
    }

    /// A stream is registered: what came of its files is its.
    pub(super) fn welcome(
        &mut self,
        now: Instant,
        (shard, pool): (&mut Shard, &Arc<Pool>),
        stream: StreamId,
    ) {
        if self.until.is_none() {
            return;
        }
        let files = shard.file_keys(stream);
        for (part, file) in (0..).zip(&files) {
            let came = file.and_then(|file| self.waiting.remove(&file));
            for (slot, bytes) in came.unwrap_or_default() {
                self.waiting_count -= 1;
                let bytes = PieceBytes { part, ..bytes };
                receive(now, (shard, pool), stream, (slot, bytes));
            }
        }
        self.know(stream, files);
    }

    /// What nobody has asked for; it is another process's from now on, as what still comes would be.
    fn leave(&mut self) -> HashMap<FileKey, Vec<(Slot, PieceBytes)>> {
        let over = Self {
            is_over: true,
            ..Self::default()
        };
        std::mem::replace(self, over).waiting
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
) -> bool {
    let is_taken = shard.handle_received(now, slot, stream, bytes);
    if is_taken {
        pool.note_stream(&[slot], stream);
    }
    is_taken
}
